"""What turbulence draws random numbers for (fourier/random_numbers.py), and the phase shift of a step."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.random_numbers import uniform
from ridgeline.parallel.partition import Triple


class Purpose(IntEnum):
    """What numbers are drawn for; scalar n draws for INITIAL_SCALAR + n."""

    PHASE_SHIFT = 1
    INITIAL_VELOCITY = 2
    FORCING = 3
    PARTICLES = 4
    INITIAL_SCALAR = 16


def phase_shift(seed: int, step: int, shape: Triple) -> NDArray[np.float64]:
    """Return by how much step `step` displaces its grid, float64 [3]: (x, y, z) as fractions of the box.

    Uniform within one cell of a grid of `shape` (N_z, N_y, N_x); substeps add half a cell in turn.
    """
    cells = np.array(shape[::-1], np.float64)
    return np.asarray(uniform(seed, Purpose.PHASE_SHIFT, step, 0, 0, 0, 3) / cells)


def shift_of_step(modes: Modes, seed: int, step: int) -> NDArray[np.float64]:
    """Return by how much step `step` displaces the first grid of these modes, as `phase_shift`; 0 without shifts."""
    return phase_shift(seed, step, modes.shape) if modes.dealias == "phase-shift" else np.zeros(3)
