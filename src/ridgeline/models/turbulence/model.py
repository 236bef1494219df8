"""The turbulence model: decomposes, owns the engine that holds the modes, and says what the time loop asks.

The arithmetic is in `engine_cpu` and `engine_cuda`; initial states, forcing, diagnostics and checkpoints have files
of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.pencil import PencilGrid
from ridgeline.fourier.rows import RowOperation
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.models.contract import (
    Context,
    DistributedArray,
    Figure,
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
from ridgeline.models.turbulence.fluid_particles.along_paths import FirstMet
from ridgeline.models.turbulence.fluid_particles.fields import MET
from ridgeline.models.turbulence.fluid_particles.interpolation import kernels_of_points
from ridgeline.models.turbulence.fluid_particles.lagrangian import (
    acceleration_density,
    lagrangian_figures,
    sampled_figures,
)
from ridgeline.models.turbulence.fluid_particles.line_factors import displacement
from ridgeline.models.turbulence.fluid_particles.outputs import PresentFlow, particle_recorder
from ridgeline.models.turbulence.fluid_particles.samples import ParticleSamples
from ridgeline.models.turbulence.fluid_particles.tracers import PARTS, Tracers
from ridgeline.models.turbulence.forcing import make_forcing
from ridgeline.models.turbulence.initial import set_initial_modes
from ridgeline.models.turbulence.problem import COLUMNS, FlowParameters
from ridgeline.models.turbulence.recorders import output_field, output_names, state_names
from ridgeline.models.turbulence.restart import SpectralState, kernels_of_state
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.models.turbulence.solenoidal import project
from ridgeline.models.turbulence.statistics.averages import TimeAverages
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.errors import DivergedError

if TYPE_CHECKING:
    from mpi4py import MPI


class Turbulence(Model):
    """A simulation of turbulence in a periodic box on this rank."""

    name: ClassVar[str] = "turbulence"
    phases: ClassVar[tuple[str, ...]] = COLUMNS[:-1]
    exchanges: ClassVar[tuple[str, ...]] = ("row all-to-all", "column all-to-all")
    advice: ClassVar[str] = 'try a smaller model.dt or model.courant, a finer grid, or precision = "float64"'
    _case: TurbulenceCase

    def setup(self, case: TurbulenceCase, context: Context) -> None:
        """Decompose the grid, compile what planning runs, allocate fields and plan. Collective."""
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
        )
        engine = self._engine = make_engine(case, context, self._grid, flow)
        engine.forcing = make_forcing(case, engine.modes, comm)
        self._diagnostics = Diagnostics(
            comm, engine.passes, flow.viscosity, scalar_parameters(flow), flow.waves
        )
        self._state = SpectralState(
            self._grid, case.grid.lengths, comm, engine.transform.complex, len(case.scalar),
            engine.workspace,
        )  # fmt: skip
        self._restoring: Mapping[str, NDArray[np.float64]] = {}
        begin, every = case.output.average_from, case.output.spectra_every
        numbers = self._diagnostics.averaged_numbers()
        self._averages = None if begin is None or not every else TimeAverages(begin, every, numbers)
        self._tracers: Tracers | None = None
        if case.particles.count:
            self._make_tracers(case)
        self._steps = 0
        self._under_way_first: Mapping[str, float] = {}

    def _make_tracers(self, case: TurbulenceCase) -> None:
        comm, engine = self._context.comm, self._engine
        in_turn_per_node(comm, lambda: compile_kernels(kernels_of_points(case.run.precision)))
        self._tracers = Tracers(case.particles, case.run.seed, engine.transform, comm)
        self._samples = ParticleSamples(self._tracers, engine.transform, comm, case.model.viscosity)
        self._first_met = FirstMet(self._tracers)
        if case.model.scheme != "rk2":
            engine.keep_stages()
        self.phases = (*type(self).phases, "particles")  # type: ignore[misc]

    def compile(self) -> None:
        """Compile, or load from the cache, the kernels of diagnostics, checkpoints and initial states."""
        self._engine.compile()
        dtype = self._engine.transform.complex
        wanted = [*kernels_of_diagnostics(dtype), *kernels_of_state(dtype)]
        if self._case.initial.kind == "file":
            wanted += initial_from_file.kernels_of_files(dtype)
        compile_kernels(wanted)

    def initialize(self) -> None:
        """Set the initial state, mode by mode or from a file. Collective."""
        engine, comm = self._engine, self._context.comm
        set_initial_modes(
            engine.fields, self._case, engine.modes, self._grid, engine.transform, comm, engine.forcing
        )
        engine.commit()
        engine.forcing.start(engine.fields)
        engine.time, engine.step_index = 0.0, 0
        if self._averages is not None:
            self._averages.forget()
        if self._tracers is not None:
            self._samples.forget()
            self._tracers.start(engine.fields, engine.next_shift)
            self._first_met.take(self._samples.sample(tuple(MET), engine.fields, engine.forcing))

    def state(self) -> Mapping[str, DistributedArray]:
        """Return the modes, without what continuity gives, and what forcing and averages keep. Collective."""
        fields = self._state.pack(self._engine.fields)
        self._engine.commit()  # packing sets u_y anew
        kept = dict(self._engine.forcing.state())
        if self._averages is not None:
            kept |= self._averages.state()
        self._restoring = {name: np.array(array) for name, array in kept.items()}
        particles: Mapping[str, DistributedArray] = {}
        if self._tracers is not None:
            particles = {**self._tracers.state(), **self._first_met.state()}
        small = {name: self._on_rank_0(name, array) for name, array in self._restoring.items()}
        return {**fields, **small, **particles}

    def _on_rank_0(self, name: str, array: NDArray[np.float64]) -> DistributedArray:
        """Return an array that all ranks have as one that rank 0 has."""
        here = array if self._context.comm.rank == 0 else array[:0]
        return DistributedArray(name, array.shape, (0,) * array.ndim, here)

    def restored(self, step: int, time: float) -> None:
        """Continue from what was read into the arrays of `state`. Collective."""
        engine, comm = self._engine, self._context.comm
        self._state.unpack(engine.fields)
        engine.commit()
        self._state.release()
        small = {name: comm.bcast(array, 0) for name, array in self._restoring.items()}
        engine.forcing.restored(small)
        if self._averages is not None:
            self._averages.restored(small)
        self._restoring = {}
        engine.time, engine.step_index = time, step
        if self._tracers is not None:
            self._samples.forget()
            self._tracers.restored()

    def step(self, most: int) -> int:
        """Advance by one time step. Collective.

        Raises DivergedError if a fixed step has a Courant number (Eq. 8) above 1.
        """
        self._state.release()
        engine, model, regions = self._engine, self._case.model, self._context.regions
        before = engine.seconds
        velocity: RowOperation | None = None
        if self._tracers is not None and not engine.n_scalars:
            with regions("particles"):
                velocity = self._tracers.velocity_rows(engine.fields, engine.next_shift)
        engine.advance(model.dt, model.courant or 0.0, velocity)
        after = engine.seconds
        for name in COLUMNS[:-1]:
            regions.charge(name, after[name] - before[name])
        self._steps += 1
        if self._steps == 1:
            self._under_way_first = dict(engine.under_way)
        self._refuse_long_steps()
        if self._tracers is not None:
            self._samples.forget()
            with regions("particles"):
                stages = [(stage, displacement(engine.modes, shift)) for stage, shift in engine.stages()]
                self._tracers.advance(
                    engine.fields, stages, engine.last_dt, engine.step_index, engine.next_shift
                )
        return 1

    def _refuse_long_steps(self) -> None:
        engine = self._engine
        number = engine.last_dt * engine.last_courant_rate
        if self._case.model.dt is not None and number > 1.0:
            raise DivergedError(
                f"model.dt = {engine.last_dt:g} has the Courant number {number:.3g} at step {engine.step_index - 1}; "
                f"need at most 1, that is model.dt <= {1.0 / engine.last_courant_rate:.3g} there: set it smaller, or "
                f"model.courant instead"
            )

    def time(self, step: int) -> float:
        """Return the time of the present state."""
        return self._engine.time

    def diagnostics(self) -> dict[str, float]:
        """Return the figures that need no transform. Collective."""
        return self._diagnostics.mode_figures(self._engine.stored)

    def summary(self) -> Mapping[str, Figure]:
        """Return energy, scales, resolution and scalars. Collective."""
        return summarise(self.diagnostics())

    def series(self) -> Mapping[str, float]:
        """Return a row of the time series. Collective."""
        engine = self._engine
        dt = engine.last_dt if np.isfinite(engine.last_dt) else 0.0
        figures = self._diagnostics.series(engine.stored, dt)
        figures["injection"] = engine.forcing.injection(engine.forced_velocity(), figures["energy"])
        return figures | self._particle_figures()

    def _particle_figures(self) -> dict[str, float]:
        """Return the columns of the series that particles add. Collective."""
        if self._tracers is None:
            return {}
        comm, found = self._context.comm, self._sampled(("dissipation", "enstrophy", "acceleration"))
        n = self._tracers.ranges.n_global
        memory = self._first_met.correlations(comm, found)
        return {**lagrangian_figures(comm, self._tracers), **sampled_figures(comm, found, n), **memory}

    def _sampled(self, names: Sequence[str]) -> Mapping[str, NDArray[np.float64]]:
        """Sample those of the names that the settings ask for, at this rank's particles. Collective."""
        wanted = [name for name in names if name in self._case.particles.sample]
        return self._samples.sample(wanted, self._engine.fields, self._engine.forcing)

    def profiles(self) -> Mapping[str, Profile]:
        """Return spectra, structure functions and densities, and the averages of the first two. Collective."""
        engine = self._engine
        found = self._diagnostics.profiles(engine.stored)
        if self._averages is not None:
            self._averages.take(engine.step_index, engine.time, found)
            found |= self._averages.profiles(found)
        if self._tracers is not None and "acceleration" in self._case.particles.sample:
            n = self._tracers.ranges.n_global
            values = acceleration_density(
                self._context.comm, self._sampled(("acceleration",))["acceleration"], n
            )
            words = "probability density of a component, at particles"
            found["acceleration_density"] = Profile(values, ("deviation",), description=words)
        return found

    def locate_nonfinite(self) -> str | None:
        """Say which field and mode is not finite. Collective."""
        return self._diagnostics.locate_nonfinite(self._engine.fields)

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        """Return shapes, dtype and this rank's blocks of fields in physical space."""
        grid, dtype = self._grid, self._engine.transform.real
        return [Variable(name, dtype, grid.shape, grid.offset, grid.block) for name in names]

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        """Compute fields in physical space. Collective."""
        engine, grid = self._engine, self._grid
        return {
            name: DistributedArray(
                name, grid.shape, grid.offset,
                output_field(name, self._context.comm, engine.stored, engine.passes, engine.flow),
            )
            for name in names
        }  # fmt: skip

    def settable(self) -> tuple[str, ...]:
        """Name velocity and scalars."""
        return state_names(len(self._case.scalar))

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Replace velocity or scalars by the modes that are retained, without divergence. Collective."""
        engine, comm = self._engine, self._context.comm
        in_turn_per_node(comm, lambda: compile_kernels(specialise([project], engine.transform.complex)))
        modes, lines = engine.fields, engine.modes.lines
        for row, name in enumerate(self.settable()):
            if name in fields:
                engine.transform.to_spectral(fields[name][np.newaxis], out=modes[row : row + 1])
        kx, kz, unit_y = engine.modes.kx, engine.modes.kz, engine.modes.unit[1]
        project(lines.most, kx, kz, unit_y, engine.modes.line_weight, *modes[:3], np.zeros(3))
        engine.commit()
        if self._tracers is not None:
            self._samples.forget()

    def recorders(self, case: TurbulenceCase, comm: MPI.Comm) -> list[Recorder]:
        """Return those of every model, spectra, and particles, as the settings ask for them."""
        output, engine = case.output, self._engine
        found = [
            *super().recorders(case, comm),
            *profiles_recorder(self, output.spectra, output.spectra_every, comm),
        ]
        if self._tracers is not None and case.particles.every:

            def flow() -> PresentFlow:
                return PresentFlow(engine.time, engine.fields, engine.forcing)

            found.append(particle_recorder(comm, self._tracers, self._samples, flow))
        return found

    def image_fields(self) -> tuple[str, ...]:
        """Name the fields that are images: all."""
        return output_names(len(self._case.scalar))

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return origin and spacing of the grid, (z, y, x)."""
        grid = self._case.grid
        return (0.0, 0.0, 0.0), tuple(length / n for length, n in zip(grid.lengths, grid.shape))

    def close(self) -> None:
        """Give back the transforms' communicators and shared memory, where there are several ranks. Collective."""
        if self._context.comm.size > 1:
            self._engine.transform.free()

    def work(self) -> Work:
        """Return the least work of a step on all ranks."""
        return least_work(self._case, self._process_grid)

    def describe(self) -> dict[str, Any]:
        """Return decomposition, memory and methods; what left out lines save. Collective."""
        engine = self._engine
        memory = dict(engine.memory())
        if self._tracers is not None:
            memory |= self._tracers.memory()
            memory["particles"] += self._first_met.n_bytes()
        return {
            "process_grid": list(self._process_grid),
            "block": list(self._grid.block),
            "method": "; ".join(f"{name} {words}" for name, words in engine.describe().items()),
            "trials": {name: asdict(trial) for name, trial in engine.transform.trials().items()},
            "field_bytes_per_rank": sum(memory.values()),
            "memory": memory,
            "lines_left_out": self._grid.saved_lines,
        }

    def figures(self, step: StepTimes) -> Mapping[str, Figure]:
        """Return the paper's figures: N^3/time, bandwidth (Eq. 13) and message sizes of the exchanges. Collective.

        And the fraction of lines that truncation leaves out of exchanges and transforms. The bandwidth's time is that
        between the start of an exchange and its end, of the slowest rank, without the first step. Where work is done
        meanwhile ("ialltoallv") the bandwidth is a lower bound of the network's.
        """
        comm = self._context.comm
        points = int(np.prod(self._case.grid.shape, dtype=np.int64))
        found = {
            "figure_of_merit": Figure(points / step.total, "points/s"),
            "lines_left_out": Figure(self._grid.saved_lines),
        }
        for name, (held, message) in self._engine.exchanged().items():
            held, message = comm.allreduce(held) / comm.size, comm.allreduce(message) / comm.size
            seconds = float(allreduce_max(comm, self._seconds_under_way(name)))
            if message and seconds > 0:
                found[f"{name}_bandwidth"] = Figure(held / seconds, "B/s")
                found[f"{name}_message"] = Figure(message, "B")
        return found | self._particle_speed()

    def _particle_speed(self) -> dict[str, Figure]:
        """Return the seconds that a particle takes in a step, by what for: of the slowest rank. Collective."""
        if self._tracers is None or not self._steps:
            return {}
        comm, regions = self._context.comm, self._tracers.regions
        each = max(self._tracers.ranges.n_global / comm.size, 1.0) * self._steps
        seconds = allreduce_max(comm, [regions.seconds(name) for name in PARTS])
        return {
            f"particle_{name.replace(' ', '_')}": Figure(float(part) / each, "s")
            for name, part in zip(PARTS, seconds)
        }

    def _seconds_under_way(self, name: str) -> float:
        """Return how long an exchange was under way in a step: the mean, without the first if there were others."""
        total, first = self._engine.under_way[name], self._under_way_first.get(name, 0.0)
        return (total - first) / (self._steps - 1) if self._steps > 1 else total


def create_model() -> Turbulence:
    """Return a model to set up and run."""
    return Turbulence()
