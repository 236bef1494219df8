"""Reaction-diffusion on CPU cores: the sweep of blocks, with the formulas, noise and sides of a case."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.blocks.sweep import Tiling
from ridgeline.blocks.sweep_engine import SweepEngine
from ridgeline.jit.random import PHILOX_7, round_keys
from ridgeline.models.contract import Context
from ridgeline.models.reaction_diffusion.initial import seed_of
from ridgeline.models.reaction_diffusion.kernels import TIME, Program, make_rule, numbers, program_of
from ridgeline.models.reaction_diffusion.schemes import SchemeStage, stages_of
from ridgeline.models.reaction_diffusion.settings import ReactionDiffusionCase
from ridgeline.models.reaction_diffusion.sides import SideTables

if TYPE_CHECKING:
    from mpi4py import MPI


class CpuEngine(SweepEngine):
    """Fields and sweeps on CPU cores (see `engine.ReactionEngine`)."""

    def __init__(
        self,
        block: Block,
        cartesian: MPI.Cartcomm,
        case: ReactionDiffusionCase,
        context: Context,
        cut: Tiling | None = None,
    ) -> None:
        """Allocate both sets of fields and plan the exchange. Collective over cartesian.

        Parameters
        ----------
        block, cartesian : this rank's block, with ghosts as wide as a sweep has steps; the ranks in their grid
        case : the settings
        context : threads, regions of time
        cut : how sweeps are cut; None for the tiling of the rule
        """
        self._case = case
        self._program = program_of_case(case)
        self._reads_time = any("t" in each.rate.variables for each in case.species)
        self._stages = case.stages()
        self._times, self._dt, self._steps = [case.begin_time()], case.model.dt, block.ghost
        rules = [make_rule(self._program._replace(combines=n > 0)) for n in range(len(self._stages))]
        noisy = sum(self._program.noisy)
        keys = [round_keys(seed_of(case.run.seed, n), PHILOX_7.rounds) for n in range(noisy)]
        self._tables = SideTables(
            case.sides,
            case.model.parameters,
            block,
            case.grid.spacing(),
            case.run.precision,
            case.begin_time(),
        )
        super().__init__(
            block,
            cartesian,
            rules,
            self._numbers(),
            (PHILOX_7, np.concatenate(keys) if keys else None),
            self._tables.sides,
            context,
            cut,
        )
        if self._reads_time or self._tables.varies:
            self._sweeps_per_call = 1

    def use_times(self, times: list[float], dt: float) -> None:
        """Let the next sweep make steps that begin at these times, each of length dt."""
        if dt != self._dt:
            self._dt, self._stages = dt, stages_of(self._case.model.scheme, len(self._stages), dt)
            self.coefficients = self._numbers()
        self._times = times
        if self._reads_time:
            for rows, stage in zip(self.coefficients, self._stages, strict=True):
                rows[: len(times), TIME] = [time + stage.at * dt for time in times]

    def squares(self) -> list[tuple[float, float]]:
        """Return the sums over this rank's cells of (change in a step)^2 and u^2 of each species.

        The other set of fields holds the state before the last step only after forward Euler. Otherwise a step of
        forward Euler is made there.
        """
        if len(self._sweeps) > 1:
            kept, self._times = self.coefficients, self._times[-1:]
            self.coefficients = [
                numbers_of(self._case, self._program, self._times, SchemeStage(0.0, self._dt))
            ]
            self.overwrite_other(0)
            self.coefficients = kept
        return super().squares()

    def _numbers(self) -> list[NDArray[Any]]:
        """Return the rows of each stage for steps of the present length, whose times are set before each sweep."""
        times = [0.0] * self._steps
        return [numbers_of(self._case, self._program, times, stage) for stage in self._stages]

    def update_sides(self, stage: int) -> None:
        at = self._stages[stage].at * self._dt
        self._tables.update([time + at for time in self._times])


def program_of_case(case: ReactionDiffusionCase) -> Program:
    """Return the formulas of a case, with what else shapes the code."""
    return program_of(case.species, case.model.parameters, case.grid.spacing(), axes_of(case))


def digest_of_sweep(case: ReactionDiffusionCase) -> str:
    """Return a short digest of the formulas and sides that a sweep computes, by which its speed is known."""
    text = repr((tuple(program_of_case(case)), case.boundary))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def axes_of(case: ReactionDiffusionCase) -> tuple[bool, bool, bool]:
    """Return whether species spread in z, y and x: in directions of more than one cell, or between sides."""
    z, y, x = (n > 1 or not wraps for n, wraps in zip(case.grid.shape, case.boundary.periodic()))
    return z, y, x


def numbers_of(
    case: ReactionDiffusionCase, program: Program, times: list[float], stage: SchemeStage
) -> NDArray[Any]:
    """Return what the code of a stage reads in steps that are at these times (`kernels.numbers`)."""
    z, y, x = (n if wraps else -1 for n, wraps in zip(case.grid.shape, case.boundary.periodic()))
    return numbers(
        case.species,
        case.model.parameters,
        program,
        case.grid.spacing(),
        (z, y, x),
        times,
        stage,
        case.run.precision,
    )
