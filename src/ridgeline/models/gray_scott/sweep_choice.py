"""How a CPU sweep cuts its work: by rule, as set, or as the fastest of some ways that are timed before the run.

What is fastest depends on caches, memory, threads and neighbours. So a run that is long enough times sweeps of 1, 2
and 3 steps. Each has the rule's tiles and stores, twice its rows, or the other stores. Blocks, ranks and exchange are
those of the run, with fewer planes. Results do not depend on the choice, bit for bit. It is kept for later runs in
the user's cache. The rule comes first, and another way replaces it only if it is clearly faster, on nodes that others
leave alone (parallel/autotuner.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ridgeline.blocks.block import Block
from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.random import Generator
from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.engine_cpu import CpuEngine, usual_tiling
from ridgeline.models.gray_scott.estimate import (
    FIELDS,
    possible_steps,
    steps_per_sweep,
    sweep_is_timed,
)
from ridgeline.models.gray_scott.kernels import Tiling
from ridgeline.models.gray_scott.physics import Coefficients
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.parallel.allreduce import broadcast_decision
from ridgeline.parallel.autotuner import TuningResult, choose
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.layout import busiest_share, place_on_node
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.machine import cache_sizes
from ridgeline.runtime.node_load import MOST_OTHERS, read_load

CELLS_PER_CALL = 1 << 22  # that a thread advances by a step while a way is timed, at least: some milliseconds
CACHES = 3  # times the last-level cache: the fields of larger blocks are timed with fewer planes
PLANES = 16  # of a thread, at least
SCHEDULE = 1000  # steps of a run that say how many steps its sweeps can have


class Way(NamedTuple):
    """Steps of one sweep, and how it cuts them."""

    steps: int
    tiling: Tiling

    def words(self) -> str:
        """Return the way in words, its key among others."""
        return f"{self.steps} step{'s' * (self.steps > 1)} a sweep, {self.tiling.words()}"


@dataclass(frozen=True)
class SweepChoice:
    """Steps of a sweep; tiling: None is that of the rule; source: who chose; trial: what was timed, if it was."""

    steps: int
    tiling: Tiling | None
    source: str
    trial: TuningResult | None = None


def choose_sweep(
    case: GrayScottCase, grid: Triple, c: Coefficients, noise: tuple[Generator, int], context: Context
) -> SweepChoice:
    """Return how the CPU sweeps of a run cut their work. Collective, the same on all ranks.

    grid: process grid; c: coefficients of the run, in its precision; noise: how its numbers are made, and the seed.
    Before fields are allocated: what is timed has fields of its own, which are free again
    afterwards. Compiles the sweep if anything is timed.
    """
    steps = steps_per_sweep(case, grid)
    if case.model.steps_per_sweep not in ("auto", "rule"):
        return SweepChoice(steps, None, "as set")
    if not sweep_is_timed(case, grid):
        asked = case.model.steps_per_sweep == "rule"
        return SweepChoice(steps, None, "by rule" if asked else "by rule, since the run is short")
    timing, comm, since = _Timing(case, grid, c, noise, context), context.comm, read_load()
    others = 0.0

    def quiet() -> bool:
        nonlocal others
        others = busiest_share(comm, since)
        return others <= MOST_OTHERS

    try:
        trial = choose(timing.candidates, timing.key, comm, timing.work, quiet)
    finally:
        timing.free()
    taken = timing.ways[trial.taken]
    source = trial.source
    if others > MOST_OTHERS:
        source = f"by rule, since others used {others:.0%} of a node meanwhile"
    return SweepChoice(taken.steps, taken.tiling, source, trial)


class _Timing:
    """Sweeps that are timed: ways by name, what a call of each does, and the engines, made when first called.

    key: of the choice; work: steps of each way's call, as a run has them, whose outputs cut its sweeps short.
    """

    def __init__(
        self,
        case: GrayScottCase,
        grid: Triple,
        c: Coefficients,
        noise: tuple[Generator, int],
        context: Context,
    ) -> None:
        """Decide on the ways. Collective; allocates nothing."""
        self._case, self._grid, self._c, self._noise = case, grid, c, noise
        self._context = Context(context.comm, context.device, context.threads)  # regions of its own
        self._dtype = np.dtype(case.run.precision)
        block = Block.of_rank(case.grid.shape, grid, 0).shape_local
        usual = usual_tiling(context.comm, self._dtype, block)
        all_steps = list(dict.fromkeys([steps_per_sweep(case, grid), *possible_steps(case, grid)]))
        ranks = place_on_node(context.comm).ranks
        ways, self._shape = broadcast_decision(
            context.comm,
            lambda: (
                [way for steps in all_steps for way in _ways(steps, usual(steps), block[1])],
                self._shape_of(block, ranks, len(all_steps)),
            ),
        )
        self.ways = {way.words(): way for way in ways}
        self.candidates = {name: partial(self._sweep, way) for name, way in self.ways.items()}
        lengths = {steps: mean_steps(case, steps) for steps in all_steps}
        planes = Block.of_rank(self._shape, grid, 0).shape_local[0]
        self.work = {
            name: self._repeats(way)
            * lengths[way.steps]
            * self._again(way, planes)
            / self._again(way, block[0])
            for name, way in self.ways.items()
        }
        self.key = (
            f"sweep; {context.threads} threads; "
            f"{case.grid.shape} in {grid} {case.grid.boundary} {self._dtype}; "
            f"{noise[0].name if c.noise else 'no noise'}; "
            f"steps {', '.join(f'{each:.3g}' for each in lengths.values())}"
        )
        self._engines: dict[int, CpuEngine] = {}

    def _shape_of(self, block: Triple, ranks: int, engines: int) -> Triple:
        """Return the grid that is timed: as the run's, with fewer planes where these do not fit the caches anyway.

        All engines together are then no larger than the run, or `engines` * CACHES caches.
        """
        caches = cache_sizes()
        plane = 2 * FIELDS * block[1] * block[2] * self._dtype.itemsize
        uncached = -(-CACHES * caches[max(caches)] // (ranks * plane)) if caches else 0
        planes = max(uncached, min(PLANES * self._context.threads, block[0] // engines))
        _, ny, nx = self._case.grid.shape
        return self._case.grid.shape if planes >= block[0] else (planes * self._grid[0], ny, nx)

    def _repeats(self, way: Way) -> int:
        """Return how many sweeps a call of a way makes."""
        cells = math.prod(Block.of_rank(self._shape, self._grid, 0).shape_local)
        return max(1, CELLS_PER_CALL * self._context.threads // (cells * way.steps))

    def _again(self, way: Way, planes: int) -> float:
        """Return how many planes the sweep of a block of so many computes for each that it advances by a step.

        Step s of S computes S - s planes more at both ends of each thread's part.
        """
        return 1.0 + (way.steps - 1) * self._context.threads / planes

    def _sweep(self, way: Way) -> dict[str, float]:
        """Advance by some sweeps. Neighbours; collective when called first."""
        engine = self._engines.get(way.steps)
        if engine is None:
            periodic = (self._case.grid.boundary == "periodic",) * 3
            cartesian, block = decompose(self._context.comm, self._shape, self._grid, periodic, way.steps)
            engine = CpuEngine(block, cartesian, self._c, self._noise, self._dtype, self._context)
            cartesian.Free()  # its requests keep it
            in_turn_per_node(self._context.comm, engine.compile)
            self._engines[way.steps] = engine
        engine.cut(way.tiling)
        for _ in range(self._repeats(way)):
            engine.advance(0, way.steps)
        return {}

    def free(self) -> None:
        """Free requests and fields."""
        for engine in self._engines.values():
            engine.free()
        self._engines.clear()


def _ways(steps: int, usual: Tiling, ny: int) -> Iterator[Way]:
    """Yield ways to cut sweeps of blocks with ny rows, the usual one first."""
    more_rows = min(2 * usual.tile_rows, max(ny + 7, 8) // 8 * 8)
    others = usual._replace(tile_rows=more_rows), usual._replace(streaming=not usual.streaming)
    for tiling in dict.fromkeys([usual, *others]):
        yield Way(steps, tiling)


def mean_steps(case: GrayScottCase, steps: int) -> float:
    """Return how many steps the sweeps of a run advance on average, `steps` at most: outputs cut them short."""
    intervals = (case.output.every, case.output.series_every, case.checkpoint.every, case.run.check_every)
    last = min(case.run.steps, SCHEDULE)
    events = sorted({0, last, *(step for each in intervals if each for step in range(each, last, each))})
    return last / sum(-(-(end - begin) // steps) for begin, end in pairwise(events))
