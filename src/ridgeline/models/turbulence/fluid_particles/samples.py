"""Samples of the flow at fluid particles: velocity gradient, acceleration, scalars, dissipation and enstrophy.

Every field is computed in Fourier space and interpolated as the velocity is:

    a = Du/Dt = -grad p/rho + nu lap u + f,   eps = 2 nu s_ij s_ij,   Omega = w_i w_i      (paper, Eqs. 10 and 11),

where hyperviscosity and drag belong to a as viscosity does. eps and Omega follow from the interpolated gradient.
Forcing of kind "frozen" changes energies after a step, and is not part of a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.modes import Modes
from ridgeline.fourier.transform import FourierTransform
from ridgeline.models.turbulence.fluid_particles.fields import sampled_fields
from ridgeline.models.turbulence.fluid_particles.interpolation import derivative, unchanged
from ridgeline.models.turbulence.fluid_particles.tracers import Tracers
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.gradients import STRAIN
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.pressure import products
from ridgeline.models.turbulence.problem import Damping

if TYPE_CHECKING:
    from mpi4py import MPI


class ParticleSamples:
    """Samples the flow at the particles of this rank. Every method is collective."""

    def __init__(
        self,
        tracers: Tracers,
        transform: FourierTransform,
        comm: MPI.Comm,
        viscosity: float,
        damping: Damping,
    ) -> None:
        self._tracers, self._transform, self._comm = tracers, transform, comm
        self._modes, self._viscosity, self._damping = transform.modes, viscosity, damping
        self._same = unchanged(self._modes)
        self._samples: dict[str, NDArray[np.float64]] = {}

    def forget(self) -> None:
        """Drop all samples, because the flow or the particles change. No communication."""
        self._samples = {}

    def sample(
        self, names: Sequence[str], fields: NDArray[Any], forcing: Forcing
    ) -> Mapping[str, NDArray[np.float64]]:
        """Return the arrays of `sampled_fields` for the particles of this rank, [n] or [components, n].

        names: entries of the setting particles.sample; fields: complex [3 + S, n_modes]. Cost: an inverse transform
        for each component, and those of the pressure for the acceleration; nothing for samples made since `forget`.
        """
        n_scalars = len(fields) - 3
        missing = {name for name in names if sampled_fields([name], n_scalars).keys() - self._samples.keys()}
        if missing & {"gradient", "dissipation", "enstrophy"}:
            along = [derivative(self._modes, axis) for axis in range(3)]
            operands = [(field, factors) for field in fields[:3] for factors in along]
            gradient = self._tracers.values(operands)
            g = gradient.reshape(3, 3, -1)  # g[i, j] is du_i/dx_j
            squares = np.zeros(g.shape[2])
            for i, j in STRAIN:
                strain = 0.5 * (g[i, j] + g[j, i])
                squares += (1.0 if i == j else 2.0) * strain * strain
            self._samples["velocity_gradient"] = gradient.reshape(9, -1)
            self._samples["dissipation"] = 2.0 * self._viscosity * squares
            self._samples["enstrophy"] = np.asarray(
                (g[2, 1] - g[1, 2]) ** 2 + (g[0, 2] - g[2, 0]) ** 2 + (g[1, 0] - g[0, 1]) ** 2
            )
        if "acceleration" in missing:
            modes = acceleration_modes(
                self._comm, fields[:3], self._modes, self._transform, self._viscosity, self._damping, forcing
            )
            self._samples["acceleration"] = self._tracers.values([(field, self._same) for field in modes])
        if "scalars" in missing:
            values = self._tracers.values([(field, self._same) for field in fields[3:]])
            self._samples |= {f"scalar_{s}": row for s, row in enumerate(values)}
        return {name: self._samples[name] for name in sampled_fields(names, n_scalars)}


def acceleration_modes(
    comm: MPI.Comm,
    velocity: NDArray[Any],
    modes: Modes,
    transform: FourierTransform,
    viscosity: float,
    damping: Damping,
    forcing: Forcing,
) -> NDArray[Any]:
    """Return the modes of Du/Dt, complex [3, n_modes]. velocity: of the same shape. Collective.

    The force, if it is drawn anew for each step, is that of the last step.
    """
    pressure = products(comm, velocity, HostPasses(modes, transform)).pressure
    wave = np.stack(modes.expand()[::-1])
    k2 = (wave * wave).sum(axis=0)
    rate = forcing.factor_rate - viscosity * k2 - damping.rates(k2)
    acceleration = np.asarray(rate * velocity - 1j * wave * pressure)
    acceleration[:, forcing.indices] += forcing.values
    return acceleration.astype(velocity.dtype)
