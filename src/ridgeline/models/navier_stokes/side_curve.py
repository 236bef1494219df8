"""The curve that is left of a side of the domain when a mean is taken along an axis, such as the span of a wing.

    curve = curve_of(places, axis)       # places of the points of the side's faces, [3, f, n, n]
    curve.groups                         # which point of the curve each of them belongs to, [f, n, n]
    curve.places, curve.arc_length       # of the points of the curve, in order

Pure geometry, without communication. A side may consist of several curves, open or closed. A closed one ends with
its first point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.part_selection import SelectionError
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative, legendre_matrix

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
STRAIGHT = 1e-6  # of the extent of a face: a line of points along the axis is straight to this
CLOSE = 1e-3  # of the smallest distance of points: places that are nearer are the same


@dataclass(frozen=True, eq=False)
class SideCurve:
    """The points of a curve, m in order, and the points of faces of which they are the means.

    groups: of the points of faces, int64 [f, n, n], 0 ... n_groups - 1. members: the group of each point of the
    curve, [m]. places: (x, y, z) [3, m], the middle along the axis. arc_length: [m], from the first point of the
    first curve on, with straight jumps between curves. numbers: of the curve that a point belongs to, [m].
    """

    groups: Integers
    n_groups: int
    members: Integers
    places: Array
    arc_length: Array
    numbers: Integers


def curve_of(places: Array, axis: int) -> SideCurve:
    """Return the curve of a side. places: (x, y, z) of the points of its faces, [3, f, n, n]; axis: 0 is x.

    Raises SelectionError if the points of the faces do not lie on lines along the axis.
    """
    kept = [direction for direction in range(3) if direction != axis]
    across = places[kept]
    segments = _segments(across, axis)
    step = np.sqrt((np.diff(segments, axis=2) ** 2).sum(axis=0)).min()
    numbers = [_clusters(coordinate, CLOSE * step) for coordinate in across]
    keys = numbers[0] * (numbers[1].max() + 1) + numbers[1]
    _, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    groups = groups.reshape(keys.shape)
    points = across.reshape(2, -1)[:, first]

    chains = _chains(_unique_segments(groups, segments, points), points)
    members = np.concatenate([chain for chain, _ in chains])
    which = np.repeat(np.arange(len(chains)), [len(chain) for chain, _ in chains])
    lengths, end = [], 0.0
    for number, (chain, length) in enumerate(chains):
        if number:
            gap = points[:, chain[0]] - points[:, chains[number - 1][0][-1]]
            end += float(np.hypot(*gap))
        lengths.append(end + length)
        end += float(length[-1])
    of_curve = np.empty((3, len(members)))
    of_curve[kept] = points[:, members]
    of_curve[axis] = 0.5 * (places[axis].min() + places[axis].max())
    return SideCurve(groups, len(first), members, of_curve, np.concatenate(lengths), which)


def _segments(across: Array, axis: int) -> Array:
    """Return the points of each face across the axis in order, [2, f, n], from [2, f, n, n]."""
    extent = np.ptp(across.reshape(2, across.shape[1], -1), axis=2).max(axis=0)
    segments = np.empty(across.shape[:3])
    found = np.zeros(across.shape[1], np.bool_)
    for direction in (2, 3):  # of the face's points, along which they may run along the axis
        straight = np.ptp(across, axis=direction).max(axis=(0, 2)) <= STRAIGHT * extent
        segments[:, straight] = np.moveaxis(across, direction, -1)[..., 0][:, straight]
        found |= straight
    if not found.all() or not (extent > 0).all():
        name = "xyz"[axis]
        raise SelectionError(
            "mean",
            f'one axis along which the points of the side lie on straight lines, which "{name}" is not, or all of '
            '"x", "y", "z"',
        )
    return segments


def _clusters(values: Array, tolerance: float) -> Integers:
    """Return a number for each value, equal for values that are the same to a tolerance."""
    unique, inverse = np.unique(values, return_inverse=True)
    numbers = np.concatenate([[0], np.cumsum(np.diff(unique) > tolerance)])
    return np.asarray(numbers[inverse].reshape(values.shape), np.int64)


def _unique_segments(groups: Integers, segments: Array, points: Array) -> Integers:
    """Return the groups of the points of each segment, once each, [s, n], in the order of the faces."""
    first, last = groups[:, :, 0], groups[:, 0, :]
    # The line of points across the axis is along the slow direction if the fast one runs along the axis.
    slow = (groups[:, 0, :1] == groups[:, 0, -1:]).ravel()
    lines = np.where(slow[:, None], first, last)
    ends = np.sort(lines[:, [0, -1]], axis=1)
    closed = lines.shape[1] > 2  # two faces may share both ends, but then not the points between them
    keys = np.concatenate([ends, np.sort(lines, axis=1)], axis=1) if closed else ends
    _, chosen = np.unique(keys, axis=0, return_index=True)
    return np.asarray(lines[np.sort(chosen)])


def _chains(lines: Integers, points: Array) -> list[tuple[Integers, Array]]:
    """Return the curves that segments form: the groups of their points in order, and the length along each.

    A curve begins at its end with the smallest (first, second) coordinate. A closed curve begins at its smallest
    point, towards larger second coordinates.
    """
    at_end: dict[int, list[int]] = {}
    for number, line in enumerate(lines):
        for end in (int(line[0]), int(line[-1])):
            at_end.setdefault(end, []).append(number)

    def order(group: int) -> tuple[float, float]:
        return float(points[0, group]), float(points[1, group])

    left = np.ones(len(lines), np.bool_)
    chains = []
    open_ends = sorted((group for group, there in at_end.items() if len(there) != 2), key=order)
    for start in [*open_ends, *sorted(at_end, key=order)]:
        candidates = [number for number in at_end[start] if left[number]]
        while candidates:
            rising = [float(points[1, _towards(lines[number], start)[1]]) for number in candidates]
            number = candidates[int(np.argmax(rising))]
            chain, length, here = [np.array([start])], [np.zeros(1)], start
            while True:
                left[number] = False
                line = _towards(lines[number], here)
                chain.append(line[1:])
                length.append(length[-1][-1] + _arc_length(points[:, line])[1:])
                here = int(line[-1])
                onward = [each for each in at_end[here] if left[each]]
                if len(at_end[here]) != 2 or not onward:
                    break
                number = onward[0]
            chains.append((np.concatenate(chain), np.concatenate(length)))
            candidates = [number for number in at_end[start] if left[number]]
    return chains


def _towards(line: Integers, start: int) -> Integers:
    """Return the groups of a segment from one of its ends on."""
    return line if line[0] == start else line[::-1]


def _arc_length(line: Array) -> Array:
    """Return the length from the first of Gauss-Lobatto points to each, [n], along the polynomial through them."""
    n = line.shape[1]
    points = gauss_lobatto(n)[0]
    speed = np.sqrt(((line @ gll_derivative(n).T) ** 2).sum(axis=0))
    legendre = legendre_matrix(points)
    # The integral of P_k is (P_(k+1) - P_(k-1))/(2 k + 1), and that of P_0 is P_1.
    higher = np.polynomial.legendre.legvander(points, n)
    integrals = higher[:, 1:].copy()
    integrals[:, 1:] -= higher[:, : n - 1]
    integrals /= 2 * np.arange(n) + 1
    length = integrals @ np.linalg.solve(legendre, speed)
    return np.asarray(length - length[0])
