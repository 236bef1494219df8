"""The state of an engine in a checkpoint: everything that the bits of the next step depend on.

    velocity_x ... scalar_S, and with _1, _2 those of earlier levels    the fields that the scheme needs
    pressure                                                            the present pressure
    known_side_x, ..., known_side_scalar_0, ...                         what forces and heat fluxes follow from
    pressure_basis_0, ..., velocity_basis_0, ...                        the spaces of the last solutions
    clock, time_steps, pressure_numbers, ...                            small numbers, on rank 0

Fields are [E, n, n, n] of all elements in the order of the curve, of which a rank has a range, so that any number of
ranks writes and reads the same arrays. Past rates and vorticities are computed again from the fields, to the same
bits.
"""

from __future__ import annotations

import math

import numpy as np

from ridgeline.krylov.projection import Projection
from ridgeline.models.navier_stokes.engine import SplittingEngine
from ridgeline.models.navier_stokes.problem import Array, field_names
from ridgeline.models.navier_stokes.time_stepping import BACKWARD
from ridgeline.parallel.partition import DistributedArray

# The next dt, the order of the last step, the times of the levels, the lengths of the steps that led to them.
TIME_STEPS = "time_steps"
KNOWN_SIDE = ("known_side_x", "known_side_y", "known_side_z")
KNOWN_STEP = "known_side_step"  # the step to which the known side belongs, NaN without one
KNOWN_SCALARS = "known_scalars_step"  # the same of the scalars


def later_names(n_scalars: int) -> tuple[str, ...]:
    """Return what older checkpoints may lack."""
    scalars = (f"known_side_scalar_{i}" for i in range(n_scalars))
    return TIME_STEPS, *KNOWN_SIDE, KNOWN_STEP, *scalars, KNOWN_SCALARS


class EngineState:
    """Names the arrays of an engine for a checkpoint, and restores the engine from what was read into them."""

    def __init__(self, engine: SplittingEngine) -> None:
        self._engine = engine
        self._names = field_names(len(engine.problem.scalars))
        self._numbers: dict[str, Array] = {}

    def _projections(self) -> dict[str, Projection]:
        engine = self._engine
        solves = {"velocity": engine.velocity, **{s.name.replace(" ", "_"): s for s in engine.scalars}}
        projections = {"pressure": engine.pressure.projection}
        projections |= {name: solve.projection for name, solve in solves.items()}
        return {name: projection for name, projection in projections.items() if projection.depth}

    def _field(self, name: str, local: Array) -> DistributedArray:
        grid = self._engine.grid
        return DistributedArray(name, grid.shape_global, (grid.first, 0, 0, 0), local)

    def arrays(self) -> dict[str, DistributedArray]:
        """Return the state by name: views, except for the small numbers. No communication."""
        engine = self._engine
        arrays = [self._field("pressure", engine.p)]
        for back, level in enumerate(engine.host_levels()):
            suffix = f"_{back}" if back else ""
            arrays += [self._field(name + suffix, field) for name, field in zip(self._names, level)]
        if engine.geometry.sides.keys() - engine.problem.sides_of("periodic"):
            known = engine.host_known_side()
            arrays += [self._field(name, field) for name, field in zip(KNOWN_SIDE, known)]
            for i, scalar in enumerate(engine.problem.scalars):
                if any(side.kind == "fixed" for side in scalar.sides.values()):
                    arrays.append(self._field(f"known_side_scalar_{i}", known[3 + i]))
        force = 0.0 if engine.flow_rate is None else engine.flow_rate.force
        clock = [engine.time, engine.step_index, engine.time_levels.known, engine.velocity.shift, force]
        levels = engine.time_levels
        steps = [engine.dt, engine.velocity.order, *levels.times, *levels.steps]
        known_step = [float(engine.step_index) if engine.stepped else math.nan]
        self._numbers = {
            "clock": np.array(clock),
            TIME_STEPS: np.array(steps),
            KNOWN_STEP: np.array(known_step),
        }
        if engine.problem.scalars:
            known_step = [float(engine.step_index) if engine.scalars_stepped else math.nan]
            self._numbers[KNOWN_SCALARS] = np.array(known_step)
        for name, projection in self._projections().items():
            for kind, rows in engine.host_space(projection).items():
                arrays += [self._field(f"{name}_{kind}_{i}", row) for i, row in enumerate(rows)]
            self._numbers[f"{name}_numbers"] = projection.numbers()
        for name, numbers in self._numbers.items():
            here = numbers if engine.comm.rank == 0 else numbers[:0]
            arrays.append(DistributedArray(name, numbers.shape, (0,), here))
        return {array.name: array for array in arrays}

    def restored(self) -> None:
        """Continue from what was read into the arrays that `arrays` last returned. Collective."""
        engine = self._engine
        levels, control = engine.time_levels, engine.problem.control
        numbers = {name: engine.comm.bcast(array, 0) for name, array in self._numbers.items()}
        time, step, known, shift, force = numbers["clock"].tolist()
        engine.time, engine.step_index = time, int(step)

        dt, order, *lists = numbers[TIME_STEPS].tolist()
        if math.isnan(lists[0]):
            order, dt = 0.0, self._steps_before(int(step), shift)
            levels.begin(int(known) if dt else 1, time, dt)
        else:
            levels.known, levels.times, levels.steps = (
                int(known),
                lists[: levels.order],
                lists[levels.order :],
            )
        if control is not None:
            engine.dt = control.bounded(dt) if dt else engine.first_dt(engine.fields)

        known_steps = [numbers.get(name, np.array([math.nan]))[0] for name in (KNOWN_STEP, KNOWN_SCALARS)]
        engine.resume(shift, int(order), force, known_steps[0] == step, known_steps[1] == step)
        for name, projection in self._projections().items():
            projection.restore(numbers[f"{name}_numbers"])

    def _steps_before(self, step: int, shift: float) -> float:
        """Return the length of the steps of a checkpoint that is older than `TIME_STEPS`, 0 if it is not known.

        It follows from b_0/dt, the shift, except in the first steps, which may be of lower order; unless it is the
        length of this run's own steps.
        """
        dt = self._engine.problem.dt
        if shift in (0.0, *(b[0] / dt for b in BACKWARD)):
            return 0.0 if math.isnan(dt) else dt
        order = self._engine.time_levels.order
        return BACKWARD[order - 1][0] / shift if step >= order else 0.0
