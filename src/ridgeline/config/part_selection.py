"""Which points of a uniform grid a part of the fields has: planes, lines, boxes, strides and means over axes.

    selection = select(grid, plane="z=mid", stride=(1, 2, 2))   # points of the whole grid, by axis
    selection.shape                                             # of the part: (1, ny/2, nx/2)
    selection.piece(offset, shape)                              # what of a rank's block lies in the part
    selection.grid(grid)                                        # where the points of the part are

Everything here is arithmetic of indices: no arrays and no communication. Axes are in the order z, y, x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

AXES = "zyx"
ROUNDING = 1e-9  # of the distance between two points: a place that is off by less counts as the point
PLANE_RULE = 'a plane such as "z=mid", "y=12" (an index) or "x=0.5" (a place)'
LINE_RULE = 'a line, which is two planes, such as "z=mid, y=12"'
BOX_RULE = 'a box such as "z=0:16, x=0.5:2.0": indices without the last one, or places with both ends'

Triple = tuple[int, int, int]
Floats = tuple[float, float, float]


class SelectionError(ValueError):
    """A selection that a grid does not have. key, rule: the setting, and what it must be, as in `Problem`."""

    def __init__(self, key: str, rule: str) -> None:
        super().__init__(f"{key} must be {rule}")
        self.key, self.rule = key, rule


@dataclass(frozen=True)
class UniformGrid:
    """Points origin + index * spacing, (z, y, x).

    origin is None where places are not known yet, for example before a mesh is made.
    """

    shape: Triple
    origin: Floats | None = (0.0, 0.0, 0.0)
    spacing: Floats = (1.0, 1.0, 1.0)

    def places(self, axis: int) -> list[float] | None:
        """Return the places of the points along an axis, None if they are not known."""
        if self.origin is None:
            return None
        return [self.origin[axis] + self.spacing[axis] * i for i in range(self.shape[axis])]


class PartBlock(NamedTuple):
    """What of a block lies in a part: slices of the block, and where they are in the part before means."""

    slices: tuple[slice, ...]
    offset: Triple
    shape: Triple


@dataclass(frozen=True)
class SelectedPoints:
    """Points start, start + stride, ... of each axis, count of them; averaged: axes over which means are taken."""

    start: Triple
    count: Triple
    stride: Triple = (1, 1, 1)
    averaged: tuple[int, ...] = ()

    @property
    def shape(self) -> Triple:
        """Shape of what is written: an axis over which a mean is taken has one point."""
        z, y, x = (1 if axis in self.averaged else n for axis, n in enumerate(self.count))
        return z, y, x

    def piece(self, offset: Sequence[int], shape: Sequence[int]) -> PartBlock:
        """Return what of a block, `shape` points from `offset` of the grid on, lies in the part."""
        slices, first, number = [], [], []
        for begin, n, start, count, stride in zip(offset, shape, self.start, self.count, self.stride):
            low = min(max(0, -(-(begin - start) // stride)), count)
            high = min(max(low, -(-(begin + n - start) // stride)), count)
            here = start + low * stride - begin
            slices.append(
                slice(here, here + (high - low - 1) * stride + 1, stride) if high > low else slice(0)
            )
            first.append(low)
            number.append(high - low)
        return PartBlock(tuple(slices), (first[0], first[1], first[2]), (number[0], number[1], number[2]))

    def grid(self, whole: UniformGrid) -> UniformGrid:
        """Return the points of the part. A mean over an axis is at the middle of its points."""
        origin, spacing = [], []
        for axis, (start, count, stride) in enumerate(zip(self.start, self.count, self.stride)):
            first, apart = (whole.origin or (0.0,) * 3)[axis], whole.spacing[axis]
            averaged = axis in self.averaged
            origin.append(first + apart * (start + (count - 1) * stride / 2 if averaged else start))
            spacing.append(apart * stride * (count if averaged else 1))
        return UniformGrid(
            self.shape, (origin[0], origin[1], origin[2]), (spacing[0], spacing[1], spacing[2])
        )


def index_of(place: str, n: int, places: Sequence[float] | None) -> int:
    """Return the index of a plane among n: "mid", an index, or a place with a decimal point for the nearest plane.

    places: of the planes, None if they are not known. The index may be outside -n to n - 1, and is n for a place
    outside the grid. Raises ValueError for other words.
    """
    if place == "mid":
        return n // 2
    if place.lstrip("+-").isdigit():
        return int(place)
    at = float(place)
    if places is None:
        raise ValueError(place)
    if not math.isfinite(at):
        return n
    half = abs(float(places[1]) - float(places[0])) / 2 if len(places) > 1 else math.inf
    away = [abs(float(each) - at) for each in places]
    return away.index(min(away)) if min(away) <= half * (1 + ROUNDING) else n


def select(
    grid: UniformGrid,
    plane: str = "",
    line: str = "",
    box: str = "",
    stride: Triple = (1, 1, 1),
    mean: Sequence[str] = (),
) -> SelectedPoints:
    """Return the points of a part. plane, line, box, mean: as the settings of the same names.

    Where the places of a grid are not known, a plane at a place is its first one, and a range of places all of an
    axis: the part then has the largest size that it can have. Raises SelectionError.
    """
    ranges: dict[int, range] = {}
    for key, text, number, rule in (("plane", plane, 1, PLANE_RULE), ("line", line, 2, LINE_RULE)):
        if text:
            axes = [_plane(grid, key, rule, word) for word in text.split(",")]
            if len(dict(axes)) != number or len(axes) != number:
                raise SelectionError(key, rule)
            ranges |= {axis: range(index, index + 1) for axis, index in axes}
    if box:
        sides = [_range(grid, word) for word in box.split(",")]
        if len(dict(sides)) != len(sides):
            raise SelectionError("box", BOX_RULE)
        ranges |= dict(sides)
    chosen = [ranges.get(axis, range(n)) for axis, n in enumerate(grid.shape)]
    start, count = [each.start for each in chosen], [-(-len(each) // s) for each, s in zip(chosen, stride)]
    averaged = tuple(sorted(AXES.index(axis) for axis in mean))
    return SelectedPoints((start[0], start[1], start[2]), (count[0], count[1], count[2]), stride, averaged)


def _axis(text: str, key: str, rule: str) -> tuple[int, str]:
    """Return the axis and what is behind the sign = ."""
    name, sign, rest = (part.strip() for part in text.partition("="))
    if not sign or len(name) != 1 or name not in AXES:
        raise SelectionError(key, rule)
    return AXES.index(name), rest


def _plane(grid: UniformGrid, key: str, rule: str, text: str) -> tuple[int, int]:
    axis, place = _axis(text, key, rule)
    n, places = grid.shape[axis], grid.places(axis)
    try:
        index = index_of(place, n, [0.0] if places is None else places)
    except ValueError:
        raise SelectionError(key, rule) from None
    if not -n <= index < n:
        if places is None and not place.lstrip("+-").isdigit():
            return axis, 0
        raise SelectionError(key, f"inside the domain, which has {_extent(grid, axis)}")
    return axis, index % n


def _range(grid: UniformGrid, text: str) -> tuple[int, range]:
    axis, ends = _axis(text, "box", BOX_RULE)
    n, places = grid.shape[axis], grid.places(axis)
    low, sign, high = (part.strip() for part in ends.partition(":"))
    if not sign:
        raise SelectionError("box", BOX_RULE)
    words = [word for word in (low, high) if word]
    if all(word.lstrip("+-").isdigit() for word in words):
        first, last = (
            int(word) + n * (int(word) < 0) if word else end for word, end in ((low, 0), (high, n))
        )
    else:
        try:
            begin, end = float(low or -math.inf), float(high or math.inf)
        except ValueError:
            raise SelectionError("box", BOX_RULE) from None
        if math.isnan(begin + end) and not math.isinf(begin):
            raise SelectionError("box", BOX_RULE)
        if places is None:
            return axis, range(n)
        apart = abs(grid.spacing[axis])
        inside = [
            i for i, at in enumerate(places) if begin - ROUNDING * apart <= at <= end + ROUNDING * apart
        ]
        outside = any(
            math.isfinite(at) and not places[0] - apart <= at <= places[-1] + apart for at in (begin, end)
        )
        first, last = (0, n + 1) if outside else (inside[0], inside[-1] + 1) if inside else (0, 0)
    if not 0 <= first < last <= n:
        words_of_fault = "a box with points" if 0 <= last <= first <= n else "inside the domain"
        raise SelectionError("box", f"{words_of_fault}; the domain has {_extent(grid, axis)}")
    return axis, range(first, last)


def _extent(grid: UniformGrid, axis: int) -> str:
    """Say how many points a grid has along an axis, and where they are."""
    n, places = grid.shape[axis], grid.places(axis)
    words = f"{n} point{'s' * (n > 1)} in {AXES[axis]}"
    if places is None:
        return words
    return f"{words} from {places[0]:g} to {places[-1]:g}" if n > 1 else f"{words} at {places[0]:g}"
