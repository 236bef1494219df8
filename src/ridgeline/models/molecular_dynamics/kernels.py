"""Compiled loops over atoms: the forces, the two halves of a step, energies and distances.

Positions are multiples of a quantum, a power of two far below any length that matters. Their differences, and shifts
by a length of the box, are then exact, so that a pair has the same distance on every rank
(docs/molecular-dynamics.md). Forces are integers in units of FORCE_UNIT (kernels_pairs.py).
"""

import math

import numba
import numpy as np
from numba import float32, float64, int32, int64, uint64

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.jit.random import philox_round
from ridgeline.models.molecular_dynamics.kernels_pairs import (
    add_forces_of_pairs,
    sum_forces,
    sum_forces_mixed,
)

ENERGY_BITS = 40
_philox_round = subroutine(inline="always")(philox_round)


def quantum_of(extent: float) -> float:
    """Return the power of two of which positions up to `extent` in size are multiples."""
    return math.ldexp(1.0, math.frexp(extent)[1] - 51)


def _make_forces(places, pair_sum, out):
    """Return the kernel that computes the forces on some atoms, each thread those of a share of them.

    It takes some of the atoms, so that the others may wait for their ghosts. A single thread needs no region of
    threads, which costs some 30 us. places, out: types of the places and of the forces; pair_sum(places, rows, i,
    begin, end, square, units, thread, out): adds up the pairs of atom i, and returns the least square of a distance.

    The arguments of the kernel:

    places : (m, 4) float64 x, y, z, unused, or int32 of `to_fixed_point`; atoms : (k,) their rows
    rows : (n * capacity,), counts : (n,), see NeighbourList; square : r_c^2
    units : (3,) 2^-32 of the box's edges, in mixed precision alone
    out_closest : (threads,) lowered to the least square of a distance that each thread met
    """

    @subroutine
    def share(places, atoms, rows, capacity, counts, square, units, thread, out_closest, out):
        threads, n = out_closest.shape[0], atoms.shape[0]
        closest = out_closest[thread]
        for k in range(n * thread // threads, n * (thread + 1) // threads):
            i = atoms[k]
            begin = i * capacity
            least = pair_sum(places, rows, i, begin, begin + counts[i], square, units, thread, out)
            closest = min(closest, least)
        out_closest[thread] = closest

    lists = int64[::1], int32[::1], int64, int64[::1], float64, float32[::1]

    @kernel(lambda: (places, *lists, float64[::1], out), parallel=True, nogil=True)
    def forces(places, atoms, rows, capacity, counts, square, units, out_closest, out):
        if out_closest.shape[0] == 1:
            share(places, atoms, rows, capacity, counts, square, units, 0, out_closest, out)
        else:
            for thread in numba.prange(out_closest.shape[0]):
                share(places, atoms, rows, capacity, counts, square, units, thread, out_closest, out)

    return forces


@subroutine
def _full_list(points, rows, i, begin, end, square, units, thread, out_forces):
    return sum_forces(points, rows, i, begin, end, square, out_forces)


@subroutine
def _half_list(points, rows, i, begin, end, square, units, thread, out_scratch):
    return add_forces_of_pairs(points, rows, i, begin, end, square, out_scratch[thread])


@subroutine
def _mixed_precision(grid, rows, i, begin, end, square, units, thread, out_forces):
    return sum_forces_mixed(grid, rows, i, begin, end, units, float32(square), out_forces)


# Set the forces on some atoms, out_forces : (m, 4), from full lists.
forces_of_full_lists = _make_forces(float64[:, ::1], _full_list, int64[:, ::1])
# The same with distances in float32 (`kernels_pairs.sum_forces_mixed`).
forces_in_mixed_precision = _make_forces(int32[:, ::1], _mixed_precision, int64[:, ::1])
# Add the forces of half lists: Newton's third law gives those on the other atoms, ghosts too. out_scratch :
# (threads, m, 4), the forces that each thread adds to.
forces_of_half_lists = _make_forces(float64[:, ::1], _half_list, int64[:, :, ::1])


@kernel(lambda: (int64[:, :, ::1], int64, int64[:, ::1]), parallel=True, nogil=True)
def sum_forces_of_threads(scratch, n_all, out_forces):
    """Set the forces on n_all atoms to the sums of those of the threads, and set the latter to zero.

    scratch : (threads, m, 4), updated; out_forces : (m, 4).
    """
    if scratch.shape[0] == 1:
        _sum_of_threads(scratch, n_all, 0, out_forces)
    else:
        for t in numba.prange(scratch.shape[0]):
            _sum_of_threads(scratch, n_all, t, out_forces)


@subroutine
def _sum_of_threads(scratch, n_all, t, out_forces):
    threads = scratch.shape[0]
    for i in range(n_all * t // threads, n_all * (t + 1) // threads):
        for c in range(3):
            total = 0
            for other in range(threads):
                total += scratch[other, i, c]
                scratch[other, i, c] = 0
            out_forces[i, c] = total


@kernel(lambda: (float64[:, ::1], int64, float64[::1], int32[:, ::1]), nogil=True)
def to_fixed_point(position, n, per_length, out_places):
    """Set out_places (m, 4) to the places of the first n atoms in 2^-32 of the box's edges, modulo the box, and 0.

    position : (3, capacity); per_length : (3,) 2^32 over the edges.
    """
    for c in range(3):
        x = position[c]
        for i in range(n):
            out_places[i, c] = np.int32(int64(np.rint(x[i] * per_length[c])) & 0xFFFFFFFF)
    for i in range(n):
        out_places[i, 3] = 0


@kernel(
    lambda: (int64[:, ::1], int64, *[float64] * 3, float64[:, ::1], float64[:, ::1], float64[:, ::1]),
    nogil=True,
)
def kick_and_drift(forces, n, kick, dt, quantum, velocity, position, out_points):
    """v += kick f; x += dt v, to the nearest multiple of the quantum. The first two thirds of velocity Verlet.

    For the first n atoms. forces : (m, 4); kick : dt / 2 in units of forces; velocity, position : (3, capacity),
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

    For the first n atoms. The noise of an atom is a function of (key, step, identity): Box and Muller's transform of
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

    Lists as in `_make_forces`; out_counts : (bins,); larger distances are left out.
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

    The terms are integers in units of 2**-ENERGY_BITS, so that the order of a list does not matter. Lists as in
    `_make_forces`; out_energy, out_virial : (n,).
    """
    scale = 2.0**ENERGY_BITS
    for i in range(n):
        energy, virial = 0, 0
        for k in range(i * capacity, i * capacity + counts[i]):
            j = rows[k]
            dx, dy, dz = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1], points[i, 2] - points[j, 2]
            r2 = (dx * dx + dy * dy) + dz * dz
            if r2 < square:
                inverse = 1.0 / r2
                sixth = inverse * inverse * inverse
                energy += int64(np.rint((4.0 * (sixth - 1.0) * sixth) * scale))
                virial += int64(np.rint(((48.0 * sixth - 24.0) * sixth) * scale))
        out_energy[i] = energy / scale
        out_virial[i] = virial / scale
