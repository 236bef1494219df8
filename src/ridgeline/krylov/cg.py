"""Conjugate gradients for A x = b, in three variants; each is readable from its first line to its last.

- `cg`: a diagonal preconditioner, several components at once, a tolerance. Two Allreduces an iteration.
- `flexible_cg`: any symmetric positive preconditioner, which may vary a little; one component, a tolerance.
  Three Allreduces an iteration.
- `one_pass_cg`: no preconditioner and a fixed number of iterations. One pass over memory and one Allreduce an
  iteration.

All of them solve on CPUs and GPUs: the operator brings the passes over its vectors (`krylov.operator.VectorPasses`).
Sources: Hestenes and Stiefel, J. Res. Natl. Bur. Stand. 49 (1952) 409; Hadri et al. (NekBox), Sec. 2.1, for merged
passes; Notay, SIAM J. Sci. Comput. 22 (2000) 1444, for the flexible variant; Kronbichler, Sashko, Munch, "Enhancing
data locality of the conjugate gradient method for high-order matrix-free finite-element implementations", IJHPCA
2022, Sec. 3, for the one-pass variant.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.krylov.kernels import (
    cg_residuals,
    cg_update,
    flexible_direction,
    flexible_dots,
    flexible_update,
)
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
    from mpi4py import MPI

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
    """Solve A x = b for each component by conjugate gradients with a diagonal preconditioner.

    Each component has its own step lengths and is left alone once it has converged. Components whose numbers become
    NaN, or for which A is not positive, stop too. If operator.nullspace is set, the residual is made consistent and
    the mean of the result is zero.

    Parameters
    ----------
    operator : Operator
        A, symmetric positive (semi-)definite.
    b : array
        float64, one component or [c, ...], assembled, zero at constrained points, contiguous; it is not changed.
    x : array
        As b; the initial guess, and the result.
    inverse_diagonal : array
        The preconditioner, > 0; one component for all, or [c, ...]. Its values at constrained points do not matter.
    tolerance : float
        Absolute, on the norm of the residual of every component (`InnerProduct`).
    max_iterations : int
        Iterations at most.
    zero_guess : bool
        Take the initial guess as zero, whatever x holds; this saves one application of A.
    residual : array or None
        As b; if it is given, it receives the final residual of the recurrence, from which A (x - guess) follows
        without an application of A.
    work : Workspace or None
        Buffers that are kept from call to call.
    regions : Regions or None
        The vector passes are charged to its region "cg".

    Returns
    -------
    SolveResult
        `converged` is False if a component did not reach the tolerance.

    Notes
    -----
    Collective.

    Communication of an iteration: the operator's, and Allreduces of c and of 2 c numbers. Passes over memory of an
    iteration, in words per point and component:

    - direction: reads r and p, writes p and w, and reads 1 / c for the diagonal, besides the operator's own data.
      p = z + beta p, w = A p and p.w are done while an element is in cache; z is never stored;
    - gather-scatter of w, on the surfaces of the elements;
    - update: reads p, w, x and r, writes x and r, and reads 2 / c or 3 / c for diagonal and weights. x, r, r.z and
      r.r are done in one pass.

    These are 10 words, + 3 / c or 4 / c; separate vector operations take 18 or more.

    Examples
    --------
    u - u_xx = (1 + pi^2) sin(pi x) with u = 0 at two sides, with two ranks, started by
    `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.elements.gather_scatter import GatherScatter
    >>> from ridgeline.elements.geometry import ElementGeometry
    >>> from ridgeline.elements.mesh import BoxMesh, ElementGrid
    >>> from ridgeline.elements.operator import ElementOperator
    >>> from ridgeline.krylov.cg import cg
    >>> comm = MPI.COMM_WORLD
    >>> grid = ElementGrid(BoxMesh.box((1, 1, 2), (1.0, 1.0, 1.0)), 7, comm.size, comm.rank)
    >>> geometry, sums = ElementGeometry(grid), GatherScatter(comm, grid.ids)
    >>> sides = grid.side_points(["x_min", "x_max"])
    >>> operator = ElementOperator(grid, geometry, sums, 1.0, 1.0, sides)
    >>> exact = np.sin(np.pi * geometry.coordinates[0])
    >>> b, u = (1 + np.pi**2) * exact * geometry.mass, np.zeros(grid.shape)
    >>> sums.sum(b)
    >>> operator.mask(b)
    >>> result = cg(operator, b, u, operator.inverse_diagonal(), tolerance=1e-10, max_iterations=200)
    >>> result.converged, bool(abs(u - exact).max() < 1e-6)
    (True, True)
    """
    work = work or Workspace()
    with timed(regions, "cg"):
        inner = operator.inner
        r = work("cg r", b.shape) if residual is None else residual
        p, w = work("cg p", b.shape), work("cg w", b.shape)
        c, diagonal_components = inner.count(b), inner.count(inverse_diagonal)
        if diagonal_components not in (1, c):
            raise ValueError(
                f"The diagonal has {diagonal_components} components, but the right-hand side has {c}."
            )

        # r = b - A x
        if zero_guess:
            inner.set_zero(x)
            inner.copy(b, r)
        else:
            operator.apply(x, w)
            inner.subtract(b, w, r)
        if operator.nullspace:
            inner.make_consistent(r)

        targets = np.full(c, float(tolerance))
        sums = inner.cg_sums(r, inverse_diagonal)
        rz, norms = sums[:, 0].copy(), np.sqrt(sums[:, 1] * inner.norm_scale)
        initial = float(norms.max())
        active = norms > targets
        failed = ~np.isfinite(norms)
        alpha, beta = np.zeros(c), np.zeros(c)
        # Components that never start must not be left undefined, because operators may touch them.
        inner.set_zero(p)

        iterations = 0
        component_iterations = 0
        while active.any() and iterations < max_iterations:
            # p = z + beta p with z = r / diagonal, w = A p
            components = tuple(int(k) for k in np.flatnonzero(active))
            curvature = inner.allreduce(operator.direction(r, inverse_diagonal, beta, p, w, components))
            fails = active & ~((curvature > 0) & np.isfinite(curvature) & (rz > 0))
            failed |= fails
            active &= ~fails
            if not active.any():
                break

            # alpha = r.z / p.w, x += alpha p, r -= alpha w
            alpha[:] = 0.0
            np.divide(rz, curvature, out=alpha, where=active)
            sums = inner.cg_update(alpha, active, p, w, inverse_diagonal, x, r)

            # beta = (r.z of the new r) / (r.z of the old r)
            beta[:] = 0.0
            np.divide(sums[:, 0], rz, out=beta, where=active)
            rz = np.where(active, sums[:, 0], rz)
            norms = np.where(active, np.sqrt(sums[:, 1] * inner.norm_scale), norms)
            iterations += 1
            component_iterations += int(active.sum())
            failed |= ~np.isfinite(norms)
            active &= np.isfinite(norms) & (norms > targets)

        if operator.nullspace:
            inner.remove_mean(x)
        if regions is not None:
            n = inner.weights.size
            shared = 2 if inner.mass is None else 3
            flops, moved = 11.0 * component_iterations, 6 * component_iterations + shared * iterations
            regions.count("cg", flops * n, 8.0 * n * moved)
        converged = bool(not failed.any() and (norms <= targets).all())
        return SolveResult(iterations, float(norms.max()), initial, converged)


def kernels_of_cg() -> list[Specialisation]:
    """Return the kernels that `cg` calls, for operators that fuse their `direction`.

    Returns
    -------
    list of Specialisation
        What `compile_kernels` compiles.

    Examples
    --------
    >>> from ridgeline.jit.kernel import compile_kernels
    >>> from ridgeline.krylov.cg import kernels_of_cg
    >>> compile_kernels(kernels_of_cg())
    """
    return [*kernels_of_inner_products(), *specialise([cg_residuals, cg_update])]


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
    """Solve A x = b for one component by flexible conjugate gradients.

    beta = z.(r - r_old) / (z.r)_old keeps the next direction conjugate to the last one where the preconditioner is
    not the same operator each time (single precision, inner iterations).

    Parameters
    ----------
    operator : Operator
        A, symmetric positive (semi-)definite.
    b, x, tolerance, max_iterations, zero_guess, residual, work
        As for `gmres`.
    preconditioner : Preconditioner or None
        Symmetric positive, or None for none.
    restart : int
        After so many iterations the next direction is the preconditioned residual alone; 0 for never.
    regions : Regions or None
        The vector passes are charged to its region "cg".

    Returns
    -------
    SolveResult
        `converged` is False if the tolerance was not reached, or if a product that must be positive was not.

    Notes
    -----
    Collective.

    Communication of an iteration: the operator's, the preconditioner's, and Allreduces of 1, 1 and 2 numbers.
    Memory: 4 vectors and z, where GMRES needs m + 1 and m. Passes over memory of an iteration, in words per point,
    besides operator and preconditioner (z has 4 or 8 bytes a point):

    - p.w: 3;
    - x, r and r.r, with the old r kept: 8;
    - the two products with z: 3.5 or 4;
    - the next direction: 2.5 or 3.

    Examples
    --------
    -u'' = 1 on a grid of cells with u = 0 at two sides, preconditioned by a V-cycle of multigrid, with two ranks,
    started by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import CellMultigrid, CellOperator, CellPreconditioner, decompose, flexible_cg
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (16, 16, 16), periodic=(False, True, True))
    >>> sides = (("dirichlet", "dirichlet"), "periodic", "periodic")
    >>> multigrid = CellMultigrid(cartesian, block, (1 / 16, 1 / 16, 1 / 16), sides)
    >>> operator = CellOperator(multigrid)
    >>> b, x = operator.integrate(np.ones(block.shape_local)), np.zeros(block.shape_local)
    >>> preconditioner = CellPreconditioner(multigrid, operator.volumes)
    >>> flexible_cg(operator, b, x, preconditioner, 0, 1e-10, 20).converged
    True
    >>> multigrid.free()
    >>> cartesian.Free()
    """
    work = work or Workspace()
    with timed(regions, "cg"):
        inner, shape = operator.inner, x.shape
        n = int(x.size)
        if inner.count(x) != 1:
            raise ValueError(
                f"Flexible CG solves for one component of {inner.weights.size} points, not for {n} values."
            )
        old_r, p, w = (work(f"flexible {name}", shape) for name in ("old r", "p", "w"))
        r = work("flexible r", shape) if residual is None else residual
        z = work("flexible z", shape, np.float64 if preconditioner is None else preconditioner.dtype)

        # r = b - A x
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
            # z = M r, p = z + beta p
            if preconditioner is None:
                inner.copy(r, z)
            else:
                preconditioner.apply(r, z)
            new_zr, change = inner.flexible_sums(z, r, old_r).tolist()
            restarts = iterations == 0 or (restart > 0 and iterations % restart == 0)
            beta = 0.0 if restarts else change / zr
            zr = new_zr
            if not (zr > 0 and np.isfinite(beta)):
                sound = False
                break
            inner.flexible_direction(z, beta, p)

            # w = A p, alpha = z.r / p.w, x += alpha p, r -= alpha w
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
            z_bytes = 2 * z.dtype.itemsize
            regions.count("cg", 17.0 * n * iterations, (8.0 * 16 + z_bytes) * n * iterations)
        return SolveResult(iterations, norm, initial, sound and norm <= tolerance)


def kernels_of_flexible_cg(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels that `flexible_cg` calls with a preconditioner of dtype."""
    return [
        *kernels_of_inner_products(),
        *specialise([flexible_update]),
        *specialise([flexible_dots, flexible_direction], dtype),
    ]


# One pass over memory, one allreduce ----------------------------------------------------------------------------

SUMS = 4  # of an iteration: r.r, p.w, r.w, w.w

Sums = TypeVar("Sums")
SumsIn = TypeVar("SumsIn", contravariant=True)


class StepLengths(Protocol[SumsIn]):
    """alpha and beta, where the operator's passes read them, and the residuals that they come from."""

    def reset(self, iterations: int) -> None:
        """Set alpha and beta to 0, for a solve of so many iterations. No communication."""

    def allreduce(self, sums: SumsIn) -> None:
        """Add up the sums of all ranks and set alpha and beta by `step_lengths`. Collective: one Allreduce."""

    def residuals(self) -> list[float]:
        """Return sqrt(r.r) of every `allreduce` since `reset`."""


class OnePassOperator(Protocol[Sums]):
    """A symmetric positive definite operator A that updates the vectors in the pass in which it is applied.

    The operator has x, r, p and w of this rank. The sums that it returns are this rank's share over distinct points,
    in the memory of the host or of a device, as its `steps` expect them.
    """

    @property
    def steps(self) -> StepLengths[Sums]:
        """alpha and beta of the passes."""

    def start(self, b: Array, iterations: int) -> None:
        """Prepare a solve: x, p, w = 0, r = b, alpha and beta 0, memory for the residuals of so many iterations."""

    def iterate(self) -> Sums:
        """x += alpha p, r -= alpha w, p = r + beta p, w = A p; return r.r, p.w, r.w and w.w of the new vectors."""

    def update(self) -> Sums:
        """x += alpha p, r -= alpha w alone, after the last iteration; return r.r, and 0 for the other sums."""


def one_pass_cg(operator: OnePassOperator[Sums], iterations: int) -> list[float]:
    """Run conjugate gradients with one pass over memory and one allreduce in an iteration.

    The operator updates the vectors and sums up in the same pass in which it is applied, part by part, while a part
    is in cache (`OnePassOperator.iterate`):

        x += alpha p, r -= alpha w (both of the last iteration), p = r + beta p, w = A p, and four sums:
        r.r, p.w, r.w, w.w

    One Allreduce of the four sums gives alpha = r.r / p.w and what the next direction needs before the next r exists,

        beta = (r.r - 2 alpha r.w + alpha^2 w.w) / r.r.

    Only beta comes from this formula. The residual and alpha take r.r from r itself, and so its rounding does not add
    up. There is no preconditioner and the number of iterations is fixed, so that a GPU never waits for the host.

    Parameters
    ----------
    operator : after `operator.start` with at least so many iterations
    iterations : how many iterations to run

    Returns
    -------
    list of float
        sqrt(r.r) before the first iteration and after each, the same on all ranks.

    Notes
    -----
    Collective. Communication of an iteration: the operator's, and one Allreduce of four numbers.
    """
    steps = operator.steps
    for _ in range(iterations):
        steps.allreduce(operator.iterate())
    steps.allreduce(operator.update())
    return steps.residuals()


def step_lengths(rr: float, pw: float, rw: float, ww: float) -> tuple[float, float]:
    """Return alpha and beta from the four sums; 0 once r is 0. GPUs compile this very function."""
    alpha = rr / pw if pw > 0.0 else 0.0
    next_rr = max(rr - 2.0 * alpha * rw + alpha * alpha * ww, 0.0)
    return alpha, next_rr / rr if rr > 0.0 else 0.0


class HostStepLengths:
    """Step lengths in host memory, from sums float64 [4].

    values: float64, alpha and beta first; what follows them belongs to the operator.
    """

    def __init__(self, comm: MPI.Comm, values: Array) -> None:
        self._comm, self._values, self._total = comm, values, np.zeros(SUMS)
        self._residuals: list[float] = []

    def reset(self, iterations: int) -> None:
        self._values[:2] = 0.0
        self._residuals = []

    def allreduce(self, sums: Array) -> None:
        self._comm.Allreduce(sums, self._total)
        rr, pw, rw, ww = map(float, self._total)
        self._values[:2] = step_lengths(rr, pw, rw, ww)
        self._residuals.append(math.sqrt(rr))

    def residuals(self) -> list[float]:
        return self._residuals
