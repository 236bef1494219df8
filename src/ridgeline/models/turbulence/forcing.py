"""The force f of Eq. (5), which keeps turbulence alive: solenoidal, in Fourier space.

All kinds of forcing have the same interface, so that an engine need not know which it has:

- `factor_rate`: A of a force A u, which the integrating factor includes as exp((A - nu k^2) dt), or 0;
- `indices`, `values`: the modes of this rank on which a force f_hat acts, and the force. `begin_step` sets it; it is
  constant over a step and is added to the nonlinear term in every substep. A force that `transforms` uses the
  transform of the engine for that, so that the engine must form the products of the step once more;
- `bound_rate`: how fast the force can make the flow in a step, so that a step from a slow flow is short enough;
- `end_step`: changes the stored velocity after a step; `hold` does the same to a copy of the modes `touched`, for an
  engine that stores its fields elsewhere;
- `injection`: the power, energy per time;
- `state`, `restored`: the arrays that a checkpoint holds; `settings_of_state`, `fits`: whether the state of another
  run's checkpoint, perhaps of another grid, can be continued.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.decomposition import Truncation
from ridgeline.fourier.modes import Modes, Shells, mirrored
from ridgeline.fourier.random_numbers import normal
from ridgeline.models.turbulence.random_numbers import Purpose
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.runtime.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.turbulence.settings import TurbulenceCase

Fields = NDArray[Any]  # complex [3 + S, n_modes], velocity x, y, z first
RADIUS_SLACK = 1 + 1e-12  # |k| = sqrt(6) is within a radius of sqrt(6), however either was rounded
MOST_EXPONENT = 700.0  # of exp in float64
_BEFORE_THE_FIRST_STEP = 0xFFFFFFFF  # step number of the draw that starts the processes, which no run reaches


def make_forcing(case: TurbulenceCase, modes: Modes, comm: MPI.Comm) -> Forcing:
    """Return the forcing of the settings, but not one of formulas, which needs a transform (`formula_force`).

    Raises ConfigError if no retained mode lies between forcing.inner_radius and forcing.shell_radius.
    """
    forcing = case.forcing
    if forcing.kind == "linear":
        assert forcing.coefficient is not None  # the settings' own check
        return LinearForcing(modes, comm, forcing.coefficient)
    if forcing.kind == "frozen":
        return FrozenShells(modes, comm, forcing.shell_radius, forcing.inner_radius)
    if forcing.kind == "eswaran-pope":
        assert forcing.amplitude is not None
        assert forcing.correlation_time is not None
        return EswaranPope(
            modes,
            comm,
            forcing.shell_radius,
            forcing.amplitude,
            forcing.correlation_time,
            case.run.seed,
            forcing.inner_radius,
        )
    return Forcing(modes, comm)


class Forcing:
    """No force; the base class of the others.

    Attributes
    ----------
    modes : of this rank
    comm : all ranks
    indices : int64 [n_forced], places of the forced modes among this rank's modes
    values : complex128 [3, n_forced], f_hat of the current step
    touched : int64 [n], places of the modes that are changed after a step
    seed : of its random numbers, None if it draws none
    """

    factor_rate = 0.0
    transforms = False
    seed: int | None = None

    def __init__(self, modes: Modes, comm: MPI.Comm) -> None:
        self.modes, self.comm = modes, comm
        self.indices: NDArray[np.int64] = np.empty(0, np.int64)
        self.values: NDArray[np.complex128] = np.empty((3, 0), np.complex128)
        self.touched: NDArray[np.int64] = np.empty(0, np.int64)

    def start(self, fields: Fields) -> None:
        """Note the initial state of a new run; not called for a resumed run. Collective."""

    def begin_step(self, step: int, dt: float, time: float = 0.0) -> None:
        """Set `values` for the step number `step` (from 0) of length dt, which begins at `time`.

        Collective if the force `transforms`, otherwise without communication.
        """

    def bound_rate(self, rate: float, step: int, dt: float, time: float = 0.0) -> float:
        """Return the most to which the force may raise the bracket of Eq. (8), 1/time, in a step of length dt.

        rate: the bracket before the step, the largest of all points; step: its number; time: at its beginning.
        Collective if the force `transforms`, otherwise without communication.
        """
        return rate

    def end_step(self, fields: Fields) -> None:
        """Change the velocity after the step. Collective."""
        velocity = fields[:3, self.touched]
        self.hold(velocity)
        fields[:3, self.touched] = velocity

    def hold(self, velocity: NDArray[Any]) -> None:
        """Change the velocity of the modes `touched`, [3, n], after the step. Collective."""

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        """Return the power of the force, energy/time, equal on all ranks. Collective.

        velocity: complex [3, n_forced], of the modes `indices`; energy: <u.u> / 2 of all modes.
        """
        return 0.0

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the small arrays, equal on all ranks, that a checkpoint needs to continue the forcing."""
        return {}

    def restored(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Continue from the arrays of `state`. Raises CheckpointError if they are of another forcing."""

    def settings_of_state(self) -> dict[str, object]:
        """Return the settings that another run must have had for this forcing to continue its `state`.

        They are empty for a forcing without a past, which follows from the present flow.
        """
        return {}

    def fits(self, truncation: Truncation) -> bool:
        """Return whether a grid with another truncation, in the same box, has the same forced modes."""
        return True


def _empty_band(inner_radius: float, radius: float, what: str, smallest: float) -> ConfigError:
    """Return the error of a band of wavenumbers in which nothing lies."""
    inner = f"forcing.inner_radius = {inner_radius:g} and " if inner_radius else ""
    advice = "Use a wider band." if inner else "Use a larger radius."
    verb = "contain" if inner else "contains"
    return ConfigError(
        f"{inner}forcing.shell_radius = {radius:g} {verb} no {what}, because the smallest wavenumber is "
        f"{smallest:.4g}. {advice}"
    )


def _restore(target: NDArray[np.float64], state: dict[str, NDArray[np.float64]], name: str) -> None:
    """Set target to an array of a checkpoint. Raises CheckpointError if it is missing or has another shape."""
    stored = state.get(name)
    if stored is None or stored.shape != target.shape:
        what = "none" if stored is None else f"one of shape {list(stored.shape)}"
        raise CheckpointError(
            f"the forcing needs an array {name} of shape {list(target.shape)}, but the checkpoint has {what}. "
            "Resume with the forcing settings of that run."
        )
    target[...] = stored


class LinearForcing(Forcing):
    """f = A u, in every mode. Source: Lundgren, CTR Annual Research Briefs (2003) 461."""

    def __init__(self, modes: Modes, comm: MPI.Comm, coefficient: float) -> None:
        super().__init__(modes, comm)
        self.factor_rate = coefficient

    def bound_rate(self, rate: float, step: int, dt: float, time: float = 0.0) -> float:
        return rate * math.exp(min(max(self.factor_rate, 0.0) * dt, MOST_EXPONENT))

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        return 2.0 * self.factor_rate * energy


class EswaranPope(Forcing):
    """Each mode of a band has its own Ornstein-Uhlenbeck process b(k), and f_hat = (1 - k k/k^2) b.

    The band is inner_radius <= |k| <= radius without the mean, and

        db = -b dt/T + sqrt(2 sigma^2/T) dW   in the real and in the imaginary part of each component,

    so <b_i b_j*> = 2 sigma^2 delta_ij exp(-|s|/T) at a lag s, and b(-k) = b*(k). Over a step of any length dt,

        b' = b exp(-dt/T) + sigma sqrt(1 - exp(-2 dt/T)) (xi + i xi'),

    where xi is normal and drawn by (seed, step, mode). The statistics at the ends of steps are exact, and b is
    stationary from the start. Source: Eswaran and Pope, Comput. Fluids 16 (1988) 257.

    All ranks advance the processes of all forced modes, some tens or hundreds, so that nothing is communicated.
    """

    def __init__(
        self,
        modes: Modes,
        comm: MPI.Comm,
        radius: float,
        sigma: float,
        correlation_time: float,
        seed: int,
        inner_radius: float = 0.0,
    ) -> None:
        super().__init__(modes, comm)
        self.sigma, self.correlation_time, self.seed = sigma, correlation_time, seed
        self._radius, self._inner_radius = radius, inner_radius
        self.key = forced_modes(modes.truncation, modes.unit, radius, inner_radius)
        if not len(self.key):
            raise _empty_band(inner_radius, radius, "mode to force", min(modes.unit))
        k = self.key[:, ::-1].T * np.array(modes.unit[::-1])[:, np.newaxis]  # x, y, z
        self._unit_vector = k / np.sqrt((k * k).sum(0))
        # The second of two modes k and -k with j_x = 0 is the conjugate of the first.
        jz, jy, jx = self.key.T
        self._mirrored = mirrored(jz, jy, jx)
        self._drawn_by = np.where(self._mirrored[:, np.newaxis], -self.key, self.key)
        self.process = sigma * self._draw(_BEFORE_THE_FIRST_STEP)
        self._drawn = _BEFORE_THE_FIRST_STEP, self.process  # the step of the latest draw, and the draw

        self.indices, self._forced_here = _places(modes, self.key)
        self.values = np.zeros((3, len(self.indices)), np.complex128)
        self.values[...] = self._force(self.process)[:, self._forced_here]
        # |f| at a point is at most the sum of the amplitudes of all modes; [3, n], over the distance of points.
        cells = [points * unit / (2 * math.pi) for points, unit in zip(modes.shape, modes.unit)]
        of_sign = np.where(self.key[:, 2] > 0, 2.0, 1.0)
        self._per_cell = np.array(cells[::-1])[:, np.newaxis] * of_sign

    @property
    def n_modes(self) -> int:
        """N_F, the number of forced modes with both signs of j_x."""
        return int(np.where(self.key[:, 2] > 0, 2, 1).sum())

    def _draw(self, step: int) -> NDArray[np.complex128]:
        """Return xi + i xi' of the forced modes, [3, n]."""
        jz, jy, jx = self._drawn_by.T
        assert self.seed is not None
        numbers = normal(self.seed, Purpose.FORCING, step, jz, jy, jx, 3)
        return np.where(self._mirrored, numbers.conj(), numbers)

    def _force(self, process: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the solenoidal part of the processes, [3, n]."""
        along = (self._unit_vector * process).sum(0)
        force: NDArray[np.complex128] = process - self._unit_vector * along
        return force

    def _process_after(self, step: int, dt: float) -> NDArray[np.complex128]:
        """Return the processes at the end of a step, [3, n]."""
        if self._drawn[0] != step:
            self._drawn = step, self._draw(step)
        decay = math.exp(-dt / self.correlation_time)
        kick = self.sigma * math.sqrt(-math.expm1(-2 * dt / self.correlation_time))
        process: NDArray[np.complex128] = decay * self.process + kick * self._drawn[1]
        return process

    def begin_step(self, step: int, dt: float, time: float = 0.0) -> None:
        self.process = self._process_after(step, dt)
        self.values[...] = self._force(self.process)[:, self._forced_here]

    def bound_rate(self, rate: float, step: int, dt: float, time: float = 0.0) -> float:
        force = self._force(self._process_after(step, dt))
        return rate + dt * float((self._per_cell * np.abs(force)).sum())

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        # sum_k Re(f_hat* . u_hat) with the force of the latest step
        weight = np.where(self.key[self._forced_here, 2] > 0, 2.0, 1.0)
        power = weight * (self.values.conj() * velocity).sum(0).real
        return float(allreduce_sums(self.comm, [power], len(self.key))[0])

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return b of the forced modes in the order of `key`, real and imaginary parts, [2, 3, n]."""
        return {"forcing_process": np.stack([self.process.real, self.process.imag])}

    def restored(self, state: dict[str, NDArray[np.float64]]) -> None:
        parts = np.empty((2, *self.process.shape))
        _restore(parts, state, "forcing_process")
        self.process = parts[0] + 1j * parts[1]
        self.values[...] = self._force(self.process)[:, self._forced_here]

    def settings_of_state(self) -> dict[str, object]:
        """Return the settings of the processes, without their seed."""
        return {
            "forcing.kind": "eswaran-pope",
            "forcing.amplitude": self.sigma,
            "forcing.correlation_time": self.correlation_time,
            "forcing.shell_radius": self._radius,
            "forcing.inner_radius": self._inner_radius,
        }

    def fits(self, truncation: Truncation) -> bool:
        theirs = forced_modes(truncation, self.modes.unit, self._radius, self._inner_radius)
        return np.array_equal(self.key, theirs)


class FrozenShells(Forcing):
    """The energy of each shell of a band is kept, by multiplying its modes by a real factor after each step.

    The shells are those n > 0 of the energy spectrum (spectra.py) with inner_radius <= n dk <= radius; their energies
    are those at `start`. Source: the idea of holding the energy of the largest scales, as in Lamorgese, Caughey and
    Pope, Phys. Fluids 17 (2005) 015106.
    """

    def __init__(self, modes: Modes, comm: MPI.Comm, radius: float, inner_radius: float = 0.0) -> None:
        super().__init__(modes, comm)
        shells = Shells(modes)
        n_shells = min(shells.n_shells, 1 + int(radius * RADIUS_SLACK / shells.width))
        first_shell = max(1, math.ceil(inner_radius / (shells.width * RADIUS_SLACK)))
        if n_shells <= first_shell:
            raise _empty_band(inner_radius, radius, "shell of modes", shells.width)
        key = forced_modes(modes.truncation, modes.unit, n_shells * shells.width)
        kz, ky, kx = key.T * np.array(modes.unit)[:, np.newaxis]
        shell = shells.of(np.sqrt(kx * kx + kz * kz + ky * ky))
        places, here = _places(modes, key)
        forced = range(first_shell, n_shells)
        of_shells = [np.flatnonzero(shell[here] == n) for n in forced]
        self.touched = places[np.concatenate(of_shells)]
        cuts = np.cumsum([0, *map(len, of_shells)])
        self._shells = [slice(first, end) for first, end in itertools.pairwise(cuts.tolist())]
        self._weights = [np.where(key[here[shell[here] == n], 2] > 0, 2.0, 1.0) for n in forced]
        self._n_global = int(((first_shell <= shell) & (shell < n_shells)).sum())
        self.kept = np.zeros(len(forced))
        self._dt, self._gained = 0.0, 0.0

    def energies(self, fields: Fields) -> NDArray[np.float64]:
        """Return sum |u_hat|^2 / 2 of each shell that is forced, equal on all ranks. Collective."""
        return self._energies_of(fields[:3, self.touched])

    def _energies_of(self, velocity: NDArray[Any]) -> NDArray[np.float64]:
        squares = [
            0.5 * weight * (np.abs(velocity[:, shell].astype(np.complex128)) ** 2).sum(0)
            for shell, weight in zip(self._shells, self._weights)
        ]
        return allreduce_sums(self.comm, squares, self._n_global)

    def start(self, fields: Fields) -> None:
        self.kept = self.energies(fields)

    def begin_step(self, step: int, dt: float, time: float = 0.0) -> None:
        self._dt = dt

    def hold(self, velocity: NDArray[Any]) -> None:
        """Restore the energy of each shell; a shell without energy, now or at the start, does not change."""
        energies = self._energies_of(velocity)
        scaled = (energies > 0) & (self.kept > 0)
        for shell, scale, ratio in zip(self._shells, scaled, self.kept / np.where(scaled, energies, 1.0)):
            if scale:
                velocity[:, shell] *= velocity.real.dtype.type(math.sqrt(ratio))
        self._gained = float((self.kept - energies)[scaled].sum())

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        # The energy that the latest `end_step` added, per time; 0 before the first step.
        return self._gained / self._dt if self._dt > 0 else 0.0

    def state(self) -> dict[str, NDArray[np.float64]]:
        return {"forcing_energies": self.kept}

    def restored(self, state: dict[str, NDArray[np.float64]]) -> None:
        _restore(self.kept, state, "forcing_energies")


def forced_modes(
    truncation: Truncation, units: tuple[float, float, float], radius: float, inner_radius: float = 0.0
) -> NDArray[np.int64]:
    """Return (j_z, j_y, j_x) of all retained modes of a band but the mean, with j_x >= 0, [n, 3], sorted.

    The band is inner_radius <= |k| <= radius.

    units: smallest wavenumbers along z, y, x.
    """
    reach = [
        min(math.floor(radius * RADIUS_SLACK / unit), n // 2) for unit, n in zip(units, truncation.shape)
    ]
    jz, jy, jx = (
        j.ravel()
        for j in np.meshgrid(
            np.arange(-reach[0], reach[0] + 1),
            np.arange(-reach[1], reach[1] + 1),
            np.arange(reach[2] + 1),
            indexing="ij",
        )
    )
    k2 = sum((unit * j) ** 2 for unit, j in zip(units, (jz, jy, jx)))
    of_band = (k2 > 0) & (k2 <= (radius * RADIUS_SLACK) ** 2) & (k2 >= (inner_radius / RADIUS_SLACK) ** 2)
    inside = of_band & (np.abs(jy) <= truncation.most_y(jz, jx))
    return np.stack([jz, jy, jx], axis=1)[inside]


def _places(modes: Modes, key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the modes of `key` that this rank owns, and their rows in `key`."""
    lines = modes.lines
    near = np.flatnonzero((np.abs(lines.jz) <= np.abs(key[:, 0]).max()) & (lines.jx <= key[:, 2].max()))
    of_line = {(int(lines.jz[i]), int(lines.jx[i])): int(i) for i in near}
    owned = [
        (int(lines.start[line]) + (jy if jy >= 0 else jy + 2 * int(lines.most[line]) + 1), i)
        for i, (jz, jy, jx) in enumerate(key.tolist())
        if (line := of_line.get((jz, jx))) is not None
    ]
    places = np.array(owned, np.int64).reshape(-1, 2)
    return places[:, 0].copy(), places[:, 1].copy()
