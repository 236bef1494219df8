"""What fluid particles meet on their way: gradient, acceleration, scalars, dissipation and enstrophy of the flow.

Every field is computed in Fourier space and interpolated as the velocity is:

    a = Du/Dt = -grad p/rho + nu lap u + f,   eps = 2 nu s_ij s_ij,   Omega = w_i w_i      (paper, Eqs. 10 and 11),

the last two from the interpolated gradient. A force of kind "frozen" changes energies and is no part of a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.transform import FourierTransform
from ridgeline.models.turbulence.fluid_particles.fields import sampled_fields
from ridgeline.models.turbulence.fluid_particles.line_factors import derivative, unchanged
from ridgeline.models.turbulence.fluid_particles.tracers import Tracers
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.gradients import STRAIN
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.pressure import products

if TYPE_CHECKING:
    from mpi4py import MPI


class ParticleSamples:
    """Samples the flow at the particles of this rank. Every method is collective."""

    def __init__(
        self, tracers: Tracers, transform: FourierTransform, comm: MPI.Comm, viscosity: float
    ) -> None:
        self._tracers, self._transform, self._comm = tracers, transform, comm
        self._modes, self._viscosity = transform.modes, viscosity
        self._same = unchanged(self._modes)
        self._found: dict[str, NDArray[np.float64]] = {}

    def forget(self) -> None:
        """Forget what was sampled: the flow or the particles are about to change. No communication."""
        self._found = {}

    def sample(
        self, names: Sequence[str], fields: NDArray[Any], forcing: Forcing
    ) -> Mapping[str, NDArray[np.float64]]:
        """Return the arrays of `sampled_fields` for the particles of this rank, [n] or [components, n].

        names: of particles.sample; fields: complex [3 + S, n_modes]. Cost: an inverse transform for each component,
        and those of the pressure for the acceleration; nothing for what was sampled since `forget`.
        """
        n_scalars = len(fields) - 3
        missing = {name for name in names if sampled_fields([name], n_scalars).keys() - self._found.keys()}
        if missing & {"gradient", "dissipation", "enstrophy"}:
            gradient = self._gradient(fields)
            self._found["velocity_gradient"] = gradient.reshape(9, -1)
            self._found["dissipation"] = self._dissipation(gradient)
            self._found["enstrophy"] = _enstrophy(gradient)
        if "acceleration" in missing:
            modes = acceleration_modes(
                self._comm, fields[:3], self._modes, self._transform, self._viscosity, forcing
            )
            self._found["acceleration"] = self._tracers.values([(field, self._same) for field in modes])
        if "scalars" in missing:
            values = self._tracers.values([(field, self._same) for field in fields[3:]])
            self._found |= {f"scalar_{s}": row for s, row in enumerate(values)}
        return {name: self._found[name] for name in sampled_fields(names, n_scalars)}

    def _gradient(self, fields: NDArray[Any]) -> NDArray[np.float64]:
        """Return du_i/dx_j at particles, [3, 3, n]."""
        along = [derivative(self._modes, axis) for axis in range(3)]
        operands = [(field, factors) for field in fields[:3] for factors in along]
        return self._tracers.values(operands).reshape(3, 3, -1)

    def _dissipation(self, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 2 nu s_ij s_ij of gradients [3, 3, n]."""
        total = np.zeros(gradient.shape[2])
        for i, j in STRAIN:
            strain = 0.5 * (gradient[i, j] + gradient[j, i])
            total += (1.0 if i == j else 2.0) * strain * strain
        return 2.0 * self._viscosity * total


def _enstrophy(gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return w_i w_i of gradients [3, 3, n]."""
    return np.asarray(
        (gradient[2, 1] - gradient[1, 2]) ** 2
        + (gradient[0, 2] - gradient[2, 0]) ** 2
        + (gradient[1, 0] - gradient[0, 1]) ** 2
    )


def acceleration_modes(
    comm: MPI.Comm,
    velocity: NDArray[Any],
    modes: Modes,
    transform: FourierTransform,
    viscosity: float,
    forcing: Forcing,
) -> NDArray[Any]:
    """Return the modes of Du/Dt, complex [3, n_modes]. velocity: of the same shape. Collective.

    A force that is drawn for each step is that of the last step.
    """
    pressure = products(comm, velocity, HostPasses(modes, transform)).pressure
    wave = np.stack(modes.expand()[::-1])
    rate = forcing.factor_rate - viscosity * (wave * wave).sum(axis=0)
    found = np.asarray(rate * velocity - 1j * wave * pressure)
    found[:, forcing.indices] += forcing.values
    return found.astype(velocity.dtype)
