"""What fluid particles add to a step: least work, ghost planes, and at most how many go to other ranks. No MPI."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.fourier.ghost_planes import PADDING, ghosts_of_others
from ridgeline.fourier.pencil import ProcessGrid, Truncation
from ridgeline.fourier.sizes import Share, exchanged, messages, transform_flops
from ridgeline.models.contract import Work
from ridgeline.models.turbulence.fluid_particles.fields import CARRIED, N_LOADED
from ridgeline.models.turbulence.spectral_work import between_stages
from ridgeline.particles.particles import OF_ALL, bytes_of
from ridgeline.runtime.units import number

if TYPE_CHECKING:
    from ridgeline.models.turbulence.settings import TurbulenceCase

LOADS = {"rk2": 1, "rk4": 4}  # flows of a step that are brought to the points
MOVES = {"rk2": 2, "rk4": 4}  # of a step, each with velocities taken once
MIGRATIONS = {"rk2": 1, "rk4": 4}  # of a step
WORD = 8
# Operations of a particle and a velocity: cell and weights, then for each component products and sums.
OF_WEIGHTS = {"spline": 54, "trilinear": 12}
OF_VALUE = {"spline": 2 * 64 + 2 * 16 + 7, "trilinear": 24}
OF_MOVE = 3 * 4  # x += a u + b v
# Read and written: positions and two velocities; positions and a velocity.
WORDS_OF_MOVE, WORDS_OF_VALUES = 12, 6
OF_MODE = 8  # a complex product and sum


@dataclass(frozen=True)
class ParticleMessages:
    """What particles send to other ranks in a step, all ranks together.

    ghost_bytes, ghost_messages: planes of points beyond a rank's own; moved_bytes: at most, of particles that are
    spread evenly, see `particle_messages`; moved_messages: of counts and of particles.
    """

    ghost_bytes: float = 0.0
    ghost_messages: int = 0
    moved_bytes: float = 0.0
    moved_messages: int = 0


def fields_loaded(case: TurbulenceCase) -> int:
    """Return how many fields of a step are transformed to the points for particles alone.

    With splines, RK2 and no scalars the flow takes its velocity from those of the particles, and transforms none.
    """
    kind, loads = case.particles.interpolation, LOADS[case.model.scheme]
    if not case.particles.count or kind == "fourier":
        return 0
    shared = kind == "spline" and case.model.scheme == "rk2" and not case.scalar
    return N_LOADED * (loads - shared)


def courant_number(case: TurbulenceCase) -> float:
    """Return the Courant number (Eq. 8) of a step; with a fixed step the largest that a run allows."""
    return case.model.courant or 1.0


def particle_messages(case: TurbulenceCase, grid: ProcessGrid) -> ParticleMessages:
    """Return the messages of a step beside the exchanges of the transforms.

    A step takes a particle through C cells at most, C being the Courant number. Of particles that are spread evenly,
    C / n of them therefore reach another box, n cells being the thinnest box in a direction that is cut. Those that a
    substep sends and the next one sends back are not counted.
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
        moved * (-(-bytes_of({**OF_ALL, **CARRIED}) // WORD) * WORD),
        2 * MIGRATIONS[case.model.scheme] * ranks * neighbours,
    )


def field_traffic(case: TurbulenceCase, truncation: Truncation, pencils: bool) -> float:
    """Return complex numbers to and from memory while a step's flows are brought to the points.

    Modes are read, and stages write and read as those of the solver. truncation: of the grid, or of a smaller one of
    the same proportions.
    """
    n = fields_loaded(case)
    return n * truncation.n_modes + between_stages(truncation, pencils, n, n)


def point_traffic(case: TurbulenceCase) -> float:
    """Return the bytes to and from memory of particles, and of the points that they take values from, in a step."""
    n, of_points = case.particles.count, N_LOADED * np.dtype(case.run.precision).itemsize
    points = 0 if case.particles.interpolation == "fourier" else math.prod(case.grid.shape)
    moved = WORD * (WORDS_OF_MOVE + WORDS_OF_VALUES) * n + of_points * min(points, 64 * n)
    return float(MOVES[case.model.scheme] * moved + LOADS[case.model.scheme] * of_points * points)


def point_flops(case: TurbulenceCase, n_modes: float) -> float:
    """Return the operations of a step that find velocities at particles, in flows of n_modes, and move them."""
    kind = case.particles.interpolation
    if kind == "fourier":
        of_velocity = float(N_LOADED * OF_MODE * n_modes)
    else:
        of_velocity = float(OF_WEIGHTS[kind] + N_LOADED * OF_VALUE[kind])
    return MOVES[case.model.scheme] * case.particles.count * (of_velocity + OF_MOVE)


def particle_work(case: TurbulenceCase, truncation: Truncation, grid: ProcessGrid, share: Share) -> Work:
    """Return the least work that particles add to a step, summed over all ranks: no points, and 0 without them.

    What migrates is no least work: a flow at rest sends nothing.
    """
    if not case.particles.count:
        return Work(0, 0.0, 0.0, 0.0, 0.0)
    itemsize, ranks = 2 * np.dtype(case.run.precision).itemsize, math.prod(grid)
    ghosts, n = particle_messages(case, grid), fields_loaded(case)
    sent = itemsize * float(sum(exchanged(share, case.grid.shape[0], n, n)))
    together = [N_LOADED] * (n // N_LOADED)
    calls = messages(grid, together, together, case.batch)
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


def remark(case: TurbulenceCase, grid: ProcessGrid) -> str:
    """Return what `ridgeline check` says of the messages of particles; "" where there are none."""
    sent = particle_messages(case, grid)
    if not sent.moved_messages:
        return ""
    ghosts = f"{number(sent.ghost_bytes, 'B')} of ghost planes in {sent.ghost_messages} messages and "
    return (
        f"particles send {ghosts if sent.ghost_messages else ''}at most {number(sent.moved_bytes, 'B')} of migration "
        f"in {sent.moved_messages} messages per step, at Courant number {courant_number(case):.3g}"
    )
