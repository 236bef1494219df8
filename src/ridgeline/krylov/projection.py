"""Initial guesses by projection onto the latest solutions of the same operator.

The guess x0 is the best in the energy norm among the combinations of the last `depth` solutions:
x0 = sum_k X_k (X_k . b), where X_i . A X_j = delta_ij. Then A dx = b - A x0 is solved, and the new solution x0 + dx
joins the space. The source is Fischer, Comput. Methods Appl. Mech. Eng. 163 (1998) 193; the continuous updates are
those of Hadri et al. (NekBox), Sec. 2.3. The oldest solution is removed by a QR factorisation of the coordinates, as
in Austin, Chalmers, Warburton, SIAM J. Sci. Comput. 43 (2021) S259, here by one Householder reflection. The basis
therefore always spans the last solutions themselves, and no solve has a worse space than the one before it. Starting
the space afresh would lose most of the solution.

Only X is stored, with dx and A dx of the last solve. These two join the space at the next guess, so that a step costs
two passes over X, in words per point with k vectors:
- all products with b and with A dx: k + 4, and one Allreduce;
- dx is made orthonormal and x0 is combined: k + 2; removing the oldest solution in the same pass: k more.

If the space is larger than the caches, dx and A dx are stored past them, because the next step reads them first.
Each guess also applies A once, to x0. A dx is the change of the solver's residual and costs no application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.jit import stream_kernels
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.krylov.basis_kernels import basis_products, basis_transform, pair_dots, projection_combine
from ridgeline.krylov.operator import Array, Operator, kernels_of_inner_products, timed

if TYPE_CHECKING:
    from ridgeline.runtime.regions import Regions

# Fraction of (dx, dx)_A that is orthogonal to X. Below it, dx is not a new direction.
DEPENDENT = 1e-6
# (dx, dx)_A over (x, x)_A. Below it, dx is rounding of the last solve.
ROUNDING = 1e-26
# Bytes of a space beyond which nothing of it is in cache when the next step reads it.
STREAMED = 2**25


class Projection:
    """The space of the last solutions of an operator, for each of c components.

    When the operator changes, `shift` keeps the space if the change is a multiple of the mass matrix, and `reset`
    empties it. Coordinates and counts are the same on all ranks. Memory: components * (depth + 2) vectors.

    Parameters
    ----------
    depth : the most solutions that are kept; 0 for none: guesses are then zero
    components : c
    regions : the passes are charged to the region "projection"
    """

    def __init__(
        self, operator: Operator, depth: int, components: int = 1, regions: Regions | None = None
    ) -> None:
        self.operator, self.depth = operator, max(depth, 0)
        self.components, self.regions = components, regions
        inner = operator.inner
        self.basis: Array = inner.zeros((components, self.depth + 1, inner.weights.size))
        self.applied: Array = inner.zeros((components, *inner.shape))
        self.reset()

    def reset(self, operator: Operator | None = None) -> None:
        """Empty the space, and continue with another operator if one is given."""
        self.operator = operator or self.operator
        c = self.components
        self.counts = np.zeros(c, np.int64)
        # Whether dx of the last solve is in row `count` of the basis, to join the space at the next guess.
        self.fresh = np.zeros(c, bool)
        # Coordinates of the last guess.
        self.latest = np.zeros((c, self.depth + 1))
        # Coordinates of the solutions, the oldest in the first column.
        self.solutions = np.zeros((c, self.depth + 1, self.depth + 1))

    def shift(self, change: float) -> None:
        """Keep the solutions when the operator A has become A + change B, with the mass matrix B.

        X^T (A + change B) X = I + change X^T B X = L L^T needs no application of A. Then X L^-T is the basis of the
        space, and its old coordinates are multiplied by L^T. B is the mass matrix of `operator.inner`, ones if it has
        none. Nothing is done if there are no solutions.

        Collective: one Allreduce. Passes: 3 k + 1 words per point with k vectors.
        """
        if not self.size:
            return
        inner, depth = self.operator.inner, self.depth
        with timed(self.regions, "projection"):
            products = np.zeros((self.components, depth + 1, depth + 1))
            for c, count in enumerate(self.counts.tolist()):
                inner.passes.basis_products(self.basis[c], count, inner.mean_weights.reshape(-1), products[c])
            products = inner.allreduce(products)
            applied = inner.parts(self.applied)
            for c in range(self.components):
                k = int(self.counts[c])
                if self.fresh[c]:
                    inner.add_mass_times(change, self.basis[c, k], applied[c])
                lower = np.linalg.cholesky(np.eye(k) + change * products[c, :k, :k])
                inner.passes.basis_transform(self.basis[c], k, np.ascontiguousarray(np.linalg.inv(lower)))
                self.solutions[c, :k, :k] = lower.T @ self.solutions[c, :k, :k]
                self.latest[c, :k] = lower.T @ self.latest[c, :k]
        if self.regions is not None:
            points, counts = inner.weights.size, self.counts.astype(float)
            flops = float((2.0 * counts * (counts + 1)).sum())
            self.regions.count("projection", points * flops, 8.0 * points * float((3 * counts + 1).sum()))

    @property
    def size(self) -> int:
        """How many solutions the space has, dx of the last solve included: the largest number of all components."""
        return int((self.counts + self.fresh).max(initial=0))

    def guess(self, b: Array, out_x: Array, out_residual: Array) -> None:
        """Set out_x to the guess for A x = b, and out_residual = b - A out_x. Collective: one Allreduce, and A's.

        b, out_x, out_residual : one component, or [components, ...]; b is assembled and not changed
        If b has a NaN, the guess of that component is zero.
        """
        inner = self.operator.inner
        with timed(self.regions, "projection"):
            parts, guesses = inner.parts(b), inner.parts(out_x)
            if len(parts) != self.components:
                raise ValueError(
                    f"The field has {len(parts)} components, but the projection has {self.components}."
                )

            # Products of all vectors with b and, if dx has to join, with A dx.
            weights = inner.weights.reshape(-1)
            sums = np.zeros((self.components, 2, self.depth + 1))
            rows = self.counts + self.fresh
            applied = inner.parts(self.applied)
            for c, count in enumerate(rows.tolist()):
                if count:
                    fresh = bool(self.fresh[c])
                    inner.passes.pair_dots(
                        self.basis[c], count, parts[c], applied[c], fresh, weights, sums[c]
                    )
            if rows.any():
                sums = inner.allreduce(sums)

            moved = 0
            for c in range(self.components):
                moved += self._combine(c, sums[c], guesses[c])
            if self.regions is not None:
                n, pairs = weights.size, int(rows.sum())
                words = pairs + 3 * self.components + moved
                self.regions.count("projection", 8.0 * n * pairs, 8.0 * n * words)

            if self.counts.any():
                self.operator.apply(out_x, out_residual)
                inner.subtract(b, out_residual, out_residual)
            else:
                inner.copy(b, out_residual)

    def update(self, dx: Array, rhs: Array, residual: Array) -> None:
        """Store what a solve added to the guess; it joins the space at the next guess. No communication.

        dx : the solution of the solve for the correction
        rhs, residual : the right-hand side of that solve and its final residual, so that A dx = rhs - residual
        """
        if not self.depth:
            return
        with timed(self.regions, "projection"):
            inner, streaming = self.operator.inner, self.basis.nbytes > STREAMED
            parts = inner.parts(dx)
            for c, count in enumerate(self.counts.tolist()):
                inner.copy(parts[c], self.basis[c, count], streaming)
            inner.subtract(rhs, residual, self.applied, streaming)
            self.fresh[:] = True

    def _combine(self, c: int, sums: Array, out_x: Array) -> int:
        """Let dx of the last solve join component c and set its guess; return the words moved per point."""
        k = int(self.counts[c])
        along, factors = np.zeros((2, self.depth + 1))
        factors[:k] = sums[0, :k]
        scale, fresh, mirror = 1.0, bool(self.fresh[c]), np.empty(0)
        if fresh:
            along[:k] = sums[1, :k]
            energy = sums[1, k]
            left = energy - along @ along
            known = self.latest[c] @ self.latest[c]
            fresh = bool(np.isfinite(left) and left > DEPENDENT * energy and left > ROUNDING * known)
        if fresh:
            scale = 1.0 / np.sqrt(left)
            factors[k] = (sums[0, k] - along[:k] @ factors[:k]) * scale
            solutions = self.solutions[c]
            solutions[:k, k] = self.latest[c, :k] + along[:k]
            solutions[k, k] = 1.0 / scale
        if not np.isfinite(factors).all():
            factors[:] = 0.0
        combined = factors
        if fresh and k == self.depth:
            mirror = _drop_oldest(solutions, factors)
            # `projection_combine` combines the rows as they are before the reflection.
            combined = _reflected(mirror, factors)
        self.counts[c] = min(k + fresh, self.depth)
        self.fresh[c] = False
        self.latest[c] = factors
        self.operator.inner.passes.projection_combine(
            self.basis[c], k, fresh, along, scale, combined, mirror, out_x
        )
        return k + fresh * 2 + len(mirror) + 1

    def fields(self) -> dict[str, Array]:
        """Return the fields of a checkpoint, each [rows, *shape of one component]: views, to write or fill."""
        shape = self.operator.inner.shape
        return {"basis": self.basis.reshape(-1, *shape), "applied": self.applied}

    def numbers(self) -> Array:
        """Return counts and coordinates for a checkpoint, the same on all ranks, float64 [m]."""
        parts = (self.counts, self.fresh, self.latest, self.solutions)
        return np.concatenate([np.asarray(part, np.float64).reshape(-1) for part in parts])

    def restore(self, numbers: Array) -> None:
        """Restore what `numbers` returned, once the arrays of `fields` are filled: the next guess has the same bits.

        Raises ValueError if the numbers belong to another depth or number of components.
        """
        parts = (self.counts, self.fresh, self.latest, self.solutions)
        if len(numbers) != sum(part.size for part in parts):
            raise ValueError(
                f"{len(numbers)} values do not fit a projection of depth {self.depth} with {self.components} "
                "components."
            )
        start = 0
        for part in parts:
            part[...] = numbers[start : start + part.size].reshape(part.shape)
            start += part.size


def _drop_oldest(solutions: Array, factors: Array) -> Array:
    """Remove the first column of `solutions` by a reflection I - m m^T of the coordinates; return m.

    The reflection moves the direction that none of the other columns has to the last row, which is then unused.
    """
    columns = solutions[:, 1:].copy()
    mirror = np.linalg.qr(columns, mode="complete")[0][:, -1].copy()
    size = 1.0 + abs(mirror[-1])
    mirror[-1] += np.copysign(1.0, mirror[-1])
    mirror /= np.sqrt(size)
    solutions[:, :-1], factors[:] = _reflected(mirror, columns), _reflected(mirror, factors)
    solutions[:, -1] = solutions[-1] = 0.0
    factors[-1] = 0.0
    return mirror


def _reflected(mirror: Array, coordinates: Array) -> Array:
    """Return (I - m m^T) coordinates."""
    return np.asarray(coordinates - np.multiply.outer(mirror, mirror @ coordinates))


def kernels_of_projections() -> list[Specialisation]:
    """Return the kernels that a `Projection` calls."""
    own = specialise([pair_dots, projection_combine, basis_products, basis_transform])
    return [*own, *kernels_of_inner_products(), *stream_kernels.kernels_of_passes(np.float64)]
