"""The figures of the exchanges that a study takes. Imports neither Numba nor MPI."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ridgeline.bench.scaling import ScalingFigures

DIRECTIONS = ("row", "column")


def figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the figures of a substep for each process grid and Q; its phases are the two directions."""
    return [
        ScalingFigures(
            seconds=row["seconds"],
            points=math.prod(content["settings"]["shape"]),
            labels={"process_grid": row["process_grid"].replace(" ", ""), "Q": row["batch"]},
            phases={name: row[f"{name}_seconds"] for name in DIRECTIONS if f"{name}_seconds" in row},
        )
        for row in content["rows"]
    ]
