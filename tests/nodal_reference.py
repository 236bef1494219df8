"""The nodal problem in plain NumPy and SciPy, whole grids at once: the oracle of `NodalMultigrid`.

Everything is a matrix. The operator is assembled from the element matrices of all cells, the interpolation is a
product of three matrices of one axis each, and a V-cycle is ten lines. The plan of the levels and the weights of the
smoother are those of the package; they are tested by what they achieve.
"""

from functools import reduce
from itertools import pairwise, product

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg

from ridgeline.blocks.block import Block
from ridgeline.blocks.multigrid.nodal_tables import smoothing_weights
from ridgeline.blocks.multigrid.nodes import nodal_levels


def node_shape(cells, periodic):
    return tuple(n + (not wraps) for n, wraps in zip(cells, periodic))


def axis_product(matrices):
    """The matrix that applies one matrix along each axis of a field that is laid out with x fastest."""
    return reduce(sparse.kron, matrices).tocsr()


def stiffness_matrix(widths, periodic, sigma):
    """The integral of sigma grad phi . grad w for all pairs of trilinear functions, cell by cell."""
    cells = [len(w) for w in widths]
    shape = node_shape(cells, periodic)
    h = np.meshgrid(*widths, indexing="ij")
    number = np.arange(np.prod(shape)).reshape(shape)
    total = 0
    for a, b in product(product((0, 1), repeat=3), repeat=2):  # two corners of each cell
        mass = [h[d] * (1 / 3 if a[d] == b[d] else 1 / 6) for d in range(3)]
        slope = [(1 if a[d] == b[d] else -1) / h[d] for d in range(3)]
        value = sigma * sum(slope[d] * mass[(d + 1) % 3] * mass[(d + 2) % 3] for d in range(3))
        at = [
            number[np.ix_(*[(np.arange(n) + c) % m for n, c, m in zip(cells, corner, shape)])].ravel()
            for corner in (a, b)
        ]
        total = total + sparse.coo_array((value.ravel(), at), shape=(number.size, number.size))
    return total.tocsr()


def free_nodes(cells, periodic, sides):
    """Which nodes are not fixed, as one flat array of bools."""
    free = np.ones(node_shape(cells, periodic), bool)
    for axis, pair in enumerate(sides):
        for place, side in zip((0, -1), pair if pair != "periodic" else ()):
            if side == "dirichlet":
                np.moveaxis(free, axis, 0)[place] = False
    return free.ravel()


def interpolation(widths, starts, periodic):
    """Linear interpolation along one axis, from the nodes at the ends of aggregates to all nodes."""
    cells, coarse_cells = len(widths), len(starts) - 1
    place = np.concatenate([[0], np.cumsum(widths)])
    matrix = np.zeros((cells + (not periodic), coarse_cells + (not periodic)))
    for node in range(len(matrix)):
        low = min(np.searchsorted(starts, node, "right") - 1, coarse_cells - 1)
        a, b = place[starts[low]], place[starts[low + 1]]
        part = (place[node] - a) / (b - a)
        matrix[node, low] += 1 - part
        matrix[node, (low + 1) % matrix.shape[1]] += part
    return matrix


class Reference:
    """The matrices of all levels: A, and from the second level on P, of the free nodes alone."""

    def __init__(self, cells, widths, sides, sigma=1.0):
        periodic = tuple(pair == "periodic" for pair in sides)
        block = Block.of_rank(cells, (1, 1, 1), 0, periodic)
        self.levels = nodal_levels(block, widths, 4096, 256)
        self.singular = all(pair == "periodic" or "dirichlet" not in pair for pair in sides)
        sigma = np.broadcast_to(sigma, cells)
        self.free, self.operators, self.interpolations, self.weights = [], [], [], []
        for level in self.levels:
            self.free.append(free_nodes(level.shape_global, periodic, sides))
            if level is not self.levels[0]:
                previous = self.levels[len(self.free) - 2]
                axes = [interpolation(*each) for each in zip(previous.widths, level.aggregates, periodic)]
                self.interpolations.append(axis_product(axes)[self.free[-2]][:, self.free[-1]])
                for axis, (starts, w) in enumerate(zip(level.aggregates, previous.widths)):
                    volume = np.moveaxis(np.ones(sigma.shape), axis, -1) * w
                    parts = [
                        np.add.reduceat(x, starts[:-1], -1)
                        for x in (np.moveaxis(sigma, axis, -1) * w, volume)
                    ]
                    sigma = np.moveaxis(parts[0] / parts[1], -1, axis)
            matrix = stiffness_matrix(level.widths, periodic, sigma)
            self.operators.append(matrix[self.free[-1]][:, self.free[-1]])
        self.weights = [smoothing_weights(fine, coarse) for fine, coarse in pairwise(self.levels)]

    def cycle(self, b, x, number=0):
        """One V-cycle."""
        A = self.operators[number]
        if number + 1 == len(self.levels):
            return np.linalg.pinv(A.toarray(), hermitian=True) @ b
        P, (before, after) = self.interpolations[number], self.weights[number]
        for weight in before:
            x = x + weight * (b - A @ x) / A.diagonal()
        x = x + P @ self.cycle(P.T @ (b - A @ x), np.zeros(P.shape[1]), number + 1)
        for weight in after:
            x = x + weight * (b - A @ x) / A.diagonal()
        return x

    def solve(self, b):
        """The solution by sparse LU; with a null space, the one that is zero at the first node."""
        A, x = self.operators[0].tocsc(), np.zeros(len(b))
        kept = slice(1, None) if self.singular else slice(None)
        x[kept] = scipy.sparse.linalg.spsolve(A[kept, kept], b[kept])
        return x
