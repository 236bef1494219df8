"""The state of step 0: particles displaced from a lattice, by Lagrangian perturbation theory or as a pancake.

The particle of lattice point q, in comoving coordinates, is at x, and has the momentum p = a^2 dx/dt:

    x = q + D psi1 + D2 psi2,   p = a^2 E (f D psi1 + f2 D2 psi2)
    psi1 = -grad phi1,   laplacian phi1 = delta
    psi2 = +grad phi2,   laplacian phi2 = sum_{i<j} (phi1,ii phi1,jj - phi1,ij^2)

D, D2 are the growth of first and second order, f and f2 their rates (cosmology.py); delta is that of linear theory
today. Only psi1 is Zel'dovich's approximation. Derivatives are spectral.

A mode of delta is a complex Gaussian number of variance P(k) / volume. It is a function of the seed and of the mode's
numbers (j_z, j_y, j_x) alone. So it is the same on any ranks and on every lattice that has the mode: a finer lattice
adds modes. psi2 has products of all modes of a lattice, and so is slightly other on a finer one. Displacements agree
on any ranks to the rounding of transforms.

Sources: Zel'dovich, Astron. Astrophys. 5 (1970) 84; Bouchet et al., Astron. Astrophys. 296 (1995) 575; Crocce,
Pueblas and Scoccimarro, Mon. Not. R. Astron. Soc. 373 (2006) 369, Eqs. 2 to 6.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Lengths, Modes, mirrored
from ridgeline.fourier.random_numbers import normal
from ridgeline.fourier.transform import FourierTransform
from ridgeline.models.n_body.cosmology import Cosmology
from ridgeline.models.n_body.power_spectra import Spectrum
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.runtime.errors import ConfigError

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]
# Positions (3, n) in [0, L), momenta (3, n), identities (n,).
Start = tuple[Real, Real, NDArray[np.int64]]

INITIAL_DENSITY = 1  # what random numbers are drawn for
BLOCK = 1 << 16  # modes drawn at a time: temporary arrays stay small beside the fields


def lattice_particles(
    transform: FourierTransform,
    cosmology: Cosmology,
    spectrum: Spectrum,
    scale_factor: float,
    seed: int,
    second_order: bool = True,
) -> Start:
    """Return particles of a random density at a scale factor, those of the lattice points that this rank owns.

    transform: float64, of a grid with the particles' lattice and the box's lengths (Mpc/h); dealias "none" takes all
    modes but those of Nyquist. spectrum: of delta today. second_order: False leaves psi2 out.

    Returns positions (3, n) float64 in [0, L), x, y, z, in Mpc/h; momenta (3, n) float64, Mpc/h H0; identities (n,)
    int64, the places of the lattice points, x fastest. Collective. Raises what the spectrum raises.
    """
    modes = transform.modes
    position, identity = lattice_points(transform.grid, modes.lengths)
    momentum = np.empty_like(position)
    with errors_on_all_ranks(transform.comm):
        density = density_modes(modes, spectrum, seed)
    wavenumbers = modes.expand()[::-1]  # x, y, z
    inverse = _inverse_square(wavenumbers)
    speed = scale_factor**2 * float(cosmology.expansion_rate(scale_factor))
    growth = float(cosmology.growth(scale_factor))
    rate = growth * float(cosmology.growth_rate(scale_factor))
    for axis, k in enumerate(wavenumbers):
        displacement = _physical(transform, 1j * k * inverse * density)
        position[axis] += growth * displacement
        momentum[axis] = speed * rate * displacement
    if second_order:
        source = _second_source(transform, wavenumbers, inverse * density)
        growth = float(cosmology.second_growth(scale_factor))
        rate = growth * float(cosmology.second_growth_rate(scale_factor))
        for axis, k in enumerate(wavenumbers):
            displacement = _physical(transform, -1j * k * inverse * source)
            position[axis] += growth * displacement
            momentum[axis] += speed * rate * displacement
    _wrap(position, modes.lengths)
    return position, momentum, identity


def density_modes(modes: Modes, spectrum: Spectrum, seed: int) -> Complex:
    """Return this rank's modes of delta today in linear theory, complex128 [n_modes]. No communication."""
    density = np.zeros(modes.n_modes, np.complex128)
    jz, jy, jx = modes.lines.expand()
    unit_z, unit_y, unit_x = modes.unit
    square = (unit_z * jz) ** 2 + (unit_y * jy) ** 2 + (unit_x * jx) ** 2
    volume = math.prod(modes.lengths)
    for first in range(0, modes.n_modes, BLOCK):
        some = slice(first, first + BLOCK)
        second = mirrored(jz[some], jy[some], jx[some])
        sign = np.where(second, -1, 1)
        (drawn,) = normal(seed, INITIAL_DENSITY, 0, sign * jz[some], sign * jy[some], jx[some], 1)
        k = np.sqrt(square[some])
        there = k > 0
        amplitude = np.zeros(len(k))
        amplitude[there] = np.sqrt(spectrum(k[there]) / (2 * volume))
        density[some] = amplitude * np.where(second, drawn.conj(), drawn)
    return density


def lattice_points(grid: PencilGrid, lengths: Lengths) -> tuple[Real, NDArray[np.int64]]:
    """Return the points (3, n), x, y, z, of this rank's block of a lattice, and their identities. No communication.

    lengths: (L_z, L_y, L_x); a point is number * length / points, so that the first is at 0.
    """
    z, y, x = np.indices(grid.block).reshape(3, -1) + np.array(grid.offset)[:, np.newaxis]
    _, ny, nx = grid.shape
    steps = np.array(lengths) / np.array(grid.shape)
    position = np.stack([step * number for step, number in zip(steps[::-1], (x, y, z))])
    return position, np.asarray((z * ny + y) * nx + x)


def pancake(
    grid: PencilGrid,
    lengths: Lengths,
    cosmology: Cosmology,
    scale_factor: float,
    crossing: float,
    axis: int = 0,
    waves: int = 1,
) -> Start:
    """Return the particles of a plane wave that collapses to sheets at the scale factor `crossing`.

    axis: 0 for x, 1 for y, 2 for z; waves: sheets along it; grid, lengths and what is returned as for
    `lattice_particles`. No communication. Raises ConfigError unless 0 < scale_factor < crossing.
    """
    if not 0 < scale_factor < crossing:
        raise ConfigError(
            f"a pancake cannot start at the scale factor {scale_factor:g}, as its sheets cross at {crossing:g}; "
            f"start earlier"
        )
    position, identity = lattice_points(grid, lengths)
    momentum = np.zeros_like(position)
    position[axis], momentum[axis] = pancake_exact(
        position[axis], lengths[2 - axis], cosmology, scale_factor, crossing, waves
    )
    _wrap(position, lengths)
    return position, momentum, identity


def pancake_exact(
    place: Real, length: float, cosmology: Cosmology, scale_factor: float, crossing: float, waves: int = 1
) -> tuple[Real, Real]:
    """Return position and momentum along the wave, of sheets from the places q: exact until scale_factor = crossing.

    x = q - b sin(k q) / k,   1 + delta = 1 / (1 - b cos(k q)),   b = D(a) / D(crossing),   k = 2 pi waves / length

    place: q, float64 of any shape. x is not wrapped. Source: Zel'dovich (1970): in one dimension the force on a sheet
    is linear in its displacement as long as no sheet has passed another.
    """
    k = 2 * math.pi * waves / length
    b = float(cosmology.growth(scale_factor) / cosmology.growth(crossing))
    speed = scale_factor**2 * float(
        cosmology.expansion_rate(scale_factor) * cosmology.growth_rate(scale_factor)
    )
    displacement = -b / k * np.sin(k * place)
    return place + displacement, speed * displacement


def _inverse_square(wavenumbers: tuple[Real, ...]) -> Real:
    """Return 1 / k^2 of every mode, 0 for k = 0."""
    square = np.asarray(sum(k * k for k in wavenumbers))
    return np.asarray(np.divide(1.0, square, out=np.zeros_like(square), where=square > 0))


def _physical(transform: FourierTransform, modes: NDArray[Any]) -> Real:
    """Return the values at this rank's points, [n]. Collective."""
    return np.asarray(transform.to_physical(modes[np.newaxis])[0].reshape(-1))


def _second_source(transform: FourierTransform, wavenumbers: tuple[Real, ...], scaled: Complex) -> Complex:
    """Return the modes of laplacian phi2. scaled: delta / k^2, so that phi1,ij has the modes k_i k_j scaled."""
    diagonal = [_physical(transform, k * k * scaled) for k in wavenumbers]
    source = np.zeros_like(diagonal[0])
    for (i, k), (j, other) in combinations(enumerate(wavenumbers), 2):
        source += diagonal[i] * diagonal[j] - _physical(transform, k * other * scaled) ** 2
    return np.asarray(transform.to_spectral(source.reshape(1, *transform.grid.block))[0])


def _wrap(position: Real, lengths: Lengths) -> None:
    """Bring positions (3, n) into [0, L)."""
    for row, length in zip(position, reversed(lengths)):
        np.mod(row, length, out=row)
        row[row >= length] = 0.0  # rounded up to the end, which is the beginning
