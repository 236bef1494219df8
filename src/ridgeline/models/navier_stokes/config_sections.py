"""Sections of the Navier-Stokes settings, each valid by itself. Rules between sections are in config.py."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase, Plain
from ridgeline.config.expressions import faults, is_number
from ridgeline.config.fields import (
    MOST_POINTS,
    Checked,
    Integer,
    Number,
    PathText,
    Problem,
    Triple,
    Truth,
    setting,
)
from ridgeline.elements.mesh import side_axis
from ridgeline.models.navier_stokes.config_boundary import (
    NOUGHT,
    VECTOR_RULE,
    BoundarySection,
    Formulas,
    ScalarKind,
    ScalarSection,
)

Positive = Annotated[Number, Field(gt=0)]
MOST_ELEMENTS = 10**6  # along a direction: every rank keeps all their edges


Distribution = Literal["uniform", "geometric", "geometric-walls", "sine"]
Direction = Literal["x", "y", "z"]
InitialKind = Literal[
    "rest", "uniform", "expression", "taylor_green", "taylor_green_2d", "abc", "walsh", "ethier_steinman",
    "kovasznay", "duct", "perturbed-duct",
]  # fmt: skip
NAMED_MAPPINGS = ("none", "wavy", "annulus", "periodic-hill")
FIELDS = ("velocity_x", "velocity_y", "velocity_z", "pressure", "vorticity_magnitude", "q_criterion")
VARIABLES_RULE = f"a list of {', '.join(FIELDS)} and scalar_0, scalar_1, ..., each at most once"


class RunSection(sections.RunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["navier_stokes"] = setting(..., "Model to run; `ridgeline explain` lists them.")
    precision: Literal["float64"] = setting(
        "float64",
        "Floating-point type of the fields; the preconditioner has its own (model.pressure.precision).",
    )
    threads: Literal[1] = setting(
        1, "Threads of each rank: this model takes one rank per core.", unit="threads"
    )
    device: Literal["cpu"] = setting("cpu", "Where the kernels run: this model has none for GPUs.")


class GridSection(sections.AnyGridSection):
    """The box, its elements, and a smooth map that may bend it."""

    EXTENT: ClassVar[str] = "elements"

    elements: Triple = setting(
        ..., "Elements [E_z, E_y, E_x].", unit="elements", rule="three integers >= 1 as [E_z, E_y, E_x]"
    )
    order: Integer = setting(
        7, "Polynomial order p: p + 1 Gauss-Lobatto points in each direction of an element.", ge=1, le=31
    )
    lengths: tuple[Positive, Positive, Positive] = setting(
        (1.0, 1.0, 1.0),
        "Edges of the box, [L_z, L_y, L_x].",
        unit="length",
        rule="three numbers > 0 as [L_z, L_y, L_x]",
    )
    origin: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        "Lower corner of the box, [z, y, x].",
        unit="length",
        rule="three numbers as [z, y, x]",
    )
    distribution: tuple[Distribution, Distribution, Distribution] = setting(
        ("uniform", "uniform", "uniform"),
        'Lengths of the elements along z, y, x: "uniform"; "geometric", each parameter times the one before it; '
        '"geometric-walls", so from both ends to the middle; "sine", s -> sin(a s)/sin(a) from the middle to both '
        "ends with the parameter a, the duct paper's.",
        rule='three of "uniform", "geometric", "geometric-walls" and "sine" as [z, y, x]',
    )
    distribution_parameter: tuple[Positive, Positive, Positive] = setting(
        (1.0, 1.0, 1.0),
        "Ratio of a geometric distribution, a in (0, pi/2] of a sine, along z, y, x.",
        rule="three numbers > 0 as [z, y, x]; at most pi/2 for a sine",
    )
    mapping: PathText = setting(
        "none",
        'Smooth map of the box: "none", "wavy", "annulus" (x is the angle, y the radius), "periodic-hill" (a floor '
        'of hills), or "file.py:function" with a function of arrays (x, y, z) that returns three.',
        rule='"none", "wavy", "annulus", "periodic-hill" or "file.py:function"',
    )
    mapping_amplitude: Number = setting(0.05, "How far a named map moves the points, in lengths of the box.")
    periodic: tuple[Truth, Truth, Truth] = setting(
        (False, False, False),
        "Directions z, y, x in which the flow is periodic; their sides need no [boundary].",
        rule="three truth values as [z, y, x]",
    )

    def points(self) -> tuple[int, int, int]:
        """Return the unique points [nz, ny, nx]."""
        z, y, x = (e * self.order + (0 if around else 1) for e, around in zip(self.elements, self.periodic))
        return z, y, x

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        points = math.prod(self.elements) * (self.order + 1) ** 3
        if max(self.elements) > MOST_ELEMENTS or points > MOST_POINTS:
            yield Problem(
                "elements",
                f"three integers >= 1 and <= {MOST_ELEMENTS} as [E_z, E_y, E_x], and at most 2^53 points of "
                "(order + 1)^3 in each",
            )
        for kind, parameter in zip(self.distribution, self.distribution_parameter):
            if kind == "sine" and parameter > math.pi / 2:
                yield Problem("distribution_parameter", "a number in (0, pi/2] for a sine distribution")
        if self.mapping not in NAMED_MAPPINGS and not re.fullmatch(r".+\.py:[A-Za-z_]\w*", self.mapping):
            yield Problem("mapping", '"none", "wavy", "annulus", "periodic-hill" or "file.py:function"')


class FilterSection(Checked):
    """An explicit filter of the highest modes of each element after each step; none unless asked for."""

    weight: Number = setting(0.0, "Share of the highest mode that is removed; 0 filters nothing.", ge=0, le=1)
    modes: Integer = setting(
        1,
        "Highest modes that are damped, by shares that fall quadratically to 0 below them.",
        unit="modes",
        ge=1,
    )


class PressureSection(Checked):
    """Solution of the pressure equation."""

    solver: Literal["gmres", "cg"] = setting("gmres", "Krylov method, both flexible.")
    tolerance: Number = setting(
        1e-8,
        "Residual at which a solve ends: sqrt(r.r/volume) of the pressure equation.",
        unit="1/time^2",
        gt=0,
    )
    max_iterations: Integer = setting(
        200, "Iterations after which a solve has failed and the run ends.", unit="iterations", ge=1
    )
    restart: Integer = setting(30, "Vectors that GMRES keeps.", unit="vectors", ge=1)
    preconditioner: Literal["schwarz", "jacobi", "none"] = setting(
        "schwarz", 'Preconditioner: "schwarz" is hybrid Schwarz multigrid.'
    )
    precision: Literal["float32", "float64"] = setting(
        "float32", "Floating-point type of the preconditioner."
    )
    coarse: Literal["auto", "direct", "amg"] = setting(
        "auto",
        'Solver of the coarse vertex problem: "direct" for axis-aligned boxes, "amg" for any; "auto" takes '
        '"direct" where it can.',
    )


class VelocitySection(Checked):
    """Solution of the Helmholtz equations of the velocity and the scalars, by conjugate gradients."""

    tolerance: Number = setting(
        1e-10,
        "Residual at which a solve ends: sqrt(r.r/volume) of the Helmholtz equation.",
        unit="length/time^2",
        gt=0,
    )
    max_iterations: Integer = setting(
        500, "Iterations after which a solve has failed and the run ends.", unit="iterations", ge=1
    )


class ProjectionSection(Checked):
    """Initial guesses from the space of the last solutions."""

    pressure: Integer = setting(
        20, "Solutions of the pressure that are kept; 0 for none.", unit="vectors", ge=0
    )
    velocity: Integer = setting(
        8, "Solutions of each component and scalar that are kept; 0 for none.", unit="vectors", ge=0
    )


class ForcingSection(Checked):
    """What drives the flow: f."""

    kind: Literal["none", "force", "flow-rate"] = setting(
        "none",
        '"force": the given f; "flow-rate": a uniform force that keeps the bulk velocity, set anew each step.',
    )
    value: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        'Constant f = [f_x, f_y, f_z] of kind "force".',
        unit="length/time^2",
        rule="three numbers as [f_x, f_y, f_z]",
    )
    direction: Direction = setting("x", "Direction of a flow rate, which must be periodic.")
    bulk_velocity: Number | None = setting(
        None,
        "Mean of the velocity over the volume that is kept.",
        unit="length/time",
        rule='a number with model.forcing.kind = "flow-rate"',
    )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if self.kind == "flow-rate" and self.bulk_velocity is None:
            yield Problem("bulk_velocity", 'a number with model.forcing.kind = "flow-rate"')


class ModelSection(Checked):
    """u_t + (u . grad) u = - grad p + nu lap(u) + f, div u = 0, by spectral elements P_N-P_N.

    f: the forcing, and the buoyancy of scalars with an expansion.

    Backward differences for Stokes terms, extrapolation for the others (NekBox paper, Eqs. 1-4).
    """

    viscosity: Number = setting(..., "Kinematic viscosity nu.", unit="length^2/time", gt=0)
    dt: Number = setting(
        ..., "Time step; `ridgeline check` says its Courant number for the flow of step 0.", unit="time", gt=0
    )
    time_order: Literal[1, 2, 3] = setting(3, "Order of backward differences and extrapolation.")
    dealias_order: Literal["none"] | Annotated[Integer, Field(ge=0, le=128)] = setting(
        0,
        "Gauss points in each direction on which the advection is integrated: 0 takes ceil(3 (p + 1)/2), the 3/2 "
        'rule; "none" takes the points of the elements.',
        unit="points",
        rule='0, an integer >= grid.order + 1 and <= 128, or "none"',
    )
    products: Literal["generated", "plain"] = setting(
        "generated", "Small matrix products: code generated for their sizes, or plain loops to compare with."
    )
    overlap: Truth = setting(
        True,
        "Whether messages to neighbours travel while elements are computed; false waits, to compare with.",
    )
    gravity: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        "Gravity g = [g_x, g_y, g_z] of the buoyancy; goes with a scalar that has an expansion.",
        unit="length/time^2",
        rule="three numbers as [g_x, g_y, g_z]",
    )
    filter: FilterSection = Field(default_factory=FilterSection)
    pressure: PressureSection = Field(default_factory=PressureSection)
    velocity: VelocitySection = Field(default_factory=VelocitySection)
    projection: ProjectionSection = Field(default_factory=ProjectionSection)
    forcing: ForcingSection = Field(default_factory=ForcingSection)


class InitialSection(Checked):
    """The velocity of step 0. Scalars start as their own sections say."""

    kind: InitialKind = setting(
        "rest",
        '"rest"; "uniform" and "expression": velocity; "taylor_green": speed (sin x cos y cos z, '
        '-cos x sin y cos z, 0); "taylor_green_2d": speed (-cos x sin y, sin x cos y, 0); "walsh": the eddies of '
        'Walsh carried by velocity; "abc": speed (sin z + cos y, sin x + cos z, sin y + cos x); "ethier_steinman": '
        'their flow with a and d; "kovasznay": the wake of a grid at Re = 1/viscosity; "duct": laminar flow along '
        'direction with the bulk velocity speed; "perturbed-duct": the same with smooth modes of all sizes that make '
        "it turbulent.",
    )
    velocity: Formulas = setting(
        NOUGHT,
        'Velocity of kinds "uniform" and "expression", wind of "walsh" (numbers only).',
        unit="length/time",
        rule=VECTOR_RULE,
    )
    speed: Number = setting(1.0, "V of the vortices; bulk velocity of a duct.", unit="length/time")
    a: Number = setting(math.pi / 4, "a of Ethier and Steinman.", unit="1/length")
    d: Number = setting(math.pi / 2, "d of Ethier and Steinman.", unit="1/length")
    direction: Direction = setting("x", "Direction along a duct.")
    perturbation: Number = setting(
        0.1, "Largest velocity of a duct's perturbation over its bulk velocity.", ge=0
    )
    exact_history: Truth = setting(
        True,
        "Whether a kind that is an exact solution also gives the velocities before step 0, so that the first steps "
        "have full order; else they are of order 1, 2, ...",
    )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        yield from faults("velocity", self.velocity, steady=True)
        if self.kind == "walsh" and not all(is_number(text) for text in self.velocity):
            yield Problem("velocity", 'three numbers as [x, y, z] with initial.kind = "walsh"')


class OutputSection(sections.OutputSection):
    """Fields, time series and statistics. Paths are relative to the directory in which the run is started."""

    path: PathText = setting("navier_stokes.bp", "ADIOS2 BP5 data set to write.", rule="a path", min_length=1)
    variables: tuple[str, ...] = setting(
        FIELDS[:4], "Fields to write.", rule=VARIABLES_RULE, min_length=1, max_length=200
    )
    uniform: Triple | None = setting(
        None,
        "Points [nz, ny, nx] of an image in the box around the domain to which the fields of output.path are "
        "interpolated, NaN outside the domain; not set: the points of the elements, with their coordinates.",
        unit="points",
        rule="three integers >= 1 as [nz, ny, nx]",
    )
    series_every: Integer = setting(
        10, "Steps between rows of the series, step 0 included; 0 writes none.", unit="steps", ge=0
    )
    nek5000: PathText = setting(
        "",
        'Prefix of Nek5000 field files, "prefix0.f00001" ... and "prefix.nek5000"; "" writes none.',
        rule="a path",
    )
    nek5000_every: Integer = setting(
        0, "Steps between Nek5000 field files; 0 writes none.", unit="steps", ge=0
    )
    nek5000_precision: Literal["float32", "float64"] = setting(
        "float32", "Floating-point type in these files."
    )
    statistics: PathText = setting(
        "statistics.bp",
        "ADIOS2 BP5 data set of means and second moments to write.",
        rule="a path",
        min_length=1,
    )
    statistics_every: Integer = setting(
        0,
        "Steps between samples of the statistics, which are written at the end; 0 takes none.",
        unit="steps",
        ge=0,
    )
    statistics_start: Number = setting(0.0, "Model time of the first sample.", unit="time", ge=0)
    homogeneous: tuple[Direction, ...] = setting(
        (),
        "Directions over which statistics are averaged as well.",
        rule='a list of "x", "y" and "z", each at most once',
    )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        known = all(name in FIELDS or re.fullmatch(r"scalar_(0|[1-9]\d*)", name) for name in self.variables)
        if not known or len(set(self.variables)) < len(self.variables):
            yield Problem("variables", VARIABLES_RULE)
        if self.nek5000_every and not self.nek5000:
            yield Problem("nek5000", "a prefix with output.nek5000_every > 0")
        if len(set(self.homogeneous)) < len(self.homogeneous):
            yield Problem("homogeneous", 'a list of "x", "y" and "z", each at most once')

    def written(self) -> dict[str, str]:
        """Return the paths that a run writes to, by their keys."""
        paths = super().written()
        if self.nek5000_every and self.nek5000:
            paths["output.nek5000"] = self.nek5000
        if self.statistics_every:
            paths["output.statistics"] = self.statistics
        return paths


class NavierStokesSettings(AnyCase):
    """All sections of one run, before the rules between them: what those rules read."""

    # A run may go on with another time step, tolerance or solver, but not as another flow or on other elements.
    PHYSICS: ClassVar[tuple[str, ...]] = (
        "run.model",
        "run.precision",
        "run.seed",
        "grid",
        "model.viscosity",
        "model.time_order",
        "model.dealias_order",
        "model.filter",
        "model.forcing",
        "model.gravity",
        "boundary",
        "scalar",
        "initial",
    )

    LATER: ClassVar[Mapping[str, Plain]] = {
        "model.gravity": [0.0, 0.0, 0.0],
        "scalar.*.expansion": 0.0,
        "scalar.*.reference": 0.0,
    }

    run: RunSection
    grid: GridSection
    model: ModelSection
    boundary: BoundarySection = Field(default_factory=BoundarySection)
    scalar: tuple[ScalarSection, ...] = Field(default=())
    initial: InitialSection = Field(default_factory=InitialSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def is_periodic(self, side: str) -> bool:
        """Say whether the flow is periodic across a side, such as "x_min"."""
        return self.grid.periodic[side_axis(side)[0]]

    def scalar_kind(self, number: int, side: str) -> ScalarKind | None:
        """Return what scalar `number` meets at a side, defaults put in; None if it is not said."""
        kind: ScalarKind | None = getattr(self.scalar[number].boundary, side).kind
        if kind is not None:
            return kind
        if self.is_periodic(side):
            return "periodic"
        flow = getattr(self.boundary, side).kind
        return "adiabatic" if flow in ("outflow", "symmetry") else None
