"""Settings of fluid particles: the section [particles] of a turbulence case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ridgeline.config.fields import ON, Integer, Number, PathText, Problem, setting
from ridgeline.config.intervals import Scheduled, recurring, time_interval, wall_interval

Sample = Literal["gradient", "acceleration", "scalars", "dissipation", "enstrophy"]
Interpolation = Literal["spline", "trilinear", "fourier"]
GROUPS = {"uniform": 1, "lattice": 1, "pairs": 2, "tetrads": 4}  # particles of a group


class ParticlesSection(Scheduled):
    """Fluid particles, which move with the velocity where they are: dx/dt = u(x, t). None unless count is set."""

    count: Integer = setting(0, "Number of particles.", unit="particles", ge=0)
    placement: Literal["uniform", "lattice", "pairs", "tetrads"] = setting(
        "uniform",
        'Initial positions: "uniform" (random in the box), "lattice" (on a lattice with equal distances in each '
        'direction), "pairs" (the first random, the second at particles.separation from it in a random direction) or '
        '"tetrads" (at the corners of regular tetrahedra with edges of that length).',
        needs={"count": ON},
    )
    separation: Number | None = setting(
        None,
        "Distance between the particles of a pair or a tetrad.",
        unit="length",
        rule="a number > 0",
        gt=0,
        needs={"placement": ("pairs", "tetrads")},
    )
    seed: Integer | None = setting(
        None,
        "Seed of the initial positions. If it is not set, it is run.seed.",
        rule="an integer >= 0",
        ge=0,
        needs={"placement": ("uniform", "pairs", "tetrads")},
    )
    interpolation: Interpolation = setting(
        "spline",
        'Interpolation of the velocity at a particle: "spline" (cubic B-splines, of order 4), "trilinear" (of order '
        '2) or "fourier" (the sum of all modes, which is exact and slow, for tests).',
        needs={"count": ON},
    )
    sample: tuple[Sample, ...] = setting(
        (),
        "Quantities that are written in addition to positions and velocities.",
        rule="a list of gradient, acceleration, scalars, dissipation and enstrophy, each at most once",
        needs=recurring(),
    )
    every: Integer = setting(
        0,
        "Number of steps between outputs of the particles, beginning with step 0; 0 writes none.",
        unit="steps",
        ge=0,
        needs={"count": ON},
    )
    every_time: Number | None = time_interval("outputs of the particles", {"count": ON})
    every_wall: Number | None = wall_interval("outputs of the particles", {"count": ON})
    path: PathText = setting(
        "particles.bp",
        "Data set to which the particles are written.",
        rule="a path",
        min_length=1,
        needs=recurring(),
    )

    def problems(self) -> Iterator[Problem]:
        group = GROUPS[self.placement]
        if self.count % group:
            yield Problem("count", f'a multiple of {group} with particles.placement = "{self.placement}"')
        if self.placement == "lattice" and round(self.count ** (1 / 3)) ** 3 != self.count:
            yield Problem("count", 'the cube of an integer with particles.placement = "lattice"')
        if group > 1 and self.separation is None:
            yield Problem("separation", f'a number > 0 with particles.placement = "{self.placement}"')
        if len(set(self.sample)) < len(self.sample):
            yield Problem("sample", "a list that contains each name at most once")
