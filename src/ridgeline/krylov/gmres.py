"""Flexible GMRES(m), preconditioned from the right; the preconditioner may differ from call to call.

Sources: Saad, SIAM J. Sci. Comput. 14 (1993) 461 (flexible GMRES); Saad and Schultz, SIAM J. Sci. Stat. Comput. 7
(1986) 856 (Givens rotations); Swirydowicz, Langou, Ananthan, Yang, Thomas, Numer. Linear Algebra Appl. 28 (2021)
e2343 (classical Gram-Schmidt with the second sweep delayed by one iteration). The residual is minimised in the norm
of `InnerProduct`, the norm in which the tolerance is stated, as in Nek5000.

Passes over memory in iteration j = 1 ... m of a cycle, in words per point:
- z_j = M v_j: the preconditioner's; its z (float32: half words) is widened for the operator: 1.5 words;
- w = A z_j: the operator's;
- Gram-Schmidt: one pass for the products of all j vectors with w and with v_j itself, j + 2 words. Another pass
  subtracts and scales, j + 3 words: v_j is orthogonalised a second time, w = v_{j+1} the first time. Column j - 1 of
  the least-squares problem is corrected then; nothing else depends on it, because A Z = V H holds for any Z. The norm
  follows from Pythagoras, so that an iteration needs one Allreduce, of 2 j + 2 numbers, and no pass for scaling.
  Where nearly all of w cancels (1e-6 of w.w is left) its second sweep is done at once.

At the end of a cycle x += Z y: j / 2 + 2 words. Another application of A follows only if a further cycle is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.krylov.basis_kernels import basis_add, basis_subtract, basis_subtract_pair, pair_dots
from ridgeline.krylov.kernels import copy
from ridgeline.krylov.operator import (
    Array,
    Operator,
    Preconditioner,
    SolveResult,
    Workspace,
    kernels_of_inner_products,
    timed,
)

if TYPE_CHECKING:
    from ridgeline.runtime.regions import Regions

# Fraction of w.w left by Gram-Schmidt below which Pythagoras loses digits, so that the sweep is repeated at once.
CANCELLED = 1e-6
# Fraction of w.w below which what is left is rounding, so that the space cannot grow.
NOTHING = 1e-26
# Fraction of a column of the least-squares problem below which what the rotations left is rounding.
DEPENDENT = 1e-13


def gmres(
    operator: Operator,
    b: Array,
    x: Array,
    preconditioner: Preconditioner | None,
    restart: int,
    tolerance: float,
    max_iterations: int,
    *,
    zero_guess: bool = False,
    residual: Array | None = None,
    work: Workspace | None = None,
    regions: Regions | None = None,
) -> SolveResult:
    """Solve A x = b for one component by flexible GMRES(m).

    If operator.nullspace is set, b is made consistent (on a copy) and the mean of the result is zero. A NaN ends the
    solve with the result of the earlier iterations.

    Parameters
    ----------
    operator : A, any linear operator
    b : float64, assembled, zero at constrained points, contiguous; it is not changed
    x : as b; the initial guess, and the result
    preconditioner : M, from the right; None for none
    restart : m, the iterations of a cycle, at most max_iterations. Memory: m + 1 vectors of float64 and m of the
        preconditioner's type
    tolerance : absolute, on the norm of the residual (`InnerProduct`)
    zero_guess : take the initial guess as zero, whatever x holds; this saves one application of A
    residual : as b; if it is given and there was an iteration, it receives the final residual V (norm e_1 - H y),
        from which A (x - guess) follows without an application of A. This costs a pass of j + 2 words
    work : buffers that are kept from call to call
    regions : the vector passes are charged to the region "gmres"

    Returns
    -------
    SolveResult
        `converged` says whether the residual of the least-squares problem reached the tolerance. The residual itself
        is computed at the start of every further cycle.
    """
    work = work or Workspace()
    with timed(regions, "gmres"):
        solve = _Cycles(operator, x, preconditioner, min(restart, max_iterations), work, regions)
        result = solve.run(b, tolerance, max_iterations, zero_guess)
        if residual is not None and result.iterations:
            solve.write_residual(residual)
        return result


class _LeastSquares:
    """min |norm e_1 - H y| by Givens rotations, column by column; the last column may be corrected once."""

    def __init__(self, norm: float, steps: int) -> None:
        self.hessenberg = np.zeros((steps + 1, steps))
        self.upper = np.zeros((steps, steps))
        self.cosine, self.sine = np.zeros(steps), np.zeros(steps)
        self.right = np.zeros(steps + 1)
        self.right[0] = self.norm = norm
        self.used = 0
        # right[j] before rotation j, to undo the last rotation.
        self._before = norm

    @property
    def residual(self) -> float:
        """The least norm with the columns so far."""
        return abs(float(self.right[self.used]))

    def correct(self, j: int, correction: Array) -> None:
        """Restate column j - 1 because its basis vector j turned out to be correction @ basis."""
        if j == 0:
            self.right[0] *= correction[0]
            self.norm = self.right[0]
            return
        column = self.hessenberg[: j + 1, j - 1]
        below = column[j]
        column[j] = 0.0
        column += below * correction
        self.used = j - 1
        self.right[j - 1] = self._before
        self._rotate(j - 1)

    def add(self, j: int, column: Array) -> bool:
        """Append column j, [j + 2]. Return False, and ignore it, if it depends on the columns before."""
        self.hessenberg[: j + 2, j] = column
        return self._rotate(j)

    def _rotate(self, j: int) -> bool:
        column = self.hessenberg[: j + 2, j].copy()
        size = float(np.sqrt(column @ column))
        for i in range(j):
            upper, lower = column[i], column[i + 1]
            column[i] = self.cosine[i] * upper + self.sine[i] * lower
            column[i + 1] = self.cosine[i] * lower - self.sine[i] * upper
        length = float(np.hypot(column[j], column[j + 1]))
        if not length > DEPENDENT * size:
            return False
        self.cosine[j], self.sine[j] = column[j] / length, column[j + 1] / length
        self.upper[:j, j] = column[:j]
        self.upper[j, j] = length
        self._before = self.right[j]
        self.right[j], self.right[j + 1] = self.cosine[j] * self._before, -self.sine[j] * self._before
        self.used = j + 1
        return True

    def factors(self) -> Array:
        """Return y by back substitution."""
        y = np.zeros(self.used)
        for i in reversed(range(self.used)):
            y[i] = (self.right[i] - self.upper[i, i + 1 : self.used] @ y[i + 1 :]) / self.upper[i, i]
        return y

    def remainder(self, y: Array) -> Array:
        """Return norm e_1 - H y: the residual in the basis."""
        left = -self.hessenberg[: self.used + 1, : self.used] @ y
        left[0] += self.norm
        return left


class _Cycles:
    """The vectors of one solve, and its cycles."""

    def __init__(
        self,
        operator: Operator,
        x: Array,
        preconditioner: Preconditioner | None,
        restart: int,
        work: Workspace,
        regions: Regions | None,
    ) -> None:
        self.operator, self.preconditioner, self.regions = operator, preconditioner, regions
        self.inner, self.passes = operator.inner, operator.inner.passes
        self.x, self.shape = x, x.shape
        self.restart = max(restart, 1)
        self.weights = self.inner.norm_weights.reshape(-1)
        n = self.weights.size
        if x.size != n:
            raise ValueError(f"GMRES solves for one component of {n} points, not for {x.size} values.")
        self.v: Array = work("gmres v", (self.restart + 1, n))
        self.z: NDArray[Any] = self.v
        if preconditioner is not None:
            self.z = work("gmres z", (self.restart, n), preconditioner.dtype)
        self.wide: Array = work("gmres wide", (n,)) if self.z.dtype != np.float64 else self.v[0]

    def run(self, b: Array, tolerance: float, max_iterations: int, zero_guess: bool) -> SolveResult:
        iterations, initial = 0, np.nan
        stuck = False
        while True:
            residual = self._residual(b, zero_guess and iterations == 0)
            if iterations == 0:
                initial = residual
            if not np.isfinite(residual) or residual <= tolerance or iterations >= max_iterations or stuck:
                break
            steps = min(self.restart, max_iterations - iterations)
            done, estimate, stuck = self._cycle(residual, tolerance, steps)
            iterations += done
            if estimate <= tolerance or iterations >= max_iterations or not np.isfinite(estimate):
                residual = estimate
                break
        if self.operator.nullspace:
            self.inner.remove_mean(self.x)
        return SolveResult(iterations, float(residual), float(initial), bool(residual <= tolerance))

    def _residual(self, b: Array, zero_guess: bool) -> float:
        """Set v[0] to the normalised residual; return the norm of the residual."""
        first = self.v[0]
        if zero_guess:
            self.inner.set_zero(self.x)
            self.inner.copy(b.reshape(-1), first)
        else:
            applied = self.v[1]
            self.operator.apply(self.x, applied.reshape(self.shape))
            self.inner.subtract(b.reshape(-1), applied, first)
        if self.operator.nullspace:
            self.inner.make_consistent(first)
        norm = float(self.inner.norm(first)[0])
        if norm > 0:
            self.inner.set_scaled(1.0 / norm, first, first)
        self.left = np.array([norm])
        return norm

    def write_residual(self, out_residual: Array) -> None:
        """Set out_residual to the residual at the end of the last cycle."""
        self.inner.set_zero(out_residual)
        self.passes.basis_add(self.v, len(self.left), self.left, out_residual.reshape(-1))
        if self.regions is not None:
            n, used = self.weights.size, len(self.left)
            self.regions.count("gmres", 2.0 * n * used, 8.0 * n * (used + 3))

    def _cycle(self, norm: float, target: float, steps: int) -> tuple[int, float, bool]:
        """Run up to `steps` iterations and add to x; return (iterations, residual, whether the space is full)."""
        small = _LeastSquares(norm, steps)
        done, stuck, bad = 0, False, False
        for j in range(steps):
            self._apply(j)
            done = j + 1
            column, correction = self._orthogonalise(j)
            if correction is None:
                bad = True
                break
            small.correct(j, correction)
            stuck = column[-1] == 0.0
            if not small.add(j, column):
                # A z_j adds nothing to the space.
                break
            if small.residual <= target or stuck:
                break
        if small.used:
            factors = small.factors()
            self.passes.basis_add(self.z, small.used, factors, self.x.reshape(-1))
            self.left = small.remainder(factors)
        self._count(done, small.used)
        return done, np.nan if bad else small.residual, stuck

    def _apply(self, j: int) -> None:
        """Set z[j] = M v[j] and v[j + 1] = A z[j]."""
        z = self.z[j]
        if self.preconditioner is not None:
            self.preconditioner.apply(self.v[j].reshape(self.shape), z.reshape(self.shape))
        wide = z
        if z.dtype != np.float64:
            wide = self.wide
            self.inner.copy(z, wide)
        self.operator.apply(wide.reshape(self.shape), self.v[j + 1].reshape(self.shape))

    def _orthogonalise(self, j: int) -> tuple[Array, Array | None]:
        """Orthogonalise v[j] a second time and v[j + 1] the first time; make both unit vectors.

        Return (column, correction): the old v[j + 1] is column @ v[: j + 2], with column[-1] = 0 if nothing is left
        of it; the old v[j] is correction @ v[: j + 1]. The correction is None if there is a NaN.
        """
        v, w = self.v[j], self.v[j + 1]
        shares = np.empty((2, j + 2))
        self.passes.pair_dots(self.v, j + 2, v, w, True, self.weights, shares)
        sums = self.inner.allreduce(shares) * self.inner.norm_scale
        column, correction = np.zeros(j + 2), np.zeros(j + 1)
        rest = sums[0, j] - sums[0, :j] @ sums[0, :j]
        if not (np.isfinite(sums).all() and rest > 0):
            return column, None
        correction[:j], correction[j] = sums[0, :j], np.sqrt(rest)
        column[:j] = sums[1, :j]
        column[j] = (sums[1, j] - sums[0, :j] @ sums[1, :j]) / correction[j]
        whole = sums[1, j + 1]
        left = whole - column @ column
        accept = left > CANCELLED * whole
        norm = float(np.sqrt(left)) if accept else 1.0
        self.passes.basis_subtract_pair(
            self.v, j, correction[:j], 1.0 / correction[j], column[:j], column[j], 1.0 / norm, v, w
        )
        column[-1] = norm if accept else self._repeat(j, whole, column)
        return column, correction

    def _repeat(self, j: int, first: float, column: Array) -> float:
        """Orthogonalise v[j + 1] again at once and add to the column; return the norm of what is left, or 0."""
        shares, w = np.empty((2, j + 2)), self.v[j + 1]
        for _ in range(3):
            self.passes.pair_dots(self.v, j + 2, w, w, False, self.weights, shares)
            sums = self.inner.allreduce(shares[0]) * self.inner.norm_scale
            whole, products = sums[-1], sums[:-1]
            if not whole > NOTHING * first:
                return 0.0
            left = whole - products @ products
            accept = left > CANCELLED * whole
            norm = float(np.sqrt(left)) if accept else 1.0
            column[:-1] += products
            self.passes.basis_subtract(self.v, j + 1, products, 1.0 / norm, w)
            if accept:
                return norm
        return 0.0

    def _count(self, done: int, used: int) -> None:
        """Charge a cycle: products with and subtractions of 1 ... done vectors, and a sum of `used` vectors."""
        if self.regions is None:
            return
        itemsize = self.z.dtype.itemsize
        n, pairs = self.weights.size, done * (done + 1) / 2
        widened = done * (8 + itemsize) if self.z.dtype != np.float64 else 0
        moved = 8 * (2 * pairs + 5 * done + 2) + itemsize * used + widened
        self.regions.count("gmres", n * (8 * pairs + 8 * done + 2 * used), n * moved)


def kernels_of_gmres(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels that `gmres` calls with a preconditioner of dtype."""
    widened = [] if np.dtype(dtype) == np.float64 else [basis_add, copy]
    return [
        *kernels_of_inner_products(),
        *specialise([pair_dots, basis_subtract_pair, basis_subtract]),
        *specialise([basis_add], np.float64),
        *specialise(widened, dtype),
    ]
