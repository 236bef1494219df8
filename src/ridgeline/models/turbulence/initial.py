"""Initial states of turbulence, set mode by mode, so that they do not depend on the decomposition.

A spectral field is complex [n_modes] over this rank's retained modes (fourier/modes.py); fields are [3 + S, n_modes],
velocity components x, y, z and scalars, complex64 or complex128. u(x) = sum_k u_hat(k) exp(i k.x).

The end of the file has the spectra E(k) of random initial fields. They are functions of wavenumbers k > 0, float64
arrays in 1/length; only their shape matters, because fields are scaled to their energy.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import Lines, PencilGrid
from ridgeline.fourier.modes import Modes, Shells, mirrored
from ridgeline.fourier.random_numbers import uniform
from ridgeline.models.turbulence.initial_from_file import fill_from_file
from ridgeline.models.turbulence.random_numbers import Purpose
from ridgeline.models.turbulence.spectra import largest_sphere, sum_over_ranks
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.turbulence.forcing import Forcing
    from ridgeline.models.turbulence.passes import FieldTransform
    from ridgeline.models.turbulence.settings import InitialSection, TurbulenceCase


Fields = NDArray[Any]
BLOCK = 1 << 16  # modes drawn at a time, so that temporary arrays stay small beside the fields
Real = NDArray[np.float64]

# Comte-Bellot and Corrsin, J. Fluid Mech. 48 (1971) 273, Table 3: grid turbulence, mesh 5.08 cm, 10 m/s.
# k in 1/cm; E in cm^3/s^2 at t U/M = 42, 98 and 171, nan where it was not measured.
CBC_STATIONS = (42, 98, 171)
_NONE = math.nan
CBC_TABLE = np.array(
    [
        (0.15, _NONE, _NONE, 49.7),
        (0.2, 129, 106, 92),
        (0.25, 230, 196, 120),
        (0.3, 322, 195, 125),
        (0.4, 435, 202, 98),
        (0.5, 457, 168, 81.5),
        (0.7, 380, 127, 60.2),
        (1, 270, 79.2, 39.4),
        (1.5, 168, 47.8, 24.1),
        (2, 120, 34.6, 16.5),
        (2.5, 89, 28.6, 12.5),
        (3, 70.3, 23.1, 9.12),
        (4, 47, 14.3, 5.62),
        (6, 24.7, 5.95, 1.69),
        (8, 12.6, 2.23, 0.52),
        (10, 7.42, 0.9, 0.161),
        (12.5, 3.96, 0.363, 0.052),
        (15, 2.33, 0.162, 0.0141),
        (17.5, 1.34, 0.066, _NONE),
        (20, 0.8, 0.033, _NONE),
    ]
)


def set_initial_modes(
    fields: Fields,
    case: TurbulenceCase,
    modes: Modes,
    grid: PencilGrid,
    transform: FieldTransform,
    comm: MPI.Comm,
    forcing: Forcing,
) -> None:
    """Set the fields of step 0, and from a checkpoint the past of the forcing. Collective.

    Scalars that a file does not have start as their settings say. Memory: some MB beside the fields, more for files.

    Parameters
    ----------
    fields : complex64 or complex128 [3 + S, n_modes], overwritten
    modes, grid : of this rank
    transform : of the grid, for data sets

    Raises
    ------
    ConfigError
        If the grid does not resolve the initial state of the settings. Errors of files are those of `fill_from_file`.
    """
    initial = case.initial
    fields[...] = 0
    initial_scalars(case, fields, modes, comm)
    if initial.kind == "taylor_green":
        taylor_green(fields, modes, initial.velocity, initial.waves)
    elif initial.kind == "taylor_green_2d":
        taylor_green_2d(fields, modes, initial.velocity, initial.waves)
    elif initial.kind == "abc":
        abc(fields, modes, (initial.A, initial.B, initial.C), initial.waves)
    elif initial.kind == "spectrum":
        energies = shell_energies(case, modes, initial.energy)
        random_velocity(fields, modes, comm, energies, case.run.seed)
    else:
        fill_from_file(fields, initial.path, grid, modes, transform, comm, initial.step, forcing)


def initial_scalars(case: TurbulenceCase, fields: Fields, modes: Modes, comm: MPI.Comm) -> None:
    """Set the scalars that have a variance, of fields[3:], to random modes. Collective."""
    for number, scalar in enumerate(case.scalar):
        if scalar.variance > 0:
            variances = shell_energies(case, modes, scalar.variance)
            random_scalar(fields[3 + number], modes, comm, variances, case.run.seed, number)


def add_waves(
    fields: Fields, modes: Modes, component: int, amplitude: float, waves: tuple[str, str, str], m: int = 1
) -> None:
    """Add amplitude * f(x) g(y) h(z) to one component; waves: f, g, h, each "sin", "cos" or "1", of 2 pi m x/L.

    Raises ConfigError if the grid does not retain the modes of the product.
    """
    coefficients: dict[str, dict[int, complex]] = {
        "sin": {m: -0.5j, -m: 0.5j},
        "cos": {m: 0.5, -m: 0.5},
        "1": {0: 1.0},
    }
    f, g, h = (coefficients[name] for name in waves)
    lines = modes.lines
    for jx, jy, jz in product(f, g, h):
        if abs(jy) > int(modes.truncation.most_y(np.array(jz), np.array(jx))):
            raise ConfigError(
                f"initial.waves = {m} has modes that grid.shape = {list(modes.shape)} with "
                f'model.dealias = "{modes.dealias}" does not retain. Use fewer waves or a finer grid.'
            )
        value = amplitude * f[jx] * g[jy] * h[jz]
        for line in np.flatnonzero((lines.jx == jx) & (lines.jz == jz)):
            place = jy if jy >= 0 else jy + 2 * lines.most[line] + 1
            fields[component, lines.start[line] + place] += value


def taylor_green(fields: Fields, modes: Modes, velocity: float = 1.0, m: int = 1) -> None:
    """Add V (sin x cos y cos z, -b cos x sin y cos z, 0), b = L_y / L_x; x stands for 2 pi m x / L_x, and so on.

    Source: Taylor and Green, Proc. R. Soc. A 158 (1937) 499; Brachet et al., J. Fluid Mech. 130 (1983) 411.
    """
    ratio = modes.lengths[1] / modes.lengths[2]
    add_waves(fields, modes, 0, velocity, ("sin", "cos", "cos"), m)
    add_waves(fields, modes, 1, -ratio * velocity, ("cos", "sin", "cos"), m)


def taylor_green_2d(fields: Fields, modes: Modes, velocity: float = 1.0, m: int = 1) -> None:
    """Add V (sin x cos y, -b cos x sin y, 0), which decays as exp(-nu (k_x^2 + k_y^2) t): exact."""
    ratio = modes.lengths[1] / modes.lengths[2]
    add_waves(fields, modes, 0, velocity, ("sin", "cos", "1"), m)
    add_waves(fields, modes, 1, -ratio * velocity, ("cos", "sin", "1"), m)


def abc(fields: Fields, modes: Modes, amplitudes: tuple[float, float, float], m: int = 1) -> None:
    """Add (A sin z + C cos y, B sin x + A cos z, C sin y + B cos x).

    In a cube curl u = k u, so the nonlinear term is a gradient and u decays as exp(-nu k^2 t): exact (Beltrami).
    """
    a, b, c = amplitudes
    for component, amplitude, waves in (
        (0, a, ("1", "1", "sin")),
        (0, c, ("1", "cos", "1")),
        (1, b, ("sin", "1", "1")),
        (1, a, ("1", "1", "cos")),
        (2, c, ("1", "sin", "1")),
        (2, b, ("cos", "1", "1")),
    ):
        add_waves(fields, modes, component, amplitude, waves, m)


def shell_energies(case: TurbulenceCase, modes: Modes, total: float) -> NDArray[np.float64]:
    """Return the energy of each shell, [n_shells]: E(k_n) dk of the settings' spectrum, scaled to the sum `total`.

    Shells that the truncation cuts have no energy, so that every shell is isotropic; the shell of k = 0 has none
    either. Raises ConfigError if the grid retains no shell with energy.
    """
    shells = Shells(modes)
    k = shells.wavenumbers
    whole = (k > 0) & (k + shells.width / 2 <= largest_sphere(modes))
    energies = np.zeros(shells.n_shells)
    energies[whole] = initial_spectrum(case.initial, k[whole], modes)
    if not 0 < energies.sum() < math.inf:
        raise ConfigError(
            f'initial.spectrum = "{case.initial.spectrum}" has no energy in the shells that grid.shape = '
            f"{list(modes.shape)} retains, up to k = {largest_sphere(modes):.4g}. Use a finer grid, or other scales "
            "in [initial]."
        )
    return np.asarray(energies * (total / energies.sum()))


def modes_in_shells(modes: Modes, comm: MPI.Comm) -> NDArray[np.int64]:
    """Return the number of modes in each shell, int64 [n_shells], of all ranks and both signs of j_x. Collective."""
    shells = Shells(modes)
    counts = np.zeros(shells.n_shells, np.int64)
    for first, end in modes.blocks(BLOCK):
        block = _Block(modes, first, end)
        weight = np.where(block.jx > 0, 2, 1)
        counts += np.bincount(shells.of(block.k), weight, shells.n_shells).astype(np.int64)
    return sum_over_ranks(comm, counts)


def random_velocity(
    fields: Fields, modes: Modes, comm: MPI.Comm, energies: NDArray[np.float64], seed: int
) -> None:
    """Set fields[:3] to random solenoidal modes with the given energy in each shell. Collective.

    energies: float64 [n_shells], sum of |u_hat|^2 / 2 over the shell. By Rogallo's method a mode is

        u_hat = (alpha e1 + beta e2) sqrt(2 energy / modes of the shell),   e1, e2, k orthogonal,
        alpha = exp(i theta1) cos phi, beta = exp(i theta2) sin phi,

    with random angles of the mode. |alpha|^2 + |beta|^2 = 1, so the energy of a shell has no sampling error.
    Source: Rogallo, NASA TM-81315 (1981). Random numbers: one draw per mode, fourier/random_numbers.py.
    """
    amplitudes = np.sqrt(2.0 * energies / np.maximum(modes_in_shells(modes, comm), 1))
    shells = Shells(modes)
    for first, end in modes.blocks(BLOCK):
        block = _Block(modes, first, end)
        theta1, theta2, phi = 2 * np.pi * block.draw(seed, Purpose.INITIAL_VELOCITY, 3)
        alpha = np.exp(1j * theta1) * np.cos(phi)
        beta = np.exp(1j * theta2) * np.sin(phi)
        vector = (alpha * block.e1 + beta * block.e2) * amplitudes[shells.of(block.k)]
        fields[:3, block.places] = block.conjugate_mirrored(vector)


def random_scalar(
    field: Fields, modes: Modes, comm: MPI.Comm, variances: NDArray[np.float64], seed: int, number: int
) -> None:
    """Set one spectral field [n_modes] to modes of random phase, with the given <theta^2> in each shell. Collective.

    number: of the scalar, so that every scalar has other phases.
    """
    amplitudes = np.sqrt(variances / np.maximum(modes_in_shells(modes, comm), 1))
    shells = Shells(modes)
    for first, end in modes.blocks(BLOCK):
        block = _Block(modes, first, end)
        (angle,) = 2 * np.pi * block.draw(seed, Purpose.INITIAL_SCALAR + number, 1)
        field[block.places] = block.conjugate_mirrored(np.exp(1j * angle) * amplitudes[shells.of(block.k)])


def _lines_between(lines: Lines, first: int, end: int) -> Lines:
    """Return lines first ... end - 1."""
    part = slice(first, end)
    start = lines.start[first : end + 1] - lines.start[first]
    return Lines(lines.jx[part], lines.jz[part], lines.most[part], start, lines.start_global[part])


class _Block:
    """A block of lines of a rank's modes, in which k and -k draw the same random numbers.

    Modes with j_x = 0 are stored with both signs and must be exact conjugates. One of the two (`mirrored`) is
    computed as its mirror image and conjugated.
    """

    def __init__(self, modes: Modes, first: int, end: int) -> None:
        jz, jy, jx = _lines_between(modes.lines, first, end).expand()
        self.places = slice(int(modes.lines.start[first]), int(modes.lines.start[end]))
        self.mirrored = mirrored(jz, jy, jx)
        sign = np.where(self.mirrored, -1, 1)
        self.jz, self.jy, self.jx = sign * jz, sign * jy, jx
        unit_z, unit_y, unit_x = modes.unit
        self.kz, self.ky, self.kx = unit_z * self.jz, unit_y * self.jy, unit_x * self.jx

    @property
    def k(self) -> NDArray[np.float64]:
        """|k|."""
        return np.asarray(np.sqrt(self.kx * self.kx + self.kz * self.kz + self.ky * self.ky))

    @property
    def e1(self) -> NDArray[np.float64]:
        """Unit vector normal to k and z, [3, n]; x where k is along z."""
        flat = np.hypot(self.kx, self.ky)
        across = flat > 0
        flat = np.where(across, flat, 1.0)
        return np.stack([np.where(across, self.ky / flat, 1.0), -self.kx / flat, np.zeros_like(flat)])

    @property
    def e2(self) -> NDArray[np.float64]:
        """Unit vector k x e1 / |k|, [3, n]."""
        k = np.stack([self.kx, self.ky, self.kz]) / np.where(self.k > 0, self.k, 1.0)
        return np.cross(k, self.e1, axis=0)

    def draw(self, seed: int, purpose: int, n: int) -> NDArray[np.float64]:
        """Return n uniform numbers of each mode."""
        return uniform(seed, purpose, 0, self.jz, self.jy, self.jx, n)

    def conjugate_mirrored(self, values: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the values at the stored modes, given those at the computed modes."""
        return np.where(self.mirrored, values.conj(), values)


def power_law(k: Real, peak: float, low_slope: float, slope: float) -> Real:
    """Return (k/peak)^low_slope up to the peak and (k/peak)^slope beyond."""
    return np.where(k < peak, (k / peak) ** low_slope, (k / peak) ** slope)


def von_karman_pao(k: Real, peak: float, kolmogorov_length: float) -> Real:
    """Return von Karman's spectrum with Pao's cut-off, (kL)^4 (1 + (kL)^2)^(-17/6) exp(-2.25 (k eta)^(4/3)).

    Without the cut-off it is largest at k = peak, where (kL)^2 = 12/5, and falls as k^(-5/3) beyond. 2.25 is 3/2 of
    Kolmogorov's constant 1.5 (Pao, Phys. Fluids 8 (1965) 1063).
    """
    scaled = (k / peak) ** 2 * (12 / 5)
    cut_off = np.exp(-2.25 * (k * kolmogorov_length) ** (4 / 3))
    return np.asarray(scaled**2 * (1 + scaled) ** (-17 / 6) * cut_off)


def comte_bellot_corrsin(k: Real, station: int) -> Real:
    """Return E in cm^3/s^2 at wavenumbers in 1/cm; log E is interpolated and extrapolated linearly in log k."""
    values = CBC_TABLE[:, 1 + CBC_STATIONS.index(station)]
    measured = ~np.isnan(values)
    x, y = np.log(CBC_TABLE[measured, 0]), np.log(values[measured])
    log_k = np.log(k)
    result = np.interp(log_k, x, y)
    for end, next_to_it in ((0, 1), (-1, -2)):
        slope = (y[next_to_it] - y[end]) / (x[next_to_it] - x[end])
        beyond = log_k < x[0] if end == 0 else log_k > x[-1]
        result = np.where(beyond, y[end] + slope * (log_k - x[end]), result)
    return np.asarray(np.exp(result))


def initial_spectrum(initial: InitialSection, k: Real, modes: Modes) -> Real:
    """Return the spectrum of the settings at wavenumbers k, up to a factor."""
    if initial.spectrum == "power-law":
        return power_law(k, initial.peak_wavenumber, initial.low_slope, initial.slope)
    if initial.spectrum == "von-karman-pao":
        eta = initial.kolmogorov_length or 1.5 / largest_sphere(modes)
        return von_karman_pao(k, initial.peak_wavenumber, eta)
    return comte_bellot_corrsin(k / initial.length_cm, initial.station)
