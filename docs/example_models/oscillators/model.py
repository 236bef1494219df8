"""Particles in a harmonic potential on this rank."""

import math

import numpy as np

from ridgeline.api import (
    DistributedArray,
    FixedSteps,
    IdentityRanges,
    Migration,
    Model,
    ParticleField,
    Particles,
    Variable,
    compile_kernels,
    even_boxes,
    kernels_of_boxes,
)

from .estimate import estimate


class Oscillators(Model):
    """x_tt = -frequency^2 x for particles that do not see each other."""

    name = "oscillators"
    points_name = "particles"

    def setup(self, case, context):
        """Cut the box into one box for each rank. There are no particles yet."""
        super().setup(case, context)
        comm = context.comm
        self._estimate = estimate(case, comm.size)
        ranks = np.arange(comm.size).reshape(self._estimate.process_grid)
        self._boxes = even_boxes((-0.5,) * 3, (0.5,) * 3, ranks, periodic=(False,) * 3)
        self._ranges = IdentityRanges(comm, math.prod(case.grid.shape))
        self._particles = Particles({"velocity": ParticleField(np.float64, 3)})
        self._rows = {name: np.zeros((self._ranges.n, 3)) for name in ("position", "velocity")}
        self._steps = FixedSteps(case.model.dt)
        self._migration = None

    def compile(self):
        """Compile the kernels that find the owners of particles, or load them from the cache."""
        compile_kernels(kernels_of_boxes())

    def initialize(self):
        """Put each particle at rest on its place of the lattice, which follows from its identity."""
        shape = self._case.grid.shape
        z, y, x = np.unravel_index(self._ranges.identities, shape)
        places = (np.stack([x, y, z], axis=1) + 0.5) / shape[::-1] - 0.5
        self._rows["position"][...], self._rows["velocity"][...] = places, 0.0
        self.restored(0, 0.0)

    def state(self):
        """Return positions and velocities, [particles, 3] in the order of identities."""
        first, total = self._ranges.first, self._ranges.n_global
        for name, rows in self._rows.items():
            if self._migration is not None:
                rows[...] = self._ranges.gather(self._particles, name).T
        return {
            name: DistributedArray(name, (total, 3), (first, 0), rows) for name, rows in self._rows.items()
        }

    def output_layout(self, names):
        """Return shapes and this rank's rows of outputs, with names of the axes."""
        shape, start, rows = (self._ranges.n_global, 3), (self._ranges.first, 0), (self._ranges.n, 3)
        return [Variable(name, np.float64, shape, start, rows, dims=("particle", "axis")) for name in names]

    def restored(self, step, time):
        """Send the particles of this rank's identities to the owners of their places."""
        fields = {name: np.ascontiguousarray(rows.T) for name, rows in self._rows.items()}
        self._ranges.scatter(fields, self._boxes, self._particles)
        if self._migration is not None:
            self._migration.free()
        self._migration = Migration(self._context.comm, self._boxes, self._particles)
        self._step, self._time = step, time

    def step(self, most, until=math.inf):
        """Advance by one step of velocity Verlet, and send particles to their new owners."""
        regions, particles = self._context.regions, self._particles
        dt, time = self._steps.next(self._step, self._time, until)
        kick = 0.5 * dt * self._case.model.frequency**2
        with regions("compute"):
            position, velocity = particles["position"], particles["velocity"]
            velocity -= kick * position
            position += dt * velocity
            velocity -= kick * position
        self._step, self._time = self._step + 1, time
        with regions("exchange"):
            self._migration(particles, self._step)
        return 1

    def time(self, step):
        """Return the time of the present state."""
        return self._time

    def work(self):
        """Return the least work of one step."""
        return self._estimate.work

    def describe(self):
        """Return what the run header shows."""
        return {
            "process_grid": list(self._estimate.process_grid),
            "block": list(self._estimate.block),
            "method": "velocity Verlet, migration after every step",
        }

    def point_places(self):
        """Name the output with the coordinates of the particles, for viewers."""
        return "position"


def create_model():
    """Return a model to set up and run."""
    return Oscillators()
