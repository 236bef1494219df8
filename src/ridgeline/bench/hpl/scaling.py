"""How dense systems scale in a study: the law of their order, and figures of a job. Imports neither Numba nor MPI."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.bench.hpl.record import operations
from ridgeline.bench.scaling import ScalingFigures
from ridgeline.config.size_law import Settings, SizeLaw
from ridgeline.runtime.errors import ConfigError


@dataclass(frozen=True)
class SystemOrder(SizeLaw):
    """The order N of a dense system of all ranks: weak scaling keeps the memory of a rank, N^2 / ranks."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The order."""
        return ("n",)

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the order with ranks/first times the elements, rounded down."""
        n = _order(settings)
        return {} if ranks == first else {"n": str(math.isqrt(n * n * ranks // first))}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return nothing: the order is that of all ranks."""
        _order(settings)
        return {}


def _order(settings: Settings) -> int:
    text = str(settings["n"])
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"a study needs the order of its fewest ranks, as n = 20000, not n = {text}")
    return int(text)


def figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the figures of each solve. Points are counted operations: the work of a solve is no multiple of N^2."""
    return [
        ScalingFigures(
            seconds=one["seconds"],
            points=operations(one["n"]),
            labels={key: one[key] for key in ("storage",) if key in one},
            phases=one.get("phases", {}),
            flops=one["flops_per_second"],
            fraction=one.get("fraction_of_products"),
        )
        for one in content["extra"]["solves"]
    ]
