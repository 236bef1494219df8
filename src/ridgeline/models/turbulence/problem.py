"""What a turbulence solver solves, in plain values: what settings say, without files, ranks or defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class FlowParameters:
    """What is solved. viscosity: nu; scheme: in time; schmidt: nu / diffusivity of each scalar.

    mean_gradients: (G_x, G_y, G_z) of each scalar. seed: of the phase shifts.
    """

    viscosity: float
    scheme: Literal["rk2", "rk4"] = "rk2"
    schmidt: tuple[float, ...] = ()
    mean_gradients: tuple[tuple[float, float, float], ...] = ()
    seed: int = 0
