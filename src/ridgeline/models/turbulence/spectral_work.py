"""Least work of a step of the solver on a process grid, in closed form: no MPI, no allocation of fields.

Counts are of the method itself (GESTS paper, Secs. 2 and 3, with lines outside the truncation left out): S
scalars, V = 3 + S variables to physical space, D = 5 + 3 S products back, of which L = 4 + 2 S leave the
planes. Checked against what the engine counts in tests/models/turbulence/test_estimate.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.fourier.pencil import Truncation
from ridgeline.fourier.sizes import VariableCounts, transform_flops

SUBSTEPS = {"rk2": 2, "rk4": 4}
PASSES = {"rk2": 5, "rk4": 11}  # over the fields in a step, reading or writing
# Floating-point operations beside the transforms, complex ones by their real parts.
PER_POINT_VELOCITY, PER_POINT_SCALAR = 8, 3  # five products u u - u_y u_y I; u theta
PER_PLANE_MODE_VELOCITY, PER_PLANE_MODE_SCALAR = 12, 6  # A_x, A_z; k_x F_x + k_z F_z
# Derivatives 14, shift back 24, projection 24, Runge-Kutta 24, next shift 18; for a scalar 4, 12, 0, 8 and 6.
PER_MODE_VELOCITY, PER_MODE_SCALAR = 104, 30
# Waves, in a step: how often a mode's factor is computed, how many fields it multiplies (stages and what is stored),
# and how many of them are written for that alone. A sine, a cosine and an exponential count as one operation.
WAVE_TIMES = {"rk2": (1, 2, 0), "rk4": (2, 5, 1)}
PER_WAVE_FACTOR, PER_WAVE_TURN, PER_WAVE_BUOYANCY = 50, 80, 20


@dataclass(frozen=True)
class Variables:
    """How many variables go where, for S scalars."""

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
        """Return all three."""
        return VariableCounts(self.fields, self.products, self.combined)


def flops(truncation: Truncation, variables: Variables) -> float:
    """Return floating-point operations of one substep: of transforms, products and modes."""
    nz, ny, nx = truncation.shape
    s = variables.n_scalars
    transforms = transform_flops(truncation, sum(variables.counts.of_rows), sum(variables.counts.of_columns))
    points = nz * ny * nx * (PER_POINT_VELOCITY + s * PER_POINT_SCALAR)
    plane_modes = ny * truncation.n_lines * (PER_PLANE_MODE_VELOCITY + s * PER_PLANE_MODE_SCALAR)
    return transforms + points + plane_modes + truncation.n_modes * (PER_MODE_VELOCITY + s * PER_MODE_SCALAR)


def wave_flops(truncation: Truncation, scheme: str, n_coupled: int) -> float:
    """Return floating-point operations of the factor of waves in a step, which couples 3 or 4 fields; 0 for none."""
    if not n_coupled:
        return 0.0
    factors, turns, _ = WAVE_TIMES[scheme]
    each = PER_WAVE_TURN + (PER_WAVE_BUOYANCY if n_coupled > 3 else 0)
    return truncation.n_modes * float(factors * PER_WAVE_FACTOR + turns * each)


def wave_traffic(truncation: Truncation, scheme: str, n_coupled: int) -> float:
    """Return complex numbers that the factor of waves writes to memory in a step, beside what is written anyway."""
    return float(WAVE_TIMES[scheme][2] * n_coupled * truncation.n_modes)


def between_stages(truncation: Truncation, pencils: bool, rows: int, columns: int) -> float:
    """Return complex numbers written by one stage and read by the next: planes and lines; of pencils also rows."""
    nz, ny, _ = truncation.shape
    moved = ny * truncation.n_lines * columns
    return 2.0 * (moved + (nz * ny * truncation.n_columns * rows if pencils else 0))


def least_memory_traffic(truncation: Truncation, pencils: bool, variables: Variables, scheme: str) -> float:
    """Return complex numbers to and from memory in one step: the plane and the line stage of each substep.

    A stage reads what it takes and writes what it gives once; what lies between stays in caches. The line stage
    also reads and writes the fields (RK4: and their sum), and they are read when a step begins. With P_r > 1 there
    is a stage more between z and x.
    """
    stages = between_stages(
        truncation, pencils, sum(variables.counts.of_rows), sum(variables.counts.of_columns)
    )
    return SUBSTEPS[scheme] * stages + PASSES[scheme] * truncation.n_modes * variables.fields
