"""Solvers of the turbulence model behind one small interface, and figures of their fields.

A solver has `modes`, `fields` (complex [3 + S, n_modes]), `time` and `advance(dt)`. SOLVERS has the constructors by
name: (shape, flow, start, dealias=..., lengths=..., n_scalars=..., forcing=...), where start(fields, modes) sets
the initial fields and forcing(modes) makes a forcing.
"""

import ast
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes, Shells
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.models.turbulence import initial
from ridgeline.models.turbulence.engine_cpu import CpuEngine
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.problem import Waves
from ridgeline.models.turbulence.reference import ReferenceSolver
from ridgeline.models.turbulence.spectra import largest_sphere

DATA = Path(__file__).parent / "data"
CUBE = (2 * math.pi,) * 3
LONG = (2 * math.pi, 3 * math.pi, 1.5 * math.pi)  # lengths [L_z, L_y, L_x] of a box that is no cube
ROTATION, FREQUENCY = (0.4, -0.7, 1.9), 3.0
NO_GRADIENT = (0.0, 0.0, 0.0)
WAVE_FLOWS = {
    "rotation": {"waves": Waves(ROTATION)},
    "rotation and a scalar": {
        "waves": Waves(ROTATION), "schmidt": (0.3,), "mean_gradients": ((1.0, -0.5, 0.3),),
    },
    "stratification": {
        "waves": Waves(brunt_vaisala=FREQUENCY), "schmidt": (0.4,), "mean_gradients": (NO_GRADIENT,),
    },
    "both": {
        "waves": Waves(ROTATION, FREQUENCY), "schmidt": (1.0, 0.3), "mean_gradients": (NO_GRADIENT, (1.0, -0.5, 0.3)),
    },
}  # fmt: skip


def all_modes(shape, dealias="two-thirds", lengths=CUBE):
    """All modes of a grid, on one rank."""
    return Modes.of(PencilGrid(tuple(shape), dealias, (1, 1), 0), tuple(lengths))


def start_fields(modes, start, n_scalars=0):
    fields = np.zeros((3 + n_scalars, modes.n_modes), np.complex128)
    start(fields, modes)
    return fields


def make_forcing(forcing, modes, fields):
    made = forcing(modes) if forcing else Forcing(modes, MPI.COMM_SELF)
    made.start(fields)
    return made


def make_reference(shape, flow, start, dealias="two-thirds", lengths=CUBE, forcing=None):
    modes = all_modes(shape, dealias, lengths)
    fields = start_fields(modes, start, len(flow.schmidt))
    return ReferenceSolver(modes, flow, fields, make_forcing(forcing, modes, fields))


def make_engine(
    shape, flow, start, dealias="two-thirds", lengths=CUBE, forcing=None, dtype=np.float64, **options
):
    """The engine on one rank; options: its tuning. FFTW estimates: planning takes longer than the tests."""
    grid = PencilGrid(tuple(shape), dealias, (1, 1), 0)
    tuning = TransformTuning(effort="estimate", **options)
    engine = CpuEngine(grid, tuple(lengths), MPI.COMM_SELF, dtype, flow, tuning)
    start(engine.fields, engine.modes)
    engine.forcing = make_forcing(forcing, engine.modes, engine.fields)
    return engine


def courant_numbers_after_steps(engine, courant, steps):
    """Courant numbers of adaptive steps with the speed after them, from a flow that is slow against its force."""
    engine.fields[...] *= 1e-6
    engine.commit()
    lengths, rates = [], []
    for _ in range(steps + 1):
        lengths.append(engine.advance(courant=courant))
        rates.append(engine.last_courant_rate)
    assert rates[-1] > 1e4 * rates[0]
    return [dt * rate for dt, rate in zip(lengths, rates[1:])]


SOLVERS = {"reference": make_reference, "engine": make_engine}


def wavenumbers(modes):
    """k [3, n_modes] in the order x, y, z."""
    return np.stack(modes.expand()[::-1])


def energy(fields, modes):
    """<u.u> / 2."""
    return 0.5 * float((modes.weight() * np.abs(fields[:3]) ** 2).sum())


def injection(forcing, fields):
    """The power of a forcing at fields of the host."""
    return forcing.injection(fields[:3, forcing.indices], energy(fields, forcing.modes))


def enstrophy(fields, modes):
    """<w.w> / 2."""
    return 0.5 * float((modes.weight() * np.abs(np.cross(wavenumbers(modes), fields[:3], axis=0)) ** 2).sum())


def divergence(fields, modes):
    """Largest |k.u| over the largest |k| |u|."""
    k = wavenumbers(modes)
    scale = np.sqrt((k * k).sum(0)).max() * np.abs(fields[:3]).max()
    return float(np.abs((k * fields[:3]).sum(0)).max() / scale)


def series(quantity, t, reynolds):
    """E or Z of the Taylor-Green vortex by its series to t^9, exact to 1e-13 at t = 0.1."""
    total = Fraction(0)
    for line in (DATA / "tgv_series_t9.txt").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if name == quantity:
            n, _, coefficients = rest.partition(" ")
            polynomial = [Fraction(c) for c in ast.literal_eval(coefficients)]
            total += Fraction(t) ** int(n) * sum(
                c / Fraction(reynolds) ** j for j, c in enumerate(polynomial)
            )
    return float(total)


def table(name):
    """Columns by name of a CSV file of tests/data, whose first lines may be comments."""
    lines = [line for line in (DATA / name).read_text().splitlines() if not line.startswith("#")]
    columns = zip(*(map(float, line.split(",")) for line in lines[1:]))
    return dict(zip(lines[0].split(","), map(np.array, columns)))


def flat_spectrum(energy_sum, largest=math.inf, seed=4):
    """A start with the same energy in every whole shell up to `largest`, and scalars alike."""

    def start(fields, modes):
        shells = Shells(modes)
        k = shells.wavenumbers
        whole = (k > 0) & (k + shells.width / 2 <= min(largest_sphere(modes), largest))
        energies = np.where(whole, energy_sum / whole.sum(), 0.0)
        initial.random_velocity(fields, modes, MPI.COMM_SELF, energies, seed)
        for s in range(len(fields) - 3):
            initial.random_scalar(fields[3 + s], modes, MPI.COMM_SELF, energies, seed, s)

    return start


def random_start(fields, modes):
    """Energy in every shell, so that aliasing, truncation and projection all matter; and scalars alike."""
    k = Shells(modes).wavenumbers
    whole = (k > 0) & (k < largest_sphere(modes))
    energies = np.where(whole, 3 / whole.sum(), 0.0)
    fields[...] = 0
    drawn = np.zeros(fields.shape, np.complex128)
    initial.random_velocity(drawn, modes, MPI.COMM_SELF, energies, 4)
    for s in range(len(fields) - 3):
        initial.random_scalar(drawn[3 + s], modes, MPI.COMM_SELF, energies, 4, s)
    fields[...] = drawn
