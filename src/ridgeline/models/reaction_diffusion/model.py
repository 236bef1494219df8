"""The reaction-diffusion model: decomposes the grid, owns the engine with the species, answers the time loop."""

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
from ridgeline.blocks.sweep_plan import possible_steps
from ridgeline.models.contract import Context, Metric, Model, Variable, Work
from ridgeline.models.reaction_diffusion.diagnostics import Diagnostics
from ridgeline.models.reaction_diffusion.engine import ReactionEngine
from ridgeline.models.reaction_diffusion.engine_cpu import CpuEngine, digest_of_sweep
from ridgeline.models.reaction_diffusion.estimate import (
    exchanged,
    least_work,
    most_steps,
    process_grid,
    steps_per_sweep,
    sweep_is_timed,
)
from ridgeline.models.reaction_diffusion.initial import set_start
from ridgeline.models.reaction_diffusion.recorders import distributed
from ridgeline.models.reaction_diffusion.settings import ReactionDiffusionCase
from ridgeline.models.time_steps import FixedSteps
from ridgeline.parallel.partition import DistributedArray, Triple

if TYPE_CHECKING:
    from mpi4py import MPI


class ReactionDiffusion(Model):
    """A reaction-diffusion simulation on this rank."""

    name: ClassVar[str] = "reaction_diffusion"
    _case: ReactionDiffusionCase

    def __init__(self) -> None:
        self._step, self._time = 0, 0.0

    def setup(self, case: ReactionDiffusionCase, context: Context) -> None:
        super().setup(case, context)
        grid = process_grid(case, context.comm.size)
        self._steps, self._dt = FixedSteps(case.model.dt), case.model.dt
        self._choice = self._choose_sweep(grid)
        ghost = self._choice.steps
        cartesian, self._block = decompose(context.comm, case.grid.shape, grid, exchanged(case), ghost)
        self._engine: ReactionEngine
        if context.device == "cpu":
            self._engine = CpuEngine(self._block, cartesian, case, context, self._choice.tiling)
        else:
            from ridgeline.models.reaction_diffusion.device.engine_cuda import CudaEngine

            self._engine = CudaEngine(self._block, cartesian, case, context)
        self.advice = case.stable.advice(case.model.dt)
        self._diagnostics = Diagnostics(case.names(), self._engine, context.comm, context.threads)

    def _choose_sweep(self, grid: Triple) -> SweepChoice:
        """Return how sweeps cut their work. Collective."""
        case, steps = self._case, steps_per_sweep(self._case, grid)
        if not sweep_is_timed(case, grid):
            return SweepChoice.untimed(case.model.steps_per_sweep, steps)
        lengths = {n: mean_steps(case, n) for n in (steps, *possible_steps(most_steps(case, grid)))}

        def make_engine(block: Block, cartesian: MPI.Cartcomm, context: Context) -> CpuEngine:
            return CpuEngine(block, cartesian, case, context)

        sweeps = TimedSweeps(
            case.grid.shape,
            grid,
            exchanged(case),
            np.dtype(case.run.precision),
            len(case.species),
            lengths,
            f"formulas {digest_of_sweep(case)}",
            make_engine,
        )
        return choose_sweep(sweeps, self._context)

    def compile(self) -> None:
        self._engine.compile()

    def initialize(self) -> None:
        set_start(self._case, self._block, self._engine.host(), self._context.comm)
        self._engine.commit()
        self._step, self._time = 0, 0.0

    def state(self) -> Mapping[str, DistributedArray]:
        return distributed(self._case.names(), self._block, self._engine.host())

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        return [
            replace(variable, description=f"concentration of {variable.name}")
            for variable in super().output_layout(names)
        ]

    def restored(self, step: int, time: float) -> None:
        self._engine.commit()
        self._step, self._time = step, time

    def settable(self) -> tuple[str, ...]:
        return self._case.names()

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        for name, field in zip(self._case.names(), self._engine.host(), strict=True):
            if name in fields:
                field[...] = fields[name]
        self._engine.commit()

    def step(self, most: int, until: float = math.inf) -> int:
        """Advance by as many steps of one length as fit into `most` and into a call. Collective, with neighbours."""
        engine = self._engine
        dt, steps, time = self._steps.series(self._step, self._time, until, min(most, engine.steps_per_call))
        self._dt = dt
        times = [self._time]  # at which the steps begin, as single steps would have them
        for n in range(1, min(steps, engine.steps_per_sweep)):
            times.append(self._steps.next(self._step + n - 1, times[-1], until)[1])
        engine.use_times(times, dt)
        made = engine.advance(self._step, steps)
        if made < steps:
            _, steps, time = self._steps.series(self._step, self._time, until, made)
        self._step, self._time = self._step + steps, time
        return steps

    def time(self, step: int) -> float:
        return self._time

    def rate_of_change(self) -> float:
        rates = []
        for squares in self._engine.squares():
            changed, whole = self._context.comm.allreduce(np.array(squares))
            rates.append(float(np.sqrt(changed / whole)) / self._dt if whole else 0.0)
        return max(rates)

    def diagnostics(self) -> dict[str, float]:
        """Return minimum, maximum and mean of each species. Collective."""
        return self._diagnostics.values()

    def summary(self) -> Mapping[str, Metric]:
        return {name: Metric(value, "concentration") for name, value in self.diagnostics().items()}

    def locate_nonfinite(self) -> str | None:
        return self._diagnostics.nonfinite()

    def work(self) -> Work:
        sent, messages = self._context.comm.allreduce(
            np.array([self._engine.bytes_exchanged, self._engine.messages])
        )
        return least_work(self._case, float(sent), float(messages))

    def describe(self) -> dict[str, Any]:
        return {
            "process_grid": list(self._block.process_grid),
            "block": list(self._block.shape_local),
            "steps_per_sweep": self._engine.steps_per_sweep,
            "field_bytes_per_rank": self._engine.allocated(),
            **self._choice.facts(self._engine.method),
        }

    def image_fields(self) -> tuple[str, ...]:
        return self._case.names()

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        h = self._case.grid.spacing()
        return tuple(width / 2 for width in h), h


def create_model() -> ReactionDiffusion:
    """Return a model to set up and run."""
    return ReactionDiffusion()
