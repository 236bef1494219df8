"""Spectral elements: a box of hexahedra, possibly curved by a smooth map, and which rank owns which of them.

Elements form a box (E_z, E_y, E_x). All of them are put in one *curve order*: bisection of the box along its longest
direction, repeated, the first part before the second. It depends on no rank. A rank owns a contiguous range of it, so
that parts are compact and balanced to one element. Files hold elements in one order for any number of ranks. Points
carry global numbers of the lattice of Gauss-Lobatto points, in closed form.

Axes are (element, z, y, x) with x fastest; the reference directions r, s, t run along x, y, z.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.parallel.partition import Triple, split
from ridgeline.runtime.errors import ConfigError, DecompositionError

Array = NDArray[np.float64]
Mapping = Callable[[Array, Array, Array], tuple[Array, Array, Array]]
DISTRIBUTIONS = ("uniform", "geometric", "geometric-walls", "sine")
SIDES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")
MOST_ORDER = 31


def side_axis(side: str) -> tuple[int, bool]:
    """Return (axis, whether the upper end) of a side; axis 0 is z, 1 is y, 2 is x."""
    return "zyx".index(side[0]), side.endswith("max")


def distribute(kind: str, n: int, parameter: float) -> Array:
    """Return the n + 1 boundaries of n elements in [0, 1].

    uniform: equal elements. geometric: each element `parameter` times as long as the one before it.
    geometric-walls: so from both ends to the middle. sine: s -> sin(a s)/sin(a) on each half, s = 1 at the walls,
    a = parameter in (0, pi/2]: the offset sine profile (Hadri et al., Sec. 2.2).

    Raises ConfigError for an unknown kind or a parameter out of range.
    """
    even = np.linspace(0.0, 1.0, n + 1)
    if kind == "uniform":
        return even
    if kind == "sine":
        if not 0 < parameter <= math.pi / 2:
            raise ConfigError(f"a sine distribution has its parameter in (0, pi/2], not {parameter:g}")
        s = 2.0 * even - 1.0
        return np.asarray((1.0 + np.sin(parameter * s) / math.sin(parameter)) / 2.0)
    if kind not in DISTRIBUTIONS:
        raise ConfigError(f"no distribution {kind!r} of elements; use one of {', '.join(DISTRIBUTIONS)}")
    if not parameter > 0:
        raise ConfigError(f"a {kind} distribution has a ratio > 0, not {parameter:g}")
    place = np.arange(n)
    power = place if kind == "geometric" else np.minimum(place, n - 1 - place)
    lengths = float(parameter) ** power
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    return np.asarray(edges / edges[-1])


@dataclass(frozen=True, eq=False)
class ElementMesh:
    """The whole mesh, of which every rank can compute any part.

    edges: the boundaries of the elements along (z, y, x), before the map; periodic: (z, y, x); mapping: None, or a
    function of arrays (x, y, z) -> (x, y, z) of equal shape, smooth, and periodic where the box is.
    """

    edges: tuple[Array, Array, Array]
    periodic: tuple[bool, bool, bool] = (False, False, False)
    mapping: Mapping | None = None

    @classmethod
    def box(
        cls,
        elements: Triple,
        lengths: Sequence[float],
        origin: Sequence[float] = (0.0, 0.0, 0.0),
        distribution: Sequence[str] = ("uniform",) * 3,
        parameter: Sequence[float] = (1.0,) * 3,
        periodic: tuple[bool, bool, bool] = (False, False, False),
        mapping: Mapping | None = None,
    ) -> ElementMesh:
        """Return the mesh of a box with corner `origin` and edges `lengths`, all as (z, y, x)."""
        z, y, x = (
            start + length * distribute(kind, n, value)
            for n, length, start, kind, value in zip(elements, lengths, origin, distribution, parameter)
        )
        return cls((z, y, x), periodic, mapping)

    @property
    def elements(self) -> Triple:
        """Elements (E_z, E_y, E_x)."""
        z, y, x = (len(edge) - 1 for edge in self.edges)
        return z, y, x

    @property
    def n_elements(self) -> int:
        """Elements of the whole mesh."""
        return math.prod(self.elements)

    @property
    def axis_aligned(self) -> bool:
        """Whether all elements are boxes along the axes."""
        return self.mapping is None

    def lattice(self, order: int) -> Triple:
        """Return the numbers of distinct points along (z, y, x)."""
        z, y, x = (e * order + (not wraps) for e, wraps in zip(self.elements, self.periodic))
        return z, y, x

    def box_lengths(self, positions: NDArray[np.int64]) -> Array:
        """Return the edges of elements before the map, [m, 3] along r, s, t (that is x, y, z).

        positions: int64 [m, 3], the places (e_z, e_y, e_x) of elements.
        """
        return np.stack([np.diff(self.edges[a])[positions[:, a]] for a in (2, 1, 0)], axis=1)

    def places(self, positions: NDArray[np.int64], points: Array | tuple[Array, Array, Array]) -> Array:
        """Return the coordinates (x, y, z) of points in elements, float64 [3, m, n_z, n_y, n_x].

        positions: int64 [m, 3], the places (e_z, e_y, e_x) of elements; points: reference coordinates in [-1, 1],
        the same in all directions, or (t, s, r) for z, y, x.
        """
        per_axis = points if isinstance(points, tuple) else (points,) * 3
        lines = []
        for axis in range(3):
            low = self.edges[axis][positions[:, axis]][:, None]
            high = self.edges[axis][positions[:, axis] + 1][:, None]
            xi = per_axis[axis][None, :]
            lines.append(low * ((1.0 - xi) / 2.0) + high * ((1.0 + xi) / 2.0))
        z, y, x = lines
        m = len(positions)
        shape = (m, z.shape[1], y.shape[1], x.shape[1])
        flat = [
            np.ascontiguousarray(np.broadcast_to(line, shape))
            for line in (x[:, None, None, :], y[:, None, :, None], z[:, :, None, None])
        ]
        if self.mapping is not None:
            flat = [np.broadcast_to(np.asarray(c, np.float64), shape) for c in self.mapping(*flat)]
        return np.stack(flat)


def curve_range(elements: Triple, first: int, count: int) -> NDArray[np.int64]:
    """Return the places (e_z, e_y, e_x) of elements first ... first + count - 1 of the curve order, [count, 3].

    Touches only boxes that overlap the range: the cost grows with count, not with the mesh.
    """

    def visit(low: Triple, size: Triple, before: int) -> Iterator[Triple]:
        volume = math.prod(size)
        if before >= first + count or before + volume <= first:
            return
        if volume == 1:
            yield low
            return
        axis = max(range(3), key=lambda a: size[a])
        half = size[axis] // 2
        for start, length in ((0, half), (half, size[axis] - half)):
            part = tuple(length if a == axis else n for a, n in enumerate(size))
            corner = tuple(c + start if a == axis else c for a, c in enumerate(low))
            yield from visit(corner, part, before)  # type: ignore[arg-type]
            before += math.prod(part)

    found = list(visit((0, 0, 0), elements, 0))
    return np.array(found, np.int64).reshape(-1, 3)


@dataclass(frozen=True, eq=False)
class ElementGrid:
    """One rank's elements, of polynomial order `order` (1 ... 31): n = order + 1 points per direction.

    Raises DecompositionError if there are more ranks than elements, ConfigError for an order out of range.
    """

    mesh: ElementMesh
    order: int
    size: int = 1
    rank: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MOST_ORDER:
            raise ConfigError(f"order {self.order} of elements; use 1 to {MOST_ORDER}")
        if self.size > self.mesh.n_elements:
            raise DecompositionError(
                f"{self.size} ranks for {self.mesh.n_elements} elements: every rank needs at least one; use "
                f"-n {self.mesh.n_elements} or fewer, or more elements"
            )

    @property
    def n(self) -> int:
        """Points per direction."""
        return self.order + 1

    @property
    def first(self) -> int:
        """Place of this rank's first element in the curve order."""
        return split(self.mesh.n_elements, self.size, self.rank)[0]

    @property
    def n_elements(self) -> int:
        """Elements of this rank."""
        return split(self.mesh.n_elements, self.size, self.rank)[1]

    @property
    def n_elements_global(self) -> int:
        """Elements of all ranks."""
        return self.mesh.n_elements

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of a field on this rank."""
        return self.n_elements, self.n, self.n, self.n

    @property
    def shape_global(self) -> tuple[int, int, int, int]:
        """Shape of a field on all ranks."""
        return self.n_elements_global, self.n, self.n, self.n

    @property
    def n_points(self) -> int:
        """Points stored on this rank: shared ones once per element."""
        return math.prod(self.shape)

    @property
    def n_unique(self) -> int:
        """Distinct points of the whole mesh."""
        return math.prod(self.mesh.lattice(self.order))

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Places (e_z, e_y, e_x) of this rank's elements, int64 [n_elements, 3]."""
        return curve_range(self.mesh.elements, self.first, self.n_elements)

    @property
    def number(self) -> NDArray[np.int64]:
        """Lexicographic numbers (e_z E_y + e_y) E_x + e_x of this rank's elements, int64 [n_elements]."""
        _, ey, ex = self.mesh.elements
        z, y, x = self.positions.T
        return np.asarray((z * ey + y) * ex + x)

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Global numbers of this rank's points, int64 [n_elements, n, n, n]; equal where elements share a point."""
        lattice = self.mesh.lattice(self.order)
        lines = [
            (self.positions[:, axis, None] * self.order + np.arange(self.n)) % lattice[axis]
            for axis in range(3)
        ]
        z, y, x = lines[0][:, :, None, None], lines[1][:, None, :, None], lines[2][:, None, None, :]
        return np.asarray((z * lattice[1] + y) * lattice[2] + x)

    @cached_property
    def coordinates(self) -> Array:
        """Coordinates (x, y, z) of this rank's points, float64 [3, n_elements, n, n, n]."""
        return self.mesh.places(self.positions, gauss_lobatto(self.n)[0])

    def counts(self) -> list[int]:
        """Return the elements of every rank."""
        return [split(self.mesh.n_elements, self.size, rank)[1] for rank in range(self.size)]

    def side_elements(self, side: str) -> NDArray[np.int64]:
        """Return the local indices of the elements that lie at a side ("x_min", ...) of the box, int64.

        Also at periodic sides, where the box is closed on itself.
        """
        axis, upper = side_axis(side)
        place = self.mesh.elements[axis] - 1 if upper else 0
        return np.flatnonzero(self.positions[:, axis] == place)


def side_index(side: str) -> tuple[slice | int, ...]:
    """Return the index that takes a side's face out of a field [e, z, y, x]: [e, z, y], [e, z, x] or [e, y, x]."""
    axis, upper = side_axis(side)
    index: list[slice | int] = [slice(None)] * 4
    index[1 + axis] = -1 if upper else 0
    return tuple(index)
