"""From the command line to a running job: the ranks of this command, and the one way into what they do together.

Imports neither MPI nor Numba: both read the environment when they are imported, so `job` sets it first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.jit.kernel_cache import kernel_folder
from ridgeline.runtime.environment import check_limits
from ridgeline.runtime.errors import ConfigError, LauncherError
from ridgeline.runtime.launcher import detect_launch, launch_ranks
from ridgeline.runtime.threads import configure_threads, cores_available, limit_pools

if TYPE_CHECKING:
    from mpi4py import MPI


def start_ranks(ranks: int | None, arguments: list[str] | None = None) -> int | None:
    """Start `ranks` MPI ranks of this same command and return their exit code; None: run in this process.

    Raises LauncherError if the ranks asked for contradict the launcher that started this process.
    """
    check_limits()
    launch = detect_launch()
    if launch is not None:
        if ranks is not None and ranks != launch.size:
            raise LauncherError(
                f"-n {ranks} inside a job that {launch.launcher} started with {launch.size} ranks; "
                f"leave -n out, or start without the launcher"
            )
        return None
    if ranks is None or ranks == 1:
        return None
    return launch_ranks(ranks, sys.argv[1:] if arguments is None else arguments)


def prepare_rank(threads: int = 1) -> Path:
    """Prepare this process for compiled kernels without starting MPI; return the kernel cache.

    It gets `threads` threads for Numba, one for every other pool, and the kernel cache of these sources. Call before
    Numba is imported.
    """
    configure_threads(threads)
    return kernel_folder()


def join_from_python(threads: int) -> MPI.Comm:
    """Make a Python program or notebook of a user a rank, and return its communicator. Collective over the world.

    Numba may run already, for other things: what can still be set is set, but not how many of its threads are used.
    An exception that nobody catches ends a job of several ranks, with SystemExit (see
    `parallel.communicator.end_job`). Call from the thread that computes.

    Raises ConfigError if Numba was started with fewer threads, and what `job` raises.
    """
    check_limits()
    if "numba" not in sys.modules:
        prepare_rank(threads if detect_launch() else max(threads, cores_available()))
    import numba

    from ridgeline.parallel.allreduce import errors_on_all_ranks
    from ridgeline.parallel.communicator import end_job, world

    limit_pools()
    comm = world()
    if comm.size > 1:
        # Communicators of its own: the caller may have freed the one that it got when an exception comes.
        kept, failures = comm.Dup(), comm.Dup()
        sys.excepthook = lambda kind, error, trace: end_job(kept, failures, error)
    with errors_on_all_ranks(comm):
        available = int(numba.config.NUMBA_NUM_THREADS)
        if threads > available:
            raise ConfigError(
                f"run.threads: got {threads}, but this Python has started Numba with {available}; need at most that, "
                f"or start Python with NUMBA_NUM_THREADS={threads}"
            )
    return comm


@contextmanager
def job(threads: int = 1, debug: bool = False) -> Iterator[MPI.Comm]:
    """Enter the job that this process is a rank of, and give its communicator. Collective over the world.

    threads: of each rank. A failure inside the block ends the whole job with SystemExit (see
    `parallel.communicator.ends_job_on_error`); debug: with tracebacks. Enter before Numba is imported.

    Raises RidgelineError if limits of this process keep MPI from starting, LauncherError if the launcher and the MPI
    library do not match.
    """
    check_limits()
    prepare_rank(threads)
    from ridgeline.parallel.communicator import ends_job_on_error, world
    from ridgeline.parallel.lost_ranks import notice_lost_ranks

    comm = world()
    with ends_job_on_error(comm, debug), notice_lost_ranks(comm):
        yield comm
