"""What linear solvers take and return: operators, preconditioners, inner products, buffers, results.

A field is a float64 array [n_elements, n, n, n], or [c, n_elements, n, n, n] for c components that are solved for
at once. A point that elements share is stored once in each of them. A vector is *assembled* if these copies are
equal; its sum over distinct points weights every copy by the inverse of the number of copies (the multiplicity). A
vector is *unassembled* if the copies are contributions that are still to be summed; the product of an assembled and
an unassembled vector needs no weights. Nothing here needs elements: any array with weights will do.

Read `VectorPasses` and `Operator` first: they are what `krylov.cg`, `krylov.gmres` and `krylov.projection` call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit import stream_kernels
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.krylov import basis_kernels
from ridgeline.krylov.kernels import (
    cg_direction,
    cg_residuals,
    cg_update,
    combine,
    copy,
    flexible_direction,
    flexible_dots,
    flexible_update,
    subtract,
    weighted_dots,
)
from ridgeline.runtime.aligned import aligned_empty

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.runtime.regions import Regions

Array = NDArray[np.float64]


class BasisPasses(Protocol):
    """Passes over a basis, rows of n points, as GMRES and projections need them; each row is read once a pass.

    Twins: the module `krylov.basis_kernels` in host memory, `CudaBasisPasses` on a GPU. Factors and sums are NumPy
    arrays on both.
    """

    def pair_dots(
        self, basis: Array, count: int, a: Array, b: Array, with_b: bool, weights: Array, out_sums: Array
    ) -> None:
        """Set out_sums[0, k] = sum basis[k] a weights and out_sums[1, k] = sum basis[k] b weights for k < count.

        b is not read unless `with_b`. out_sums: [2, at least count].
        """

    def basis_add(self, basis: NDArray[Any], count: int, factors: Array, x: Array) -> None:
        """Set x += sum_{k < count} factors[k] basis[k]. The basis may be float32."""

    def basis_subtract(self, basis: Array, count: int, factors: Array, scale: float, w: Array) -> None:
        """Set w = scale (w - sum_{k < count} factors[k] basis[k])."""

    def basis_subtract_pair(
        self,
        basis: Array,
        count: int,
        of_v: Array,
        scale_v: float,
        of_w: Array,
        last: float,
        scale_w: float,
        v: Array,
        w: Array,
    ) -> None:
        """Set v = scale_v (v - sum of_v[k] basis[k]), then w = scale_w (w - sum of_w[k] basis[k] - last v)."""

    def projection_combine(
        self,
        basis: Array,
        count: int,
        fresh: bool,
        along: Array,
        scale: float,
        factors: Array,
        mirror: Array,
        out_x: Array,
    ) -> None:
        """Add a new vector to the basis, combine all vectors, and drop a direction by a reflection, in one pass.

        The arguments are explained at `basis_kernels.projection_combine`.
        """

    def basis_products(self, basis: Array, count: int, weights: Array, out_sums: Array) -> None:
        """Set out_sums[i, j] = out_sums[j, i] = sum basis[i] basis[j] weights, i and j < count; the others 0."""

    def basis_transform(self, basis: Array, count: int, factors: Array) -> None:
        """Set basis[i] = sum_{j <= i} factors[i, j] basis[j], i < count."""


class VectorPasses(Protocol):
    """What solvers do with vectors: `InnerProduct` in host memory, `device.inner_cuda.CudaInnerProduct` on a GPU.

    On a GPU, `Array` stands for a device array, which has the attributes of a NumPy array that solvers use: shape,
    size, slices and `reshape`. Vectors are contiguous float64 arrays of one component or [c, ...]. Only `passes` and
    the methods read their values. Sums and norms are NumPy arrays, the same on all ranks.

    weights, norm_weights, mean_weights: of one component, for sums over distinct points, for norms and for means.
    mass: the diagonal mass matrix, or None for ones. shape: of one component on the host. volume: sum of mean_weights
    over all ranks; norm_scale: 1 / volume.
    """

    weights: Array
    norm_weights: Array
    mean_weights: Array
    mass: Array | None
    passes: BasisPasses
    shape: tuple[int, ...]
    volume: float
    norm_scale: float

    def allreduce(self, shares: Array, /) -> Array:
        """Return the sum over ranks of NumPy arrays of one shape. Collective: one Allreduce."""

    def count(self, u: Array, /) -> int:
        """Return how many components u has."""

    def parts(self, u: Array, /) -> Array:
        """Return u as [c, points] without a copy; c = 1 if u is one component."""

    def zeros(self, shape: Sequence[int], /) -> Array:
        """Return new memory for vectors, all zero."""

    def set_zero(self, u: Array) -> None:
        """Set u = 0."""

    def copy(self, u: NDArray[Any], out: NDArray[Any], streaming: bool = False) -> None:
        """Set out = u, from one precision to another. streaming: store float64 past the caches of a CPU."""

    def subtract(self, b: Array, applied: Array, out: Array, streaming: bool = False) -> None:
        """Set out = b - applied. One pass: 3 words per point. streaming: store past the caches of a CPU."""

    def add(self, u: Array, out: Array, scale: float = 1.0) -> None:
        """Set out += scale u."""

    def set_scaled(self, scale: float, u: Array, out: Array) -> None:
        """Set out = scale u; out may be u."""

    def add_mass_times(self, scale: float, u: Array, out: Array) -> None:
        """Set out += scale B u of one component; B is ones without a mass matrix."""

    def local_dot(self, u: Array, v: Array) -> Array:
        """Return this rank's share of sum_points u v of each component, float64 [c]. One pass."""

    def dot(self, u: Array, v: Array) -> Array:
        """Return sum_points u v of each component, float64 [c], u and v assembled. One pass, one Allreduce."""

    def norm(self, r: Array) -> Array:
        """Return the norm of a residual (see `InnerProduct`) for each component, float64 [c]. One Allreduce."""

    def mean(self, u: Array) -> Array:
        """Return the mean over the volume of each component, float64 [c]. One Allreduce."""

    def remove_mean(self, u: Array) -> None:
        """Subtract the mean of each component in place. One Allreduce."""

    def make_consistent(self, b: Array) -> None:
        """Subtract in place from a right-hand side what an operator that maps constants to zero cannot reach.

        One Allreduce.
        """

    def cg_direction(
        self, r: Array, inverse_diagonal: Array, beta: Array, p: Array, components: Sequence[int]
    ) -> None:
        """Set p = inverse_diagonal r + beta p for the given components alone."""

    def cg_sums(self, r: Array, inverse_diagonal: Array) -> Array:
        """Return sum_points r^2 inverse_diagonal, and r^2 for its norm, [c, 2]. One pass, one Allreduce."""

    def cg_update(
        self,
        alpha: Array,
        active: NDArray[np.bool_],
        p: Array,
        w: Array,
        inverse_diagonal: Array,
        x: Array,
        r: Array,
    ) -> Array:
        """Set x += alpha p and r -= alpha w for the active components; return their `cg_sums`, 0 for the others.

        One pass, one Allreduce.
        """

    def flexible_sums(self, z: NDArray[Any], r: Array, old_r: Array) -> Array:
        """Return sum_points z r and z (r - old_r) of one component, [2]; z of any precision. One Allreduce."""

    def flexible_direction(self, z: NDArray[Any], beta: float, p: Array) -> None:
        """Set p = z + beta p; p is not read where beta is 0."""

    def flexible_update(self, alpha: float, p: Array, w: Array, x: Array, r: Array, old_r: Array) -> float:
        """Set old_r = r, x += alpha p, r -= alpha w; return the norm of the new r. One pass, one Allreduce."""


class Operator(Protocol):
    """A linear operator A on assembled vectors; symmetric positive (semi-)definite for conjugate gradients.

    nullspace: whether A 1 = 0, so that solutions are determined up to a constant.
    """

    nullspace: bool

    @property
    def inner(self) -> VectorPasses:
        """The inner product of its vectors."""

    def apply(self, u: Array, out: Array) -> None:
        """Set out = A u, assembled and zero at constrained points. u is zero there too, and is not changed."""

    def direction(
        self, r: Array, inverse_diagonal: Array, beta: Array, p: Array, w: Array, components: Sequence[int]
    ) -> Array:
        """Set p = inverse_diagonal r + beta p and w = A p; return this rank's share of p.w, float64 [c].

        r, p, w: [c, ...]; inverse_diagonal: one component for all, or [c, ...]; beta: float64 [c].
        components: those to work on. p and w of the others are left as they are, and their share is 0.
        """


class Preconditioner(Protocol):
    """An approximate inverse of an operator; it may change from call to call. dtype: of z, float32 or float64."""

    dtype: np.dtype[Any]

    def apply(self, r: Array, z: NDArray[Any]) -> None:
        """Set z to about A^-1 r, assembled and zero at constrained points. r is assembled and is not changed."""


class Jacobi:
    """The inverse diagonal as a preconditioner of one component: z = inverse_diagonal r."""

    dtype = np.dtype(np.float64)

    def __init__(self, inverse_diagonal: Array, inner: VectorPasses) -> None:
        self.inverse_diagonal, self._inner = inverse_diagonal, inner

    def apply(self, r: Array, z: NDArray[Any]) -> None:
        self._inner.cg_direction(r, self.inverse_diagonal, np.zeros(1), z, (0,))


class InnerProduct:
    """Sums over the distinct points of all ranks and the norm of residuals: `VectorPasses` in host memory.

    With the diagonal mass matrix B and the volume V = sum_points B,

    - the norm of a residual r (a weak form) is sqrt(sum_points r^2 / B / V). It is the root mean square over the
      volume of the residual of the equation itself, B^-1 r; Nek5000 states its tolerances in this norm. Without a
      mass matrix it is the root mean square of r over the points;
    - the mean of a solution is sum_points B u / V;
    - a right-hand side is made consistent with constants in the null space by b - B (sum_points b) / V.

    A rank adds in a fixed order; results on different numbers of ranks differ by rounding.

    Parameters
    ----------
    comm : the ranks that share the vectors, or None for this process alone
    inverse_multiplicity : float64, of the shape of one component: 1 / (number of copies of each point)
    mass : the assembled diagonal mass matrix B, of the same shape, or None for ones

    Notes
    -----
    Collective: one allreduce of 8 bytes.
    """

    passes: BasisPasses = basis_kernels

    def __init__(self, comm: MPI.Comm | None, inverse_multiplicity: Array, mass: Array | None = None) -> None:
        self.comm = comm
        self.weights = np.ascontiguousarray(inverse_multiplicity, np.float64)
        self.shape = self.weights.shape
        self.mass = None if mass is None else np.ascontiguousarray(mass, np.float64)
        self.mean_weights = self.weights if self.mass is None else self.weights * self.mass
        self.volume = float(self.allreduce(np.array([self.mean_weights.sum()]))[0])
        self.norm_weights = self.weights if self.mass is None else self.weights / self.mass
        self.norm_scale = 1.0 / self.volume

    def allreduce(self, shares: Array) -> Array:
        if self.comm is None or self.comm.size == 1:
            return shares
        result = np.empty_like(shares)
        self.comm.Allreduce(np.ascontiguousarray(shares), result)
        return result

    def parts(self, u: Array) -> Array:
        if not u.flags.c_contiguous:
            raise ValueError("Fields of solvers must be contiguous.")
        return u.reshape(-1, self.weights.size)

    def count(self, u: Array) -> int:
        return int(u.size) // self.weights.size

    def zeros(self, shape: Sequence[int]) -> Array:
        return np.zeros(tuple(shape))

    def set_zero(self, u: Array) -> None:
        u[...] = 0.0

    def copy(self, u: NDArray[Any], out: NDArray[Any], streaming: bool = False) -> None:
        if streaming:
            stream_kernels.copy(u.reshape(-1), out.reshape(-1), 1, True)
        else:
            copy(u.reshape(-1), out.reshape(-1))

    def subtract(self, b: Array, applied: Array, out: Array, streaming: bool = False) -> None:
        if streaming:
            stream_kernels.triad(b.reshape(-1), -1.0, applied.reshape(-1), out.reshape(-1), 1, True)
        else:
            subtract(b.reshape(-1), applied.reshape(-1), out.reshape(-1))

    def add(self, u: Array, out: Array, scale: float = 1.0) -> None:
        np.add(out, u if scale == 1.0 else scale * u, out=out)

    def set_scaled(self, scale: float, u: Array, out: Array) -> None:
        np.multiply(u, scale, out=out)

    def add_mass_times(self, scale: float, u: Array, out: Array) -> None:
        out += scale * u if self.mass is None else scale * self.mass.reshape(u.shape) * u

    def cg_direction(
        self, r: Array, inverse_diagonal: Array, beta: Array, p: Array, components: Sequence[int]
    ) -> None:
        per_component = self.count(inverse_diagonal) == len(beta)
        for c in components:
            row = slice(c, c + 1)
            diagonal = self.parts(inverse_diagonal)[row if per_component else slice(0, 1)]
            cg_direction(self.parts(r)[row], diagonal, beta[row], self.parts(p)[row])

    def local_dot(self, u: Array, v: Array) -> Array:
        shares = np.zeros(self.count(u))
        weighted_dots(self.parts(u), self.parts(v), self.weights.reshape(-1), shares)
        return shares

    def cg_sums(self, r: Array, inverse_diagonal: Array) -> Array:
        sums = np.empty((self.count(r), 2))
        weights, norm_weights = self.weights.reshape(-1), self.norm_weights.reshape(-1)
        cg_residuals(self.parts(r), self.parts(inverse_diagonal), weights, norm_weights, sums)
        return self.allreduce(sums)

    def cg_update(
        self,
        alpha: Array,
        active: NDArray[np.bool_],
        p: Array,
        w: Array,
        inverse_diagonal: Array,
        x: Array,
        r: Array,
    ) -> Array:
        sums = np.empty((len(alpha), 2))
        weights, norm_weights = self.weights.reshape(-1), self.norm_weights.reshape(-1)
        cg_update(
            alpha,
            active,
            self.parts(p),
            self.parts(w),
            self.parts(inverse_diagonal),
            weights,
            norm_weights,
            self.parts(x),
            self.parts(r),
            sums,
        )
        return self.allreduce(sums)

    def flexible_sums(self, z: NDArray[Any], r: Array, old_r: Array) -> Array:
        sums = np.empty(2)
        flexible_dots(z.reshape(-1), r.reshape(-1), old_r.reshape(-1), self.weights.reshape(-1), sums)
        return self.allreduce(sums)

    def flexible_direction(self, z: NDArray[Any], beta: float, p: Array) -> None:
        flexible_direction(z.reshape(-1), beta, p.reshape(-1))

    def flexible_update(self, alpha: float, p: Array, w: Array, x: Array, r: Array, old_r: Array) -> float:
        sums = np.empty(1)
        flexible_update(
            alpha,
            p.reshape(-1),
            w.reshape(-1),
            self.norm_weights.reshape(-1),
            x.reshape(-1),
            r.reshape(-1),
            old_r.reshape(-1),
            sums,
        )
        return float(np.sqrt(self.allreduce(sums)[0] * self.norm_scale))

    def dot(self, u: Array, v: Array) -> Array:
        return self.allreduce(self.local_dot(u, v))

    def norm(self, r: Array) -> Array:
        shares = np.zeros(len(self.parts(r)))
        weighted_dots(self.parts(r), self.parts(r), self.norm_weights.reshape(-1), shares)
        return np.sqrt(self.allreduce(shares) * self.norm_scale)

    def mean(self, u: Array) -> Array:
        return self.allreduce(self.parts(u) @ self.mean_weights.reshape(-1)) / self.volume

    def remove_mean(self, u: Array) -> None:
        flat = self.parts(u)
        flat -= self.mean(u)[:, None]

    def make_consistent(self, b: Array) -> None:
        flat = self.parts(b)
        excess = self.allreduce(flat @ self.weights.reshape(-1)) / self.volume
        if self.mass is None:
            flat -= excess[:, None]
        else:
            combine(flat, -excess, self.mass.reshape(-1))


@dataclass(frozen=True)
class SolveResult:
    """How a solve ended. Residuals are in the norm of `InnerProduct`, the largest of all components.

    converged: False if max_iterations were done without reaching the tolerance, if numbers became NaN or infinite, or
    if the method broke down. Solvers raise no exception for this: only the caller knows the name of the solve.
    """

    iterations: int
    residual: float
    initial_residual: float
    converged: bool

    def __str__(self) -> str:
        end = "converged" if self.converged else "NOT converged"
        return (
            f"{end} after {self.iterations} iterations: residual {self.initial_residual:.3e} -> "
            f"{self.residual:.3e}"
        )


class Workspace:
    """Keep buffers by name, allocated at their first use, so that later solves allocate nothing.

    Solvers that run one after the other may share a workspace.

    Examples
    --------
    >>> import numpy as np
    >>> from ridgeline.krylov.operator import Workspace
    >>> work = Workspace()
    >>> first, again = work("residual", (2, 3)), work("residual", (2, 3))
    >>> np.shares_memory(first, again), work.n_bytes
    (True, 48)
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[Any]] = {}

    def __call__(self, name: str, shape: Sequence[int], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return a contiguous array of undefined content; the same memory for the same name."""
        kind = np.dtype(dtype)
        n_bytes = int(np.prod(shape)) * kind.itemsize
        if name not in self._buffers or self._buffers[name].size < n_bytes:
            self._buffers[name] = aligned_empty(n_bytes, np.uint8)
        return self._buffers[name][:n_bytes].view(kind).reshape(shape)

    @property
    def n_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.size for buffer in self._buffers.values())


def unfused_direction(
    operator: Operator,
    r: Array,
    inverse_diagonal: Array,
    beta: Array,
    p: Array,
    w: Array,
    components: Sequence[int],
) -> Array:
    """Do what `Operator.direction` does by means of `Operator.apply`, for operators that do not fuse it.

    Passes: reads r, inverse_diagonal and p, writes p; applies the operator; reads p, w and the weights for p.w. These
    are 7 words per point besides those of the application, where the fused version has 4.
    """
    inner = operator.inner
    inner.cg_direction(r, inverse_diagonal, beta, p, components)
    # The operator is applied to all components. Those that have converged keep their w, because their p is unchanged.
    operator.apply(p, w)
    dots, shares = inner.local_dot(p, w), np.zeros(len(beta))
    for c in components:
        shares[c] = dots[c]
    return shares


def timed(
    regions: Regions | None, name: str, flops: float = 0.0, bytes: float = 0.0
) -> AbstractContextManager[None]:
    """Return the context of a region, or a context that does nothing if there are no regions."""
    return nullcontext() if regions is None else regions(name, flops, bytes)


def kernels_of_inner_products() -> list[Specialisation]:
    """Return the kernels that an `InnerProduct` calls, except those of conjugate gradients."""
    return [*specialise([weighted_dots, combine, subtract]), *specialise([copy], np.float64)]
