"""The prediction of an HPCG iteration: bytes and operations by the rules, halos of all levels, global sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ridgeline.bench.hpcg.geometry import HpcgGeometry, make_geometry
from ridgeline.bench.hpcg.rating import LevelSize, count_flops, count_reads, count_writes
from ridgeline.limits.exchange_costs import neighbours, sum_over_ranks, without_latency
from ridgeline.limits.prediction import Allocation, Part, Prediction, exchange_kind, traffic

LEVELS, VALUE = 4, 8
SUMS = 3  # global sums of an iteration: r z, p A p, and the norm
SHARE = "codes.hpcg"
NO_BOUND = (
    f"The machine file has no {SHARE}, so that the bytes of the specification at the full bandwidth are assumed. "
    "This is no bound: an implementation that moves fewer bytes, as the optimised one here does, is faster."
)


@dataclass(frozen=True)
class HpcgBox:
    """The box of a rank: nx x ny x nz points."""

    nx: int
    ny: int
    nz: int


def level_size(geometry: HpcgGeometry, level: int) -> LevelSize:
    """Return the rows and non-zeros of a level on all ranks in closed form: 27 a row, fewer at the box's faces."""
    sizes = [n >> level for n in geometry.whole]
    return LevelSize(math.prod(sizes), math.prod(3 * n - 2 for n in sizes))


def predict_hpcg(box: HpcgBox, place: Allocation) -> Prediction:
    """Predict an iteration of HPCG. Raises ConfigError for a box that HPCG's rules do not allow.

    The bytes are the specification's, whatever an implementation moves, so that codes.hpcg may exceed 1.
    """
    geometry = make_geometry(place.ranks, 0, box.nx, box.ny, box.nz)
    levels = [level_size(geometry, level) for level in range(LEVELS)]
    # The first iteration has more operations; the difference of two iterations and one is any of the others.
    flops = count_flops(levels, 1, 2).total - count_flops(levels, 1, 1).total
    moved = sum(
        count(levels, 1, 2).total - count(levels, 1, 1).total for count in (count_reads, count_writes)
    )
    sent = messages = 0.0
    for level in range(LEVELS):
        # One sweep on the coarsest level, two and the product of the residual above it.
        exchanges = 1 if level == LEVELS - 1 else 3
        exchanges += level == 0  # the product of the iteration
        faces, neighbour_ranks = halo(geometry, level)
        sent += exchanges * faces * VALUE
        messages += exchanges * neighbour_ranks
    ranks = place.ranks
    kind = exchange_kind(place)
    return Prediction(
        case=f"hpcg, {box.nx} x {box.ny} x {box.nz} points per rank",
        place=place,
        parts=(
            Part.of(
                "sweeps and products", "node", lambda: traffic(place, moved / ranks, SHARE, flops / ranks)
            ),
            Part.of("halo exchange", kind, lambda: neighbours(place, sent, messages)),
            Part.of("global sums", kind, lambda: SUMS * sum_over_ranks(place)),
        ),
        flops=flops,
        process_grid=(geometry.npx, geometry.npy, geometry.npz),
        notes=() if place.find(SHARE) is not None else (NO_BOUND, *without_latency(place)),
        bounds=() if place.find(SHARE) is None else without_latency(place),
    )


def halo(geometry: HpcgGeometry, level: int) -> tuple[float, float]:
    """Return (points, neighbours) of the halo of a rank inside the process grid, with edges and corners."""
    sizes = [n >> level for n in geometry.local]
    grid = (geometry.npx, geometry.npy, geometry.npz)
    sides = [min(2, p - 1) for p in grid]
    wide = math.prod(n + side for n, side in zip(sizes, sides))
    return float(wide - math.prod(sizes)), float(math.prod(1 + side for side in sides) - 1)
