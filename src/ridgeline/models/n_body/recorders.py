"""The fields of particles that a run can write, by their names in `output.variables`, in the order of identities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeline.io.store import Variable
from ridgeline.models.n_body.diagnostics import KM_PER_S
from ridgeline.models.n_body.engine_cpu import MOMENTUM
from ridgeline.parallel.partition import DistributedArray
from ridgeline.particles.identity_ranges import IdentityRanges

if TYPE_CHECKING:
    from ridgeline.models.n_body.engine_cpu import CpuEngine

# The unit and the description of each field.
FIELDS = {
    "position": ("Mpc/h", "comoving position in the periodic box: x, y, z"),
    "velocity": ("km/s", "peculiar velocity a dx/dt: x, y, z"),
}
DIMS = ("particle", "axis")


def layout(ranges: IdentityRanges, name: str) -> Variable:
    """Return the shape [particles, 3], dtype and block of this rank of an output field."""
    unit, description = FIELDS[name]
    shape, offset, local = (ranges.n_global, 3), (ranges.first, 0), (ranges.n, 3)
    return Variable(name, np.float64, shape, offset, local, unit, description, DIMS)


def output_field(engine: CpuEngine, name: str, a: float) -> DistributedArray:
    """Return an output field [particles, 3] of the present state, whose scale factor is a. Collective."""
    ranges = engine.ranges
    local = ranges.gather(engine.particles, MOMENTUM if name == "velocity" else name)
    rows = np.ascontiguousarray(local.T)
    if name == "velocity":
        rows *= KM_PER_S / a
    return DistributedArray(name, (ranges.n_global, 3), (ranges.first, 0), rows)
