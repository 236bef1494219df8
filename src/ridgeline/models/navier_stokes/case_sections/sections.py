"""The sections of the Navier-Stokes settings, each valid by itself, and the case that they make up.

Sides and scalars are in boundary.py, elements in grid.py and outputs in output.py. The rules between sections are in
settings.py, and those that need the mesh in mesh_rules.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase, Plain
from ridgeline.config.expressions import faults, is_number
from ridgeline.config.fields import (
    ON,
    Checked,
    FormulaText,
    Integer,
    Number,
    Problem,
    Truth,
    setting,
)
from ridgeline.config.parts import PartSection
from ridgeline.elements.mesh import SIDES, side_axis
from ridgeline.models.navier_stokes.case_sections.boundary import (
    SOURCE_VARIABLES,
    ZERO,
    BoundarySection,
    Formulas,
    ScalarKind,
    ScalarSection,
    SpongeSection,
)
from ridgeline.models.navier_stokes.case_sections.grid import GridSection
from ridgeline.models.navier_stokes.case_sections.output import (
    FIELDS,
    Direction,
    InterpolatedPartSection,
    OutputSection,
    ProbeSection,
    side_defaults,
    side_names,
)
from ridgeline.models.navier_stokes.time_stepping import BAND, MOST_CHANGE, StepControl

LARGEST_COURANT = 0.8  # stable with a band of 20 % on both sides

# Initial flows that are exact solutions of the equations: "exact" values and histories exist for them.
EXACT_KINDS = (
    "uniform",
    "taylor_green_2d",
    "abc",
    "walsh",
    "ethier_steinman",
    "kovasznay",
    "duct",
    "channel",
)

InitialKind = Literal[
    "rest",
    "uniform",
    "expression",
    "taylor_green",
    "taylor_green_2d",
    "abc",
    "walsh",
    "ethier_steinman",
    "kovasznay",
    "duct",
    "perturbed-duct",
    "channel",
    "perturbed-channel",
]


class RunSection(sections.SteadyRunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["navier_stokes"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    seed: sections.Seed = sections.seed_setting(
        "Seed of the random phases of the perturbation. The same seed gives the same perturbation on any number of "
        "ranks.",
        {"initial.kind": ("perturbed-duct", "perturbed-channel")},
    )
    precision: Literal["float64"] = setting(
        "float64",
        "Floating-point type of the fields. model.pressure.precision is the type of the preconditioner.",
    )
    threads: Literal[1] = setting(
        1, "Number of threads of each rank. This model uses one rank per core.", unit="threads"
    )
    device: Literal["cpu", "cuda"] = setting("cpu", "Device on which the kernels run.")


class FilterSection(Checked):
    """An explicit filter of the highest modes of each element after each step; off by default."""

    weight: Number = setting(
        0.0, "Fraction of the highest mode that is removed; 0 switches the filter off.", ge=0, le=1
    )
    modes: Integer = setting(
        1,
        "Number of highest modes that are damped. The removed fraction falls quadratically to 0 below them.",
        unit="modes",
        ge=1,
        needs={"weight": ON},
    )


class PressureSection(Checked):
    """Solution of the pressure equation."""

    solver: Literal["gmres", "cg"] = setting("gmres", "Krylov method. Both methods are flexible.")
    tolerance: Number = setting(
        1e-8,
        "Residual of the pressure equation, sqrt(r.r/volume), at which a solve ends.",
        unit="1/time^2",
        gt=0,
    )
    max_iterations: Integer = setting(
        200, "Number of iterations after which a solve has failed and the run ends.", unit="iterations", ge=1
    )
    restart: Integer = setting(30, "Number of vectors after which GMRES restarts.", unit="vectors", ge=1)
    preconditioner: Literal["schwarz", "jacobi", "none"] = setting(
        "schwarz", 'Preconditioner: "schwarz" (hybrid Schwarz multigrid), "jacobi" (the diagonal) or "none".'
    )
    precision: Literal["float32", "float64"] = setting(
        "float32",
        "Floating-point type of the preconditioner.",
        needs={"preconditioner": "schwarz"},
    )
    coarse: Literal["auto", "direct", "amg"] = setting(
        "auto",
        'Solver of the coarse vertex problem: "direct" (for axis-aligned boxes, complete on every rank), "amg" (for '
        'any mesh, distributed over the ranks) or "auto" ("direct" for boxes with at most 4096 unknowns, otherwise '
        '"amg").',
        needs={"preconditioner": "schwarz"},
    )


class VelocitySection(Checked):
    """Solution of the Helmholtz equations of the velocity and the scalars, by conjugate gradients."""

    tolerance: Number = setting(
        1e-10,
        "Residual of the Helmholtz equation, sqrt(r.r/volume), at which a solve ends.",
        unit="length/time^2",
        gt=0,
    )
    max_iterations: Integer = setting(
        500, "Number of iterations after which a solve has failed and the run ends.", unit="iterations", ge=1
    )


class ProjectionSection(Checked):
    """Initial guesses from the space of the last solutions."""

    pressure: Integer = setting(
        20, "Number of previous pressures that are kept; 0 keeps none.", unit="vectors", ge=0
    )
    velocity: Integer = setting(
        8,
        "Number of previous solutions of each velocity component and scalar that are kept; 0 keeps none.",
        unit="vectors",
        ge=0,
    )


class ForcingSection(Checked):
    """The force f that drives the flow."""

    kind: Literal["none", "force", "flow-rate"] = setting(
        "none",
        'Force: "none", "force" (the given f) or "flow-rate" (a uniform force, adjusted in each step, that maintains '
        "the bulk velocity).",
    )
    value: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        "Constant force f = [f_x, f_y, f_z].",
        unit="length/time^2",
        rule="three numbers as [f_x, f_y, f_z]",
        needs={"kind": "force"},
    )
    direction: Direction = setting(
        "x",
        "Direction of the flow rate. The flow must be periodic in it.",
        needs={"kind": "flow-rate"},
    )
    bulk_velocity: Number | None = setting(
        None,
        "Mean of the velocity over the volume, which the force maintains.",
        unit="length/time",
        rule='a number with model.forcing.kind = "flow-rate"',
        needs={"kind": "flow-rate"},
    )

    def problems(self) -> Iterator[Problem]:
        if self.kind == "flow-rate" and self.bulk_velocity is None:
            yield Problem("bulk_velocity", 'a number with model.forcing.kind = "flow-rate"')


class TimeSettings(Checked):
    """Length and order of the time steps. The base of [model]."""

    dt: Number | None = setting(
        None,
        "Time step, unless model.courant chooses it. `ridgeline check` prints its Courant number for the flow of "
        "step 0.",
        unit="time",
        rule="a number > 0, or model.courant instead",
        gt=0,
    )
    courant: Number | None = setting(
        None,
        "Courant number dt max(|u|/dx + |v|/dy + |w|/dz) that determines the time step instead of model.dt. The step "
        f"changes when the Courant number differs from it by {100 * BAND:g} %.",
        rule=f"a number > 0 and <= {LARGEST_COURANT:g}, or model.dt instead",
        gt=0,
        le=LARGEST_COURANT,
    )
    dt_min: Number | None = setting(
        None,
        "Shortest time step that model.courant may choose. A flow that is too fast for it ends the run. If it is not "
        "set, there is no limit.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"courant": ON},
    )
    dt_max: Number | None = setting(
        None,
        "Longest time step that model.courant may choose, which is also the time step of a flow at rest. If it is "
        "not set, there is no limit.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"courant": ON},
    )
    dt_change: Number = setting(
        1.25,
        "Largest factor by which model.courant makes a time step longer or shorter than the previous one. The scheme "
        f"of third order is stable up to {MOST_CHANGE:g}.",
        rule=f"a number > 1 and <= {MOST_CHANGE:g}",
        gt=1,
        le=MOST_CHANGE,
        needs={"courant": ON},
    )
    time_order: Literal[1, 2, 3] = setting(
        3, "Order of the backward differences and the extrapolation in time."
    )

    def problems(self) -> Iterator[Problem]:
        if (self.dt is None) == (self.courant is None):
            yield Problem("courant", "set if model.dt is left out, and left out if model.dt is set")
        elif self.dt_min is not None and self.dt_max is not None and self.dt_min > self.dt_max:
            yield Problem("dt_max", f"a number >= model.dt_min = {self.dt_min:g}")

    def control(self) -> StepControl | None:
        """Return what chooses the steps, None if they are fixed."""
        if self.courant is None:
            return None
        longest = math.inf if self.dt_max is None else self.dt_max
        return StepControl(self.courant, self.dt_min or 0.0, longest, self.dt_change)


class ModelSection(TimeSettings):
    """u_t + (u . grad) u = - grad p + nu lap(u) + f, div u = 0, by spectral elements P_N-P_N.

    f: the forcing, the source, sponges, and the buoyancy of scalars with an expansion.

    Backward differences for Stokes terms, extrapolation for the others (NekBox paper, Eqs. 1-4).
    """

    viscosity: Number = setting(
        ...,
        "Kinematic viscosity nu. With model.viscosity_formula it is the reference viscosity, which the scheme treats "
        "implicitly and with which Reynolds numbers and wall units are formed.",
        unit="length^2/time",
        gt=0,
    )
    viscosity_formula: FormulaText = setting(
        "",
        "Viscosity nu at each place, with the stress nu (grad u + grad u^T): a formula of x, y, z and t, of the "
        "velocity u, v, w and of the scalars scalar_0, scalar_1, ... Its difference from model.viscosity is "
        "extrapolated in time; `ridgeline check` states for which time steps that is stable. If it is not set, the "
        "viscosity is constant.",
        unit="length^2/time",
        rule=f"a number or a formula of {SOURCE_VARIABLES}",
    )
    expected_re_tau: Number | None = setting(
        None,
        "Expected friction Reynolds number u_tau h/nu, with which `ridgeline check` prints the distances of points "
        "in wall units and judges them. With walls and a forcing it follows from the force, or from the flow rate "
        "by a correlation.",
        rule="a number > 0",
        gt=0,
    )
    dealias_order: Literal["none"] | Annotated[Integer, Field(ge=0, le=128)] = setting(
        0,
        "Number of Gauss points in each direction on which the advection is integrated. 0 takes ceil(3 (p + 1)/2), "
        'the 3/2 rule; "none" takes the points of the elements.',
        unit="points",
        rule='0, an integer >= grid.order + 1 and <= 128, or "none"',
    )
    products: Literal["generated", "plain"] = setting(
        "generated",
        'Code of the small matrix products: "generated" for their sizes, or "plain" loops for comparison.',
    )
    overlap: Truth = setting(
        True,
        "Whether messages between neighbours are exchanged while elements are computed. If false, the exchange "
        "finishes first, for comparison.",
    )
    gravity: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        "Gravity g = [g_x, g_y, g_z], which gives scalars with an expansion their buoyancy.",
        unit="length/time^2",
        rule="three numbers as [g_x, g_y, g_z]",
        needs={"scalar.N.expansion": ON},
    )
    source: Formulas = setting(
        ZERO,
        "Source of momentum, which is added to model.forcing: [s_x, s_y, s_z] as numbers or formulas of x, y, z and "
        "t, of the velocity u, v, w and of the scalars scalar_0, scalar_1, ...",
        unit="length/time^2",
        rule=f"three numbers or formulas of {SOURCE_VARIABLES} as [x, y, z]",
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
        'Initial flow: "rest"; "uniform" and "expression" (initial.velocity); "taylor_green", '
        'V (sin x cos y cos z, -cos x sin y cos z, 0); "taylor_green_2d", V (-cos x sin y, sin x cos y, 0); "abc", '
        'V (sin z + cos y, sin x + cos z, sin y + cos x); "walsh" (the eddies of Walsh, carried by '
        'initial.velocity); "ethier_steinman" (their flow with a and d); "kovasznay" (the wake of a grid at '
        'Re = 1/viscosity); "duct" (laminar flow along initial.direction); "perturbed-duct" (the same with smooth '
        'modes of all sizes, which make it turbulent); "channel" and "perturbed-channel" (the same between two '
        "walls). V is initial.speed.",
    )
    velocity: Formulas = setting(
        ZERO,
        'Velocity of the kinds "uniform" and "expression", and the uniform velocity that carries the eddies of '
        '"walsh" (numbers only).',
        unit="length/time",
        rule="three numbers or formulas of x, y, z as [x, y, z]",
        needs={"kind": ("uniform", "expression", "walsh")},
    )
    speed: Number = setting(
        1.0,
        "Velocity V of the vortices, or bulk velocity of a duct or channel.",
        unit="length/time",
        needs={
            "kind": (
                "taylor_green",
                "taylor_green_2d",
                "abc",
                "duct",
                "perturbed-duct",
                "channel",
                "perturbed-channel",
            )
        },
    )
    a: Number = setting(
        math.pi / 4,
        "Parameter a of the flow of Ethier and Steinman.",
        unit="1/length",
        needs={"kind": "ethier_steinman"},
    )
    d: Number = setting(
        math.pi / 2,
        "Parameter d of the flow of Ethier and Steinman.",
        unit="1/length",
        needs={"kind": "ethier_steinman"},
    )
    direction: Direction = setting(
        "x",
        "Direction of the flow along a duct or channel.",
        needs={"kind": ("duct", "perturbed-duct", "channel", "perturbed-channel")},
    )
    perturbation: Number = setting(
        0.1,
        "Largest velocity of the perturbation of a duct or channel, as a fraction of the bulk velocity.",
        ge=0,
        needs={"kind": ("perturbed-duct", "perturbed-channel")},
    )
    exact_history: Truth = setting(
        True,
        "Whether a kind that is an exact solution also provides the velocities before step 0, so that the first "
        "steps have full order. If false, the first steps have order 1, 2, ...",
        needs={"kind": EXACT_KINDS},
    )

    def problems(self) -> Iterator[Problem]:
        yield from faults("velocity", self.velocity, steady=True)
        if self.kind == "walsh" and not all(is_number(text) for text in self.velocity):
            yield Problem("velocity", 'three numbers as [x, y, z] with initial.kind = "walsh"')


class NavierStokesSettings(AnyCase):
    """All sections of one run, without the rules between them, which read this class."""

    # A run may continue with another time step, tolerance or solver, but not as another flow or on other elements.
    # Checkpoints of earlier versions have no digest of the file of a mapping.
    NOT_PHYSICS: ClassVar[tuple[str, ...]] = ("grid.mapping.source",)
    NOT_FORMULAS: ClassVar[tuple[str, ...]] = (*AnyCase.NOT_FORMULAS, "grid.mapping")
    PHYSICS: ClassVar[tuple[str, ...]] = (
        "run.model",
        "run.precision",
        "run.seed",
        "grid",
        "model.viscosity",
        "model.viscosity_formula",
        "model.time_order",
        "model.dealias_order",
        "model.filter",
        "model.forcing",
        "model.gravity",
        "model.source",
        "boundary",
        "scalar",
        "sponge",
        "initial",
    )
    START: ClassVar[tuple[str, ...]] = ("initial", "scalar.*.initial")

    run: RunSection
    grid: GridSection
    model: ModelSection
    boundary: BoundarySection = Field(default_factory=BoundarySection)
    scalar: tuple[ScalarSection, ...] = Field(default=())
    sponge: tuple[SpongeSection, ...] = Field(default=())
    initial: InitialSection = Field(default_factory=InitialSection)
    probe: tuple[ProbeSection, ...] = Field(default=())
    output: OutputSection = Field(default_factory=OutputSection)

    @property
    def has_probes(self) -> bool:
        """Whether a run records the flow at probes."""
        return bool(self.output.probes.interval() and (self.probe or self.output.probes.file))

    def written(self) -> dict[str, str]:
        return super().written() | (
            {"output.probes.path": self.output.probes.path} if self.has_probes else {}
        )

    def output_names(self) -> tuple[str, ...]:
        return (*FIELDS, *(f"scalar_{i}" for i in range(len(self.scalar))))

    def part_names(self, part: PartSection) -> tuple[str, ...]:
        assert isinstance(part, InterpolatedPartSection)
        return (*self.output_names(), *(side_names(len(self.scalar)) if part.side else ()))

    def part_defaults(self, part: PartSection) -> tuple[str, ...]:
        assert isinstance(part, InterpolatedPartSection)
        return side_defaults(len(self.scalar)) if part.side else tuple(self.output.variables)

    def part_points(self, part: PartSection) -> tuple[int, int, int]:
        """Return the numbers of points of the uniform grid from which a part selects."""
        assert isinstance(part, InterpolatedPartSection)
        return part.points or self.output.uniform or self.grid.points()

    LATER: ClassVar[Mapping[str, Plain]] = {
        "model.gravity": [0.0, 0.0, 0.0],
        "model.source": list(ZERO),
        "model.viscosity_formula": "",
        "scalar.*.diffusivity_formula": "",
        "sponge": [],
        "scalar.*.expansion": 0.0,
        "scalar.*.reference": 0.0,
        "grid.mesh": "",
        **{f"grid.edges.{axis}": [] for axis in "xyz"},
        **{f"boundary.{side}.partner": "" for side in SIDES},
    }

    def coefficient_formulas(self) -> dict[str, str]:
        """Return the formulas of viscosity and diffusivities by their keys."""
        formulas = {"model.viscosity_formula": self.model.viscosity_formula}
        formulas |= {
            f"scalar.{i}.diffusivity_formula": scalar.diffusivity_formula
            for i, scalar in enumerate(self.scalar)
        }
        return {key: text for key, text in formulas.items() if text}

    def reference_coefficient(self, key: str) -> float:
        """Return the constant of a formula of `coefficient_formulas`."""
        scalar = key.split(".")[1] if key.startswith("scalar") else ""
        return self.scalar[int(scalar)].diffusivity if scalar else self.model.viscosity

    @property
    def is_plain_box(self) -> bool:
        """Whether the domain is a box along the axes."""
        return not self.grid.mesh and self.grid.mapping == "none"

    def side_names(self) -> tuple[str, ...]:
        """Return the sides that settings may name: the six of a box, or those with a kind of a mesh from a file."""
        return self.boundary.given() if self.grid.mesh else SIDES

    def is_periodic(self, side: str) -> bool:
        """Say whether the flow is periodic across a side, such as "x_min"."""
        if self.grid.mesh:
            return self.boundary.side(side).kind == "periodic"
        return self.grid.periodic[side_axis(side)[0]]

    def wall_sides(self) -> list[str]:
        """Return the names of the sides that are walls."""
        return [
            name for name in self.side_names() if self.boundary.side(name).kind in ("wall", "moving-wall")
        ]

    def walled_directions(self) -> list[str]:
        """Return the directions across initial.direction that have a wall at rest at both ends."""
        return [
            axis
            for axis in "xyz"
            if axis != self.initial.direction
            and all(self.boundary.side(f"{axis}_{end}").kind == "wall" for end in ("min", "max"))
        ]

    def conduction_axes(self, number: int) -> tuple[int, ...]:
        """Return the axes (0 = x) along which scalar `number` conducts heat between two sides of the box.

        They are those across which it is fixed at both sides, with different values. Only a scalar that acts on the
        flow has them, and only in a box along the axes.
        """
        scalar = self.scalar[number]
        if not self.is_plain_box or not scalar.expansion:
            return ()
        axes = []
        for axis, name in enumerate("xyz"):
            ends = (f"{name}_min", f"{name}_max")
            low, high = (getattr(scalar.boundary, end).value for end in ends)
            if all(self.scalar_kind(number, end) == "fixed" for end in ends) and low != high:
                axes.append(axis)
        return tuple(axes)

    def scalar_kind(self, number: int, side: str) -> ScalarKind | None:
        """Return the condition of scalar `number` at a side, with defaults; None if it is not given."""
        kind: ScalarKind | None = self.scalar[number].boundary.side(side).kind
        if kind is not None:
            return kind
        if self.is_periodic(side):
            return "periodic"
        flow = self.boundary.side(side).kind
        return "adiabatic" if flow in ("outflow", "symmetry") else None
