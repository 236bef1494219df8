"""What turbulence asks of the engine that holds its fields, and which engine a case gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.turbulence.estimate import passes_are_timed
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.passes import Fields, FlowPasses
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.parallel.communicator import in_turn_per_node

if TYPE_CHECKING:
    from ridgeline.fourier.pencil import PencilGrid
    from ridgeline.fourier.rows import RowOperation
    from ridgeline.models.contract import Context
    from ridgeline.models.turbulence.settings import TurbulenceCase


class FlowEngine(Protocol):
    """Holds velocity and scalars of one rank on a device and advances them: see `engine_cpu.CpuEngine`."""

    modes: Modes
    transform: Any  # of fields that the host holds: to_physical, to_spectral, real, complex, trials, free
    forcing: Forcing
    time: float
    step_index: int
    last_dt: float
    last_courant_rate: float
    under_way: dict[str, float]
    n_scalars: int
    flow: FlowParameters

    @property
    def fields(self) -> NDArray[Any]:
        """The modes on the host, complex [3 + S, n_modes]: those themselves, or the latest copy from a GPU."""

    @property
    def passes(self) -> FlowPasses:
        """The passes of diagnostics over `stored`."""

    @property
    def stored(self) -> Fields:
        """The fields where the engine holds them, 3 + S, for `passes`; nothing is copied."""

    @property
    def workspace(self) -> NDArray[Any] | None:
        """Host memory that is free between two steps, if there is some."""

    @property
    def next_shift(self) -> NDArray[np.float64]:
        """The displacement of the next step's first grid, fractions of the box, (x, y, z)."""

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds in `advance`, by what for."""

    def compile(self) -> None:
        """Compile or load the kernels of steps. No communication."""

    def commit(self) -> None:
        """Take over what was written into `fields`. No communication."""

    def advance(
        self, dt: float | None = None, courant: float = 0.5, velocity: RowOperation | None = None
    ) -> float:
        """Make one step and return its length. Collective."""

    def forced_velocity(self) -> NDArray[Any]:
        """Return the velocity of the modes that are forced, complex [3, n_forced]. No communication."""

    def keep_stages(self) -> None:
        """Keep the velocities of substeps from now on."""

    def stages(self) -> list[tuple[NDArray[Any], NDArray[np.float64]]]:
        """Return the velocities of the last step's substeps, if they are kept."""

    def exchanged(self) -> dict[str, tuple[float, float]]:
        """Return the bytes that this rank hands over in a step, and those of a message, by exchange."""

    def memory(self) -> Mapping[str, float]:
        """Return the bytes held, by what they are for."""

    def describe(self) -> dict[str, str]:
        """Return the methods in words."""


def make_engine(case: TurbulenceCase, context: Context, grid: PencilGrid, flow: FlowParameters) -> FlowEngine:
    """Return the engine of a case on the device of the context. Collective.

    Raises DeviceError if the case asks for a GPU and cannot have one, or for what GPUs cannot do.
    """
    arguments = grid, case.grid.lengths, context.comm, case.run.precision, flow
    if context.device == "cuda":
        from ridgeline.models.turbulence.device.engine_cuda import CudaEngine

        engine = CudaEngine(*arguments, case.batch, case.model.transpose.between_gpus)
        timed = passes_are_timed(case, grid.process_grid)
        engine.products.choose(case.model.fft.on_gpus, engine.device.name, timed)
        return engine
    from ridgeline.models.turbulence.engine_cpu import CpuEngine

    in_turn_per_node(context.comm, lambda: compile_kernels(CpuEngine.kernels(case.run.precision)))
    tuning = TransformTuning(
        method=case.model.transpose.method,
        batch=case.batch,
        threads=context.threads,
        effort=case.model.fft.effort,
    )
    return CpuEngine(*arguments, tuning)
