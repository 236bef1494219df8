"""Settings of reaction-diffusion: species with their formulas, the grid, and the sides of the domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ridgeline.config import sections
from ridgeline.config.case import AnyCase
from ridgeline.config.check import did_you_mean
from ridgeline.config.expressions import VARIABLES, parse
from ridgeline.config.fields import (
    MOST,
    Checked,
    Count,
    FormulaText,
    Number,
    PathText,
    Problem,
    choices,
    setting,
)
from ridgeline.config.part_selection import UniformGrid
from ridgeline.config.parts import PartSection
from ridgeline.models.reaction_diffusion.formulas import (
    NAME_RULE,
    Species,
    System,
    fault_of,
    formula_problems,
    is_name,
    parse_species,
)
from ridgeline.models.reaction_diffusion.schemes import MOST_STAGES, SchemeStage, stages_needed, stages_of
from ridgeline.models.reaction_diffusion.sides import SIDES, SideFormula, fault_on_side
from ridgeline.models.reaction_diffusion.stability import (
    StableSteps,
    nonfinite_at_start,
    sampled_axes,
    stable_steps,
)

Formula = Annotated[FormulaText, Field(min_length=1, max_length=2000)]
Positive = Annotated[Number, Field(gt=0)]
MOST_SPECIES = 16


class RunSection(sections.SteadyRunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["reaction_diffusion"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    seed: sections.Seed = sections.seed_setting(
        "Seed of the random numbers, those of the noise and of `random` in initial formulas. The same seed gives the "
        "same numbers on any number of ranks and threads and with any process grid."
    )


class GridSection(sections.DividedGridSection):
    """The grid and how ranks share it, in blocks."""

    lengths: tuple[Positive, Positive, Positive] | None = setting(
        None,
        "Lengths of the domain, [Lz, Ly, Lx]. Cells then have the widths lengths/shape, and cell i is at "
        "(i + 1/2) h.",
        unit="length",
        rule="three numbers > 0 as [Lz, Ly, Lx]",
    )
    cell_size: Positive | tuple[Positive, Positive, Positive] | None = setting(
        None,
        "Width of a cell, or the widths [hz, hy, hx]. It is 1 if neither it nor grid.lengths is set.",
        unit="length",
        rule="a number > 0, or three of them as [hz, hy, hx]",
    )

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.lengths is not None and self.cell_size is not None:
            yield Problem("cell_size", "left out with grid.lengths, which determines it")

    def spacing(self) -> tuple[float, float, float]:
        """Return the widths of a cell in z, y and x."""
        if self.lengths is not None:
            z, y, x = (length / n for length, n in zip(self.lengths, self.shape, strict=True))
            return z, y, x
        size = 1.0 if self.cell_size is None else self.cell_size
        return size if isinstance(size, tuple) else (size, size, size)


class SpeciesSection(Checked):
    """A species: how it spreads, how it reacts, and how it starts."""

    name: Annotated[str, Field(max_length=50)] = setting(
        ...,
        "Name of the species, in formulas and in the data set.",
        rule=NAME_RULE,
    )
    diffusivity: Formula | tuple[Formula, Formula, Formula] = setting(
        "0",
        "Diffusivity D: a number, a formula of the parameters and of x, y and z, or three of them as [Dx, Dy, Dz]. "
        "The species spreads by div(D grad u); a formula is evaluated at the faces between cells.",
        unit="length^2/time",
        rule="a number, a formula, or three of them as [Dx, Dy, Dz]",
    )
    rate: Formula = setting(
        "0",
        "Rate at which the species is made: a formula of all species, the parameters, x, y, z and t, which is "
        "evaluated as it is written, in run.precision.",
        unit="concentration/time",
        rule="a number or a formula",
    )
    noise: Number = setting(
        0.0,
        "Amplitude of a random rate, uniform in [-1, 1), drawn anew in every cell and step.",
        unit="concentration/time",
        ge=0,
    )
    initial: Formula = setting(
        "0",
        "Initial state: a formula of x, y, z, the parameters and `random`, a random number that is uniform in "
        "[-1, 1) and drawn for each cell and species.",
        unit="concentration",
        rule="a number or a formula",
    )


class ModelSection(Checked):
    """du/dt = div(D grad u) + rate + noise for each of the species, with the usual 7-point Laplacian."""

    dt: Number = setting(
        ...,
        "Time step. `ridgeline check` states the largest stable one.",
        unit="time",
        gt=0,
    )
    scheme: Literal["euler", "rk2", "rkl"] = setting(
        "euler",
        'Scheme in time: "euler" (forward Euler), "rk2" (Heun\'s method, of second order) or "rkl" '
        "(Runge-Kutta-Legendre of first order, whose stages are as many as diffusion needs: for steps that are many "
        "times longer than forward Euler allows).",
    )
    parameters: dict[str, Number] = setting(
        {}, "Numbers that formulas name, such as { a = 1.0, b = 3.0 }.", rule="a table of names and numbers"
    )
    species: tuple[SpeciesSection, ...] = Field(default=())
    steps_per_sweep: Literal["auto", "rule"] | Count = setting(
        "auto",
        'Number of time steps that one pass over memory advances (temporal blocking). "auto" times some candidates '
        "before a run that takes much longer than these trials, and stores the fastest for later runs. Otherwise, "
        'and with "rule", a rule based on sizes decides. The results do not depend on it.',
        unit="steps",
        rule='"auto", "rule" or an integer >= 1',
    )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        names = [each.name for each in self.species]
        if not 1 <= len(names) <= MOST_SPECIES:
            yield Problem("species", f"1 to {MOST_SPECIES} tables [[model.species]]")
        bad = [name for name in self.parameters if not is_name(name) or name in names]
        if bad:
            yield Problem("parameters", f"without {bad[0]}: a parameter has {NAME_RULE}, or of a species")
        for i, name in enumerate(names):
            if not is_name(name) or name in names[:i]:
                yield Problem(f"species.{i}.name", f"{NAME_RULE}, and different from the others")
                return
        if not bad:
            yield from formula_problems(self.species, tuple(self.parameters))


class SideSection(Checked):
    """What lies beyond this side of the domain."""

    kind: Literal["periodic", "fixed", "flux", "no-flux"] = setting(
        "periodic",
        'Condition at the side: "periodic", "fixed" (the species have the values at the side), "flux" (D du/dn, into '
        'the domain, is the value) or "no-flux".',
    )
    values: dict[str, FormulaText] = setting(
        {},
        "Value of each species at the side, or its flux into the domain, such as "
        '{ X = 1.0, Y = "b/a + 0.1*sin(y - t)" }: numbers or formulas of x, y, z, t and the parameters. A flux that '
        "is left out is 0.",
        unit="concentration; concentration length/time",
        rule="a table of species and numbers or formulas",
        needs={"kind": ("fixed", "flux")},
    )


class BoundarySection(Checked):
    """The six sides of the domain. Both sides of a direction are periodic, or neither."""

    x_min: SideSection = Field(default_factory=SideSection)
    x_max: SideSection = Field(default_factory=SideSection)
    y_min: SideSection = Field(default_factory=SideSection)
    y_max: SideSection = Field(default_factory=SideSection)
    z_min: SideSection = Field(default_factory=SideSection)
    z_max: SideSection = Field(default_factory=SideSection)

    def periodic(self) -> tuple[bool, bool, bool]:
        """Return whether z, y and x are periodic."""
        z, y, x = (getattr(self, f"{axis}_min").kind == "periodic" for axis in "zyx")
        return z, y, x


class OutputSection(sections.FieldsOutputSection):
    """The data set. Paths are relative to the directory in which the run is started."""

    path: PathText = setting(
        "reaction_diffusion.bp",
        "Data set to which the fields are written.",
        rule="a path",
        min_length=1,
    )
    variables: tuple[str, ...] = setting(
        (),
        "Species to write; all of them if it is not set.",
        rule="a list of names of species, each at most once",
        max_length=MOST_SPECIES,
    )


class ReactionDiffusionCase(AnyCase):
    """Settings of one reaction-diffusion run."""

    PHYSICS: ClassVar[tuple[str, ...]] = (
        *AnyCase.PHYSICS,
        "grid.lengths",
        "grid.cell_size",
        "model",
        "boundary",
    )
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = ("model.steps_per_sweep",)
    START: ClassVar[tuple[str, ...]] = ("model.species.*.initial",)

    run: RunSection
    grid: GridSection
    model: ModelSection
    boundary: BoundarySection = Field(default_factory=BoundarySection)
    output: OutputSection = Field(default_factory=OutputSection)

    @model_validator(mode="before")
    @classmethod
    def _write_all_species(cls, data: Any) -> Any:
        """Let output.variables be all species where it is not set."""
        if not isinstance(data, Mapping):
            return data
        output, model = data.get("output", {}), data.get("model", {})
        species = model.get("species") if isinstance(model, Mapping) else None
        if not isinstance(output, Mapping) or "variables" in output or not isinstance(species, list | tuple):
            return data
        names = [each.get("name") for each in species if isinstance(each, Mapping)]
        return {**data, "output": {**output, "variables": [each for each in names if isinstance(each, str)]}}

    @cached_property
    def species(self) -> tuple[Species, ...]:
        """The species with their formulas parsed."""
        return parse_species(self.model.species, tuple(self.model.parameters))

    @cached_property
    def stable(self) -> StableSteps:
        """The time steps up to which the scheme is stable."""
        return stable_steps(self.system())

    def system(self) -> System:
        """Return the species on the grid of the case."""
        return System(
            self.species,
            self.model.parameters,
            self.grid.shape,
            self.grid.spacing(),
            self.boundary.periodic(),
            self.begin_time(),
        )

    def stages(self) -> tuple[SchemeStage, ...]:
        """Return the stages of a step."""
        m = self.model
        return stages_of(m.scheme, stages_needed(m.scheme, m.dt, self.stable.both), m.dt)

    def names(self) -> tuple[str, ...]:
        """Return the names of the species."""
        return tuple(each.name for each in self.model.species)

    def step_length(self) -> float:
        return self.model.dt

    def output_names(self) -> tuple[str, ...]:
        return self.names()

    def part_grid(self, part: PartSection) -> UniformGrid:
        h = self.grid.spacing()
        first = h[0] / 2, h[1] / 2, h[2] / 2
        return UniformGrid(self.grid.shape, first, h)

    @cached_property
    def sides(self) -> tuple[tuple[SideFormula, ...], ...]:
        """What each species has at the sides that are not periodic."""
        known = (*VARIABLES, *self.model.parameters)
        zero = parse("0", ())
        result = []
        for species in self.species:
            of_species = []
            for side in SIDES:
                section, axis = getattr(self.boundary, side), "zyx".index(side[0])
                if section.kind == "periodic":
                    continue
                text = section.values.get(species.name)
                width = self.grid.spacing()[axis]
                of_species.append(
                    SideFormula(
                        side,
                        section.kind == "fixed",
                        zero if text is None else parse(text, known),
                        species.diffusivity[2 - axis],
                        width,
                        self.grid.shape[axis] * width if side.endswith("max") else 0.0,
                    )
                )
            result.append(tuple(of_species))
        return tuple(result)

    def remarks(self) -> Iterator[str]:
        """Yield the time steps up to which the scheme is stable."""
        words = self.stable.words(self.model.dt)
        yield words + (f"; {len(self.stages())} stages" if self.model.scheme == "rkl" else "")

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield a warning for a time step that the rates make unstable at the initial state."""
        limit = self.stable.rates if self.model.scheme == "rkl" else self.stable.both
        if self.model.dt > limit:
            yield (
                "model.dt",
                f"{self.model.dt:g} is above {limit:.3g}, up to which a step is stable with the rates at "
                "the initial state.",
            )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules between sections that these values break."""
        names = self.names()
        if not set(self.output.variables) <= set(names) or len(set(self.output.variables)) < len(
            self.output.variables
        ):
            yield Problem("output.variables", f"a list of {choices(names)}, each at most once")
        noisy = [i for i, each in enumerate(self.model.species) if each.noise]
        if noisy and self.run.stop_when == "steady":
            yield Problem(
                f"model.species.{noisy[0]}.noise",
                '0 with run.stop_when = "steady": noise changes the state in every step',
            )
        for i in noisy:
            if self.model.dt * self.model.species[i].noise > MOST:
                yield Problem(f"model.species.{i}.noise", f"a number >= 0 with model.dt noise <= {MOST:g}")
        sides = list(self._side_problems())
        yield from sides
        if not sides:
            yield from self._number_problems()

    def _side_problems(self) -> Iterator[Problem]:
        names, parameters = self.names(), tuple(self.model.parameters)
        for axis in "xyz":
            low, high = (f"{axis}_{end}" for end in ("min", "max"))
            if (getattr(self.boundary, low).kind == "periodic") != (
                getattr(self.boundary, high).kind == "periodic"
            ):
                yield Problem(
                    f"boundary.{high}.kind", f'"periodic" exactly if boundary.{low}.kind is "periodic"'
                )
        for side in SIDES:
            section = getattr(self.boundary, side)
            key = f"boundary.{side}.values"
            for name, text in section.values.items():
                if name not in names:
                    known = ", ".join(names)
                    yield Problem(
                        key, f"a table of species, which are {known}{did_you_mean(name, names)[:-1]}"
                    )
                elif rule := fault_of(text, (*VARIABLES, *parameters)):
                    yield Problem(key, f"a table in which {name} is {rule}")
            lacking = [name for name in names if name not in section.values]
            if section.kind == "fixed" and lacking:
                yield Problem(key, f'a table with a value for {" and ".join(lacking)}, with kind = "fixed"')

    def _number_problems(self) -> Iterator[Problem]:
        """Yield the rules that the values of formulas break."""
        parameters = self.model.parameters
        limit = self.stable.diffusion
        for i, each in enumerate(self.species):
            if not each.of_place:
                diffusivity = each.constant_diffusivity(parameters)
                if not all(0 <= value <= MOST for value in diffusivity):
                    yield Problem(f"model.species.{i}.diffusivity", f"a number from 0 to {MOST:g}")
                    return
        for each, formulas in zip(self.species, self.sides, strict=True):
            for formula in formulas:
                z, y, x = sampled_axes(self.system())
                axes = {"z": z, "y": y, "x": x}
                del axes[formula.side[0]]
                (first, rows), (second, cells) = axes.items()
                names = {**parameters, "t": self.begin_time()}
                if rule := fault_on_side(formula, each.name, {first: rows[:, None], second: cells}, names):
                    yield Problem(f"boundary.{formula.side}.values", rule)
        m = self.model
        if m.scheme == "rkl" and stages_needed(m.scheme, m.dt, self.stable.both) > MOST_STAGES:
            limit = self.stable.both * MOST_STAGES * (MOST_STAGES + 1) / 2
            yield Problem("model.dt", f"at most {limit:.4g}, for which a step has {MOST_STAGES} stages")
        elif m.scheme != "rkl" and m.dt > limit:
            yield Problem(
                "model.dt",
                f"at most {limit:.4g}, the largest stable step with these diffusivities and cells, or larger with "
                'model.scheme = "rkl"',
            )
        for key, word, only in (("model.scheme", m.scheme, "euler"), ("run.device", self.run.device, "cpu")):
            if word != only and m.steps_per_sweep not in ("auto", "rule", 1):
                yield Problem("model.steps_per_sweep", f'"auto", "rule" or 1 with {key} = "{word}"')
        for key, rule in nonfinite_at_start(self.system()):
            yield Problem(key, rule)


CASE = ReactionDiffusionCase
