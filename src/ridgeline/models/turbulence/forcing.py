"""What keeps turbulence alive: the force f of Eq. (5), in Fourier space, solenoidal.

Every kind answers the same questions, so that an engine need not know which it has:

- `factor_rate`: A of a force A u, which the integrating factor takes as exp((A - nu k^2) dt); else 0;
- `indices`, `values`: modes of this rank that get a force f_hat, and the force. It is constant over a step, and it is
  added to the nonlinear term in every substep. `begin_step` sets it;
- `end_step`: what is done to the stored velocity after a step; `hold` does it to the modes `touched`, wherever the
  others are;
- `injection`: power, energy per time; `state`, `restored`: what a checkpoint must hold; `fits`: whether that of
  another run's checkpoint, perhaps of another grid, can be continued.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes, mirrored
from ridgeline.fourier.pencil import Truncation
from ridgeline.fourier.random_numbers import normal
from ridgeline.fourier.shells import Shells
from ridgeline.models.turbulence.random_numbers import Purpose
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.runtime.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.turbulence.settings import TurbulenceCase

Fields = NDArray[Any]  # complex [3 + S, n_modes], velocity x, y, z first
RADIUS_SLACK = 1 + 1e-12  # so that |k| = sqrt(6) is within a radius of sqrt(6), however it was rounded


def make_forcing(case: TurbulenceCase, modes: Modes, comm: MPI.Comm) -> Forcing:
    """Return the forcing that the settings ask for.

    Raises ConfigError if no retained mode lies within forcing.shell_radius.
    """
    forcing = case.forcing
    if forcing.kind == "linear":
        assert forcing.coefficient is not None  # the settings' own check
        return LinearForcing(modes, comm, forcing.coefficient)
    if forcing.kind == "frozen":
        return FrozenShells(modes, comm, forcing.shell_radius)
    if forcing.kind == "eswaran-pope":
        assert forcing.amplitude is not None
        assert forcing.correlation_time is not None
        return EswaranPope(
            modes, comm, forcing.shell_radius, forcing.amplitude, forcing.correlation_time, case.run.seed
        )
    return Forcing(modes, comm)


class Forcing:
    """No force; the base of the others.

    modes: of this rank; comm: all ranks. indices: int64 [n_forced], places of the forced modes among this rank's;
    values: complex128 [3, n_forced], f_hat of the current step; touched: int64 [n], places of the modes that are
    changed after a step. seed: of its random numbers, None if it draws none.
    """

    factor_rate = 0.0
    seed: int | None = None

    def __init__(self, modes: Modes, comm: MPI.Comm) -> None:
        self.modes, self.comm = modes, comm
        self.indices: NDArray[np.int64] = np.empty(0, np.int64)
        self.values: NDArray[np.complex128] = np.empty((3, 0), np.complex128)
        self.touched: NDArray[np.int64] = np.empty(0, np.int64)

    def start(self, fields: Fields) -> None:
        """Take the initial state of a new run; not called for a resumed one. Collective."""

    def begin_step(self, step: int, dt: float) -> None:
        """Set `values` for the step number `step` (from 0) of length dt. No communication."""

    def end_step(self, fields: Fields) -> None:
        """Change the velocity after the step. Collective."""
        held = fields[:3, self.touched]
        self.hold(held)
        fields[:3, self.touched] = held

    def hold(self, velocity: NDArray[Any]) -> None:
        """Change the velocity of the modes `touched`, [3, n], after the step. Collective."""

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        """Return the power of the force, energy/time, equal on all ranks. Collective.

        velocity: complex [3, n_forced], of the modes `indices`; energy: <u.u> / 2 of all modes.
        """
        return 0.0

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the small arrays, equal on all ranks, that a run needs to go on as if never stopped."""
        return {}

    def restored(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Take back what `state` gave. Raises CheckpointError if it is of another forcing."""

    def settings_of_state(self) -> dict[str, object]:
        """Return the settings that another run must have had so that its `state` is a past of this forcing.

        Empty for a forcing that needs no past because it follows from the present flow.
        """
        return {}

    def fits(self, truncation: Truncation) -> bool:
        """Say whether a grid of another truncation, of the same box, has the same forced modes."""
        return True


def _restore(target: NDArray[np.float64], state: dict[str, NDArray[np.float64]], name: str) -> None:
    """Set target to an array of a checkpoint. Raises CheckpointError if it is not there or of another shape."""
    found = state.get(name)
    if found is None or found.shape != target.shape:
        what = "none" if found is None else f"one of shape {list(found.shape)}"
        raise CheckpointError(
            f"the forcing needs an array {name} of shape {list(target.shape)}, the checkpoint has {what}; "
            "resume with the forcing settings of that run"
        )
    target[...] = found


class LinearForcing(Forcing):
    """f = A u, in every mode. Source: Lundgren, CTR Annual Research Briefs (2003) 461."""

    def __init__(self, modes: Modes, comm: MPI.Comm, coefficient: float) -> None:
        super().__init__(modes, comm)
        self.factor_rate = coefficient

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        """Return 2 A E, E = <u.u> / 2."""
        return 2.0 * self.factor_rate * energy


class EswaranPope(Forcing):
    """Every mode 0 < |k| <= radius follows its own Ornstein-Uhlenbeck process b(k); f_hat = (1 - k k/k^2) b.

        db = -b dt/T + sqrt(2 sigma^2/T) dW   in the real and in the imaginary part of each component,

    so <b_i b_j*> = 2 sigma^2 delta_ij exp(-|s|/T) at a lag s, and b(-k) = b*(k). Over a step of any length dt,

        b' = b exp(-dt/T) + sigma sqrt(1 - exp(-2 dt/T)) (xi + i xi'),

    xi normal, drawn by (seed, step, mode): exact in the statistics at the ends of steps. b is stationary from the
    start. Source: Eswaran and Pope, Comput. Fluids 16 (1988) 257.

    All ranks advance the processes of all forced modes, some ten or hundred: nothing is communicated.
    """

    def __init__(
        self, modes: Modes, comm: MPI.Comm, radius: float, sigma: float, correlation_time: float, seed: int
    ) -> None:
        super().__init__(modes, comm)
        self.sigma, self.correlation_time, self.seed = sigma, correlation_time, seed
        self._radius = radius
        self.key = forced_modes(modes.truncation, modes.unit, radius)
        if not len(self.key):
            raise ConfigError(
                f"forcing.shell_radius = {radius:g} leaves no mode to force: the smallest wavenumber is "
                f"{min(modes.unit):.4g}; use a larger radius"
            )
        k = self.key[:, ::-1].T * np.array(modes.unit[::-1])[:, np.newaxis]  # x, y, z
        self._unit_vector = k / np.sqrt((k * k).sum(0))
        # b of -k of the modes with j_x = 0 is the conjugate of b of k, which comes first of the two here.
        jz, jy, jx = self.key.T
        self._mirrored = mirrored(jz, jy, jx)
        self._drawn_by = np.where(self._mirrored[:, np.newaxis], -self.key, self.key)
        self.process = sigma * self._draw(_BEFORE_THE_FIRST_STEP)

        self.indices, self._forced_here = _places(modes, self.key)
        self.values = np.zeros((3, len(self.indices)), np.complex128)
        self._project()

    @property
    def n_modes(self) -> int:
        """N_F: forced modes of both signs of j_x."""
        return int(np.where(self.key[:, 2] > 0, 2, 1).sum())

    def _draw(self, step: int) -> NDArray[np.complex128]:
        """Return xi + i xi' of the forced modes, [3, n]."""
        jz, jy, jx = self._drawn_by.T
        assert self.seed is not None
        numbers = normal(self.seed, Purpose.FORCING, step, jz, jy, jx, 3)
        return np.where(self._mirrored, numbers.conj(), numbers)

    def _project(self) -> None:
        along = (self._unit_vector * self.process).sum(0)
        force = self.process - self._unit_vector * along
        self.values[...] = force[:, self._forced_here]

    def begin_step(self, step: int, dt: float) -> None:
        """Advance the processes by dt and set `values`, which hold over the step."""
        decay = math.exp(-dt / self.correlation_time)
        kick = self.sigma * math.sqrt(-math.expm1(-2 * dt / self.correlation_time))
        self.process = decay * self.process + kick * self._draw(step)
        self._project()

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        """Return sum_k Re(f_hat* . u_hat) with the force of the latest step."""
        weight = np.where(self.key[self._forced_here, 2] > 0, 2.0, 1.0)
        power = weight * (self.values.conj() * velocity).sum(0).real
        return float(allreduce_sums(self.comm, [power], len(self.key))[0])

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return b of the forced modes in the order of `key`, real and imaginary parts: [2, 3, n]."""
        return {"forcing_process": np.stack([self.process.real, self.process.imag])}

    def restored(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Take back b."""
        parts = np.empty((2, *self.process.shape))
        _restore(parts, state, "forcing_process")
        self.process = parts[0] + 1j * parts[1]
        self._project()

    def settings_of_state(self) -> dict[str, object]:
        """Return what makes the processes the ones that they are, but for their seed."""
        return {
            "forcing.kind": "eswaran-pope",
            "forcing.amplitude": self.sigma,
            "forcing.correlation_time": self.correlation_time,
            "forcing.shell_radius": self._radius,
        }

    def fits(self, truncation: Truncation) -> bool:
        """Say whether both grids retain the same modes within the radius."""
        theirs = forced_modes(truncation, self.modes.unit, self._radius)
        return np.array_equal(self.key, theirs)


_BEFORE_THE_FIRST_STEP = 0xFFFFFFFF  # the step whose numbers start the processes; no run gets so far


class FrozenShells(Forcing):
    """The energy of each shell up to a radius is kept: its modes are multiplied by a real factor after each step.

    Shells n with 0 < n dk <= radius, those of the energy spectrum (spectra.py); what is kept is what `start` found.
    Source: the idea of holding the energy of the largest scales, as in Lamorgese, Caughey and Pope, Phys. Fluids 17
    (2005) 015106.
    """

    def __init__(self, modes: Modes, comm: MPI.Comm, radius: float) -> None:
        super().__init__(modes, comm)
        shells = Shells(modes)
        n_shells = min(shells.n_shells, 1 + int(radius * RADIUS_SLACK / shells.width))
        if n_shells < 2:
            raise ConfigError(
                f"forcing.shell_radius = {radius:g} reaches no shell of modes: the smallest wavenumber is "
                f"{shells.width:.4g}; use a larger radius"
            )
        key = forced_modes(modes.truncation, modes.unit, n_shells * shells.width)
        kz, ky, kx = key.T * np.array(modes.unit)[:, np.newaxis]
        shell = shells.of(np.sqrt(kx * kx + kz * kz + ky * ky))
        places, here = _places(modes, key)
        of_shells = [np.flatnonzero(shell[here] == n) for n in range(1, n_shells)]
        self.touched = places[np.concatenate(of_shells)]
        cuts = np.cumsum([0, *map(len, of_shells)])
        self._shells = [slice(first, end) for first, end in itertools.pairwise(cuts.tolist())]
        self._weights = [np.where(key[here[shell[here] == n], 2] > 0, 2.0, 1.0) for n in range(1, n_shells)]
        self._n_global = int((shell < n_shells).sum())
        self.kept = np.zeros(n_shells - 1)
        self._dt, self._gained = 0.0, 0.0

    def energies(self, fields: Fields) -> NDArray[np.float64]:
        """Return sum |u_hat|^2 / 2 of each shell from 1 on, equal on all ranks. Collective."""
        return self._energies_of(fields[:3, self.touched])

    def _energies_of(self, velocity: NDArray[Any]) -> NDArray[np.float64]:
        squares = [
            0.5 * weight * (np.abs(velocity[:, shell].astype(np.complex128)) ** 2).sum(0)
            for shell, weight in zip(self._shells, self._weights)
        ]
        return allreduce_sums(self.comm, squares, self._n_global)

    def start(self, fields: Fields) -> None:
        """Keep the energies of these fields from now on."""
        self.kept = self.energies(fields)

    def begin_step(self, step: int, dt: float) -> None:
        """Note the length of the step, for the power."""
        self._dt = dt

    def hold(self, velocity: NDArray[Any]) -> None:
        """Give each shell its energy back; one that has none, or had none at the start, stays as it is."""
        found = self._energies_of(velocity)
        scaled = (found > 0) & (self.kept > 0)
        for shell, scale, ratio in zip(self._shells, scaled, self.kept / np.where(scaled, found, 1.0)):
            if scale:
                velocity[:, shell] *= velocity.real.dtype.type(math.sqrt(ratio))
        self._gained = float((self.kept - found)[scaled].sum())

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        """Return the energy that the latest `end_step` gave, per time; 0 before the first."""
        return self._gained / self._dt if self._dt > 0 else 0.0

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the energies that are kept."""
        return {"forcing_energies": self.kept}

    def restored(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Take back the energies."""
        _restore(self.kept, state, "forcing_energies")


def forced_modes(
    truncation: Truncation, units: tuple[float, float, float], radius: float
) -> NDArray[np.int64]:
    """Return (j_z, j_y, j_x) of all retained modes with 0 < |k| <= radius and j_x >= 0, [n, 3], sorted.

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
    inside = (k2 > 0) & (k2 <= (radius * RADIUS_SLACK) ** 2) & (np.abs(jy) <= truncation.most_y(jz, jx))
    return np.stack([jz, jy, jx], axis=1)[inside]


def _places(modes: Modes, key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of those modes of `key` that this rank owns, and which of `key` they are."""
    lines = modes.lines
    near = np.flatnonzero((np.abs(lines.jz) <= np.abs(key[:, 0]).max()) & (lines.jx <= key[:, 2].max()))
    of_line = {(int(lines.jz[i]), int(lines.jx[i])): int(i) for i in near}
    found = [
        (int(lines.start[line]) + (jy if jy >= 0 else jy + 2 * int(lines.most[line]) + 1), i)
        for i, (jz, jy, jx) in enumerate(key.tolist())
        if (line := of_line.get((jz, jx))) is not None
    ]
    places = np.array(found, np.int64).reshape(-1, 2)
    return places[:, 0].copy(), places[:, 1].copy()
