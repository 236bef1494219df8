"""Settings of the Gray-Scott model."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase, Plain
from ridgeline.config.fields import (
    MOST,
    ON,
    Checked,
    Count,
    FormulaMark,
    Integer,
    Number,
    PathText,
    Problem,
    setting,
)
from ridgeline.config.part_selection import UniformGrid
from ridgeline.config.parts import PartSection

Formula = Annotated[str, FormulaMark(), Field(min_length=1, max_length=2000)]


class RunSection(sections.SteadyRunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["gray_scott"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    seed: sections.Seed = sections.seed_setting(
        "Seed of the random numbers. The same seed gives the same noise on any number of ranks and threads and with "
        "any process grid.",
        ({"model.noise": ON}, {"initial.noise": ON}, {"initial.kind": "patches"}),
    )


class OutputSection(sections.FieldsOutputSection):
    """The data set. Paths are relative to the directory in which the run is started."""

    path: PathText = setting(
        "gray_scott.bp", "Data set to which the fields are written.", rule="a path", min_length=1
    )
    variables: tuple[Literal["U", "V"], ...] = setting(
        ("U", "V"),
        "Fields to write.",
        rule='a list of "U" and "V", each at most once',
        min_length=1,
    )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if len(set(self.variables)) < len(self.variables):
            yield Problem("variables", 'a list of "U" and "V", each at most once')


def largest_eigenvalue(shape: tuple[int, int, int], periodic: bool) -> float:
    """Return the largest s with lap(u) = -s u on a grid: 2 on large grids, less where there are few cells.

    A mode with angles a, b, c has s = (2/6) (3 - cos a - cos b - cos c). Among n cells the angle nearest pi is pi
    itself in a periodic direction of even n, and pi - pi/n of odd n. Between fixed ghost cells it is pi - pi/(n + 1).
    One periodic cell is its own neighbour and adds nothing: a plane has s = 4/3 at most, a line 2/3.
    """
    total = 0.0
    for n in shape:
        if not periodic:
            total += 1.0 + math.cos(math.pi / (n + 1))
        else:
            total += 2.0 if n % 2 == 0 else 1.0 + math.cos(math.pi / n)
    return total / 3.0


def stability_limits(Du: float, Dv: float, F: float, k: float, s: float) -> tuple[float, float]:
    """Return the largest stable time steps of U and V, infinity where nothing limits them.

    Around the rest state u=1, v=0 the reaction u v^2 is of second order, and U and V decouple. Each step multiplies a
    mode with lap(u) = -s u by 1 - dt (Du s + F), and one of V by 1 - dt (Dv s + F + k). No factor exceeds 1 in size
    if dt <= 2 / (s Du + F) and dt <= 2 / (s Dv + F + k) with the largest s (`largest_eigenvalue`). The limit is the
    linear one: the reaction may need a smaller step.
    """
    rates = (s * Du + F, s * Dv + F + k)
    limit_u, limit_v = (2.0 / rate if rate > 0.0 else math.inf for rate in rates)
    return limit_u, limit_v


def round_down(value: float, digits: int = 4) -> float:
    """Round a positive number down to significant digits, so that what is printed is itself allowed."""
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale


class ModelSection(Checked):
    """u_t = Du lap(u) - u v^2 + F (1 - u) + n r, v_t = Dv lap(v) + u v^2 - (F + k) v, forward Euler.

    lap(u) = (sum of the 6 neighbours - 6 u)/6; r is uniform in [-1, 1), drawn anew in every cell and step.
    Defaults are the run of Godoy et al., SC-W 2023.
    """

    Du: Number = setting(
        0.2,
        "Diffusion rate of U. The Laplacian is one sixth of the usual one, so a diffusivity D on cells of width h "
        "corresponds to Du = 6 D/h^2. Pearson's D = 2e-5 with h = 2.5/256 corresponds to 1.258.",
        unit="1/time; length^2/time with grid.cell_size",
        ge=0,
    )
    Dv: Number = setting(
        0.1,
        "Diffusion rate of V, in the same units as Du. Pearson's D = 1e-5 corresponds to 0.629.",
        unit="1/time; length^2/time with grid.cell_size",
        ge=0,
    )
    F: Number = setting(0.02, "Feed rate of U.", unit="1/time", ge=0)
    k: Number = setting(0.048, "Kill rate of V, in addition to F.", unit="1/time", ge=0)
    noise: Number = setting(0.1, "Amplitude n of the random noise in the equation of U.", unit="1/time", ge=0)
    random_numbers: Literal["auto", "philox4x32-7", "philox4x32-10"] = setting(
        "auto",
        'Generator of the random numbers r. "philox4x32-7" is Philox with 7 rounds and 16 bits per number. '
        '"philox4x32-10" has 10 rounds and 32 bits per number (24 in float32), and is the only generator of earlier '
        'versions. "auto" takes "philox4x32-7", or in a resumed run the generator of the checkpoint.',
        needs={"noise": ON},
    )
    dt: Number = setting(
        1.0,
        "Time step. It is at most 2/(s Du + F) and at most 2/(s Dv + F + k), the linear stability limits, where s is "
        "2 in three directions, 4/3 in two and 2/3 in one. Periodic directions of one cell do not count.",
        unit="time",
        gt=0,
    )
    steps_per_sweep: Literal["auto", "rule"] | Count = setting(
        "auto",
        "Number of time steps that one pass over memory advances (temporal blocking); on GPUs it is 1 or 2. "
        '"auto" times some candidates before a run that takes much longer than these trials, and stores the fastest '
        'for later runs. Otherwise, and with "rule", a rule based on sizes and caches decides. The results do not '
        "depend on it.",
        unit="steps",
        rule='"auto", "rule" or an integer >= 1',
    )


class GridSection(sections.BlockGridSection):
    """The grid and how ranks share it, in blocks."""

    cell_size: Annotated[Number, Field(gt=0)] | None = setting(
        None,
        "Width h of a cell. If it is set, model.Du and model.Dv are diffusivities of the usual Laplacian, in "
        "length^2/time, and positions are lengths: cell i is at (i + 1/2) h. If it is not set, the unit of length is "
        "one cell, and positions are indices.",
        unit="length",
        rule="a number > 0",
    )


class InitialSection(Checked):
    """The state of step 0."""

    kind: Literal["box", "uniform", "patches", "formula", "image", "file"] = setting(
        "box",
        'Initial state: "box" (u and v in a centred box, u=1 and v=0 around it), "uniform" (u and v in every cell), '
        '"patches" (as "box", with boxes at random positions), "formula" (formulas of x, y and z), "image" (from '
        'u=1 and v=0 where a picture is white to u and v where it is black) or "file" (a data set).',
    )
    half_width: Integer = setting(
        6,
        "Half of the width of the box, which covers n/2 - half_width <= i < n/2 + half_width in each direction of n "
        "cells, with n/2 rounded down. In directions with fewer cells the box covers all of them. Patches have the "
        "same width.",
        unit="cells",
        ge=1,
        needs={"kind": ("box", "patches")},
    )
    u: Number = setting(
        0.25,
        "Value of U in the box, in the patches, where a picture is black, or everywhere.",
        unit="concentration",
        needs={"kind": ("box", "uniform", "patches", "image")},
    )
    v: Number = setting(
        0.33,
        "Value of V in the box, in the patches, where a picture is black, or everywhere.",
        unit="concentration",
        needs={"kind": ("box", "uniform", "patches", "image")},
    )
    noise: Number = setting(
        0.0,
        "Relative amplitude of a random disturbance of both fields in every cell, which is the same on any number "
        "of ranks. Pearson used 0.01. The state of a data set is not disturbed.",
        ge=0,
        le=1,
        needs={"kind": ("box", "uniform", "patches", "formula", "image")},
    )
    count: Integer = setting(
        10,
        "Number of patches, which may overlap.",
        ge=1,
        le=100_000,
        needs={"kind": "patches"},
    )
    formula_u: Formula = setting(
        "1",
        "Formula of x, y and z for U.",
        unit="concentration",
        needs={"kind": "formula"},
    )
    formula_v: Formula = setting(
        "0",
        "Formula of x, y and z for V.",
        unit="concentration",
        needs={"kind": "formula"},
    )
    path: PathText = setting(
        "",
        'Picture to read if the kind is "image", which is spread over the grid in x and y, or data set to read if '
        'the kind is "file".',
        rule="a path",
        needs={"kind": ("image", "file")},
    )
    step: Integer | None = setting(
        None,
        "Step of the data set to read. If it is not set, the last step is read.",
        unit="steps",
        ge=0,
        needs={"kind": "file"},
    )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if self.kind in ("image", "file") and not self.path:
            yield Problem("path", f'a path with initial.kind = "{self.kind}"')
        given = [key for key in ("formula_u", "formula_v") if key in self.model_fields_set]
        if given:
            from ridgeline.config.expressions import faults  # NumPy, which other settings load without

            for key in given:
                yield from faults(key, (getattr(self, key),), steady=True)


RANDOM_NUMBERS = "model.random_numbers"
NEWEST, OLDEST = "philox4x32-7", "philox4x32-10"  # of `jit.random.GENERATORS`, which loads NumPy


class GrayScottCase(AnyCase):
    """Settings of one Gray-Scott run."""

    PHYSICS: ClassVar[tuple[str, ...]] = (
        *AnyCase.PHYSICS,
        "grid.boundary",
        "grid.cell_size",
        "model",
        "initial",
    )
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = ("model.steps_per_sweep",)
    LATER: ClassVar[Mapping[str, Plain]] = {
        "grid.cell_size": "none",
        RANDOM_NUMBERS: OLDEST,
        "initial.noise": 0.0,
        "initial.count": 10,
        "initial.formula_u": "1",
        "initial.formula_v": "0",
        "initial.path": "",
        "initial.step": "none",
    }

    run: RunSection
    grid: GridSection
    model: ModelSection = Field(default_factory=ModelSection)
    initial: InitialSection = Field(default_factory=InitialSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def settled(self, identity: Mapping[str, Plain] | None = None) -> Self:
        """Return the case with the random numbers chosen: those of the checkpoint, or the fastest."""
        if self.model.random_numbers != "auto":
            return self
        before = NEWEST if identity is None else identity.get(RANDOM_NUMBERS, OLDEST)
        # An unknown generator is that of a later version; the comparison of identities then refuses the checkpoint.
        known = before in (NEWEST, OLDEST)
        model = self.model.model_copy(update={"random_numbers": before if known else NEWEST})
        return self.model_copy(update={"model": model})

    def check_files(self) -> None:
        """Raise OutputError or ConfigError if the file that the run starts from is not there or does not fit."""
        from ridgeline.models.gray_scott.start_file import check_start

        check_start(self.initial.kind, self.initial.path, self.initial.step, self.grid.shape)

    def step_length(self) -> float:
        return self.model.dt

    def output_names(self) -> tuple[str, ...]:
        return "U", "V"

    def part_grid(self, part: PartSection) -> UniformGrid:
        h = self.grid.cell_size
        first, apart = (0.0, 1.0) if h is None else (0.5 * h, h)
        return UniformGrid(self.grid.shape, (first,) * 3, (apart,) * 3)

    def diffusion(self) -> tuple[float, float]:
        """Return the diffusion rates of U and V on cells of width 1, for a Laplacian that is a sixth of the usual."""
        h, m = self.grid.cell_size, self.model
        return (m.Du, m.Dv) if h is None else (6 * m.Du / h**2, 6 * m.Dv / h**2)

    def remarks(self) -> Iterator[str]:
        """Yield what differs from textbooks, what a default adds, and whether the grid resolves a front."""
        m, h = self.model, self.grid.cell_size
        diffusivity_u, diffusivity_v = (rate / 6 for rate in self.diffusion())  # in cells
        if h is None:
            yield (
                f"diffusivities: {diffusivity_u:.4g} and {diffusivity_v:.4g} cells^2/time, which are model.Du/6 and "
                "model.Dv/6 (with grid.cell_size = 1 they would be model.Du and model.Dv)"
            )
        if m.noise and "noise" not in m.model_fields_set:
            yield (
                f"noise: model.noise has its default, {m.noise:g}, which adds a random rate to U in every cell and "
                "step (0 adds none)"
            )
        width = math.sqrt(diffusivity_v / (m.F + m.k)) if m.F + m.k else math.inf
        if width < 1:
            yield (
                f"front: the width sqrt(D/(F + k)) with the diffusivity D of V is {width:.2g} cells (below 1 cell "
                "the grid can pin a pattern that would move on a finer grid)"
            )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules between sections that these values break."""
        chosen = self.model.steps_per_sweep
        if self.run.device == "cuda" and chosen not in ("auto", "rule", 1, 2):
            yield Problem(
                "model.steps_per_sweep",
                '"auto", "rule", 1 or 2 with run.device = "cuda", because a sweep on a GPU advances at most two '
                "steps",
            )
        if self.run.stop_when == "steady" and self.model.noise:
            yield Problem(
                "model.noise", '0 with run.stop_when = "steady": noise changes the state in every step'
            )
        m = self.model
        diffusion_u, diffusion_v = self.diffusion()
        if m.dt * m.noise > MOST:
            yield Problem("model.noise", f"a number >= 0 with model.dt model.noise <= {MOST:g}")
        s = largest_eigenvalue(self.grid.shape, self.grid.boundary == "periodic")
        limits = stability_limits(diffusion_u, diffusion_v, m.F, m.k, s)
        limit = min(limits)
        if m.dt > limit:
            field, formula = ("U", "2/(s Du + F)") if limit == limits[0] else ("V", "2/(s Dv + F + k)")
            if self.grid.cell_size is not None:
                formula = formula.replace("s D", "6 s/h^2 D")
            yield Problem(
                "model.dt",
                f"at most {round_down(limit)}, the linear stability limit {formula} of forward Euler for {field} "
                f"with s = {s:.4g} on this grid",
            )


CASE = GrayScottCase
