"""How sweeps cut their work: as set, by rule, or as the fastest of some variants that are timed before the run.

Which variant is fastest depends on the machine: on its caches and memory, on threads and neighbours. A run that is
long enough therefore times some of them; the results of a sweep do not depend on the choice, bit for bit. The choice
is kept for later runs in the user's cache, by the rules of `parallel.autotuner`: the rule comes first, and another
variant replaces it only if it is clearly faster.

The variants are sweeps of 1, 2 and 3 steps, each with the rule's tiles and stores, with twice its rows, or with the
other stores. Blocks, ranks and exchange are those of the run, with fewer planes. Nodes that others use meanwhile give
no choice. `sweep_plan` says, without MPI, which numbers of steps are possible and whether a run is long enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ridgeline.blocks.block import Block
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.sweep import Tiling
from ridgeline.blocks.sweep_engine import SweepEngine, usual_tiling
from ridgeline.config.case import AnyCase
from ridgeline.config.intervals import Interval
from ridgeline.parallel.allreduce import broadcast_decision
from ridgeline.parallel.autotuner import TuningResult, choose
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.layout import busiest_share, place_on_node
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.context import Context
from ridgeline.runtime.machine import cache_sizes
from ridgeline.runtime.node_load import MOST_OTHERS, read_load

if TYPE_CHECKING:
    from mpi4py import MPI

CELLS_PER_CALL = 1 << 22  # that a thread advances by a step in a timed call, at least: some milliseconds
CACHES = 3  # times the last-level cache: larger blocks are timed with fewer planes
PLANES = 16  # of a thread, at least
SCHEDULE = 1000  # steps of a run that say how many steps its sweeps can have


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

    @classmethod
    def untimed(cls, chosen: object, steps: int, reason: str = "because the run is short") -> SweepChoice:
        """Return the choice of a run that times nothing. chosen: what the settings say: "auto", "rule" or steps."""
        words = {"auto": f"by rule, {reason}", "rule": "by rule"}
        return cls(steps, None, words.get(str(chosen), "as set"))

    def facts(self, method: str) -> dict[str, Any]:
        """Return what a report says of the choice. method: how the engine sweeps, in words."""
        facts: dict[str, Any] = {"method": f"{method} ({self.source})", "sweep_chosen": self.source}
        if self.trial is not None:
            facts["trials"] = {"one step": asdict(self.trial)}
        return facts


@dataclass(frozen=True)
class TimedSweeps:
    """The sweeps of a run whose variants are timed.

    Attributes
    ----------
    shape, grid : of all cells; the process grid
    periodic : whether ranks exchange across the ends of z, y and x
    dtype, n_fields : of the fields
    lengths : how many steps sweeps of at most so many steps advance on average, those of the rule first
    what : what else the speed depends on, in words, by which the choice is kept
    make_engine : allocates fields for a block, whose ghosts are as wide as a sweep has steps. Collective
    """

    shape: Triple
    grid: Triple
    periodic: tuple[bool, bool, bool]
    dtype: np.dtype[Any]
    n_fields: int
    lengths: Mapping[int, float]
    what: str
    make_engine: Callable[[Block, MPI.Cartcomm, Context], SweepEngine]


def choose_sweep(sweeps: TimedSweeps, context: Context) -> SweepChoice:
    """Return how the CPU sweeps of a run cut their work, as the fastest variant does. Collective, equal on all ranks.

    It is called before the run allocates its fields: what is timed has fields of its own, which are freed. The sweep
    is compiled.
    """
    trials, comm, since = _SweepTrials(sweeps, context), context.comm, read_load()
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

    def __init__(self, sweeps: TimedSweeps, context: Context) -> None:
        """List the variants. Collective; allocates nothing."""
        self._sweeps = sweeps
        self._context = Context(context.comm, context.device, context.threads)  # regions of its own
        block = Block.of_rank(sweeps.shape, sweeps.grid, 0).shape_local
        usual = usual_tiling(context.comm, sweeps.dtype, sweeps.n_fields, block)
        ranks = place_on_node(context.comm).ranks
        variants, self._shape = broadcast_decision(
            context.comm,
            lambda: (
                [
                    SweepVariant(steps, cut)
                    for steps in sweeps.lengths
                    for cut in _tilings_to_time(usual(steps), block[1])
                ],
                self._shape_to_time(block, ranks),
            ),
        )
        self.variants = {variant.words(): variant for variant in variants}
        self.candidates = {name: partial(self._sweep, variant) for name, variant in self.variants.items()}
        planes = Block.of_rank(self._shape, sweeps.grid, 0).shape_local[0]
        self.work = {
            name: self._sweeps_per_call(variant)
            * sweeps.lengths[variant.steps]
            * self._planes_computed(variant, planes)
            / self._planes_computed(variant, block[0])
            for name, variant in self.variants.items()
        }
        self.key = (
            f"sweep; {context.threads} threads; {sweeps.shape} in {sweeps.grid} {sweeps.dtype}; {sweeps.what}; "
            f"steps {', '.join(f'{each:.3g}' for each in sweeps.lengths.values())}"
        )
        self._engines: dict[int, SweepEngine] = {}

    def _shape_to_time(self, block: Triple, ranks: int) -> Triple:
        """Return the grid that is timed: the run's, with fewer planes where these do not fit the caches anyway.

        All engines together then take no more memory than the run, or than CACHES caches for each of them.
        """
        caches, run = cache_sizes(), self._sweeps
        plane = 2 * run.n_fields * block[1] * block[2] * run.dtype.itemsize
        uncached = -(-CACHES * caches[max(caches)] // (ranks * plane)) if caches else 0
        planes = max(uncached, min(PLANES * self._context.threads, block[0] // len(run.lengths)))
        return run.shape if planes >= block[0] else (planes * run.grid[0], *run.shape[1:])

    def _sweeps_per_call(self, variant: SweepVariant) -> int:
        """Return how many sweeps a timed call makes."""
        cells = math.prod(Block.of_rank(self._shape, self._sweeps.grid, 0).shape_local)
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
            run, comm = self._sweeps, self._context.comm
            cartesian, block = decompose(comm, self._shape, run.grid, run.periodic, variant.steps)
            engine = run.make_engine(block, cartesian, self._context)
            cartesian.Free()  # its requests keep it
            compile_on_nodes(self._context.comm, engine.compile)
            self._engines[variant.steps] = engine
        engine.cut(variant.tiling)
        left = self._sweeps_per_call(variant) * variant.steps
        while left:
            left -= engine.advance(0, left)
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


def mean_steps(case: AnyCase, steps: int) -> float:
    """Return how many steps the sweeps of a run advance on average, at most `steps`: outputs cut them short."""
    recurring = [*case.intervals_of_output(), case.checkpoint.interval(), Interval(case.run.check_every)]
    intervals = [each.steps for each in recurring]
    intervals += [max(1, math.ceil(each.time / case.step_length())) for each in recurring if each.time]
    last = min(case.planned_steps(), SCHEDULE)
    events = sorted({0, last, *(step for each in intervals if each for step in range(each, last, each))})
    return last / sum(-(-(end - begin) // steps) for begin, end in pairwise(events))
