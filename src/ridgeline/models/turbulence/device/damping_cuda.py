"""Hyperviscosity and drag on NVIDIA GPUs: the counterpart of the kernels in `damping`.

The formulas are those of `damping`. Arrays are those of `waves_cuda`, and as there, the factors are computed in
float64 also in float32 flows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numba import cuda

from ridgeline.fourier.device.kernels_cuda import LINE_THREADS
from ridgeline.fourier.modes import Modes
from ridgeline.jit.cuda_device import DeviceArray, device_function, kernel, load_pair, store, store_pair
from ridgeline.models.turbulence import damping as physics
from ridgeline.models.turbulence.device.kernels_diagnostics_cuda import flat_waves, mode_of
from ridgeline.models.turbulence.problem import FlowParameters

BLOCKS = 4  # thread blocks on a multiprocessor

mode_damping = device_function(physics.damping_rates)


@kernel(LINE_THREADS, BLOCKS)
def damp_modes(sizes, units, of_line, terms, share, with_drag, time, first, n, along_y, fields):
    """Multiply n fields from number `first` on by the factor of damping, in place.

    sizes, units, of_line : of `waves_cuda.make_turn`; terms : four float64, of `damping.rate_terms`
    share : of nu_h k^(2p), float64; with_drag : 1 for the velocity, 0 for a scalar
    along_y : 1 for lines [variable, y, line], 0 for fields [field, row, line]

    Launch: `line_launch`. Cost: reads and writes each retained mode of the fields once; an exponential a mode.
    """
    n_lines, ny, rows, _, nz = sizes
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    real = fields.dtype.type
    kx, kz, most, _ = flat_waves(of_line, n_lines, nz, units, line)
    height = ny if along_y else rows
    for iy in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        jy = iy if 2 * iy < ny else iy - ny
        if abs(jy) > most:
            continue
        y = units[1] * jy
        square = kx * kx + kz * kz + y * y
        hyper, drag = mode_damping(square, terms[0], terms[1], terms[2], terms[3])
        factor = real(math.exp(-(share * hyper + with_drag * drag) * time))
        at = (jy if jy >= 0 else height + jy) * n_lines + line
        for v in range(first, first + n):
            place = v * height * n_lines + at
            re, im = load_pair(fields, place)
            store_pair(fields, place, re * factor, im * factor)


@kernel(LINE_THREADS, BLOCKS)
def sum_damping_lines(sizes, units, of_line, terms, field, out_sums):
    """Set out_sums [2, n_lines] to the sums of nu_h k^(2p) |field|^2 and alpha |field|^2. A thread sums a line."""
    n_lines, _, rows, _, nz = sizes
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    x, z, most, weight = flat_waves(of_line, n_lines, nz, units, line)
    flat, count = x * x + z * z, 2 * most + 1
    of_hyper = of_drag = 0.0
    for place in range(count):
        j = place if place <= most else place - count
        y, at = units[1] * j, (j if j >= 0 else rows + j) * n_lines + line
        hyper, drag = mode_damping(flat + y * y, terms[0], terms[1], terms[2], terms[3])
        re, im = mode_of(field, at)
        square = re * re + im * im
        of_hyper += hyper * square
        of_drag += drag * square
    store(out_sums, line, weight * of_hyper)
    store(out_sums, n_lines + line, weight * of_drag)


class DeviceDamping:
    """The factor of damping of one engine. A flow without damping by mode compiles and launches no kernel.

    flow : of the engine; modes : of this rank; sizes, of_line : of `make_advance`; stream : of launches
    """

    def __init__(
        self, flow: FlowParameters, modes: Modes, sizes: tuple[int, ...], of_line: DeviceArray, stream: Any
    ) -> None:
        self._damping, self._stream = flow.damping, stream
        self._common = sizes, modes.unit, of_line, tuple(physics.rate_terms(flow.damping).tolist())
        of_fields = physics.shares(flow).tolist()
        groups = [(0, 3), *((3 + s, 1) for s in range(len(flow.schmidt)))]
        self._groups = [(of_fields[first], first, n) for first, n in groups if of_fields[first]]
        if not physics.damps_apart(flow):
            self._groups = []

    def compile(self, field: DeviceArray) -> None:
        """Compile or load the kernels by launching them on nothing. field: any device array of the run's dtype."""
        if not self._damping:
            return
        _, *common = self._common
        one, nothing = (1, 1, self._stream), (0, 1, 1, 1, 1)
        damp_modes[one](nothing, *common, 0.0, 0.0, 0.0, 0, 0, 0, field)
        sums = cuda.device_array(2)
        sum_damping_lines[one](nothing, *common, field, sums)

    def damp(
        self, launch: tuple[Any, ...], time: float, lines: DeviceArray, stored: Sequence[DeviceArray]
    ) -> None:
        """Multiply the stage in lines and the stored fields by the factor over `time`; without these do nothing."""
        if not stored:
            return
        for share, first, n in self._groups:
            group = share, float(first < 3), time, first, n
            damp_modes[launch](*self._common, *group, 1, lines)
            for fields in stored:
                damp_modes[launch](*self._common, *group, 0, fields)
