"""Ways of a variable between lines and planes, transform in z included: by cuFFT and packing, or both in one pass.

Both take pieces of lines and their tables (`kernels_cuda`), and variables by number in the planes of `DeviceSlabs`.
Results differ by rounding.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numba import cuda

from ridgeline.fourier.device.block_fft_cuda import twiddle_factors
from ridgeline.fourier.device.block_plans import column_shape
from ridgeline.fourier.device.fft_cuda import DevicePlan
from ridgeline.fourier.device.fused_cuda import make_collect, make_collect_sum, make_spread
from ridgeline.fourier.device.kernels_cuda import collect_lines, collect_sums, spread_lines
from ridgeline.jit.cuda_clock import DeviceClock

Table = tuple[Any, int, int, int]  # place, step, ny, pitch of `kernels_cuda`


class PlaneBuffers:
    """Planes of all variables, flat, of so many reals each, and the stream and clock of work on them."""

    def __init__(self, planes: Any, size: int, stream: Any, clock: DeviceClock) -> None:
        self.all, self.size, self.stream, self.clock = planes, size, stream, clock

    def of(self, variable: int) -> Any:
        """Return the planes of one variable."""
        return self.all[variable * self.size : (variable + 1) * self.size]


class TransformsInZ(Protocol):
    """What brings variables from lines to planes and back."""

    def compile(self, lines: Any, k: Any, table: Table) -> None:
        """Compile or load the kernels by running them on nothing; k: real device array."""

    def spread(self, lines: Any, table: Table, variable: int, whole: bool) -> None:
        """Set a variable's planes to lines, at points in z; columns without modes too, if `whole`."""

    def leave(self, variable: int) -> None:
        """Begin the way back of a variable's planes, once for each time that they are set."""

    def collect(self, variable: int, table: Table, out_lines: Any) -> None:
        """Set lines to a variable's planes, at modes in z, after `leave`."""

    def collect_sum(self, pair: tuple[int, int], k: tuple[Any, Any], table: Table, out_lines: Any) -> None:
        """Set lines to k_x first + k_z second of two variables, after `leave`. k: (pitch,) and (N_z,)."""


class CufftInZ:
    """cuFFT in place, and a pass that packs. launch: `launch_shape`."""

    def __init__(self, buffers: PlaneBuffers, plan: DevicePlan, launch: tuple[Any, ...]) -> None:
        self._buffers, self._plan, self._launch = buffers, plan, launch

    def compile(self, lines: Any, k: Any, table: Table) -> None:
        """Compile or load the kernels by running them on nothing."""
        one, table = (1, 1, self._buffers.stream), (table[0], table[1], 0, 0)
        for kernel in (spread_lines, collect_lines):
            kernel[one](lines, *table, lines)
        collect_sums[one](lines, lines, k, k, *table, lines)

    def spread(self, lines: Any, table: Table, variable: int, whole: bool) -> None:
        """Set a variable's planes to lines, at points in z."""
        del whole
        buffers = self._buffers
        planes = buffers.of(variable)
        with buffers.clock("pack"):
            spread_lines[self._launch](lines, *table, planes)
        with buffers.clock("fft"):
            self._plan.run(planes, planes, buffers.stream, inverse=True)

    def leave(self, variable: int) -> None:
        """Transform a variable's planes."""
        buffers = self._buffers
        planes = buffers.of(variable)
        with buffers.clock("fft"):
            self._plan.run(planes, planes, buffers.stream)

    def collect(self, variable: int, table: Table, out_lines: Any) -> None:
        """Set lines to a variable's planes."""
        with self._buffers.clock("pack"):
            collect_lines[self._launch](self._buffers.of(variable), *table, out_lines)

    def collect_sum(self, pair: tuple[int, int], k: tuple[Any, Any], table: Table, out_lines: Any) -> None:
        """Set lines to k_x first + k_z second of two variables."""
        sources = map(self._buffers.of, pair)
        with self._buffers.clock("pack"):
            collect_sums[self._launch](*sources, *k, *table, out_lines)


class FusedInZ:
    """One pass each way, which transforms in shared memory: see `fused_cuda`.

    n : N_z, one of `block_plans.SIZES`; n_columns : of planes, those that may have modes
    """

    def __init__(self, buffers: PlaneBuffers, n: int, n_columns: int, dtype: Any) -> None:
        self._buffers, self._n, self._n_columns = buffers, n, n_columns
        self._kind: Any = np.dtype(dtype).type  # hashable
        self._kernels = {
            name: make(n, self._kind)
            for name, make in (("spread", make_spread), ("collect", make_collect), ("sum", make_collect_sum))
        }
        self._twiddles = cuda.to_device(twiddle_factors(n, self._kind))

    def _launch(self, table: Table, whole: bool = False, summed: bool = False) -> tuple[Any, ...]:
        shape = column_shape(self._n, self._kind, summed)
        assert shape is not None, "its kernel was made"
        return (*shape.launch(table[3] if whole else self._n_columns, table[2]), self._buffers.stream)

    def compile(self, lines: Any, k: Any, table: Table) -> None:
        """Compile or load the kernels by running them on no plane."""
        place = table[0], table[1], 0, 1
        for name, first in (("spread", (lines,)), ("collect", (lines,)), ("sum", (lines, 0, 0, 0, k, k))):
            launch = (1, 1), self._launch(table, summed=name == "sum")[1], self._buffers.stream
            self._kernels[name][launch](*first, *place, self._twiddles, lines)

    def spread(self, lines: Any, table: Table, variable: int, whole: bool) -> None:
        """Set a variable's planes to lines, at points in z; columns without modes too, if `whole`."""
        with self._buffers.clock("fft"):
            self._kernels["spread"][self._launch(table, whole)](
                lines, *table, self._twiddles, self._buffers.of(variable)
            )

    def leave(self, variable: int) -> None:
        """Do nothing: `collect` transforms."""

    def collect(self, variable: int, table: Table, out_lines: Any) -> None:
        """Set lines to a variable's planes."""
        with self._buffers.clock("fft"):
            self._kernels["collect"][self._launch(table)](
                self._buffers.of(variable), *table, self._twiddles, out_lines
            )

    def collect_sum(self, pair: tuple[int, int], k: tuple[Any, Any], table: Table, out_lines: Any) -> None:
        """Set lines to k_x first + k_z second of two variables."""
        first, second = (variable * self._buffers.size // 2 for variable in pair)
        with self._buffers.clock("fft"):
            self._kernels["sum"][self._launch(table, summed=True)](
                self._buffers.all, first, second - first, 2, *k, *table, self._twiddles, out_lines
            )
