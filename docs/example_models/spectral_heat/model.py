"""Heat conduction in Fourier space on this rank."""

import math

import numpy as np

from ridgeline.api import (
    DistributedArray,
    FixedSteps,
    FourierTransform,
    Model,
    TransformTuning,
    Variable,
    compile_kernels,
    compile_on_nodes,
    kernels_of_transforms,
)

from .estimate import estimate, pencil_grid

EDGES = (2 * math.pi,) * 3


class SpectralHeat(Model):
    """T_t = D lap(T): each mode decays by exp(-D k^2 dt) in a step."""

    name = "spectral_heat"
    phases, exchanges = ("compute",), ()

    def setup(self, case, context):
        """Divide points and modes among the ranks, and plan the transforms, which calls their kernels."""
        super().setup(case, context)
        comm, dtype = context.comm, np.dtype(case.run.precision)
        self._grid = pencil_grid(case, comm.size, comm.rank)
        compile_on_nodes(comm, lambda: compile_kernels(kernels_of_transforms(dtype)))
        self._transform = FourierTransform(
            self._grid,
            EDGES,
            comm,
            dtype,
            TransformTuning(threads=context.threads),
            from_lines=1,
            from_points=1,
            to_lines=1,
        )
        kz, ky, kx = self._transform.modes.expand()
        self._rates = case.model.D * (kz**2 + ky**2 + kx**2)
        self._modes = np.zeros(self._rates.size, self._transform.complex)
        self._steps = FixedSteps(case.model.dt)
        self._dt, self._factors = 0.0, np.ones(self._rates.size, dtype)

    def compile(self):
        """Do nothing: `setup` has compiled the kernels of the transforms."""

    def initialize(self):
        """Set the product of sines by global index, and transform it."""
        initial, grid = self._case.initial, self._grid
        z, y, x = (
            np.sin(2 * np.pi * waves / n * np.arange(start, start + size))
            for waves, n, start, size in zip(initial.waves, grid.shape, grid.offset, grid.block)
        )
        temperature = initial.amplitude * z[:, None, None] * y[:, None] * x
        self._transform.to_spectral(temperature[None].astype(self._transform.real), out=self._modes[None])
        self.restored(0, 0.0)

    def restored(self, step, time):
        """Continue from a step and its time."""
        self._step, self._time = step, time

    def step(self, most, until=math.inf):
        """Advance by one step: a product for each mode, without communication."""
        dt, time = self._steps.next(self._step, self._time, until)
        with self._context.regions("compute"):
            if dt != self._dt:
                self._dt, self._factors[...] = dt, np.exp(-dt * self._rates)
            self._modes *= self._factors
        self._step, self._time = self._step + 1, time
        return 1

    def state(self):
        """Return the modes. Those of a rank are consecutive in the order of all modes, because it has a slab."""
        total, first = self._grid.truncation.n_modes, int(self._grid.lines.start_global[0])
        return {"modes": DistributedArray("modes", (total,), (first,), self._modes)}

    def output_layout(self, names):
        """Return the shape of T and this rank's block of it."""
        grid = self._grid
        return [Variable(name, self._transform.real, grid.shape, grid.offset, grid.block) for name in names]

    def outputs(self, names):
        """Return T at the points."""
        (values,) = self._transform.to_physical(self._modes[None])
        return {name: DistributedArray(name, self._grid.shape, self._grid.offset, values) for name in names}

    def diagnostics(self):
        """Return the mean of T^2, the sum of |T_k|^2 over all modes; most stored modes stand for two."""
        part = float(self._transform.modes.weight() @ np.abs(self._modes) ** 2)
        return {"mean_square": self._context.comm.allreduce(part)}

    def time(self, step):
        """Return the time of the present state."""
        return self._time

    def work(self):
        """Return the least work of one step."""
        return estimate(self._case, self._context.comm.size).work

    def describe(self):
        """Return what the run header shows."""
        methods = "; ".join(f"{name} {method}" for name, method in self._transform.describe().items())
        return {
            "process_grid": list(self._grid.process_grid),
            "block": list(self._grid.block),
            "method": methods,
        }

    def image_fields(self):
        """Return the fields that are images."""
        return ("T",)

    def image_geometry(self):
        """Return origin and spacing of the points."""
        return (0.0, 0.0, 0.0), tuple(edge / n for edge, n in zip(EDGES, self._grid.shape))

    def close(self):
        """Free the communicators of the transforms, where there are several ranks."""
        if self._context.comm.size > 1:
            self._transform.free()


def create_model():
    """Return a model to set up and run."""
    return SpectralHeat()
