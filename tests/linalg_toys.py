"""Dense operators on points that are stored more than once, to test solvers without elements."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ridgeline.krylov.operator import InnerProduct, unfused_direction

Array = NDArray[np.float64]


class DenseOperator:
    """A matrix over distinct points; `places` says which distinct point each stored point is a copy of."""

    def __init__(
        self,
        matrices: Sequence[Array],
        places: NDArray[np.int64],
        mass: Array | None = None,
        constrained: Sequence[Sequence[int]] = (),
        nullspace: bool = False,
    ) -> None:
        self.places, self.nullspace, self.applications = places, nullspace, 0
        self.free = [np.ones(len(m), bool) for m in matrices]
        for free, points in zip(self.free, constrained):
            free[list(points)] = False
        self.matrices = [m * np.outer(f, f) for m, f in zip(matrices, self.free)]
        copies = np.bincount(places)
        inverse = (1.0 / copies)[places]
        self.inner = InnerProduct(None, inverse, None if mass is None else mass[places])
        _, self.first = np.unique(places, return_index=True)

    def spread(self, values: Array) -> Array:
        """Copy values of distinct points, zero where constrained, to the stored points."""
        rows = np.atleast_2d(values) * np.array(self.free)
        return np.ascontiguousarray(rows[:, self.places]).reshape(*values.shape[:-1], len(self.places))

    def distinct(self, stored: Array) -> Array:
        return stored[..., self.first]

    def apply(self, u: Array, out: Array) -> None:
        self.applications += 1
        rows = np.stack([m @ v for m, v in zip(self.matrices, np.atleast_2d(self.distinct(u)))])
        out[...] = rows[:, self.places].reshape(u.shape)

    def direction(
        self, r: Array, inverse_diagonal: Array, beta: Array, p: Array, w: Array, components: Sequence[int]
    ) -> Array:
        return unfused_direction(self, r, inverse_diagonal, beta, p, w, components)

    def inverse_diagonal(self) -> Array:
        rows = np.stack([1.0 / np.where(f, np.diag(m), 1.0) for m, f in zip(self.matrices, self.free)])
        return np.ascontiguousarray(rows[:, self.places])

    def solve(self, b: Array) -> Array:
        """Return the solution at the stored points of a right-hand side given there."""
        rows = []
        for m, f, v in zip(self.matrices, self.free, np.atleast_2d(self.distinct(b))):
            x = np.zeros(len(m))
            x[f] = np.linalg.lstsq(m[np.ix_(f, f)], v[f], rcond=None)[0]
            rows.append(x)
        return np.ascontiguousarray(np.stack(rows)[:, self.places]).reshape(b.shape)


class DensePreconditioner:
    """An approximate inverse of one matrix, in a precision of its own."""

    def __init__(self, operator: DenseOperator, inverse: Array, dtype: str = "float32") -> None:
        self.operator, self.inverse, self.dtype = operator, inverse, np.dtype(dtype)

    def apply(self, r: Array, z: NDArray[np.float32]) -> None:
        z[...] = (self.inverse @ self.operator.distinct(r))[self.operator.places]


def random_places(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Return n distinct points, about half of them stored twice or more, in any order."""
    return rng.permutation(np.concatenate([np.arange(n), rng.integers(0, n, n // 2)]))


def random_positive(rng: np.random.Generator, n: int, condition: float) -> Array:
    """Return a symmetric positive matrix of a condition number."""
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return np.asarray((q * np.geomspace(1.0, condition, n)) @ q.T)


def path_laplacian(n: int, rng: np.random.Generator) -> Array:
    """Return the matrix of a weighted path: positive but for constants."""
    weights = rng.uniform(0.5, 2.0, n - 1)
    matrix = np.zeros((n, n))
    for i, w in enumerate(weights):
        matrix[i : i + 2, i : i + 2] += w * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return matrix
