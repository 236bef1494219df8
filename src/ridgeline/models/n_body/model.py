"""The N-body model: connects the engine, diagnostics and profiles to the time loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.transform import FourierTransform
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.io.bp_attributes import periodic_box
from ridgeline.io.store import Variable
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.contract import Context, Metric, Model, Profile, Recorder, StepTimes, Work
from ridgeline.models.n_body.diagnostics import KM_PER_S, Diagnostics, EnergyBudget
from ridgeline.models.n_body.engine_cpu import FIELDS, MOMENTUM, PHASES, CpuEngine
from ridgeline.models.n_body.estimate import DEALIAS, least_work, process_grid, short_range_law
from ridgeline.models.n_body.halos import kernels_of_halos
from ridgeline.models.n_body.initial import InitialParticles, lattice_particles, pancake
from ridgeline.models.n_body.recorders import FIELDS as OUTPUTS
from ridgeline.models.n_body.recorders import layout, output_field
from ridgeline.models.n_body.settings import NBodyCase
from ridgeline.models.n_body.structure import Structure
from ridgeline.models.recorders import profiles_recorder
from ridgeline.models.time_steps import next_step
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.partition import DistributedArray
from ridgeline.particles.particles import POSITION, ParticleField

if TYPE_CHECKING:
    from mpi4py import MPI

BUDGET = "energy_budget"


class NBody(Model):
    """Gravity of particles in an expanding universe on this rank."""

    name: ClassVar[str] = "n_body"
    time_name: ClassVar[str] = "scale factor"
    points_name: ClassVar[str] = "particles"
    phases: ClassVar[tuple[str, ...]] = PHASES
    exchanges: ClassVar[tuple[str, ...]] = ("migrate", "exchange")
    advice: str = "Try a larger model.steps_to_today, model.substeps or model.softening."
    _case: NBodyCase

    def setup(self, case: NBodyCase, context: Context) -> None:
        """Decompose the mesh and the box, compile the kernels that planning runs, allocate and plan. Collective."""
        super().setup(case, context)
        comm = context.comm
        self._process_grid = process_grid(case, comm.size)
        self._grid = PencilGrid(case.grid.shape, DEALIAS, self._process_grid, comm.rank)
        compile_on_nodes(comm, lambda: compile_kernels(CpuEngine.kernels(case.run.precision)))
        self._tuning = TransformTuning(
            method=case.model.transpose.method, threads=context.threads, effort=case.model.fft.effort
        )
        self._engine = CpuEngine(case.gravity, self._grid, case.run.precision, self._tuning, context)
        self._diagnostics = Diagnostics(comm, self._engine)
        self._structure = Structure(comm, self._engine, case)
        self._schedule = case.schedule
        self._budget = EnergyBudget()
        self._step, self._a = 0, self._schedule.scale_factor(0)
        self._loaded: dict[str, DistributedArray] | None = None

    def compile(self) -> None:
        """Compile the kernels of the initial transforms and of halos, or load them from the cache."""
        compile_kernels(CpuEngine.kernels(np.float64))
        if self._case.output.interval("spectra_every") and self._case.analysis.halos:
            compile_kernels(kernels_of_halos())

    def initialize(self) -> None:
        """Place the particles on their lattice and displace them. Collective."""
        position, momentum, identity = self._lattice()
        # Half a cell away from the points of the mesh, at which the weights of clouds have a kink.
        self._engine.start_anywhere(position + 0.5 * self._case.gravity.cell, momentum, identity)
        self._step, self._a, self._loaded = 0, self._schedule.scale_factor(0), None
        self._begin_budget()

    def _begin_budget(self) -> None:
        """Start the energy equation with the present state. Collective."""
        a = self._a
        self._budget.begin(a, self._diagnostics.kinetic(a), self._potential())

    def _lattice(self) -> InitialParticles:
        """Return positions, momenta and identities of the particles of this rank's lattice points. Collective."""
        case, comm = self._case, self._context.comm
        cosmology, edges = case.universe, (case.grid.length,) * 3
        lattice = PencilGrid((case.grid.lattice,) * 3, DEALIAS, self._process_grid, comm.rank)
        if case.initial.kind == "pancake":
            return pancake(lattice, edges, cosmology, case.begin, 1 / (1 + case.initial.collapse))
        transform = FourierTransform(
            lattice, edges, comm, np.float64, self._tuning, from_lines=1, from_points=1, to_lines=1
        )
        second_order = case.initial.order == 2
        particles = lattice_particles(
            transform, cosmology, case.linear_spectrum(), case.begin, case.run.seed, second_order
        )
        transform.free()
        return particles

    def _potential(self) -> float:
        """Return the potential energy. Collective."""
        return self._diagnostics.potential(self._a)

    def state(self) -> Mapping[str, DistributedArray]:
        """Return positions and momenta by identity, and the terms of the energy equation. Collective."""
        fields = {POSITION: ParticleField(np.float64, 3), **FIELDS}
        ranges, particles = self._engine.ranges, self._engine.particles
        terms = self._budget.terms if self._context.comm.rank == 0 else self._budget.terms[:0]
        budget = {BUDGET: DistributedArray(BUDGET, (4,), (0,), terms)}
        if not self._engine.started:
            self._loaded = {**ranges.arrays(fields), **budget}
            return self._loaded
        arrays = {
            name: ranges.array(name, field, ranges.gather(particles, name)) for name, field in fields.items()
        }
        return {**arrays, **budget}

    def restored(self, step: int, time: float) -> None:
        """Continue from `step` with the values that were read into the arrays of `state`. Collective."""
        assert self._loaded is not None
        fields = {name: array.local for name, array in self._loaded.items() if name != BUDGET}
        self._budget.terms = self._context.comm.bcast(self._budget.terms, 0)
        self._engine.start(fields)
        self._step, self._a, self._loaded = step, time, None

    def step(self, most: int, until: float = math.inf) -> int:
        """Advance by one step. Collective."""
        schedule, before = self._schedule, self._a
        place = schedule.place(self._step, before)
        end = schedule.steps_at(until) if until < math.inf else math.inf
        length, after = next_step(place, 1.0, end)
        self._engine.advance(schedule, self._step, place, length)
        self._step, self._a = self._step + 1, until if after == end else schedule.scale_factor(after)
        with self._context.regions("integrate"):
            self._budget.add(self._a - before, self._diagnostics.kinetic(self._a))
        return 1

    def time(self, step: int) -> float:
        """Return the scale factor."""
        return self._a

    def diagnostics(self) -> dict[str, float]:
        """Return energies, the residual of the energy equation, and the mean momentum. Collective."""
        a = self._a
        kinetic, potential = self._diagnostics.kinetic(a), self._potential()
        momentum = self._diagnostics.momentum()
        return {
            "a": a,
            "redshift": 1 / a - 1,
            "kinetic": kinetic,
            "potential": potential,
            "layzer_irvine": self._budget.residual(a, kinetic, potential),
            **{f"momentum_{c}": p for c, p in zip("xyz", momentum)},
        }

    def summary(self) -> Mapping[str, Metric]:
        """Return the redshift, energies and the residual of the energy equation. Collective."""
        units = {"kinetic": "(100 km/s)^2", "potential": "(100 km/s)^2"}
        names = ("redshift", "kinetic", "potential", "layzer_irvine")
        values = self.diagnostics()
        return {name: Metric(values[name], units.get(name, "")) for name in names}

    def recorders(self, case: NBodyCase, comm: MPI.Comm) -> list[Recorder]:
        """Add the recorder of profiles to those of every model."""
        output = case.output
        return [
            *super().recorders(case, comm),
            *profiles_recorder(self, output.spectra, output.interval("spectra_every"), comm, output.format),
        ]

    def profiles(self) -> Mapping[str, Profile]:
        """Return the power spectrum, the mass function of halos and a slice of density. Collective."""
        return self._structure.profiles(self._a)

    def locate_nonfinite(self) -> str | None:
        return self._diagnostics.locate_nonfinite()

    def close(self) -> None:
        """Free the communicators and the shared memory of the transforms. Collective."""
        if self._context.comm.size > 1:
            self._engine.mesh.transform.free()

    def work(self) -> Work:
        return least_work(self._case, self._process_grid)

    def describe(self) -> dict[str, Any]:
        """Return the decomposition, memory and methods. Collective."""
        transform, memory = self._engine.mesh.transform, self._engine.memory()
        law = short_range_law(self._case)
        near = "forces of the mesh only" if law is None else f"direct forces within {law.radius:g} cells"
        methods = "; ".join(f"{name} {method}" for name, method in transform.describe().items())
        return {
            "process_grid": list(self._process_grid),
            "block": list(self._grid.block),
            "particles": self._case.gravity.n_global,
            "method": f"{near}, {self._case.substeps} substeps; {methods}",
            "matching_error": 0.0 if law is None else law.error,
            "trials": {name: asdict(trial) for name, trial in transform.trials().items()},
            "field_bytes_per_rank": sum(memory.values()),
            "memory": memory,
        }

    def figures(self, step: StepTimes) -> Mapping[str, Metric]:
        """Return the particles advanced by a substep per second, in total and in each phase. Local."""
        pushed = self._case.gravity.n_global * self._case.substeps
        rates = {"figure_of_merit": Metric(pushed / step.total, "particle-substeps/s")}
        for name in PHASES:
            if step.phases.get(name, 0.0) > 0:
                rates[f"{name.replace(' ', '_')}_rate"] = Metric(
                    pushed / step.phases[name], "particle-substeps/s"
                )
        return rates

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        """Return shapes, dtypes and this rank's blocks of outputs in the order of identities."""
        return [layout(self._engine.ranges, name) for name in names]

    def output_attributes(self) -> Mapping[str, Any]:
        """Return the edges of the periodic box, in Mpc/h."""
        return periodic_box([self._engine.length] * 3)

    def point_places(self) -> str:
        """Name the output field with the positions of particles, for ParaView."""
        return POSITION

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        return {name: output_field(self._engine, name, self._a) for name in names}

    def settable(self) -> tuple[str, ...]:
        return tuple(OUTPUTS)

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Replace positions or velocities, recompute the forces and restart the energy equation. Collective."""
        engine = self._engine
        state = {name: engine.ranges.gather(engine.particles, name) for name in (POSITION, MOMENTUM)}
        if "position" in fields:
            state[POSITION] = engine.rounded(fields["position"].T)
        if "velocity" in fields:
            state[MOMENTUM] = np.ascontiguousarray(fields["velocity"].T) * (self._a / KM_PER_S)
        engine.start(state)
        self._begin_budget()


def create_model() -> NBody:
    """Return a model to set up and run."""
    return NBody()
