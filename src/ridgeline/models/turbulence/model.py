"""The turbulence model: what the time loop asks of it, delegated to the parts of the model.

The engine (`engine_cpu`, `device.engine_cuda`) holds the modes and makes the steps. Forcing, diagnostics, averages
over time, fluid particles and the state in checkpoints have files of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.intervals import Moment
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.models.contract import (
    Context,
    DistributedArray,
    Metric,
    Model,
    Profile,
    Recorder,
    StepTimes,
    Variable,
    Work,
)
from ridgeline.models.recorders import profiles_recorder
from ridgeline.models.turbulence import initial_from_file
from ridgeline.models.turbulence.diagnostics import (
    Diagnostics,
    kernels_of_diagnostics,
    scalar_parameters,
    summarise,
)
from ridgeline.models.turbulence.engine import make_engine
from ridgeline.models.turbulence.estimate import least_work, process_grid
from ridgeline.models.turbulence.fluid_particles.particle_tracking import track_particles
from ridgeline.models.turbulence.forcing import make_forcing
from ridgeline.models.turbulence.formula_force import FormulaForce
from ridgeline.models.turbulence.initial import set_initial_modes
from ridgeline.models.turbulence.problem import COLUMNS, FlowParameters
from ridgeline.models.turbulence.recorders import (
    output_field,
    output_names,
    state_names,
)
from ridgeline.models.turbulence.restart import SpectralState, kernels_of_state
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.models.turbulence.solenoidal import project
from ridgeline.models.turbulence.time_averages import make_averages
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.errors import DivergedError

if TYPE_CHECKING:
    from mpi4py import MPI


class Turbulence(Model):
    """A simulation of turbulence in a periodic box, on this rank."""

    name: ClassVar[str] = "turbulence"
    phases: ClassVar[tuple[str, ...]] = COLUMNS[:-1]
    exchanges: ClassVar[tuple[str, ...]] = ("row all-to-all", "column all-to-all")
    advice: str = 'Try a smaller model.dt or model.courant, a finer grid or run.precision = "float64".'
    _case: TurbulenceCase

    def setup(self, case: TurbulenceCase, context: Context) -> None:
        """Decompose the grid, create the engine and its plans, and allocate fields and particles. Collective."""
        super().setup(case, context)
        comm = context.comm
        self._process_grid = process_grid(case, comm.size, place_on_node(comm).ranks)
        self._grid = PencilGrid(case.grid.shape, case.model.dealias, self._process_grid, comm.rank)
        flow = FlowParameters(
            case.model.viscosity,
            case.model.scheme,
            tuple(scalar.schmidt for scalar in case.scalar),
            tuple(scalar.mean_gradient for scalar in case.scalar),
            case.run.seed,
            case.waves,
            case.damping,
        )
        engine = self._engine = make_engine(case, context, self._grid, flow)
        formulas = case.force()
        engine.forcing = (
            FormulaForce(engine, self._grid, comm, formulas)
            if formulas
            else make_forcing(case, engine.modes, comm)
        )
        self._diagnostics = Diagnostics(
            comm, engine.passes, flow.viscosity, scalar_parameters(flow), flow.waves, flow.damping
        )
        self._state = SpectralState(
            self._grid,
            case.grid.lengths,
            comm,
            engine.transform.complex,
            len(case.scalar),
            engine.workspace,
        )
        self._restoring: Mapping[str, NDArray[np.float64]] = {}
        self._averages = make_averages(
            case.output.average_from,
            case.output.interval("spectra_every"),
            self._diagnostics.averaged_numbers(),
        )
        self._particles = track_particles(case, engine, context)
        self.phases = (*type(self).phases, *self._particles.phases)  # type: ignore[misc]
        self._steps = 0
        self._exchange_seconds_of_first_step: Mapping[str, float] = {}

    def compile(self) -> None:
        """Compile, or load from the cache, the kernels of steps, diagnostics, checkpoints and initial states."""
        self._engine.compile()
        dtype = self._engine.transform.complex
        kernels = [*kernels_of_diagnostics(dtype), *kernels_of_state(dtype)]
        if self._case.initial.kind == "file":
            kernels += initial_from_file.kernels_of_files(dtype)
        compile_kernels(kernels)

    def initialize(self) -> None:
        """Set the initial state, mode by mode or from a file. Collective."""
        engine, comm = self._engine, self._context.comm
        set_initial_modes(
            engine.fields, self._case, engine.modes, self._grid, engine.transform, comm, engine.forcing
        )
        engine.commit()
        engine.forcing.start(engine.fields)
        engine.time, engine.step_index = 0.0, 0
        self._averages.reset()
        self._particles.start()

    def state(self) -> Mapping[str, DistributedArray]:
        """Return the modes that continuity does not give, and the arrays of forcing, averages and particles."""
        fields = self._state.pack(self._engine.fields)
        self._engine.commit()  # packing has replaced u_y
        small = {**self._engine.forcing.state(), **self._averages.state()}
        self._restoring = {name: np.array(array) for name, array in small.items()}
        particles = self._particles.state()
        # All ranks have the small arrays; rank 0 writes them.
        of_rank_0 = {
            name: DistributedArray(
                name,
                array.shape,
                (0,) * array.ndim,
                array if self._context.comm.rank == 0 else array[:0],
            )
            for name, array in self._restoring.items()
        }
        return {**fields, **of_rank_0, **particles}

    def restored(self, step: int, time: float) -> None:
        engine, comm = self._engine, self._context.comm
        self._state.unpack(engine.fields)
        engine.commit()
        self._state.release()
        small = {name: comm.bcast(array, 0) for name, array in self._restoring.items()}
        engine.forcing.restored(small)
        self._averages.restored(small)
        self._restoring = {}
        engine.time, engine.step_index = time, step
        self._particles.restored()

    def step(self, most: int, until: float = math.inf) -> int:
        """Advance by one time step. Collective.

        Raises DivergedError if a fixed step has a Courant number (Eq. 8) above 1.
        """
        self._state.release()
        engine, model, regions = self._engine, self._case.model, self._context.regions
        before = engine.seconds
        engine.advance(model.dt, model.courant or 0.0, self._particles.velocity_rows(), until)
        after = engine.seconds
        for name in COLUMNS[:-1]:
            regions.charge(name, after[name] - before[name])
        self._steps += 1
        if self._steps == 1:
            self._exchange_seconds_of_first_step = dict(engine.under_way)
        number = engine.last_dt * engine.last_courant_rate
        if model.dt is not None and number > 1.0:
            raise DivergedError(
                f"model.dt = {engine.last_dt:g} gives the Courant number {number:.3g} at step "
                f"{engine.step_index - 1}, but it must be at most 1, that is model.dt <= "
                f"{1.0 / engine.last_courant_rate:.3g} there. Set a smaller model.dt, or model.courant instead."
            )
        self._particles.advance()
        return 1

    def time(self, step: int) -> float:
        return self._engine.time

    def diagnostics(self) -> dict[str, float]:
        """Return the figures that are sums over modes, which need no transform. Collective."""
        return self._diagnostics.mode_figures(self._engine.stored)

    def summary(self) -> Mapping[str, Metric]:
        """Return energy, scales, resolution and variances of scalars, with units. Collective."""
        return summarise(self.diagnostics())

    def series(self) -> Mapping[str, float]:
        engine = self._engine
        dt = engine.last_dt if np.isfinite(engine.last_dt) else 0.0
        figures = self._diagnostics.series(engine.stored, dt)
        figures["injection"] = engine.forcing.injection(engine.forced_velocity(), figures["energy"])
        return figures | self._particles.series()

    def profiles(self) -> Mapping[str, Profile]:
        """Return spectra, structure functions, averages over time of both, and densities. Collective."""
        engine = self._engine
        profiles = self._diagnostics.profiles(engine.stored)
        dt = engine.last_dt if np.isfinite(engine.last_dt) else 0.0
        before = Moment(engine.step_index - 1, engine.time - dt)
        self._averages.add(before, Moment(engine.step_index, engine.time), profiles)
        return profiles | self._averages.profiles(profiles) | self._particles.profiles()

    def locate_nonfinite(self) -> str | None:
        """Return which field and mode is not finite, in words, or None. Collective."""
        return self._diagnostics.locate_nonfinite(self._engine.fields)

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        grid, dtype = self._grid, self._engine.transform.real
        return [Variable(name, dtype, grid.shape, grid.offset, grid.block) for name in names]

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        engine, grid = self._engine, self._grid
        fields = {}
        for name in names:
            values = output_field(name, self._context.comm, engine.stored, engine.passes, engine.flow)
            fields[name] = DistributedArray(name, grid.shape, grid.offset, values)
        return fields

    def settable(self) -> tuple[str, ...]:
        return state_names(len(self._case.scalar))

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Replace velocity or scalars by their retained modes; the divergence is projected out. Collective."""
        engine, comm = self._engine, self._context.comm
        compile_on_nodes(comm, lambda: compile_kernels(specialise([project], engine.transform.complex)))
        modes, lines = engine.fields, engine.modes.lines
        for row, name in enumerate(self.settable()):
            if name in fields:
                engine.transform.to_spectral(fields[name][np.newaxis], out=modes[row : row + 1])
        kx, kz, unit_y = engine.modes.kx, engine.modes.kz, engine.modes.unit[1]
        project(lines.most, kx, kz, unit_y, engine.modes.line_weight, *modes[:3], np.zeros(3))
        engine.commit()
        self._particles.forget_samples()

    def recorders(self, case: TurbulenceCase, comm: MPI.Comm) -> list[Recorder]:
        return [
            *super().recorders(case, comm),
            *profiles_recorder(
                self, case.output.spectra, case.output.interval("spectra_every"), comm, case.output.format
            ),
            *self._particles.recorders(),
        ]

    def image_fields(self) -> tuple[str, ...]:
        return output_names(len(self._case.scalar))

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        grid = self._case.grid
        return (0.0, 0.0, 0.0), tuple(length / n for length, n in zip(grid.lengths, grid.shape))

    def close(self) -> None:
        """Free the communicators and the shared memory of the transforms, where there are several ranks."""
        if self._context.comm.size > 1:
            self._engine.transform.free()

    def work(self) -> Work:
        return least_work(self._case, self._process_grid)

    def describe(self) -> dict[str, Any]:
        """Return decomposition, methods, memory, and the fraction of lines that truncation saves. Collective."""
        engine = self._engine
        memory = {**engine.memory(), **self._particles.memory()}
        return {
            "process_grid": list(self._process_grid),
            "block": list(self._grid.block),
            "method": "; ".join(f"{name} {words}" for name, words in engine.describe().items()),
            "trials": {name: asdict(trial) for name, trial in engine.transform.trials().items()},
            "field_bytes_per_rank": sum(memory.values()),
            "memory": memory,
            "lines_left_out": self._grid.saved_lines,
        }

    def figures(self, step: StepTimes) -> Mapping[str, Metric]:
        """Return the figures of the GESTS paper: N^3/time, and of each exchange bandwidth (Eq. 13) and message size.

        Also returned is the fraction of lines that truncation leaves out of exchanges and transforms. A bandwidth's
        time is that from the start of an exchange to its end, on the slowest rank, averaged over all steps but the
        first. Where work is done meanwhile ("ialltoallv") it is a lower bound of the network's bandwidth. Collective.
        """
        comm, engine = self._context.comm, self._engine
        points = int(np.prod(self._case.grid.shape, dtype=np.int64))
        figures = {
            "figure_of_merit": Metric(points / step.total, "points/s"),
            "lines_left_out": Metric(self._grid.saved_lines),
        }
        for name, (sent, message) in engine.exchanged().items():
            sent, message = comm.allreduce(sent) / comm.size, comm.allreduce(message) / comm.size
            seconds = engine.under_way[name]
            if self._steps > 1:
                first = self._exchange_seconds_of_first_step.get(name, 0.0)
                seconds = (seconds - first) / (self._steps - 1)
            seconds = float(allreduce_max(comm, seconds))
            if message and seconds > 0:
                figures[f"{name}_bandwidth"] = Metric(sent / seconds, "B/s")
                figures[f"{name}_message"] = Metric(message, "B")
        return figures | self._particles.speed(self._steps)


def create_model() -> Turbulence:
    """Return a model to set up and run."""
    return Turbulence()
