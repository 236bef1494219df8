"""What a run of Gray-Scott says of its state: extremes and means of U and V, and where they are not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ridgeline.blocks.field_summary import locate_first_nonfinite, summarise_fields
from ridgeline.models.gray_scott.engine import Engine
from ridgeline.models.gray_scott.recorders import NAMES

if TYPE_CHECKING:
    from mpi4py import MPI


class Diagnostics:
    """Global values of the fields of an engine, equal on all ranks."""

    def __init__(self, engine: Engine, comm: MPI.Comm, threads: int) -> None:
        self._engine, self._comm, self._threads = engine, comm, threads

    def values(self) -> dict[str, float]:
        """Return minimum, maximum and mean of U and V. Collective."""
        return summarise_fields(self._comm, NAMES, self._engine.fields(), self._threads)

    def nonfinite(self) -> str | None:
        """Say where the state is not finite, None if it is. Collective."""
        if not self._comm.allreduce(self._engine.nonfinite()):
            return None
        return locate_first_nonfinite(self._comm, NAMES, self._engine.fields(), self._threads)
