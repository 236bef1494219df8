"""A mesh of hexahedra from a file, in curve order: a `mesh_protocol.Mesh` of all elements, or of a part.

The points of an element lie on the polynomial through the nodes of the file. Global numbers of points follow from the
numbers of vertices, edges, faces and elements. A rank therefore needs only the rows of its own elements, and no rank
ever has the points of others.

The curve order is recursive bisection: a part is cut at the median of its centres along the axis of its largest
spread (inertial bisection: Williams, Concurrency 3 (1991) 457). It does not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.hexahedron import FACE_CORNERS, MEAN_POINTS, edge_index, face_index, mean_lengths
from ridgeline.elements.mesh_protocol import Array, Indices
from ridgeline.elements.meshes.checks import require_closed, require_fitting, right_handed
from ridgeline.elements.meshes.raw_mesh import RawMesh
from ridgeline.elements.meshes.topology import (
    FACE_EDGES,
    Topology,
    code_of,
    codes_of_pairs,
    connect,
    face_permutations,
    match_faces,
    match_sides,
)
from ridgeline.elements.quadrature import gauss_lobatto, interpolation_matrix
from ridgeline.parallel.partition import Triple, split

if TYPE_CHECKING:
    from mpi4py import MPI


LEAF = 2  # elements of a part that is not cut
ROUNDING = 1e-9  # of the spread: nearer centres count as equal, so that a shuffled file gives the same cuts
MOST_SIDES = 62  # bits of a number that says on which sides a vertex or an edge lies


@dataclass(frozen=True)
class MeshCounts:
    """How many elements, vertices, edges and faces the whole mesh has; mirrored: elements that were reversed."""

    elements: int
    vertices: int
    edges: int
    faces: int
    mirrored: int = 0


@dataclass(frozen=True, eq=False)
class ElementRows:
    """Tables with one row for each of some elements, consecutive in curve order; int64 unless said otherwise.

    nodes: float64 [m, 3, q, q, q]. vertices [m, 8], edges [m, 12], reversed bool [m, 12], faces, codes, across
    [m, 6]: see `topology.Topology`; across in curve order. sides [m, 6]: the number of the side that a face lies on,
    -1 for none. vertex_sides [m, 8], edge_sides [m, 12]: bit s says whether it lies on side s. extents: float64
    [m, 3]. extents_across: float64 [m, 6]. names [m]: the numbers of the elements in the file.
    """

    nodes: Array
    vertices: Indices
    edges: Indices
    reversed: NDArray[np.bool_]
    faces: Indices
    codes: Indices
    across: Indices
    sides: Indices
    vertex_sides: Indices
    edge_sides: Indices
    extents: Array
    extents_across: Array
    names: Indices

    def select(self, which: Indices | slice) -> ElementRows:
        """Return a copy of some of the rows."""
        return ElementRows(
            **{field.name: np.array(getattr(self, field.name)[which]) for field in fields(self)}
        )


@dataclass(frozen=True, eq=False)
class HexahedralMesh:
    """Elements first ... first + m - 1 of a mesh in curve order: a `Mesh` that knows these alone.

    Positions of elements are their places in the curve order, int64 [m]. points: [q], of the nodes in [-1, 1];
    translations: of the periodic sides.
    """

    source: str
    points: Array
    sides: tuple[str, ...]
    translations: tuple[tuple[float, float, float], ...]
    counts: MeshCounts
    rows: ElementRows
    first: int = 0

    @property
    def n_elements(self) -> int:
        return self.counts.elements

    @property
    def axis_aligned(self) -> bool:
        return False

    @property
    def regular(self) -> bool:
        return False

    @property
    def advice(self) -> str:
        return f'the file grid.mesh = "{self.source}"'

    def part(self, first: int, count: int) -> HexahedralMesh:
        """Return the mesh with a copy of the rows of elements first ... first + count - 1 alone."""
        start = first - self.first
        return replace(self, rows=self.rows.select(slice(start, start + count)), first=first)

    def _rows(self, positions: Indices) -> Indices:
        return positions - self.first

    def range(self, first: int, count: int) -> Indices:
        return np.arange(first, first + count, dtype=np.int64)

    def spread(self, most: int) -> Indices:
        last = self.n_elements - 1
        return np.unique(np.linspace(0, last, min(self.n_elements, max(most, 1))).astype(np.int64))

    def numbers(self, positions: Indices) -> Indices:
        return positions

    def neighbours(self, positions: Indices) -> Indices:
        return self.rows.across[self._rows(positions)]

    def extents(self, positions: Indices) -> Array:
        return self.rows.extents[self._rows(positions)]

    def extents_across(self, positions: Indices) -> Array:
        return self.rows.extents_across[self._rows(positions)]

    def box_lengths(self, positions: Indices) -> Array:
        raise ValueError("elements of a mesh from a file are not boxes along the axes")

    def places(self, positions: Indices, points: Array | tuple[Array, Array, Array]) -> Array:
        per_axis = points if isinstance(points, tuple) else (points,) * 3
        z, y, x = (interpolation_matrix(self.points, at) for at in per_axis)
        nodes = self.rows.nodes[self._rows(positions)]  # [m, 3, q, q, q]
        planes = y @ (nodes @ x.T)
        flat = z @ planes.reshape(*planes.shape[:3], -1)
        return np.ascontiguousarray(flat.reshape(*flat.shape[:3], len(y), len(x)).swapaxes(0, 1))

    def n_unique(self, orders: Triple) -> int:
        """Return the number of distinct points of the whole mesh at equal orders."""
        inner, counts = _one_order(orders) - 1, self.counts
        return counts.vertices + inner * (counts.edges + inner * (counts.faces + inner * counts.elements))

    def ids(self, positions: Indices, orders: Triple) -> Indices:
        """Return the global numbers of points at equal orders, int64 [m, n, n, n]; equal where elements share one.

        The points at vertices come first, then those on edges, in faces and in elements.
        """
        inner, counts, here = _one_order(orders) - 1, self.counts, self._rows(positions)
        rows, m = self.rows, len(positions)
        ids = np.empty((m, inner + 2, inner + 2, inner + 2), np.int64)
        ids[:, :: inner + 1, :: inner + 1, :: inner + 1] = rows.vertices[here].reshape(m, 2, 2, 2)
        if not inner:
            return ids
        line = np.arange(inner)
        start = counts.vertices
        for edge in range(12):
            along = np.where(rows.reversed[here, edge, None], inner - 1 - line, line)
            ids[edge_index(edge)] = start + rows.edges[here, edge, None] * inner + along
        start += counts.edges * inner
        planes = face_permutations(inner)
        for face in range(6):
            of_face = rows.faces[here, face, None, None] * inner**2 + planes[rows.codes[here, face]]
            ids[face_index(face)][:, 1:-1, 1:-1] = start + of_face
        start += counts.faces * inner**2
        cube = np.arange(inner**3).reshape(inner, inner, inner)
        ids[:, 1:-1, 1:-1, 1:-1] = start + positions[:, None, None, None] * inner**3 + cube
        return ids

    def face_ids(self, positions: Indices, faces: Indices, points: Triple) -> Indices:
        n, here = _one_order(points), self._rows(positions)
        planes = face_permutations(n).reshape(8, n * n)
        return self.rows.faces[here, faces, None] * n**2 + planes[self.rows.codes[here, faces]]

    def _side(self, name: str) -> int:
        return self.sides.index(name)

    def side_faces(self, positions: Indices, side: str) -> tuple[Indices, Indices]:
        sides: Indices = self.rows.sides[self._rows(positions)].T
        faces, elements = np.nonzero(np.equal(sides, self._side(side)))
        return np.ascontiguousarray(elements), np.ascontiguousarray(faces)

    def on_side(self, positions: Indices, side: str, points: Triple) -> NDArray[np.bool_]:
        number, here = self._side(side), self._rows(positions)
        nz, ny, nx = points
        on_side = np.zeros((len(positions), nz, ny, nx), np.bool_)
        corners = (self.rows.vertex_sides[here] >> number & 1).astype(np.bool_)
        on_side[:, :: nz - 1, :: ny - 1, :: nx - 1] = corners.reshape(-1, 2, 2, 2)
        edges = (self.rows.edge_sides[here] >> number & 1).astype(np.bool_)
        for edge in range(12):
            on_side[edge_index(edge)] |= edges[:, edge, None]
        for face in range(6):
            on_side[face_index(face)] |= (self.rows.sides[here, face] == number)[:, None, None]
        return on_side

    def side_positions(self, side: str, most: int) -> Indices:
        positions = np.flatnonzero((self.rows.sides == self._side(side)).any(axis=1)) + self.first
        chosen = np.unique(np.linspace(0, len(positions) - 1, min(len(positions), most)).astype(np.int64))
        return np.asarray(positions[chosen], np.int64)

    def side_size(self, side: str) -> int:
        """Return how many faces of the elements of this part lie at a side."""
        return int((self.rows.sides == self._side(side)).sum())

    def name_of(self, position: Indices) -> str:
        return f"element {self.rows.names[position - self.first]} of {self.source}"


def _one_order(orders: Triple) -> int:
    z, y, x = orders
    if not z == y == x:
        raise ValueError(
            f"orders {orders} (z, y, x) must be equal where the axes of elements differ from their neighbours'"
        )
    return z


def build_mesh(raw: RawMesh, periodic: Mapping[str, str] | None = None) -> HexahedralMesh:
    """Return the checked mesh of a file, all of its elements. No communication.

    periodic: pairs of sides, by name, that are identified with each other; they are then no longer sides of the mesh.

    Raises ConfigError that names the element or the side if an element folds, if a face belongs neither to two
    elements nor to one element and a side, or if periodic sides do not match.
    """
    raw, mirrored = right_handed(raw)

    # Which faces are shared, which are periodic, and which lie at sides.
    matched, unmatched = match_faces(raw)
    side_of = _sides_of_faces(raw, unmatched)
    wrapped, translations = _periodic_pairs(raw, side_of, periodic or {})
    side_of[wrapped] = -1
    free = np.ones(6 * raw.n_elements, np.bool_)
    free[matched], free[wrapped] = False, False
    require_closed(raw, np.flatnonzero(free & (side_of < 0)))
    codes = np.concatenate([_codes_of_shared_corners(raw, matched), codes_of_pairs(raw, wrapped)])
    pairs = np.concatenate([matched, wrapped])
    require_fitting(raw, pairs, codes)
    topology = connect(raw, pairs, codes, len(matched))

    # Sides without faces are left out.
    kept = [s for s in range(len(raw.sides)) if (side_of == s).any()]
    renumber = np.full(len(raw.sides) + 1, -1)
    renumber[kept] = np.arange(len(kept))
    sides = renumber[side_of].reshape(-1, 6)
    if len(kept) > MOST_SIDES:
        raise raw.error(f"the mesh has {len(kept)} sides", f"It may have at most {MOST_SIDES}")

    # From the order of the file to the curve order.
    rows = _rows_of(raw, topology, sides)
    order = bisection_order(raw.corner_places().mean(axis=1))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    rows = rows.select(order)
    rows.across[...] = np.where(rows.across < 0, -1, place[rows.across])
    vertices, edges, faces = (int(t.max()) + 1 for t in (topology.vertices, topology.edges, topology.faces))
    counts = MeshCounts(raw.n_elements, vertices, edges, faces, mirrored)
    return HexahedralMesh(
        raw.source, raw.points, tuple(raw.sides[s] for s in kept), tuple(translations), counts, rows
    )


def bisection_order(centres: Array) -> Indices:
    """Return the numbers of elements in curve order, int64 [E]. centres: float64 [E, 3]."""
    order = np.arange(len(centres))
    stack = [(0, len(centres))]
    while stack:
        first, end = stack.pop()
        if end - first < LEAF:
            continue
        part = order[first:end]
        order[first:end] = part[_order_along_spread(centres[part])]
        middle = first + (end - first) // 2
        stack += [(first, middle), (middle, end)]
    return order


def _order_along_spread(centres: Array) -> Indices:
    """Return the order of points along the direction of their largest spread; ties are broken by z, y and x."""
    away = centres - centres.mean(axis=0)
    _, vectors = np.linalg.eigh(away.T @ away)
    axis = vectors[:, -1]
    axis = axis * np.sign(axis[np.argmax(np.abs(axis))])
    step = ROUNDING * max(float(np.ptp(away, axis=0).max()), np.finfo(np.float64).tiny)
    along, x, y, z = (np.round(values / step) for values in (away @ axis, *away.T))
    return np.lexsort((x, y, z, along))


def _codes_of_shared_corners(raw: RawMesh, pairs: Indices) -> Indices:
    """Return how the corners of the second face of each pair lie in the first, int64 [p]."""
    first, second = (raw.corners[faces[:, None] // 6, FACE_CORNERS[faces % 6]] for faces in pairs.T)
    codes = code_of(first, second)
    bad = np.flatnonzero(codes < 0)
    if len(bad):
        one, other = (raw.name(*divmod(int(face), 6)) for face in pairs[bad[0]])
        raise raw.error(
            f"{one} and {other} have the same corners, but in a different order around the face",
            "Correct one of the elements",
        )
    return codes


def _sides_of_faces(raw: RawMesh, unmatched: Indices) -> Indices:
    """Return the side of every face 6 e + f, int64 [6 E], -1 for none. Names of faces inside the mesh are ignored."""
    side_of = np.full(6 * raw.n_elements, -1)
    outside = np.zeros(6 * raw.n_elements, np.bool_)
    outside[unmatched] = True
    element, face, side = raw.named.T
    flat = 6 * element + face
    order = np.argsort(flat, kind="stable")
    twice = np.flatnonzero((flat[order][1:] == flat[order][:-1]) & (side[order][1:] != side[order][:-1]))
    if len(twice):
        at = order[twice[0]]
        names = " and ".join(f'"{raw.sides[side[order[twice[0] + i]]]}"' for i in (0, 1))
        raise raw.error(
            f"{raw.name(int(element[at]), int(face[at]))} belongs to the sides {names}",
            "A face can belong to only one side",
        )
    side_of[flat] = side
    return np.where(outside, side_of, -1)


def _periodic_pairs(
    raw: RawMesh, side_of: Indices, periodic: Mapping[str, str]
) -> tuple[Indices, list[tuple[float, float, float]]]:
    """Return the pairs of faces that are periodic, int64 [p, 2], and the translations between them."""
    element, face, other, other_face = raw.pairs.T
    pairs = [np.stack([6 * element + face, 6 * other + other_face], axis=1)]
    corners = raw.corner_places()
    centres = [
        corners[e[:, None], FACE_CORNERS[f]].mean(axis=1) for e, f in ((element, face), (other, other_face))
    ]
    rounded = np.round((centres[1] - centres[0]) / np.abs(corners).max(), 6) * np.abs(corners).max()
    shifts = [tuple(step) for step in np.unique(rounded, axis=0).tolist()]
    for a, b in periodic.items():
        first, second = (np.flatnonzero(side_of == raw.sides.index(name)) for name in (a, b))
        matched, shift = match_sides(raw, first, second, f'the sides "{a}" and "{b}"')
        pairs.append(matched)
        shifts.append(tuple(float(s) for s in shift))
    return np.concatenate(pairs), shifts


def _rows_of(raw: RawMesh, topology: Topology, sides: Indices) -> ElementRows:
    """Return the rows of all elements, in the order of the file."""
    q = gauss_lobatto(MEAN_POINTS)[0]
    matrix = interpolation_matrix(raw.points, q)
    extents = mean_lengths(
        np.einsum("kc,jb,ia,decba->dekji", matrix, matrix, matrix, raw.nodes, optimize=True)
    )
    there = topology.across >= 0
    extents_across = np.where(there, extents[topology.across, topology.across_face // 2], 0.0)
    on_vertex = np.zeros(int(topology.vertices.max()) + 1, np.int64)
    on_edge = np.zeros(int(topology.edges.max()) + 1, np.int64)
    for face in range(6):
        elements = np.flatnonzero(sides[:, face] >= 0)
        bits = np.left_shift(1, sides[elements, face])
        np.bitwise_or.at(on_vertex, topology.vertices[elements][:, FACE_CORNERS[face]], bits[:, None])
        for edge, _, _ in FACE_EDGES[face]:
            np.bitwise_or.at(on_edge, topology.edges[elements, edge], bits)
    return ElementRows(
        nodes=np.ascontiguousarray(raw.nodes.swapaxes(0, 1)),
        vertices=topology.vertices,
        edges=topology.edges,
        reversed=topology.reversed,
        faces=topology.faces,
        codes=topology.code,
        across=topology.across,
        sides=sides,
        vertex_sides=on_vertex[topology.vertices],
        edge_sides=on_edge[topology.edges],
        extents=extents,
        extents_across=extents_across,
        names=raw.numbers,
    )


def scatter_mesh(comm: MPI.Comm, whole: HexahedralMesh | None) -> HexahedralMesh:
    """Return the part of the mesh with this rank's elements. Collective.

    whole: the mesh on rank 0, None on the other ranks. Rank 0 sends each rank its rows, one rank after the other.
    More ranks than elements are not an error here.
    """
    if comm.rank == 0:
        assert whole is not None
        for rank in range(1, comm.size):
            comm.send(whole.part(*split(whole.n_elements, comm.size, rank)), rank)
        return whole.part(*split(whole.n_elements, comm.size, 0))
    part: HexahedralMesh = comm.recv(source=0)
    return part
