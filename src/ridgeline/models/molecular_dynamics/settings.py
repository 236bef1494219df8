"""Settings of the molecular dynamics model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase, Plain
from ridgeline.config.expressions import ExpressionError
from ridgeline.config.fields import (
    MOST_POINTS,
    ON,
    Checked,
    Count,
    FormulaText,
    Integer,
    Number,
    PathText,
    Problem,
    Triple,
    Truth,
    setting,
    toml,
)
from ridgeline.config.formula_samples import places_in_box, undefined_at
from ridgeline.config.intervals import recurring, time_interval, wall_interval
from ridgeline.config.size_law import GlobalGrid
from ridgeline.models.molecular_dynamics.external_potential import EDGES, NAMES, ExternalPotential
from ridgeline.models.molecular_dynamics.problem import ATOMS_PER_CELL, Langevin, Melt, Method

Variable = Literal["position", "velocity", "force", "image"]


class RunSection(sections.RunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["molecular_dynamics"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    seed: sections.Seed = sections.seed_setting(
        "Seed of the thermostat's noise. The same seed gives the same noise on any number of ranks and threads.",
        {"thermostat.kind": "langevin"},
    )
    precision: Literal["float64", "float32"] = setting(
        "float64",
        "Floating-point type of the distances and forces of pairs. Positions, velocities and sums of forces are "
        "always float64, or as accurate as float64.",
    )
    device: Literal["cpu"] = setting(
        "cpu", "Device on which the kernels run. This model has no kernels for GPUs."
    )


class GridSection(sections.AnyGridSection):
    """The periodic box: a face-centred cubic lattice of four atoms a cell, cut into boxes of ranks."""

    EXTENT: ClassVar[str] = "cells"

    cells: Triple = setting(
        ...,
        "Number of lattice cells in each direction, [nz, ny, nx]. A cell has four atoms.",
        unit="cells",
        rule="three integers >= 1 as [nz, ny, nx]",
    )
    process_grid: Literal["auto"] | Triple = setting(
        "auto",
        "Number of ranks in each direction, [pz, py, px]; the product must be the number of ranks. "
        '"auto" chooses the process grid with the fewest ghosts.',
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

    density: Number = setting(
        0.8442, "Number of atoms per volume (LAMMPS: lattice fcc).", unit="1/sigma^3", gt=0, le=8
    )
    cutoff: Number = setting(
        2.5, "Cut-off of the potential (LAMMPS: pair_style lj/cut).", unit="sigma", gt=0, le=100
    )
    dt: Number = setting(0.005, "Time step (LAMMPS: timestep).", unit="sigma sqrt(m/epsilon)", gt=0)
    external_potential: FormulaText | None = setting(
        None,
        "Potential of each atom beside those of pairs, a formula of x, y, z, t and of the lengths of the box Lx, Ly, "
        "Lz. The force is its negative gradient, by symbolic derivatives.",
        unit="epsilon",
        rule="a formula of x, y, z, t, Lx, Ly, Lz",
    )

    def problems(self) -> Iterator[Problem]:
        if self.external_potential is None:
            return
        text = self.external_potential
        try:
            ExternalPotential.of(text)
        except ExpressionError as error:
            names = ", ".join(NAMES)
            yield Problem("external_potential", f"a formula of {names}. In {toml(text.strip())}, {error}")


class NeighbourSection(Checked):
    """Lists of neighbours (LAMMPS: neighbor, neigh_modify, newton)."""

    skin: Number = setting(
        0.3,
        "Distance by which the lists reach beyond the cut-off (LAMMPS: neighbor).",
        unit="sigma",
        gt=0,
        le=100,
    )
    every: Count = setting(
        20,
        "Number of steps between rebuilds of the lists, or between checks of whether a rebuild is due (LAMMPS: "
        "neigh_modify every).",
        unit="steps",
    )
    check: Truth = setting(
        False,
        "Whether the lists are rebuilt only if an atom has moved by more than half of the skin (LAMMPS: neigh_modify "
        "check yes). If false, as in bench/in.lj, they are rebuilt after every such interval, and an atom that has "
        "moved further in it may have missed a neighbour.",
    )
    newton: Truth = setting(
        False,
        "Whether the force of a pair is computed once and added to both atoms by Newton's third law (LAMMPS: "
        "newton). Vector instructions are faster without it. The forces are the same, bit for bit.",
    )
    overlap: Truth = setting(
        True,
        "Whether the positions of ghosts are exchanged while the forces on atoms that do not need them are computed. "
        "If false, the exchange finishes first, for comparison. The results are the same, bit for bit.",
    )


class ThermostatSection(Checked):
    """The thermostat (LAMMPS: fix nve alone, or with fix langevin). run.seed is the seed of its noise."""

    kind: Literal["none", "langevin"] = setting(
        "none",
        'Thermostat: "none" (constant energy) or "langevin" (friction and noise, integrated exactly for any time '
        "step).",
    )
    temperature: Number = setting(
        1.0,
        "Temperature that the thermostat maintains.",
        unit="epsilon/k_B",
        ge=0,
        needs={"kind": "langevin"},
    )
    damping: Number = setting(
        1.0,
        "Time in which friction reduces a velocity to 1/e of its value.",
        unit="sigma sqrt(m/epsilon)",
        gt=0,
        needs={"kind": "langevin"},
    )


class InitialSection(Checked):
    """The state of step 0: the lattice, and the velocities of `velocity all create T seed loop geom`."""

    temperature: Number = setting(1.44, "Temperature of the initial velocities.", unit="epsilon/k_B", ge=0)
    seed: Integer = setting(
        87287,
        "Seed of the initial velocities.",
        ge=1,
        needs={"temperature": ON},
    )


class OutputSection(sections.OutputSection):
    """The data set and the time series. Paths are relative to the directory in which the run is started."""

    path: PathText = setting(
        "molecular_dynamics.bp",
        "Data set to which the fields are written.",
        rule="a path",
        min_length=1,
    )
    variables: tuple[Variable, ...] = setting(
        ("position", "velocity"),
        "Fields of the atoms to write, as arrays [atoms, 3] in the order of the atoms' identities.",
        rule='a list of "position", "velocity", "force" and "image", each at most once',
        min_length=1,
    )

    spectra: PathText = setting(
        "radial.bp",
        "Data set to which the radial distribution function is written.",
        rule="a path",
        min_length=1,
        needs=recurring("spectra_every"),
    )
    spectra_every: Integer = setting(
        0,
        "Number of steps between outputs of the radial distribution function g(r), beginning with step 0; 0 writes "
        "none. It ends at model.cutoff.",
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
            yield Problem("variables", "a list that contains each name at most once")


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
    LATER: ClassVar[Mapping[str, Plain]] = {"model.external_potential": "none"}
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

    @property
    def external(self) -> ExternalPotential | None:
        """The external potential, None if there is none."""
        text = self.model.external_potential
        return None if text is None else ExternalPotential.of(text)

    def doubts(self) -> Iterator[tuple[str, str]]:
        if self.external is not None:
            for words in self.external.jumps(np.array(self.melt.lengths)):
                yield "model.external_potential", words

    def _problems_of_potential(self) -> Iterator[Problem]:
        """Yield a problem if the external potential or its slope is not finite somewhere in the box at time 0."""
        if self.external is None:
            return
        lengths = self.melt.lengths
        places, edges = places_in_box(lengths[::-1]), dict(zip(EDGES, lengths))
        named = {"the formula": self.external.energy} | {
            f"its derivative by {axis}": slope for axis, slope in zip("xyz", self.external.slopes)
        }
        for what, formula in named.items():
            if found := undefined_at(formula, places, **edges):
                text = toml(self.external.energy.text)
                rule = f"finite in the whole box, with finite slopes. Of {text}, {what} is not: {found}"
                yield Problem("model.external_potential", rule)
                return

    def problems(self) -> Iterator[Problem]:
        yield from self._problems_of_potential()
        melt, fewest = self.melt, min(self.grid.cells)
        if self.method.mixed and self.neighbour.newton:
            yield Problem("neighbour.newton", 'false with run.precision = "float32"')
        if self.method.mixed and melt.reach <= fewest * melt.spacing < 2 * melt.reach:
            yield Problem(
                "grid.cells",
                f"at least {int(2 * melt.reach / melt.spacing) + 1} cells in each direction with run.precision = "
                f'"float32", because an atom interacts only with the nearest image of another atom',
            )
        if fewest * melt.spacing < melt.reach:
            yield Problem(
                "grid.cells",
                f"at least {int(melt.reach / melt.spacing) + 1} cells in each direction, because {fewest} cells are "
                f"{fewest * melt.spacing:.4g} sigma long, which is less than the cut-off plus the skin, "
                f"{melt.reach:g} sigma",
            )


CASE = MolecularDynamicsCase
