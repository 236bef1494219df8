"""The Navier-Stokes equations by np.fft on whole arrays: the oracle with which the engines are compared.

It is written to be read: complex transforms of every field, all six products u_l u_m, all modes stored, and nothing
pruned, fused or distributed. Fields are complex128 [3 + S, N_z, N_y, N_x] in the order of np.fft: u_x, u_y, u_z,
then S scalars; f(x) = sum_k f_hat(k) exp(i k.x). Wavenumbers and all other vectors have the order x, y, z.

    d u_j / dt     = -i k_m P_jl (u_l u_m)^ - (nu k^2 + nu_h k^2p + alpha) u_j + f_j    (Yeung et al., Eqs. 6 and 7)
    d theta / dt   = -i k_m (u_m theta)^ - G_m u_m - (nu k^2 + nu_h k^2p) / Sc theta

The drag alpha acts on all modes or on those up to a wavenumber.

In a rotating frame d u_j / dt also has - P_jl (2 Omega x u)_l. With stratification it has P_jz N theta, and the
rate of the first scalar has - N u_z.

Terms that are linear with constant factors (viscosity, damping, linear forcing, waves) are integrated exactly by
E = exp(L dt); RK2 and RK4 with this integrating factor integrate the rate N of all others (Rogallo, NASA TM-81315,
1981).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import Lines
from ridgeline.fourier.modes import Modes
from ridgeline.models.turbulence.problem import FlowParameters, Waves
from ridgeline.models.turbulence.random_numbers import phase_shift

if TYPE_CHECKING:
    from ridgeline.config.expressions import Expression
    from ridgeline.models.turbulence.forcing import Forcing

Complex = NDArray[np.complex128]
Real = NDArray[np.float64]


class Wavenumbers:
    """Wavenumbers of all modes of a grid, k [3, N_z, N_y, N_x] as x, y, z; k2 = |k|^2; keep: the retained ones."""

    def __init__(self, modes: Modes) -> None:
        self.modes = modes
        self.shape = modes.shape
        jz, jy, jx = np.meshgrid(*(np.fft.fftfreq(n, 1 / n).round() for n in self.shape), indexing="ij")
        unit_z, unit_y, unit_x = modes.unit
        self.k: Real = np.stack([unit_x * jx, unit_y * jy, unit_z * jz])
        self.k2: Real = (self.k**2).sum(0)
        self.j = np.stack([jx, jy, jz])
        self.keep = np.abs(jy) <= modes.truncation.most_y(jz.astype(np.int64), jx.astype(np.int64))

    @cached_property
    def spacing(self) -> tuple[float, float, float]:
        """(dx, dy, dz) of the grid."""
        dz, dy, dx = (length / n for length, n in zip(self.modes.lengths, self.shape))
        return dx, dy, dz

    def phase(self, shift: Real) -> Complex:
        """Return exp(i k.d) of a displacement d, whose components are `shift` as fractions of the box."""
        return np.asarray(np.exp(2j * np.pi * np.einsum("i,izyx->zyx", shift, self.j)))

    def to_physical(self, fields: Complex, shift: Real) -> Real:
        """Return the values [n, N_z, N_y, N_x] at the points of the grid, displaced by `shift`."""
        points = math.prod(self.shape)
        return np.fft.ifftn(fields * self.phase(shift), axes=(1, 2, 3)).real * points

    def to_modes(self, values: Real, shift: Real) -> Complex:
        """Return the retained modes of values given on the grid displaced by `shift`."""
        points = math.prod(self.shape)
        return np.asarray(np.fft.fftn(values, axes=(1, 2, 3)) / points * self.phase(-shift) * self.keep)

    def project(self, vector: Complex) -> Complex:
        """Return P vector, P_jl = delta_jl - k_j k_l / k^2; the mean does not change."""
        along = (self.k * vector).sum(0) / np.where(self.k2 > 0, self.k2, 1)
        return np.asarray(vector - self.k * along)


def nonlinear(
    fields: Complex, box: Wavenumbers, mean_gradients: Sequence[Sequence[float]], shift: Real
) -> Complex:
    """Return N without forcing, evaluated on the grid displaced by `shift`, [3 + S, N_z, N_y, N_x]."""
    values = box.to_physical(fields, shift)
    velocity = values[:3]
    rate = np.empty_like(fields)
    for l in range(3):
        products = box.to_modes(values[l] * velocity, shift)
        rate[l] = -1j * (box.k * products).sum(0)
    rate[:3] = box.project(rate[:3])
    for s, gradient in enumerate(mean_gradients, start=3):
        flux = box.to_modes(values[s] * velocity, shift)
        rate[s] = -1j * (box.k * flux).sum(0) - np.einsum("i,izyx->zyx", np.asarray(gradient), fields[:3])
    return rate


def courant_rate(fields: Complex, box: Wavenumbers, shift: Real) -> float:
    """Return max(|u|/dx + |v|/dy + |w|/dz) over the points of the displaced grid (paper, Eq. 8), 1/time."""
    velocity = box.to_physical(fields[:3], shift)
    return float(sum(np.abs(u) / d for u, d in zip(velocity, box.spacing)).max())


def decay_rates(box: Wavenumbers, flow: FlowParameters, linear_rate: float) -> Real:
    """Return r(k) of each field: linear_rate - nu k^2 and the damping of the velocity, and those of the scalars."""
    velocity = linear_rate - flow.viscosity * box.k2 - flow.damping.rates(box.k2)
    scalars = [-flow.viscosity / each * box.k2 - flow.damping.rates(box.k2, each) for each in flow.schmidt]
    return np.stack([velocity] * 3 + scalars)


def formula_force(box: Wavenumbers, formulas: Sequence[Expression], time: float) -> Complex:
    """Return the solenoidal part of a force [3, N_z, N_y, N_x] that formulas of x, y, z and t give at the points."""
    z, y, x = (np.arange(n) * length / n for n, length in zip(box.shape, box.modes.lengths, strict=True))
    z, y, x = np.meshgrid(z, y, x, indexing="ij")
    values = np.stack([formula(x, y, z, time) for formula in formulas])
    return box.project(box.to_modes(values, np.zeros(3)))


def wave_operator(box: Wavenumbers, waves: Waves) -> Real:
    """Return the matrix of the linear terms of waves, [N_z, N_y, N_x, n, n], zero for the mean: n = 3 or 4 fields."""
    k = np.moveaxis(box.k, 0, -1)
    moving = box.k2[..., np.newaxis, np.newaxis] > 0
    project = np.eye(3) - k[..., :, np.newaxis] * k[..., np.newaxis, :] / np.where(
        moving, box.k2[..., np.newaxis, np.newaxis], 1
    )
    x, y, z = waves.rotation
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    operator = np.zeros((*box.shape, waves.n_coupled, waves.n_coupled))
    operator[..., :3, :3] = -2 * project @ cross @ project
    if waves.stratified:
        operator[..., :3, 3] = waves.brunt_vaisala * project[..., :, 2]
        operator[..., 3, :3] = -waves.brunt_vaisala * project[..., 2, :]
    return np.where(moving, operator, 0.0)


def exponential(matrices: Real) -> Real:
    """Return exp of matrices [..., n, n]: the Taylor series of a fraction 2^-m of them, squared m times.

    SciPy's function computes them one by one, each with threads, which is many times slower.
    """
    halvings = max(math.ceil(math.log2(max(float(np.abs(matrices).max()), 1e-300))) + 2, 0)
    part = matrices / 2**halvings
    term = total = np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape)
    for order in range(1, 18):
        term = np.einsum("...ij,...jk->...ik", term, part) / order
        total = total + term
    for _ in range(halvings):
        total = np.einsum("...ij,...jk->...ik", total, total)
    return np.asarray(total)


def propagator(
    box: Wavenumbers, flow: FlowParameters, linear_rate: float, dt: float
) -> Callable[[Complex], Complex]:
    """Return a function that multiplies fields by E = exp(L dt), where L are all linear terms."""
    rates = decay_rates(box, flow, linear_rate)
    n = flow.waves.n_coupled
    if not n:
        factor = np.exp(rates * dt)
        return lambda fields: np.asarray(factor * fields)
    operator = wave_operator(box, flow.waves)
    operator += np.moveaxis(rates[:n], 0, -1)[..., np.newaxis] * np.eye(n)
    matrix, factor = exponential(operator * dt), np.exp(rates[n:] * dt)
    return lambda fields: np.concatenate(
        [np.einsum("zyxij,jzyx->izyx", matrix, fields[:n]), factor * fields[n:]]
    )


def step(
    fields: Complex,
    box: Wavenumbers,
    flow: FlowParameters,
    dt: float,
    shift: Real | None = None,
    force: Complex | float = 0.0,
    linear_rate: float = 0.0,
) -> Complex:
    """Return the fields after one step dt.

    shift: displacement of the grid of the odd substeps, (x, y, z) as fractions of the box; None: no shifts. The grid
    of the even substeps is half a cell farther in all three directions, so that errors of aliasing in one or in three
    directions change sign. force: [3, N_z, N_y, N_x], constant over the step. linear_rate: A of a force A u.
    """
    half_cell = np.array([0.5 / n for n in reversed(box.shape)])
    odd, even = (np.zeros(3),) * 2 if shift is None else (shift, shift + half_cell)

    def rate(stage: Complex, at: Real) -> Complex:
        result = nonlinear(stage, box, flow.mean_gradients, at)
        result[:3] += force
        return result

    whole = propagator(box, flow, linear_rate, dt)
    n1 = rate(fields, odd)
    if flow.scheme == "rk2":
        n2 = rate(whole(fields + dt * n1), even)
        return np.asarray(whole(fields + dt / 2 * n1) + dt / 2 * n2)
    half = propagator(box, flow, linear_rate, dt / 2)
    n2 = rate(half(fields + dt / 2 * n1), even)
    n3 = rate(half(fields) + dt / 2 * n2, odd)
    n4 = rate(whole(fields) + dt * half(n3), even)
    return np.asarray(whole(fields + dt / 6 * n1) + dt / 6 * (2 * half(n2 + n3) + n4))


def from_ragged(ragged: NDArray[np.complexfloating], lines: Lines, shape: tuple[int, int, int]) -> Complex:
    """Return whole arrays [n, N_z, N_y, N_x] of spectral fields [n, n_modes] on `lines`.

    Modes of j_x > 0 give those of -j_x by conjugate symmetry. Modes of lines that other ranks own are zero, so that
    the sum of the arrays of all ranks is the whole.
    """
    whole = np.zeros((len(ragged), *shape), np.complex128)
    jz, jy, jx = lines.expand()
    whole[:, jz, jy, jx] = ragged
    mirrored = jx > 0
    whole[:, -jz[mirrored], -jy[mirrored], -jx[mirrored]] = ragged[:, mirrored].conj()
    return whole


def to_ragged(fields: Complex, lines: Lines) -> Complex:
    """Return the modes [n, n_modes] of `lines` from whole arrays [n, N_z, N_y, N_x]."""
    jz, jy, jx = lines.expand()
    return fields[:, jz, jy, jx]


class ReferenceSolver:
    """Steps whole arrays as an engine steps the modes of its rank.

    modes : all modes of the grid, on one rank
    fields : spectral fields [3 + S, n_modes] to start from; the attribute `whole` has them as whole arrays
    forcing : one of those in forcing.py
    formulas : of a force in x, y and z, which is taken at the middle of each step
    """

    def __init__(
        self,
        modes: Modes,
        flow: FlowParameters,
        fields: NDArray[np.complexfloating],
        forcing: Forcing | None = None,
        formulas: Sequence[Expression] = (),
    ) -> None:
        self.modes, self.flow, self.forcing, self.formulas = modes, flow, forcing, formulas
        self.box = Wavenumbers(modes)
        self.whole = from_ragged(fields, modes.lines, modes.shape)
        self.time, self.step_index, self.last_courant_rate = 0.0, 0, math.nan

    @property
    def fields(self) -> Complex:
        """The modes in the order of `modes.lines`, complex128 [3 + S, n_modes]."""
        return to_ragged(self.whole, self.modes.lines)

    def advance(self, dt: float | None = None, courant: float = 0.5) -> float:
        """Make one step of length dt, or of Courant number `courant` if dt is None; return its length."""
        shift = np.zeros(3)
        if self.modes.dealias == "phase-shift":
            shift = phase_shift(self.flow.seed, self.step_index, self.modes.shape)
        self.last_courant_rate = courant_rate(self.whole, self.box, shift)
        if dt is None:
            dt = courant / self.last_courant_rate
        force: Complex | float = 0.0
        linear_rate = 0.0
        if self.forcing is not None:
            self.forcing.begin_step(self.step_index, dt)
            linear_rate = self.forcing.factor_rate
            ragged = np.zeros((3, self.modes.n_modes), np.complex128)
            ragged[:, self.forcing.indices] = self.forcing.values
            force = from_ragged(ragged, self.modes.lines, self.modes.shape)
        if self.formulas:
            force = force + formula_force(self.box, self.formulas, self.time + dt / 2)
        shifted = shift if self.modes.dealias == "phase-shift" else None
        self.whole = step(self.whole, self.box, self.flow, dt, shifted, force, linear_rate)
        if self.forcing is not None:
            fields = self.fields
            self.forcing.end_step(fields)
            self.whole = from_ragged(fields, self.modes.lines, self.modes.shape)
        self.time += dt
        self.step_index += 1
        return dt
