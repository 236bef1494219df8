"""The fields that fluid particles carry, sample and keep in checkpoints: declarations that need no MPI."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.particles.particles import ParticleField

VECTOR = ParticleField(np.float64, 3)
NUMBER = ParticleField(np.float64)
# In checkpoints, beside the identity: position in the box, how often the particle has crossed it, and the velocities
# now and at step 0.
MOVING = {"position": VECTOR, "image": ParticleField(np.int32, 3), "velocity": VECTOR}
SAVED = {**MOVING, "start_velocity": VECTOR}
# Beside identity and position. Within a step: the velocity of the previous stage, and the sum of RK4.
CARRIED = {"image": MOVING["image"], "velocity": VECTOR, "before": VECTOR, "sum": VECTOR}
# Sampled at step 0 and kept in checkpoints, for correlations along paths.
SAMPLED_AT_START = {"dissipation": NUMBER, "enstrophy": NUMBER}
N_LOADED = 3  # fields that are brought to physical space together


def sampled_fields(names: Sequence[str], n_scalars: int) -> dict[str, ParticleField]:
    """Return the fields that are written of each particle beside position and velocity, by name of the array.

    names: entries of the setting particles.sample.
    """
    known = {
        "gradient": {"velocity_gradient": ParticleField(np.float64, 9)},
        "acceleration": {"acceleration": VECTOR},
        "scalars": {f"scalar_{s}": NUMBER for s in range(n_scalars)},
        "dissipation": {"dissipation": NUMBER},
        "enstrophy": {"enstrophy": NUMBER},
    }
    return {array: field for name in names for array, field in known[name].items()}
