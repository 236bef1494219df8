"""The topology of a mesh of hexahedra: numbers of its faces, edges and vertices, equal where they are shared.

Two elements share a face if they share its four corners. The two faces of a periodic pair are identified, and with
them their edges and vertices, through any number of pairs. Numbers do not depend on the orientation of elements.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ridgeline.elements.hexahedron import EDGE_CORNERS, FACE_CORNERS, face_edges
from ridgeline.elements.meshes.raw_mesh import RawMesh

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

FACE_EDGES = face_edges()
NEAR = 1e-4  # of the shortest diagonal of a face: places that are nearer are the same


@dataclass(frozen=True, eq=False)
class Topology:
    """Numbers of vertices [E, 8], edges [E, 12] and faces [E, 6] of elements, and how they lie in them.

    reversed: bool [E, 12], whether an edge's own direction is against the element's. code: int64 [E, 6], how a face's
    own two directions lie in the element's, see `code_of`. across: int64 [E, 6], the element at the other side of a
    face, -1 for none. across_face: int64 [E, 6], which of its faces that is.
    """

    vertices: Indices
    edges: Indices
    faces: Indices
    reversed: NDArray[np.bool_]
    code: Indices
    across: Indices
    across_face: Indices


def match_faces(raw: RawMesh) -> tuple[Indices, Indices]:
    """Return (pairs, unmatched): faces 6 e + f that share their corners, int64 [p, 2], and all others, int64 [s].

    Raises ConfigError for a face of more than two elements, and for two elements at the same place.
    """
    keys = np.sort(raw.corners[:, FACE_CORNERS].reshape(-1, 4), axis=1)
    order = np.lexsort(keys.T)
    same = (keys[order][1:] == keys[order][:-1]).all(axis=1)
    thrice = np.flatnonzero(same[1:] & same[:-1])
    if len(thrice):
        several = sorted({int(raw.numbers[f // 6]) for f in order[thrice[0] : thrice[0] + 3]})
        element, face = divmod(int(order[thrice[0]]), 6)
        raise raw.error(
            f"{raw.name(element, face)} is shared by the elements {', '.join(map(str, several))}",
            "A face can belong to at most two elements. Remove duplicate elements",
        )
    starts = np.flatnonzero(same)
    pairs = np.stack([order[starts], order[starts + 1]], axis=1)
    unmatched = np.ones(len(keys), np.bool_)
    unmatched[pairs] = False
    neighbours, count = np.unique(np.sort(pairs // 6, axis=1), axis=0, return_counts=True)
    if (count == 6).any():
        a, b = (int(raw.numbers[e]) for e in neighbours[np.argmax(count == 6)])
        raise raw.error(f"elements {a} and {b} are at the same position", "Remove one of them")
    return pairs, np.flatnonzero(unmatched)


def code_of(first: Indices, second: Indices) -> Indices:
    """Return how the corners of faces `second` lie in faces `first`, int64 [p]: 4 transposed + 2 slow + fast.

    first, second: int64 [p, 4], equal numbers for equal corners. transposed: whether the fast direction of the second
    is the slow direction of the first. slow, fast: whether the second begins at the upper end of the first's
    direction. The code is -1 where the corners do not fit.
    """
    start = (first == second[:, :1]).argmax(axis=1)
    beside = (first == second[:, 1:2]).argmax(axis=1)
    transposed = (start ^ beside) == 2
    code = 4 * transposed + start
    fits = np.take_along_axis(first, corner_table()[code], axis=1) == second
    return np.where(fits.all(axis=1), code, -1)


def corner_table() -> Indices:
    """Return for each code where the corners of the second face are among those of the first, int64 [8, 4]."""
    return face_permutations(2).reshape(8, 4)


def face_permutations(q: int) -> Indices:
    """Return for each code where the q x q points of the second face are in the first, int64 [8, q, q]."""
    permutations = np.empty((8, q, q), np.int64)
    a, b = np.indices((q, q))
    for code in range(8):
        slow, fast = (b, a) if code & 4 else (a, b)
        slow = q - 1 - slow if code & 2 else slow
        fast = q - 1 - fast if code & 1 else fast
        permutations[code] = slow * q + fast
    return permutations


def connect(raw: RawMesh, pairs: Indices, codes: Indices, n_matched: int) -> Topology:
    """Return the topology of a mesh.

    pairs: int64 [p, 2], faces 6 e + f that are identified; the first n_matched share their corners, the others are
    periodic. codes: int64 [p], how the corners of the second lie in the first.
    """
    n = raw.n_elements
    # Vertices [E, 8] are numbered from 0, edges [12 E] by their ends; flip: an edge goes from the higher vertex.
    _, vertex = np.unique(raw.corners, return_inverse=True)
    vertex = vertex.reshape(raw.corners.shape)
    ends = vertex[:, EDGE_CORNERS].reshape(-1, 2)
    low = np.sort(ends, axis=1)
    _, edge = np.unique(low[:, 0] * (vertex.max() + 1) + low[:, 1], return_inverse=True)
    edge, flip = edge.reshape(-1), ends[:, 0] > ends[:, 1]
    if len(pairs) > n_matched:
        periodic = slice(n_matched, None)
        vertex = _merge_vertices(vertex, pairs[periodic], codes[periodic])
        edge, flip = _merge_edges(edge, flip, pairs[periodic], codes[periodic])

    face = np.arange(6 * n)
    face[pairs[:, 1]] = pairs[:, 0]
    _, face = np.unique(face, return_inverse=True)
    code, across, across_face = np.zeros(6 * n, np.int64), np.full(6 * n, -1), np.full(6 * n, -1)
    code[pairs[:, 1]] = codes
    for here, there in (pairs.T, pairs.T[::-1]):
        across[here], across_face[here] = there // 6, there % 6
    return Topology(
        vertex,
        edge.reshape(n, 12),
        face.reshape(n, 6),
        flip.reshape(n, 12),
        *(table.reshape(n, 6) for table in (code, across, across_face)),
    )


def _merge_vertices(vertex: Indices, pairs: Indices, codes: Indices) -> Indices:
    """Return new numbers of the vertices, equal for the corners of faces that are identified."""
    flat = (pairs // 6 * 8)[:, :, None] + FACE_CORNERS[pairs % 6]  # [p, 2, 4]
    partner = np.take_along_axis(flat[:, 0], corner_table()[codes], axis=1)
    first, second = (vertex.reshape(-1)[places.reshape(-1)] for places in (partner, flat[:, 1]))
    size = int(vertex.max()) + 1
    links = coo_matrix((np.ones(len(first)), (first, second)), shape=(size, size))
    return np.asarray(connected_components(links, directed=False)[1], np.int64)[vertex]


def _merge_edges(
    edge: Indices, flip: NDArray[np.bool_], pairs: Indices, codes: Indices
) -> tuple[Indices, NDArray[np.bool_]]:
    """Return new numbers and directions of the edges, equal for the edges of faces that are identified.

    The connected components of a graph give them. Each edge is two nodes of the graph, one for each direction.
    """
    first, second = [], []
    table = corner_table()
    for face in range(6):
        for code in range(8):
            chosen = pairs[(pairs[:, 1] % 6 == face) & (codes == code)]
            for here, start, end in FACE_EDGES[face]:
                ends = (table[code, start], table[code, end])
                for other in range(6):
                    mine = chosen[chosen[:, 0] % 6 == other]
                    there, against = _edge_between(other, *ends)
                    a, b = mine[:, 0] // 6 * 12 + there, mine[:, 1] // 6 * 12 + here
                    first.append(2 * edge[a] + (flip[a] ^ against))
                    second.append(2 * edge[b] + flip[b])
    a, b = np.concatenate(first), np.concatenate(second)
    size = 2 * (int(edge.max()) + 1)
    rows, columns = np.concatenate([a, a ^ 1]), np.concatenate([b, b ^ 1])
    links = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    label = np.asarray(connected_components(links, directed=False)[1], np.int64)
    lower, upper = label[0::2], label[1::2]
    _, merged = np.unique(np.minimum(lower, upper), return_inverse=True)
    return merged[edge], flip ^ (upper < lower)[edge]


def _edge_between(face: int, start: int, end: int) -> tuple[int, bool]:
    """Return the edge between two corners of a face, and whether it goes from the second to the first."""
    for edge, low, high in FACE_EDGES[face]:
        if {low, high} == {start, end}:
            return edge, low == end
    raise AssertionError("the two corners of the face are not adjacent")


def match_sides(raw: RawMesh, first: Indices, second: Indices, words: str) -> tuple[Indices, Array]:
    """Return the pairs of faces 6 e + f of two periodic sides, int64 [p, 2], and the translation between them, [3].

    first, second: int64, the faces of the two sides. words: name the sides in messages. Raises ConfigError if the
    sides do not match.
    """
    corners = raw.corner_places()
    a, b = (corners[faces[:, None] // 6, FACE_CORNERS[faces % 6]] for faces in (first, second))
    shift = np.asarray(b.mean(axis=(0, 1)) - a.mean(axis=(0, 1)))
    if len(first) != len(second):
        raise raw.error(
            f"{words} are periodic but have {len(first)} and {len(second)} faces",
            "Periodic sides must have equal meshes",
        )
    near = NEAR * float(np.sqrt(((a[:, 3] - a[:, 0]) ** 2).sum(axis=1)).min())
    apart, partner = cKDTree(b.mean(axis=1)).query(a.mean(axis=1) + shift)
    bad = np.flatnonzero(apart > near)
    if len(bad) or len(np.unique(partner)) < len(partner):
        at = int(bad[0]) if len(bad) else 0
        x, y, z = shift
        raise raw.error(
            f"{words} are periodic with the translation ({x:.6g}, {y:.6g}, {z:.6g}), but "
            f"{raw.name(*divmod(int(first[at]), 6))} has no partner",
            "The sides must be equal except for a translation",
        )
    return np.stack([first, second[partner]], axis=1), shift


def codes_of_pairs(raw: RawMesh, pairs: Indices) -> Indices:
    """Return how the corners of the second face of each periodic pair lie in the first, int64 [p] (`code_of`)."""
    corners = raw.corner_places()
    a, b = (corners[faces[:, None] // 6, FACE_CORNERS[faces % 6]] for faces in pairs.T)
    a, b = (c - c.mean(axis=1, keepdims=True) for c in (a, b))
    apart = ((b[:, :, None] - a[:, None]) ** 2).sum(axis=3)  # [p, corner of second, of first]
    codes = code_of(np.broadcast_to(np.arange(4), (len(pairs), 4)), apart.argmin(axis=2))
    size = ((a[:, 3] - a[:, 0]) ** 2).sum(axis=1)
    bad = np.flatnonzero((codes < 0) | (apart.min(axis=2).max(axis=1) > NEAR**2 * size))
    if len(bad):
        one, other = (raw.name(*divmod(int(face), 6)) for face in pairs[bad[0]])
        raise raw.error(
            f"{one} and {other} are periodic but differ by more than a translation",
            "Periodic faces must have the same shape",
        )
    return codes
