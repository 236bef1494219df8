"""Compiles the kernels of the diagnostics before the time loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.models.turbulence import mode_sums, point_sums
from ridgeline.parallel.reduce import compile_sums


def compile_diagnostics(dtype: DTypeLike) -> None:
    """Compile, or load from the cache, every kernel that the diagnostics call. No communication.

    dtype: complex, of the spectral fields. The kernels run on a single mode and a single point.
    """
    complex_type = np.dtype(dtype)
    real = np.zeros(0, complex_type).real.dtype
    start, line = np.array([0, 1]), np.zeros(1)
    fields, field, phase = np.zeros((4, 1), complex_type), np.zeros(1, complex_type), np.zeros(1, complex)
    n_sums = len(mode_sums.FLOW_SUMS) + len(mode_sums.SCALAR_SUMS)
    shells = np.zeros((3, 1))
    lines = (start, line, line)
    mode_sums.sum_modes(fields, *lines, line, 1.0, 1.0, np.zeros((n_sums, 1)), shells)
    mode_sums.combine_derivatives(fields[0], 0, 1.0, fields[1], 1, 1.0, *lines, 1.0, field)
    mode_sums.shift_modes(field, phase, phase, start, field)
    mode_sums.add_stress(field, 0, 0, 1.0, fields[:3], *lines, line, 1.0, 1.0, field.copy(), shells[0])
    mode_sums.add_spectrum(field, *lines, line, 1.0, 1.0, shells[0])
    mode_sums.first_nonfinite(field)
    rows = np.zeros((1, 1), real)
    point_sums.sum_powers(rows, np.zeros((point_sums.POWERS, 1)))
    point_sums.count_octaves(rows, 1.0, 0, 0, np.zeros(3, np.int64))
    point_sums.count_evenly(rows, 1.0, 1, np.zeros(4, np.int64))
    point_sums.add_squares(rows[0], real.type(1), np.zeros(1, real))
    point_sums.add_magnitudes(rows[0], real.type(1), np.zeros(1, real))
    point_sums.multiply(rows[0], rows[0], np.zeros(1, real))
    compile_sums(np.float64)
