"""Congestion as GPCNeT measures it: network tests alone, then beside ranks that congest the network on purpose.

Source: GPCNeT 1.3 (github.com/netbench/GPCNET), its network load test; Sec. 3.8.2 and Fig. 5 of the Aurora paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.congestion.background import DEFAULT_KINDS, PATTERNS, SIZE, Congestor, Traffic, congest
from ridgeline.bench.congestion.impact import count_buckets, impact_factor, percentile
from ridgeline.bench.congestion.network_tests import (
    TESTS,
    Allreduces,
    NetworkTest,
    RandomRing,
    Times,
    run_test,
)
from ridgeline.bench.payload import Memory
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.bench.sleeping_wait import patient_barrier, wait_patiently
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.parallel.reduce import raise_together
from ridgeline.runtime.errors import ConfigError, VerificationError
from ridgeline.runtime.progress import Phases, silent

LEAST_TESTERS = 2  # nodes: a ring
LEAST_NODES = 3
SAMPLES = 2000  # of a test that are kept for a picture

BLOCKS = {
    "isolated": "Isolated network tests",
    "congested": "Network tests with congestion tests",
    "impact": "Congestion impact factor",
}


@dataclass(frozen=True)
class Roles:
    """Who does what. Lanes are ranks of equal local number on the nodes of one group, each with a communicator.

    test_nodes: numbers of the nodes that take the tests; congestor_nodes: kind of traffic -> its nodes; testers:
    lanes of ranks; congestors: (kind, lane); resting: ranks that find no partner in their lane.
    """

    test_nodes: list[int]
    congestor_nodes: dict[str, list[int]]
    testers: list[list[int]]
    congestors: list[tuple[str, list[int]]]
    resting: list[int] = field(default_factory=list)

    def lane_of(self, rank: int) -> int | None:
        """Return the number of a rank's lane, testers before congestors; None if it rests."""
        lanes = [*self.testers, *(lane for _, lane in self.congestors)]
        return next((i for i, lane in enumerate(lanes) if rank in lane), None)


def assign_roles(
    node_of_rank: Sequence[int],
    fraction: float = 0.8,
    seed: int = 0,
    kinds: Sequence[str] = DEFAULT_KINDS,
) -> Roles:
    """Divide nodes, shuffled by seed, into testers and congestors, these evenly over the kinds of traffic.

    fraction: share of the nodes that congest, rounded down, but at least two nodes test and one congests. A kind
    takes at least two nodes: with fewer, the first kinds alone are used; a single node's ranks exchange with
    themselves (all-to-all). Pure; raises ConfigError if that is not possible.
    """
    n_nodes = max(node_of_rank) + 1
    if not 0.0 < fraction < 1.0:
        raise ConfigError(f"fraction {fraction} of congestors: it must lie between 0 and 1, as GPCNeT's 0.8")
    unknown = [kind for kind in kinds if kind not in PATTERNS]
    if unknown or not kinds or len(set(kinds)) < len(kinds):
        raise ConfigError(
            f"congestors {', '.join(kinds) or 'none'}: name each once, of {', '.join(PATTERNS)}"
        )
    if n_nodes < LEAST_NODES:
        raise ConfigError(
            f"congestion on {n_nodes} node{'s' * (n_nodes != 1)}: two take the tests and one congests at least; use "
            "3 or more, or let ranks count as nodes: -n 3 --ranks-per-node 1"
        )
    n_congestors = min(max(1, math.floor(fraction * n_nodes + 1e-9)), n_nodes - LEAST_TESTERS)
    if n_congestors == 1 and kinds[0] != "all-to-all":
        raise ConfigError(
            f"one node of {n_nodes} congests, which has nobody for {kinds[0]}: put all-to-all first, which it does "
            "with itself, or use more nodes or a larger fraction"
        )
    shuffled: list[int] = np.random.default_rng(seed).permutation(n_nodes).tolist()
    used = kinds[: max(1, n_congestors // 2)]
    congestor_nodes = {kind: sorted(shuffled[:n_congestors][i :: len(used)]) for i, kind in enumerate(used)}
    test_nodes = sorted(shuffled[n_congestors:])
    testers, resting = _lanes(node_of_rank, test_nodes, 2)
    congestors = []
    for kind, nodes in congestor_nodes.items():
        lanes, alone = _lanes(node_of_rank, nodes, min(2, len(nodes)))
        congestors += [(kind, lane) for lane in lanes]
        resting += alone
    return Roles(test_nodes, congestor_nodes, testers, congestors, sorted(resting))


def _lanes(node_of_rank: Sequence[int], nodes: list[int], least: int) -> tuple[list[list[int]], list[int]]:
    """Return lanes of at least `least` ranks of equal local number on the nodes, and the ranks left over."""
    ranks_of: dict[int, list[int]] = {node: [] for node in nodes}
    for rank, node in enumerate(node_of_rank):
        if node in ranks_of:
            ranks_of[node].append(rank)
    most = max(len(ranks) for ranks in ranks_of.values())
    lanes = [[ranks[i] for ranks in ranks_of.values() if len(ranks) > i] for i in range(most)]
    return (
        [lane for lane in lanes if len(lane) >= least],
        [rank for lane in lanes if len(lane) < least for rank in lane],
    )


@dataclass(frozen=True)
class Summary:
    """A test's figures over all testers, in SI units. mean: over rings and ranks; percentile: the 99th."""

    mean: float
    percentile: float
    least: float
    largest: float
    samples: int
    rings: int


def summarise(everyone: MPI.Comm, test: NetworkTest, rounds: Sequence[Times]) -> Summary:
    """Return the figures of a test from the times of every ring on every rank. Collective over everyone.

    The mean is over rings and ranks, of a ring's mean time; the percentile over single repetitions.
    """
    rings = [float(test.figures(np.array([times.mean()]))[0]) for times in rounds]
    values = test.figures(np.concatenate(rounds))
    low = everyone.allreduce(float(values.min()), MPI.MIN)
    high = everyone.allreduce(float(values.max()), MPI.MAX)
    counts = count_buckets(values, low, high)
    everyone.Allreduce(MPI.IN_PLACE, counts, MPI.SUM)
    total = everyone.allreduce(sum(rings)) / (everyone.size * len(rings))
    at = percentile(counts, low, high, test.higher_is_better)
    return Summary(total, at, low, high, int(counts.sum()), len(rings))


class _FigureColumn(Column):
    """Figures whose unit depends on the row: that of its test, or a factor."""

    def cell(self, row: dict[str, Any]) -> str:
        """Return the cell of one row as text."""
        value = row.get(self.key)
        if value is None:
            return "-"
        if row["block"] == "impact":
            return f"{value:.1f}X"
        test = next(test for test in TESTS if test.key == row["test"])
        return f"{value / test.unit:.1f}"


class _BlockColumn(Column):
    """What the figures of a block of rows are of, in words beside the first of them."""

    def cell(self, row: dict[str, Any]) -> str:
        """Return the cell of one row as text."""
        return BLOCKS[row[self.key]] if row["test"] == TESTS[0].key else ""


def make_rows(figures: dict[tuple[str, str], Summary]) -> list[dict[str, Any]]:
    """Return the three blocks of Fig. 5 from the summaries by ("isolated" | "congested", test)."""
    rows: list[dict[str, Any]] = []
    for block in ("isolated", "congested"):
        for test in TESTS:
            found = figures[block, test.key]
            row = {"block": block, "test": test.key, "title": test.title, "unit": test.unit_name}
            rows.append(row | asdict(found))
    for test in TESTS:
        before, after = figures["isolated", test.key], figures["congested", test.key]
        factors = {
            key: impact_factor(getattr(before, key), getattr(after, key), test.unit, test.higher_is_better)
            for key in ("mean", "percentile")
        }
        rows.append({"block": "impact", "test": test.key, "title": test.title, "unit": None} | factors)
    return rows


def measure_congestion(
    comm: MPI.Comm,
    fraction: float = 0.8,
    seconds: float = 10.0,
    seed: int = 0,
    ranks_per_node: int | None = None,
    kinds: Sequence[str] | None = None,
    rings: int | None = None,
    iterations: int | None = None,
    memory: Memory = "host",
    progress: Phases | None = None,
) -> Result:
    """Return latency, bandwidth and Allreduce of tester nodes, alone and beside congestors, and how they differ.

    Collective over comm; all ranks return the same.

    Parameters
    ----------
    fraction : share of the nodes that congest (GPCNeT: 0.8)
    seconds : a test ends after about so long (GPCNeT: 10); there are six
    seed : of the shuffled nodes and the random rings
    ranks_per_node : so many ranks count as a node; by default the nodes, or every rank where there are fewer than 3
    kinds : of traffic, of congestors.PATTERNS; by default GPCNeT's four
    rings : at most so many random rings a test; by default as many as the time allows
    iterations : repetitions of a ring (GPCNeT: 200; 8 for bandwidth)
    memory : where messages of the tests lie; congestors use the host's

    Raises ConfigError if there are too few nodes or an option is out of range, VerificationError if anything
    arrived that was not sent.
    """
    _check(seconds, rings, iterations)
    layout, notes = _find_units(comm, ranks_per_node)
    asked = tuple(kinds) if kinds else DEFAULT_KINDS
    roles = assign_roles(layout.node_of_rank, fraction, seed, asked)
    lane_number = roles.lane_of(comm.rank)
    is_tester = lane_number is not None and lane_number < len(roles.testers)
    signals = comm.Dup()
    everyone = comm.Split(0 if is_tester else MPI.UNDEFINED)
    lane = comm.Split(MPI.UNDEFINED if lane_number is None else lane_number)
    # Rank 0 may be a congestor, or rest: it knows how long all will take, and not how far the testers are.
    (progress or silent()).begin(f"{2 * len(TESTS)} tests of up to {seconds:g} s each")
    figures: dict[tuple[str, str], Summary] = {}
    samples: dict[str, list[float]] = {}
    traffic: dict[str, Traffic] = {}
    problem: VerificationError | None = None
    if lane_number is None:
        for _ in range(1 + 2 * len(TESTS)):
            patient_barrier(signals)
    elif is_tester:
        tests = _Tester(everyone, lane, roles.testers[lane_number], lane_number, seed, memory)
        tests.run(signals, seconds, rings, iterations)
        figures, samples, problem = tests.figures, tests.samples, tests.problem
    else:
        kind, names = roles.congestors[lane_number - len(roles.testers)]
        pattern: Congestor = PATTERNS[kind](lane, names)
        patient_barrier(signals)
        for test in TESTS:
            traffic[test.key] = congest(signals, lane, pattern)
            try:
                pattern.verify()
            except VerificationError as error:
                problem = problem or VerificationError(f"{kind} during {test.title}: {error}")
        pattern.free()
    for communicator in (signals, everyone, lane):
        if communicator != MPI.COMM_NULL:
            communicator.Free()
    raise_together(comm, problem)
    figures, samples = comm.bcast((figures, samples), roles.testers[0][0])
    loads = comm.allgather(traffic)
    return Result(
        benchmark="congestion",
        pattern=(
            f"{len(roles.test_nodes)} of {layout.n_nodes} nodes exchange in random rings (RR) and sum, alone and "
            "while the others congest the network: "
            + ", ".join(f"{kind} on {len(nodes)}" for kind, nodes in roles.congestor_nodes.items())
        ),
        formula=(
            "lat = t / 2 of 8 B to and from both neighbours; BW = 2 x 8 x 131072 B / t with a barrier in t; "
            "impact factor = congested / isolated, for bandwidths isolated / congested, of figures rounded to 0.1"
        ),
        statistic="mean over rings and ranks; 99 % of all repetitions are not worse than the 99th percentile",
        ranks=comm.size,
        nodes=layout.n_nodes,
        columns=(
            _BlockColumn("block", "tests"),
            Column("title", "name"),
            _FigureColumn("mean", "avg"),
            _FigureColumn("percentile", "99%"),
            Column("unit", "units"),
        ),
        rows=make_rows(figures),
        left_out=roles.resting,
        settings={
            "fraction": fraction,
            "seconds": seconds,
            "seed": seed,
            "ranks_per_node": layout.ranks_per_node(),
            "kinds": list(roles.congestor_nodes),
            "rings": rings,
            "iterations": iterations,
            "memory": memory,
            "congestor_bytes": SIZE,
        },
        extra={
            "test_nodes": [layout.hosts[node] for node in roles.test_nodes],
            "congestor_nodes": {
                kind: [layout.hosts[node] for node in nodes] for kind, nodes in roles.congestor_nodes.items()
            },
            "test_ranks": roles.testers,
            "traffic": _total_traffic(roles, loads),
            "samples": samples,
        },
        notes=notes + _notes(roles, layout, fraction, asked, memory),
        plot=Plot(kind="boxes", y_label="us of a repetition", y_scale=1e-6, log_y=True),
    )


class _Tester:
    """A rank that takes the tests, as one of `everyone` that does and one of its lane."""

    def __init__(
        self, everyone: MPI.Comm, lane: MPI.Comm, names: list[int], number: int, seed: int, memory: Memory
    ) -> None:
        self.everyone, self.lane, self.names, self.memory = everyone, lane, names, memory
        self.seed = (seed, number)
        self.figures: dict[tuple[str, str], Summary] = {}
        self.samples: dict[str, list[float]] = {}
        self.problem: VerificationError | None = None

    def run(self, signals: MPI.Comm, seconds: float, rings: int | None, iterations: int | None) -> None:
        """Take all tests twice; `congestors.congest` says what signals mean. Collective over everyone."""
        for test in TESTS:
            self._measure("isolated", test, seconds, rings, iterations)
        wait_patiently(signals.Ibarrier())
        for test in TESTS:
            wait_patiently(signals.Ibarrier())  # the network is loaded
            rounds = self._times(test, seconds, rings, iterations)
            wait_patiently(signals.Ibarrier())  # now the congestors may stop
            self._keep("congested", test, rounds)

    def _measure(
        self, block: str, test: NetworkTest, seconds: float, rings: int | None, iterations: int | None
    ) -> None:
        self._keep(block, test, self._times(test, seconds, rings, iterations))

    def _times(
        self, test: NetworkTest, seconds: float, rings: int | None, iterations: int | None
    ) -> list[Times]:
        pattern = (
            Allreduces(self.lane, self.names, self.memory)
            if test.key == "allreduce"
            else RandomRing(self.lane, self.names, test, self.seed, self.memory)
        )
        repetitions = test.iterations if iterations is None else iterations
        warm_up = min(test.warm_up, repetitions)
        rounds, problem = run_test(self.everyone, pattern, repetitions, warm_up, seconds, rings)
        self.problem = self.problem or problem
        return rounds

    def _keep(self, block: str, test: NetworkTest, rounds: list[Times]) -> None:
        self.figures[block, test.key] = summarise(self.everyone, test, rounds)
        mine = np.concatenate(rounds)
        every = max(1, mine.size * self.everyone.size // SAMPLES)
        some = self.everyone.gather(mine[::every].tolist())
        self.samples[f"{test.key}, {block}"] = [value for part in some or [] for value in part]


def _check(seconds: float, rings: int | None, iterations: int | None) -> None:
    """Raise ConfigError if a number is out of range."""
    if not 0.0 < seconds < math.inf:
        raise ConfigError(f"{seconds} seconds of a test: it must be more than 0")
    for name, value in (("rings", rings), ("iterations", iterations)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} = {value}: it must be at least 1")


def _find_units(comm: MPI.Comm, ranks_per_node: int | None) -> tuple[Layout, list[str]]:
    """Return what counts as nodes, and a note if that is not what shares memory. Collective."""
    layout = find_layout(comm, ranks_per_node)
    if ranks_per_node is not None:
        return layout, [f"{ranks_per_node} consecutive ranks count as a node"]
    if layout.n_nodes >= LEAST_NODES:
        return layout, []
    if comm.size < LEAST_NODES:
        raise ConfigError(
            f"congestion with {comm.size} rank{'s' * (comm.size != 1)}: two take the tests and one congests at "
            "least; start 3 or more, as with -n 4"
        )
    few = f"{layout.n_nodes} node{'s' * (layout.n_nodes != 1)}: every rank counts as one, and they share"
    return find_layout(comm, 1), [f"{few} memory and cores, so the factors are not those of a network alone"]


def _total_traffic(roles: Roles, loads: list[dict[str, Traffic]]) -> dict[str, dict[str, float]]:
    """Return the bandwidth of all congestors of a kind in B/s, by kind and test."""
    return {
        kind: {
            test.key: sum(
                loads[rank][test.key].bytes / loads[rank][test.key].seconds
                for of, lane in roles.congestors
                for rank in lane
                if of == kind
            )
            for test in TESTS
        }
        for kind in roles.congestor_nodes
    }


def _notes(roles: Roles, layout: Layout, fraction: float, asked: Sequence[str], memory: Memory) -> list[str]:
    """Return what differs from GPCNeT's rules."""
    notes = []
    n_congestors = sum(map(len, roles.congestor_nodes.values()))
    left = asked[len(roles.congestor_nodes) :]
    if left:
        notes.append(f"too few nodes for congestors of kinds {', '.join(left)}: a kind takes two nodes")
    if n_congestors < math.floor(fraction * layout.n_nodes + 1e-9):
        notes.append(
            f"{n_congestors / layout.n_nodes:.2f} of the nodes congest, not {fraction:g}: two must test"
        )
    if n_congestors == 1:
        notes.append("one node congests, which exchanges with itself: it loads its memory, not the network")
    if layout.n_nodes < 10 and asked == DEFAULT_KINDS:
        notes.append("GPCNeT asks for at least 10 nodes: 2 that test, 2 for each of 4 congestors")
    if memory != "host":
        notes.append("messages of the tests lie on the GPU, those of congestors in host memory")
    return notes
