"""The world communicator, and how a failing rank ends the job: once, at once, with its message."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import mpi4py
from mpi4py import MPI

from ridgeline.runtime.device_errors import device_error
from ridgeline.runtime.errors import DeviceError, RidgelineError
from ridgeline.runtime.launcher import check_launch
from ridgeline.runtime.signals import stops_at_once

T = TypeVar("T")
log = logging.getLogger(__name__)

# How long a failing rank waits for the others to fail as well before it ends the job for all.
AGREE_SECONDS = 1.0
_POLL = 0.005  # seconds between two looks at ranks that are waited for


def check_world() -> None:
    """Raise LauncherError if the launcher started several ranks but MPI sees only this one. No communication."""
    check_launch(MPI.COMM_WORLD.size, mpi_library())


def world() -> MPI.Comm:
    """Return a duplicate of the world communicator after checking the launcher. Collective, call once.

    Raises LauncherError if the launcher and the MPI library do not match.
    """
    check_world()
    return MPI.COMM_WORLD.Dup()


def mpi_library() -> str:
    """Return the MPI library's name and version in one line."""
    text = MPI.Get_library_version().strip()
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("MPICH Version"):
        return "MPICH " + lines[0].split(":")[-1].strip()
    return lines[0].rstrip("\x00") if lines else "unknown MPI"


def mpi_versions() -> dict[str, str]:
    """Return the versions of mpi4py, the MPI standard and the MPI library."""
    return {
        "mpi4py": mpi4py.__version__,
        "mpi_standard": ".".join(map(str, MPI.Get_version())),
        "mpi_library": mpi_library(),
    }


@contextmanager
def node_communicator(comm: MPI.Comm) -> Iterator[MPI.Comm]:
    """Give the communicator of the ranks that share this rank's node, for the block. Collective.

    Who only asks how many they are takes `parallel.layout.place_on_node`.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        yield node
    finally:
        node.Free()


def in_turn_per_node(comm: MPI.Comm, action: Callable[[], T]) -> T:
    """Run `action` on one rank of each node first, then on the others. Collective.

    This is for compiling. The first rank fills the node's kernel cache, and the others load from it. Two ranks, or
    two runs, never write the same cache entry at the same time. `action` must not communicate.
    """
    with node_communicator(comm) as node:
        if node.rank == 0:
            with stops_at_once():
                result = action()
        else:
            from numba.core.registry import cpu_target

            # Meanwhile load Numba's tables of functions, which takes 0.3 s at the first call.
            cpu_target.target_context.refresh()
        wait_idle(node)
        if node.rank != 0:
            result = action()
    return result


def wait_idle(comm: MPI.Comm) -> None:
    """Wait for all ranks without spinning, which would take cores from the one that compiles. Collective."""
    everyone = comm.Ibarrier()
    while not everyone.Test():
        time.sleep(_POLL)


def _report(comm: MPI.Comm, error: BaseException, debug: bool, alone: bool = False) -> None:
    named = isinstance(error, RidgelineError) and not (alone and isinstance(error, DeviceError))
    prefix = f"rank {comm.rank}: " if comm.size > 1 and not named else ""
    if isinstance(error, RidgelineError) and not debug:
        text = f"error: {prefix}{error}\n"
    elif isinstance(error, MemoryError):
        text = f"error: rank {comm.rank} is out of memory ({error}); use a smaller grid or more nodes\n"
    else:
        text = f"{prefix}{''.join(traceback.format_exception(error))}"
    sys.stderr.write(text)
    sys.stderr.flush()


@contextmanager
def ends_job_on_error(comm: MPI.Comm, debug: bool = False) -> Iterator[None]:
    """Turn an exception inside the block into the end of the whole job, as `end_job` says. Collective."""
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
    """End the whole job after an error of this rank. failures: a duplicate of comm for this alone.

    If all ranks raise (a wrong setting, or a full disk that the writer reports to all), rank 0 prints. Every rank
    exits with the error's code. If only some do, the others would wait for them for ever. So the first of them prints
    its message and aborts the job with the same code.
    """
    error = device_error(error) or error
    code = error.exit_code if isinstance(error, RidgelineError) else 1
    together = failures.Ibarrier()
    deadline = time.monotonic() + AGREE_SECONDS
    while not together.Test() and time.monotonic() < deadline:
        time.sleep(_POLL)
    if not together.Test():
        _report(comm, error, debug, alone=True)
        comm.Abort(code)
    if comm.rank == 0:
        _report(comm, error, debug)
    raise SystemExit(code) from None
