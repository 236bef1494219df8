"""A box of spectral elements, possibly curved by a smooth map (`BoxMesh`), and one rank's part of any mesh.

The elements of a box (E_z, E_y, E_x) have one *curve order*: the box is bisected along its longest direction, again
and again, and the first part comes before the second. The order does not depend on the ranks. A rank owns a
contiguous range of it (`ElementGrid`), so that parts are compact and balanced to one element, and files contain the
elements in the same order for any number of ranks. The global numbers of points are those of the lattice of
Gauss-Lobatto points, in closed form.

Meshes from files are in `elements.meshes`; what both kinds of mesh offer is in `mesh_protocol`.

Axes are (element, z, y, x) with x fastest; the reference directions r, s, t run along x, y, z.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.hexahedron import MEAN_POINTS, face_index, face_places, mean_lengths
from ridgeline.elements.mesh_protocol import Array, Indices, Mesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.parallel.partition import Triple, split
from ridgeline.runtime.errors import ConfigError, DecompositionError

DISTRIBUTIONS = ("uniform", "geometric", "geometric-walls", "sine", "offset-sine")


def distribute(kind: str, n: int, parameter: float) -> Array:
    """Return the n + 1 boundaries of n elements in [0, 1].

    kind: "uniform": equal elements. "geometric": each element is `parameter` times as long as the one before it.
    "geometric-walls": the same from both ends to the middle. "offset-sine": s -> sin(a s)/sin(a) on each half, s = 1
    at the walls, a = pi/2 - alpha, where alpha = parameter in (0, pi/2) is the offset of the sine profile in Table 1
    of Hadri et al. "sine": the same profile, with a itself as the parameter, in (0, pi/2].

    Raises ConfigError for an unknown kind or a parameter out of range.
    """
    if kind == "offset-sine":
        if not 0 < parameter < math.pi / 2:
            raise ConfigError(
                f"the parameter of an offset-sine distribution is {parameter:g}. It must be > 0 and < pi/2."
            )
        return distribute("sine", n, math.pi / 2 - parameter)
    even = np.linspace(0.0, 1.0, n + 1)
    if kind == "uniform":
        return even
    if kind == "sine":
        if not 0 < parameter <= math.pi / 2:
            raise ConfigError(
                f"the parameter of a sine distribution is {parameter:g}. It must be > 0 and <= pi/2."
            )
        s = 2.0 * even - 1.0
        return np.asarray((1.0 + np.sin(parameter * s) / math.sin(parameter)) / 2.0)
    if kind not in DISTRIBUTIONS:
        raise ConfigError(
            f"unknown distribution {kind!r} of elements. The distributions are {', '.join(DISTRIBUTIONS)}."
        )
    if not parameter > 0:
        raise ConfigError(f"the ratio of a {kind} distribution is {parameter:g}. It must be > 0.")
    place = np.arange(n)
    power = place if kind == "geometric" else np.minimum(place, n - 1 - place)
    lengths = float(parameter) ** power
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    return np.asarray(edges / edges[-1])


Mapping = Callable[[Array, Array, Array], tuple[Array, Array, Array]]
SIDES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")
MOST_ORDER = 31


def side_axis(side: str) -> tuple[int, bool]:
    """Return (axis, whether the upper end) of a side; axis 0 is z, 1 is y, 2 is x."""
    return "zyx".index(side[0]), side.endswith("max")


def side_index(side: str) -> tuple[slice | int, ...]:
    """Return the index that takes the face at a side of a box out of a field [e, z, y, x]."""
    return face_index(SIDES.index(side))


@dataclass(frozen=True, eq=False)
class BoxMesh:
    """Describe a box of elements: a `mesh_protocol.Mesh` of which every rank can compute any part.

    Positions are int64 [m, 3], the places (e_z, e_y, e_x) of elements.

    Parameters
    ----------
    edges : three arrays
        The boundaries of the elements along (z, y, x), before the map; `BoxMesh.box` computes them.
    periodic : tuple of three bools
        Whether the box is periodic along z, y and x.
    mapping : None or callable
        A function of arrays (x, y, z) -> (x, y, z) of equal shape, smooth, and periodic where the box is.

    Examples
    --------
    >>> from ridgeline.elements.mesh import BoxMesh
    >>> mesh = BoxMesh.box((1, 2, 3), lengths=(1.0, 1.0, 2.0), periodic=(False, False, True))
    >>> mesh.n_elements, mesh.sides[:2]
    (6, ('x_min', 'x_max'))
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
        edges: Sequence[Sequence[float]] = ((), (), ()),
    ) -> BoxMesh:
        """Return the mesh of a box with corner `origin` and edges `lengths`, all as (z, y, x).

        edges: the boundaries of the elements along a direction, instead of a distribution; empty without them.
        """
        z, y, x = (
            np.array(given) if len(given) else start + length * distribute(kind, n, value)
            for n, length, start, kind, value, given in zip(
                elements, lengths, origin, distribution, parameter, edges
            )
        )
        return cls((z, y, x), periodic, mapping)

    @property
    def elements(self) -> Triple:
        """Elements (E_z, E_y, E_x)."""
        z, y, x = (len(edge) - 1 for edge in self.edges)
        return z, y, x

    @property
    def n_elements(self) -> int:
        return math.prod(self.elements)

    @property
    def axis_aligned(self) -> bool:
        return self.mapping is None

    def lattice(self, orders: Triple) -> Triple:
        """Return the numbers of distinct points along (z, y, x) at orders (z, y, x)."""
        z, y, x = (e * o + (not wraps) for e, o, wraps in zip(self.elements, orders, self.periodic))
        return z, y, x

    @property
    def advice(self) -> str:
        return "grid.mapping and grid.mapping_amplitude"

    @property
    def regular(self) -> bool:
        return True

    @property
    def sides(self) -> tuple[str, ...]:
        return SIDES

    def range(self, first: int, count: int) -> Indices:
        """Return the places (e_z, e_y, e_x) of elements first ... first + count - 1 of the curve order."""
        return curve_range(self.elements, first, count)

    def spread(self, most: int) -> Indices:
        """Return the places of at most `most` elements, evenly spread with those at the ends; [m, 3]."""
        line = max(2, int(most ** (1 / 3))) if self.n_elements > most else max(self.elements)
        chosen = [np.unique(np.linspace(0, e - 1, min(e, line)).astype(np.int64)) for e in self.elements]
        return np.stack([i.ravel() for i in np.meshgrid(*chosen, indexing="ij")], axis=1)

    def numbers(self, positions: Indices) -> Indices:
        """Return the lexicographic numbers (e_z E_y + e_y) E_x + e_x of elements, int64 [m]."""
        z, y, x = positions.T
        return np.asarray((z * self.elements[1] + y) * self.elements[2] + x)

    def _places_across(self, positions: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the places across the six faces, [m, 6, 3], and whether there are elements at them, [m, 6]."""
        sizes = np.array(self.elements)
        places = np.repeat(positions[:, None, :], 6, axis=1)
        there = np.ones(places.shape[:2], np.bool_)
        for face, side in enumerate(SIDES):
            axis, upper = side_axis(side)
            places[:, face, axis] += 1 if upper else -1
            if not self.periodic[axis]:
                there[:, face] = (places[:, face, axis] >= 0) & (places[:, face, axis] < sizes[axis])
        return places % sizes, there

    def neighbours(self, positions: Indices) -> Indices:
        places, there = self._places_across(positions)
        return np.where(there, self.numbers(places.reshape(-1, 3)).reshape(there.shape), -1)

    def extents(self, positions: Indices) -> Array:
        if self.axis_aligned:
            return self.box_lengths(positions)
        return mean_lengths(self.places(positions, gauss_lobatto(MEAN_POINTS)[0]))

    def extents_across(self, positions: Indices) -> Array:
        places, there = self._places_across(positions)
        needed, back = np.unique(places.reshape(-1, 3), axis=0, return_inverse=True)
        lengths = self.extents(needed)[back.reshape(there.shape)]  # [m, 6, 3]
        across = lengths[:, np.arange(6), np.arange(6) // 2]
        return np.where(there, across, 0.0)

    def n_unique(self, orders: Triple) -> int:
        return math.prod(self.lattice(orders))

    def ids(self, positions: Indices, orders: Triple) -> Indices:
        lattice = self.lattice(orders)
        z, y, x = (
            (positions[:, axis, None] * orders[axis] + np.arange(orders[axis] + 1)) % lattice[axis]
            for axis in range(3)
        )
        ids = z[:, :, None, None] * lattice[1] + y[:, None, :, None]
        return np.asarray(ids * lattice[2] + x[:, None, None, :])

    def face_ids(self, positions: Indices, faces: Indices, points: Triple) -> Indices:
        sizes, shape = self.elements, tuple(e + 1 for e in self.elements)
        counts = [math.prod(points) // points[axis] for axis in range(3)]
        ids = np.full((len(faces), max(counts)), -1, np.int64)
        for face in range(6):
            axis, upper = 2 - face // 2, face % 2
            mine = faces == face
            place = positions[mine].copy()
            place[:, axis] = (place[:, axis] + upper) % (sizes[axis] if self.periodic[axis] else shape[axis])
            number = axis * math.prod(shape) + np.ravel_multi_index(tuple(place.T), shape)
            ids[mine, : counts[axis]] = number[:, None] * max(counts) + np.arange(counts[axis])
        return ids

    def side_faces(self, positions: Indices, side: str) -> tuple[Indices, Indices]:
        """Return which of some elements lie at a side of the box, and by which face; the side may be periodic."""
        axis, upper = side_axis(side)
        elements = np.flatnonzero(positions[:, axis] == (self.elements[axis] - 1 if upper else 0))
        return elements, np.full(len(elements), SIDES.index(side), np.int64)

    def on_side(self, positions: Indices, side: str, points: Triple) -> NDArray[np.bool_]:
        on_side = np.zeros((len(positions), *points), np.bool_)
        elements, _ = self.side_faces(positions, side)
        on_side[side_index(side)][elements] = True
        return on_side

    def side_size(self, side: str) -> int:
        return self.n_elements // self.elements[side_axis(side)[0]]

    def side_positions(self, side: str, most: int) -> Indices:
        axis, upper = side_axis(side)
        size = [n if a != axis else 1 for a, n in enumerate(self.elements)]
        total = math.prod(size)
        chosen = np.unique(np.linspace(0, total - 1, min(total, most)).astype(np.int64))
        places = np.stack(np.unravel_index(chosen, size), axis=1).astype(np.int64)
        places[:, axis] = self.elements[axis] - 1 if upper else 0
        return places

    def name_of(self, position: Indices) -> str:
        """Return "element (z=..., y=..., x=...)"."""
        z, y, x = position
        return f"element (z={z}, y={y}, x={x})"

    def box_lengths(self, positions: Indices) -> Array:
        """Return the edges of elements before the map, [m, 3] along r, s, t (that is x, y, z)."""
        return np.stack([np.diff(self.edges[a])[positions[:, a]] for a in (2, 1, 0)], axis=1)

    def places(self, positions: Indices, points: Array | tuple[Array, Array, Array]) -> Array:
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

    Only boxes that overlap the range are visited, so that the cost grows with count and not with the mesh.
    """

    low, size, before = np.zeros((1, 3), np.int64), np.array([elements], np.int64), np.zeros(1, np.int64)
    while True:
        volume = size.prod(axis=1)
        kept = (volume > 0) & (before < first + count) & (before + volume > first)
        low, size, before = low[kept], size[kept], before[kept]
        if (volume[kept] <= 1).all():
            return np.asarray(low, np.int64)
        # Halve every box along its longest direction, the first of equal ones. A single element has an empty half.
        every, axis = np.arange(len(size)), size.argmax(axis=1)
        half = size[every, axis] // 2
        low, size, before = low.repeat(2, axis=0), size.repeat(2, axis=0), before.repeat(2)
        size[2 * every, axis] = half
        size[2 * every + 1, axis] -= half
        low[2 * every + 1, axis] += half
        before[1::2] += size[::2].prod(axis=1)


@dataclass(frozen=True, eq=False)
class ElementGrid:
    """Describe the elements of one rank, with n = order + 1 points per direction: plain data, no communicator.

    Parameters
    ----------
    mesh : Mesh
        The mesh, such as a `BoxMesh`.
    order : int
        Polynomial order, 1 ... 31.
    size : int
        Number of ranks.
    rank : int
        This rank.

    Raises
    ------
    DecompositionError
        If there are more ranks than elements.
    ConfigError
        For an order out of range.

    Examples
    --------
    >>> from ridgeline.elements.mesh import BoxMesh, ElementGrid
    >>> grid = ElementGrid(BoxMesh.box((1, 1, 3), (1.0, 1.0, 3.0)), order=4, size=2, rank=0)
    >>> grid.shape, grid.shape_global, grid.n_unique
    ((2, 5, 5, 5), (3, 5, 5, 5), 325)
    >>> grid.coordinates.shape, len(grid.side_points(["x_min"]))
    ((3, 2, 5, 5, 5), 25)
    """

    mesh: Mesh
    order: int
    size: int = 1
    rank: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MOST_ORDER:
            raise ConfigError(
                f"the order of the elements is {self.order}. It must be from 1 to {MOST_ORDER}."
            )
        if self.size > self.mesh.n_elements:
            raise DecompositionError(
                f"{self.size} ranks cannot share {self.mesh.n_elements} elements, because every rank needs at least "
                f"one. Use {self.mesh.n_elements} ranks or fewer, or more elements."
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
        """Points stored on this rank; a shared point is stored once in each of its elements."""
        return math.prod(self.shape)

    @property
    def n_unique(self) -> int:
        """Distinct points of the whole mesh."""
        return self.mesh.n_unique((self.order,) * 3)

    @cached_property
    def positions(self) -> Indices:
        """The positions of this rank's elements in the mesh (see `mesh_protocol`), int64, elements first."""
        return self.mesh.range(self.first, self.n_elements)

    @property
    def number(self) -> Indices:
        """Numbers of this rank's elements, int64 [n_elements]; in a box the lexicographic ones."""
        return self.mesh.numbers(self.positions)

    @cached_property
    def ids(self) -> Indices:
        """Global numbers of this rank's points, int64 [n_elements, n, n, n]; equal where elements share a point."""
        return self.mesh.ids(self.positions, (self.order,) * 3)

    @cached_property
    def coordinates(self) -> Array:
        """Coordinates (x, y, z) of this rank's points, float64 [3, n_elements, n, n, n]."""
        return self.mesh.places(self.positions, gauss_lobatto(self.n)[0])

    def counts(self) -> list[int]:
        """Return the number of elements of every rank."""
        return [split(self.mesh.n_elements, self.size, rank)[1] for rank in range(self.size)]

    def side_faces(self, side: str) -> tuple[Indices, Indices]:
        """Return the local indices of the elements at a side of the mesh, and their faces there: int64 [f] each.

        They are sorted by face. A side of a box may be periodic.
        """
        return self.mesh.side_faces(self.positions, side)

    def side_elements(self, side: str) -> Indices:
        """Return the local indices of the elements that lie at a side of the mesh, int64 [f]."""
        return self.side_faces(side)[0]

    def side_places(self, side: str) -> Indices:
        """Return the places in a flat field of the points of the faces at a side, int64 [f, n, n]."""
        elements, faces = self.side_faces(side)
        return elements[:, None, None] * self.n**3 + face_places(self.n)[faces]

    def side_points(self, sides: Sequence[str]) -> Indices:
        """Return the places in a flat field of all copies of the points on some sides, int64, ascending.

        Copies in elements that have no face at the side are included.
        """
        on_sides = np.zeros(self.shape, np.bool_)
        for side in sides:
            on_sides |= self.mesh.on_side(self.positions, side, (self.n,) * 3)
        return np.flatnonzero(on_sides)
