"""Settings of the fluid particles of a turbulence run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ridgeline.config.fields import ON, Checked, Integer, Number, PathText, Problem, setting

Sample = Literal["gradient", "acceleration", "scalars", "dissipation", "enstrophy"]
Interpolation = Literal["spline", "trilinear", "fourier"]
GROUPS = {"uniform": 1, "lattice": 1, "pairs": 2, "tetrads": 4}  # particles that belong together


class ParticlesSection(Checked):
    """Fluid particles, which move with the velocity where they are: dx/dt = u(x, t). None unless count is set."""

    count: Integer = setting(0, "How many particles there are; 0: none.", unit="particles", ge=0)
    placement: Literal["uniform", "lattice", "pairs", "tetrads"] = setting(
        "uniform",
        'Where they start: "uniform" at random in the box; "lattice" on one of equal distances in each direction; '
        '"pairs" at random, the second at separation from the first in a random direction; "tetrads" as the '
        "corners of regular tetrahedra with edges of that length.",
        needs={"count": ON},
    )
    separation: Number | None = setting(
        None,
        "Distance of the particles of a pair or a tetrad.",
        unit="length",
        rule="a number > 0",
        gt=0,
        needs={"placement": ("pairs", "tetrads")},
    )
    seed: Integer | None = setting(
        None,
        "Seed of the places; not set: run.seed.",
        rule="an integer >= 0",
        ge=0,
        needs={"placement": ("uniform", "pairs", "tetrads")},
    )
    interpolation: Interpolation = setting(
        "spline",
        'How the velocity at a particle is found: "spline" by cubic B-splines, of order 4; "trilinear", of order 2; '
        '"fourier" by summing all modes, exact and slow, for tests.',
        needs={"count": ON},
    )
    sample: tuple[Sample, ...] = setting(
        (),
        "What is written beside positions and velocities.",
        rule="a list of gradient, acceleration, scalars, dissipation and enstrophy, each at most once",
        needs={"every": ON},
    )
    every: Integer = setting(
        0,
        "Steps between outputs of the particles, step 0 included; 0 writes none.",
        unit="steps",
        ge=0,
        needs={"count": ON},
    )
    path: PathText = setting(
        "particles.bp",
        "ADIOS2 BP5 data set of the particles to write.",
        rule="a path",
        min_length=1,
        needs={"every": ON},
    )

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        group = GROUPS[self.placement]
        if self.count % group:
            yield Problem("count", f'a multiple of {group} with particles.placement = "{self.placement}"')
        if self.placement == "lattice" and round(self.count ** (1 / 3)) ** 3 != self.count:
            yield Problem("count", 'the cube of an integer with particles.placement = "lattice"')
        if group > 1 and self.separation is None:
            yield Problem("separation", f'a number > 0 with particles.placement = "{self.placement}"')
        if len(set(self.sample)) < len(self.sample):
            yield Problem("sample", "a list that names nothing twice")
