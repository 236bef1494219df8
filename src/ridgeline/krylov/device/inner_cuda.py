"""Sums over the distinct points of all ranks, and passes of conjugate gradients, of vectors in GPU memory.

`CudaInnerProduct` has what solvers call of `krylov.operator.InnerProduct`. So `krylov.cg.cg`, the other solvers and
projections work on GPUs as they are:

    inner = CudaInnerProduct(host_inner)
    operator = CudaElementOperator(..., inner=inner)
    cg(operator, b, x, operator.inverse_diagonal(), 1e-9, 200, work=CudaWorkspace())   # device arrays

The host waits where it needs a sum: twice an iteration, for a few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.cuda_device import flat
from ridgeline.krylov.device.basis_passes_cuda import CudaBasisPasses
from ridgeline.krylov.device.kernels_cuda import (
    add_product,
    add_scaled,
    cg_direction,
    cg_sums,
    cg_update,
    copy,
    flexible_direction,
    flexible_sums,
    flexible_update,
    set_scaled,
    set_zero,
    subtract,
    weighted_dots,
)
from ridgeline.krylov.device.sums_cuda import BlockSums
from ridgeline.krylov.operator import InnerProduct

Sums = NDArray[np.float64]


class CudaInnerProduct:
    """An `InnerProduct` of device fields: its numbers, with weights and mass in GPU memory.

    host: the inner product that it stands for; stream: of all kernels. u, v, ... are contiguous float64 device arrays
    of one component or [c, ...]. Reductions have one order; from the host's they differ by rounding.
    Memory: 1 vector, 4 where `host` has a mass matrix.
    """

    def __init__(self, host: InnerProduct, stream: Any = 0) -> None:
        self.host, self.stream, self.comm = host, stream, host.comm
        self.volume, self.norm_scale, self.shape = host.volume, host.norm_scale, host.shape
        self.weights = cuda.to_device(host.weights.reshape(-1))
        self.norm_weights = self.mean_weights = self.weights
        self._shape = self._nothing = cuda.to_device(np.empty(0))
        self.mass = None
        if host.mass is not None:
            self.mass = self._shape = cuda.to_device(host.mass.reshape(-1))
            self.norm_weights = cuda.to_device(host.norm_weights.reshape(-1))
            self.mean_weights = cuda.to_device(host.mean_weights.reshape(-1))
        self.points = host.weights.size
        self._sums = BlockSums(self.points, stream)
        self.passes = CudaBasisPasses(self.points, self._sums)

    def total(self, shares: Sums) -> Sums:
        """Return the sum over ranks of arrays of the host. One Allreduce."""
        return self.host.total(shares)

    def count(self, u: Any) -> int:
        """Return how many components u has."""
        return int(u.size) // self.points

    def parts(self, u: Any) -> Any:
        """Return u as [c, points] without a copy; c = 1 if u is one component."""
        return u.reshape(self.count(u), self.points)

    def zeros(self, shape: Sequence[int]) -> Any:
        """Return new memory for vectors, all zero."""
        found = cuda.device_array(tuple(shape), np.float64)
        if found.size:
            self.set_zero(found)
        return found

    def set_zero(self, u: Any) -> None:
        """Set u = 0."""
        self._sums.on(1, set_zero)(flat(u))

    def copy(self, u: Any, out: Any, streaming: bool = False) -> None:
        """Set out = u, from one precision to another. The caches of a GPU need no `streaming`."""
        self._sums.on(1, copy)(flat(u), flat(out))

    def subtract(self, b: Any, applied: Any, out: Any, streaming: bool = False) -> None:
        """Set out = b - applied. One pass: 3 words per point. The caches of a GPU need no `streaming`."""
        self._sums.on(1, subtract)(flat(b), flat(applied), flat(out))

    def add(self, u: Any, out: Any, scale: float = 1.0) -> None:
        """Set out += scale u."""
        self._sums.on(1, add_product)(float(scale), self._nothing, flat(u), flat(out))

    def set_scaled(self, scale: float, u: Any, out: Any) -> None:
        """Set out = scale u; out may be u."""
        self._sums.on(1, set_scaled)(float(scale), flat(u), flat(out))

    def add_mass_times(self, scale: float, u: Any, out: Any) -> None:
        """Set out += scale B u of one component; B is ones without a mass matrix."""
        self._sums.on(1, add_product)(float(scale), self._shape, flat(u), flat(out))

    def shares(self, u: Any, v: Any) -> Sums:
        """Return this rank's share of sum_points u v of each component, float64 [c]. One pass; the host waits."""
        return self._dots(u, flat(v), self.weights)

    def dot(self, u: Any, v: Any) -> Sums:
        """Return sum_points u v of each component, float64 [c]. Two assembled vectors, one pass, one Allreduce."""
        return self.total(self.shares(u, v))

    def norm(self, r: Any) -> Sums:
        """Return the norm of a residual for each component, float64 [c]. One pass, one Allreduce."""
        found = self.total(self._dots(r, flat(r), self.norm_weights))
        return np.asarray(np.sqrt(found * self.norm_scale))

    def mean(self, u: Any) -> Sums:
        """Return the mean over the volume of each component, float64 [c]. One pass, one Allreduce."""
        return self.total(self._dots(u, self.mean_weights, self._nothing)) / self.volume

    def remove_mean(self, u: Any) -> None:
        """Subtract the mean of each component in place. Two passes."""
        self._add(-self.mean(u), self._nothing, u)

    def make_consistent(self, b: Any) -> None:
        """Subtract in place from a right-hand side what an operator that is blind to constants cannot reach."""
        excess = self.total(self._dots(b, self.weights, self._nothing)) / self.volume
        self._add(-excess, self._shape, b)

    def cg_direction(
        self, r: Any, inverse_diagonal: Any, beta: Sums, p: Any, components: Sequence[int]
    ) -> None:
        """Set p = inverse_diagonal r + beta p, components alone."""
        active = tuple(c in components for c in range(len(beta)))
        self._sums.on(len(beta), cg_direction)(
            tuple(map(float, beta)), active, self.points, flat(r), flat(inverse_diagonal), flat(p)
        )

    def cg_sums(self, r: Any, inverse_diagonal: Any) -> Sums:
        """Return sum_points r^2 inverse_diagonal, and r^2 for its norm, [c, 2]. One pass, one Allreduce."""
        c = self.count(r)
        weights = self.weights, self.norm_weights
        self._sums.on(c, cg_sums)(
            c, self.points, flat(r), flat(inverse_diagonal), *weights, self._sums.parts(2 * c)
        )
        return self.total(self._sums.folded(2 * c).reshape(c, 2))

    def cg_update(
        self, alpha: Sums, active: NDArray[np.bool_], p: Any, w: Any, inverse_diagonal: Any, x: Any, r: Any
    ) -> Sums:
        """Set x += alpha p and r -= alpha w, active components alone; return their `cg_sums`, 0 of the others."""
        vectors = (flat(u) for u in (p, w, inverse_diagonal))
        self._sums.on(len(alpha), cg_update)(
            tuple(map(float, alpha)),
            tuple(map(bool, active)),
            self.points,
            *vectors,
            self.weights,
            self.norm_weights,
            flat(x),
            flat(r),
            self._sums.parts(2 * len(alpha)),
        )
        return self.total(self._sums.folded(2 * len(alpha)).reshape(-1, 2))

    def flexible_sums(self, z: Any, r: Any, old_r: Any) -> Sums:
        """Return sum_points z r and z (r - old_r) of one component, [2]; z of any precision. One Allreduce."""
        vectors = (flat(u) for u in (z, r, old_r))
        self._sums.on(1, flexible_sums)(self.points, *vectors, self.weights, self._sums.parts(2))
        return self.total(self._sums.folded(2))

    def flexible_direction(self, z: Any, beta: float, p: Any) -> None:
        """Set p = z + beta p; p is not read where beta is 0."""
        self._sums.on(1, flexible_direction)(flat(z), float(beta), flat(p))

    def flexible_update(self, alpha: float, p: Any, w: Any, x: Any, r: Any, old_r: Any) -> float:
        """Set old_r = r, x += alpha p, r -= alpha w; return the norm of the new r. One pass, one Allreduce."""
        vectors = (flat(u) for u in (p, w, self.norm_weights, x, r, old_r))
        self._sums.on(1, flexible_update)(float(alpha), self.points, *vectors, self._sums.parts(1))
        return float(np.sqrt(self.total(self._sums.folded(1))[0] * self.norm_scale))

    def _dots(self, u: Any, v: Any, weights: Any) -> Sums:
        c = self.count(u)
        self._sums.on(c, weighted_dots)(c, self.points, flat(u), v, weights, self._sums.parts(c))
        return self._sums.folded(c)

    def _add(self, scales: Sums, shape: Any, out: Any) -> None:
        self._sums.on(len(scales), add_scaled)(tuple(map(float, scales)), self.points, shape, flat(out))


class CudaWorkspace:
    """Buffers of the device by name, made at their first use and kept: the twin of `krylov.operator.Workspace`."""

    def __init__(self) -> None:
        self._buffers: dict[str, Any] = {}

    def __call__(self, name: str, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Any:
        """Return a contiguous device array of undefined content: the same memory each time for a name."""
        kind, size = np.dtype(dtype), int(np.prod(shape))
        key = f"{name} {kind.char}"
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = cuda.device_array(size, kind)
        return self._buffers[key][:size].reshape(tuple(shape))

    @property
    def n_bytes(self) -> int:
        """Memory held."""
        return sum(buffer.nbytes for buffer in self._buffers.values())
