"""Initial guesses by projection onto the latest solutions of the same operator.

The guess x0 is the best in the energy norm among combinations of the last `depth` solutions:
x0 = sum_k X_k (X_k . b) with X_i . A X_j = delta_ij. Then A dx = b - A x0 is solved, and the solution joins.
Source: Fischer, Comput. Methods Appl. Mech. Eng. 163 (1998) 193. Continuous updates: Hadri et al. (NekBox), Sec. 2.3;
the oldest solutions leave by a QR factorisation of the coordinates, as in Austin, Chalmers, Warburton, SIAM J. Sci.
Comput. 43 (2021) S259: the basis always spans the last solutions themselves. A new start would lose the bulk of the
solution. To let one leave writes the whole basis. So the oldest m leave at once, m = `leaving(depth)`, by one block
reflector I - V G V^T (Schreiber and Parlett, SIAM J. Numer. Anal. 25 (1988) 189): depth - m + 1 to depth are held.

Only X is stored, with dx and A dx of the last solve. These two join at the next guess, so that a step costs two
passes over X, in words per point with k vectors:
- all products with b and with A dx: k + 4, one Allreduce;
- dx is made orthonormal, x0 is combined: k + 2; the oldest leave in the same pass: k - m more, in one of m steps.

dx and A dx are stored past the caches where the space is larger than the caches: the next step reads them first.
There is also one application of A, to x0: A dx is the change of the solver's residual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.jit import vector
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.krylov.basis_kernels import basis_products, basis_transform, pair_dots, projection_combine
from ridgeline.krylov.kernels import copy, subtract
from ridgeline.krylov.operator import Array, Operator, timed

if TYPE_CHECKING:
    from ridgeline.runtime.regions import Regions

DEPENDENT = 1e-6  # of (dx, dx)_A left beside X: below, dx is no new direction
STREAMED = 2**25  # bytes of a space beyond which nothing of it is in cache when the next step wants it
LEAVING = 5  # of so many solutions one leaves: fewer write the basis more often, more make the space smaller
ROUNDING = 1e-26  # (dx, dx)_A over (x, x)_A: below, dx is rounding of the last solve


def leaving(depth: int) -> int:
    """Return how many solutions leave a full space of `depth` at once: one in five, at least one."""
    return max(1, round(depth / LEAVING))


class Projection:
    """The space of the last solutions, for each of c components; passive if depth is 0.

    One object per operator. When that changes, `shift` keeps the space where the change is a multiple of the mass
    matrix, and `reset` begins anew. Every rank holds the same small numbers.
    """

    def __init__(
        self, operator: Operator, depth: int, components: int = 1, regions: Regions | None = None
    ) -> None:
        """Make an empty space of up to `depth` solutions.

        Memory: components * (depth + 2) vectors. regions: "projection" is charged.
        """
        self.operator, self.depth, self.components, self.regions = (
            operator,
            max(depth, 0),
            components,
            regions,
        )
        points = operator.inner.weights.size
        shape = operator.inner.weights.shape
        self.basis: Array = np.zeros((components, self.depth + 1, points))
        self.applied: Array = np.zeros((components, *shape))
        self.reset()

    def reset(self, operator: Operator | None = None) -> None:
        """Forget all solutions, and go on with another operator if one is given."""
        self.operator = operator or self.operator
        c = self.components
        self.counts = np.zeros(c, np.int64)
        self.fresh = np.zeros(c, bool)  # dx of the last solve waits in row `count` of the basis
        self.latest = np.zeros((c, self.depth + 1))  # coordinates of the last guess
        self.upper = np.zeros(
            (c, self.depth + 1, self.depth + 1)
        )  # coordinates of the solutions, oldest first

    def shift(self, change: float) -> None:
        """Go on with the same solutions when the operator A has become A + change B, B the mass matrix. Collective.

        X^T (A + change B) X = I + change X^T B X = L L^T needs no application of A. Then X L^-T is the basis of the
        space, and its old coordinates are multiplied with L^T. With k vectors 3 k + 1 words per point. B is that of
        `operator.inner`, ones where it has none. Without solutions nothing is done.
        """
        if not self.size:
            return
        inner, depth = self.operator.inner, self.depth
        with timed(self.regions, "projection"):
            products = np.zeros((self.components, depth + 1, depth + 1))
            for c, count in enumerate(self.counts):
                basis_products(self.basis[c], count, inner.mean_weights.reshape(-1), products[c])
            products = inner.total(products)
            mass = np.ones(1) if inner.mass is None else inner.mass.reshape(-1)
            for c, applied in enumerate(inner.parts(self.applied)):
                k = int(self.counts[c])
                if self.fresh[c]:
                    applied += change * mass * self.basis[c, k]
                lower = np.linalg.cholesky(np.eye(k) + change * products[c, :k, :k])
                basis_transform(self.basis[c], k, np.ascontiguousarray(np.linalg.inv(lower)))
                self.upper[c, :k, :k] = lower.T @ self.upper[c, :k, :k]
                self.latest[c, :k] = lower.T @ self.latest[c, :k]
        if self.regions is not None:
            points, held = inner.weights.size, self.counts.astype(float)
            flops = float((2.0 * held * (held + 1)).sum())
            self.regions.count("projection", points * flops, 8.0 * points * float((3 * held + 1).sum()))

    @property
    def size(self) -> int:
        """Solutions held, dx of the last solve among them: the largest of all components."""
        return int((self.counts + self.fresh).max(initial=0))

    def guess(self, b: Array, out_x: Array, out_residual: Array) -> None:
        """Set out_x to the guess for A x = b, and out_residual = b - A out_x. Collective.

        b, out_x, out_residual : one component, or [components, ...]; b is assembled and not changed
        If b holds a NaN the guess of that component is zero.
        """
        with timed(self.regions, "projection"):
            self._guess(b, out_x)
            if self.counts.any():
                self.operator.apply(out_x, out_residual)
                subtract(b.reshape(-1), out_residual.reshape(-1), out_residual.reshape(-1))
            else:
                copy(b.reshape(-1), out_residual.reshape(-1))

    def update(self, dx: Array, rhs: Array, residual: Array) -> None:
        """Take in what a solve added to the guess. No communication.

        rhs, residual : right-hand side of that solve and its residual at the end, so that A dx = rhs - residual
        """
        if not self.depth:
            return
        with timed(self.regions, "projection"):
            parts, streaming = self.operator.inner.parts, self.basis.nbytes > STREAMED
            for c, part in enumerate(parts(dx)):
                vector.copy(part, self.basis[c, self.counts[c]], 1, streaming)
            a_dx = self.applied.reshape(-1)
            vector.triad(rhs.reshape(-1), -1.0, residual.reshape(-1), a_dx, 1, streaming)
            self.fresh[:] = True

    def _guess(self, b: Array, out_x: Array) -> None:
        inner = self.operator.inner
        parts, guesses = inner.parts(b), inner.parts(out_x)
        if len(parts) != self.components:
            raise ValueError(f"{len(parts)} components for a projection of {self.components}")
        weights = inner.weights.reshape(-1)
        sums = np.zeros((self.components, 2, self.depth + 1))
        held = self.counts + self.fresh
        applied = inner.parts(self.applied)
        for c in range(self.components):
            if held[c]:
                fresh = bool(self.fresh[c])
                pair_dots(self.basis[c], held[c], parts[c], applied[c], fresh, weights, sums[c])
        if held.any():
            sums = inner.total(sums)
        moved = 0
        for c in range(self.components):
            moved += self._combine(c, sums[c], guesses[c])
        if self.regions is not None:
            n, pairs = weights.size, int(held.sum())
            self.regions.count("projection", 8.0 * n * pairs, 8.0 * n * (pairs + 3 * self.components + moved))

    def _combine(self, c: int, sums: Array, out_x: Array) -> int:
        """Let dx of the last solve join component c, and set its guess; return words moved per point."""
        k = int(self.counts[c])
        along, factors = np.zeros(self.depth + 1), np.zeros(self.depth + 2)
        factors[:k] = sums[0, :k]
        scale, fresh, dropped = 1.0, bool(self.fresh[c]), 0
        gather = spread = np.zeros((0, 0))
        if fresh:
            along[:k] = sums[1, :k]
            energy = sums[1, k]
            left = energy - along @ along
            known = self.latest[c] @ self.latest[c]
            fresh = bool(np.isfinite(left) and left > DEPENDENT * energy and left > ROUNDING * known)
        if fresh:
            scale = 1.0 / np.sqrt(left)
            factors[k] = (sums[0, k] - along[:k] @ factors[:k]) * scale
            upper = self.upper[c]
            upper[:k, k] = self.latest[c, :k] + along[:k]
            upper[k, k] = 1.0 / scale
            if k == self.depth:
                dropped = leaving(k)
                gather, spread = self._drop_oldest(dropped, upper, factors)
            self.counts[c] = k + 1 - dropped
        self.fresh[c] = False
        now = int(self.counts[c])
        if not np.isfinite(factors[:now]).all():
            factors[:] = 0.0
        self.latest[c] = 0.0
        self.latest[c, :now] = factors[:now]
        projection_combine(self.basis[c], k, fresh, along, scale, gather, spread, dropped, factors, out_x)
        return k + fresh * 2 + (now if dropped else 0) + 1

    def _drop_oldest(self, dropped: int, upper: Array, factors: Array) -> tuple[Array, Array]:
        """Remove the first columns of `upper`; return (G V^T, V) of the reflector that makes the last rows void.

        With U the directions that none of the other columns has, [U_1; U_2], and U_2 = L s R^T, V = U + [0; L R^T]
        and G = R (1 + s)^-1 R^T: the reflector takes U to -[0; L R^T].
        """
        rows, kept = self.depth + 1, self.depth + 1 - dropped
        columns = upper[:, dropped:].copy()
        spread = np.ascontiguousarray(np.linalg.qr(columns, mode="complete")[0][:, kept:])
        left, sizes, right = np.linalg.svd(spread[kept:])
        spread[kept:] += left @ right
        gather = np.ascontiguousarray((right.T / (1.0 + sizes)) @ right @ spread.T)
        upper[:] = 0.0
        upper[:kept, :kept] = (columns - spread @ (gather @ columns))[:kept]
        factors[:rows] -= spread @ (gather @ factors[:rows])
        factors[kept:] = 0.0
        return gather, spread

    def fields(self) -> dict[str, Array]:
        """Return the fields of a checkpoint, each [rows, *shape of one component]: views, to be written or filled."""
        shape = self.operator.inner.weights.shape
        return {"basis": self.basis.reshape(-1, *shape), "applied": self.applied}

    def numbers(self) -> Array:
        """Return the small numbers of a checkpoint, the same on all ranks, float64 [m]."""
        parts = (self.counts, self.fresh, self.latest, self.upper)
        return np.concatenate([np.asarray(part, np.float64).reshape(-1) for part in parts])

    def restore(self, numbers: Array) -> None:
        """Take back what `numbers` gave, once the arrays of `fields` are filled: the next guess has the same bits.

        Raises ValueError if the numbers are of another depth or number of components.
        """
        parts = (self.counts, self.fresh, self.latest, self.upper)
        if len(numbers) != sum(part.size for part in parts):
            raise ValueError(
                f"{len(numbers)} numbers for a projection of depth {self.depth} and {self.components} components"
            )
        start = 0
        for part in parts:
            part[...] = numbers[start : start + part.size].reshape(part.shape)
            start += part.size


def kernels_of_projections() -> list[Specialisation]:
    """Return the kernels that a `Projection` calls."""
    own = specialise([pair_dots, projection_combine, basis_products, basis_transform, subtract])
    return [*own, *specialise([copy], np.float64), *vector.kernels_of_passes(np.float64)]
