"""What the model asks of an engine, on CPUs and on GPUs alike.

`engine_cpu.CpuEngine` and `device.engine_cuda.CudaEngine` are the two engines. Each holds the fields of one block,
calls the sweep of its kernels, and exchanges ghosts.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from ridgeline.blocks.block import BlockArray
from ridgeline.models.gray_scott.physics import Coefficients

OUTSIDE = (1.0, 0.0)  # u, v beyond a fixed boundary: the rest state


class Engine(Protocol):
    """Holds u and v of one block on a device, advances them and keeps their ghosts up to date."""

    steps_per_sweep: int
    bytes_exchanged: float  # sent to other ranks by this rank, per step
    messages: float  # sent to other ranks by this rank, per step
    method: str  # how it exchanges and sweeps, for the run header

    @property
    def steps_per_call(self) -> int:
        """The most steps that the next call of `advance` makes."""

    def compile(self) -> None:
        """Compile or load every kernel."""

    def host(self) -> tuple[NDArray[Any], ...]:
        """Return the owned u and v on the host: views on a CPU, the latest copies from a GPU."""

    def commit(self) -> None:
        """Take over what was written into the arrays of `host`, and fill the ghosts. Collective, with neighbours."""

    def use_coefficients(self, coefficients: Coefficients) -> None:
        """Advance with the coefficients of steps of another length from now on."""

    def squares(self) -> list[tuple[float, float]]:
        """Return the sums over this rank's cells of (new - old)^2 and new^2 of the last sweep, for u and for v."""

    def advance(self, step: int, most: int) -> int:
        """Advance from `step` by at most `most` steps, return how many. Collective, with neighbours.

        A GPU may still be at work when it returns, at most one launch behind.
        """

    def fields(self) -> tuple[BlockArray, ...]:
        """Return the present u and v on the host, ghosts not guaranteed."""

    def nonfinite(self) -> int:
        """Return how many owned cells of u and v are not finite, without copying the fields to the host."""

    def allocated(self) -> int:
        """Return the bytes of fields held."""
