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
    Integer,
    Number,
    Problem,
    Truth,
    setting,
)
from ridgeline.elements.mesh import SIDES, side_axis
from ridgeline.models.navier_stokes.case_sections.boundary import (
    ZERO,
    BoundarySection,
    Formulas,
    ScalarKind,
    ScalarSection,
)
from ridgeline.models.navier_stokes.case_sections.grid import GridSection
from ridgeline.models.navier_stokes.case_sections.output import Direction, OutputSection, ProbeSection
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

    model: Literal["navier_stokes"] = setting(..., "Model to run; `ridgeline explain` lists them.")
    seed: sections.Seed = sections.seed_setting(
        "Seed of the random phases of a perturbation, which is the same for any number of ranks.",
        {"initial.kind": ("perturbed-duct", "perturbed-channel")},
    )
    precision: Literal["float64"] = setting(
        "float64",
        "Floating-point type of the fields; the preconditioner has its own (model.pressure.precision).",
    )
    threads: Literal[1] = setting(
        1, "Threads of each rank: this model takes one rank per core.", unit="threads"
    )
    device: Literal["cpu", "cuda"] = setting("cpu", "Where the kernels run.")


class FilterSection(Checked):
    """An explicit filter of the highest modes of each element after each step; off by default."""

    weight: Number = setting(0.0, "Share of the highest mode that is removed; 0 filters nothing.", ge=0, le=1)
    modes: Integer = setting(
        1,
        "Highest modes that are damped, by shares that fall quadratically to 0 below them.",
        unit="modes",
        ge=1,
        needs={"weight": ON},
    )


class PressureSection(Checked):
    """Solution of the pressure equation."""

    solver: Literal["gmres", "cg"] = setting("gmres", "Krylov method; both are flexible.")
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
        "float32",
        "Floating-point type of the preconditioner.",
        needs={"preconditioner": "schwarz"},
    )
    coarse: Literal["auto", "direct", "amg"] = setting(
        "auto",
        'Solver of the coarse vertex problem: "direct" for axis-aligned boxes, whole on every rank; "amg" for any '
        'mesh, spread over the ranks; "auto" takes "direct" for boxes with at most 4096 unknowns.',
        needs={"preconditioner": "schwarz"},
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
    """The force f that drives the flow."""

    kind: Literal["none", "force", "flow-rate"] = setting(
        "none",
        '"force": the given f; "flow-rate": a uniform force that keeps the bulk velocity, adjusted in each step.',
    )
    value: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        'Constant f = [f_x, f_y, f_z] of kind "force".',
        unit="length/time^2",
        rule="three numbers as [f_x, f_y, f_z]",
        needs={"kind": "force"},
    )
    direction: Direction = setting(
        "x",
        "Direction of a flow rate, which must be periodic.",
        needs={"kind": "flow-rate"},
    )
    bulk_velocity: Number | None = setting(
        None,
        "Mean of the velocity over the volume, which is kept.",
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
        "Time step, unless courant sets it. `ridgeline check` gives its Courant number for the flow of step 0.",
        unit="time",
        rule="a number > 0, or model.courant instead",
        gt=0,
    )
    courant: Number | None = setting(
        None,
        "Courant number dt max(|u|/dx + |v|/dy + |w|/dz) that sets the time step instead of dt. The step "
        f"changes when the number is {100 * BAND:g} % away.",
        rule=f"a number > 0 and <= {LARGEST_COURANT:g}, or model.dt instead",
        gt=0,
        le=LARGEST_COURANT,
    )
    dt_min: Number | None = setting(
        None,
        "Shortest time step with model.courant. A flow that is too fast for it ends the run. Not set: no limit.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"courant": ON},
    )
    dt_max: Number | None = setting(
        None,
        "Longest time step with model.courant, also that of a flow at rest. Not set: no limit.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"courant": ON},
    )
    dt_change: Number = setting(
        1.25,
        "Largest factor by which model.courant makes a time step longer or shorter than the one before.",
        rule=f"a number > 1 and <= {MOST_CHANGE:g}, which the third order stands",
        gt=1,
        le=MOST_CHANGE,
        needs={"courant": ON},
    )
    time_order: Literal[1, 2, 3] = setting(3, "Order of backward differences and extrapolation.")

    def problems(self) -> Iterator[Problem]:
        if (self.dt is None) == (self.courant is None):
            yield Problem("courant", "exactly one of model.dt and model.courant")
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

    f: the forcing, and the buoyancy of scalars with an expansion.

    Backward differences for Stokes terms, extrapolation for the others (NekBox paper, Eqs. 1-4).
    """

    viscosity: Number = setting(..., "Kinematic viscosity nu.", unit="length^2/time", gt=0)
    expected_re_tau: Number | None = setting(
        None,
        "Friction Reynolds number u_tau h/nu that is expected: `ridgeline check` gives the distances of points in "
        'wall units. With walls and a forcing of kind "force" it follows from the force.',
        rule="a number > 0",
        gt=0,
    )
    dealias_order: Literal["none"] | Annotated[Integer, Field(ge=0, le=128)] = setting(
        0,
        "Gauss points in each direction on which the advection is integrated: 0 takes ceil(3 (p + 1)/2), the 3/2 "
        'rule; "none" takes the points of the elements.',
        unit="points",
        rule='0, an integer >= grid.order + 1 and <= 128, or "none"',
    )
    products: Literal["generated", "plain"] = setting(
        "generated", "Small matrix products: code generated for their sizes, or plain loops for comparison."
    )
    overlap: Truth = setting(
        True,
        "Whether messages to neighbours travel while elements are computed; false waits for them, for comparison.",
    )
    gravity: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        "Gravity g = [g_x, g_y, g_z] of the buoyancy of scalars with an expansion.",
        unit="length/time^2",
        rule="three numbers as [g_x, g_y, g_z]",
        needs={"scalar.N.expansion": ON},
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
        'it turbulent; "channel" and "perturbed-channel": the same between two walls.',
    )
    velocity: Formulas = setting(
        ZERO,
        'Velocity of kinds "uniform" and "expression", wind of "walsh" (numbers only).',
        unit="length/time",
        rule="three numbers or formulas of x, y, z as [x, y, z]",
        needs={"kind": ("uniform", "expression", "walsh")},
    )
    speed: Number = setting(
        1.0,
        "V of the vortices; bulk velocity of a duct or channel.",
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
        "a of Ethier and Steinman.",
        unit="1/length",
        needs={"kind": "ethier_steinman"},
    )
    d: Number = setting(
        math.pi / 2,
        "d of Ethier and Steinman.",
        unit="1/length",
        needs={"kind": "ethier_steinman"},
    )
    direction: Direction = setting(
        "x",
        "Direction along a duct or channel.",
        needs={"kind": ("duct", "perturbed-duct", "channel", "perturbed-channel")},
    )
    perturbation: Number = setting(
        0.1,
        "Largest velocity of a perturbation of a duct or channel over the bulk velocity.",
        ge=0,
        needs={"kind": ("perturbed-duct", "perturbed-channel")},
    )
    exact_history: Truth = setting(
        True,
        "Whether a kind that is an exact solution also gives the velocities before step 0, so that the first steps "
        "have full order; otherwise they are of order 1, 2, ...",
        needs={"kind": EXACT_KINDS},
    )

    def problems(self) -> Iterator[Problem]:
        yield from faults("velocity", self.velocity, steady=True)
        if self.kind == "walsh" and not all(is_number(text) for text in self.velocity):
            yield Problem("velocity", 'three numbers as [x, y, z] with initial.kind = "walsh"')


class NavierStokesSettings(AnyCase):
    """All sections of one run, without the rules between them, which read this class."""

    # A run may continue with another time step, tolerance or solver, but not as another flow or on other elements.
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
    START: ClassVar[tuple[str, ...]] = ("initial", "scalar.*.initial")

    run: RunSection
    grid: GridSection
    model: ModelSection
    boundary: BoundarySection = Field(default_factory=BoundarySection)
    scalar: tuple[ScalarSection, ...] = Field(default=())
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

    LATER: ClassVar[Mapping[str, Plain]] = {
        "model.gravity": [0.0, 0.0, 0.0],
        "scalar.*.expansion": 0.0,
        "scalar.*.reference": 0.0,
        "grid.mesh": "",
        **{f"boundary.{side}.partner": "" for side in SIDES},
    }

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
