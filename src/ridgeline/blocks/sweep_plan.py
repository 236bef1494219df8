"""How many time steps a sweep advances, as far as it is known before a run. No MPI, no allocation."""

import math

from ridgeline.blocks.block import Block
from ridgeline.config.case import AnyCase
from ridgeline.parallel.partition import Triple

MOST_STEPS = 3  # of a sweep that are timed: 4 were never faster
# Bytes of a row from which on the rule takes two steps per pass. Three planes of long rows do not stay in the caches
# in any case, so that a sweep waits for memory (docs/theory-sweep.md). With shorter rows one step is as fast.
LONG_ROW = 4096

# Variants of a sweep are timed if a run takes much longer than the trials, which take some 5 s of a core's time, and
# if its fields do not stay in a second-level cache whatever is chosen.
CELL_STEPS_TIMED = 5_000_000_000  # cells * steps of a thread
CELLS_TIMED = 32**3  # of a block


def thinnest_block(shape: Triple, grid: Triple, wraps: tuple[bool, bool, bool]) -> float:
    """Return the fewest cells of a block in a direction that is cut, or that wraps; infinity if there is none.

    Ghosts are as wide as a sweep has steps, and come from direct neighbours only, so that this is the most steps.
    """
    thin = [n // p for n, p, wraps_here in zip(shape, grid, wraps, strict=True) if p > 1 or wraps_here]
    return min(thin, default=math.inf)


def possible_steps(thinnest: float, most: int = MOST_STEPS) -> range:
    """Return the numbers of steps that a sweep may have, up to the most that is ever faster."""
    return range(1, 1 + max(1, int(min(most, thinnest))))


def steps_by_rule(shape: Triple, grid: Triple, itemsize: int, possible: range) -> int:
    """Return how many steps are usually fastest."""
    is_long = shape[2] // grid[2] * itemsize >= LONG_ROW and shape[0] > 1
    return min(2 if is_long else 1, possible[-1])


def is_worth_timing(case: AnyCase, shape: Triple, grid: Triple) -> bool:
    """Return whether a run is long enough, and its blocks large enough, to time variants of its sweep."""
    cells = math.prod(Block.of_rank(shape, grid, 0).shape_local)
    return cells > CELLS_TIMED and cells * case.planned_steps() >= CELL_STEPS_TIMED * case.run.threads
