"""Fast diagonalisation of the Laplacian on a box of tensor-product points: one-dimensional eigenproblems.

With stiffness A and diagonal mass B of each direction and A s = lambda B s, S^T B S = I, the inverse of
B x B x A + B x A x B + A x B x B is (S x S x S) (lambda_x + lambda_y + lambda_z)^-1 (S x S x S)^T.
Sources: Lynch, Rice and Thomas, Numer. Math. 6 (1964) 185; for overlapping Schwarz on spectral elements: Fischer,
J. Comput. Phys. 133 (1997) 84; Lottes and Fischer, J. Sci. Comput. 24 (2005) 45; Fischer and Lottes (2005).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.mesh_protocol import Array, Indices, Mesh
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative

NEIGHBOUR, NEUMANN, DIRICHLET = 0, 1, 2  # what lies at an end of an element's line
ZERO = 1e-10  # fraction of the largest eigenvalue below which an eigenvalue is that of the constant


def line_problems(mesh: Mesh, positions: Indices, dirichlet_sides: tuple[str, ...]) -> tuple[Array, Indices]:
    """Return what the one-dimensional problems of elements depend on: (lengths, kinds).

    lengths: float64 [m, 3, 3], of the lower neighbour, the element and the upper neighbour (0 for none), for each of
    the directions r, s, t; kinds: int64 [m, 3, 2], NEIGHBOUR, NEUMANN or DIRICHLET at the lower and the upper end.
    """
    m = len(positions)
    lengths = np.empty((m, 3, 3))
    lengths[:, :, 1] = mesh.extents(positions)
    lengths[:, :, 0::2] = mesh.extents_across(positions).reshape(m, 3, 2)
    kinds = np.where(mesh.neighbours(positions) < 0, NEUMANN, NEIGHBOUR)
    for side in dirichlet_sides:
        elements, faces = mesh.side_faces(positions, side)
        outside = kinds[elements, faces] == NEUMANN
        kinds[elements[outside], faces[outside]] = DIRICHLET
    return lengths, kinds.reshape(m, 3, 2)


def extended_operators(n: int, lengths: Array, kinds: Indices) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return stiffness [m, n + 2, n + 2], mass [m, n + 2] and which points are unknowns, bool [m, n + 2].

    The line of an element of n points extends one point into each neighbour, at places 0 and n + 1; the solution is
    zero beyond. lengths: [m, 3]; kinds: [m, 2]. The caller leaves out rows and columns of points that are not
    unknowns.
    """
    m = len(lengths)
    weights, derivative = gauss_lobatto(n)[1], gll_derivative(n)
    one = derivative.T @ (weights[:, None] * derivative)
    stiffness, mass = np.zeros((m, n + 2, n + 2)), np.zeros((m, n + 2))
    active = np.ones((m, n + 2), np.bool_)
    stiffness[:, 1:-1, 1:-1] = one * (2.0 / lengths[:, 1])[:, None, None]
    mass[:, 1:-1] = weights * (lengths[:, 1] / 2.0)[:, None]
    # (end, place of the ghost, place of the end, the neighbour's points: one inside the shared end, and the end)
    for end, ghost, edge, inner, outer in ((0, 0, 1, n - 2, n - 1), (1, n + 1, n, 1, 0)):
        open_end = kinds[:, end] == NEIGHBOUR
        length = np.where(open_end, lengths[:, 2 * end], 1.0)
        for row, column, value in (
            (ghost, ghost, one[inner, inner]),
            (ghost, edge, one[inner, outer]),
            (edge, ghost, one[outer, inner]),
            (edge, edge, one[outer, outer]),
        ):
            stiffness[:, row, column] += np.where(open_end, 2.0 / length * value, 0.0)
        mass[:, ghost] += np.where(open_end, length / 2.0 * weights[inner], 0.0)
        mass[:, edge] += np.where(open_end, length / 2.0 * weights[outer], 0.0)
        active[:, ghost] = open_end
        active[:, edge] = kinds[:, end] != DIRICHLET
    return stiffness, mass, active


def eigenpairs(stiffness: Array, mass: Array, active: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return (S, lambda) of A s = lambda B s, S^T B S = 1: float64 [m, k, k] with columns s, and [m, k].

    stiffness: [m, k, k] symmetric; mass: [m, k] the diagonal of B; active: bool [m, k], the unknowns. Rows of S at
    other points are zero; unused columns are zero with lambda = 1. lambda of a constant is exactly 0.
    """
    k = mass.shape[1]
    vectors, values = np.zeros_like(stiffness), np.ones_like(mass)
    patterns, which = np.unique(active, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        members, kept = np.flatnonzero(which.reshape(-1) == number), np.flatnonzero(pattern)
        if not len(kept):
            continue
        root = 1.0 / np.sqrt(mass[np.ix_(members, kept)])
        block = stiffness[np.ix_(members, kept, kept)] * root[:, :, None] * root[:, None, :]
        value, vector = np.linalg.eigh((block + block.transpose(0, 2, 1)) / 2.0)
        value[value < ZERO * value[:, -1:]] = 0.0
        columns = np.arange(k)[: len(kept)]
        vectors[np.ix_(members, kept, columns)] = vector * root[:, :, None]
        values[np.ix_(members, columns)] = value
    return vectors, values


def extended_eigenpairs(n: int, lengths: Array, kinds: Indices) -> tuple[Array, Array, Indices]:
    """Return the eigenpairs of the lines of elements, computed once per distinct line.

    lengths: [m, q, 3]; kinds: [m, q, 2], of q of the directions, as from `line_problems`. Return vectors float64 [d,
    n + 2, n + 2], values [d, n + 2] and index int64 [m, q]: which of the d pairs a line uses. In a box, d is about
    E_x + E_y + E_z.
    """
    lines = np.concatenate([lengths.reshape(-1, 3), kinds.reshape(-1, 2).astype(np.float64)], axis=1)
    # Equal lengths differ in their last bits, because they were computed as differences of boundaries.
    keys = lines.copy()
    keys[:, :3] = np.round(lines[:, :3] / lines[:, 1].max(initial=1e-300), 12)
    _, first, index = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    distinct = lines[first]
    vectors, values = eigenpairs(*extended_operators(n, distinct[:, :3], distinct[:, 3:].astype(np.int64)))
    return vectors, values, np.asarray(index.reshape(lengths.shape[:2]), np.int64)
