"""What fluid particles need, before a run: bytes of memory, of checkpoints and of their data set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.fourier.ghost_planes import buffer_shape, padded_shape
from ridgeline.fourier.pencil import PencilGrid, ProcessGrid
from ridgeline.io.viewer_schemas import BYTES_OF_VERTEX
from ridgeline.models.turbulence.fluid_particles.fields import CARRIED, MET, N_LOADED, SAVED, sampled_fields
from ridgeline.particles.particles import OF_ALL, bytes_of, room_for

if TYPE_CHECKING:
    from ridgeline.models.turbulence.settings import TurbulenceCase

STAGES = {"rk2": 0, "rk4": 3}  # velocities of substeps that are kept for particles


def particle_memory(case: TurbulenceCase, grid: ProcessGrid, n_modes: int) -> dict[str, float]:
    """Return the bytes of the rank with most points, by what they are for; nothing without particles.

    n_modes: most modes of a rank. Particles are taken to be spread as the points are; what arrives beyond the spare
    room takes more.
    """
    particles = case.particles
    if not particles.count:
        return {}
    first = PencilGrid(case.grid.shape, case.model.dealias, grid, 0)  # the first rank's block is the largest
    real = np.dtype(case.run.precision).itemsize
    n = math.ceil(particles.count * math.prod(first.block) / math.prod(case.grid.shape))
    if particles.interpolation == "fourier":
        points = 16.0 * N_LOADED * first.truncation.n_modes + 8.0 * first.truncation.n_modes
    else:
        numbers = math.prod(padded_shape(first.block)) + math.prod(buffer_shape(first))
        points = float(N_LOADED * numbers * real)
    stages = STAGES[case.model.scheme] * 3 * n_modes * 2 * real
    return {
        "particles": float(room_for(n) * bytes_of({**OF_ALL, **CARRIED}) + (48 + bytes_of(MET)) * n),
        "points of particles": points,
        "fields": float(stages),
    }


def checkpoint_bytes_of_particles(case: TurbulenceCase) -> float:
    """Return the bytes that particles add to a checkpoint."""
    return float(case.particles.count * bytes_of({**SAVED, **MET}))


def output_bytes_of_particles(case: TurbulenceCase) -> float:
    """Return the bytes of the data set of particles, of all its output steps."""
    particles = case.particles
    if not particles.count or not particles.every:
        return 0.0
    each = 48 + BYTES_OF_VERTEX + bytes_of(sampled_fields(particles.sample, len(case.scalar)))
    return float(particles.count * (8 + each * (1 + case.run.steps // particles.every)))
