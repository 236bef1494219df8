"""The fields of atoms that a run writes (`output.variables`), in the order of identities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.io.store import Variable
from ridgeline.models.molecular_dynamics.kernels_pairs import FORCE_UNIT
from ridgeline.parallel.partition import DistributedArray
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.particles import ParticleField

if TYPE_CHECKING:
    from ridgeline.models.molecular_dynamics.engine_cpu import CpuEngine

# name: the field, its unit and what it is.
FIELDS = {
    "position": (ParticleField(np.float64, 3), "sigma", "position in the periodic box: x, y, z"),
    "velocity": (ParticleField(np.float64, 3), "sqrt(epsilon/m)", "velocity: x, y, z"),
    "force": (ParticleField(np.float64, 3), "epsilon/sigma", "force: x, y, z"),
    "image": (
        ParticleField(np.int32, 3),
        "1",
        "number of box lengths to add to get a path without jumps: x, y, z",
    ),
}
DIMS = ("atom", "axis")


def layout(ranges: IdentityRanges, name: str) -> Variable:
    """Return shape, dtype and this rank's block of an output, [atoms, 3]."""
    field, unit, words = FIELDS[name]
    shape, offset, local = (ranges.n_global, 3), (ranges.first, 0), (ranges.n, 3)
    return Variable(name, field.dtype, shape, offset, local, unit, words, DIMS)


def output_field(ranges: IdentityRanges, engine: CpuEngine, name: str) -> DistributedArray:
    """Return an output of the present state, [atoms, 3]. Collective."""
    field = FIELDS[name][0]
    particles = engine.particles
    if name == "force":
        values = np.ascontiguousarray(engine.forces[: particles.n, :3].T * FORCE_UNIT)
    elif name == "velocity":
        values = particles[name]
    else:
        # Between rebuilds of the lists, which move atoms back into the box, some are outside by less than a length.
        lengths = engine.lengths[:, None]
        turns = np.greater_equal(particles.position, lengths).astype(np.int32) - (particles.position < 0)
        values = particles.position - turns * lengths if name == "position" else particles["image"] + turns
    local = ranges.send(particles.identity, values, np.empty(field.shape(ranges.n), field.dtype))
    rows = np.ascontiguousarray(local.T)
    return DistributedArray(name, (ranges.n_global, 3), (ranges.first, 0), rows)
