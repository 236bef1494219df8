"""Gray-Scott on CPU cores: the sweep of blocks, with the coefficients, noise and boundary of Gray-Scott."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.blocks.block import Block
from ridgeline.blocks.sweep import Sides, Tiling
from ridgeline.blocks.sweep_engine import SweepEngine
from ridgeline.jit.random import Generator, round_keys
from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.engine import OUTSIDE
from ridgeline.models.gray_scott.kernels import GRAY_SCOTT, numbers
from ridgeline.models.gray_scott.physics import Coefficients

if TYPE_CHECKING:
    from mpi4py import MPI


class CpuEngine(SweepEngine):
    """Fields and sweeps on CPU cores (see `engine.Engine`)."""

    def __init__(
        self,
        block: Block,
        cartesian: MPI.Cartcomm,
        coefficients: Coefficients,
        noise: tuple[Generator, int],
        dtype: DTypeLike,
        context: Context,
        cut: Tiling | None = None,
    ) -> None:
        """Allocate both sets of fields and plan the exchange. Collective over cartesian.

        Parameters
        ----------
        block, cartesian : this rank's block, with ghosts; the ranks in their process grid
        coefficients, dtype : of the step, in the precision of the fields
        noise : how its random numbers are made, and the seed
        context : threads, regions of time
        cut : how sweeps are cut; None for the tiling of the rule
        """
        generator, seed = noise
        keys = round_keys(seed, generator.rounds) if coefficients.noise else None
        sides = held_sides(dtype)
        rows = numbers(coefficients, dtype, block.ghost)
        super().__init__(block, cartesian, [GRAY_SCOTT], [rows], (generator, keys), sides, context, cut)

    def use_coefficients(self, coefficients: Coefficients) -> None:
        self.coefficients = [numbers(coefficients, self._dtype, self.steps_per_sweep)]


def held_sides(dtype: DTypeLike) -> Sides:
    """Return what lies beyond a fixed boundary: values that do not change."""
    n = len(OUTSIDE)
    places = np.zeros((n, 6, 4), np.int64)
    places[..., 0] = np.arange(n)[:, np.newaxis]
    return Sides(np.array(OUTSIDE, dtype), places, np.zeros((n, 6), dtype))
