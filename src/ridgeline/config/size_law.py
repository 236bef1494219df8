"""Size laws: how the size of a problem follows from the number of ranks in a scaling study.

A model declares its law in its case (`AnyCase.SIZE_LAW`), a benchmark in its declaration (`Scaling.law`). The size
that a user gives is that for the smallest number of ranks of the study. Weak scaling keeps the number of points of a
rank, strong scaling keeps the number of points of all ranks. A law works on plain settings (of a case, by key) or
options (of a benchmark, by name).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ridgeline.runtime.errors import ConfigError

Settings = Mapping[str, Any]
ALL = (0, 1, 2)
MOST_OFF = 0.08  # relative change of the points of a rank that is accepted where a cube has no better edge


class SizeLaw(ABC):
    """How a size follows from a number of ranks. No communication."""

    # Whether the work per point grows as log2 N where N^3 is the number of all points, as that of Fourier transforms
    # does (GESTS paper, Sec. 4.2).
    logarithmic: bool = False

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """Settings or options that are the size."""

    @abstractmethod
    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the settings that change from `first` to `ranks` ranks so that the points of a rank stay the same.

        Raises ConfigError, which says what would fit, if there is no such size.
        """

    @abstractmethod
    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the settings that change so that the points of all ranks stay the same. Raises ConfigError too."""


@dataclass(frozen=True)
class GlobalGrid(SizeLaw):
    """A grid of all ranks: weak scaling multiplies its directions, strong scaling keeps it.

    Each prime factor of the growth, one after the other, multiplies the direction that is then the shortest, z before
    y before x. Doubling the ranks three times therefore doubles all three directions.

    Parameters
    ----------
    extent : key of its sizes [z, y, x]
    lengths : key of the edges of its box, which grow in proportion, so that resolution and time step stay the same;
        None for a box without edges
    multiple : the number of which sizes must be multiples
    directions : the directions that grow, as a function of the settings
    count : key of a number that grows as the points do, such as that of particles in the box; None if there is none
    """

    extent: str
    lengths: str | None = None
    multiple: int = 1
    directions: Callable[[Settings], Sequence[int]] = lambda settings: ALL
    logarithmic: bool = False
    count: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.extent,)

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the grid with ranks/first times the points, and the box that it fills."""
        before = list(settings[self.extent])
        growth = Fraction(ranks, first)
        after = multiplied(before, growth, self.multiple, self.directions(settings))
        if after is None:
            raise ConfigError(
                f"weak scaling from {first} to {ranks} ranks multiplies the points by {growth}, and no direction of "
                f"{self.extent} = {before} can be divided by {growth.denominator}"
                f"{f' into a multiple of {self.multiple}' if self.multiple > 1 else ''}. Choose multiples of {first} "
                f"ranks, or sizes that are multiples of {growth.denominator * self.multiple}."
            )
        if after == before:
            return {}
        changes: dict[str, Any] = {self.extent: after}
        if self.lengths is not None:
            edges = settings[self.lengths]
            changes[self.lengths] = [edge * new / old for edge, new, old in zip(edges, after, before)]
        return changes | self._counted(settings, growth, first, ranks)

    def _counted(self, settings: Settings, growth: Fraction, first: int, ranks: int) -> dict[str, Any]:
        """Return the count with `growth` times as many, if there are any. Raises ConfigError."""
        if self.count is None or not settings.get(self.count):
            return {}
        before = settings[self.count]
        grown = growth * before
        if grown.denominator != 1:
            raise ConfigError(
                f"weak scaling from {first} to {ranks} ranks multiplies {self.count} = {before} by "
                f"{growth}, which is not a whole number. Choose a multiple of {growth.denominator}."
            )
        return {self.count: int(grown)}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return no changes, because the grid is that of all ranks."""
        return {}


@dataclass(frozen=True)
class Cube(SizeLaw):
    """A cube that stays a cube: weak scaling multiplies its edge by the cube root of the growth, as an even number.

    Eight times the ranks double everything. Twice the ranks turn 64 cells into 80, so that a rank nearly keeps its
    number of points.

    Parameters
    ----------
    extent : key of its sizes [n, n, n], even numbers
    length : key of its edge, which grows in proportion
    count : key of another number along an edge, also even, or "none"
    """

    extent: str
    length: str
    count: str
    logarithmic: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.extent,)

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the cube with about ranks/first times the points, within MOST_OFF."""
        before, growth = settings[self.extent][0], ranks / first
        after = _even(before * growth ** (1 / 3))
        changes: dict[str, Any] = {self.extent: [after] * 3}
        if after == before:
            return {}
        changes[self.length] = settings[self.length] * after / before
        counts = [(before, after)]
        if settings[self.count] != "none":
            changes[self.count] = _even(settings[self.count] * after / before)
            counts.append((settings[self.count], changes[self.count]))
        if any(abs((new / old) ** 3 / growth - 1) > MOST_OFF for old, new in counts):
            raise ConfigError(
                f"weak scaling from {first} to {ranks} ranks: no cube with an even edge has {growth:.4g} times the "
                f"points of {self.extent} = {[before] * 3} within {100 * MOST_OFF:g} %. Choose a larger cube, or "
                f"{8 * first} ranks."
            )
        return changes

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return no changes, because the cube is that of all ranks."""
        return {}


def _even(number: float) -> int:
    return 2 * round(number / 2)


def multiplied(
    sizes: Sequence[int], growth: Fraction, multiple: int = 1, directions: Sequence[int] = ALL
) -> list[int] | None:
    """Return sizes whose product is `growth` times as large, None if there are none (`GlobalGrid`)."""
    grown = list(sizes)
    for prime in prime_factors(growth.numerator):
        grown[min(directions, key=lambda d: grown[d])] *= prime
    for prime in prime_factors(growth.denominator):
        able = [d for d in directions if grown[d] % (prime * multiple) == 0]
        if not able:
            return None
        grown[max(able, key=lambda d: grown[d])] //= prime
    return grown


def prime_factors(number: int) -> list[int]:
    """Return the prime factors, the largest first, each as often as it divides."""
    factors = []
    prime = 2
    while number > 1:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
        prime += 1
    return factors[::-1]


@dataclass(frozen=True)
class CountPerRank(SizeLaw):
    """A number for each rank: weak scaling keeps it, strong scaling divides it. option: its name."""

    option: str

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.option,)

    def weak(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return no changes, because the number is that of a rank."""
        return {}

    def strong(self, settings: Settings, first: int, ranks: int) -> dict[str, Any]:
        """Return the number for each of `ranks` ranks, of which `first` ranks have the given one."""
        each = settings[self.option]
        share, rest = divmod(each * first, ranks)
        if rest or not share:
            raise ConfigError(
                f"strong scaling from {first} to {ranks} ranks divides {self.option} = {each} per rank, which is "
                f"{each * first} in total, by {ranks}. Choose a total that is a multiple of {ranks}, or a number of "
                "ranks that divides the total."
            )
        return {} if share == each else {self.option: share}
