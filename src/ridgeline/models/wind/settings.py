"""Settings of the wind model: grid, sides, scalars and scheme; those of the physics are in settings_physics.py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ridgeline.config import sections
from ridgeline.config.case import AnyCase
from ridgeline.config.expressions import VARIABLES, faults, parse
from ridgeline.config.fields import Checked, FormulaText, Number, PathText, Problem, choices, setting
from ridgeline.config.part_selection import UniformGrid
from ridgeline.config.parts import PartSection
from ridgeline.models.wind.problem import GHOST, SIDES, VELOCITIES
from ridgeline.models.wind.settings_initial import InitialSection
from ridgeline.models.wind.settings_physics import (
    DampingSection,
    DrivingSection,
    ProfileSettings,
    RotationSection,
    SubgridSection,
    SurfaceSection,
    TemperatureSection,
    TurbineSection,
    physics_problems,
)

Positive = Annotated[Number, Field(gt=0)]
Formula = Annotated[FormulaText, Field(min_length=1, max_length=2000)]
LEAST_CELLS = GHOST + 1  # in each direction
MOST_SCALARS = 16
ENERGY = "subgrid_energy"
NAME_RULE = "a letter and then letters, digits and underscores, and not the name of another field"


class RunSection(sections.RunSection):
    """What runs, how long, in which precision and on what."""

    model: Literal["wind"] = setting(..., "Model to run. `ridgeline explain` lists the models.")
    precision: Literal["float64"] = setting("float64", "Floating-point type of the fields.")
    device: Literal["cpu", "cuda"] = setting(
        "cpu",
        'Device on which the kernels run. "cuda" is for explicit diffusion and multigrid, with periodic sides, walls '
        "and the ground, and without turbines.",
    )


class GridSection(sections.DividedGridSection):
    """The uniform grid and how ranks share it, in blocks."""

    lengths: tuple[Positive, Positive, Positive] = setting(
        ...,
        "Lengths of the domain, [Lz, Ly, Lx]. Cells have the widths lengths/shape, and cell i is at (i + 1/2) h.",
        unit="length",
        rule="three numbers > 0 as [Lz, Ly, Lx]",
    )

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if min(self.shape) < LEAST_CELLS:
            yield Problem(
                "shape", f"three integers >= {LEAST_CELLS} as [nz, ny, nx]; a flow in two dimensions has "
                f"{LEAST_CELLS} cells in the third"
            )  # fmt: skip

    def spacing(self) -> tuple[float, float, float]:
        """Return the widths of a cell in z, y and x."""
        z, y, x = (length / n for length, n in zip(self.lengths, self.shape, strict=True))
        return z, y, x


class ModelSection(Checked):
    """The incompressible Boussinesq equations and the scheme that solves them."""

    viscosity: Number = setting(0.0, "Molecular kinematic viscosity.", unit="length^2/time", ge=0)
    dt: Number | None = setting(
        None,
        "Time step, unless model.courant chooses it.",
        unit="time",
        rule="a number > 0, or model.courant instead",
        gt=0,
    )
    courant: Number | None = setting(
        None,
        "Courant number dt max(|u|/dx, |v|/dy, |w|/dz) that chooses each time step. Explicit diffusion shortens it "
        "where necessary.",
        rule="a number > 0 and <= 1, or model.dt instead",
        gt=0,
        le=1,
    )
    dt_max: Number | None = setting(
        None,
        "Longest time step that model.courant may choose, which a flow that starts from rest needs.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"courant": ()},
    )
    advection: Literal["godunov", "method-of-lines"] = setting(
        "godunov",
        'Scheme of advection: "godunov" (states at faces half a step later, one projection of each kind a step) or '
        '"method-of-lines" (Heun\'s scheme, which makes both projections twice).',
    )
    reconstruction: Literal["ppm", "ppm-unlimited", "plm"] = setting(
        "ppm",
        'Profile in each cell: "ppm" (limited parabolas), "ppm-unlimited" (parabolas that may overshoot) or "plm" '
        "(limited lines).",
    )
    diffusion: Literal["explicit", "crank-nicolson"] = setting(
        "explicit",
        'Scheme of diffusion: "explicit" (Heun\'s scheme) or "crank-nicolson" (implicit, for viscosities, '
        "molecular or of a closure, that would limit the time step).",
    )
    solver: Literal["multigrid", "direct"] = setting(
        "multigrid",
        'Solver of the Poisson problems: "multigrid", or "direct" (by diagonalisation on one rank, for grids of '
        "about 100 cells in each direction at most).",
    )
    tolerance: Number = setting(
        1e-9,
        "Largest divergence that the projections leave, over the largest rate |u|/dx at which fluid crosses a cell.",
        gt=0,
        le=1e-2,
    )

    def problems(self) -> Iterator[Problem]:
        if (self.dt is None) == (self.courant is None):
            yield Problem("courant", "set if model.dt is left out, and left out if model.dt is set")


class ScalarSection(Checked):
    """A passive scalar."""

    name: Annotated[str, Field(min_length=1, max_length=50)] = setting(
        ..., "Name of the scalar in the outputs.", rule=NAME_RULE
    )
    diffusivity: Number = setting(0.0, "Molecular diffusivity.", unit="length^2/time", ge=0)


class SideSection(Checked):
    """What lies beyond this side of the domain."""

    kind: Literal["periodic", "wall", "slip", "inflow", "outflow", "surface"] = setting(
        "periodic",
        'Condition at the side: "periodic", "wall" (no slip), "slip" (no stress and no flow across), "inflow" '
        '(velocity is given), "outflow" (pressure 0 and no gradients), or for z_min "surface" (the ground of '
        "[surface]).",
    )
    velocity: tuple[Formula, Formula, Formula] = setting(
        ("0", "0", "0"),
        "Velocity [u, v, w] at the side: numbers or formulas of x, y, z and t. That of a wall is along the wall.",
        unit="length/time",
        rule="three numbers or formulas as [u, v, w]",
        needs={"kind": ("wall", "inflow")},
    )
    theta: Formula | None = setting(
        None,
        "Potential temperature at the side, a number or a formula of x, y, z and t. If it is not set, "
        "theta_flux counts.",
        unit="temperature",
        rule="a number or a formula",
        needs={"kind": ("wall", "slip", "inflow")},
    )
    theta_flux: Formula = setting(
        "0",
        "Kinematic heat flux into the domain, a number or a formula of x, y, z and t.",
        unit="temperature length/time",
        rule="a number or a formula",
        needs={"kind": ("wall", "slip")},
    )
    scalars: tuple[Formula, ...] = setting(
        (),
        "Passive scalars at the side, in their order; the flux of those that are left out is 0.",
        rule="a list of numbers or formulas",
        max_length=MOST_SCALARS,
        needs={"kind": ("wall", "slip", "inflow")},
    )

    def problems(self) -> Iterator[Problem]:
        names = VARIABLES
        yield from faults("velocity", self.velocity, variables=names)
        yield from faults("theta", (self.theta or "0",), variables=names)
        yield from faults("theta_flux", (self.theta_flux,), variables=names)
        yield from faults("scalars", self.scalars, variables=names)


class BoundarySection(Checked):
    """The sides of the domain, which are periodic unless they have a table. Both sides of a direction need one."""

    x_min: SideSection = Field(default_factory=SideSection)
    x_max: SideSection = Field(default_factory=SideSection)
    y_min: SideSection = Field(default_factory=SideSection)
    y_max: SideSection = Field(default_factory=SideSection)
    z_min: SideSection = Field(default_factory=SideSection)
    z_max: SideSection = Field(default_factory=SideSection)

    def side(self, name: str) -> SideSection:
        """Return the section of one of SIDES."""
        section: SideSection = getattr(self, name)
        return section

    def periodic(self) -> tuple[bool, bool, bool]:
        """Return whether z, y and x are periodic."""
        z, y, x = (self.side(f"{axis}_min").kind == "periodic" for axis in "zyx")
        return z, y, x


class OutputSection(ProfileSettings, sections.FieldsOutputSection):
    """The data set, the time series and profiles in height. Paths are relative to the directory of the start."""

    path: PathText = setting(
        "wind.bp", "Data set to which the fields are written.", rule="a path", min_length=1
    )
    variables: tuple[str, ...] = setting(
        VELOCITIES,
        'Fields to write: "u", "v", "w", "theta", "pressure", passive scalars, and "subgrid_energy" of the '
        "one-equation closure.",
        rule="a list of names of fields, each at most once",
        min_length=1,
        max_length=MOST_SCALARS + 6,
    )

    def written(self) -> dict[str, str]:
        profiles = {"output.profiles": self.profiles} if self.interval("profiles_every") else {}
        return super().written() | profiles


class WindCase(AnyCase):
    """Settings of one run of the wind model."""

    PHYSICS: ClassVar[tuple[str, ...]] = (
        *AnyCase.PHYSICS,
        "grid.lengths",
        "model",
        "boundary",
        "scalar",
        "subgrid",
        "surface",
        "temperature",
        "rotation",
        "driving",
        "damping",
        "turbine",
        "initial",
    )

    run: RunSection
    grid: GridSection
    model: ModelSection
    boundary: BoundarySection = Field(default_factory=BoundarySection)
    scalar: tuple[ScalarSection, ...] = Field(default=())
    temperature: TemperatureSection = Field(default_factory=TemperatureSection)
    subgrid: SubgridSection = Field(default_factory=SubgridSection)
    surface: SurfaceSection = Field(default_factory=SurfaceSection)
    rotation: RotationSection = Field(default_factory=RotationSection)
    driving: DrivingSection = Field(default_factory=DrivingSection)
    damping: DampingSection = Field(default_factory=DampingSection)
    turbine: tuple[TurbineSection, ...] = Field(default=())
    initial: InitialSection = Field(default_factory=InitialSection)
    output: OutputSection = Field(default_factory=OutputSection)

    def passive(self) -> tuple[str, ...]:
        """Return the names of the passive scalars."""
        return tuple(each.name for each in self.scalar)

    def transported(self) -> tuple[str, ...]:
        """Return the names of all transported scalars: theta, passive scalars, and the subgrid energy."""
        theta = ("theta",) if self.temperature.enabled else ()
        energy = (ENERGY,) if self.subgrid.kind == "one-equation" else ()
        return (*theta, *self.passive(), *energy)

    def has_surface(self) -> bool:
        """Whether the lower side is the ground."""
        return self.boundary.z_min.kind == "surface"

    def output_names(self) -> tuple[str, ...]:
        return (*VELOCITIES, *self.transported(), "pressure")

    def step_length(self) -> float:
        """Return model.dt, or what model.courant chooses for the wind that the settings name; NaN without one."""
        m = self.model
        if m.courant is None:
            return m.dt or math.nan
        winds = [*self.initial.velocity, *self.driving.geostrophic_wind, *self.driving.target]
        speed = max(abs(each) for each in winds)
        longest = m.dt_max or math.inf
        if not speed:
            return m.dt_max or math.nan
        return min(m.courant * min(self.grid.spacing()) / speed, longest)

    def assumption(self) -> str:
        return (
            "" if self.model.courant is None else ", assumed from model.courant and the wind of the settings,"
        )

    def part_grid(self, part: PartSection) -> UniformGrid:
        h = self.grid.spacing()
        return UniformGrid(self.grid.shape, (h[0] / 2, h[1] / 2, h[2] / 2), h)

    def problems(self) -> Iterator[Problem]:
        """Yield the rules between sections that these values break."""
        names = self.output_names()
        listed = self.output.variables
        if not set(listed) <= set(names) or len(set(listed)) < len(listed):
            yield Problem("output.variables", f"a list of {choices(names)}, each at most once")
        taken = {*VELOCITIES, "theta", "pressure", ENERGY, "node_pressure"}
        for n, name in enumerate(self.passive()):
            if name in taken or not name.isidentifier() or not name.isascii():
                yield Problem(f"scalar.{n}.name", NAME_RULE)
            taken.add(name)
        if len(self.scalar) > MOST_SCALARS:
            yield Problem("scalar", f"at most {MOST_SCALARS} tables [[scalar]]")
        sides = list(self._side_problems())
        yield from sides
        if not sides:
            yield from physics_problems(
                self,
                self.grid.lengths,
                self.grid.shape,
                self.boundary.periodic(),
                self.has_surface(),
                len(self.scalar),
            )
        m = self.model
        if m.diffusion == "crank-nicolson" and self.subgrid.kind != "none":
            if m.advection == "method-of-lines":
                yield Problem("model.diffusion", '"explicit" with a subgrid closure and the method of lines')
            elif m.solver == "direct":
                yield Problem(
                    "model.solver",
                    '"multigrid" with "crank-nicolson" and a subgrid closure, whose viscosity varies',
                )
        if self.run.device == "cuda":
            yield from self._device_problems()
        limit = self.diffusive_step()
        if m.dt is not None and m.diffusion == "explicit" and m.dt > limit:
            yield Problem(
                "model.dt", f'at most {limit:.4g}, the limit of explicit diffusion, or "crank-nicolson"'
            )

    def _device_problems(self) -> Iterator[Problem]:
        """Yield what has no kernels for GPUs."""
        reason = 'with run.device = "cuda", because there are no GPU kernels for it'
        if self.model.solver != "multigrid":
            yield Problem("model.solver", f'"multigrid" {reason.replace("for it", "for direct solvers")}')
        if self.model.diffusion != "explicit":
            yield Problem(
                "model.diffusion", f'"explicit" {reason.replace("for it", "for implicit diffusion")}'
            )
        if self.turbine:
            yield Problem(
                "run.device", '"cpu" with [[turbine]], because there are no GPU kernels for turbines'
            )
        if self.driving.kind == "hub-height":
            yield Problem("driving.kind", f'another one than "hub-height" {reason}')
        for name in SIDES:
            side = self.boundary.side(name)
            if side.kind in ("inflow", "outflow"):
                yield Problem(f"boundary.{name}.kind", f'another one than "{side.kind}" {reason}')
            texts = {
                "velocity": side.velocity,
                "theta": (side.theta or "0",),
                "theta_flux": (side.theta_flux,),
            }
            for key, formulas in (*texts.items(), ("scalars", side.scalars)):
                if any(parse(text, VARIABLES).variables for text in formulas):
                    yield Problem(
                        f"boundary.{name}.{key}",
                        f"numbers {reason.replace('for it', 'for formulas of sides')}",
                    )

    def diffusive_step(self) -> float:
        """Return the longest step with which explicit molecular diffusion is stable."""
        scalars = [self.temperature.diffusivity] if self.temperature.enabled else []
        largest = max(self.model.viscosity, *scalars, *(each.diffusivity for each in self.scalar), 0.0)
        rate = 2.0 * largest * sum(1 / h**2 for h in self.grid.spacing())
        return 1.0 / rate if rate else math.inf

    def _side_problems(self) -> Iterator[Problem]:
        for axis in "xyz":
            low, high = f"{axis}_min", f"{axis}_max"
            if (self.boundary.side(low).kind == "periodic") != (self.boundary.side(high).kind == "periodic"):
                yield Problem(
                    f"boundary.{high}.kind", f'"periodic" exactly if boundary.{low}.kind is "periodic"'
                )
        kinds = {name: self.boundary.side(name).kind for name in SIDES}
        for name, kind in kinds.items():
            section = self.boundary.side(name)
            if kind == "surface" and name != "z_min":
                yield Problem(f"boundary.{name}.kind", 'another one than "surface", which is for z_min alone')
            if kind == "inflow" and self.temperature.enabled and section.theta is None:
                yield Problem(f"boundary.{name}.theta", 'a number or a formula with kind = "inflow"')
            if kind == "inflow" and len(section.scalars) != len(self.scalar):
                yield Problem(f"boundary.{name}.scalars", f"a list of {len(self.scalar)} numbers or formulas")
            if len(section.scalars) > len(self.scalar):
                yield Problem(f"boundary.{name}.scalars", f"a list of at most {len(self.scalar)} formulas")
        if "inflow" in kinds.values() and "outflow" not in kinds.values():
            first = next(name for name, kind in kinds.items() if kind == "inflow")
            yield Problem(
                f"boundary.{first}.kind", 'another one than "inflow" without a side of kind "outflow"'
            )


CASE = WindCase
