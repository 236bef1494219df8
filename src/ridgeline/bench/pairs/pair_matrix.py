"""Latency and bandwidth of every pair of ranks or nodes: an N x N matrix, measured in O(N) rounds of disjoint pairs.

The loop of a pair ends in bounded time even on a slow or lossy link: its first rank orders one small batch after
another, the second rank does what each order says, and the first stops when the time is over.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.pairs.pairing import Pair, check_pairs, tournament
from ridgeline.bench.pairs.pairs_options import Between, OneWayOptions
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.bench.shared_options import WINDOW
from ridgeline.limits.messages import AFTER, BEFORE, bandwidth, ping_pong, verify, windowed
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.parallel.payload import Buffer, Memory
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import ConfigError, VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

Quantity = Literal["latency", "bandwidth"]
OnPair = Callable[[Pair | None, str], None]
_PING, _FORWARD, _BACKWARD, _VERIFY, _STOP = range(5)  # orders
_MEASURED = (_PING, _FORWARD, _BACKWARD)
_ORDER, _READY, _SECONDS = 11, 12, 13  # tags
_CHUNK = 16  # round trips between two readings of the clock


@dataclass(frozen=True)
class PairFigures:
    """The figures of pairs, in the order of the rounds. A figure is NaN where the time was over.

    Attributes
    ----------
    first, second
        The ranks of each pair, int64 [n_pairs].
    latency
        Seconds one way, the mean of each repeat, float64 [n_pairs, repeats].
    forward, backward
        B/s from first to second and from second to first, float64 [n_pairs, repeats].
    errors
        (source, target, text) of the messages that did not arrive as they were sent.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    latency: NDArray[np.float64]
    forward: NDArray[np.float64]
    backward: NDArray[np.float64]
    errors: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def bandwidth(self) -> NDArray[np.float64]:
        """B/s of the slower direction, float64 [n_pairs, repeats]."""
        return np.minimum(self.forward, self.backward)


@dataclass(frozen=True)
class PairPlan:
    """What every pair measures, `repeats` times.

    A repeat is up to `iterations` round trips of latency_size bytes, and a window of up to `window` messages of
    bandwidth_size bytes each way. A pair may take `seconds`. A slow link gets smaller numbers, but at least one
    repeat of one message is measured.
    """

    latency_size: int = 8
    bandwidth_size: int = 2**20
    repeats: int = 5
    iterations: int = 100
    window: int = 16
    seconds: float = 2.0

    @property
    def slice(self) -> float:
        """Seconds that one batch may take: of three kinds, each repeated, and about two more to find its length."""
        return self.seconds / (len(_MEASURED) * (self.repeats + 2))


def measure_pairs(
    comm: MPI.Comm,
    rounds: Sequence[Sequence[Pair]],
    plan: PairPlan,
    serial: bool = False,
    on_pair: OnPair | None = None,
    memory: Memory = "host",
) -> PairFigures | None:
    """Measure latency and bandwidth of pairs of ranks, those of a round at the same time. Collective over comm.

    Ranks that have no pair, and those that finish before others, sleep.

    Parameters
    ----------
    rounds
        The pairs of each round, the same on all ranks.
    serial
        Measure one pair at a time.
    on_pair
        Called with (pair, step) when this rank begins a pair, and with (None, step) when it waits for the others.

    Returns
    -------
    PairFigures or None
        The figures on rank 0, None elsewhere.

    Raises
    ------
    ConfigError
        If the pairs of a round are not disjoint or name ranks that do not exist.
    """
    _check(rounds, comm.size, plan)
    if serial:
        rounds = [[pair] for pairs in rounds for pair in pairs]
    buffer = Buffer(max(plan.latency_size, plan.bandwidth_size), memory)
    measured: dict[Pair, NDArray[np.float64]] = {}
    errors: list[tuple[int, int, str]] = []
    for number, pairs in enumerate(rounds):
        step = f"round {number + 1} of {len(rounds)}"
        for pair in pairs:
            if comm.rank in pair:
                if on_pair is not None:
                    on_pair(pair, step)
                exchange = _PairExchange(comm, pair, buffer, plan, errors)
                if exchange.leads:
                    measured[pair] = exchange.lead()
                else:
                    exchange.follow()
        if on_pair is not None:
            on_pair(None, step)
        sleeping_barrier(comm)
    gathered = comm.gather((measured, errors))
    if gathered is None:
        return None
    table: dict[Pair, NDArray[np.float64]] = {}
    for part, _ in gathered:
        table |= part
    order = [pair for pairs in rounds for pair in pairs]
    figures = np.array([table[pair] for pair in order]).reshape(len(order), len(_MEASURED), plan.repeats)
    ranks = np.array(order, np.int64).reshape(len(order), 2)
    return PairFigures(
        ranks[:, 0],
        ranks[:, 1],
        figures[:, _PING],
        figures[:, _FORWARD],
        figures[:, _BACKWARD],
        [error for _, errors_of_rank in gathered for error in errors_of_rank],
    )


def _check(rounds: Sequence[Sequence[Pair]], n_ranks: int, plan: PairPlan) -> None:
    for pairs in rounds:
        ranks = [rank for pair in pairs for rank in pair]
        if len(set(ranks)) < len(ranks):
            raise ConfigError(
                f"the pairs {list(pairs)} of one round share a rank, but they must be disjoint."
            )
        if ranks and not 0 <= min(ranks) <= max(ranks) < n_ranks:
            raise ConfigError(f"the pairs {list(pairs)} must contain only the ranks 0 to {n_ranks - 1}.")
    seen = [tuple(sorted(pair)) for pairs in rounds for pair in pairs]
    if len(set(seen)) < len(seen):
        raise ConfigError("a pair is named more than once. Name every pair once, and use more repeats.")
    for name in ("repeats", "iterations", "window", "bandwidth_size"):
        if getattr(plan, name) < 1:
            raise ConfigError(f"{name} is {getattr(plan, name)}, but it must be at least 1.")


class _PairExchange:
    """The exchanges of two ranks. The first of the pair leads."""

    def __init__(
        self, comm: MPI.Comm, pair: Pair, buffer: Buffer, plan: PairPlan, errors: list[tuple[int, int, str]]
    ) -> None:
        self.comm, self.buffer, self.plan, self.errors = comm, buffer, plan, errors
        self.leads = comm.rank == pair[0]
        self.partner = pair[1] if self.leads else pair[0]
        self._order = np.zeros(2, np.int64)  # kind, number of messages
        self._ready = np.zeros(1, np.uint8)
        self._seconds = np.zeros(1, np.float64)

    def lead(self) -> NDArray[np.float64]:
        """Return latency (s), bandwidth forward and backward (B/s), float64 [3, repeats]."""
        plan = self.plan
        over = perf_counter() + plan.seconds
        figures = np.full((len(_MEASURED), plan.repeats), np.nan)
        self._give(_VERIFY, BEFORE)
        limits = {_PING: plan.iterations, _FORWARD: plan.window, _BACKWARD: plan.window}
        counts = {kind: self._grow(kind, limits[kind], over) for kind in _MEASURED}
        for i in range(plan.repeats):
            for kind in _MEASURED:
                figures[kind, i] = self._repeat(kind, counts[kind], over)
            if perf_counter() > over:
                break
        self._give(_VERIFY, AFTER)
        self._give(_STOP, 0)
        return figures

    def follow(self) -> None:
        """Do what the partner orders until it orders to stop."""
        while True:
            self.comm.Recv(self._order, self.partner, _ORDER)
            self.comm.Send(self._ready, self.partner, _READY)
            kind, count = map(int, self._order)
            if kind == _STOP:
                return
            self._perform(kind, count)

    def _give(self, kind: int, count: int) -> float:
        """Order a batch and do this rank's part of it; return its seconds."""
        self._order[:] = kind, count
        self.comm.Send(self._order, self.partner, _ORDER)
        self.comm.Recv(self._ready, self.partner, _READY)
        return self._perform(kind, count)

    def _perform(self, kind: int, count: int) -> float:
        """Return the seconds of a batch on the rank that leads."""
        comm, partner, leads, buffer, plan = self.comm, self.partner, self.leads, self.buffer, self.plan
        if kind == _PING:
            return 2 * count * ping_pong(comm, partner, leads, buffer, plan.latency_size, count, 1)
        if kind == _VERIFY:
            try:
                verify(comm, partner, leads, buffer, plan.bandwidth_size, sequence=count)
            except VerificationError as error:
                self.errors.append((partner, comm.rank, str(error)))
        if kind == _FORWARD:
            return windowed(comm, partner, leads, buffer, plan.bandwidth_size, count, 1, 0)
        if kind == _BACKWARD:
            seconds = windowed(comm, partner, not leads, buffer, plan.bandwidth_size, count, 1, 0)
            # The clock of the sender counts.
            if leads:
                comm.Recv(self._seconds, partner, _SECONDS)
                return float(self._seconds[0])
            self._seconds[0] = seconds
            comm.Send(self._seconds, partner, _SECONDS)
        return 0.0

    def _grow(self, kind: int, limit: int, over: float) -> int:
        """Return how many messages fit into a batch, found by doubling, which also warms up the link."""
        count = 1
        while True:
            seconds = self._give(kind, count)
            if perf_counter() > over:
                return count
            if seconds > self.plan.slice:
                # A single stall, such as that of a shared core, says nothing about the link.
                seconds = min(seconds, self._give(kind, count))
            if count == limit or seconds > self.plan.slice:
                return count
            count = min(2 * count, limit)

    def _repeat(self, kind: int, count: int, over: float) -> float:
        """Return the latency or bandwidth of one batch, which is cut when the time is over."""
        if kind != _PING:
            return bandwidth(self.plan.bandwidth_size, count, self._give(kind, count))
        done, seconds = 0, 0.0
        while done < count and (done == 0 or perf_counter() < over):
            chunk = min(_CHUNK, count - done)
            seconds += self._give(kind, chunk)
            done += chunk
        return seconds / (2 * done)


def measure_all_pairs(
    comm: MPI.Comm,
    quantity: Quantity,
    options: OneWayOptions,
    memory: Memory = "host",
    progress: Phases | None = None,
    repeats: int = 5,
) -> Result:
    """Measure every pair of ranks, or of first ranks of nodes (options.between). Collective over comm.

    The result has the N x N matrix in extra["matrix"], with the sender as row, and the names in extra["names"].
    Raises ConfigError for fewer than two partners, and VerificationError on all ranks if a message is not what was
    sent.
    """
    if options.size is not None and options.size < (quantity == "bandwidth"):
        raise ConfigError(
            f"--size {options.size}: messages of this size have no {quantity}. Use a larger size."
        )
    sizes = {} if options.size is None else {f"{quantity}_size": options.size}
    plan = PairPlan(
        repeats=repeats,
        iterations=100 if options.iterations is None else options.iterations,
        window=WINDOW if options.window is None else options.window,
        seconds=options.seconds,
        **sizes,
    )
    layout = find_layout(comm, options.ranks_per_node)
    members, names = _members(comm.size, layout, options.between)
    rounds = [[(members[a], members[b]) for a, b in pairs] for pairs in tournament(len(members))]
    progress = progress or silent()
    n_rounds = len(rounds) * (len(members) // 2 if options.serial else 1)
    finished = itertools.count(1)

    def on_pair(pair: Pair | None, step: str) -> None:
        if pair is None:
            progress.update(next(finished), n_rounds)

    progress.begin("rounds of pairs", now=False)
    figures = measure_pairs(comm, rounds, plan, options.serial, on_pair, memory)
    with errors_on_all_ranks(comm):
        if figures is not None and figures.errors:
            raise VerificationError(figures.errors[0][2])
    result = _empty_result(comm.size, layout, quantity, options, plan, members, len(rounds))
    result.settings["memory"] = memory
    if figures is not None:
        matrix = _matrix(figures, members, quantity)
        _summarise(result, matrix, names, _size_of(quantity, plan), quantity == "latency")
    return result


def _size_of(quantity: Quantity, plan: PairPlan) -> int:
    return plan.latency_size if quantity == "latency" else plan.bandwidth_size


def _members(n_ranks: int, layout: Layout, between: Between) -> tuple[list[int], list[str]]:
    """Return the ranks that are paired with each other, and their names. Raises ConfigError for fewer than two."""
    if between == "nodes":
        if layout.n_nodes < 2:
            raise ConfigError(
                "--between nodes requires at least 2 nodes, but there is 1. Use more nodes, or --between ranks."
            )
        return layout.leaders, list(layout.hosts)
    check_pairs(None, n_ranks // 2, n_ranks)
    names = [f"{rank} {layout.hosts[layout.node_of_rank[rank]]}" for rank in range(n_ranks)]
    return list(range(n_ranks)), names


def _empty_result(
    n_ranks: int,
    layout: Layout,
    quantity: Quantity,
    options: OneWayOptions,
    plan: PairPlan,
    members: list[int],
    n_rounds: int,
) -> Result:
    """Return the result without its figures, which only rank 0 has."""
    rounds = f"{n_rounds} round{'s' * (n_rounds != 1)}"
    at_once = (
        "one pair at a time" if options.serial else f"up to {len(members) // 2} disjoint pairs at a time"
    )
    latency = quantity == "latency"
    scale, unit = (1e-6, "us") if latency else (1e6, "MB/s")
    of, size = options.between, _size_of(quantity, plan)
    return Result(
        benchmark=f"{quantity} of all pairs",
        pattern=f"every two {of} exchange messages once, in {rounds}, {at_once}; messages of {size} B"
        + ("" if latency else f", windows of up to {plan.window}"),
        formula="latency = t / (2 iterations)" if latency else "bandwidth = bytes x window / t",
        statistic=f"median of {plan.repeats} repeats for each pair",
        ranks=n_ranks,
        nodes=layout.n_nodes,
        left_out=[rank for rank in range(n_ranks) if rank not in members],
        columns=[
            Column("size", "B"),
            Column("pairs", "pairs"),
            *(Column(key, f"{key} {unit}", scale) for key in ("min", "median", "mean", "max")),
        ],
        rows=[],
        settings={
            "of": of,
            "sizes": {"latency": plan.latency_size, "bandwidth": plan.bandwidth_size},
            "repeats": plan.repeats,
            "window": plan.window,
            "serial": options.serial,
            "seconds_per_pair": plan.seconds,
        },
        plot=Plot(kind="heat", x_label=f"to ({of})", y_label=f"{quantity} in {unit}", y_scale=scale),
    )


def _matrix(figures: PairFigures, members: list[int], quantity: str) -> NDArray[np.float64]:
    """Return the medians of the repeats, float64 [n, n], with the sender as row and NaN on the diagonal."""
    place = {rank: i for i, rank in enumerate(members)}
    a = [place[int(rank)] for rank in figures.first]
    b = [place[int(rank)] for rank in figures.second]
    there, back = (
        (figures.latency, figures.latency) if quantity == "latency" else (figures.forward, figures.backward)
    )
    matrix = np.full((len(members), len(members)), math.nan)
    matrix[a, b] = np.nanmedian(there, axis=1)
    matrix[b, a] = np.nanmedian(back, axis=1)
    return matrix


def _summarise(
    result: Result, matrix: NDArray[np.float64], names: list[str], size: int, latency: bool
) -> None:
    """Add the row, the matrix and the three slowest pairs to the result."""
    a, b = np.triu_indices(len(names), 1)
    worse = np.maximum if latency else np.minimum
    values = worse(matrix[a, b], matrix[b, a])
    row: dict[str, Any] = {"size": size, "pairs": len(values)}
    row |= {key: float(getattr(np, key)(values)) for key in ("min", "median", "mean", "max")}
    result.rows.append(row)
    result.extra["matrix"] = [[None if math.isnan(v) else v for v in line] for line in matrix.tolist()]
    result.extra["names"] = names
    unit, scale = ("us", 1e-6) if latency else ("MB/s", 1e6)
    order = np.argsort(-values if latency else values)[:3]
    slowest = "; ".join(f"{names[a[i]]} - {names[b[i]]} {values[i] / scale:.2f} {unit}" for i in order)
    result.notes.append(f"Slowest pairs: {slowest}")
