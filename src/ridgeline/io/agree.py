"""File operations that succeed on all ranks or raise on all, so that no rank waits for one that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mpi4py import MPI as mpi

from ridgeline.runtime.errors import CheckpointError, RidgelineError

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")


def explain(what: str, comm: MPI.Comm, error: Exception) -> RidgelineError:
    """Return an error for people: Ridgeline's own as they are, others as CheckpointError "what: rank: why"."""
    if isinstance(error, RidgelineError):
        return error
    place = f"rank {comm.rank}: " if comm.size > 1 else ""
    problem = CheckpointError(f"{what}: {place}{reason(error)}")
    problem.__cause__ = error  # for a traceback, where one is asked for
    return problem


def reason(error: Exception) -> str:
    """Return what went wrong, without stacks: the system's words for OSError and MPI errors."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    if isinstance(error, mpi.Exception):
        lines = [line for line in error.Get_error_string().splitlines() if line.strip("\x00 ")]
        # MPICH: "ADIOI_GEN_WRITECONTIG(80).........: Other I/O error No space left on device"
        return lines[-1].split(": ", 1)[-1].removeprefix("Other I/O error ").strip() if lines else "MPI error"
    return f"{type(error).__name__}: {error}"


def raise_together(comm: MPI.Comm, error: RidgelineError | None) -> None:
    """Raise on all ranks if any rank has an error: the one of the lowest such rank. Collective."""
    first = comm.allreduce(comm.size if error is None else comm.rank, op=mpi.MIN)
    if first < comm.size:
        raise comm.bcast(error, root=first)


def together(comm: MPI.Comm, what: str, action: Callable[[], T]) -> T:
    """Return `action()` of every rank; if it raises on some, all raise as `explain` says. Collective."""
    problem: RidgelineError | None = None
    try:
        result = action()
    except Exception as error:  # whatever it is, the other ranks must hear of it
        problem = explain(what, comm, error)
    raise_together(comm, problem)
    return result


def on_rank_0(comm: MPI.Comm, what: str, action: Callable[[], T]) -> T:
    """Return rank 0's `action()` on all ranks; if it raises there, all raise. Collective."""
    result: Any = together(comm, what, lambda: action() if comm.rank == 0 else None)
    shared: T = comm.bcast(result)
    return shared
