"""Errors of files, as sentences for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mpi4py import MPI as mpi

from ridgeline.parallel.allreduce import broadcast_decision
from ridgeline.runtime.errors import CheckpointError, RidgelineError, full_stop

if TYPE_CHECKING:
    from mpi4py import MPI


def error_reason(error: Exception) -> str:
    """Return the reason of an error without a traceback: for OSError and MPI errors the system's words."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    if isinstance(error, mpi.Exception):
        lines = [line for line in error.Get_error_string().splitlines() if line.strip("\x00 ")]
        # MPICH: "ADIOI_GEN_WRITECONTIG(80).........: Other I/O error No space left on device"
        return lines[-1].split(": ", 1)[-1].removeprefix("Other I/O error ").strip() if lines else "MPI error"
    return f"{type(error).__name__}: {error}"


def explain(what: str, comm: MPI.Comm, error: Exception, advice: str = "") -> RidgelineError:
    """Return a RidgelineError unchanged, and any other error as a CheckpointError "what: rank: reason. advice"."""
    if isinstance(error, RidgelineError):
        return error
    place = f"rank {comm.rank}: " if comm.size > 1 else ""
    problem = CheckpointError(f"{what}: {place}{full_stop(error_reason(error))} {advice}".rstrip())
    problem.__cause__ = error  # for tracebacks, which debugging options print
    return problem


@contextmanager
def explain_errors(what: str, comm: MPI.Comm, advice: str = "") -> Iterator[None]:
    """Raise what the block, or the decorated function, raises as `explain` returns it. Local."""
    try:
        yield
    except Exception as error:
        problem = explain(what, comm, error, advice)
        raise problem from problem.__cause__


def on_rank_0(comm: MPI.Comm, work: Callable[[], None], failed: Callable[[str], RidgelineError]) -> None:
    """Call `work` on rank 0, and raise its error on all ranks. failed: makes the error from an OSError's reason."""

    def work_with_errors() -> None:
        try:
            work()
        except OSError as error:
            raise failed(error_reason(error)) from error

    broadcast_decision(comm, work_with_errors)
