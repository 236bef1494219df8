"""Initial states: particles displaced from a lattice, by Lagrangian perturbation theory or as a plane wave.

The particle of the lattice point q, in comoving coordinates, is at x and has the momentum p = a^2 dx/dt:

    x = q + D psi1 + D2 psi2,   p = a^2 E (f D psi1 + f2 D2 psi2)
    psi1 = -grad phi1,   laplacian phi1 = delta
    psi2 = +grad phi2,   laplacian phi2 = sum_{i<j} (phi1,ii phi1,jj - phi1,ij^2)

D and D2 are the growth factors of first and second order, f and f2 their rates (cosmology.py), and delta is the
density contrast of linear theory today. With psi1 alone this is Zel'dovich's approximation. Derivatives are spectral.

A mode of delta is a complex Gaussian number of variance P(k) / volume. It depends only on the seed and on the mode's
numbers (j_z, j_y, j_x). It is therefore the same on any number of ranks and on every lattice that has the mode: a
finer lattice adds modes. psi2 contains products of all modes of a lattice, so that it is slightly different on a
finer one. Displacements on different numbers of ranks agree to the rounding of transforms.

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
InitialParticles = tuple[Real, Real, NDArray[np.int64]]

INITIAL_DENSITY = 1  # the stream of random numbers
BLOCK = 1 << 16  # modes that are drawn at a time, so that temporary arrays stay small beside the fields


def lattice_particles(
    transform: FourierTransform,
    cosmology: Cosmology,
    spectrum: Spectrum,
    scale_factor: float,
    seed: int,
    second_order: bool = True,
) -> InitialParticles:
    """Return the particles of a random density for the lattice points that this rank owns. Collective.

    Parameters
    ----------
    transform : FourierTransform
        A float64 transform whose grid is the lattice of particles, with the lengths of the box in Mpc/h. With dealias
        "none" it has all modes except those of Nyquist.
    cosmology : Cosmology
        The expansion of the universe.
    spectrum : callable
        Power spectrum of delta today.
    scale_factor : float
        Scale factor of the initial state.
    seed : int
        Key of the random numbers.
    second_order : bool
        Whether psi2 is included.

    Returns
    -------
    positions, momenta, identities
        float64 (3, n) in [0, L), x, y, z, in Mpc/h; float64 (3, n) in Mpc/h H0; int64 (n,), the numbers of the
        lattice points, x fastest.

    Raises
    ------
    ConfigError
        On all ranks, if the spectrum raises it on one.
    """
    modes = transform.modes
    position, identity = lattice_points(transform.grid, modes.lengths)
    momentum = np.empty_like(position)
    with errors_on_all_ranks(transform.comm):
        density = density_modes(modes, spectrum, seed)
    wavenumbers = modes.expand()[::-1]  # x, y, z
    square = np.asarray(sum(k * k for k in wavenumbers))
    inverse = np.divide(1.0, square, out=np.zeros_like(square), where=square > 0)
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
    """Return this rank's modes of delta today in linear theory, complex128 [n_modes]. Local."""
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
        nonzero = k > 0
        amplitude = np.zeros(len(k))
        amplitude[nonzero] = np.sqrt(spectrum(k[nonzero]) / (2 * volume))
        density[some] = amplitude * np.where(second, drawn.conj(), drawn)
    return density


def lattice_points(grid: PencilGrid, lengths: Lengths) -> tuple[Real, NDArray[np.int64]]:
    """Return the points (3, n), x, y, z, of this rank's block of a lattice, and their identities (n,). Local.

    lengths: (L_z, L_y, L_x). The coordinate of a point is number * length / points; the first is 0.
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
) -> InitialParticles:
    """Return the particles of a plane wave that collapses to sheets at the scale factor `crossing`. Local.

    grid: the lattice of particles; lengths: (L_z, L_y, L_x) of the box; axis: direction of the wave, 0 for x, 1 for
    y, 2 for z; waves: number of sheets along it. Returns the same as `lattice_particles`. Raises ConfigError unless 0
    < scale_factor < crossing.
    """
    if not 0 < scale_factor < crossing:
        raise ConfigError(
            f"a pancake cannot start at the scale factor {scale_factor:g}, because its sheets cross at "
            f"{crossing:g}. Start at a smaller scale factor."
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
    """Return position and momentum along the wave of the sheets that start at q; exact until `crossing`.

    x = q - b sin(k q) / k,   1 + delta = 1 / (1 - b cos(k q)),   b = D(a) / D(crossing),   k = 2 pi waves / length

    place: q, float64 of any shape. The positions x are not wrapped. Source: Zel'dovich (1970): in one dimension the
    force on a sheet is linear in its displacement as long as no sheet has passed another one.
    """
    k = 2 * math.pi * waves / length
    b = float(cosmology.growth(scale_factor) / cosmology.growth(crossing))
    speed = scale_factor**2 * float(
        cosmology.expansion_rate(scale_factor) * cosmology.growth_rate(scale_factor)
    )
    displacement = -b / k * np.sin(k * place)
    return place + displacement, speed * displacement


def _physical(transform: FourierTransform, modes: NDArray[Any]) -> Real:
    """Return the values of modes at this rank's points, [n]. Collective."""
    return np.asarray(transform.to_physical(modes[np.newaxis])[0].reshape(-1))


def _second_source(transform: FourierTransform, wavenumbers: tuple[Real, ...], scaled: Complex) -> Complex:
    """Return the modes of laplacian phi2. scaled: delta / k^2, so that phi1,ij has the modes k_i k_j * scaled."""
    diagonal = [_physical(transform, k * k * scaled) for k in wavenumbers]
    source = np.zeros_like(diagonal[0])
    for (i, k), (j, other) in combinations(enumerate(wavenumbers), 2):
        source += diagonal[i] * diagonal[j] - _physical(transform, k * other * scaled) ** 2
    return np.asarray(transform.to_spectral(source.reshape(1, *transform.grid.block))[0])


def _wrap(position: Real, lengths: Lengths) -> None:
    """Wrap positions (3, n) into [0, L), in place."""
    for row, length in zip(position, reversed(lengths)):
        np.mod(row, length, out=row)
        row[row >= length] = 0.0  # rounded up to L, which is the same point as 0
