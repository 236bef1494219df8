"""The hexahedron of points in a lattice: how its corners, edges and faces are numbered, and its mean lengths.

Points are [z, y, x] with x fastest, along the reference directions t, s, r. A corner is 4 k + 2 j + i with k, j, i
of 0 or 1 along z, y, x. Faces are 0 ... 5: lower and upper r, s, t; their points are (z, y), (z, x) or (y, x). Edges
are 0 ... 11: four along r, four along s, four along t, each from its lower to its upper end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MEAN_POINTS = 4  # along each direction, for mean lengths of elements


def face_index(face: int) -> tuple[slice | int, ...]:
    """Return the index that takes a face out of a field [e, z, y, x]: [e, z, y], [e, z, x] or [e, y, x]."""
    index: list[slice | int] = [slice(None)] * 4
    index[3 - face // 2] = -1 if face % 2 else 0
    return tuple(index)


def face_places(n: int) -> Indices:
    """Return the places of the points of the six faces among the n^3 of an element, int64 [6, n, n]."""
    cube = np.arange(n**3).reshape(1, n, n, n)
    return np.stack([cube[face_index(face)][0] for face in range(6)])


# Corners of the faces, [6, 4]: (0, 0), (0, 1), (1, 0), (1, 1) along the slow and the fast direction.
FACE_CORNERS: Indices = face_places(2).reshape(6, 4)
# Corners of the edges, [12, 2], lower end first.
EDGE_CORNERS: Indices = np.array(
    [(c, c + step) for step in (1, 2, 4) for c in range(8) if not c & step], np.int64
)


def edge_index(edge: int) -> tuple[slice | int, ...]:
    """Return the index that takes an edge without its ends out of a field [e, z, y, x]: [e, n - 2]."""
    low, high = EDGE_CORNERS[edge]
    index: list[slice | int] = [slice(None)]
    for bit in (4, 2, 1):
        index.append(slice(1, -1) if (high - low) == bit else (-1 if low & bit else 0))
    return tuple(index)


def face_edges() -> list[list[tuple[int, int, int]]]:
    """Return for each face its four edges as (edge, first corner, second corner), corners as places 0 ... 3 of it."""
    edges_of_faces = []
    for corners in FACE_CORNERS.tolist():
        edges = [
            (edge, corners.index(low), corners.index(high))
            for edge, (low, high) in enumerate(EDGE_CORNERS.tolist())
            if low in corners and high in corners
        ]
        edges_of_faces.append(edges)
    return edges_of_faces


def mean_lengths(places: Array) -> Array:
    """Return the mean lengths of elements along r, s, t, float64 [m, 3].

    places: [3, m, q, q, q], coordinates at Gauss-Lobatto points, of any number q.
    """
    q = places.shape[-1]
    weights, d = gauss_lobatto(q)[1], gll_derivative(q)
    cube = np.einsum("k,j,i->kji", weights, weights, weights)
    along_t = (d @ places.reshape(*places.shape[:2], q, q * q)).reshape(places.shape)
    speed = np.sqrt((np.stack([places @ d.T, d @ places, along_t]) ** 2).sum(axis=1))  # [3 of r, m, q, q, q]
    return np.ascontiguousarray((speed * cube).sum(axis=(2, 3, 4)).T) / 4.0
