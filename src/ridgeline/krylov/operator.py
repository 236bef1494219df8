"""What linear solvers take and return: operators, preconditioners, inner products, buffers, results.

A field is a float64 array [n_elements, n, n, n], or [c, n_elements, n, n, n] for c components that are solved for
at once. Points that elements share are stored once per element. A vector is *assembled* if these copies are equal;
its sum over distinct points weighs every copy by its inverse multiplicity. *Unassembled*: copies are contributions,
to be summed; the product of an assembled and an unassembled vector needs no weights.
Nothing here needs elements: any array with weights will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit import vector
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


class VectorPasses(Protocol):
    """What solvers do with vectors: `InnerProduct` in host memory, `device.inner_cuda.CudaInnerProduct` on a GPU.

    Vectors are NumPy arrays, or device arrays; weights, mass and the like too. shape: of one component on the host.
    """

    weights: Any
    norm_weights: Any
    mean_weights: Any
    mass: Any
    passes: Any
    shape: tuple[int, ...]
    volume: float
    norm_scale: float

    def total(self, shares: Array, /) -> Array:
        """Return the sum over ranks of arrays of the host. One Allreduce."""

    def count(self, u: Any, /) -> int:
        """Return how many components u has."""

    def parts(self, u: Any, /) -> Any:
        """Return u as [c, points] without a copy."""

    def zeros(self, shape: Sequence[int], /) -> Any:
        """Return new memory for vectors, all zero."""

    def set_zero(self, u: Any, /) -> None:
        """Set u = 0."""

    def copy(self, u: Any, out: Any, streaming: bool = False) -> None:
        """Set out = u."""

    def subtract(self, b: Any, applied: Any, out: Any, streaming: bool = False) -> None:
        """Set out = b - applied."""

    def add(self, u: Any, out: Any, scale: float = 1.0) -> None:
        """Set out += scale u."""

    def set_scaled(self, scale: float, u: Any, out: Any) -> None:
        """Set out = scale u."""

    def add_mass_times(self, scale: float, u: Any, out: Any) -> None:
        """Set out += scale B u."""

    def shares(self, u: Any, v: Any) -> Array:
        """Return this rank's share of the sums of u v."""

    def dot(self, u: Any, v: Any) -> Array:
        """Return the sums of u v over the points of all ranks. One Allreduce."""

    def norm(self, r: Any) -> Array:
        """Return the norms of residuals. One Allreduce."""

    def mean(self, u: Any) -> Array:
        """Return the means over the volume. One Allreduce."""

    def remove_mean(self, u: Any) -> None:
        """Subtract the means in place."""

    def make_consistent(self, b: Any) -> None:
        """Subtract from a right-hand side what an operator that is blind to constants cannot reach."""

    def cg_direction(
        self, r: Any, inverse_diagonal: Any, beta: Array, p: Any, components: Sequence[int]
    ) -> None:
        """Set p = inverse_diagonal r + beta p."""

    def cg_sums(self, r: Any, inverse_diagonal: Any) -> Array:
        """Return the sums of r^2 inverse_diagonal, and of r^2 for its norm. One Allreduce."""

    def cg_update(
        self, alpha: Array, active: NDArray[np.bool_], p: Any, w: Any, inverse_diagonal: Any, x: Any, r: Any
    ) -> Array:
        """Set x += alpha p and r -= alpha w; return their `cg_sums`. One Allreduce."""

    def flexible_sums(self, z: Any, r: Any, old_r: Any) -> Array:
        """Return the sums of z r and z (r - old_r). One Allreduce."""

    def flexible_direction(self, z: Any, beta: float, p: Any) -> None:
        """Set p = z + beta p."""

    def flexible_update(self, alpha: float, p: Any, w: Any, x: Any, r: Any, old_r: Any) -> float:
        """Set old_r = r, x += alpha p, r -= alpha w; return the norm of the new r. One Allreduce."""


class Operator(Protocol):
    """A symmetric positive (semi-)definite or, for GMRES, any linear operator A on assembled vectors."""

    nullspace: bool  # whether A 1 = 0: constants are free

    @property
    def inner(self) -> VectorPasses:
        """The inner product of its vectors."""

    def apply(self, u: Array, out: Array) -> None:
        """Set out = A u, assembled, zero at constrained points. u is zero there, and is not changed."""

    def direction(
        self,
        r: Array,
        inverse_diagonal: Array,
        beta: Array,
        p: Array,
        w: Array,
        components: Sequence[int],
    ) -> Array:
        """Set p = inverse_diagonal r + beta p and w = A p; return this rank's share of p.w, float64 [c].

        r, p, w: [c, ...]; inverse_diagonal: one component for all, or [c, ...]; beta: float64 [c].
        components: those to be done; p, w and the share of the others are left as they are (share 0).
        """


class Preconditioner(Protocol):
    """An approximate inverse, fixed or changing from call to call."""

    dtype: np.dtype[Any]  # of z: float32 or float64

    def apply(self, r: Array, z: NDArray[Any]) -> None:
        """Set z to about A^-1 r, assembled, zero at constrained points; r is assembled and is not changed."""


class Jacobi:
    """The inverse diagonal as a preconditioner: z = inverse_diagonal r. One component."""

    dtype = np.dtype(np.float64)

    def __init__(self, inverse_diagonal: Array, inner: VectorPasses) -> None:
        self.inverse_diagonal, self._inner = inverse_diagonal, inner

    def apply(self, r: Array, z: NDArray[Any]) -> None:
        """Set z = inverse_diagonal r. Reads 2, writes 1 word per point."""
        self._inner.cg_direction(r, self.inverse_diagonal, np.zeros(1), z, (0,))


class InnerProduct:
    """Sums over the distinct points of all ranks, and the norm of residuals.

    inverse_multiplicity: float64 of the shape of one component (1 / number of copies of each point).
    mass: assembled diagonal mass matrix B of that shape, or None for ones. It gives
    - the norm of a residual r (a weak form): sqrt(sum_points r^2 / B / V), V = sum_points B. It is the root mean
      square over the volume of the residual of the equation itself, B^-1 r (Nek5000's tolerances are of this norm).
      Without mass it is the root mean square of r over points;
    - the mean of a solution: sum_points B u / V;
    - what makes a right-hand side consistent with constants in the null space: b - B (sum_points b) / V.

    passes: the passes over bases of many vectors, which solvers call by the names of `basis_kernels`.
    Reductions have one order on a rank; on other numbers of ranks they differ by rounding.
    """

    passes: Any = basis_kernels

    def __init__(self, comm: MPI.Comm | None, inverse_multiplicity: Array, mass: Array | None = None) -> None:
        self.comm = comm
        self.weights = np.ascontiguousarray(inverse_multiplicity, np.float64)
        self.shape = self.weights.shape
        self.mass = None if mass is None else np.ascontiguousarray(mass, np.float64)
        of_mean = self.weights if self.mass is None else self.weights * self.mass
        self.mean_weights = of_mean
        self.volume = float(self.total(np.array([of_mean.sum()]))[0])
        self.norm_weights = self.weights if self.mass is None else self.weights / self.mass
        self.norm_scale = 1.0 / self.volume

    def total(self, shares: Array) -> Array:
        """Return the sum over ranks of arrays of one shape. One Allreduce."""
        if self.comm is None or self.comm.size == 1:
            return shares
        result = np.empty_like(shares)
        self.comm.Allreduce(np.ascontiguousarray(shares), result)
        return result

    def parts(self, u: Array) -> Array:
        """Return u as [c, points] without a copy; c = 1 if u is one component."""
        if not u.flags.c_contiguous:
            raise ValueError("fields of solvers are contiguous")
        return u.reshape(-1, self.weights.size)

    def count(self, u: Array) -> int:
        """Return how many components u has."""
        return int(u.size) // self.weights.size

    def zeros(self, shape: Sequence[int]) -> Array:
        """Return new memory for vectors, all zero."""
        return np.zeros(tuple(shape))

    def set_zero(self, u: Array) -> None:
        """Set u = 0."""
        u[...] = 0.0

    def copy(self, u: NDArray[Any], out: NDArray[Any], streaming: bool = False) -> None:
        """Set out = u, from one precision to another; streaming: past the caches, of float64."""
        if streaming:
            vector.copy(u.reshape(-1), out.reshape(-1), 1, True)
        else:
            copy(u.reshape(-1), out.reshape(-1))

    def subtract(self, b: Array, applied: Array, out: Array, streaming: bool = False) -> None:
        """Set out = b - applied; streaming: past the caches. One pass: 3 words per point."""
        if streaming:
            vector.triad(b.reshape(-1), -1.0, applied.reshape(-1), out.reshape(-1), 1, True)
        else:
            subtract(b.reshape(-1), applied.reshape(-1), out.reshape(-1))

    def add(self, u: Array, out: Array, scale: float = 1.0) -> None:
        """Set out += scale u."""
        np.add(out, u if scale == 1.0 else scale * u, out=out)

    def set_scaled(self, scale: float, u: Array, out: Array) -> None:
        """Set out = scale u; out may be u."""
        np.multiply(u, scale, out=out)

    def add_mass_times(self, scale: float, u: Array, out: Array) -> None:
        """Set out += scale B u of one component; B is ones without a mass matrix."""
        out += scale * u if self.mass is None else scale * self.mass.reshape(u.shape) * u

    def cg_direction(
        self, r: Array, inverse_diagonal: Array, beta: Array, p: Array, components: Sequence[int]
    ) -> None:
        """Set p = inverse_diagonal r + beta p, components alone. Reads r, p and the diagonal, writes p."""
        per_component = self.count(inverse_diagonal) == len(beta)
        for c in components:
            one = slice(c, c + 1)
            diagonal = self.parts(inverse_diagonal)[one if per_component else slice(0, 1)]
            cg_direction(self.parts(r)[one], diagonal, beta[one], self.parts(p)[one])

    def shares(self, u: Array, v: Array) -> Array:
        """Return this rank's share of sum_points u v of each component, float64 [c]. One pass."""
        found = np.zeros(self.count(u))
        weighted_dots(self.parts(u), self.parts(v), self.weights.reshape(-1), found)
        return found

    def cg_sums(self, r: Array, inverse_diagonal: Array) -> Array:
        """Return sum_points r^2 inverse_diagonal, and r^2 for its norm, [c, 2]. One pass, one Allreduce."""
        sums = np.empty((self.count(r), 2))
        weights, norm_weights = self.weights.reshape(-1), self.norm_weights.reshape(-1)
        cg_residuals(self.parts(r), self.parts(inverse_diagonal), weights, norm_weights, sums)
        return self.total(sums)

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
        """Set x += alpha p and r -= alpha w, active components alone; return their `cg_sums`, 0 of the others."""
        sums = np.empty((len(alpha), 2))
        weights, norm_weights = self.weights.reshape(-1), self.norm_weights.reshape(-1)
        vectors = (self.parts(u) for u in (p, w, inverse_diagonal))
        cg_update(alpha, active, *vectors, weights, norm_weights, self.parts(x), self.parts(r), sums)
        return self.total(sums)

    def flexible_sums(self, z: NDArray[Any], r: Array, old_r: Array) -> Array:
        """Return sum_points z r and z (r - old_r) of one component, [2]; z of any precision. One Allreduce."""
        sums = np.empty(2)
        flexible_dots(*(u.reshape(-1) for u in (z, r, old_r, self.weights)), sums)
        return self.total(sums)

    def flexible_direction(self, z: NDArray[Any], beta: float, p: Array) -> None:
        """Set p = z + beta p; p is not read where beta is 0."""
        flexible_direction(z.reshape(-1), beta, p.reshape(-1))

    def flexible_update(self, alpha: float, p: Array, w: Array, x: Array, r: Array, old_r: Array) -> float:
        """Set old_r = r, x += alpha p, r -= alpha w; return the norm of the new r. One pass, one Allreduce."""
        sums = np.empty(1)
        flexible_update(alpha, *(u.reshape(-1) for u in (p, w, self.norm_weights, x, r, old_r)), sums)
        return float(np.sqrt(self.total(sums)[0] * self.norm_scale))

    def dot(self, u: Array, v: Array) -> Array:
        """Return sum_points u v of each component, float64 [c]. Two assembled vectors, one pass, one Allreduce."""
        return self.total(self.shares(u, v))

    def norm(self, r: Array) -> Array:
        """Return the norm of a residual (see the class) for each component, float64 [c]."""
        shares = np.zeros(len(self.parts(r)))
        weighted_dots(self.parts(r), self.parts(r), self.norm_weights.reshape(-1), shares)
        return np.sqrt(self.total(shares) * self.norm_scale)

    def mean(self, u: Array) -> Array:
        """Return the mean over the volume of each component, float64 [c]."""
        return self.total(self.parts(u) @ self.mean_weights.reshape(-1)) / self.volume

    def remove_mean(self, u: Array) -> None:
        """Subtract the mean of each component in place."""
        flat = self.parts(u)
        flat -= self.mean(u)[:, None]

    def make_consistent(self, b: Array) -> None:
        """Subtract in place from a right-hand side what an operator that is blind to constants cannot reach."""
        flat = self.parts(b)
        excess = self.total(flat @ self.weights.reshape(-1)) / self.volume
        if self.mass is None:
            flat -= excess[:, None]
        else:
            combine(flat, -excess, self.mass.reshape(-1))


@dataclass(frozen=True)
class SolveResult:
    """How a solve ended. Residuals are norms of `InnerProduct.norm`, the largest of all components.

    converged is False if max_iterations passed, if numbers became NaN or infinite, or if the method broke down.
    Nothing is raised: the caller knows the name of the solve.
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
    """Buffers by name, made at their first use and kept, so that solves allocate nothing later.

    Solvers that run one after the other may share one.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[Any]] = {}

    def __call__(self, name: str, shape: Sequence[int], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return a contiguous array of undefined content; the same memory each time it is asked for by name."""
        kind = np.dtype(dtype)
        n_bytes = int(np.prod(shape)) * kind.itemsize
        if name not in self._buffers or self._buffers[name].size < n_bytes:
            self._buffers[name] = aligned_empty(n_bytes, np.uint8)
        return self._buffers[name][:n_bytes].view(kind).reshape(shape)

    @property
    def n_bytes(self) -> int:
        """Memory held."""
        return sum(buffer.size for buffer in self._buffers.values())


def direction(
    operator: Operator,
    r: Array,
    inverse_diagonal: Array,
    beta: Array,
    p: Array,
    w: Array,
    components: Sequence[int],
) -> Array:
    """Do what `Operator.direction` does by `Operator.apply`, for operators that do not fuse it.

    Passes: read r, inverse_diagonal, p, write p; apply; read p, w, weights for their product: 7 words per point
    beside those of the application, where the fused one has 4.
    """
    inner = operator.inner
    inner.cg_direction(r, inverse_diagonal, beta, p, components)
    # All components at once: those that are done keep theirs by a product with unchanged p.
    operator.apply(p, w)
    dots, shares = inner.shares(p, w), np.zeros(len(beta))
    for c in components:
        shares[c] = dots[c]
    return shares


def timed(
    regions: Regions | None, name: str, flops: float = 0.0, bytes: float = 0.0
) -> AbstractContextManager[None]:
    """Return the context of a region, or one that does nothing without regions."""
    return nullcontext() if regions is None else regions(name, flops, bytes)


def kernels_of_inner_products() -> list[Specialisation]:
    """Return the kernels that an `InnerProduct` calls, but for those of conjugate gradients."""
    return [*specialise([weighted_dots, combine, subtract]), *specialise([copy], np.float64)]
