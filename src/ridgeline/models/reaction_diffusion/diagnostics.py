"""What a run says of its present state: extremes and means of the species, and where they are not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ridgeline.blocks.field_summary import locate_first_nonfinite, summarise_fields
from ridgeline.models.reaction_diffusion.engine import Engine

if TYPE_CHECKING:
    from mpi4py import MPI


class Diagnostics:
    """Global values of the species, equal on all ranks."""

    def __init__(self, names: tuple[str, ...], engine: Engine, comm: MPI.Comm, threads: int) -> None:
        self._names, self._engine, self._comm, self._threads = names, engine, comm, threads

    def values(self) -> dict[str, float]:
        """Return minimum, maximum and mean of each species. Collective."""
        return summarise_fields(self._comm, self._names, self._engine.fields(), self._threads)

    def nonfinite(self) -> str | None:
        """Say where the state is not finite, None if it is. Collective."""
        if not self._comm.allreduce(self._engine.nonfinite()):
            return None
        return locate_first_nonfinite(self._comm, self._names, self._engine.fields(), self._threads)
