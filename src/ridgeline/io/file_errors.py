"""What goes wrong with files, in words for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mpi4py import MPI as mpi

from ridgeline.runtime.errors import CheckpointError, RidgelineError

if TYPE_CHECKING:
    from mpi4py import MPI


def reason(error: Exception) -> str:
    """Return what went wrong, without stacks: the system's words for OSError and MPI errors."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    if isinstance(error, mpi.Exception):
        lines = [line for line in error.Get_error_string().splitlines() if line.strip("\x00 ")]
        # MPICH: "ADIOI_GEN_WRITECONTIG(80).........: Other I/O error No space left on device"
        return lines[-1].split(": ", 1)[-1].removeprefix("Other I/O error ").strip() if lines else "MPI error"
    return f"{type(error).__name__}: {error}"


def explain(what: str, comm: MPI.Comm, error: Exception) -> RidgelineError:
    """Return an error for people: Ridgeline's own as they are, others as CheckpointError "what: rank: why"."""
    if isinstance(error, RidgelineError):
        return error
    place = f"rank {comm.rank}: " if comm.size > 1 else ""
    problem = CheckpointError(f"{what}: {place}{reason(error)}")
    problem.__cause__ = error  # for a traceback, where one is asked for
    return problem


@contextmanager
def explained(what: str, comm: MPI.Comm) -> Iterator[None]:
    """Raise what is raised inside, block or decorated function, as `explain` says it. Not collective."""
    try:
        yield
    except Exception as error:
        problem = explain(what, comm, error)
        raise problem from problem.__cause__
