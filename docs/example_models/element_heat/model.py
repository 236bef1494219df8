"""Heat conduction on spectral elements on this rank: what the time loop asks of a model."""

import math

import numpy as np

from ridgeline.api import (
    DistributedArray,
    DivergedError,
    ElementGeometry,
    ElementGrid,
    ElementOperator,
    FixedSteps,
    GatherScatter,
    Model,
    Variable,
    Workspace,
    cg,
    compile_kernels,
    kernels_of_cg,
)

from .estimate import estimate, mesh_of

MOST_ITERATIONS = 1000


class ElementHeat(Model):
    """T_t = D lap(T). With M the middle of a step: (2/dt - D lap) M = 2/dt T, and then T becomes 2 M - T."""

    name = "element_heat"
    phases = ("cg", "helmholtz", "gather-scatter")
    exchanges = ("gather-scatter",)

    def setup(self, case, context):
        """Share out the elements, plan the sums over shared points and set up the operator."""
        super().setup(case, context)
        comm, mesh = context.comm, mesh_of(case)
        self._estimate = estimate(case, comm.size)
        self._grid = grid = ElementGrid(mesh, case.grid.order, comm.size, comm.rank)
        self._geometry = ElementGeometry(grid)
        self._gather = GatherScatter(comm, grid.ids)
        fixed = grid.side_points(mesh.sides if case.grid.boundary == "fixed" else ())
        h1, h2 = case.model.D, 2 / case.model.dt
        self._operator = ElementOperator(
            grid, self._geometry, self._gather, h1, h2, fixed, regions=context.regions
        )
        self._steps, self._work = FixedSteps(case.model.dt), Workspace()
        self._T, self._middle, self._right = np.zeros((3, *grid.shape))
        self._use(case.model.dt)

    def _use(self, dt):
        """Set the operator for steps of this length."""
        self._dt, self._operator.h2 = dt, 2 / dt
        self._inverse_diagonal = self._operator.inverse_diagonal()

    def compile(self):
        """Compile the solver; operator and gather-scatter have compiled their kernels in `setup`."""
        compile_kernels(kernels_of_cg())

    def initialize(self):
        """Set the sines, by place. `% 1` gives the copies of a point on opposite sides the same bits."""
        initial, case = self._case.initial, self._case
        self._T[...] = initial.amplitude
        for place, length, waves in zip(
            self._geometry.coordinates, case.grid.lengths[::-1], initial.waves[::-1]
        ):
            self._T *= np.sin(2 * np.pi * (waves * (place / length) % 1))
        self._operator.mask(self._T)
        self.restored(0, 0.0)

    def restored(self, step, time):
        """Continue from a step and its time."""
        self._step, self._time = step, time

    def step(self, most, until=math.inf):
        """Advance by one step, which is shorter than the others before a time that must be met."""
        regions, T, middle, right = self._context.regions, self._T, self._middle, self._right
        dt, time = self._steps.next(self._step, self._time, until)
        if dt != self._dt:
            self._use(dt)
        with regions("cg"):
            np.multiply(T, self._geometry.mass, out=right)
            right *= 2 / dt
            middle[...] = T
        with regions("gather-scatter"):
            self._gather.sum(right)
        self._operator.mask(right)
        result = cg(
            self._operator,
            right,
            middle,
            self._inverse_diagonal,
            2 / dt * self._case.model.tolerance,
            MOST_ITERATIONS,
            work=self._work,
            regions=regions,
        )
        if not result.converged:
            raise DivergedError(
                f"the solve of step {self._step + 1} did not converge: {result}. Use a larger model.tolerance."
            )
        middle *= 2
        np.subtract(middle, T, out=T)
        self._step, self._time = self._step + 1, time
        return 1

    def _part(self, name, local):
        return DistributedArray(name, self._grid.shape_global, (self._grid.first, 0, 0, 0), local)

    def state(self):
        """Return T."""
        return {"T": self._part("T", self._T)}

    def output_layout(self, names):
        """Return T and, written once, the places of the points."""
        grid = self._grid
        blocks = grid.shape_global, (grid.first, 0, 0, 0), grid.shape
        dims = ("element", "t", "s", "r")
        fields = [Variable(name, np.float64, *blocks, dims=dims) for name in names]
        return fields + [Variable(axis, np.float64, *blocks, dims=dims, once=True) for axis in "xyz"]

    def outputs(self, names):
        """Return T and the places of the points."""
        places = {axis: self._part(axis, place) for axis, place in zip("xyz", self._geometry.coordinates)}
        return {**super().outputs(names), **places}

    def time(self, step):
        """Return the time of the present state."""
        return self._time

    def work(self):
        """Return the least work of one step."""
        return self._estimate.work

    def regions(self):
        """Return seconds and counted work of the phases, for the report."""
        return {name: self._context.regions.table[name] for name in self.phases}

    def describe(self):
        """Return what the run header shows."""
        return {
            "process_grid": [self._context.comm.size],
            "block": list(self._grid.shape),
            "method": "implicit midpoint rule by conjugate gradients",
        }


def create_model():
    """Return a model to set up and run."""
    return ElementHeat()
