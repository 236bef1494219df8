"""A mesh of hexahedra from a file, in curve order: a `mesh_protocol.Mesh` of all elements, or of a part.

The points of an element are the polynomial through the nodes of the file. Global numbers of points come from those of
vertices, edges and faces, and from the elements. So a rank needs only its own elements' rows of these numbers, and no
rank ever holds the points of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.hexahedron import FACE_CORNERS, MEAN_POINTS, edge_index, face_index, mean_lengths
from ridgeline.elements.mesh_protocol import Array, Indices
from ridgeline.elements.meshes.bisection import bisection_order
from ridgeline.elements.meshes.checks import require_closed, require_fitting, right_handed
from ridgeline.elements.meshes.periodic import codes_of_pairs, match_sides
from ridgeline.elements.meshes.raw import RawMesh
from ridgeline.elements.meshes.topology import (
    FACE_EDGES,
    Topology,
    code_of,
    connect,
    face_permutations,
    match_faces,
)
from ridgeline.elements.quadrature import gauss_lobatto, interpolation_matrix
from ridgeline.parallel.partition import Triple, split

if TYPE_CHECKING:
    from mpi4py import MPI

MOST_SIDES = 62  # bits of a number that says on which sides a vertex or an edge lies


@dataclass(frozen=True)
class MeshCounts:
    """Elements, vertices, edges and faces of the whole mesh; mirrored: elements that were turned round."""

    elements: int
    vertices: int
    edges: int
    faces: int
    mirrored: int = 0


@dataclass(frozen=True, eq=False)
class ElementRows:
    """What belongs to each of some elements, consecutive in curve order; int64 unless said otherwise.

    nodes: float64 [m, 3, q, q, q]. vertices [m, 8], edges [m, 12], reversed bool [m, 12], faces, codes, across
    [m, 6]: see `topology.Topology`; across in curve order. sides [m, 6]: number of the side that a face lies on, -1:
    none. vertex_sides [m, 8], edge_sides [m, 12]: bit s says that it lies on side s. extents: float64 [m, 3];
    extents_across: float64 [m, 6]; names [m]: what the file calls the elements.
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

    def taken(self, which: Indices | slice) -> ElementRows:
        """Return some of the rows, copied."""
        return ElementRows(
            **{field.name: np.array(getattr(self, field.name)[which]) for field in fields(self)}
        )


@dataclass(frozen=True, eq=False)
class HexahedralMesh:
    """Elements first ... first + m - 1 of a mesh in curve order; a `Mesh` that answers about these.

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
        """Elements of the whole mesh."""
        return self.counts.elements

    @property
    def axis_aligned(self) -> bool:
        """False: every element has its own metrics."""
        return False

    @property
    def regular(self) -> bool:
        """False: the axes of neighbours may differ."""
        return False

    @property
    def advice(self) -> str:
        """What to check if the map of an element folds."""
        return f'the file grid.mesh = "{self.source}"'

    def part(self, first: int, count: int) -> HexahedralMesh:
        """Return the mesh with the rows of elements first ... first + count - 1 alone, copied."""
        start = first - self.first
        return replace(self, rows=self.rows.taken(slice(start, start + count)), first=first)

    def _rows(self, positions: Indices) -> Indices:
        return positions - self.first

    def range(self, first: int, count: int) -> Indices:
        """Return first ... first + count - 1."""
        return np.arange(first, first + count, dtype=np.int64)

    def spread(self, most: int) -> Indices:
        """Return the positions of at most `most` elements, evenly spread."""
        last = self.n_elements - 1
        return np.unique(np.linspace(0, last, min(self.n_elements, max(most, 1))).astype(np.int64))

    def numbers(self, positions: Indices) -> Indices:
        """Return the positions themselves."""
        return positions

    def neighbours(self, positions: Indices) -> Indices:
        """Return the numbers of the elements across the six faces, int64 [m, 6]; -1: none."""
        return self.rows.across[self._rows(positions)]

    def extents(self, positions: Indices) -> Array:
        """Return the mean physical lengths of elements along r, s, t, float64 [m, 3]."""
        return self.rows.extents[self._rows(positions)]

    def extents_across(self, positions: Indices) -> Array:
        """Return the mean lengths of the neighbours, across the face that they share, float64 [m, 6]; 0: none."""
        return self.rows.extents_across[self._rows(positions)]

    def box_lengths(self, positions: Indices) -> Array:
        """No element is known to be a box along the axes."""
        raise ValueError("elements of a mesh from a file are no boxes along the axes")

    def places(self, positions: Indices, points: Array | tuple[Array, Array, Array]) -> Array:
        """Return the coordinates (x, y, z) of points in elements, float64 [3, m, n_z, n_y, n_x]."""
        per_axis = points if isinstance(points, tuple) else (points,) * 3
        z, y, x = (interpolation_matrix(self.points, at) for at in per_axis)
        nodes = self.rows.nodes[self._rows(positions)]  # [m, 3, q, q, q]
        found = y @ (nodes @ x.T)
        flat = z @ found.reshape(*found.shape[:3], -1)
        return np.ascontiguousarray(flat.reshape(*flat.shape[:3], len(y), len(x)).swapaxes(0, 1))

    def n_unique(self, orders: Triple) -> int:
        """Return the distinct points of the whole mesh at equal orders."""
        inner, counts = _one_order(orders) - 1, self.counts
        return counts.vertices + inner * (counts.edges + inner * (counts.faces + inner * counts.elements))

    def ids(self, positions: Indices, orders: Triple) -> Indices:
        """Return the global numbers of points at equal orders, int64 [m, n, n, n]; equal where elements share one.

        Those of vertices come first, then those of edges, of faces and of elements.
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
        """Return numbers of the points of faces, int64 [f, n^2]: both elements at a face number its points alike."""
        n, here = _one_order(points), self._rows(positions)
        planes = face_permutations(n).reshape(8, n * n)
        return self.rows.faces[here, faces, None] * n**2 + planes[self.rows.codes[here, faces]]

    def _side(self, name: str) -> int:
        return self.sides.index(name)

    def side_faces(self, positions: Indices, side: str) -> tuple[Indices, Indices]:
        """Return which of some elements lie at a side, and by which face: int64 [f] each, sorted by face."""
        sides: Indices = self.rows.sides[self._rows(positions)].T
        faces, elements = np.nonzero(np.equal(sides, self._side(side)))
        return np.ascontiguousarray(elements), np.ascontiguousarray(faces)

    def on_side(self, positions: Indices, side: str, points: Triple) -> NDArray[np.bool_]:
        """Return which points of elements lie on a side, all copies, bool [m, n_z, n_y, n_x]."""
        number, here = self._side(side), self._rows(positions)
        nz, ny, nx = points
        found = np.zeros((len(positions), nz, ny, nx), np.bool_)
        corners = (self.rows.vertex_sides[here] >> number & 1).astype(np.bool_)
        found[:, :: nz - 1, :: ny - 1, :: nx - 1] = corners.reshape(-1, 2, 2, 2)
        edges = (self.rows.edge_sides[here] >> number & 1).astype(np.bool_)
        for edge in range(12):
            found[edge_index(edge)] |= edges[:, edge, None]
        for face in range(6):
            found[face_index(face)] |= (self.rows.sides[here, face] == number)[:, None, None]
        return found

    def side_positions(self, side: str, most: int) -> Indices:
        """Return the positions of elements at a side: all, or at most `most` evenly spread ones."""
        found = np.flatnonzero((self.rows.sides == self._side(side)).any(axis=1)) + self.first
        chosen = np.unique(np.linspace(0, len(found) - 1, min(len(found), most)).astype(np.int64))
        return np.asarray(found[chosen], np.int64)

    def side_size(self, side: str) -> int:
        """Return how many faces of the elements held lie at a side."""
        return int((self.rows.sides == self._side(side)).sum())

    def name_of(self, position: Indices) -> str:
        """Return the number that the file gives to the element, in words."""
        return f"element {self.rows.names[position - self.first]} of {self.source}"


def _one_order(orders: Triple) -> int:
    z, y, x = orders
    if not z == y == x:
        raise ValueError(f"orders {orders} (z, y, x) of elements whose axes differ from their neighbours'")
    return z


def build_mesh(raw: RawMesh, periodic: Mapping[str, str] | None = None) -> HexahedralMesh:
    """Return the checked mesh of a file, all of its elements. No communication.

    periodic: pairs of sides that are one, by name; they are no sides of the mesh any more.

    Raises ConfigError that names the element or the side. Elements must not fold. A face must be of two elements, or
    of one and a side. Periodic sides must match.
    """
    raw, mirrored = right_handed(raw)
    matched, alone = match_faces(raw)
    side_of = _named(raw, alone)
    around, translations = _around(raw, side_of, periodic or {})
    side_of[around] = -1
    free = np.ones(6 * raw.n_elements, np.bool_)
    free[matched], free[around] = False, False
    require_closed(raw, np.flatnonzero(free & (side_of < 0)))
    codes = np.concatenate([_codes(raw, matched), codes_of_pairs(raw, around)])
    require_fitting(raw, np.concatenate([matched, around]), codes)
    topology = connect(raw, np.concatenate([matched, around]), codes, len(matched))
    kept = [s for s in range(len(raw.sides)) if (side_of == s).any()]
    renumber = np.full(len(raw.sides) + 1, -1)
    renumber[kept] = np.arange(len(kept))
    sides = renumber[side_of].reshape(-1, 6)
    if len(kept) > MOST_SIDES:
        raise raw.error(f"has {len(kept)} sides", f"need at most {MOST_SIDES}")
    rows = _rows_of(raw, topology, sides)
    order = bisection_order(raw.corner_places().mean(axis=1))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    rows = rows.taken(order)
    rows.across[...] = np.where(rows.across < 0, -1, place[rows.across])
    vertices, edges, faces = (int(t.max()) + 1 for t in (topology.vertices, topology.edges, topology.faces))
    counts = MeshCounts(raw.n_elements, vertices, edges, faces, mirrored)
    return HexahedralMesh(
        raw.source, raw.points, tuple(raw.sides[s] for s in kept), tuple(translations), counts, rows
    )


def _codes(raw: RawMesh, pairs: Indices) -> Indices:
    first, second = (raw.corners[faces[:, None] // 6, FACE_CORNERS[faces % 6]] for faces in pairs.T)
    codes = code_of(first, second)
    bad = np.flatnonzero(codes < 0)
    if len(bad):
        one, other = (raw.name(*divmod(int(face), 6)) for face in pairs[bad[0]])
        raise raw.error(f"{one} and {other} have the same corners crosswise", "mend one of the elements")
    return codes


def _named(raw: RawMesh, alone: Indices) -> Indices:
    """Return the side of every face 6 e + f, int64 [6 E], -1: none. Names of faces inside the mesh are left out."""
    side_of = np.full(6 * raw.n_elements, -1)
    outside = np.zeros(6 * raw.n_elements, np.bool_)
    outside[alone] = True
    element, face, side = raw.named.T
    flat = 6 * element + face
    order = np.argsort(flat, kind="stable")
    twice = np.flatnonzero((flat[order][1:] == flat[order][:-1]) & (side[order][1:] != side[order][:-1]))
    if len(twice):
        at = order[twice[0]]
        names = " and ".join(f'"{raw.sides[side[order[twice[0] + i]]]}"' for i in (0, 1))
        raise raw.error(
            f"{raw.name(int(element[at]), int(face[at]))} is of the sides {names}", "name it once"
        )
    side_of[flat] = side
    return np.where(outside, side_of, -1)


def _around(
    raw: RawMesh, side_of: Indices, periodic: Mapping[str, str]
) -> tuple[Indices, list[tuple[float, float, float]]]:
    """Return the pairs of faces that are periodic, int64 [p, 2], and the translations between them."""
    element, face, other, other_face = raw.pairs.T
    found = [np.stack([6 * element + face, 6 * other + other_face], axis=1)]
    corners = raw.corner_places()
    centres = [
        corners[e[:, None], FACE_CORNERS[f]].mean(axis=1) for e, f in ((element, face), (other, other_face))
    ]
    rounded = np.round((centres[1] - centres[0]) / np.abs(corners).max(), 6) * np.abs(corners).max()
    shifts = [tuple(step) for step in np.unique(rounded, axis=0).tolist()]
    for a, b in periodic.items():
        first, second = (np.flatnonzero(side_of == raw.sides.index(name)) for name in (a, b))
        pairs, shift = match_sides(raw, first, second, f'the sides "{a}" and "{b}"')
        found.append(pairs)
        shifts.append(tuple(float(s) for s in shift))
    return np.concatenate(found), shifts


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


def share_out(comm: MPI.Comm, whole: HexahedralMesh | None) -> HexahedralMesh:
    """Return the part of the mesh with this rank's elements. Collective; whole: on rank 0, None on others.

    Rank 0 sends each rank its rows, one rank after the other. Raises nothing for more ranks than elements.
    """
    if comm.rank == 0:
        assert whole is not None
        for rank in range(1, comm.size):
            comm.send(whole.part(*split(whole.n_elements, comm.size, rank)), rank)
        return whole.part(*split(whole.n_elements, comm.size, 0))
    part: HexahedralMesh = comm.recv(source=0)
    return part
