"""Compiled loops over atoms: forces, the two halves of a step, energies.

Positions are multiples of a quantum, a power of two far below any length that matters. Their differences, and shifts
by a length of the box, are then exact: a pair has the same distance on every rank (docs/molecular-dynamics.md).
Forces are integers of 2**-FORCE_BITS (kernels_pairs).
"""

import math

import numba
import numpy as np
from numba import float32, float64, int32, int64, uint64

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.jit.random import philox_round
from ridgeline.models.molecular_dynamics.kernels_pairs import FORCE_BITS, sum_forces
from ridgeline.models.molecular_dynamics.kernels_pairs_mixed import sum_forces_mixed

FORCE_UNIT = 2.0**-FORCE_BITS
ENERGY_BITS = 40
_philox_round = subroutine(inline="always")(philox_round)


def quantum_of(extent: float) -> float:
    """Return the power of two whose multiples positions up to `extent` in size are."""
    return math.ldexp(1.0, math.frexp(extent)[1] - 51)


@kernel(
    lambda: (float64[:, ::1], int64, int32[::1], int64, int64[::1], float64, float64[::1], int64[:, ::1]),
    parallel=True,
    nogil=True,
)
def forces_of_full_lists(points, n, rows, capacity, counts, square, out_closest, out_forces):
    """Set the forces on the first n atoms from full lists.

    points : (m, 4) x, y, z, unused; rows : (n * capacity,), counts : (n,), see NeighbourList; square : r_c^2;
    out_closest : (threads,) the least square of a distance that each thread met; out_forces : (m, 4).
    """
    threads = out_closest.shape[0]
    for t in numba.prange(threads):
        closest = np.inf
        for i in range(n * t // threads, n * (t + 1) // threads):
            first = i * capacity
            least = sum_forces(points, rows, i, first, first + counts[i], square, out_forces)
            closest = min(closest, least)
        out_closest[t] = closest


@kernel(
    lambda: (
        int32[:, ::1], int64, int32[::1], int64, int64[::1], float64, float64[::1], float32[::1], int64[:, ::1],
    ),
    parallel=True,
    nogil=True,
)  # fmt: skip
def forces_in_mixed_precision(grid, n, rows, capacity, counts, square, out_closest, units, out_forces):
    """Set the forces on the first n atoms from full lists, distances in float32 (kernels_pairs_mixed).

    grid : (m, 4) of `to_grid`; units : (3,) 2^-32 of the box's edges. The others as in `forces_of_full_lists`.
    """
    threads = out_closest.shape[0]
    nearest = float32(square)
    for t in numba.prange(threads):
        closest = np.inf
        for i in range(n * t // threads, n * (t + 1) // threads):
            first = i * capacity
            least = sum_forces_mixed(grid, rows, i, first, first + counts[i], units, nearest, out_forces)
            closest = min(closest, least)
        out_closest[t] = closest


@kernel(lambda: (float64[:, ::1], int64, float64[::1], int32[:, ::1]), nogil=True)
def to_grid(position, n, per_length, out_grid):
    """Set out_grid (m, 4) to the places of the first n atoms in 2^-32 of the box's edges, modulo the box, and 0.

    position : (3, capacity); per_length : (3,) 2^32 over the edges.
    """
    for c in range(3):
        x = position[c]
        for i in range(n):
            out_grid[i, c] = np.int32(int64(np.rint(x[i] * per_length[c])) & 0xFFFFFFFF)
    for i in range(n):
        out_grid[i, 3] = 0


@kernel(
    lambda: (
        float64[:, ::1], int64, int64, int32[::1], int64, int64[::1], float64, float64[::1], int64[:, :, ::1],
        int64[:, ::1],
    ),
    parallel=True,
    nogil=True,
)  # fmt: skip
def forces_of_half_lists(
    points, n, n_all, rows, capacity, counts, square, out_closest, out_scratch, out_forces
):
    """Set the forces on all n_all atoms, ghosts too, from half lists: Newton's third law gives that on the other.

    out_scratch : (threads, m, 4), a copy of the forces for each thread. The others as in `forces_of_full_lists`.
    """
    threads = out_closest.shape[0]
    scale = 1.0 / FORCE_UNIT
    for t in numba.prange(threads):
        closest = np.inf
        mine = out_scratch[t]
        mine[:n_all] = 0
        for i in range(n * t // threads, n * (t + 1) // threads):
            x, y, z = points[i, 0], points[i, 1], points[i, 2]
            fx, fy, fz = 0, 0, 0
            for k in range(i * capacity, i * capacity + counts[i]):
                j = rows[k]
                dx, dy, dz = x - points[j, 0], y - points[j, 1], z - points[j, 2]
                distance = (dx * dx + dy * dy) + dz * dz
                closest = min(closest, distance)
                if distance < square:
                    inverse = 1.0 / distance
                    sixth = inverse * inverse * inverse
                    force = (48.0 * sixth - 24.0) * (sixth * inverse) * scale
                    gx, gy, gz = (
                        int64(np.rint(force * dx)),
                        int64(np.rint(force * dy)),
                        int64(np.rint(force * dz)),
                    )
                    fx, fy, fz = fx + gx, fy + gy, fz + gz
                    mine[j, 0] -= gx
                    mine[j, 1] -= gy
                    mine[j, 2] -= gz
            mine[i, 0] += fx
            mine[i, 1] += fy
            mine[i, 2] += fz
        out_closest[t] = closest
    for t in numba.prange(threads):
        for i in range(n_all * t // threads, n_all * (t + 1) // threads):
            for c in range(3):
                total = out_scratch[0, i, c]
                for other in range(1, threads):
                    total += out_scratch[other, i, c]
                out_forces[i, c] = total


@kernel(
    lambda: (int64[:, ::1], int64, *[float64] * 3, float64[:, ::1], float64[:, ::1], float64[:, ::1]),
    nogil=True,
)
def kick_and_drift(forces, n, kick, dt, quantum, velocity, position, out_points):
    """v += kick f; x += dt v, to the nearest multiple of the quantum. The first two thirds of velocity Verlet.

    Of the first n atoms. forces : (m, 4); kick : dt / 2 in units of forces; velocity, position : (3, capacity),
    updated; out_points : (m, 4).
    """
    for c in range(3):
        v, x = velocity[c], position[c]
        for i in range(n):
            v[i] += kick * forces[i, c]
            x[i] = quantum * np.rint((x[i] + dt * v[i]) / quantum)
            out_points[i, c] = x[i]


@kernel(lambda: (int64[:, ::1], int64, float64, float64[:, ::1]), nogil=True)
def kick_velocity(forces, n, kick, velocity):
    """v += kick f. The last third of velocity Verlet. Arguments as in `kick_and_drift`."""
    for c in range(3):
        v = velocity[c]
        for i in range(n):
            v[i] += kick * forces[i, c]


@kernel(
    lambda: (int64[::1], int64, int64, uint64[:, ::1], float64, float64, float64[:, ::1]),
    nogil=True,
)
def thermalise(identity, n, step, keys, keep, spread, velocity):
    """v = keep v + spread xi: an Ornstein-Uhlenbeck process over a step, exactly; xi is normal, new in each step.

    Of the first n atoms. The noise of an atom is a function of (key, step, identity): Box and Muller's transform of
    the four words of Philox with the counter (identity low, identity high, step, 0). identity : (n,); keys : of
    jit.random.round_keys; velocity : (3, capacity), updated.
    """
    mask, scale = uint64(0xFFFFFFFF), 2.0**-32
    for i in range(n):
        a, b = uint64(identity[i]) & mask, uint64(identity[i]) >> uint64(32)
        c, d = uint64(step) & mask, uint64(0)
        for r in range(keys.shape[0]):
            a, b, c, d = _philox_round(a, b, c, d, keys[r, 0], keys[r, 1])
        first = math.sqrt(-2.0 * math.log((float64(a & mask) + 0.5) * scale))
        second = math.sqrt(-2.0 * math.log((float64(c & mask) + 0.5) * scale))
        angle = 2.0 * math.pi * (float64(b & mask) + 0.5) * scale
        velocity[0, i] = keep * velocity[0, i] + spread * (first * math.cos(angle))
        velocity[1, i] = keep * velocity[1, i] + spread * (first * math.sin(angle))
        angle = 2.0 * math.pi * (float64(d & mask) + 0.5) * scale
        velocity[2, i] = keep * velocity[2, i] + spread * (second * math.cos(angle))


@kernel(lambda: (float64[:, ::1], int64, int32[::1], int64, int64[::1], float64, int64[::1]), nogil=True)
def count_distances(points, n, rows, capacity, counts, per_length, out_counts):
    """Count the distances of the lists of the first n atoms in bins of width 1 / per_length.

    Lists as in `forces_of_full_lists`; out_counts : (bins,); what is farther is left out.
    """
    out_counts[:] = 0
    for i in range(n):
        for k in range(i * capacity, i * capacity + counts[i]):
            j = rows[k]
            dx, dy, dz = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1], points[i, 2] - points[j, 2]
            place = math.sqrt((dx * dx + dy * dy) + dz * dz) * per_length
            if place < out_counts.shape[0]:
                out_counts[int64(place)] += 1


@kernel(
    lambda: (float64[:, ::1], int64, int32[::1], int64, int64[::1], float64, float64[::1], float64[::1]),
    nogil=True,
)
def pair_sums(points, n, rows, capacity, counts, square, out_energy, out_virial):
    """Set, for each of the first n atoms, the sums over its list of u(r) and of r.f.

    A sum is one of integers of 2**-ENERGY_BITS, so that the order of a list does not matter. Lists as in
    `forces_of_full_lists`; out_energy, out_virial : (n,).
    """
    scale = 2.0**ENERGY_BITS
    for i in range(n):
        energy, virial = 0, 0
        for k in range(i * capacity, i * capacity + counts[i]):
            j = rows[k]
            dx, dy, dz = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1], points[i, 2] - points[j, 2]
            distance = (dx * dx + dy * dy) + dz * dz
            if distance < square:
                inverse = 1.0 / distance
                sixth = inverse * inverse * inverse
                energy += int64(np.rint((4.0 * (sixth - 1.0) * sixth) * scale))
                virial += int64(np.rint(((48.0 * sixth - 24.0) * sixth) * scale))
        out_energy[i] = energy / scale
        out_virial[i] = virial / scale
