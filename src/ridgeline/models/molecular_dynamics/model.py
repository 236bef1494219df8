"""The molecular dynamics model: the parts of a run of the Lennard-Jones melt, as the time loop uses them.

The steps are those of `engine_cpu.CpuEngine`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.bp_attributes import periodic_box
from ridgeline.io.store import Variable
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.contract import Context, Metric, Model, Profile, Recorder, StepTimes, Work
from ridgeline.models.molecular_dynamics.diagnostics import Diagnostics
from ridgeline.models.molecular_dynamics.engine_cpu import FIELDS, CpuEngine
from ridgeline.models.molecular_dynamics.estimate import least_work, process_grid
from ridgeline.models.molecular_dynamics.initial import initial_velocities, lattice_places
from ridgeline.models.molecular_dynamics.recorders import layout, output_field
from ridgeline.models.molecular_dynamics.settings import MolecularDynamicsCase
from ridgeline.models.recorders import profiles_recorder
from ridgeline.models.time_steps import FixedSteps
from ridgeline.parallel.partition import DistributedArray
from ridgeline.particles.particles import POSITION, ParticleField

if TYPE_CHECKING:
    from mpi4py import MPI


class MolecularDynamics(Model):
    """A Lennard-Jones melt on this rank."""

    name: ClassVar[str] = "molecular_dynamics"
    points_name: ClassVar[str] = "atoms"
    phases: ClassVar[tuple[str, ...]] = ("pair", "neighbour", "exchange", "integrate")
    advice: str = "Try a smaller model.dt, model.density or initial.temperature."
    _case: MolecularDynamicsCase

    def setup(self, case: MolecularDynamicsCase, context: Context) -> None:
        """Decompose the box, and make an engine without atoms. Collective."""
        super().setup(case, context)
        self._grid = process_grid(case, context.comm.size)
        self._engine = CpuEngine(case.melt, self._grid, case.method, context, case.langevin, case.external)
        self._diagnostics = Diagnostics(context.comm, self._engine)
        self._steps = FixedSteps(case.model.dt)
        self._step, self._time = 0, 0.0
        self._read: dict[str, DistributedArray] | None = None

    def compile(self) -> None:
        compile_kernels(self._engine.kernels())

    def initialize(self) -> None:
        """Put the atoms on the lattice, with their velocities. Collective."""
        engine, ranges = self._engine, self._engine.ranges
        places = lattice_places(engine.melt, ranges.identities)
        velocities = initial_velocities(self._context.comm, engine.melt, places)
        position = engine.rounded(places.T)
        fields: dict[str, Any] = {
            POSITION: position,
            "held": position,
            "velocity": velocities.T,
            "image": np.zeros((3, ranges.n), np.int32),
        }
        engine.start(fields, 0, 0.0)
        self._step, self._time, self._read = 0, 0.0, None

    def state(self) -> Mapping[str, DistributedArray]:
        """Return positions, those at which lists were built, velocities and images, by identity. Collective."""
        fields = {POSITION: ParticleField(np.float64, 3), **FIELDS}
        ranges, particles = self._engine.ranges, self._engine.particles
        if not self._engine.started:
            self._read = ranges.arrays(fields)
            return self._read
        return {
            name: ranges.array(name, field, ranges.gather(particles, name)) for name, field in fields.items()
        }

    def restored(self, step: int, time: float) -> None:
        assert self._read is not None
        self._engine.start({name: array.local for name, array in self._read.items()}, step, time)
        self._step, self._time, self._read = step, time, None

    def step(self, most: int, until: float = math.inf) -> int:
        """Advance by one step. Collective where lists are rebuilt, otherwise between neighbours."""
        dt, time = self._steps.next(self._step, self._time, until)
        self._engine.advance(self._step, dt, time)
        self._step, self._time = self._step + 1, time
        return 1

    def time(self, step: int) -> float:
        return self._time

    def diagnostics(self) -> dict[str, float]:
        """Return the columns of LAMMPS' thermo output, and the momentum. Collective."""
        momentum = self._diagnostics.momentum()
        return {**self._diagnostics.row(), **{f"momentum_{c}": p for c, p in zip("xyz", momentum)}}

    def series(self) -> Mapping[str, float]:
        """Return the columns of LAMMPS' thermo output. Collective."""
        return self._diagnostics.row()

    def summary(self) -> Mapping[str, Metric]:
        """Return the columns of LAMMPS' thermo output with units. Collective."""
        units = {"Temp": "epsilon/k_B", "Press": "epsilon/sigma^3", "MSD": "sigma^2"}
        return {
            name: Metric(value, units.get(name, "epsilon")) for name, value in self._diagnostics.row().items()
        }

    def recorders(self, case: MolecularDynamicsCase, comm: MPI.Comm) -> list[Recorder]:
        """Return the recorders of every model and, if the settings ask for it, that of the radial distribution."""
        output = case.output
        return [
            *super().recorders(case, comm),
            *profiles_recorder(self, output.spectra, output.interval("spectra_every"), comm, output.format),
        ]

    def profiles(self) -> Mapping[str, Profile]:
        """Return the radial distribution function up to the cut-off. Collective."""
        places, g = self._diagnostics.radial()
        return {
            "r": Profile(places, ("r",), "sigma", "middle of the bin"),
            "radial_distribution": Profile(g, ("r",), "1", "density around an atom over the mean density"),
        }

    def locate_nonfinite(self) -> str | None:
        return self._diagnostics.locate_nonfinite()

    def work(self) -> Work:
        return least_work(self._engine.melt, self._grid, self._engine.external)

    def describe(self) -> dict[str, Any]:
        """Return decomposition, memory and method."""
        return {
            "process_grid": list(self._grid),
            "block": [n // p for n, p in zip(self._case.grid.cells, self._grid)],
            "atoms": self._engine.melt.atoms,
            "field_bytes_per_rank": self._engine.allocated(),
            "method": self._engine.method,
        }

    def figures(self, step: StepTimes) -> Mapping[str, Metric]:
        """Return the number of atoms that are advanced by a step in a second. No communication."""
        return {"figure_of_merit": Metric(self._engine.melt.atoms / step.total, "atom-steps/s")}

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        return [layout(self._engine.ranges, name) for name in names]

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        """Return fields of atoms in the order of identities. Collective."""
        return {name: output_field(self._engine.ranges, self._engine, name) for name in names}

    def settable(self) -> tuple[str, ...]:
        """Return positions, velocities and images; forces follow from positions."""
        return ("position", "velocity", "image")

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Replace positions, velocities or images of atoms. Lists and forces follow new positions. Collective."""
        engine = self._engine
        arrays = {name: engine.ranges.gather(engine.particles, name) for name in (POSITION, *FIELDS)}
        arrays |= {name: np.ascontiguousarray(values.T) for name, values in fields.items()}
        if "position" in fields:
            arrays[POSITION] = engine.rounded(arrays["position"])
            engine.boxes.wrap(arrays[POSITION], self._context.comm.rank, arrays["image"])
            arrays["held"] = arrays[POSITION]
        engine.start(arrays, self._step, self._time)

    def output_attributes(self) -> Mapping[str, Any]:
        """Return the edges of the periodic box, as coordinates are ordered, and the unit of time."""
        lengths = self._engine.lengths.tolist()
        return {"length": lengths, **periodic_box(lengths), "time/units": "sigma sqrt(m/epsilon)"}

    def point_places(self) -> str:
        return "position"


def create_model() -> MolecularDynamics:
    """Return a model to set up and run."""
    return MolecularDynamics()
