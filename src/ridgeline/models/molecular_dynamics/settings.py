"""Settings of the molecular dynamics model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase
from ridgeline.config.fields import (
    MOST_POINTS,
    ON,
    Checked,
    Count,
    Integer,
    Number,
    PathText,
    Problem,
    Triple,
    Truth,
    setting,
)
from ridgeline.config.intervals import recurring, time_interval, wall_interval
from ridgeline.config.size_law import GlobalGrid
from ridgeline.models.molecular_dynamics.problem import ATOMS_PER_CELL, Langevin, Melt, Method

Variable = Literal["position", "velocity", "force", "image"]


class RunSection(sections.RunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["molecular_dynamics"] = setting(..., "Model to run; `ridgeline explain` lists them.")
    seed: sections.Seed = sections.seed_setting(
        "Seed of the thermostat's noise, which is the same for any number of ranks and threads.",
        {"thermostat.kind": "langevin"},
    )
    precision: Literal["float64", "float32"] = setting(
        "float64",
        "Floating-point type of distances and forces of pairs. Positions, velocities and sums of forces are float64 "
        "or as exact in any case.",
    )
    device: Literal["cpu"] = setting("cpu", "Where the kernels run: this model has none for GPUs.")


class GridSection(sections.AnyGridSection):
    """The periodic box: a face-centred cubic lattice of four atoms a cell, cut into boxes of ranks."""

    EXTENT: ClassVar[str] = "cells"

    cells: Triple = setting(
        ..., "Lattice cells [nz, ny, nx].", unit="cells", rule="three integers >= 1 as [nz, ny, nx]"
    )
    process_grid: Literal["auto"] | Triple = setting(
        "auto",
        'Ranks in each direction, [pz, py, px], whose product is the number of ranks; "auto": the fewest ghosts.',
        unit="ranks",
        rule='"auto" or three integers >= 1 as [pz, py, px]',
    )

    def problems(self) -> Iterator[Problem]:
        nz, ny, nx = self.cells
        if ATOMS_PER_CELL * nz * ny * nx > min(MOST_POINTS, 2**40):
            yield Problem("cells", "three integers >= 1 whose product is at most 2^38")

    def points(self) -> tuple[int, int, int]:
        return self.cells


class ModelSection(Checked):
    """u(r) = 4 (r^-12 - r^-6) where r < cutoff, neither shifted nor corrected; velocity Verlet at constant energy.

    All values are in reduced units: of sigma, epsilon, the mass of an atom, and Boltzmann's constant. Defaults are
    LAMMPS' bench/in.lj.
    """

    density: Number = setting(0.8442, "Atoms per volume (LAMMPS: lattice fcc).", unit="1/sigma^3", gt=0, le=8)
    cutoff: Number = setting(2.5, "Cut-off of the potential (pair_style lj/cut).", unit="sigma", gt=0, le=100)
    dt: Number = setting(0.005, "Time step (timestep).", unit="sigma sqrt(m/epsilon)", gt=0)


class NeighbourSection(Checked):
    """Lists of neighbours (LAMMPS: neighbor, neigh_modify, newton)."""

    skin: Number = setting(
        0.3, "By how much lists reach beyond the cut-off (neighbor).", unit="sigma", gt=0, le=100
    )
    every: Count = setting(
        20, "Steps between rebuilds of the lists, or looks at whether one is due.", unit="steps"
    )
    check: Truth = setting(
        False,
        "Whether lists are rebuilt only if an atom has moved by more than half the skin (check yes). If false, as in "
        "bench/in.lj, they are always rebuilt, and an atom that was faster may have missed a neighbour.",
    )
    newton: Truth = setting(
        False,
        "Whether the force of a pair is computed once, and given to both atoms by Newton's third law. Vector "
        "instructions are faster without. Forces have the same bits.",
    )
    overlap: Truth = setting(
        True,
        "Whether positions of ghosts travel while forces on atoms that do not need them are computed; false waits "
        "for them, for comparison. Results have the same bits.",
    )


class ThermostatSection(Checked):
    """The thermostat (LAMMPS: fix nve alone, or with fix langevin). run.seed is the seed of its noise."""

    kind: Literal["none", "langevin"] = setting(
        "none", '"none": constant energy; "langevin": friction and noise, exact for any time step.'
    )
    temperature: Number = setting(
        1.0,
        "Temperature that is kept.",
        unit="epsilon",
        ge=0,
        needs={"kind": "langevin"},
    )
    damping: Number = setting(
        1.0,
        "Time in which friction takes a velocity to 1/e.",
        unit="sigma sqrt(m/epsilon)",
        gt=0,
        needs={"kind": "langevin"},
    )


class InitialSection(Checked):
    """The state of step 0: the lattice, and the velocities of `velocity all create T seed loop geom`."""

    temperature: Number = setting(1.44, "Temperature.", unit="epsilon", ge=0)
    seed: Integer = setting(
        87287,
        "Seed of the velocities.",
        ge=1,
        needs={"temperature": ON},
    )


class OutputSection(sections.OutputSection):
    """The data set and the time series. Paths are relative to the directory in which the run is started."""

    path: PathText = setting(
        "molecular_dynamics.bp", "ADIOS2 BP5 data set to write.", rule="a path", min_length=1
    )
    variables: tuple[Variable, ...] = setting(
        ("position", "velocity"),
        "Fields of atoms to write, [atoms, 3] in the order of identities.",
        rule='a list of "position", "velocity", "force" and "image", each at most once',
        min_length=1,
    )

    spectra: PathText = setting(
        "radial.bp",
        "ADIOS2 BP5 data set of the radial distribution function to write.",
        rule="a path",
        min_length=1,
        needs=recurring("spectra_every"),
    )
    spectra_every: Integer = setting(
        0,
        "Steps between radial distribution functions, step 0 included; 0 writes none.",
        unit="steps",
        ge=0,
    )
    spectra_every_time: Number | None = time_interval("radial distribution functions")
    spectra_every_wall: Number | None = wall_interval("radial distribution functions")

    def written(self) -> dict[str, str]:
        return super().written() | (
            {"output.spectra": self.spectra} if self.interval("spectra_every") else {}
        )

    def problems(self) -> Iterator[Problem]:
        if len(set(self.variables)) < len(self.variables):
            yield Problem("variables", "each name at most once")


class MolecularDynamicsCase(AnyCase):
    """Settings of one run of the molecular dynamics model."""

    PHYSICS: ClassVar[tuple[str, ...]] = (
        "run.model",
        "run.precision",
        "run.seed",
        "grid.cells",
        "model",
        "neighbour",
        "thermostat",
        "initial",
    )
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = ("neighbour.overlap", "neighbour.newton")
    SIZE_LAW = GlobalGrid("grid.cells")

    run: RunSection
    grid: GridSection
    model: ModelSection = Field(default_factory=ModelSection)
    neighbour: NeighbourSection = Field(default_factory=NeighbourSection)
    thermostat: ThermostatSection = Field(default_factory=ThermostatSection)
    initial: InitialSection = Field(default_factory=InitialSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def step_length(self) -> float:
        return self.model.dt

    @property
    def melt(self) -> Melt:
        """The melt that is solved, in plain values."""
        return Melt(
            self.grid.cells,
            self.model.density,
            self.initial.temperature,
            self.initial.seed,
            self.model.cutoff,
            self.neighbour.skin,
            self.model.dt,
        )

    @property
    def method(self) -> Method:
        """How forces are computed."""
        lists = self.neighbour
        mixed = self.run.precision == "float32"
        return Method(lists.every, lists.check, lists.newton, mixed, lists.overlap)

    @property
    def langevin(self) -> Langevin | None:
        """The thermostat, None at constant energy."""
        chosen = self.thermostat
        if chosen.kind == "none":
            return None
        return Langevin(chosen.temperature, chosen.damping, self.run.seed)

    def problems(self) -> Iterator[Problem]:
        melt, fewest = self.melt, min(self.grid.cells)
        if self.method.mixed and self.neighbour.newton:
            yield Problem("neighbour.newton", 'false with run.precision = "float32"')
        if self.method.mixed and melt.reach <= fewest * melt.spacing < 2 * melt.reach:
            yield Problem(
                "grid.cells",
                f"at least {int(2 * melt.reach / melt.spacing) + 1} cells in each direction with run.precision = "
                f'"float32": an atom meets the nearest image of another alone',
            )
        if fewest * melt.spacing < melt.reach:
            yield Problem(
                "grid.cells",
                f"at least {int(melt.reach / melt.spacing) + 1} cells in each direction: {fewest} are "
                f"{fewest * melt.spacing:.4g} sigma, less than cut-off and skin, {melt.reach:g}",
            )


CASE = MolecularDynamicsCase
