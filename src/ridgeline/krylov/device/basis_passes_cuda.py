"""Passes over bases of many vectors in GPU memory, by the names and arguments of `krylov.basis_kernels`.

So `krylov.gmres` and `krylov.projection` solve on GPUs as they are. Vectors are device arrays; factors and sums are
NumPy arrays of the host. The host waits where it needs sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.jit.cuda_device import flat
from ridgeline.krylov.device import basis_kernels_cuda as kernels
from ridgeline.krylov.device.basis_kernels_cuda import ROWS
from ridgeline.krylov.device.sums_cuda import BlockSums

Numbers = NDArray[np.float64]


class CudaBasisPasses:
    """The passes of vectors of `points` points, launched and summed by `sums`. Memory: factors."""

    def __init__(self, points: int, sums: BlockSums) -> None:
        self.points, self._sums = points, sums
        self._factors = cuda.device_array(1, np.float64)
        self._nothing = cuda.to_device(np.empty(0))

    def pair_dots(
        self, basis: Any, count: int, a: Any, b: Any, with_b: bool, weights: Any, out_sums: Numbers
    ) -> None:
        """Set out_sums[0, k] = sum basis[k] a weights and out_sums[1, k] = sum basis[k] b weights, k < count."""
        out_sums[:] = 0.0
        groups = -(-int(count) // ROWS)
        if not groups:
            return
        second = flat(b) if with_b else self._nothing
        parts = self._sums.parts(2 * ROWS * groups)
        self._sums.on(groups, kernels.pair_dots)(
            groups, int(count), self.points, flat(basis), flat(a), second, flat(weights), parts
        )
        found = self._sums.folded(2 * ROWS * groups).reshape(groups, 2, ROWS)
        for which in range(2):
            out_sums[which, :count] = found[:, which].reshape(-1)[:count]

    def basis_products(self, basis: Any, count: int, weights: Any, out_sums: Numbers) -> None:
        """Set out_sums[i, j] = out_sums[j, i] = sum basis[i] basis[j] weights, i and j < count; the others 0."""
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

    def basis_add(self, basis: Any, count: int, factors: Numbers, x: Any) -> None:
        """Set x += sum_{k < count} factors[k] basis[k]. The basis may be float32."""
        self._sums.on(1, kernels.basis_add)(
            int(count), self.points, flat(basis), self._to_device(factors[:count]), flat(x)
        )

    def basis_subtract(self, basis: Any, count: int, factors: Numbers, scale: float, w: Any) -> None:
        """Set w = scale (w - sum_{k < count} factors[k] basis[k])."""
        turned = self._to_device(-factors[:count])
        self._sums.on(1, kernels.basis_subtract)(
            int(count), self.points, flat(basis), turned, float(scale), flat(w)
        )

    def basis_subtract_pair(
        self,
        basis: Any,
        count: int,
        of_v: Numbers,
        scale_v: float,
        of_w: Numbers,
        last: float,
        scale_w: float,
        v: Any,
        w: Any,
    ) -> None:
        """Set v = scale_v (v - sum of_v[k] basis[k]), then w = scale_w (w - sum of_w[k] basis[k] - last v)."""
        turned = self._to_device(-of_v[:count], -of_w[:count])
        scales = float(scale_v), float(last), float(scale_w)
        self._sums.on(1, kernels.basis_subtract_pair)(
            int(count), self.points, flat(basis), turned, *scales, flat(v), flat(w)
        )

    def projection_combine(
        self,
        basis: Any,
        count: int,
        fresh: bool,
        along: Numbers,
        scale: float,
        factors: Numbers,
        mirror: Numbers,
        out_x: Any,
    ) -> None:
        """Take in a new vector, combine all vectors, and drop a direction by a reflection: all in one pass."""
        one_more, mirrored = int(count) + 1, len(mirror) > 0
        of_mirror = mirror if mirrored else np.zeros(one_more)
        all_factors = self._to_device(-along[:one_more], factors[:one_more], of_mirror[:one_more])
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

    def basis_transform(self, basis: Any, count: int, factors: Numbers) -> None:
        """Set basis[i] = sum_{j <= i} factors[i, j] basis[j], i < count."""
        lower = self._to_device(factors[:count, :count].reshape(-1))
        self._sums.on(1, kernels.basis_transform)(int(count), self.points, flat(basis), lower)

    def _to_device(self, *runs: Numbers) -> Any:
        """Return factors in GPU memory, until the next call: a copy from memory that is not pinned is complete."""
        numbers = np.concatenate(runs)
        if self._factors.size < numbers.size:
            self._factors = cuda.device_array(2 * numbers.size, np.float64)
        if numbers.size:
            self._factors[: numbers.size].copy_to_device(numbers, stream=self._sums.stream)
        return self._factors
