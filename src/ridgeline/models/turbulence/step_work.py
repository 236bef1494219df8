"""Least work of a step, in closed form: of the flow and of fluid particles, and what the particles need in memory.

The counts of the flow are those of the method itself (GESTS paper, Secs. 2 and 3, without the lines outside the
truncation). With S scalars, V = 3 + S variables go to physical space and D = 5 + 3 S products come back, of which
L = 4 + 2 S combinations leave the planes. A test compares them with what the engine counts
(tests/models/turbulence/test_estimate.py). Nothing here needs MPI or allocates fields.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.fourier.decomposition import PencilGrid, ProcessGrid, Truncation
from ridgeline.fourier.ghost_planes import PADDING, buffer_shape, ghosts_of_others, padded_shape
from ridgeline.fourier.sizes import Share, VariableCounts, exchanged, messages, transform_flops
from ridgeline.io.bp_attributes import BYTES_OF_VERTEX
from ridgeline.models.contract import Work
from ridgeline.models.turbulence.fluid_particles.fields import (
    CARRIED,
    N_LOADED,
    SAMPLED_AT_START,
    SAVED,
    sampled_fields,
)
from ridgeline.particles.particles import COMMON_FIELDS, bytes_per_particle, capacity_for
from ridgeline.runtime.units import number

if TYPE_CHECKING:
    from ridgeline.models.turbulence.settings import TurbulenceCase


SUBSTEPS = {"rk2": 2, "rk4": 4}
PASSES = {"rk2": 5, "rk4": 11}  # over the fields in a step, reading or writing
# Floating-point operations beside the transforms, complex ones by their real parts.
PER_POINT_VELOCITY, PER_POINT_SCALAR = 8, 3  # five products u u - u_y u_y I; u theta
PER_PLANE_MODE_VELOCITY, PER_PLANE_MODE_SCALAR = 12, 6  # A_x, A_z; k_x F_x + k_z F_z
# Derivatives 14, shift back 24, projection 24, Runge-Kutta 24, next shift 18; for a scalar 4, 12, 0, 8 and 6.
PER_MODE_VELOCITY, PER_MODE_SCALAR = 104, 30
# Waves, in a step: how often a mode's factor is computed, how many stages and stored fields it multiplies, and how
# many of these are written for that alone. A sine, a cosine and an exponential count as one operation each.
WAVE_TIMES = {"rk2": (1, 2, 0), "rk4": (2, 5, 1)}
PER_WAVE_FACTOR, PER_WAVE_TURN, PER_WAVE_BUOYANCY = 50, 80, 20
# Damping: k^2, its power and an exponential; a complex number times a real one. It multiplies what waves do.
PER_DAMPING_FACTOR, PER_DAMPED_FIELD = 16, 2

# Fluid particles, in a step.
LOADS = {"rk2": 1, "rk4": 4}  # flows that are brought to the points
MOVES = {"rk2": 2, "rk4": 4}  # moves, for each of which velocities are interpolated once
MIGRATIONS = {"rk2": 1, "rk4": 4}
STAGES = {"rk2": 0, "rk4": 3}  # velocities of substeps that are kept for particles
WORD = 8
# Operations for a velocity at a particle: cell and weights, then products and sums for each component.
OF_WEIGHTS = {"spline": 54, "trilinear": 12}
OF_VALUE = {"spline": 2 * 64 + 2 * 16 + 7, "trilinear": 24}
OF_MOVE = 3 * 4  # x += a u + b v
# Words read and written: positions and two velocities; positions and a velocity.
WORDS_OF_MOVE, WORDS_OF_VALUES = 12, 6
OF_MODE = 8  # a complex product and sum


@dataclass(frozen=True)
class Variables:
    """How many variables a substep transforms and exchanges, for S scalars."""

    n_scalars: int

    @property
    def fields(self) -> int:
        """Variables of the state, which go to physical space: V."""
        return 3 + self.n_scalars

    @property
    def products(self) -> int:
        """Products that come back: D."""
        return 5 + 3 * self.n_scalars

    @property
    def combined(self) -> int:
        """Variables through the last transpose and the transforms in y: L."""
        return 4 + 2 * self.n_scalars

    @property
    def counts(self) -> VariableCounts:
        """All three counts."""
        return VariableCounts(self.fields, self.products, self.combined)


def flops(truncation: Truncation, variables: Variables) -> float:
    """Return the floating-point operations of one substep: of transforms, products and modes."""
    nz, ny, nx = truncation.shape
    s = variables.n_scalars
    transforms = transform_flops(truncation, sum(variables.counts.of_rows), sum(variables.counts.of_columns))
    points = nz * ny * nx * (PER_POINT_VELOCITY + s * PER_POINT_SCALAR)
    plane_modes = ny * truncation.n_lines * (PER_PLANE_MODE_VELOCITY + s * PER_PLANE_MODE_SCALAR)
    return transforms + points + plane_modes + truncation.n_modes * (PER_MODE_VELOCITY + s * PER_MODE_SCALAR)


def wave_flops(truncation: Truncation, scheme: str, n_coupled: int) -> float:
    """Return the floating-point operations of the wave factor in a step. n_coupled: fields, 0 without waves."""
    if not n_coupled:
        return 0.0
    factors, turns, _ = WAVE_TIMES[scheme]
    each = PER_WAVE_TURN + (PER_WAVE_BUOYANCY if n_coupled > 3 else 0)
    return truncation.n_modes * float(factors * PER_WAVE_FACTOR + turns * each)


def wave_traffic(truncation: Truncation, scheme: str, n_coupled: int) -> float:
    """Return the complex numbers that a step writes to memory for the factor of waves, or that of damping, alone."""
    return float(WAVE_TIMES[scheme][2] * n_coupled * truncation.n_modes)


def fields_damped(case: TurbulenceCase) -> int:
    """Return how many fields are multiplied by a factor of damping of their own, not that of waves."""
    return Variables(len(case.scalar)).fields - case.waves.n_coupled if case.damping.differs_by_mode else 0


def damping_flops(truncation: Truncation, scheme: str, n_damped: int) -> float:
    """Return the floating-point operations of the factor of damping in a step. n_damped: fields."""
    if not n_damped:
        return 0.0
    factors, turns, _ = WAVE_TIMES[scheme]
    return truncation.n_modes * float(factors * PER_DAMPING_FACTOR + turns * PER_DAMPED_FIELD * n_damped)


def between_stages(truncation: Truncation, pencils: bool, rows: int, columns: int) -> float:
    """Return the complex numbers that one stage writes and the next reads: planes and lines, with pencils also rows.

    rows, columns: variables through the row and the column exchange.
    """
    nz, ny, _ = truncation.shape
    moved = ny * truncation.n_lines * columns
    return 2.0 * (moved + (nz * ny * truncation.n_columns * rows if pencils else 0))


def least_memory_traffic(truncation: Truncation, pencils: bool, variables: Variables, scheme: str) -> float:
    """Return the complex numbers to and from memory in one step: of the plane and the line stage of each substep.

    A stage reads its input and writes its output once; everything between stays in caches. The line stage also reads
    and writes the fields (with RK4 also their sum), and they are read when a step begins. With P_r > 1 there is a
    third stage between z and x.
    """
    stages = between_stages(
        truncation, pencils, sum(variables.counts.of_rows), sum(variables.counts.of_columns)
    )
    return SUBSTEPS[scheme] * stages + PASSES[scheme] * truncation.n_modes * variables.fields


@dataclass(frozen=True)
class ParticleMessages:
    """What fluid particles send to other ranks in a step, all ranks together.

    ghost_bytes, ghost_messages: of the planes of points beyond a rank's own; moved_bytes: the most that migration of
    evenly spread particles sends, see `particle_messages`; moved_messages: of counts and of particles.
    """

    ghost_bytes: float = 0.0
    ghost_messages: int = 0
    moved_bytes: float = 0.0
    moved_messages: int = 0


def fields_loaded(case: TurbulenceCase) -> int:
    """Return how many fields a step transforms to the points for particles alone.

    With splines, RK2 and no scalars the flow computes its velocity at the points from the particles' splines.
    """
    kind, loads = case.particles.interpolation, LOADS[case.model.scheme]
    if not case.particles.count or kind == "fourier":
        return 0
    shared = kind == "spline" and case.model.scheme == "rk2" and not case.scalar
    return N_LOADED * (loads - shared)


def courant_number(case: TurbulenceCase) -> float:
    """Return the Courant number (Eq. 8) of a step; with a fixed step the largest that is allowed."""
    return case.model.courant or 1.0


def particle_messages(case: TurbulenceCase, grid: ProcessGrid) -> ParticleMessages:
    """Return the messages of fluid particles in a step, beside the exchanges of the transforms.

    A step moves a particle by at most C cells, where C is the Courant number. If the particles are spread evenly, at
    most C / n of them reach another box, where n is the number of cells of the thinnest box in a direction that is
    cut. Particles that a substep sends away and the next one sends back are not counted.
    """
    particles, (nz, ny, nx), ranks = case.particles, case.grid.shape, math.prod(grid)
    if not particles.count or ranks == 1:
        return ParticleMessages()
    ghost_bytes, ghost_messages = 0.0, 0
    if particles.interpolation != "fourier":
        planes_y, messages_y = ghosts_of_others(ny, grid[1])
        planes_z, messages_z = ghosts_of_others(nz, grid[0])
        across_y = planes_y * (nz + PADDING * grid[0])  # those of all ranks of a row, with their ghosts in z
        across_z = planes_z * (ny + PADDING * grid[1])
        numbers = (across_y + across_z) * (nx + PADDING)
        loads, real = LOADS[case.model.scheme], np.dtype(case.run.precision).itemsize
        ghost_bytes = float(loads * N_LOADED * real * numbers)
        ghost_messages = loads * (messages_y * grid[0] + messages_z * grid[1])
    thinnest = min(n // parts for n, parts in zip((nz, ny), grid) if parts > 1)
    moved = particles.count * min(1.0, courant_number(case) / thinnest)
    neighbours = math.prod(min(parts, 3) for parts in grid) - 1
    return ParticleMessages(
        ghost_bytes,
        ghost_messages,
        moved * (-(-bytes_per_particle({**COMMON_FIELDS, **CARRIED}) // WORD) * WORD),
        2 * MIGRATIONS[case.model.scheme] * ranks * neighbours,
    )


def field_traffic(case: TurbulenceCase, truncation: Truncation, pencils: bool) -> float:
    """Return the complex numbers to and from memory while a step brings flows to the points for particles.

    Modes are read; stages write and read as those of the solver do. truncation: of the grid, or of a smaller grid of
    the same proportions.
    """
    n = fields_loaded(case)
    return n * truncation.n_modes + between_stages(truncation, pencils, n, n)


def point_traffic(case: TurbulenceCase) -> float:
    """Return the bytes to and from memory in a step, of particles and of the points from which they interpolate."""
    n, of_points = case.particles.count, N_LOADED * np.dtype(case.run.precision).itemsize
    points = 0 if case.particles.interpolation == "fourier" else math.prod(case.grid.shape)
    moved = WORD * (WORDS_OF_MOVE + WORDS_OF_VALUES) * n + of_points * min(points, 64 * n)
    return float(MOVES[case.model.scheme] * moved + LOADS[case.model.scheme] * of_points * points)


def point_flops(case: TurbulenceCase, n_modes: float) -> float:
    """Return the operations of a step that interpolate velocities, in flows of n_modes, and move the particles."""
    kind = case.particles.interpolation
    if kind == "fourier":
        of_velocity = float(N_LOADED * OF_MODE * n_modes)
    else:
        of_velocity = float(OF_WEIGHTS[kind] + N_LOADED * OF_VALUE[kind])
    return MOVES[case.model.scheme] * case.particles.count * (of_velocity + OF_MOVE)


def particle_work(case: TurbulenceCase, truncation: Truncation, grid: ProcessGrid, share: Share) -> Work:
    """Return the least work that fluid particles add to a step, summed over all ranks; 0 without particles.

    Migration is not part of the least work, since a flow at rest sends no particle away.
    """
    if not case.particles.count:
        return Work(0, 0.0, 0.0, 0.0, 0.0)
    itemsize, ranks = 2 * np.dtype(case.run.precision).itemsize, math.prod(grid)
    ghosts, n = particle_messages(case, grid), fields_loaded(case)
    sent = itemsize * float(sum(exchanged(share, case.grid.shape[0], n, n)))
    groups = [N_LOADED] * (n // N_LOADED)
    calls = messages(grid, groups, groups, case.batch)
    if case.particles.interpolation == "fourier":  # the modes of all ranks go to all, in float64
        n_all = LOADS[case.model.scheme] * N_LOADED
        sent, calls = n_all * 16.0 * truncation.n_modes * (ranks - 1), n_all * ranks * (ranks - 1)
    return Work(
        points=0,
        flops=transform_flops(truncation, n, n) + point_flops(case, truncation.n_modes),
        bytes_memory=itemsize * field_traffic(case, truncation, grid[0] > 1) + point_traffic(case),
        bytes_exchanged=sent + ghosts.ghost_bytes,
        messages=float(calls + ghosts.ghost_messages),
    )


def particle_remark(case: TurbulenceCase, grid: ProcessGrid) -> str:
    """Return the sentence of `ridgeline check` about the messages of particles, or "" if there are none."""
    sent = particle_messages(case, grid)
    if not sent.moved_messages:
        return ""
    ghosts = f"{number(sent.ghost_bytes, 'B')} of ghost planes in {sent.ghost_messages} messages and "
    return (
        f"each step sends {ghosts if sent.ghost_messages else ''}at most {number(sent.moved_bytes, 'B')} of "
        f"migrating particles in {sent.moved_messages} messages, at the Courant number {courant_number(case):.3g}"
    )


def particle_memory(case: TurbulenceCase, grid: ProcessGrid, n_modes: int) -> dict[str, float]:
    """Return the bytes of particles on the rank with most points, by purpose; empty without particles.

    n_modes: the most modes of a rank. Particles are taken to be spread as evenly as the points. A rank on which more
    arrive than its spare space holds needs more.
    """
    particles = case.particles
    if not particles.count:
        return {}
    first = PencilGrid(case.grid.shape, case.model.dealias, grid, 0)  # the first rank's block is the largest
    real = np.dtype(case.run.precision).itemsize
    n = math.ceil(particles.count * math.prod(first.block) / math.prod(case.grid.shape))
    if particles.interpolation == "fourier":
        points = 16.0 * N_LOADED * first.truncation.n_modes + 8.0 * first.truncation.n_modes
    else:
        numbers = math.prod(padded_shape(first.block)) + math.prod(buffer_shape(first))
        points = float(N_LOADED * numbers * real)
    stages = STAGES[case.model.scheme] * 3 * n_modes * 2 * real
    return {
        "particles": float(
            capacity_for(n) * bytes_per_particle({**COMMON_FIELDS, **CARRIED})
            + (48 + bytes_per_particle(SAMPLED_AT_START)) * n
        ),
        "points of particles": points,
        "fields": float(stages),
    }


def checkpoint_bytes_of_particles(case: TurbulenceCase) -> float:
    """Return the bytes that particles add to a checkpoint."""
    return float(case.particles.count * bytes_per_particle({**SAVED, **SAMPLED_AT_START}))


def output_bytes_of_particles(case: TurbulenceCase) -> float:
    """Return the bytes of the particles' data set, with all its output steps."""
    particles = case.particles
    if not particles.count or not particles.interval():
        return 0.0
    each = 48 + BYTES_OF_VERTEX + bytes_per_particle(sampled_fields(particles.sample, len(case.scalar)))
    return float(particles.count * (8 + each * (1 + case.writes(particles.interval()))))
