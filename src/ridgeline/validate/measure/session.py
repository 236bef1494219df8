"""What the stages of a validation share: the layout, the options, and what was measured so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.runtime.errors import RidgelineError
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, PairQuantity, PartQuantity
from ridgeline.validate.measure.node_gpus import Gpus

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.bench.result import Result
    from ridgeline.parallel.layout import Layout
    from ridgeline.validate.validation_options import ValidationOptions
    from ridgeline.validate.watchdog import Watch

T = TypeVar("T")
_POLL = 2e-3  # seconds between two looks of ranks that rest: a millionth of a core each
_FEW_NODES = 64  # up to here every node meets every other
_FEWEST_ROUNDS = 8  # of a rail


@dataclass
class Session:
    """One validation in progress, on this rank. measurements: complete on rank 0; node_comm: ranks of this node;
    stage_ends: all ranks, used between stages only.
    """

    comm: MPI.Comm
    layout: Layout
    plan: ValidationOptions
    watch: Watch
    measurements: Measurements
    node_comm: MPI.Comm
    stage_ends: MPI.Comm
    groups: dict[str, list[int]] = field(default_factory=dict)
    switches: dict[str, list[int]] = field(default_factory=dict)
    again: set[int] | None = None  # the nodes that are measured, None for all
    ranks_on_interfaces: list[dict[str, list[int]]] = field(default_factory=list)  # of each node, by name
    gpus: Gpus = field(default_factory=lambda: Gpus([], "none was looked for"))

    @property
    def node(self) -> int:
        """The number of this rank's node."""
        return self.layout.node_of_rank[self.comm.rank]

    @property
    def leaders(self) -> list[int]:
        """The first rank of every node."""
        return self.layout.leaders

    @property
    def rails(self) -> list[dict[int, int]]:
        """The ranks that measure each network interface: for the first, the second and so on, node -> rank.

        Without interfaces that are known, one rail of the first ranks of all nodes.
        """
        firsts = [[ranks[0] for ranks in of_node.values()] for of_node in self.ranks_on_interfaces]
        firsts = firsts or [[rank] for rank in self.leaders]
        return [
            {node: of_node[number] for node, of_node in enumerate(firsts) if number < len(of_node)}
            for number in range(max(map(len, firsts)))
        ]

    def takes_part(self, node: int) -> bool:
        """Say whether a node is measured now."""
        return self.again is None or node in self.again

    def rest(self) -> None:
        """Wait for all ranks, asleep. Collective."""
        sleeping_barrier(self.comm, _POLL)

    def on_nodes(self, setup: Callable[[], Callable[[], T]], repeats: int) -> list[list[T] | None]:
        """Run what `setup` returns so many times on every rank of the nodes measured; return results by rank.

        All nodes work at once, or one after the other if the plan is serial, the others asleep. Every node has its
        first turn before any has its second, so that a drift affects all. setup and what it returns may communicate
        on node_comm. Rank 0 notes an error of the machine (VerificationError and the like) for its node. That rank's
        results are None, as those of nodes that are not measured. Collective; the list is complete on rank 0, empty
        elsewhere.
        """
        results: list[T] = []
        once: Callable[[], T] | None = None
        failure, no_room = "", False
        nodes = [node for node in range(self.layout.n_nodes) if self.takes_part(node)]
        for _ in range(repeats):
            for turn in [[node] for node in nodes] if self.plan.serial else [nodes]:
                if self.node in turn:
                    # The ranks of a node meet whether or not one of them failed before.
                    self.node_comm.Barrier()
                    try:
                        if not failure:
                            once = setup() if once is None else once
                            results.append(once())
                    except MemoryError as error:  # a node whose memory others filled is not faulty
                        failure, no_room = f"not enough memory was free: {error}", True
                    except (RidgelineError, RuntimeError) as error:
                        failure = f"{type(error).__name__}: {error}"
                self.rest()
        found = self.comm.gather((None if failure or not results else results, failure, no_room)) or []
        for rank, (_, text, room) in enumerate(found):
            if text:
                self.note_fault(self.layout.node_of_rank[rank], f"rank {rank}: {text}", no_room=room)
        return [results for results, _, _ in found]

    def note_fault(self, node: int, text: str, *, no_room: bool = False) -> None:
        """Note on rank 0 what was wrong on a node, or that it had too little free memory to be measured."""
        noted = (self.measurements.no_room if no_room else self.measurements.errors).setdefault(node, [])
        if text not in noted:
            noted.append(text)

    def note_others(self, names: Sequence[str], shares: Sequence[float]) -> None:
        """Keep on rank 0 the share of every node's processors that others used while these were measured."""
        for name in names:
            known = self.measurements.others.setdefault(name, {})
            for node, share in enumerate(shares):
                # The quietest of several measurements counts: a node that is slow even then has no excuse.
                known[node] = min(known.get(node, 1.0), round(share, 4))

    def note_part_error(self, node: int, part: str, text: str) -> None:
        """Note on rank 0 what was wrong with a GPU of a node."""
        noted = self.measurements.part_errors.setdefault(node, {}).setdefault(part, [])
        if text not in noted:
            noted.append(text)

    def store_parts(self, name: str, unit: str, rows: Mapping[tuple[int, int, int], Sequence[float]]) -> None:
        """Store rates of parts, on rank 0; for parts measured again, the better measurement.

        rows: (node, number, number of the other part or -1) -> repeats.
        """
        if not rows:
            return
        known = {quantity.name: quantity for quantity in self.measurements.part_quantities}
        repeats = max(map(len, rows.values()))
        table = np.full((len(rows), repeats), np.nan)
        for row, values in enumerate(rows.values()):
            table[row, : len(values)] = values
        if self.again is not None and name in known:
            stored = known[name]
            places = zip(stored.node.tolist(), stored.number.tolist(), stored.peer.tolist())
            row_of = {place: row for row, place in enumerate(places)}
            for place, new in zip(rows, table):
                at = row_of.get(place)
                if at is not None:
                    stored.values[at] = better(stored.values[at], new, True)
            return
        node, number, peer = np.array(list(rows), np.int64).T
        self.measurements.part_quantities.append(PartQuantity(name, unit, True, node, number, peer, table))

    def note_worst(self, quantity: str, parts: Mapping[int, str]) -> None:
        """Keep on rank 0 which part of each node has the figure that counts as the node's."""
        self.measurements.parts.setdefault(quantity, {}).update(parts)

    def note_result(self, result: Result) -> None:
        """Keep a benchmark of the whole system, on rank 0."""
        self.measurements.system.append(result.to_dict())

    def store_by_rank(
        self,
        name: str,
        unit: str,
        higher_is_better: bool,
        found: Sequence[Sequence[float] | None],
        combine: Callable[..., NDArray[np.float64]],
    ) -> None:
        """Store a quantity of every node. found: repeats by rank, or None; combine: over ranks, as np.min, axis=0."""
        if not found:
            return
        repeats = max((len(values) for values in found if values is not None), default=0)
        table = np.full((self.layout.n_nodes, repeats), np.nan)
        for node in range(self.layout.n_nodes):
            rows = [found[rank] for rank in self.layout.ranks_on(node) if found[rank] is not None]
            if rows and repeats:
                table[node] = combine(np.array(rows, np.float64), axis=0)
        known = {quantity.name: quantity for quantity in self.measurements.node_quantities}
        if self.again is not None and name in known:
            for node in self.again:
                known[name].values[node] = better(known[name].values[node], table[node], higher_is_better)
            return
        self.measurements.node_quantities.append(NodeQuantity(name, unit, higher_is_better, table))

    def store_pairs(
        self,
        name: str,
        unit: str,
        higher_is_better: bool,
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        values: NDArray[np.float64],
        rail: NDArray[np.int64] | None = None,
    ) -> None:
        """Store a quantity of pairs of nodes, on rank 0; for pairs measured again, the better measurement.

        The worse one is kept beside it (`Measurements.worse`). rail: of each pair, by default the first of all.
        """
        known = {quantity.name: quantity for quantity in self.measurements.pair_quantities}
        now = PairQuantity(name, unit, higher_is_better, first, second, values)
        if rail is not None:
            now.rail = rail
        if self.again is None or name not in known:
            self.measurements.pair_quantities.append(now)
            return
        stored = known[name]
        worse = np.full_like(stored.values, np.nan)
        ends = (stored.first.tolist(), stored.second.tolist(), stored.rail.tolist())
        row = {pair: n for n, pair in enumerate(zip(*ends))}
        for a, b, of_rail, new in zip(first.tolist(), second.tolist(), now.rail.tolist(), values):
            number = row.get((a, b, of_rail), row.get((b, a, of_rail)))
            if number is not None:
                before = stored.values[number].copy()
                kept = better(before, new, higher_is_better)
                worse[number] = before if kept is new else new
                stored.values[number] = kept
        others = self.measurements.worse.get(name, np.empty((len(worse), 0)))
        self.measurements.worse[name] = np.hstack([others, worse])


def better(
    before: NDArray[np.float64], now: NDArray[np.float64], higher_is_better: bool
) -> NDArray[np.float64]:
    """Return the better of two measurements of one part, float64 [repeats]: a disturbance can only slow it down.

    That is the one with the larger geometric mean of rates, or the smaller one of times. A new one without figures is
    a failure and counts, and one after a failure too.
    """
    if not np.isfinite(now).any() or not np.isfinite(before).any():
        return now
    with np.errstate(divide="ignore"):
        gain = np.nanmean(np.log(now)) - np.nanmean(np.log(before))
    return now if (gain > 0) == higher_is_better else before


def node_rounds(n: int, rounds: int | None, quick: bool, seed: int) -> list[list[tuple[int, int]]]:
    """Return rounds of disjoint pairs of n nodes: all pairs if the nodes are few, otherwise random matchings."""
    from ridgeline.bench.pairs.pairing import tournament

    if n <= _FEW_NODES:
        every = tournament(n) if n > 1 else []
        return every if rounds is None else every[:rounds]
    rng = np.random.default_rng(seed)
    chosen: list[list[tuple[int, int]]] = []
    met: set[tuple[int, int]] = set()
    for _ in range(rounds or (8 if quick else 24)):
        order = rng.permutation(n)
        pairs = [(int(min(a, b)), int(max(a, b))) for a, b in zip(order[0::2], order[1::2])]
        chosen.append([pair for pair in pairs if pair not in met])
        met.update(pairs)
    return chosen


def rounds_of_rail(rounds: list[list[tuple[int, int]]], rail: int, rails: int) -> list[list[tuple[int, int]]]:
    """Return this rail's share of the rounds, so that several interfaces take hardly longer than one.

    Each rail gets at least as many as a node needs to be judged by its links. The shares follow each other, so that
    together they have as many different pairs of nodes as they can.
    """
    share = min(max(-(-len(rounds) // rails), _FEWEST_ROUNDS), len(rounds))
    return [rounds[(rail * share + number) % len(rounds)] for number in range(share)]


def group_rounds(groups: dict[str, list[int]]) -> list[list[tuple[int, int]]]:
    """Return rounds of disjoint pairs in which the nodes of every group meet, all groups at the same time."""
    rounds: list[list[tuple[int, int]]] = []
    for nodes in groups.values():
        for number, pairs in enumerate(node_rounds(len(nodes), None, True, 0)):
            if number == len(rounds):
                rounds.append([])
            rounds[number] += [(nodes[a], nodes[b]) for a, b in pairs]
    return rounds


def pack_rounds(pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return these pairs in rounds of disjoint ones, each in the first round that has both ends free."""
    rounds: list[list[tuple[int, int]]] = []
    busy: list[set[int]] = []
    for a, b in pairs:
        free = (number for number, taken in enumerate(busy) if a not in taken and b not in taken)
        number = next(free, len(busy))
        if number == len(busy):
            rounds.append([])
            busy.append(set())
        rounds[number].append((a, b))
        busy[number] |= {a, b}
    return rounds
