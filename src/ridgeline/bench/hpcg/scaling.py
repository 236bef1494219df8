"""How HPCG scales in a study: the law of its boxes, and the figures of a job. Imports neither Numba nor MPI."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.bench.hpcg.geometry import LEAST_SIZE, MULTIPLE, Triple, make_geometry, process_grid
from ridgeline.bench.scaling import ScalingFigures
from ridgeline.config.size_law import Settings, SizeLaw
from ridgeline.runtime.errors import ConfigError

NAMES = {"c": "plain C"}  # of implementations in tables and figures
SIZES, DIVISIONS = ("nx", "ny", "nz"), ("npx", "npy", "npz")


@dataclass(frozen=True)
class BoxPerRank(SizeLaw):
    """HPCG's boxes: weak scaling keeps that of a rank, strong scaling divides the global one by HPCG's rules."""

    default: int

    @property
    def keys(self) -> tuple[str, ...]:
        """The sizes of a box."""
        return SIZES

    def box(self, settings: Settings) -> Triple:
        """Return the points [x, y, z] of a rank: sizes left out are the largest of the others."""
        given = [settings[name] for name in SIZES if settings.get(name) is not None]
        otherwise = max(given, default=self.default)
        nx, ny, nz = (otherwise if settings.get(name) is None else settings[name] for name in SIZES)
        return nx, ny, nz

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return nothing: the box is that of a rank. Raises ConfigError for a box that the rules do not allow."""
        make_geometry(1, 0, *self.box(settings))
        return {}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the box of each of `ranks`, and their process grid, for the global box of `first` ranks."""
        box = self.box(settings)
        divisions = [settings.get(name) or 0 for name in DIVISIONS]
        make_geometry(first, 0, *box, *divisions)
        if ranks == first:
            return {}
        parts = process_grid(first, *divisions)
        whole = box[0] * parts[0], box[1] * parts[1], box[2] * parts[2]
        return dict(zip((*SIZES, *DIVISIONS), itertools.chain(*divide_box(whole, ranks))))


def divide_box(whole: Triple, n_ranks: int) -> tuple[Triple, Triple]:
    """Return (box of a rank, process grid) with the least surface of a box, the most ranks in x if equal.

    whole: points of the global box [x, y, z]. Raises ConfigError if no process grid gives boxes that the rules allow.
    """
    found: list[tuple[int, Triple, Triple]] = []
    for px, py in itertools.product(range(n_ranks, 0, -1), repeat=2):
        grid = px, py, n_ranks // (px * py)
        if math.prod(grid) != n_ranks or any(points % parts for points, parts in zip(whole, grid)):
            continue
        x, y, z = (points // parts for points, parts in zip(whole, grid))
        try:
            make_geometry(n_ranks, 0, x, y, z, *grid)
        except ConfigError:
            continue
        found.append((x * y + y * z + z * x, (x, y, z), grid))
    if not found:
        raise ConfigError(
            f"a global box of {' x '.join(map(str, whole))} cannot be divided over {n_ranks} ranks by HPCG's rules "
            f"(edges of at least {LEAST_SIZE}, multiples of {MULTIPLE}, at most 1:8); leave {n_ranks} out of --ranks "
            "or take --weak"
        )
    _, box, grid = min(found, key=lambda one: one[0])
    return box, grid


def figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the figures of each implementation of `bench hpcg-iteration`."""
    return [
        ScalingFigures(
            seconds=row["seconds"],
            points=row["rows"],
            labels={"implementation": NAMES.get(row["implementation"], row["implementation"])},
            flops=row["flops"],
        )
        for row in content["rows"]
    ]
