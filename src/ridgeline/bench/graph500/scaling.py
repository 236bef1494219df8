"""How Graph500 scales in a study: twice the ranks have one scale more. Imports neither Numba nor MPI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ridgeline.bench.scaling import ScalingFigures
from ridgeline.config.size_law import Settings, SizeLaw
from ridgeline.runtime.errors import ConfigError


@dataclass(frozen=True)
class VerticesPerRank(SizeLaw):
    """A power of two of vertices of all ranks: weak scaling keeps those of a rank. option: its exponent."""

    option: str

    @property
    def keys(self) -> tuple[str, ...]:
        """The exponent."""
        return (self.option,)

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the exponent plus log2(ranks / first). Raises ConfigError unless that is a whole number."""
        growth = Fraction(ranks, first)
        larger = max(growth.numerator, growth.denominator)
        if min(growth.numerator, growth.denominator) != 1 or larger & (larger - 1):
            raise ConfigError(
                f"weak scaling from {first} to {ranks} ranks multiplies the vertices by {growth}, and Graph500 has a "
                f"power of two of them; take {first} ranks times powers of two"
            )
        steps = larger.bit_length() - 1
        if not steps:
            return {}
        return {self.option: settings[self.option] + (steps if growth > 1 else -steps)}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return nothing: the vertices are those of all ranks."""
        return {}


def figures(content: Mapping[str, Any]) -> list[ScalingFigures]:
    """Return the mean search of each kernel: its points are the input edges that it traverses."""
    return [
        ScalingFigures(
            seconds=summary["time"]["mean"], points=summary["edges"]["mean"], labels={"kernel": kernel}
        )
        for kernel, summary in content["extra"]["summaries"].items()
    ]
