"""The problem that a solver solves, in plain values: the part of the settings without files, ranks or defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# Parts of a step's time: the columns of the paper's Tables 2 to 7.
COLUMNS = ("fft", "pack", "row all-to-all", "column all-to-all", "other")
# Radius of the largest sphere of wavenumbers that dealiasing retains, over N times the smallest wavenumber.
DEALIAS_RADIUS = {"phase-shift": math.sqrt(2) / 3, "two-thirds": 1 / 3, "none": 1 / 2}


@dataclass(frozen=True)
class Waves:
    """The causes of waves: rotation and stratification. An object is false if there are none.

    rotation: angular velocity of the frame, (Omega_x, Omega_y, Omega_z); brunt_vaisala: frequency N of a
    stratification along z; both 1/time. With N > 0 the first scalar is the buoyancy over N.
    """

    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    brunt_vaisala: float = 0.0

    def __bool__(self) -> bool:
        return any(self.rotation) or self.stratified

    @property
    def stratified(self) -> bool:
        """Whether the first scalar acts on the velocity."""
        return self.brunt_vaisala > 0

    @property
    def n_coupled(self) -> int:
        """How many fields, from the first on, waves couple: 3 or 4, and 0 without waves."""
        return (4 if self.stratified else 3) if self else 0


NO_WAVES = Waves()


@dataclass(frozen=True)
class Damping:
    """What damps the flow beside viscosity. An object is false if nothing does.

    The velocity of a mode decays at the rate nu_h k^(2p), and at alpha in addition where |k| <= drag_radius, the mean
    flow included. A scalar decays at nu_h k^(2p) / Sc.

    hyperviscosity: nu_h, length^(2p)/time; order: p, at least 2; drag: alpha, 1/time; drag_radius: 1/length
    """

    hyperviscosity: float = 0.0
    order: int = 2
    drag: float = 0.0
    drag_radius: float = math.inf

    def __bool__(self) -> bool:
        return self.hyperviscosity > 0 or self.drag > 0

    @property
    def uniform_rate(self) -> float:
        """The rate at which all modes of the velocity decay alike: that of a drag without a radius."""
        return self.drag if math.isinf(self.drag_radius) else 0.0

    @property
    def differs_by_mode(self) -> bool:
        """Whether there is damping beside `uniform_rate`, which is not a product of factors of k_x, k_y and k_z."""
        return self.hyperviscosity > 0 or self.drag > self.uniform_rate

    @property
    def reach(self) -> float:
        """The largest k^2 on which drag acts; a mode on the sphere belongs to it however k^2 is rounded."""
        return self.drag_radius**2 * (1 + 1e-12)

    def rates(self, k2: NDArray[np.float64], schmidt: float | None = None) -> NDArray[np.float64]:
        """Return the rates of decay of modes of the velocity, or of a scalar. k2: their k^2."""
        hyper = self.hyperviscosity * k2**self.order
        return np.asarray(hyper + self.drag * (k2 <= self.reach) if schmidt is None else hyper / schmidt)


NO_DAMPING = Damping()


@dataclass(frozen=True)
class FlowParameters:
    """The flow that is solved.

    Attributes
    ----------
    viscosity : nu
    scheme : Runge-Kutta scheme
    schmidt : nu / diffusivity of each scalar
    mean_gradients : (G_x, G_y, G_z) of each scalar, zeros for a scalar that is buoyancy
    seed : of the phase shifts
    waves : of rotation and stratification
    damping : beside viscosity
    """

    viscosity: float
    scheme: Literal["rk2", "rk4"] = "rk2"
    schmidt: tuple[float, ...] = ()
    mean_gradients: tuple[tuple[float, float, float], ...] = ()
    seed: int = 0
    waves: Waves = NO_WAVES
    damping: Damping = NO_DAMPING

    @property
    def diffusivities(self) -> tuple[float, ...]:
        """Diffusivities of the velocity, which is nu, and of each scalar."""
        return self.viscosity, *(self.viscosity / number for number in self.schmidt)

    @property
    def decays_apart(self) -> tuple[float, ...]:
        """The diffusivities, but 0 for fields whose decay is in the factor of waves."""
        by_waves = max(self.waves.n_coupled - 2, 0)  # velocity is one of the diffusivities
        return *[0.0] * by_waves, *self.diffusivities[by_waves:]
