"""Settings of the physics of the wind model: closure, surface, rotation, driving force, turbines, profiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Protocol

from pydantic import Field

from ridgeline.config.fields import (
    ON,
    Checked,
    Integer,
    Number,
    PathText,
    Problem,
    Truth,
    setting,
)
from ridgeline.config.intervals import Scheduled, recurring, time_interval, wall_interval
from ridgeline.models.wind.settings_initial import InitialSection, Velocity

Positive = Annotated[Number, Field(gt=0)]
Wind = tuple[Number, Number]


class SubgridSection(Checked):
    """The closure of the motions that the grid does not resolve."""

    kind: Literal["none", "smagorinsky", "one-equation"] = setting(
        "none",
        'Subgrid closure: "none" (a laminar flow, or a direct simulation), "smagorinsky" (the eddy viscosity follows '
        'from the strain) or "one-equation" (an equation for the subgrid kinetic energy, after Deardorff 1980 and '
        "Moeng 1984).",
    )
    coefficient: Number | None = setting(
        None,
        "Coefficient of the eddy viscosity: C_s of Smagorinsky, 0.17 if it is not set, or C_k of the one-equation "
        "closure, 0.1 if it is not set.",
        rule="a number > 0",
        gt=0,
        needs={"kind": ("smagorinsky", "one-equation")},
    )
    prandtl: Number = setting(
        1 / 3,
        "Turbulent Prandtl number nu_t/kappa_t of the closure of Smagorinsky.",
        gt=0,
        needs={"kind": "smagorinsky"},
    )
    stratification: Truth = setting(
        True,
        "Whether a stable stratification weakens the eddy viscosity of Smagorinsky (Lilly 1962): |S|^2 becomes "
        "|S|^2 - N^2/Pr_t, and at least 0.",
        needs={"kind": "smagorinsky"},
    )
    wall_damping: Truth = setting(
        False,
        "Whether the mixing length of Smagorinsky is limited by the distance from the surface at z = 0 (Mason and "
        "Thomson 1992).",
        needs={"kind": "smagorinsky"},
    )
    initial_energy: Number = setting(
        0.1,
        "Subgrid kinetic energy of the initial state, below initial_height.",
        unit="length^2/time^2",
        ge=0,
        needs={"kind": "one-equation"},
    )
    initial_height: Number | None = setting(
        None,
        "Height up to which the initial subgrid kinetic energy decreases as (1 - z/initial_height)^3; if it is not "
        "set, the energy is the same everywhere.",
        unit="length",
        rule="a number > 0",
        gt=0,
        needs={"kind": "one-equation"},
    )

    def constant(self) -> float:
        """Return the coefficient of the eddy viscosity."""
        return self.coefficient or {"smagorinsky": 0.17, "one-equation": 0.1}.get(self.kind, 0.0)


class SurfaceSection(Checked):
    """The ground below z_min, by Monin-Obukhov similarity; for a side z_min of the kind "surface"."""

    roughness: Number = setting(0.1, "Roughness length z_0 for momentum.", unit="length", gt=0)
    roughness_heat: Number | None = setting(
        None,
        "Roughness length for heat; that for momentum if it is not set.",
        unit="length",
        rule="a number > 0",
        gt=0,
        needs={"heat": "temperature"},
    )
    heat: Literal["none", "flux", "temperature"] = setting(
        "none",
        'Exchange of heat with the ground: "none" (neutral), "flux" (heat_flux is given) or "temperature" (that of '
        "the ground is given).",
    )
    heat_flux: Number = setting(
        0.0,
        "Kinematic heat flux from the ground into the air, <w theta>.",
        unit="temperature length/time",
        needs={"heat": "flux"},
    )
    temperature: Number | None = setting(
        None,
        "Potential temperature of the ground at time 0.",
        unit="temperature",
        rule="a number > 0",
        gt=0,
        needs={"heat": "temperature"},
    )
    temperature_rate: Number = setting(
        0.0,
        "Rate at which the temperature of the ground changes, which is negative where the ground cools.",
        unit="temperature/time",
        needs={"heat": "temperature"},
    )
    distribution: Literal["moeng", "local", "uniform"] = setting(
        "moeng",
        'Distribution of stress and heat flux over the surface: "moeng" (Moeng 1984: the similarity of the plane '
        'means, distributed by the local wind and temperature), "local" (the similarity in each cell) or "uniform" '
        "(the mean flux in each cell).",
    )
    least_speed: Number = setting(
        0.1,
        "Least wind speed with which the similarity is evaluated, so that the heat flux of free convection does not "
        "vanish with the wind.",
        unit="length/time",
        gt=0,
    )
    von_karman: Number = setting(0.4, "Von Karman constant.", gt=0)
    stable: tuple[Positive, Positive] = setting(
        (5.0, 5.0),
        "Coefficients [momentum, heat] of the stable similarity functions phi = 1 + b z/L.",
        rule="two numbers > 0 as [momentum, heat]",
    )
    unstable: tuple[Positive, Positive] = setting(
        (16.0, 16.0),
        "Coefficients [momentum, heat] of the unstable similarity functions phi_m = (1 - g z/L)^(-1/4) and phi_h = "
        "(1 - g z/L)^(-1/2).",
        rule="two numbers > 0 as [momentum, heat]",
    )

    def problems(self) -> Iterator[Problem]:
        if self.heat == "temperature" and self.temperature is None:
            yield Problem("temperature", 'a number > 0 with surface.heat = "temperature"')
        momentum, heat = self.stable
        if heat < momentum / 2:
            yield Problem(
                "stable", "two numbers > 0, of which that of heat is at least half that of momentum"
            )


class TemperatureSection(Checked):
    """Potential temperature, and the buoyancy that it causes in the direction z."""

    enabled: Truth = setting(False, "Whether the model has a potential temperature theta and its buoyancy.")
    reference: Number = setting(
        300.0,
        "Reference temperature theta_0 in the buoyancy g (theta - theta_ref)/theta_0.",
        unit="temperature",
        gt=0,
        needs={"enabled": True},
    )
    gravity: Number = setting(9.81, "Gravity g, in -z.", unit="length/time^2", ge=0, needs={"enabled": True})
    heights: tuple[Number, ...] = setting(
        (),
        "Heights of the initial profile of theta, ascending; without them it is temperature.reference everywhere.",
        unit="length",
        rule="a list of ascending numbers",
        max_length=1000,
        needs={"enabled": True},
    )
    values: tuple[Number, ...] = setting(
        (),
        "Potential temperatures at temperature.heights, with straight lines between them; below the first and above "
        "the last height theta is constant.",
        unit="temperature",
        rule="a list of numbers, one for each of temperature.heights",
        max_length=1000,
        needs={"enabled": True},
    )
    subtracted: Literal["profile", "constant"] = setting(
        "profile",
        'Temperature theta_ref that the buoyancy subtracts: the initial "profile", with which an undisturbed '
        'atmosphere has no forces, or the "constant" temperature.reference. Only the pressure differs.',
        needs={"enabled": True},
    )
    diffusivity: Number = setting(
        0.0, "Molecular diffusivity of heat.", unit="length^2/time", ge=0, needs={"enabled": True}
    )

    def problems(self) -> Iterator[Problem]:
        if any(low >= high for low, high in pairwise(self.heights)):
            yield Problem("heights", "a list of ascending numbers")
        if len(self.values) != len(self.heights):
            yield Problem(
                "values", f"a list of {len(self.heights)} numbers, one for each of temperature.heights"
            )


class RotationSection(Checked):
    """The rotation of the frame: -2 Omega x u, with x to the east, y to the north and z up."""

    latitude: Number | None = setting(
        None,
        "Latitude, from which the Coriolis parameters follow.",
        unit="degrees",
        rule="a number from -90 to 90",
        ge=-90,
        le=90,
    )
    rate: Number = setting(
        7.2921159e-5,
        "Angular velocity of the Earth.",
        unit="1/time",
        ge=0,
        needs={"latitude": ON},
    )
    parameter: Number | None = setting(
        None,
        "Coriolis parameter f = 2 Omega sin(latitude), in place of the latitude.",
        unit="1/time",
        rule="a number",
    )
    components: Literal["horizontal", "full"] = setting(
        "horizontal",
        'Parts of the Coriolis force: "horizontal" (f alone) or "full" (also the terms with 2 Omega cos(latitude), '
        "which couple u and w).",
        needs={"latitude": ON},
    )

    def problems(self) -> Iterator[Problem]:
        if self.latitude is not None and self.parameter is not None:
            yield Problem("parameter", "left out with rotation.latitude, which determines it")

    def coriolis(self) -> tuple[float, float]:
        """Return 2 Omega sin(latitude) and 2 Omega cos(latitude), 0 for what is not included."""
        if self.latitude is None:
            return self.parameter or 0.0, 0.0
        angle = math.radians(self.latitude)
        full = self.components == "full"
        return 2 * self.rate * math.sin(angle), 2 * self.rate * math.cos(angle) if full else 0.0


class DrivingSection(Checked):
    """The force that drives the wind."""

    kind: Literal["none", "force", "geostrophic", "hub-height"] = setting(
        "none",
        'Driving force: "none", "force" (a constant force per mass, such as a pressure gradient), "geostrophic" (the '
        'pressure gradient that balances the Coriolis force at the geostrophic wind) or "hub-height" (a uniform '
        "force that brings the mean wind at a height to a target).",
    )
    force: Velocity = setting(
        (0.0, 0.0, 0.0),
        "Force per mass [f_x, f_y, f_z].",
        unit="length/time^2",
        rule="three numbers as [f_x, f_y, f_z]",
        needs={"kind": "force"},
    )
    geostrophic_wind: Wind = setting(
        (0.0, 0.0),
        "Geostrophic wind [u, v].",
        unit="length/time",
        rule="two numbers as [u, v]",
        needs={"kind": "geostrophic"},
    )
    target: Wind = setting(
        (0.0, 0.0),
        "Mean wind [u, v] that the flow shall have at driving.height.",
        unit="length/time",
        rule="two numbers as [u, v]",
        needs={"kind": "hub-height"},
    )
    height: Number | None = setting(
        None,
        "Height of the target wind, between the centres of the lowest and the highest cells.",
        unit="length",
        rule="a number > 0",
        gt=0,
        needs={"kind": "hub-height"},
    )
    relaxation_time: Number | None = setting(
        None,
        "Time in which the force brings the mean wind to its target. If it is shorter than the time step or not set, "
        "it is the time step.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"kind": "hub-height"},
    )

    def problems(self) -> Iterator[Problem]:
        if self.kind == "hub-height" and self.height is None:
            yield Problem("height", 'a number > 0 with driving.kind = "hub-height"')


class DampingSection(Checked):
    """A Rayleigh layer below the top of the domain, which absorbs gravity waves."""

    depth: Number = setting(0.0, "Depth of the layer; 0 for none.", unit="length", ge=0)
    time: Number | None = setting(
        None,
        "Damping time at the top; the rate grows as sin^2 from the lower end of the layer.",
        unit="time",
        rule="a number > 0",
        gt=0,
        needs={"depth": ON},
    )
    velocity: Literal["vertical", "all"] = setting(
        "vertical",
        'Velocity that is damped: "vertical" (w, towards 0) or "all" (also u and v, towards the geostrophic or the '
        "target wind of [driving]).",
        needs={"depth": ON},
    )
    temperature: Truth = setting(
        True,
        "Whether theta is damped as well, towards its initial profile.",
        needs={"depth": ON, "temperature.enabled": True},
    )

    def problems(self) -> Iterator[Problem]:
        if self.depth and self.time is None:
            yield Problem("time", "a number > 0 with damping.depth > 0")


class TurbineSection(Checked):
    """A wind turbine as an actuator disc: a force on the cells around its rotor."""

    position: Velocity = setting(
        ..., "Centre of the rotor, [x, y, z].", unit="length", rule="three numbers as [x, y, z]"
    )
    diameter: Number = setting(..., "Diameter of the rotor, at least two cells.", unit="length", gt=0)
    thrust_coefficient: Number = setting(
        ...,
        "Thrust coefficient: C_T or C_T', as turbine.N.reference says.",
        ge=0,
    )
    reference: Literal["upstream", "disc"] = setting(
        "upstream",
        'Speed to which the thrust coefficient refers: "upstream" (C_T; the undisturbed speed follows from the speed '
        'at the disc by momentum theory, so that C_T < 1) or "disc" (the local C_T\' = C_T/(1 - a)^2).',
    )
    yaw: Number = setting(
        0.0,
        "Angle from the direction x to the axis of the rotor, towards y.",
        unit="degrees",
        ge=-360,
        le=360,
    )
    kernel: Literal["gaussian", "top-hat"] = setting(
        "gaussian",
        'Weights of cells: "gaussian" (a Gaussian along the axis, and a disc with smooth edge) or "top-hat" (equal '
        "weights in a disc of the thickness turbine.N.width; its edge is smooth over a cell).",
    )
    width: Number | None = setting(
        None,
        "Width of the kernel along the axis: the standard deviation of the Gaussian, or the thickness of the top "
        "hat. If it is not set, it is the width of a cell along the axis, or twice that for the top hat.",
        unit="length",
        rule="a number > 0",
        gt=0,
    )
    density: Number = setting(
        1.225, "Density of air, for the thrust and the power in the time series.", unit="mass/length^3", gt=0
    )

    def problems(self) -> Iterator[Problem]:
        if self.reference == "upstream" and self.thrust_coefficient >= 1:
            yield Problem("thrust_coefficient", 'a number >= 0 and < 1 with turbine.N.reference = "upstream"')

    def axis(self) -> Velocity:
        """Return the direction (x, y, z) of the axis, along which the rotor faces away from the wind."""
        yaw = math.radians(self.yaw)
        return math.cos(yaw), math.sin(yaw), 0.0

    def local_coefficient(self) -> float:
        """Return C_T', from C_T = 4 a (1 - a) by momentum theory where C_T is given."""
        if self.reference == "disc":
            return self.thrust_coefficient
        induction = (1 - math.sqrt(1 - self.thrust_coefficient)) / 2
        return self.thrust_coefficient / (1 - induction) ** 2


class ProfileSettings(Scheduled):
    """Settings of profiles in height, which the section [output] of the model derives from."""

    profiles: PathText = setting(
        "profiles.bp",
        "Data set of profiles in height: means over x and y and over the time of a window, variances, fluxes and "
        "subgrid stresses.",
        rule="a path",
        min_length=1,
        needs=recurring("profiles_every"),
    )
    profiles_every: Integer = setting(
        0,
        "Number of steps between samples of the profiles; 0 takes none.",
        unit="steps",
        ge=0,
    )
    profiles_every_time: Number | None = time_interval("samples of the profiles")
    profiles_every_wall: Number | None = wall_interval("samples of the profiles")
    profiles_window: Integer = setting(
        0,
        "Number of steps between the ends of windows, each of which is written as it ends, with averages over it "
        "alone. With 0 there is one window unless profiles_window_time is set, which is written when the run ends.",
        unit="steps",
        ge=0,
        needs=recurring("profiles_every"),
    )
    profiles_window_time: Number | None = time_interval(
        "the ends of windows of the profiles", recurring("profiles_every")
    )
    profiles_start: Number = setting(
        0.0,
        "Model time from which the profiles are sampled.",
        unit="time",
        ge=0,
        needs=recurring("profiles_every"),
    )


class PhysicsSettings(Protocol):
    """The sections of this file in the case of the model, in which repeated tables are tuples."""

    @property
    def subgrid(self) -> SubgridSection: ...
    @property
    def surface(self) -> SurfaceSection: ...
    @property
    def temperature(self) -> TemperatureSection: ...
    @property
    def rotation(self) -> RotationSection: ...
    @property
    def driving(self) -> DrivingSection: ...
    @property
    def damping(self) -> DampingSection: ...
    @property
    def turbine(self) -> tuple[TurbineSection, ...]: ...
    @property
    def initial(self) -> InitialSection: ...


def physics_problems(
    case: PhysicsSettings,
    lengths: Velocity,
    shape: tuple[int, int, int],
    periodic: tuple[bool, bool, bool],
    has_surface: bool,
    scalars: int,
) -> Iterator[Problem]:
    """Yield the rules between these sections, the grid and the sides that a case breaks.

    lengths, shape, periodic: of the domain in z, y and x; has_surface: whether the side z_min is a surface; scalars:
    number of passive scalars.
    """
    if case.surface.heat != "none" and has_surface and not case.temperature.enabled:
        yield Problem("surface.heat", '"none" without temperature.enabled = true')
    if case.driving.kind == "geostrophic" and case.rotation.coriolis()[0] == 0:
        yield Problem("rotation.parameter", 'a number other than 0 with driving.kind = "geostrophic"')
    half = lengths[0] / shape[0] / 2
    height = case.driving.height
    if case.driving.kind == "hub-height" and height is not None and not half <= height <= lengths[0] - half:
        yield Problem(
            "driving.height", f"a number from {half:g} to {lengths[0] - half:g}, between centres of cells"
        )
    if case.damping.depth > lengths[0]:
        yield Problem("damping.depth", f"a number <= {lengths[0]:g}, the height of the domain")
    if case.damping.depth and periodic[0]:
        yield Problem("damping.depth", "0 in a domain that is periodic in z")
    if case.initial.kind == "bubble" and not case.temperature.enabled:
        yield Problem("initial.kind", 'another one than "bubble" without temperature.enabled = true')
    if len(case.initial.scalars) > scalars:
        yield Problem("initial.scalars", f"a list of at most {scalars} formulas, one for each passive scalar")
    if half <= case.surface.roughness and has_surface:
        yield Problem(
            "surface.roughness", f"a number below {half:g}, the height of the centres of the lowest cells"
        )
    rough = case.surface.roughness_heat
    if rough is not None and half <= rough and has_surface:
        yield Problem(
            "surface.roughness_heat", f"a number below {half:g}, half the height of the lowest cells"
        )
    yield from turbine_problems(case.turbine, lengths, shape, periodic)


def turbine_problems(
    turbines: Sequence[TurbineSection],
    lengths: Velocity,
    shape: tuple[int, int, int],
    periodic: tuple[bool, bool, bool],
) -> Iterator[Problem]:
    """Yield the turbines whose rotors do not lie in the domain, or are finer than the cells.

    lengths, shape, periodic: of the domain in z, y and x.
    """
    dz, dy, dx = (length / n for length, n in zip(lengths, shape, strict=True))
    for n, turbine in enumerate(turbines):
        axis = turbine.axis()
        largest, along_axis = max(dz, dy, dx), dx * abs(axis[0]) + dy * abs(axis[1])
        if turbine.diameter < 2 * largest:
            yield Problem(
                f"turbine.{n}.diameter", f"a number >= {2 * largest:g}, twice the largest width of a cell"
            )
        if turbine.width is not None and turbine.width < along_axis / 2:
            rule = f"a number >= {along_axis / 2:g}, half the width of a cell along the axis"
            yield Problem(f"turbine.{n}.width", rule)
        for name, place, length, wraps, along in zip(
            "xyz", turbine.position, lengths[::-1], periodic[::-1], axis, strict=True
        ):
            half = 0.5 * turbine.diameter * math.sqrt(max(1 - along**2, 0.0))
            if wraps and (2 * half > length or not 0 <= place <= length):
                rule = f"in the domain, whose length in {name} is {length:g}, with a rotor no wider than it"
                yield Problem(f"turbine.{n}.position", rule)
            elif not wraps and not half <= place <= length - half:
                inside = f"at least {half:g} from the sides in {name}, at 0 and {length:g}"
                yield Problem(f"turbine.{n}.position", f"{inside}, so that the rotor is in the domain")
