"""The state of an engine as checkpoints hold it: what makes the next step the same bits.

    velocity_x ... scalar_S, and with _1, _2 those of the levels before    fields that the scheme needs
    pressure                                                               of the present
    pressure_basis_0, ..., velocity_basis_0, ...                           the spaces of past solutions
    clock, time_steps, pressure_numbers, ...                               small numbers, on rank 0

Fields are [E, n, n, n] of all elements in the curve order, of which a rank has a range. Any number of ranks writes
and reads the same arrays. Rates and vorticities of the past are computed again from the fields, to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ridgeline.krylov.projection import Projection
from ridgeline.models.navier_stokes.engine import SplittingEngine
from ridgeline.models.navier_stokes.multistep import BACKWARD
from ridgeline.models.navier_stokes.problem import Array
from ridgeline.parallel.distributed import DistributedArray

TIME_STEPS = "time_steps"  # next step, order of the last, times of the levels, lengths of the steps to them
COMPONENTS = ("velocity_x", "velocity_y", "velocity_z")


def field_names(n_scalars: int) -> tuple[str, ...]:
    """Return the names of the fields of a level."""
    return (*COMPONENTS, *(f"scalar_{i}" for i in range(n_scalars)))


class EngineState:
    """Names the arrays of an engine for a checkpoint, and takes up what was read into them."""

    def __init__(self, engine: SplittingEngine) -> None:
        self._engine = engine
        self._names = field_names(len(engine.problem.scalars))
        self._numbers: dict[str, Array] = {}

    def _projections(self) -> dict[str, Projection]:
        engine = self._engine
        solves = {"velocity": engine.velocity, **{s.name.replace(" ", "_"): s for s in engine.scalars}}
        found = {"pressure": engine.pressure.projection}
        found |= {name: solve.projection for name, solve in solves.items()}
        return {name: projection for name, projection in found.items() if projection.depth}

    def _field(self, name: str, local: Array) -> DistributedArray:
        grid = self._engine.grid
        return DistributedArray(name, grid.shape_global, (grid.first, 0, 0, 0), local)

    def arrays(self) -> dict[str, DistributedArray]:
        """Return the state by name. Views, but for the small numbers. No communication."""
        engine = self._engine
        found = [self._field("pressure", engine.p)]
        for back, level in enumerate(engine.host_levels()):
            suffix = f"_{back}" if back else ""
            found += [self._field(name + suffix, field) for name, field in zip(self._names, level)]
        force = 0.0 if engine.flow_rate is None else engine.flow_rate.force
        clock = [engine.time, engine.step_index, engine.time_levels.known, engine.velocity.shift, force]
        levels = engine.time_levels
        steps = [engine.dt, engine.velocity.order, *levels.times, *levels.steps]
        self._numbers = {"clock": np.array(clock), TIME_STEPS: np.array(steps)}
        for name, projection in self._projections().items():
            for kind, rows in engine.host_space(projection).items():
                found += [self._field(f"{name}_{kind}_{i}", row) for i, row in enumerate(rows)]
            self._numbers[f"{name}_numbers"] = projection.numbers()
        for name, numbers in self._numbers.items():
            here = numbers if engine.comm.rank == 0 else numbers[:0]
            found.append(DistributedArray(name, numbers.shape, (0,), here))
        return {array.name: array for array in found}

    def restored(self) -> None:
        """Continue from what was read into the arrays that `arrays` last returned. Collective."""
        engine = self._engine
        numbers = {name: engine.comm.bcast(array, 0) for name, array in self._numbers.items()}
        time, step, known, shift, force = numbers["clock"].tolist()
        engine.time, engine.step_index = time, int(step)
        order = self._restore_steps(time, int(step), int(known), shift, numbers[TIME_STEPS].tolist())
        engine.resume(shift, order, force)
        for name, projection in self._projections().items():
            projection.restore(numbers[f"{name}_numbers"])

    def _restore_steps(
        self, time: float, step: int, known: int, shift: float, stored: Sequence[float]
    ) -> int:
        """Take up the lengths of the last steps and of the next one; return the order of the last, 0 if not known.

        shift: b_0/dt of the last step. Collective.
        """
        engine = self._engine
        levels, control = engine.time_levels, engine.problem.control
        dt, order, *lists = stored
        if math.isnan(lists[0]):
            order, dt = 0.0, self._steps_before(step, shift)
            levels.begin(known if dt else 1, time, dt)
        else:
            levels.known, levels.times, levels.steps = known, lists[: levels.order], lists[levels.order :]
        if control is not None:
            engine.dt = control.bounded(dt) if dt else engine.first_dt(engine.fields)
        return int(order)

    def _steps_before(self, step: int, shift: float) -> float:
        """Return the length of all steps of a checkpoint from before `TIME_STEPS`, 0 if b_0/dt does not tell.

        It does not in the first steps, which may be of lower order, unless the length is this run's own.
        """
        dt = self._engine.problem.dt
        if shift in (0.0, *(b[0] / dt for b in BACKWARD)):
            return 0.0 if math.isnan(dt) else dt
        order = self._engine.time_levels.order
        return BACKWARD[order - 1][0] / shift if step >= order else 0.0
