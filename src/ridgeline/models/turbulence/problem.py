"""What a turbulence solver solves, in plain values: what settings say, without files, ranks or defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

COLUMNS = ("fft", "pack", "row all-to-all", "column all-to-all", "other")  # of the paper's Tables 2 to 7


@dataclass(frozen=True)
class Waves:
    """What makes waves: the frame's rotation (Omega_x, Omega_y, Omega_z), and N of a stratification along z; 1/time.

    With N > 0 the first scalar is the buoyancy over N. False where there are none.
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
        """Fields that waves turn into each other: the first 3 or 4; 0 without waves."""
        return (4 if self.stratified else 3) if self else 0


NO_WAVES = Waves()


@dataclass(frozen=True)
class FlowParameters:
    """What is solved. viscosity: nu; scheme: in time; schmidt: nu / diffusivity of each scalar.

    mean_gradients: (G_x, G_y, G_z) of each scalar, zeros for a scalar that is buoyancy. seed: of the phase shifts.
    waves: of rotation and stratification.
    """

    viscosity: float
    scheme: Literal["rk2", "rk4"] = "rk2"
    schmidt: tuple[float, ...] = ()
    mean_gradients: tuple[tuple[float, float, float], ...] = ()
    seed: int = 0
    waves: Waves = NO_WAVES

    @property
    def diffusivities(self) -> tuple[float, ...]:
        """Of the velocity, and of each scalar."""
        return self.viscosity, *(self.viscosity / number for number in self.schmidt)

    @property
    def decays_apart(self) -> tuple[float, ...]:
        """The diffusivities, with 0 for fields whose decay is in the factor of waves."""
        by_waves = max(self.waves.n_coupled - 2, 0)  # velocity is one of the diffusivities
        return *[0.0] * by_waves, *self.diffusivities[by_waves:]
