"""Settings of the sides of the domain, for the flow and for scalars, and of the scalars themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from ridgeline.config.expressions import faults
from ridgeline.config.fields import ON, Checked, FormulaText, Number, Problem, setting

Name = Annotated[str, Field(max_length=100)]
NAME_RULE = "the name of a side of the mesh"
Formulas = tuple[FormulaText, FormulaText, FormulaText]
ALONE = "none"  # the target of a scalar that a sponge leaves alone
ZERO: tuple[str, str, str] = ("0", "0", "0")

SideKind = Literal["wall", "moving-wall", "inflow", "outflow", "symmetry", "periodic"]
ScalarKind = Literal["fixed", "flux", "adiabatic", "periodic"]
SOURCE_VARIABLES = "x, y, z, t, u, v, w, scalar_0, ..."
VECTOR_RULE = "three numbers or formulas of x, y, z, t as [x, y, z]"


class SideSection(Checked):
    """The condition of the flow at this side of the domain."""

    kind: SideKind | None = setting(
        None,
        'Condition of the flow: "wall" (u = 0), "moving-wall" (u = value, parallel to the wall), "inflow" '
        '(u = value), "outflow" (no stress, p = 0, stabilised against backflow), "symmetry" (no normal velocity, no '
        'shear) or "periodic".',
        rule='"wall", "moving-wall", "inflow", "outflow", "symmetry" or, with grid.periodic, "periodic"',
    )
    partner: Name = setting(
        "",
        "Other side of a periodic pair in a mesh from a file. The two sides must be equal except for a translation.",
        rule=NAME_RULE,
        needs={"kind": "periodic", "grid.mesh": ON},
    )
    value: Literal["exact"] | Formulas | None = setting(
        None,
        'Velocity of a moving wall or an inflow: [u, v, w] as numbers or formulas of x, y, z and t, or "exact" for '
        "the exact solution of initial.kind.",
        unit="length/time",
        rule=f'{VECTOR_RULE}, or "exact"',
        needs={"kind": ("moving-wall", "inflow")},
    )

    @property
    def has_value(self) -> bool:
        """Whether the velocity of the side is its value."""
        return self.kind in ("moving-wall", "inflow")

    def problems(self) -> Iterator[Problem]:
        if self.has_value and self.value is None:
            yield Problem("value", f'{VECTOR_RULE}, or "exact", with kind = "{self.kind}"')
        if self.value is not None and self.value != "exact":
            yield from faults("value", self.value)


class BoundarySection(Checked):
    """The six sides of the box, each in its own table, or the sides of a mesh from a file, by their names."""

    # With this setting, any further table is a side like x_min.
    NAMED_WITH: ClassVar[str] = "grid.mesh"
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, SideSection] = Field(init=False)

    x_min: SideSection = Field(default_factory=SideSection)
    x_max: SideSection = Field(default_factory=SideSection)
    y_min: SideSection = Field(default_factory=SideSection)
    y_max: SideSection = Field(default_factory=SideSection)
    z_min: SideSection = Field(default_factory=SideSection)
    z_max: SideSection = Field(default_factory=SideSection)

    def given(self) -> tuple[str, ...]:
        """Return the names of the sides that have a kind."""
        return tuple(
            name for name in (*type(self).model_fields, *self.__pydantic_extra__) if self.side(name).kind
        )

    def periodic_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of periodic sides of which at least one names the other, each pair once."""
        pairs = {
            (min(name, partner), max(name, partner))
            for name in self.given()
            if self.side(name).kind == "periodic" and (partner := self.side(name).partner)
        }
        return tuple(sorted(pairs))

    def side(self, name: str) -> SideSection:
        """Return the section of a side, an empty one if the side has no table."""
        side: SideSection = self.__dict__.get(name) or self.__pydantic_extra__.get(name) or SideSection()
        return side


class ScalarSideSection(Checked):
    """The condition of the scalar at this side of the domain."""

    kind: ScalarKind | None = setting(
        None,
        'Condition of the scalar: "fixed" (theta = value), "flux" (diffusivity dtheta/dn = value, into the flow), '
        '"adiabatic" (no flux) or "periodic". If it is not set, a side is periodic where the flow is periodic, and '
        "adiabatic at outflows and symmetries.",
        rule='"fixed", "flux", "adiabatic" or, with grid.periodic, "periodic"',
    )
    value: FormulaText = setting(
        "0",
        "Scalar or flux at the side: a number or a formula of x, y, z and t. A flux may also depend on the velocity "
        "u, v, w and on the scalars scalar_0, scalar_1, ... at the side, extrapolated from the steps before.",
        unit="scalar; scalar length/time",
        rule=f'a number or a formula of x, y, z, t, or, with kind = "flux", of {SOURCE_VARIABLES}',
        needs={"kind": ("fixed", "flux")},
    )


class ScalarBoundarySection(Checked):
    """The conditions of the scalar at the six sides of the box, or at the sides of a mesh from a file."""

    NAMED_WITH: ClassVar[str] = "grid.mesh"
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, ScalarSideSection] = Field(init=False)

    x_min: ScalarSideSection = Field(default_factory=ScalarSideSection)
    x_max: ScalarSideSection = Field(default_factory=ScalarSideSection)
    y_min: ScalarSideSection = Field(default_factory=ScalarSideSection)
    y_max: ScalarSideSection = Field(default_factory=ScalarSideSection)
    z_min: ScalarSideSection = Field(default_factory=ScalarSideSection)
    z_max: ScalarSideSection = Field(default_factory=ScalarSideSection)

    def side(self, name: str) -> ScalarSideSection:
        """Return the section of a side, an empty one if the side has no table."""
        side: ScalarSideSection = (
            self.__dict__.get(name) or self.__pydantic_extra__.get(name) or ScalarSideSection()
        )
        return side


class ScalarSection(Checked):
    """A scalar, one section each: theta_t + u . grad theta = diffusivity lap(theta) + source - G . u.

    It is passive, or acts on the flow with the force -expansion (theta - reference) model.gravity (Boussinesq).
    """

    diffusivity: Number = setting(..., "Diffusivity of the scalar, nu/Pr.", unit="length^2/time", gt=0)
    diffusivity_formula: FormulaText = setting(
        "",
        "Diffusivity of the scalar at each place: a formula as for model.viscosity_formula, with diffusivity as its "
        "reference. If it is not set, the diffusivity is constant.",
        unit="length^2/time",
        rule=f"a number or a formula of {SOURCE_VARIABLES}",
    )
    source: FormulaText = setting(
        "0",
        "Source of the scalar: a number or a formula of x, y, z and t, of the velocity u, v, w and of the scalars "
        "scalar_0, scalar_1, ...",
        unit="scalar/time",
        rule=f"a number or a formula of {SOURCE_VARIABLES}",
    )
    mean_gradient: tuple[Number, Number, Number] = setting(
        (0.0, 0.0, 0.0),
        "Uniform mean gradient G = [G_x, G_y, G_z]. theta is the deviation from it and is periodic where the flow "
        "is, as in a duct that is heated at a uniform rate.",
        unit="scalar/length",
        rule="three numbers as [G_x, G_y, G_z]",
    )
    expansion: Number = setting(
        0.0,
        "Expansion coefficient beta: the relative decrease of the density per unit of the scalar. It is negative for "
        "salt, and 0 for a passive scalar.",
        unit="1/scalar",
        needs={"model.gravity": ON},
    )
    reference: Number = setting(
        0.0,
        "Value of the scalar at which there is no buoyancy.",
        unit="scalar",
        needs={"expansion": ON},
    )
    initial: FormulaText = setting(
        "0",
        "Scalar at step 0: a number or a formula of x, y and z.",
        unit="scalar",
        rule="a number or a formula of x, y, z",
    )
    boundary: ScalarBoundarySection = Field(default_factory=ScalarBoundarySection)

    def problems(self) -> Iterator[Problem]:
        yield from faults("initial", (self.initial,), steady=True)


class SpongeSection(Checked):
    """A sponge, one section each: it adds strength (target - value) to the velocity, to scalars or to both.

    Where the strength is 0 the flow is free. A layer of a large strength before a side absorbs what it would reflect.
    """

    strength: FormulaText = setting(
        ...,
        "Rate at which the flow relaxes towards the targets: a number or a formula of x, y, z and t. "
        "`ridgeline check` states the largest time step for which it is stable.",
        unit="1/time",
        rule="a number or a formula of x, y, z, t",
    )
    velocity: Formulas | None = setting(
        None,
        "Target [u, v, w] of the velocity: numbers or formulas of x, y, z and t. If it is not set, the sponge leaves "
        "the velocity alone.",
        unit="length/time",
        rule=VECTOR_RULE,
    )
    scalars: tuple[FormulaText, ...] = setting(
        (),
        "Targets of the scalars, in their order: numbers or formulas of x, y, z and t. A scalar whose target is "
        '"none" is left alone, and so are scalars beyond the list.',
        unit="scalar",
        rule='a list of numbers, formulas of x, y, z, t or "none", of which there are at most as many as [[scalar]]',
    )

    def scalar_targets(self) -> tuple[str, ...]:
        """Return the targets of the scalars that the sponge does not leave alone."""
        return tuple(text for text in self.scalars if text != ALONE)

    def problems(self) -> Iterator[Problem]:
        yield from faults("strength", (self.strength,))
        yield from faults("velocity", self.velocity or ())
        yield from faults("scalars", self.scalar_targets())
        if not self.velocity and not self.scalar_targets():
            yield Problem("velocity", f"{VECTOR_RULE}, or sponge.N.scalars instead")
