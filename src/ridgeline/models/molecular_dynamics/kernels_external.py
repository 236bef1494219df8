"""Compiled loops over atoms for an external potential: its forces and energies, from formulas."""

from typing import Any

import numba
import numpy as np
from numba import float64, int64

from ridgeline.jit.formulas import CPU, point_function
from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.models.molecular_dynamics.external_potential import NAMES, ExternalPotential
from ridgeline.models.molecular_dynamics.kernels_pairs import FORCE_BITS

# The largest force, in epsilon / sigma. With those of the neighbours it fits the integers of forces.
MOST_FORCE = 2.0 ** (60 - FORCE_BITS)


@subroutine
def _inside(x, length):
    """Return the place of x in the box. It is exact, because positions and lengths are multiples of the quantum."""
    return x - length * np.floor(x / length)


def make_external_forces(potential: ExternalPotential) -> Any:
    """Return the kernel that adds the forces of a potential to those of the first n atoms:

        external_forces(points, n, lengths, time, forces, out_faults)

    points : (m, 4) float64, x, y, z, unused; lengths : (3,) of the box, x, y, z; time : t
    forces : (m, 4) int64 in units of FORCE_UNIT, added to
    out_faults : (threads,) int64, for each thread the first atom whose force is not finite or too large, or -1
    """
    of_x, of_y, of_z = (point_function(slope, NAMES, CPU) for slope in potential.slopes)

    @subroutine(error_model="numpy")
    def share(points, begin, end, lengths, time, forces):
        scale, fault = 2.0**FORCE_BITS, -1
        lx, ly, lz = lengths[0], lengths[1], lengths[2]
        for i in range(begin, end):
            x, y, z = _inside(points[i, 0], lx), _inside(points[i, 1], ly), _inside(points[i, 2], lz)
            fx = -of_x(x, y, z, time, lx, ly, lz)
            fy = -of_y(x, y, z, time, lx, ly, lz)
            fz = -of_z(x, y, z, time, lx, ly, lz)
            if abs(fx) < MOST_FORCE and abs(fy) < MOST_FORCE and abs(fz) < MOST_FORCE:
                forces[i, 0] += int64(np.rint(fx * scale))
                forces[i, 1] += int64(np.rint(fy * scale))
                forces[i, 2] += int64(np.rint(fz * scale))
            elif fault < 0:
                fault = i
        return fault

    @kernel(
        lambda: (float64[:, ::1], int64, float64[::1], float64, int64[:, ::1], int64[::1]),
        parallel=True,
        nogil=True,
        error_model="numpy",
    )
    def external_forces(points, n, lengths, time, forces, out_faults):
        threads = out_faults.shape[0]
        if threads == 1:
            out_faults[0] = share(points, 0, n, lengths, time, forces)
        else:
            for thread in numba.prange(threads):
                begin, end = n * thread // threads, n * (thread + 1) // threads
                out_faults[thread] = share(points, begin, end, lengths, time, forces)

    return external_forces


def make_external_energies(potential: ExternalPotential) -> Any:
    """Return the kernel that sets out_energy (n,) to V at the first n atoms:

    external_energies(points, n, lengths, time, out_energy)
    """
    energy = point_function(potential.energy, NAMES, CPU)

    @kernel(
        lambda: (float64[:, ::1], int64, float64[::1], float64, float64[::1]), nogil=True, error_model="numpy"
    )
    def external_energies(points, n, lengths, time, out_energy):
        lx, ly, lz = lengths[0], lengths[1], lengths[2]
        for i in range(n):
            x, y, z = _inside(points[i, 0], lx), _inside(points[i, 1], ly), _inside(points[i, 2], lz)
            out_energy[i] = energy(x, y, z, time, lx, ly, lz)

    return external_energies
