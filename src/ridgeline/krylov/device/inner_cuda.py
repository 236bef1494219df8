"""Sums over the distinct points of all ranks, and passes of conjugate gradients, of vectors in GPU memory.

`CudaInnerProduct` has what solvers call of `krylov.operator.InnerProduct`. So `krylov.cg.cg` solves on GPUs as it is:

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
from ridgeline.krylov.device.kernels_cuda import (
    MOST_BLOCKS,
    THREADS,
    add_scaled,
    cg_direction,
    cg_sums,
    cg_update,
    fold_sums,
    set_zero,
    subtract,
    weighted_dots,
)
from ridgeline.krylov.operator import InnerProduct

Sums = NDArray[np.float64]
_MOST_FIELDS = 16  # that buffers of sums are made for


class CudaInnerProduct:
    """An `InnerProduct` of device fields: its numbers, with weights and mass in GPU memory.

    host: the inner product that it stands for; stream: of all kernels. u, v, ... are contiguous float64 device arrays
    of one component or [c, ...]. Reductions have one order; from the host's they differ by rounding.
    Memory: 1 vector, 4 where `host` has a mass matrix.
    """

    def __init__(self, host: InnerProduct, stream: Any = 0) -> None:
        self.host, self.stream, self.comm = host, stream, host.comm
        self.volume, self.norm_scale = host.volume, host.norm_scale
        self.weights = cuda.to_device(host.weights.reshape(-1))
        self.norm_weights = self.mean_weights = self.weights
        self._shape = self._nothing = cuda.to_device(np.empty(0))
        self.mass = None
        if host.mass is not None:
            self.mass = self._shape = cuda.to_device(host.mass.reshape(-1))
            self.norm_weights = cuda.to_device(host.norm_weights.reshape(-1))
            self.mean_weights = cuda.to_device(host.mean_weights.reshape(-1))
        self.points = host.weights.size
        self._blocks = max(1, min(MOST_BLOCKS, -(-self.points // THREADS)))
        self._parts = cuda.device_array(2 * _MOST_FIELDS * self._blocks, np.float64)
        self._sums = cuda.device_array(2 * _MOST_FIELDS, np.float64)
        self._found = cuda.pinned_array(2 * _MOST_FIELDS, np.float64)

    def total(self, shares: Sums) -> Sums:
        """Return the sum over ranks of arrays of the host. One Allreduce."""
        return self.host.total(shares)

    def count(self, u: Any) -> int:
        """Return how many components u has."""
        return int(u.size) // self.points

    def set_zero(self, u: Any) -> None:
        """Set u = 0."""
        self._on(1, set_zero)(flat(u))

    def copy(self, u: Any, out: Any) -> None:
        """Set out = u, on the stream."""
        flat(out).copy_to_device(flat(u), stream=self.stream)

    def subtract(self, b: Any, applied: Any, out: Any) -> None:
        """Set out = b - applied. One pass: 3 words per point."""
        self._on(1, subtract)(flat(b), flat(applied), flat(out))

    def add(self, u: Any, out: Any, scale: float = 1.0) -> None:
        """Set out += scale u."""
        self._on(1, add_scaled)((float(scale),), int(u.size), flat(u), flat(out))

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
        self._on(len(beta), cg_direction)(
            tuple(map(float, beta)), active, self.points, flat(r), flat(inverse_diagonal), flat(p)
        )

    def cg_sums(self, r: Any, inverse_diagonal: Any) -> Sums:
        """Return sum_points r^2 inverse_diagonal, and r^2 for its norm, [c, 2]. One pass, one Allreduce."""
        c = self.count(r)
        weights = self.weights, self.norm_weights
        self._on(c, cg_sums)(c, self.points, flat(r), flat(inverse_diagonal), *weights, self._parts)
        return self.total(self._folded(2 * c).reshape(c, 2))

    def cg_update(
        self, alpha: Sums, active: NDArray[np.bool_], p: Any, w: Any, inverse_diagonal: Any, x: Any, r: Any
    ) -> Sums:
        """Set x += alpha p and r -= alpha w, active components alone; return their `cg_sums`, 0 of the others."""
        vectors = (flat(u) for u in (p, w, inverse_diagonal))
        self._on(len(alpha), cg_update)(
            tuple(map(float, alpha)),
            tuple(map(bool, active)),
            self.points,
            *vectors,
            self.weights,
            self.norm_weights,
            flat(x),
            flat(r),
            self._parts,
        )
        return self.total(self._folded(2 * len(alpha)).reshape(-1, 2))

    def _on(self, fields: int, kernel: Any) -> Any:
        if fields > _MOST_FIELDS:
            raise ValueError(f"{fields} components; buffers of sums are for {_MOST_FIELDS}")
        return kernel[fields * self._blocks, THREADS, self.stream]

    def _dots(self, u: Any, v: Any, weights: Any) -> Sums:
        c = self.count(u)
        self._on(c, weighted_dots)(c, self.points, flat(u), v, weights, self._parts)
        return self._folded(c)

    def _add(self, scales: Sums, shape: Any, out: Any) -> None:
        self._on(len(scales), add_scaled)(tuple(map(float, scales)), self.points, shape, flat(out))

    def _folded(self, count: int) -> Sums:
        """Return `count` sums of what thread blocks left; the host waits for them."""
        fold_sums[count, THREADS, self.stream](self._parts, self._blocks, self._sums)
        self._sums[:count].copy_to_host(self._found[:count], stream=self.stream)
        if self.stream:
            self.stream.synchronize()
        return np.array(self._found[:count])


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
