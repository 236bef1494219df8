"""Waves of rotation and stratification on NVIDIA GPUs: the counterpart of the kernels in `waves`.

The formulas are those of `waves`. Arrays are those of `kernels_cuda`: flat, complex numbers as pairs of reals,
*lines* [variable, y, line] and *fields* [field, row, line]. The factors are computed in float64 also in float32
flows, as on CPUs, because the phases of waves grow with the step, and with them the rounding errors of wavenumbers.
A displaced grid multiplies all fields of a mode by one phase, which commutes with the factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.fourier.device.kernels_cuda import LINE_THREADS
from ridgeline.fourier.modes import Modes
from ridgeline.jit.cuda_device import DeviceArray, device_function, kernel, load, load_pair, store_pair
from ridgeline.models.turbulence import waves as physics
from ridgeline.models.turbulence.device.damping_cuda import mode_damping
from ridgeline.models.turbulence.device.kernels_cuda import line_of
from ridgeline.models.turbulence.device.kernels_diagnostics_cuda import flat_waves, mode_of
from ridgeline.models.turbulence.problem import FlowParameters, Waves
from ridgeline.models.turbulence.runge_kutta import SCHEMES

Launch = tuple[Any, ...]
BLOCKS = 4  # thread blocks of `turn_lines` on a multiprocessor

_wave_factors = device_function(physics.wave_factors)
_apply_factors = device_function(physics.apply_factors)
_wave_push = device_function(physics.wave_push)


@device_function
def _turn(fields, at, step, stratified, e, factors):
    """Multiply a mode of the first 3 or 4 fields by the factors; step: complex numbers from one to the next."""
    real = fields.dtype.type
    x_re, x_im = mode_of(fields, at)
    y_re, y_im = mode_of(fields, at + step)
    z_re, z_im = mode_of(fields, at + 2 * step)
    t_re = t_im = 0.0
    if stratified:
        t_re, t_im = mode_of(fields, at + 3 * step)
    x_re, y_re, z_re, t_re = _apply_factors(x_re, y_re, z_re, t_re, e, factors)
    x_im, y_im, z_im, t_im = _apply_factors(x_im, y_im, z_im, t_im, e, factors)
    store_pair(fields, at, real(x_re), real(x_im))
    store_pair(fields, at + step, real(y_re), real(y_im))
    store_pair(fields, at + 2 * step, real(z_re), real(z_im))
    if stratified:
        store_pair(fields, at + 3 * step, real(t_re), real(t_im))


@cache
def make_turn(stratified: bool, n_stored: int) -> Any:
    """Return the kernel that multiplies a stage and stored fields by the factor of waves and viscosity, in place:

        turn_lines(sizes, units, of_line, terms, lines, first, second)

    sizes, of_line, lines : those of `make_advance`, after it and the force; units : smallest k_z, k_y, k_x, float64
    terms : 13 float64, see `waves.N_TERMS`; the fourth, N, counts as 0 unless `stratified`
    first, second : fields, of which `n_stored`, 1 or 2, are multiplied

    Launch: `line_launch`. Cost: reads and writes each retained mode of 3 or 4 fields once, in lines and in stored
    fields; two trigonometric functions and an exponential a mode, and some 35 operations for each vector.
    """

    @kernel(LINE_THREADS, BLOCKS)
    def turn_lines(sizes, units, of_line, terms, lines, first, second):
        n_lines, ny, rows, _, nz = sizes
        line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if line >= n_lines:
            return
        kx, kz, most, _ = flat_waves(of_line, n_lines, nz, units, line)
        frequency = terms[3] if stratified else 0.0
        of_mode = terms[0], terms[1], terms[2], frequency, terms[4], terms[5], terms[6], terms[7]
        for iy in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
            jy = iy if 2 * iy < ny else iy - ny
            if abs(jy) > most:
                continue
            y = units[1] * jy
            square = kx * kx + y * y + kz * kz
            hyper, drag = mode_damping(square, terms[8], terms[9], terms[10], terms[11])
            a = terms[4] - terms[5] * square - hyper - drag
            e, factors = _wave_factors(kx, y, kz, a, -terms[6] * square - terms[12] * hyper, of_mode)
            mode = (jy if jy >= 0 else rows + jy) * n_lines + line
            _turn(lines, iy * n_lines + line, ny * n_lines, stratified, e, factors)
            _turn(first, mode, rows * n_lines, stratified, e, factors)
            if n_stored > 1:
                _turn(second, mode, rows * n_lines, stratified, e, factors)

    return turn_lines


@kernel(LINE_THREADS, 8)
def add_wave_pressure(u, v, w, theta, sizes, of_line, x, y, z, terms, pressure):
    """Add the part of rotation and buoyancy to a pressure: i (k.(2 Omega x u) - N k_z theta) / k^2.

    u, v, w, theta, pressure : fields; with N = 0 theta may be any field
    terms : four reals, of `waves.pressure_terms`; sizes, of_line, x, y, z : those of `make_advance`

    Launch: `line_launch`. Cost: reads five fields, writes one.
    """
    n_lines, ny, rows, _, _ = sizes
    line = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if line >= n_lines:
        return
    zero = pressure.dtype.type(0)
    column, place, most = line_of(of_line, n_lines, line)
    kx, kz = load(x, column), load(z, place)
    for iy in range(cuda.blockIdx.y, ny, cuda.gridDim.y):
        jy, ky = iy if 2 * iy < ny else iy - ny, load(y, iy)
        square = kx * kx + ky * ky + kz * kz
        if abs(jy) > most or square == zero:
            continue
        at = (jy if jy >= 0 else rows + jy) * n_lines + line
        u_re, u_im = load_pair(u, at)
        v_re, v_im = load_pair(v, at)
        w_re, w_im = load_pair(w, at)
        t_re, t_im = load_pair(theta, at)
        p_re, p_im = load_pair(pressure, at)
        push_re = _wave_push(kx, ky, kz, terms, u_re, v_re, w_re, t_re)
        push_im = _wave_push(kx, ky, kz, terms, u_im, v_im, w_im, t_im)
        store_pair(pressure, at, p_re - push_im / square, p_im + push_re / square)


def pressure_arguments(fields: Sequence[DeviceArray], waves: Waves, dtype: DTypeLike) -> tuple[Any, Any]:
    """Return the fields and the terms for `add_wave_pressure`. dtype: of reals of the run."""
    theta = fields[3] if waves.stratified else fields[0]
    real = np.dtype(dtype).type
    return (*fields[:3], theta), tuple(real(term) for term in physics.pressure_terms(waves))


class DeviceWaves:
    """The factor of waves of one engine. A flow without waves compiles and launches no kernel.

    flow : of the engine; modes : of this rank; sizes, of_line : of `make_advance`; stream : of launches
    """

    def __init__(
        self, flow: FlowParameters, modes: Modes, sizes: tuple[int, ...], of_line: DeviceArray, stream: Any
    ) -> None:
        self._flow, self._units, self._stream = flow, modes.unit, stream
        self._sizes, self._of_line = sizes, of_line
        self._terms = (0.0,) * physics.N_TERMS
        counts = {
            len(substep.with_factor_of_modes) for substep in SCHEMES[flow.scheme].substeps if flow.waves
        }
        self._turn = {n: make_turn(flow.waves.stratified, n) for n in counts if n}

    def compile(self, field: DeviceArray, tables: Sequence[DeviceArray]) -> None:
        """Compile or load the kernels by launching them on nothing; tables: x, y and z of `make_advance`."""
        if not self._flow.waves:
            return
        nothing, one = (0, 1, 1, 1, 1), (1, 1, self._stream)
        for kernel_of_n in self._turn.values():
            kernel_of_n[one](nothing, self._units, self._of_line, self._terms, field, field, field)
        fields, terms = pressure_arguments([field] * 4, self._flow.waves, field.dtype)
        add_wave_pressure[one](*fields, nothing, self._of_line, *tables, terms, field)

    def begin_step(self, linear_rate: float, time: float) -> float:
        """Set the factor over `time`, with a force A u of rate A; return the rate that the tables must include."""
        if not self._flow.waves:
            return linear_rate
        self._terms = tuple(physics.wave_terms(self._flow, linear_rate, time).tolist())
        return 0.0

    def turn(self, launch: Launch, lines: DeviceArray, stored: Sequence[DeviceArray]) -> None:
        """Multiply the stage in lines and the stored fields by the factor; without stored fields do nothing."""
        if self._turn and stored:
            common = self._sizes, self._units, self._of_line, self._terms
            self._turn[len(stored)][launch](*common, lines, stored[0], stored[-1])
