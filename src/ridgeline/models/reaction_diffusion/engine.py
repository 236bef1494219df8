"""What the model asks of an engine.

`engine_cpu.CpuEngine` and `device.engine_cuda.CudaEngine` are the two engines.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from ridgeline.blocks.block import BlockArray


class ReactionEngine(Protocol):
    """Holds the species of one block on a device, advances them and keeps their ghosts up to date."""

    steps_per_sweep: int
    bytes_exchanged: float  # sent to other ranks by this rank, per step
    messages: float  # sent to other ranks by this rank, per step
    method: str  # how it exchanges and sweeps, for the run header

    @property
    def steps_per_call(self) -> int:
        """The most steps that the next call of `advance` makes."""

    def compile(self) -> None:
        """Compile or load every kernel."""

    def use_times(self, times: list[float], dt: float) -> None:
        """Let the next sweep make steps that begin at these times, each of length dt.

        Where a call may make several sweeps, nothing depends on the time, and the times are those of the first one.
        """

    def host(self) -> tuple[NDArray[Any], ...]:
        """Return the owned cells of each species on the host: views on a CPU, the latest copies from a GPU."""

    def commit(self) -> None:
        """Take over what was written into the arrays of `host`, and fill the ghosts. Collective, with neighbours."""

    def advance(self, step: int, most: int) -> int:
        """Advance from `step` by at most `most` steps, return how many. Collective, with neighbours."""

    def squares(self) -> list[tuple[float, float]]:
        """Return the sums over this rank's cells of (change in a step)^2 and u^2 of each species."""

    def fields(self) -> tuple[BlockArray, ...]:
        """Return the present species on the host, ghosts not guaranteed."""

    def nonfinite(self) -> int:
        """Return how many owned cells of all species are not finite."""

    def allocated(self) -> int:
        """Return the bytes of fields held."""
