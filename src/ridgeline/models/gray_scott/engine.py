"""What the model asks of an engine, on CPUs and on GPUs alike, and how both cut a block around its exchange.

`engine_cpu.CpuEngine` and `device.engine_cuda.CudaEngine` are the two engines. Each holds the fields of one block,
calls the sweep of its kernels, and exchanges ghosts.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.models.gray_scott.physics import Coefficients

Box = tuple[int, int, int, int, int, int]
"""Local cells of a block: (z0, z1, y0, y1, x0, x1) with z0 <= k < z1 and so on."""

OUTSIDE = (1.0, 0.0)  # u, v beyond a fixed boundary: the rest state


class Engine(Protocol):
    """Holds u and v of one block on a device, advances them and keeps their ghosts up to date."""

    steps_per_sweep: int
    bytes_exchanged: float  # sent to other ranks by this rank, per step
    messages: float  # sent to other ranks by this rank, per step
    method: str  # how it exchanges and sweeps, for the run header

    def compile(self) -> None:
        """Compile or load every kernel."""

    def host(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the owned u and v on the host: views on a CPU, the latest copies from a GPU."""

    def commit(self) -> None:
        """Take over what was written into the arrays of `host`, and fill the ghosts. Collective, with neighbours."""

    def use_coefficients(self, coefficients: Coefficients) -> None:
        """Advance with the coefficients of steps of another length from now on."""

    def squares(self) -> tuple[float, float]:
        """Return the sums over this rank's cells of (new - old)^2 and new^2 of u and v, of the last sweep."""

    def advance(self, step: int, most: int) -> int:
        """Advance from `step` by one sweep of at most `most` steps, return how many. Collective, with neighbours.

        A GPU may still be at work when it returns, at most one launch behind.
        """

    def fields(self) -> tuple[BlockArray, BlockArray]:
        """Return the present u and v on the host, ghosts not guaranteed."""

    def nonfinite(self) -> int:
        """Return how many owned cells of u and v are not finite, without copying the fields to the host."""

    def allocated(self) -> int:
        """Return the bytes of fields held."""


def split_for_overlap(
    block: Block, sending_faces: set[tuple[int, int]], layers: int | None = None
) -> tuple[list[Box], list[Box]]:
    """Cut a block's owned cells into boxes that neighbours wait for and boxes that nobody waits for.

    Together the boxes of both lists cover every owned cell once. Layers across z come first and are whole planes,
    those across x are last and shortest, since their rows hardly fill a vector.

    Parameters
    ----------
    sending_faces : (axis, side) of the faces, side -1 or +1, whose outer layers are sent
    layers : how many are sent; None for `block.ghost`
    """
    layers = layers or block.ghost
    low, high = [0, 0, 0], list(block.shape_local)
    first: list[Box] = []
    for axis in range(3):
        for side in (-1, 1):
            if (axis, side) not in sending_faces or low[axis] >= high[axis]:
                continue
            layer_low, layer_high = list(low), list(high)
            if side < 0:
                low[axis] = layer_high[axis] = min(low[axis] + layers, high[axis])
            else:
                high[axis] = layer_low[axis] = max(high[axis] - layers, low[axis])
            first.append(_box(layer_low, layer_high))
    rest = [_box(low, high)] if all(a < b for a, b in zip(low, high)) else []
    return [box for box in first if box[0] < box[1] and box[2] < box[3] and box[4] < box[5]], rest


def _box(low: list[int], high: list[int]) -> Box:
    return low[0], high[0], low[1], high[1], low[2], high[2]
