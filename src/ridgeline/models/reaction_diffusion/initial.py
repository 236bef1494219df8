"""The initial state: formulas of the place, of parameters and of random numbers, set by global index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block
from ridgeline.jit.random import uniform_reference
from ridgeline.models.reaction_diffusion.formulas import RANDOM
from ridgeline.models.reaction_diffusion.sides import fault_on_side, places_on, touches
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.reaction_diffusion.settings import ReactionDiffusionCase

# The random numbers of the start are those of steps that no run reaches, another one for each species.
_LAST_STEP = 2**32 - 1


def seed_of(seed: int, n: int) -> int:
    """Return the seed of the n-th noisy species, from 0, that of the run for the first one."""
    return seed ^ (n << 32)


def set_start(
    case: ReactionDiffusionCase, block: Block, fields: Sequence[NDArray[Any]], comm: MPI.Comm
) -> None:
    """Set the owned cells of this rank's block to the state of step 0. Collective.

    Formulas are evaluated in float64, and rounded to the precision of the fields. Raises ConfigError where one of
    them, or a rate or a value at a side at the time of step 0, is not finite.
    """
    raise_on_all_ranks(comm, _set_fields(case, block, fields) or _fault_of_sides(case, block))


def _fault_of_sides(case: ReactionDiffusionCase, block: Block) -> ConfigError | None:
    names = {**case.model.parameters, "t": case.begin_time()}
    for species, formulas in zip(case.names(), case.sides, strict=True):
        for formula in formulas:
            if touches(block, formula.side):
                places = places_on(formula, block, case.grid.spacing(), 0)
                if rule := fault_on_side(formula, species, places, names):
                    return ConfigError(f"boundary.{formula.side}.values must be {rule}.")
    return None


def _set_fields(
    case: ReactionDiffusionCase, block: Block, fields: Sequence[NDArray[Any]]
) -> ConfigError | None:
    z, y, x = (
        (offset + np.arange(n) + 0.5) * h
        for offset, n, h in zip(block.offset_global, block.shape_local, case.grid.spacing(), strict=True)
    )
    rows, columns = (
        offset + np.arange(n)
        for offset, n in zip(block.offset_global[1:], block.shape_local[1:], strict=True)
    )
    for k, height in enumerate(z):
        places = {"x": x[np.newaxis, :], "y": y[:, np.newaxis], "z": height, **case.model.parameters}
        plane = block.offset_global[0] + k
        for n, (species, field) in enumerate(zip(case.species, fields, strict=True)):
            names: dict[str, Any] = dict(places)
            if RANDOM in species.initial.variables:
                names[RANDOM] = uniform_reference(
                    case.run.seed, _LAST_STEP - n, plane, rows[:, np.newaxis], columns
                )
            field[k] = species.initial.evaluate(names)
            if problem := _nonfinite(
                f"model.species.{n}.initial", species.initial.text, field[k], (height, y, x)
            ):
                return problem
        state = {name: field[k].astype(np.float64) for name, field in zip(case.names(), fields)}
        for n, species in enumerate(case.species):
            rate = species.rate.evaluate({**places, **state, "t": case.begin_time()})
            if problem := _nonfinite(f"model.species.{n}.rate", species.rate.text, rate, (height, y, x)):
                return problem
    return None


def _nonfinite(key: str, text: str, values: NDArray[Any], where: Any) -> ConfigError | None:
    """Return the error that names the first cell of a plane in which a formula is not finite."""
    z, y, x = where
    wrong = ~np.isfinite(np.broadcast_to(values, (len(y), len(x))))
    if not wrong.any():
        return None
    j, i = np.argwhere(wrong)[0]
    value = np.broadcast_to(values, wrong.shape)[j, i]
    return ConfigError(
        f"{key}: {text} is {value} in the initial state at x = {x[i]:g}, y = {y[j]:g}, z = {z:g}. The formula must "
        "be finite in every cell."
    )
