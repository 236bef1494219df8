"""Flexible conjugate gradients: any symmetric positive preconditioner, which may vary a little.

Source: Notay, SIAM J. Sci. Comput. 22 (2000) 1444. There beta = z.(r - r_old) / (z.r)_old keeps the next direction
conjugate to the last where the preconditioner is not the same operator each time (single precision, inner
iterations).

Passes over memory in one iteration, in words per point, beside operator and preconditioner (z of 4 or 8 bytes):
- p.w: 3;
- x, r, r.r with r kept: 8;
- the two products with z: 3.5 or 4;
- the next direction: 2.5 or 3.

There are three Allreduces, of 1, 1 and 2 numbers. Memory: 4 vectors and z, where GMRES has m + 1 and m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.krylov.kernels import flexible_direction, flexible_dots, flexible_update
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


def flexible_cg(
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
    """Solve A x = b for one component of a symmetric positive (semi-)definite A; arguments as `gmres` has them.

    restart : after so many iterations the next direction is the preconditioned residual alone; 0: never.
    Work is charged to the region "cg". Stops unconverged if a product that must be positive is not.
    """
    work = work or Workspace()
    with timed(regions, "cg"):
        inner, shape = operator.inner, x.shape
        n = int(x.size)
        if inner.count(x) != 1:
            raise ValueError(
                f"flexible CG solves for one component of {inner.weights.size} points, not for {n}"
            )
        old_r, p, w = (work(f"flexible {name}", shape) for name in ("old r", "p", "w"))
        r = work("flexible r", shape) if residual is None else residual
        z = work("flexible z", shape, np.float64 if preconditioner is None else preconditioner.dtype)

        if zero_guess:
            inner.set_zero(x)
            inner.copy(b, r)
        else:
            operator.apply(x, w)
            inner.subtract(b, w, r)
        if operator.nullspace:
            inner.make_consistent(r)
        norm = initial = float(inner.norm(r)[0])

        iterations, zr, sound = 0, 0.0, bool(np.isfinite(norm))
        inner.set_zero(old_r)
        while sound and norm > tolerance and iterations < max_iterations:
            if preconditioner is None:
                inner.copy(r, z)
            else:
                preconditioner.apply(r, z)
            new, change = inner.flexible_sums(z, r, old_r).tolist()
            fresh = iterations == 0 or (restart > 0 and iterations % restart == 0)
            beta = 0.0 if fresh else change / zr
            zr = new
            if not (zr > 0 and np.isfinite(beta)):
                sound = False
                break
            inner.flexible_direction(z, beta, p)
            operator.apply(p, w)
            curvature = float(inner.dot(p, w)[0])
            if not (curvature > 0 and np.isfinite(curvature)):
                sound = False
                break
            norm = inner.flexible_update(zr / curvature, p, w, x, r, old_r)
            sound = bool(np.isfinite(norm))
            iterations += 1
        if operator.nullspace:
            inner.remove_mean(x)
        if regions is not None:
            small = 2 * z.dtype.itemsize
            regions.count("cg", 17.0 * n * iterations, (8.0 * 16 + small) * n * iterations)
        return SolveResult(iterations, norm, initial, sound and norm <= tolerance)


def kernels_of_flexible_cg(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels that `flexible_cg` calls with a preconditioner of dtype."""
    return [
        *kernels_of_inner_products(),
        *specialise([flexible_update]),
        *specialise([flexible_dots, flexible_direction], dtype),
    ]
