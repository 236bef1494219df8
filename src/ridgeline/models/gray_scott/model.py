"""The Gray-Scott model: decomposes the grid, owns the engine that holds the fields, and answers the time loop.

The formula of a cell is in `physics`. `kernels` sweeps it over cells on CPUs, `device.kernels_cuda` on GPUs.
`CpuEngine` and `CudaEngine` hold the fields, call the sweeps and exchange ghosts; `engine.Engine` is what both offer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.sweep_choice import SweepChoice, TimedSweeps, choose_sweep, mean_steps
from ridgeline.jit.random import GENERATORS, Generator
from ridgeline.models.contract import Context, Metric, Model, StepTimes, Variable, Work
from ridgeline.models.gray_scott.diagnostics import Diagnostics
from ridgeline.models.gray_scott.engine import Engine
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.estimate import (
    FIELDS,
    effective_bytes,
    ghost_width,
    least_work,
    possible_steps,
    process_grid,
    steps_per_sweep,
    sweep_is_timed,
)
from ridgeline.models.gray_scott.initial import cell_places, set_start
from ridgeline.models.gray_scott.physics import Coefficients, coefficients
from ridgeline.models.gray_scott.recorders import NAMES, distributed
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.models.time_steps import FixedSteps
from ridgeline.parallel.partition import DistributedArray, Triple

if TYPE_CHECKING:
    from mpi4py import MPI


class GrayScott(Model):
    """A Gray-Scott simulation on this rank."""

    name: ClassVar[str] = "gray_scott"
    advice: str = 'Try a smaller model.dt, a smaller model.noise or run.precision = "float64".'
    _case: GrayScottCase

    def __init__(self) -> None:
        self._step, self._time = 0, 0.0

    def setup(self, case: GrayScottCase, context: Context) -> None:
        super().setup(case, context)
        self._dtype = np.dtype(case.run.precision)
        grid = process_grid(case, context.comm.size)
        self._steps = FixedSteps(case.model.dt)
        self._dt = case.model.dt  # of the engine's coefficients
        c = self._coefficients(self._dt)
        noise = GENERATORS[case.settled().model.random_numbers], case.run.seed
        ghost = ghost_width(case, grid)
        if context.device == "cpu":
            self._choice = self._choose_sweep(grid, c, noise)
            ghost = exchanged = self._choice.steps
        else:
            # The sweep on GPUs wraps directions that are not cut, however thin; `ghost_width` has checked the others.
            exchanged = 1
        periodic = (case.grid.boundary == "periodic",) * 3
        self._cartesian, block = decompose(context.comm, case.grid.shape, grid, periodic, exchanged)
        self._block = block = replace(block, ghost=ghost)
        self._engine: Engine
        if context.device == "cpu":
            self._engine = CpuEngine(
                block, self._cartesian, c, noise, self._dtype, context, self._choice.tiling
            )
        else:
            from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
            from ridgeline.models.gray_scott.device.launch_choice import choose_launch

            engine = CudaEngine(block, self._cartesian, c, noise, self._dtype, context)
            self._choice = choose_launch(case, grid, engine, context)
            self._engine = engine
        self._diagnostics = Diagnostics(self._engine, context.comm, context.threads)

    def _choose_sweep(self, grid: Triple, c: Coefficients, noise: tuple[Generator, int]) -> SweepChoice:
        """Return how the sweeps on CPUs cut their work. Collective."""
        case, steps = self._case, steps_per_sweep(self._case, grid)
        if not sweep_is_timed(case, grid):
            return SweepChoice.untimed(case.model.steps_per_sweep, steps)
        periodic = (case.grid.boundary == "periodic",) * 3
        lengths = {n: mean_steps(case, n) for n in (steps, *possible_steps(case, grid))}
        what = f"{case.grid.boundary}, {noise[0].name if c.noise else 'no noise'}"

        def make_engine(block: Block, cartesian: MPI.Cartcomm, context: Context) -> CpuEngine:
            return CpuEngine(block, cartesian, c, noise, self._dtype, context)

        sweeps = TimedSweeps(case.grid.shape, grid, periodic, self._dtype, FIELDS, lengths, what, make_engine)
        return choose_sweep(sweeps, self._context)

    def _coefficients(self, dt: float) -> Coefficients:
        settings = self._case.model
        return coefficients(*self._case.diffusion(), settings.F, settings.k, settings.noise, dt, self._dtype)

    def compile(self) -> None:
        self._engine.compile()

    def initialize(self) -> None:
        set_start(self._case, self._block, self._engine.host(), self._context.comm)
        self._engine.commit()
        self._step, self._time = 0, 0.0

    def state(self) -> Mapping[str, DistributedArray]:
        return distributed(self._block, self._engine.host())

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        return [
            replace(variable, description=f"concentration of {variable.name}")
            for variable in super().output_layout(names)
        ]

    def restored(self, step: int, time: float) -> None:
        self._engine.commit()
        self._step, self._time = step, time

    def settable(self) -> tuple[str, ...]:
        return NAMES

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        for name, field in zip(NAMES, self._engine.host()):
            if name in fields:
                field[...] = fields[name]
        self._engine.commit()

    def step(self, most: int, until: float = math.inf) -> int:
        """Advance by as many steps of one length as fit into `most` and into a call. Collective, with neighbours."""
        engine = self._engine
        dt, steps, time = self._steps.series(self._step, self._time, until, min(most, engine.steps_per_call))
        if dt != self._dt:
            self._dt = dt
            engine.use_coefficients(self._coefficients(dt))
        made = engine.advance(self._step, steps)
        if made < steps:
            _, steps, time = self._steps.series(self._step, self._time, until, made)
        self._step, self._time = self._step + steps, time
        return steps

    def time(self, step: int) -> float:
        return self._time

    def rate_of_change(self) -> float:
        changed, whole = self._context.comm.allreduce(np.sum(self._engine.squares(), axis=0))
        return float(np.sqrt(changed / whole)) / self._dt if whole else 0.0

    def diagnostics(self) -> dict[str, float]:
        """Return minimum, maximum and mean of U and V. Collective."""
        return self._diagnostics.values()

    def summary(self) -> Mapping[str, Metric]:
        return {name: Metric(value, "concentration") for name, value in self.diagnostics().items()}

    def locate_nonfinite(self) -> str | None:
        return self._diagnostics.nonfinite()

    def work(self) -> Work:
        comm = self._context.comm
        sent, messages = comm.allreduce(np.array([self._engine.bytes_exchanged, self._engine.messages]))
        return least_work(
            self._case.grid.shape,
            self._dtype.itemsize,
            self._case.model.noise > 0,
            float(sent),
            float(messages),
        )

    def describe(self) -> dict[str, Any]:
        return {
            "process_grid": list(self._block.process_grid),
            "block": list(self._block.shape_local),
            "steps_per_sweep": self._engine.steps_per_sweep,
            "field_bytes_per_rank": self._engine.allocated(),
            **self._choice.facts(self._engine.method),
        }

    def figures(self, step: StepTimes) -> Mapping[str, Metric]:
        """Return the paper's effective bandwidth, summed over ranks (Eqs. 4 and 5a). Collective."""
        on_this_rank = effective_bytes(self._block.shape_local, self._dtype.itemsize, FIELDS)
        moved = self._context.comm.allreduce(on_this_rank)
        return {"paper_effective_bandwidth": Metric(moved / step.total, "B/s")}

    def image_fields(self) -> tuple[str, ...]:
        return NAMES

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        first, second = cell_places(self._case, np.arange(2))
        return (float(first),) * 3, (float(second - first),) * 3


def create_model() -> GrayScott:
    """Return a model to set up and run."""
    return GrayScott()
