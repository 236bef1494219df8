"""The purposes of random numbers in turbulence (fourier/random_numbers.py), and the phase shift of a step."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.random_numbers import uniform
from ridgeline.parallel.partition import Triple


class Purpose(IntEnum):
    """The purpose of a random number, which is part of its key; scalar n draws for INITIAL_SCALAR + n."""

    PHASE_SHIFT = 1
    INITIAL_VELOCITY = 2
    FORCING = 3
    PARTICLES = 4
    INITIAL_SCALAR = 16


def phase_shift(seed: int, step: int, shape: Triple) -> NDArray[np.float64]:
    """Return the random displacement of a step's first grid, float64 [3], (x, y, z) as fractions of the box.

    It is uniform within one cell of the grid. shape: (N_z, N_y, N_x). Every second substep adds half a cell.
    """
    cells = np.array(shape[::-1], np.float64)
    return np.asarray(uniform(seed, Purpose.PHASE_SHIFT, step, 0, 0, 0, 3) / cells)


def shift_of_step(modes: Modes, seed: int, step: int) -> NDArray[np.float64]:
    """Return the `phase_shift` of a step for these modes, which is 0 if they are not dealiased by phase shifts."""
    return phase_shift(seed, step, modes.shape) if modes.dealias == "phase-shift" else np.zeros(3)
