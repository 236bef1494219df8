"""The figures of Nekbone that a study takes. Imports neither Numba nor MPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.bench.scaling import ScalingFigures


def figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the figures of an iteration for each number of points per direction."""
    return [
        ScalingFigures(
            seconds=row["seconds"] / content["settings"]["iterations"],
            points=row["points"],
            labels={"nx1": row["nx1"]},
            flops=row["rate"],
            bytes=row["bandwidth"],
            fraction=row["fraction_of_stream"],
        )
        for row in content["rows"]
    ]
