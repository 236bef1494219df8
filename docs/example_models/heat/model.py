"""Heat conduction on this rank: what the time loop asks of a model (see ridgeline.models.contract)."""

import math

import numba
import numpy as np

from ridgeline.api import (
    BlockArray,
    DistributedArray,
    FixedSteps,
    HaloExchange,
    Model,
    compile_kernels,
    decompose,
    specialise,
)

from .estimate import estimate
from .kernels import advance_heat


class Heat(Model):
    """T_t = D lap(T). A fixed boundary is held at T = 0."""

    name = "heat"

    def setup(self, case, context):
        """Cut the grid into blocks, allocate two copies of T and plan the exchange of ghosts."""
        super().setup(case, context)
        periodic = (case.grid.boundary == "periodic",) * 3
        self._estimate = estimate(case, context.comm.size)
        cartesian, self._block = decompose(
            context.comm, case.grid.shape, self._estimate.process_grid, periodic
        )
        dtype = np.dtype(case.run.precision)
        self._steps = FixedSteps(case.model.dt)
        self._old, self._new = (BlockArray.allocate(self._block, dtype, fill=0.0) for _ in range(2))
        self._sets = [(self._old,), (self._new,)]
        self._now = 0
        self._halo = HaloExchange.of_fields(cartesian, self._sets, n_threads=context.threads)

    def compile(self):
        """Compile the sweep for the fields of this run, or load it from the cache."""
        compile_kernels(specialise([advance_heat], numba.typeof(self._old.ghosted)))

    def initialize(self):
        """Set the cosine, by global index: then it is the same on any ranks."""
        initial = self._case.initial
        starts, sizes = self._block.offset_global, self._block.shape_local
        z, y, x = (
            2 * np.pi * waves / n * np.arange(start, start + size)
            for waves, n, start, size in zip(initial.waves, self._block.shape_global, starts, sizes)
        )
        phase = z[:, None, None] + y[:, None] + x
        self._sets[self._now][0].owned[...] = initial.amplitude * np.cos(phase)
        self._step, self._time = 0, 0.0

    def restored(self, step, time):
        """Continue from a step and its time."""
        self._step, self._time = step, time

    def step(self, most, until=math.inf):
        """Advance by one step, which is shorter than the others before a time that must be met."""
        regions = self._context.regions
        dt, time = self._steps.next(self._step, self._time, until)
        (old,), (new,) = self._sets[self._now], self._sets[1 - self._now]
        with regions("exchange"):
            self._halo.exchange(self._now)
        with regions("compute"):
            advance_heat(old.ghosted, old.ghosted.dtype.type(dt * self._case.model.D), new.ghosted)
        self._now = 1 - self._now
        self._step, self._time = self._step + 1, time
        return 1

    def state(self):
        """Return T."""
        owned = self._sets[self._now][0].owned
        return {"T": DistributedArray("T", self._block.shape_global, self._block.offset_global, owned)}

    def time(self, step):
        """Return the time of the present state."""
        return self._time

    def work(self):
        """Return the least work of one step."""
        return self._estimate.work

    def describe(self):
        """Return what the run header shows."""
        return {
            "process_grid": list(self._block.process_grid),
            "block": list(self._block.shape_local),
            "method": f"plain sweep, exchange by {self._halo.method}",
        }

    def image_fields(self):
        """Return the fields that are images."""
        return ("T",)


def create_model():
    """Return a model to set up and run."""
    return Heat()
