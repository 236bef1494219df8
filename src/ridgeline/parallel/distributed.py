"""A named array that is spread over ranks: what io saves and what diagnostics reduce."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class DistributedArray:
    """One rank's part of a global array: plain data, no communicator.

    `local` is the owned part (a view, rows may be strided, ghosts left out); its cell 0 has the global index
    `offset_global`. The parts of all ranks tile `shape_global` exactly once.
    """

    name: str
    shape_global: tuple[int, ...]
    offset_global: tuple[int, ...]
    local: NDArray[Any]

    @property
    def shape_local(self) -> tuple[int, ...]:
        """Shape of this rank's part."""
        return tuple(self.local.shape)
