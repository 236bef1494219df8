"""From the command line to a running job: starting the ranks of a command, and entering the job as one of them.

Imports neither MPI nor Numba: both read the environment when they are imported, so `job` sets it first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.jit.kernel_folders import kernel_folder
from ridgeline.runtime.environment import check_limits
from ridgeline.runtime.errors import ConfigError, LauncherError
from ridgeline.runtime.launcher import detect_launch, launch_ranks
from ridgeline.runtime.machine import configure_threads, cores_available, limit_pools

if TYPE_CHECKING:
    from mpi4py import MPI


def start_ranks(ranks: int | None, arguments: list[str] | None = None) -> int | None:
    """Start `ranks` MPI ranks of this same command and return their exit code, or None to run in this process.

    Raises LauncherError if `ranks` contradicts the launcher that started this process.
    """
    check_limits()
    launch = detect_launch()
    if launch is not None:
        if ranks is not None and ranks != launch.size:
            raise LauncherError(
                f"-n {ranks} cannot be used inside a job that {launch.launcher} started with {launch.size} ranks. "
                f"Omit -n, or start without the launcher."
            )
        return None
    if ranks is None or ranks == 1:
        return None
    return launch_ranks(ranks, sys.argv[1:] if arguments is None else arguments)


def prepare_rank(threads: int = 1) -> Path:
    """Prepare this process for compiled kernels without starting MPI; return the folder of the kernel cache.

    Numba gets `threads` threads and every other pool one. Call before Numba is imported.
    """
    configure_threads(threads)
    return kernel_folder()


def join_from_python(threads: int) -> MPI.Comm:
    """Make a user's Python program or notebook a rank, and return its communicator. Collective over the world.

    If Numba runs already, its number of threads stays; everything else is set. An uncaught exception ends a job of
    several ranks with SystemExit (`parallel.communicator.end_job`). Call from the thread that computes.

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
        # Separate communicators, because the caller may have freed the returned one when an exception occurs.
        kept, failures = comm.Dup(), comm.Dup()
        sys.excepthook = lambda kind, error, trace: end_job(kept, failures, error)
    with errors_on_all_ranks(comm):
        available = int(numba.config.NUMBA_NUM_THREADS)
        if threads > available:
            raise ConfigError(
                f"run.threads is {threads}, but it must be at most {available}, the number of threads with which "
                f"this Python has started Numba. Otherwise start Python with NUMBA_NUM_THREADS={threads}."
            )
    return comm


@contextmanager
def job(threads: int = 1, debug: bool = False) -> Iterator[MPI.Comm]:
    """Enter the job of which this process is a rank, and provide its communicator. Collective over the world.

    A failure inside the block ends the whole job with SystemExit (`parallel.communicator.ends_job_on_error`). Enter
    before Numba is imported.

    threads: of each rank. debug: whether errors are printed with tracebacks.

    Raises RidgelineError if limits of this process keep MPI from starting, LauncherError if the launcher and the MPI
    library do not match.
    """
    check_limits()
    prepare_rank(threads)
    from ridgeline.parallel.communicator import ends_job_on_error, notice_lost_ranks, world

    comm = world()
    with ends_job_on_error(comm, debug), notice_lost_ranks(comm):
        yield comm
