"""The problem that a solver solves, in plain values: the part of the settings without files, ranks or defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Parts of a step's time: the columns of the paper's Tables 2 to 7.
COLUMNS = ("fft", "pack", "row all-to-all", "column all-to-all", "other")


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
    """

    viscosity: float
    scheme: Literal["rk2", "rk4"] = "rk2"
    schmidt: tuple[float, ...] = ()
    mean_gradients: tuple[tuple[float, float, float], ...] = ()
    seed: int = 0
    waves: Waves = NO_WAVES

    @property
    def diffusivities(self) -> tuple[float, ...]:
        """Diffusivities of the velocity, which is nu, and of each scalar."""
        return self.viscosity, *(self.viscosity / number for number in self.schmidt)

    @property
    def decays_apart(self) -> tuple[float, ...]:
        """The diffusivities, but 0 for fields whose decay is in the factor of waves."""
        by_waves = max(self.waves.n_coupled - 2, 0)  # velocity is one of the diffusivities
        return *[0.0] * by_waves, *self.diffusivities[by_waves:]
