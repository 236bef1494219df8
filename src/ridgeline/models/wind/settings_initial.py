"""Settings of the state with which a run of the wind model begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ridgeline.config.expressions import faults
from ridgeline.config.fields import ON, Checked, FormulaText, Integer, Number, Problem, Truth, setting

Velocity = tuple[Number, Number, Number]
INITIAL_NAMES = ("x", "y", "z", "random")


class InitialSection(Checked):
    """The state of step 0. The first projection removes the divergence of its velocity."""

    kind: Literal["uniform", "log", "taylor-green", "vortex", "bubble", "formulas"] = setting(
        "uniform",
        'Initial state: "uniform" (initial.velocity), "log" (the logarithmic profile of a neutral surface layer), '
        '"taylor-green" (in x and y, carried by initial.velocity), "vortex" (a Gaussian vortex about z, carried by '
        'initial.velocity), "bubble" (a warm bubble in initial.velocity) or "formulas".',
    )
    velocity: Velocity = setting(
        (0.0, 0.0, 0.0),
        "Uniform velocity [u, v, w]; the geostrophic wind for a flow that it drives.",
        unit="length/time",
        rule="three numbers as [u, v, w]",
        needs={"kind": ("uniform", "taylor-green", "vortex", "bubble")},
    )
    friction_velocity: Number | None = setting(
        None,
        "Friction velocity of the logarithmic profile.",
        unit="length/time",
        rule="a number > 0",
        gt=0,
        needs={"kind": "log"},
    )
    direction: Number = setting(
        0.0,
        "Direction to which the wind of the logarithmic profile blows, from x towards y.",
        unit="degrees",
        ge=-360,
        le=360,
        needs={"kind": "log"},
    )
    amplitude: Number = setting(
        1.0,
        'Amplitude: of the velocity of "taylor-green", the largest speed of "vortex", or the excess temperature in '
        'the centre of "bubble".',
        unit="length/time; temperature",
        needs={"kind": ("taylor-green", "vortex", "bubble")},
    )
    waves: Integer = setting(
        1, "Number of vortices of Taylor and Green along x and y.", ge=1, needs={"kind": "taylor-green"}
    )
    centre: Velocity | None = setting(
        None,
        "Centre [x, y, z] of the vortex or the bubble; that of the domain if it is not set.",
        unit="length",
        rule="three numbers as [x, y, z]",
        needs={"kind": ("vortex", "bubble")},
    )
    radius: Number | None = setting(
        None,
        "Radius of the vortex, at which its speed is largest, or of the bubble; a tenth of the smallest length of "
        "the domain across which it extends if it is not set.",
        unit="length",
        rule="a number > 0",
        gt=0,
        needs={"kind": ("vortex", "bubble")},
    )
    planar: Truth = setting(
        False,
        "Whether the bubble is a cylinder along y.",
        needs={"kind": "bubble"},
    )
    u: FormulaText = setting(
        "0",
        "Velocity u as a formula of x, y, z and `random`, a number that is uniform in [-1, 1) and drawn for each "
        "cell and field.",
        unit="length/time",
        rule="a number or a formula",
        needs={"kind": "formulas"},
    )
    v: FormulaText = setting(
        "0",
        "Velocity v, like initial.u.",
        unit="length/time",
        rule="a number or a formula",
        needs={"kind": "formulas"},
    )
    w: FormulaText = setting(
        "0",
        "Velocity w, like initial.u.",
        unit="length/time",
        rule="a number or a formula",
        needs={"kind": "formulas"},
    )
    theta: FormulaText | None = setting(
        None,
        "Potential temperature, like initial.u; the profile of [temperature] if it is not set.",
        unit="temperature",
        rule="a number or a formula",
        needs={"kind": "formulas", "temperature.enabled": True},
    )
    scalars: tuple[FormulaText, ...] = setting(
        (),
        "Passive scalars in their order, like initial.u; those that are left out begin with 0.",
        rule="a list of numbers or formulas",
        max_length=16,
    )
    perturbation: Number = setting(
        0.0,
        "Amplitude of random numbers, uniform in [-1, 1), that are added to u, v and w below perturbation_height.",
        unit="length/time",
        ge=0,
    )
    theta_perturbation: Number = setting(
        0.0,
        "Amplitude of random numbers that are added to theta below perturbation_height.",
        unit="temperature",
        ge=0,
        needs={"temperature.enabled": True},
    )
    perturbation_height: Number | None = setting(
        None,
        "Height below which random numbers are added; everywhere if it is not set.",
        unit="length",
        rule="a number > 0",
        gt=0,
        needs=({"perturbation": ON}, {"theta_perturbation": ON}),
    )

    def problems(self) -> Iterator[Problem]:
        if self.kind == "log" and self.friction_velocity is None:
            yield Problem("friction_velocity", 'a number > 0 with initial.kind = "log"')
        for key in ("u", "v", "w", "theta"):
            text = getattr(self, key)
            if text is not None:
                yield from faults(key, (text,), variables=INITIAL_NAMES)
        yield from faults("scalars", self.scalars, variables=INITIAL_NAMES)
