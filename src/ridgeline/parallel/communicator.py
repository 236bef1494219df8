"""Communicators, waiting without spinning, and how a failing or lost rank ends the job: once, with its message."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NoReturn, TypeVar

import mpi4py
from mpi4py import MPI

from ridgeline.runtime.console import log_file
from ridgeline.runtime.device_errors import device_error
from ridgeline.runtime.errors import DeviceError, RidgelineError
from ridgeline.runtime.launcher import check_launch
from ridgeline.runtime.process_watch import ProcessWatch, process_space
from ridgeline.runtime.signals import stops_at_once

T = TypeVar("T")
log = logging.getLogger(__name__)

AGREE_SECONDS = 1.0  # that a failing rank waits for the others to fail as well before it ends the job for all
GRACE = 5.0  # seconds in which most launchers end the job of a lost rank themselves, with their own message
POLL = 5e-4  # seconds between two tests of a request in `wait_asleep`
_COMPILING_RANKS = 16  # of a node, which share its kernels: each compiler takes some 100 MB
_LONG_POLL = 0.005  # the same where waiting takes long: for a rank that compiles, fails or ends


def check_world() -> None:
    """Raise LauncherError if the launcher started several ranks but MPI sees only this one. No communication."""
    check_launch(MPI.COMM_WORLD.size, mpi_library())


def world() -> MPI.Comm:
    """Return a duplicate of the world communicator after checking the launcher. Collective, call once.

    Raises LauncherError if the launcher and the MPI library do not match.
    """
    check_world()
    return MPI.COMM_WORLD.Dup()


def library_version() -> str:
    """Return what the MPI library says of its name, version and devices, of several lines."""
    return MPI.Get_library_version().strip()


def mpi_library() -> str:
    """Return the MPI library's name and version in one line."""
    text = library_version()
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("MPICH Version"):
        return "MPICH " + lines[0].split(":")[-1].strip()
    return lines[0].rstrip("\x00") if lines else "unknown MPI"


def mpi_versions() -> dict[str, str]:
    """Return the versions of mpi4py, the MPI standard and the MPI library, and how threads may call it."""
    return {
        "mpi4py": mpi4py.__version__,
        "mpi_standard": ".".join(map(str, MPI.Get_version())),
        "mpi_library": mpi_library(),
        "mpi_thread_level": thread_level(),
    }


def thread_level() -> str:
    """Return the level of thread support that MPI has in this process: single, funneled, serialized or multiple."""
    levels = {
        MPI.THREAD_SINGLE: "single",
        MPI.THREAD_FUNNELED: "funneled",
        MPI.THREAD_SERIALIZED: "serialized",
        MPI.THREAD_MULTIPLE: "multiple",
    }
    return levels[MPI.Query_thread()]


def mpi_environment() -> dict[str, str]:
    """Return the environment variables that steer MPI libraries and the network below them."""
    prefixes = ("FI_", "MPICH_", "MPIR_CVAR_", "OMPI_MCA_", "PMIX_MCA_", "UCX_")
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(prefixes)}


@contextmanager
def node_communicator(comm: MPI.Comm) -> Iterator[MPI.Comm]:
    """Provide the communicator of the ranks that share this rank's node, for the block. Collective.

    `parallel.layout.place_on_node` is shorter where only their number is needed.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        yield node
    finally:
        node.Free()


def compile_on_nodes(comm: MPI.Comm, action: Callable[[], T]) -> T:
    """Run an action that compiles kernels on all ranks; each kernel is compiled once on a node.

    The first 16 ranks of a node run it at the same time. Each of them begins with another part of the kernels of
    `compile_kernels`, and loads those that another one has compiled from the node's kernel cache. The other ranks of
    the node follow, and load all of them.

    Parameters
    ----------
    comm : Comm
        All ranks.
    action : callable
        Takes nothing, and must not communicate.

    Returns
    -------
    object
        What `action` returned on this rank.

    Notes
    -----
    Collective.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`:

    >>> from mpi4py import MPI
    >>> from ridgeline.api import compile_on_nodes
    >>> compile_on_nodes(MPI.COMM_WORLD, lambda: "compiled")
    'compiled'
    """
    from ridgeline.jit.kernel import sharing_kernels

    with node_communicator(comm) as node:
        sharers = min(node.size, _COMPILING_RANKS)
        compiles = node.rank < sharers
        if compiles:
            with stops_at_once() if node.rank == 0 else nullcontext(), sharing_kernels(node.rank, sharers):
                result = action()
        else:
            from numba.core.registry import cpu_target

            # Meanwhile load Numba's tables of functions, which takes 0.3 s at the first call.
            cpu_target.target_context.refresh()
        with stops_at_once() if node.rank == 0 else nullcontext():
            sleeping_barrier(node, _LONG_POLL)
        if not compiles:
            result = action()
    return result


def wait_asleep(request: MPI.Request, poll: float = POLL) -> None:
    """Wait for a request, asleep between tests: MPI's own wait spins, and takes a core from ranks that work."""
    while not request.Test():
        time.sleep(poll)


def sleeping_barrier(comm: MPI.Comm, poll: float = POLL) -> None:
    """Wait for all ranks, asleep between tests, which leaves shared cores to ranks that still work. Collective."""
    wait_asleep(comm.Ibarrier(), poll)


def _report(comm: MPI.Comm, error: BaseException, debug: bool, alone: bool = False) -> None:
    named = isinstance(error, RidgelineError) and not (alone and isinstance(error, DeviceError))
    prefix = f"rank {comm.rank}: " if comm.size > 1 and not named else ""
    if isinstance(error, RidgelineError) and not debug:
        text = f"error: {prefix}{error}\n"
    elif isinstance(error, MemoryError):
        text = f"error: rank {comm.rank} is out of memory ({error}). Use a smaller grid or more nodes.\n"
    else:
        text = f"{prefix}{''.join(traceback.format_exception(error))}"
    log_file.error("%s", text.rstrip())
    sys.stderr.write(text)
    sys.stderr.flush()


@contextmanager
def ends_job_on_error(comm: MPI.Comm, debug: bool = False) -> Iterator[None]:
    """End the whole job if the block raises an exception on any rank (`end_job`). Collective."""
    failures = comm.Dup()
    try:
        yield
    except SystemExit:
        raise
    except BaseException as error:
        end_job(comm, failures, error, debug)
    else:
        failures.Free()


def end_job(comm: MPI.Comm, failures: MPI.Comm, error: BaseException, debug: bool = False) -> NoReturn:
    """End the whole job after an error of this rank. failures: a duplicate of comm that only this function uses.

    If all ranks fail (a wrong setting, or a full disk that the writer reports to all), rank 0 prints the message and
    every rank exits with the error's code. If only some fail, the others would wait for them for ever, so the first
    of them prints its message and aborts the job with the same code.
    """
    error = device_error(error) or error
    code = error.exit_code if isinstance(error, RidgelineError) else 1
    all_failed = failures.Ibarrier()
    deadline = time.monotonic() + AGREE_SECONDS
    while not all_failed.Test() and time.monotonic() < deadline:
        time.sleep(_LONG_POLL)
    if not all_failed.Test():
        _report(comm, error, debug, alone=True)
        comm.Abort(code)
    if comm.rank == 0:
        _report(comm, error, debug)
    raise SystemExit(code) from None


@contextmanager
def notice_lost_ranks(comm: MPI.Comm, grace: float = GRACE) -> Iterator[None]:
    """Abort the job if a rank of this node dies within the block. Collective over comm, and a barrier of each node.

    srun without --kill-on-bad-exit lets the other ranks wait for a dead one until the time limit. MPI does not report
    it, so each rank watches the processes of its node. A rank that is alone on its node, a node that is lost as a
    whole, and ranks in separate containers are not noticed. Nothing is watched where only the thread that initialised
    MPI may call it. The watching thread calls nothing but Abort, while the rank waits in another call for ever.
    """
    with node_communicator(comm) as node:
        if node.size == 1 or MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            yield
            return
        here = process_space()
        processes = node.allgather((os.getpid(), here, comm.rank))
        rank_of = _ranks_in_space(processes, here)

        def lost(process: int) -> None:
            time.sleep(grace)
            sys.stderr.write(
                f"error: rank {rank_of[process]} on {socket.gethostname()} ended without a message, as a process "
                f"does that is killed or runs out of memory. The other ranks would wait for it forever, so the job "
                f"ends.\n"
            )
            sys.stderr.flush()
            comm.Abort(1)

        watch = ProcessWatch(rank_of.keys() - {os.getpid()}, lost)
        try:
            yield
            sleeping_barrier(node, _LONG_POLL)
        finally:
            watch.close()


def _ranks_in_space(processes: list[tuple[int, str, int]], here: str) -> dict[int, int]:
    """Return the ranks of (process number, space of numbers, rank) that are in this space, by process number."""
    return {number: rank for number, space, rank in processes if space and space == here}
