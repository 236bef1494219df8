"""The Gray-Scott model: decomposes, owns the engine that holds the fields, and says what the time loop asks.

The arithmetic is in `physics` (one formula), swept over cells by `kernels` on CPUs and by `kernels_cuda` on GPUs;
`CpuEngine` and `CudaEngine` are the two holders of fields, with the same methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.random import GENERATORS
from ridgeline.models.contract import Context, Figure, Model, StepTimes, Variable, Work
from ridgeline.models.gray_scott.diagnostics import figures, first_nonfinite
from ridgeline.models.gray_scott.estimate import (
    FIELDS,
    effective_bytes,
    ghost_width,
    least_work,
    process_grid,
)
from ridgeline.models.gray_scott.initial import place, set_start
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.models.gray_scott.recorders import NAMES, distributed
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from ridgeline.models.gray_scott.sweep_choice import SweepChoice


class Engine(Protocol):
    """Holds u and v of one block on a device, advances them and keeps their ghosts up to date."""

    steps_per_sweep: int
    bytes_exchanged: float  # sent to other ranks by this rank, per step
    messages: float  # sent to other ranks by this rank, per step
    method: str  # how it exchanges and sweeps, for the run header

    def compile(self) -> None:
        """Compile or load every kernel."""

    def host(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the owned u and v on the host: views on a CPU, the latest copies from a GPU."""

    def commit(self) -> None:
        """Take over what was written into the arrays of `host`, and fill the ghosts. Neighbours."""

    def advance(self, step: int, most: int) -> int:
        """Advance from `step` by at most `most` steps, return how many. Neighbours."""

    def fields(self) -> tuple[BlockArray, BlockArray]:
        """Return the present u and v on the host, ghosts not guaranteed."""

    def nonfinite(self) -> int:
        """Return how many owned cells of u and v are not finite, without copying the fields to the host."""

    def allocated(self) -> int:
        """Return the bytes of fields held."""


class GrayScott(Model):
    """A Gray-Scott simulation on this rank."""

    name: ClassVar[str] = "gray_scott"
    advice: ClassVar[str] = 'try a smaller model.dt, less model.noise, or precision = "float64"'
    _case: GrayScottCase

    def __init__(self) -> None:
        self._step = 0

    def setup(self, case: GrayScottCase, context: Context) -> None:
        """Decompose the grid, allocate fields and plan the exchange. Collective."""
        super().setup(case, context)
        self._dtype = np.dtype(case.run.precision)
        grid = process_grid(case, context.comm.size)
        settings = case.model
        c = coefficients(*case.diffusion(), settings.F, settings.k, settings.noise, settings.dt, self._dtype)
        noise = GENERATORS[case.settled().model.random_numbers], case.run.seed
        ghost = ghost_width(case, grid)
        if context.device == "cpu":
            from ridgeline.models.gray_scott.sweep_choice import choose_sweep

            self._choice: SweepChoice = choose_sweep(case, grid, c, noise, context)
            ghost = self._choice.steps
        periodic = (case.grid.boundary == "periodic",) * 3
        # The sweep on GPUs wraps directions that are not cut, however thin; `steps_per_sweep` has checked the others.
        of_exchange = ghost if context.device == "cpu" else 1
        self._cartesian, block = decompose(context.comm, case.grid.shape, grid, periodic, of_exchange)
        self._block = replace(block, ghost=ghost)
        arguments = (self._block, self._cartesian, c, noise, self._dtype, context)
        if context.device == "cpu":
            from ridgeline.models.gray_scott.engine_cpu import CpuEngine

            self._engine: Engine = CpuEngine(*arguments, self._choice.tiling)
        else:
            from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
            from ridgeline.models.gray_scott.device.launch_choice import choose_launch

            engine = CudaEngine(*arguments)
            self._choice = choose_launch(case, grid, engine, context)
            self._engine = engine

    def compile(self) -> None:
        """Compile, or load from the cache, the sweeps of this case."""
        self._engine.compile()

    def initialize(self) -> None:
        """Set the initial state by global index. Collective."""
        set_start(self._case, self._block, self._engine.host(), self._context.comm)
        self._engine.commit()
        self._step = 0

    def state(self) -> Mapping[str, DistributedArray]:
        """Return U and V."""
        return distributed(self._block, self._engine.host())

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        """Return shape, dtype and this rank's block of the concentrations."""
        return [
            replace(variable, description=f"concentration of {variable.name}")
            for variable in super().output_layout(names)
        ]

    def restored(self, step: int, time: float) -> None:
        """Continue from `step` with what was written into the arrays of `state`."""
        self._engine.commit()
        self._step = step

    def settable(self) -> tuple[str, ...]:
        """Name U and V."""
        return NAMES

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Replace U or V, and fill the ghosts. Neighbours."""
        for name, field in zip(NAMES, self._engine.host()):
            if name in fields:
                field[...] = fields[name]
        self._engine.commit()

    def step(self, most: int) -> int:
        """Advance by one sweep, of as many steps as fit into `most`. Neighbours."""
        done = self._engine.advance(self._step, most)
        self._step += done
        return done

    def time(self, step: int) -> float:
        """Return step * dt."""
        return step * self._case.model.dt

    def diagnostics(self) -> dict[str, float]:
        """Return minimum, maximum and mean of U and V. Collective."""
        values: dict[str, float] = {}
        for name, field in zip(NAMES, self._engine.fields()):
            found = figures(self._context.comm, field, self._context.threads)
            values |= {f"{name}_min": found.min, f"{name}_max": found.max, f"{name}_mean": found.mean}
        return values

    def summary(self) -> Mapping[str, Figure]:
        """Return the diagnostics, which are concentrations. Collective."""
        return {name: Figure(value, "concentration") for name, value in self.diagnostics().items()}

    def locate_nonfinite(self) -> str | None:
        """Say where the first cell that is not finite lies, None if there is none. Collective."""
        if not self._context.comm.allreduce(self._engine.nonfinite()):
            return None
        for name, field in zip(NAMES, self._engine.fields()):
            found = first_nonfinite(self._context.comm, field, self._context.threads)
            if found is not None:
                return f"{name} at z={found[0]}, y={found[1]}, x={found[2]}"
        return None

    def work(self) -> Work:
        """Return the least work of a step on all ranks. Collective."""
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
        """Return decomposition, memory and method."""
        facts: dict[str, Any] = {
            "process_grid": list(self._block.process_grid),
            "block": list(self._block.shape_local),
            "steps_per_sweep": self._engine.steps_per_sweep,
            "field_bytes_per_rank": self._engine.allocated(),
            "method": self._engine.method,
        }
        facts["method"] += f" ({self._choice.source})"
        facts["sweep_chosen"] = self._choice.source
        if self._choice.trial is not None:
            facts["trials"] = {"one step": asdict(self._choice.trial)}
        return facts

    def figures(self, step: StepTimes) -> Mapping[str, Figure]:
        """Return the paper's effective bandwidth, summed over ranks (Eqs. 4 and 5a). Collective."""
        mine = effective_bytes(self._block.shape_local, self._dtype.itemsize, FIELDS)
        return {"paper_effective_bandwidth": Figure(self._context.comm.allreduce(mine) / step.total, "B/s")}

    def image_fields(self) -> tuple[str, ...]:
        """Return the fields that are images."""
        return NAMES

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return (origin, spacing), each (z, y, x)."""
        first, second = place(self._case, np.arange(2))
        return (float(first),) * 3, (float(second - first),) * 3


def create_model() -> GrayScott:
    """Return a model to set up and run."""
    return GrayScott()
