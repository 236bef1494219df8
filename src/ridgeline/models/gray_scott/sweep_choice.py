"""How sweeps cut their work: as set, by rule, or as the fastest of some variants that are timed before the run.

Which variant is fastest depends on the machine. A run that is long enough therefore times some of them; the results
of a sweep do not depend on the choice, bit for bit. The choice is kept for later runs in the user's cache, by the
rules of `parallel.autotuner`: the rule comes first, and another variant replaces it only if it is clearly faster.

On CPUs (`choose_sweep`) the variants are sweeps of 1, 2 and 3 steps, each with the rule's tiles and stores, with
twice its rows, or with the other stores. What is fastest depends on caches, memory, threads and neighbours. Blocks,
ranks and exchange are those of the run, with fewer planes. Nodes that others use meanwhile give no choice.

On GPUs (`choose_launch`) the variants are one and two steps a launch. Two steps move fewer bytes and compute more. On
several GPUs they also send half as many messages, with more in each. Both are timed in the run's own fields, before
these hold its initial state, and each with the exchange that it would run with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ridgeline.blocks.block import Block
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.sweep import Tiling
from ridgeline.blocks.sweep_engine import usual_tiling
from ridgeline.config.intervals import Interval
from ridgeline.jit.random import Generator
from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.estimate import (
    FIELDS,
    launch_is_timed,
    least_work,
    possible_steps,
    steps_per_sweep,
    sweep_is_timed,
)
from ridgeline.models.gray_scott.physics import Coefficients
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.parallel.allreduce import broadcast_decision
from ridgeline.parallel.autotuner import TuningResult, choose
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.layout import busiest_share, place_on_node
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.machine import cache_sizes
from ridgeline.runtime.node_load import MOST_OTHERS, read_load

if TYPE_CHECKING:
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine

CELLS_PER_CALL = 1 << 22  # that a thread advances by a step in a timed call, at least: some milliseconds
CACHES = 3  # times the last-level cache: larger blocks are timed with fewer planes
PLANES = 16  # of a thread, at least
SCHEDULE = 1000  # steps of a run that say how many steps its sweeps can have
BYTES_PER_CALL = 4e10  # that a timed call moves on a GPU, about: some 10 ms
MOST_LAUNCHES = 1000  # of a timed call: small grids wait for launches, not for memory


class SweepVariant(NamedTuple):
    """Steps of one sweep, and how it cuts its work."""

    steps: int
    tiling: Tiling

    def words(self) -> str:
        """Return the variant in words, by which it is known among others."""
        return f"{self.steps} step{'s' * (self.steps > 1)} per sweep, {self.tiling.words()}"


@dataclass(frozen=True)
class SweepChoice:
    """How the sweeps of a run cut their work.

    Attributes
    ----------
    steps : of one sweep
    tiling : on CPUs; None for that of the rule
    source : how it was chosen, in words for the report
    trial : what was timed, if anything was
    """

    steps: int
    tiling: Tiling | None
    source: str
    trial: TuningResult | None = None


def choose_sweep(
    case: GrayScottCase, grid: Triple, c: Coefficients, noise: tuple[Generator, int], context: Context
) -> SweepChoice:
    """Return how the CPU sweeps of a run cut their work. Collective, the same on all ranks.

    It is called before the run allocates its fields: what is timed has fields of its own, which are freed. The sweep
    is compiled if anything is timed.

    Parameters
    ----------
    case, grid : the run; its process grid
    c : coefficients of the run, in its precision
    noise : how its random numbers are made, and the seed
    context : communicator and threads
    """
    steps = steps_per_sweep(case, grid)
    if case.model.steps_per_sweep not in ("auto", "rule"):
        return SweepChoice(steps, None, "as set")
    if not sweep_is_timed(case, grid):
        by_setting = case.model.steps_per_sweep == "rule"
        return SweepChoice(steps, None, "by rule" if by_setting else "by rule, because the run is short")
    trials, comm, since = _SweepTrials(case, grid, c, noise, context), context.comm, read_load()
    others = 0.0

    def quiet() -> bool:
        nonlocal others
        others = busiest_share(comm, since)
        return others <= MOST_OTHERS

    try:
        trial = choose(trials.candidates, trials.key, comm, trials.work, quiet)
    finally:
        trials.free()
    chosen = trials.variants[trial.taken]
    source = trial.source
    if others > MOST_OTHERS:
        source = f"by rule, because other processes used {others:.0%} of a node during the trials"
    return SweepChoice(chosen.steps, chosen.tiling, source, trial)


class _SweepTrials:
    """Variants of sweeps to time, with the engines that run them, which are made when they are first called.

    Attributes
    ----------
    variants : by their words
    candidates : a call of each, to be timed
    work : steps that each call advances by, as a run would: outputs cut its sweeps short
    key : what the choice depends on, by which it is kept
    """

    def __init__(
        self,
        case: GrayScottCase,
        grid: Triple,
        c: Coefficients,
        noise: tuple[Generator, int],
        context: Context,
    ) -> None:
        """List the variants. Collective; allocates nothing."""
        self._case, self._grid, self._c, self._noise = case, grid, c, noise
        self._context = Context(context.comm, context.device, context.threads)  # regions of its own
        self._dtype = np.dtype(case.run.precision)
        block = Block.of_rank(case.grid.shape, grid, 0).shape_local
        usual = usual_tiling(context.comm, self._dtype, FIELDS, block)
        all_steps = list(dict.fromkeys([steps_per_sweep(case, grid), *possible_steps(case, grid)]))
        ranks = place_on_node(context.comm).ranks
        variants, self._shape = broadcast_decision(
            context.comm,
            lambda: (
                [
                    SweepVariant(steps, cut)
                    for steps in all_steps
                    for cut in _tilings_to_time(usual(steps), block[1])
                ],
                self._shape_to_time(block, ranks, len(all_steps)),
            ),
        )
        self.variants = {variant.words(): variant for variant in variants}
        self.candidates = {name: partial(self._sweep, variant) for name, variant in self.variants.items()}
        lengths = {steps: mean_steps(case, steps) for steps in all_steps}
        planes = Block.of_rank(self._shape, grid, 0).shape_local[0]
        self.work = {
            name: self._sweeps_per_call(variant)
            * lengths[variant.steps]
            * self._planes_computed(variant, planes)
            / self._planes_computed(variant, block[0])
            for name, variant in self.variants.items()
        }
        self.key = (
            f"sweep; {context.threads} threads; "
            f"{case.grid.shape} in {grid} {case.grid.boundary} {self._dtype}; "
            f"{noise[0].name if c.noise else 'no noise'}; "
            f"steps {', '.join(f'{each:.3g}' for each in lengths.values())}"
        )
        self._engines: dict[int, CpuEngine] = {}

    def _shape_to_time(self, block: Triple, ranks: int, engines: int) -> Triple:
        """Return the grid that is timed: the run's, with fewer planes where these do not fit the caches anyway.

        All engines together then take no more memory than the run, or than `engines` * CACHES caches.
        """
        caches = cache_sizes()
        plane = 2 * FIELDS * block[1] * block[2] * self._dtype.itemsize
        uncached = -(-CACHES * caches[max(caches)] // (ranks * plane)) if caches else 0
        planes = max(uncached, min(PLANES * self._context.threads, block[0] // engines))
        _, ny, nx = self._case.grid.shape
        return self._case.grid.shape if planes >= block[0] else (planes * self._grid[0], ny, nx)

    def _sweeps_per_call(self, variant: SweepVariant) -> int:
        """Return how many sweeps a timed call makes."""
        cells = math.prod(Block.of_rank(self._shape, self._grid, 0).shape_local)
        return max(1, CELLS_PER_CALL * self._context.threads // (cells * variant.steps))

    def _planes_computed(self, variant: SweepVariant, planes: int) -> float:
        """Return how many planes the sweep of a block of so many computes for each that it advances by a step.

        Step s of S computes S - s planes more at both ends of each thread's part.
        """
        return 1.0 + (variant.steps - 1) * self._context.threads / planes

    def _sweep(self, variant: SweepVariant) -> dict[str, float]:
        """Advance by some sweeps. Neighbours; collective when called first."""
        engine = self._engines.get(variant.steps)
        if engine is None:
            periodic = (self._case.grid.boundary == "periodic",) * 3
            cartesian, block = decompose(self._context.comm, self._shape, self._grid, periodic, variant.steps)
            engine = CpuEngine(block, cartesian, self._c, self._noise, self._dtype, self._context)
            cartesian.Free()  # its requests keep it
            in_turn_per_node(self._context.comm, engine.compile)
            self._engines[variant.steps] = engine
        engine.cut(variant.tiling)
        for _ in range(self._sweeps_per_call(variant)):
            engine.advance(0, variant.steps)
        return {}

    def free(self) -> None:
        """Free requests and fields."""
        for engine in self._engines.values():
            engine.free()
        self._engines.clear()


def _tilings_to_time(usual: Tiling, ny: int) -> Iterator[Tiling]:
    """Yield the tilings to time in blocks with ny rows, the usual one first."""
    more_rows = min(2 * usual.tile_rows, max(ny + 7, 8) // 8 * 8)
    others = usual._replace(tile_rows=more_rows), usual._replace(streaming=not usual.streaming)
    yield from dict.fromkeys([usual, *others])


def mean_steps(case: GrayScottCase, steps: int) -> float:
    """Return how many steps the sweeps of a run advance on average, at most `steps`: outputs cut them short."""
    recurring = [*case.intervals_of_output(), case.checkpoint.interval(), Interval(case.run.check_every)]
    intervals = [each.steps for each in recurring]
    intervals += [max(1, math.ceil(each.time / case.model.dt)) for each in recurring if each.time]
    last = min(case.planned_steps(), SCHEDULE)
    events = sorted({0, last, *(step for each in intervals if each for step in range(each, last, each))})
    return last / sum(-(-(end - begin) // steps) for begin, end in pairwise(events))


def choose_launch(case: GrayScottCase, grid: Triple, engine: CudaEngine, context: Context) -> SweepChoice:
    """Set the engine's steps per launch to what is set or is fastest, and return the choice. Collective.

    What its fields hold is lost if anything is timed. Raises ConfigError as `estimate.steps_per_sweep` does.
    """
    chosen, steps = case.model.steps_per_sweep, steps_per_sweep(case, grid)
    if launch_is_timed(case, grid):
        choice = _time_launches(case, grid, engine, context)
    elif isinstance(chosen, int):
        choice = SweepChoice(steps, None, "as set")
    elif chosen == "rule":
        choice = SweepChoice(steps, None, "by rule")
    elif len(possible_steps(case, grid)) == 1:
        choice = SweepChoice(steps, None, "by rule, because the blocks are thin")
    else:
        choice = SweepChoice(steps, None, "by rule, because the run is short")
    engine.set_steps_per_sweep(choice.steps)
    return choice


def _time_launches(case: GrayScottCase, grid: Triple, engine: CudaEngine, context: Context) -> SweepChoice:
    """Return the faster of one and two steps a launch; compiles both."""
    from numba import cuda  # late: runs on CPUs use this file too

    engine.set_steps_per_sweep(2)
    in_turn_per_node(context.comm, engine.compile)
    work = least_work(case.grid.shape, np.dtype(case.run.precision).itemsize, case.model.noise > 0, 0, 0)
    step_bytes = work.bytes_memory / math.prod(grid)
    launches = min(MOST_LAUNCHES, max(2, round(BYTES_PER_CALL / step_bytes)))

    def launch(steps: int) -> Mapping[str, float]:
        engine.set_steps_per_sweep(steps)
        for _ in range(launches):
            engine.advance(0, steps)
        cuda.synchronize()
        return {}

    steps = {"1 step per launch": 1, "2 steps per launch": 2}
    candidates = {name: partial(launch, n) for name, n in steps.items()}
    lengths = {name: mean_steps(case, n) for name, n in steps.items()}
    exchange = f"in {grid} through {engine.transport}; " if context.comm.size > 1 else ""
    key = (
        f"launch; {engine.device.name}; {exchange}"
        f"{case.grid.shape} {case.grid.boundary} {case.run.precision}; "
        f"{case.settled().model.random_numbers if case.model.noise else 'no noise'}; "
        f"steps {', '.join(f'{each:.3g}' for each in lengths.values())}"
    )
    steps_per_call = {name: launches * length for name, length in lengths.items()}
    trial = choose(candidates, key, context.comm, steps_per_call)
    return SweepChoice(steps[trial.taken], None, trial.source, trial)
