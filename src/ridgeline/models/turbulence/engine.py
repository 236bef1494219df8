"""The interface of the engines that hold and advance the fields, and the choice of one for a case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.turbulence.estimate import passes_are_timed
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.passes import Fields, FieldTransform, FlowPasses
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.parallel.autotuner import TuningResult
from ridgeline.parallel.communicator import compile_on_nodes

if TYPE_CHECKING:
    from ridgeline.fourier.decomposition import PencilGrid
    from ridgeline.fourier.stages import RowOperation
    from ridgeline.models.contract import Context
    from ridgeline.models.turbulence.settings import TurbulenceCase


class EngineTransform(FieldTransform, Protocol):
    """The transform of an engine, as the model uses it: for fields that the host holds."""

    real: np.dtype[Any]
    complex: np.dtype[Any]

    def trials(self) -> Mapping[str, TuningResult]:
        """Return the timings by which methods of exchanges and transforms were chosen, by name."""

    def free(self) -> None:
        """Free communicators and shared memory. Collective."""


class FlowEngine(Protocol):
    """Holds velocity and scalars of one rank on a device, and advances them.

    `engine_cpu.CpuEngine` describes the attributes.
    """

    modes: Modes
    forcing: Forcing
    time: float
    step_index: int
    last_dt: float
    last_courant_rate: float
    under_way: dict[str, float]
    n_scalars: int
    flow: FlowParameters

    @property
    def transform(self) -> EngineTransform:
        """The transform of fields that the host holds."""

    @property
    def fields(self) -> NDArray[Any]:
        """The modes on the host, complex [3 + S, n_modes]: on GPUs a copy that is brought up to date."""

    @property
    def passes(self) -> FlowPasses:
        """The passes of diagnostics, over `stored`."""

    @property
    def stored(self) -> Fields:
        """The 3 + S fields where the engine holds them, for `passes`; nothing is copied."""

    @property
    def workspace(self) -> NDArray[Any] | None:
        """Host memory that is free between two steps, if the engine has any."""

    @property
    def next_shift(self) -> NDArray[np.float64]:
        """The displacement of the next step's first grid, (x, y, z), as fractions of the box."""

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds in `advance`, by `COLUMNS` of `problem`."""

    def compile(self) -> None:
        """Compile or load the kernels of steps. No communication."""

    def commit(self) -> None:
        """Make what was written into `fields` the state of the engine. No communication."""

    def advance(
        self,
        dt: float | None = None,
        courant: float = 0.5,
        velocity: RowOperation | None = None,
        until: float = math.inf,
    ) -> float:
        """Make one step of length dt, or of Courant number `courant` if dt is None; return its length. Collective.

        until: the next time that is to be met exactly, for which the step may be shorter (`time_steps`).

        velocity: an operation that sets `RowBlock.target` to the velocity on the grid of `next_shift`, if the caller
        has it there already. It saves three transforms. Only on CPUs, and without scalars.

        Raises ConfigError for a Courant number where the fluid is at rest.
        """

    def forced_velocity(self) -> NDArray[Any]:
        """Return the velocity of the modes that are forced, complex [3, n_forced]. No communication."""

    def keep_stages(self) -> None:
        """Keep the velocities of all substeps but the first of every step from now on, see `stages`."""

    def stages(self) -> list[tuple[NDArray[Any], NDArray[np.float64]]]:
        """Return the velocities of the last step's substeps 2, 3, ..., if they are kept.

        Each is complex [3, n_modes] on a displaced grid, with its displacement, (x, y, z), fractions of the box.
        """

    def exchanged(self) -> dict[str, tuple[float, float]]:
        """Return, for "row" and "column", the bytes of a step's exchanges on this rank, and those of a message.

        The first number is P2P x R of Eq. (13), which counts blocks that stay on the rank. Both are 0 for exchanges
        that send nothing: those of one rank, and in shared memory.
        """

    def memory(self) -> Mapping[str, float]:
        """Return the bytes that the engine holds on its device, by purpose."""

    def describe(self) -> dict[str, str]:
        """Return the chosen methods in words, by what they are methods of."""


def make_engine(case: TurbulenceCase, context: Context, grid: PencilGrid, flow: FlowParameters) -> FlowEngine:
    """Return the engine of a case on the device of the context. Collective.

    Raises DeviceError if the case asks for a GPU and there is none, or for something that GPUs cannot do.
    """
    arguments = grid, case.grid.lengths, context.comm, case.run.precision, flow
    if context.device == "cuda":
        from ridgeline.models.turbulence.device.engine_cuda import CudaEngine

        engine = CudaEngine(*arguments, case.batch, case.model.transpose.between_gpus)
        timed = passes_are_timed(case, grid.process_grid)
        engine.products.choose(case.model.fft.on_gpus, engine.device.name, timed)
        return engine
    from ridgeline.models.turbulence.engine_cpu import CpuEngine

    compile_on_nodes(context.comm, lambda: compile_kernels(CpuEngine.kernels(case.run.precision)))
    tuning = TransformTuning(
        method=case.model.transpose.method,
        batch=case.batch,
        threads=context.threads,
        effort=case.model.fft.effort,
    )
    return CpuEngine(*arguments, tuning)
