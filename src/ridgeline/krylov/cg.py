"""Conjugate gradients with a diagonal preconditioner, for several components at once.

Source: Hestenes and Stiefel, J. Res. Natl. Bur. Stand. 49 (1952) 409; merged passes: Hadri et al. (NekBox), Sec. 2.1.

Passes over memory in one iteration, in words per point and component (c components):
- direction: read r, p, write p, w, with the operator's own data, and 1 / c for the diagonal. p = z + beta p, w = A p
  and p.w are done while an element is in cache; z is never stored;
- gather-scatter of w, on the surfaces of elements;
- update: read p, w, x, r, write x, r, and 2 / c or 3 / c for diagonal and weights; x, r, r.z and r.r in one pass.
In all 10 words, + 3 / c or 4 / c, where separate vector operations take 18 or more.
Two Allreduces, of c and of 2 c numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.krylov.kernels import cg_residuals, cg_update
from ridgeline.krylov.operator import (
    Array,
    Operator,
    SolveResult,
    Workspace,
    kernels_of_inner_products,
    timed,
)

if TYPE_CHECKING:
    from ridgeline.runtime.regions import Regions


def cg(
    operator: Operator,
    b: Array,
    x: Array,
    inverse_diagonal: Array,
    tolerance: float,
    max_iterations: int,
    *,
    zero_guess: bool = False,
    residual: Array | None = None,
    work: Workspace | None = None,
    regions: Regions | None = None,
) -> SolveResult:
    """Solve A x = b for each component; x is the initial guess and the result.

    Parameters
    ----------
    b, x : float64, one component or [c, ...]; assembled, zero at constrained points, contiguous. b is not changed
    inverse_diagonal : > 0; one component for all, or [c, ...]; its value at constrained points does not matter
    tolerance : on the norm of the residual (`InnerProduct`) of every component: absolute
    zero_guess : x is taken as zero, whatever it holds: spares one application
    residual : as b, out: the residual at the end as the recurrence has it, so that A (x - guess) is known
    work : buffers kept from call to call
    regions : "cg" is charged with the vector passes

    Each component has its own step lengths, and is left alone once it has converged. Components whose numbers
    become NaN, or for which A is not positive, stop too: `converged` is then False. With operator.nullspace the
    residual is made consistent and the mean of the result is zero.
    """
    work = work or Workspace()
    with timed(regions, "cg"):
        inner = operator.inner
        r = work("cg r", b.shape) if residual is None else residual
        p, w = work("cg p", b.shape), work("cg w", b.shape)
        c, of_diagonal = inner.count(b), inner.count(inverse_diagonal)
        if of_diagonal not in (1, c):
            raise ValueError(f"{of_diagonal} components of the diagonal for {c} of the right-hand side")

        targets = np.full(c, float(tolerance))
        if zero_guess:
            inner.set_zero(x)
            inner.copy(b, r)
        else:
            operator.apply(x, w)
            inner.subtract(b, w, r)
        if operator.nullspace:
            inner.make_consistent(r)

        sums = inner.cg_sums(r, inverse_diagonal)
        rz, norms = sums[:, 0].copy(), np.sqrt(sums[:, 1] * inner.norm_scale)
        initial = float(norms.max())
        active = norms > targets
        broken = ~np.isfinite(norms)
        alpha, beta = np.zeros(c), np.zeros(c)
        inner.set_zero(p)  # components that never start are not left undefined: operators may touch them
        iterations = 0
        done = 0
        while active.any() and iterations < max_iterations:
            components = tuple(int(k) for k in np.flatnonzero(active))
            curvature = inner.total(operator.direction(r, inverse_diagonal, beta, p, w, components))
            fails = active & ~((curvature > 0) & np.isfinite(curvature) & (rz > 0))
            broken |= fails
            active &= ~fails
            if not active.any():
                break
            alpha[:] = 0.0
            np.divide(rz, curvature, out=alpha, where=active)
            sums = inner.cg_update(alpha, active, p, w, inverse_diagonal, x, r)
            beta[:] = 0.0
            np.divide(sums[:, 0], rz, out=beta, where=active)
            rz = np.where(active, sums[:, 0], rz)
            norms = np.where(active, np.sqrt(sums[:, 1] * inner.norm_scale), norms)
            iterations += 1
            done += int(active.sum())
            broken |= ~np.isfinite(norms)
            active &= np.isfinite(norms) & (norms > targets)

        if operator.nullspace:
            inner.remove_mean(x)
        if regions is not None:
            n = inner.weights.size
            shared = 2 if inner.mass is None else 3
            regions.count("cg", 11.0 * done * n, 8.0 * n * (6 * done + shared * iterations))
        converged = bool(not broken.any() and (norms <= targets).all())
        return SolveResult(iterations, float(norms.max()), initial, converged)


def kernels_of_cg() -> list[Specialisation]:
    """Return the kernels that `cg` calls, for operators that fuse their `direction`."""
    return [*kernels_of_inner_products(), *specialise([cg_residuals, cg_update])]
