"""What solvers do with vectors in GPU memory: the twins of `InnerProduct`, `Workspace` and the passes over bases.

The solvers themselves are the CPU's: `krylov.cg`, `krylov.gmres` and `krylov.projection` call these passes in place
of those in host memory. Vectors are device arrays:

    inner = CudaInnerProduct(host_inner)
    operator = CudaElementOperator(..., inner=inner)
    cg(operator, b, x, operator.inverse_diagonal(), 1e-9, 200, work=CudaWorkspace())

The host waits where it needs a sum: twice an iteration, for a few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.cuda_device import DeviceArray, flat
from ridgeline.krylov.device import basis_kernels_cuda as kernels
from ridgeline.krylov.device.basis_kernels_cuda import ROWS
from ridgeline.krylov.device.kernels_cuda import (
    MOST_BLOCKS,
    THREADS,
    add_product,
    add_scaled,
    cg_direction,
    cg_sums,
    cg_update,
    copy,
    flexible_direction,
    flexible_sums,
    flexible_update,
    fold_sums,
    set_scaled,
    set_zero,
    subtract,
    weighted_dots,
)
from ridgeline.krylov.operator import Array, BasisPasses, InnerProduct


class CudaInnerProduct:
    """The twin of `krylov.operator.InnerProduct`: `VectorPasses` for device arrays.

    host: the inner product that this one stands for; stream: of all kernels. u, v, ... are contiguous float64 device
    arrays of one component or [c, ...]. Sums are formed in one order; they differ from the host's by rounding. The
    host waits for every sum. `streaming` has no effect on a GPU. Memory: 1 vector, 4 if `host` has a mass matrix.
    """

    def __init__(self, host: InnerProduct, stream: Any = 0) -> None:
        self.host, self.stream, self.comm = host, stream, host.comm
        self.volume, self.norm_scale, self.shape = host.volume, host.norm_scale, host.shape
        self.weights = cuda.to_device(host.weights.reshape(-1))
        self.norm_weights = self.mean_weights = self.weights
        self._mass_or_ones = self._nothing = cuda.to_device(np.empty(0))
        self.mass: DeviceArray | None = None
        if host.mass is not None:
            self.mass = self._mass_or_ones = cuda.to_device(host.mass.reshape(-1))
            self.norm_weights = cuda.to_device(host.norm_weights.reshape(-1))
            self.mean_weights = cuda.to_device(host.mean_weights.reshape(-1))
        self.points = host.weights.size
        self._sums = BlockSums(self.points, stream)
        self.passes: BasisPasses = CudaBasisPasses(self.points, self._sums)

    def allreduce(self, shares: Array) -> Array:
        return self.host.allreduce(shares)

    def count(self, u: DeviceArray) -> int:
        return int(u.size) // self.points

    def parts(self, u: DeviceArray) -> DeviceArray:
        return u.reshape(self.count(u), self.points)

    def zeros(self, shape: Sequence[int]) -> DeviceArray:
        vectors: DeviceArray = cuda.device_array(tuple(shape), np.float64)
        if vectors.size:
            self.set_zero(vectors)
        return vectors

    def set_zero(self, u: DeviceArray) -> None:
        self._sums.on(1, set_zero)(flat(u))

    def copy(self, u: DeviceArray, out: DeviceArray, streaming: bool = False) -> None:
        self._sums.on(1, copy)(flat(u), flat(out))

    def subtract(
        self, b: DeviceArray, applied: DeviceArray, out: DeviceArray, streaming: bool = False
    ) -> None:
        self._sums.on(1, subtract)(flat(b), flat(applied), flat(out))

    def add(self, u: DeviceArray, out: DeviceArray, scale: float = 1.0) -> None:
        self._sums.on(1, add_product)(float(scale), self._nothing, flat(u), flat(out))

    def set_scaled(self, scale: float, u: DeviceArray, out: DeviceArray) -> None:
        self._sums.on(1, set_scaled)(float(scale), flat(u), flat(out))

    def add_mass_times(self, scale: float, u: DeviceArray, out: DeviceArray) -> None:
        self._sums.on(1, add_product)(float(scale), self._mass_or_ones, flat(u), flat(out))

    def local_dot(self, u: DeviceArray, v: DeviceArray) -> Array:
        return self._dots(u, flat(v), self.weights)

    def dot(self, u: DeviceArray, v: DeviceArray) -> Array:
        return self.allreduce(self.local_dot(u, v))

    def norm(self, r: DeviceArray) -> Array:
        squares = self.allreduce(self._dots(r, flat(r), self.norm_weights))
        return np.asarray(np.sqrt(squares * self.norm_scale))

    def mean(self, u: DeviceArray) -> Array:
        return self.allreduce(self._dots(u, self.mean_weights, self._nothing)) / self.volume

    def remove_mean(self, u: DeviceArray) -> None:
        self._add(-self.mean(u), self._nothing, u)

    def make_consistent(self, b: DeviceArray) -> None:
        excess = self.allreduce(self._dots(b, self.weights, self._nothing)) / self.volume
        self._add(-excess, self._mass_or_ones, b)

    def cg_direction(
        self,
        r: DeviceArray,
        inverse_diagonal: DeviceArray,
        beta: Array,
        p: DeviceArray,
        components: Sequence[int],
    ) -> None:
        active = tuple(c in components for c in range(len(beta)))
        self._sums.on(len(beta), cg_direction)(
            tuple(map(float, beta)), active, self.points, flat(r), flat(inverse_diagonal), flat(p)
        )

    def cg_sums(self, r: DeviceArray, inverse_diagonal: DeviceArray) -> Array:
        c = self.count(r)
        self._sums.on(c, cg_sums)(
            c,
            self.points,
            flat(r),
            flat(inverse_diagonal),
            self.weights,
            self.norm_weights,
            self._sums.parts(2 * c),
        )
        return self.allreduce(self._sums.folded(2 * c).reshape(c, 2))

    def cg_update(
        self,
        alpha: Array,
        active: NDArray[np.bool_],
        p: DeviceArray,
        w: DeviceArray,
        inverse_diagonal: DeviceArray,
        x: DeviceArray,
        r: DeviceArray,
    ) -> Array:
        self._sums.on(len(alpha), cg_update)(
            tuple(map(float, alpha)),
            tuple(map(bool, active)),
            self.points,
            flat(p),
            flat(w),
            flat(inverse_diagonal),
            self.weights,
            self.norm_weights,
            flat(x),
            flat(r),
            self._sums.parts(2 * len(alpha)),
        )
        return self.allreduce(self._sums.folded(2 * len(alpha)).reshape(-1, 2))

    def flexible_sums(self, z: DeviceArray, r: DeviceArray, old_r: DeviceArray) -> Array:
        self._sums.on(1, flexible_sums)(
            self.points, flat(z), flat(r), flat(old_r), self.weights, self._sums.parts(2)
        )
        return self.allreduce(self._sums.folded(2))

    def flexible_direction(self, z: DeviceArray, beta: float, p: DeviceArray) -> None:
        self._sums.on(1, flexible_direction)(flat(z), float(beta), flat(p))

    def flexible_update(
        self, alpha: float, p: DeviceArray, w: DeviceArray, x: DeviceArray, r: DeviceArray, old_r: DeviceArray
    ) -> float:
        self._sums.on(1, flexible_update)(
            float(alpha),
            self.points,
            flat(p),
            flat(w),
            flat(self.norm_weights),
            flat(x),
            flat(r),
            flat(old_r),
            self._sums.parts(1),
        )
        return float(np.sqrt(self.allreduce(self._sums.folded(1))[0] * self.norm_scale))

    def _dots(self, u: DeviceArray, v: DeviceArray, weights: DeviceArray) -> Array:
        c = self.count(u)
        self._sums.on(c, weighted_dots)(c, self.points, flat(u), v, weights, self._sums.parts(c))
        return self._sums.folded(c)

    def _add(self, scales: Array, shape: DeviceArray, out: DeviceArray) -> None:
        self._sums.on(len(scales), add_scaled)(tuple(map(float, scales)), self.points, shape, flat(out))


class CudaBasisPasses:
    """The twin of the module `krylov.basis_kernels`: a `BasisPasses` for vectors of `points` points in GPU memory.

    sums: launches the kernels and adds up what they leave. Factors and sums are NumPy arrays; the host waits where it
    needs sums. Memory: the factors.
    """

    def __init__(self, points: int, sums: BlockSums) -> None:
        self.points, self._sums = points, sums
        self._factors = cuda.device_array(1, np.float64)
        self._nothing = cuda.to_device(np.empty(0))

    def pair_dots(
        self,
        basis: DeviceArray,
        count: int,
        a: DeviceArray,
        b: DeviceArray,
        with_b: bool,
        weights: DeviceArray,
        out_sums: Array,
    ) -> None:
        out_sums[:] = 0.0
        groups = -(-int(count) // ROWS)
        if not groups:
            return
        second = flat(b) if with_b else self._nothing
        parts = self._sums.parts(2 * ROWS * groups)
        self._sums.on(groups, kernels.pair_dots)(
            groups, int(count), self.points, flat(basis), flat(a), second, flat(weights), parts
        )
        sums = self._sums.folded(2 * ROWS * groups).reshape(groups, 2, ROWS)
        for which in range(2):
            out_sums[which, :count] = sums[:, which].reshape(-1)[:count]

    def basis_products(self, basis: DeviceArray, count: int, weights: DeviceArray, out_sums: Array) -> None:
        out_sums[:] = 0.0
        k, groups = int(count), -(-int(count) // ROWS)
        if not k:
            return
        parts = self._sums.parts(k * groups * ROWS)
        self._sums.on(k * groups, kernels.basis_products)(
            groups, k, self.points, flat(basis), flat(weights), parts
        )
        lower = np.tril(self._sums.folded(k * groups * ROWS).reshape(k, -1)[:, :k])
        out_sums[:k, :k] = lower + np.tril(lower, -1).T

    def basis_add(self, basis: DeviceArray, count: int, factors: Array, x: DeviceArray) -> None:
        self._sums.on(1, kernels.basis_add)(
            int(count), self.points, flat(basis), self._to_device(factors[:count]), flat(x)
        )

    def basis_subtract(
        self, basis: DeviceArray, count: int, factors: Array, scale: float, w: DeviceArray
    ) -> None:
        negative = self._to_device(-factors[:count])
        self._sums.on(1, kernels.basis_subtract)(
            int(count), self.points, flat(basis), negative, float(scale), flat(w)
        )

    def basis_subtract_pair(
        self,
        basis: DeviceArray,
        count: int,
        of_v: Array,
        scale_v: float,
        of_w: Array,
        last: float,
        scale_w: float,
        v: DeviceArray,
        w: DeviceArray,
    ) -> None:
        negative = self._to_device(-of_v[:count], -of_w[:count])
        self._sums.on(1, kernels.basis_subtract_pair)(
            int(count),
            self.points,
            flat(basis),
            negative,
            float(scale_v),
            float(last),
            float(scale_w),
            flat(v),
            flat(w),
        )

    def projection_combine(
        self,
        basis: DeviceArray,
        count: int,
        fresh: bool,
        along: Array,
        scale: float,
        factors: Array,
        mirror: Array,
        out_x: DeviceArray,
    ) -> None:
        rows, mirrored = int(count) + 1, len(mirror) > 0
        of_mirror = mirror if mirrored else np.zeros(rows)
        all_factors = self._to_device(-along[:rows], factors[:rows], of_mirror[:rows])
        self._sums.on(1, kernels.projection_combine)(
            int(count),
            bool(fresh),
            mirrored,
            self.points,
            flat(basis),
            all_factors,
            float(scale),
            flat(out_x),
        )

    def basis_transform(self, basis: DeviceArray, count: int, factors: Array) -> None:
        lower = self._to_device(factors[:count, :count].reshape(-1))
        self._sums.on(1, kernels.basis_transform)(int(count), self.points, flat(basis), lower)

    def _to_device(self, *runs: Array) -> DeviceArray:
        """Return factors in GPU memory, until the next call: a copy from memory that is not pinned is complete."""
        numbers = np.concatenate(runs)
        if self._factors.size < numbers.size:
            self._factors = cuda.device_array(2 * numbers.size, np.float64)
        if numbers.size:
            self._factors[: numbers.size].copy_to_device(numbers, stream=self._sums.stream)
        return self._factors


class BlockSums:
    """Launches of kernels over `points` points, and the sums that they leave.

    Each thread block of a kernel leaves its part of a sum; `folded` adds the parts in one order. The memory for parts
    and sums grows with the number of sums.
    """

    def __init__(self, points: int, stream: Any = 0) -> None:
        self.blocks = max(1, min(MOST_BLOCKS, -(-points // THREADS)))
        self.stream, self._most = stream, 0

    def on(self, fields: int, kernel: Any) -> Any:
        """Return a kernel, to be called for `fields` fields on the stream."""
        return kernel[fields * self.blocks, THREADS, self.stream]

    def parts(self, count: int) -> DeviceArray:
        """Return the memory in which a kernel leaves the parts of `count` sums."""
        if count > self._most:
            self._most = count
            self._parts = cuda.device_array(count * self.blocks, np.float64)
            self._sums = cuda.device_array(count, np.float64)
            self._host_sums = cuda.pinned_array(count, np.float64)
        return self._parts

    def folded(self, count: int) -> NDArray[np.float64]:
        """Add up the parts of `count` sums in one order and return the sums. The host waits for them."""
        fold_sums[count, THREADS, self.stream](self._parts, self.blocks, self._sums)
        self._sums[:count].copy_to_host(self._host_sums[:count], stream=self.stream)
        if self.stream:
            self.stream.synchronize()
        return np.array(self._host_sums[:count])


class CudaWorkspace:
    """Buffers in GPU memory by name: the twin of `krylov.operator.Workspace`."""

    def __init__(self) -> None:
        self._buffers: dict[str, DeviceArray] = {}

    def __call__(self, name: str, shape: Sequence[int], dtype: DTypeLike = np.float64) -> DeviceArray:
        """Return a contiguous device array of undefined content; the same memory for the same name."""
        kind, size = np.dtype(dtype), int(np.prod(shape))
        key = f"{name} {kind.char}"
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = cuda.device_array(size, kind)
        return self._buffers[key][:size].reshape(tuple(shape))

    @property
    def n_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.nbytes for buffer in self._buffers.values())
