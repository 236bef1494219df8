"""Congestion as GPCNeT measures it: network tests, first alone, then beside background traffic.

Source: GPCNeT 1.3 (github.com/netbench/GPCNET), its network load test; Sec. 3.8.2 and Fig. 5 of the Aurora paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from mpi4py import MPI

from ridgeline.bench.congestion.background import (
    ONE_SIDED,
    PATTERNS,
    SIZE,
    Traffic,
    send_until_over,
)
from ridgeline.bench.congestion.congestion_figures import COLUMNS, NetworkSummary, make_rows, summarise
from ridgeline.bench.congestion.congestion_options import DEFAULT_KINDS, LEAST_NODES, CongestionOptions
from ridgeline.bench.congestion.network_tests import (
    Allreduces,
    NeighbourRing,
    NetworkTest,
    Times,
    chosen_tests,
    run_test,
)
from ridgeline.bench.result import Plot, Result
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier, wait_asleep
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.parallel.payload import Memory
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import ConfigError, VerificationError

LEAST_TESTERS = 2  # nodes, which form a ring
SAMPLES = 2000  # of a test that are kept for a plot


@dataclass
class RankOutcome:
    """What one rank has after all tests: figures and samples if it tested, traffic by test if it sent, an error."""

    figures: dict[tuple[str, str], NetworkSummary] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    traffic: dict[str, Traffic] = field(default_factory=dict)
    problem: VerificationError | None = None


def measure_congestion(
    comm: MPI.Comm, options: CongestionOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Measure latency, bandwidth and allreduce of tester nodes, alone and beside background traffic.

    Messages lie in `memory`, and so do windows if MPI accepts that memory. Collective over comm; all ranks return the
    same. Raises ConfigError if there are too few nodes or an option is out of range, and VerificationError if
    anything arrived that was not sent.
    """
    layout, notes = find_units(comm, options.ranks_per_node)
    roles = assign_roles(layout.node_of_rank, options.fraction, options.seed, options.kinds)
    # Rank 0 may send background traffic or rest. It knows how long the tests take, but not how far they are.
    (progress or silent()).begin(
        f"{2 * len(chosen_tests(options.natural_ring))} tests of up to {options.seconds:g} s each"
    )
    outcome = _take_part(comm, roles, options, memory)
    raise_on_all_ranks(comm, outcome.problem)
    figures, samples = comm.bcast((outcome.figures, outcome.samples), roles.testers[0][0])
    result = _result(layout, roles, options, memory)
    result.rows = make_rows(figures)
    result.extra["traffic"] = _total_traffic(
        roles, comm.allgather(outcome.traffic), chosen_tests(options.natural_ring)
    )
    result.extra["samples"] = samples
    result.notes = notes + _notes(roles, layout, options, memory)
    return result


def _take_part(
    comm: MPI.Comm, roles: CongestionRoles, options: CongestionOptions, memory: Memory
) -> RankOutcome:
    """Test, send background traffic or rest, as the roles say. Collective over comm."""
    number = roles.lane_of(comm.rank)
    tests = number is not None and number < len(roles.testers)
    signals = comm.Dup()
    everyone = comm.Split(0 if tests else MPI.UNDEFINED)
    lane = comm.Split(MPI.UNDEFINED if number is None else number)
    if number is None:
        outcome = RankOutcome()
        for _ in range(1 + 2 * len(chosen_tests(options.natural_ring))):
            sleeping_barrier(signals)
    elif tests:
        tester = Tester(everyone, lane, roles.testers[number], number, options)
        tester.run(signals, memory)
        outcome = RankOutcome(tester.figures, tester.samples, problem=tester.problem)
    else:
        kind, names = roles.background[number - len(roles.testers)]
        outcome = _send_background(signals, lane, kind, names, memory, chosen_tests(options.natural_ring))
    for communicator in (signals, everyone, lane):
        if communicator != MPI.COMM_NULL:
            communicator.Free()
    return outcome


def _send_background(
    signals: MPI.Comm,
    lane: MPI.Comm,
    kind: str,
    names: list[int],
    memory: Memory,
    tests: Sequence[NetworkTest],
) -> RankOutcome:
    """Send one kind of traffic during the second half of the tests. Collective over lane and signals."""
    outcome = RankOutcome()
    pattern = PATTERNS[kind](lane, names, memory)
    sleeping_barrier(signals)
    for test in tests:
        outcome.traffic[test.key] = send_until_over(signals, lane, pattern)
        try:
            pattern.verify()
        except VerificationError as error:
            outcome.problem = outcome.problem or VerificationError(f"{kind} during {test.title}: {error}")
    pattern.free()
    return outcome


class Tester:
    """A rank that takes the tests. `everyone` connects all such ranks, `lane` those of its lane."""

    def __init__(
        self, everyone: MPI.Comm, lane: MPI.Comm, names: list[int], number: int, options: CongestionOptions
    ) -> None:
        self.everyone, self.lane, self.names, self.options = everyone, lane, names, options
        self.seed = (options.seed, number)
        self.tests = chosen_tests(options.natural_ring)
        self.figures: dict[tuple[str, str], NetworkSummary] = {}
        self.samples: dict[str, list[float]] = {}
        self.problem: VerificationError | None = None

    def run(self, signals: MPI.Comm, memory: Memory) -> None:
        """Take all tests twice. `background.send_until_over` explains the signals. Collective over everyone."""
        for test in self.tests:
            self._keep("isolated", test, self._times(test, memory))
        wait_asleep(signals.Ibarrier())
        for test in self.tests:
            # After the first signal the network is loaded; after the second the background traffic may stop.
            wait_asleep(signals.Ibarrier())
            rounds = self._times(test, memory)
            wait_asleep(signals.Ibarrier())
            self._keep("congested", test, rounds)

    def _times(self, test: NetworkTest, memory: Memory) -> list[Times]:
        options = self.options
        pattern = (
            Allreduces(self.lane, self.names, memory)
            if test.key == "allreduce"
            else NeighbourRing(self.lane, self.names, test, self.seed, memory)
        )
        repetitions = test.iterations if options.iterations is None else options.iterations
        warm_up = min(test.warm_up, repetitions)
        rounds, problem = run_test(
            self.everyone, pattern, repetitions, warm_up, options.seconds, options.rings
        )
        self.problem = self.problem or problem
        return rounds

    def _keep(self, block: str, test: NetworkTest, rounds: list[Times]) -> None:
        self.figures[block, test.key] = summarise(self.everyone, test, rounds)
        times = np.concatenate(rounds)
        every = max(1, times.size * self.everyone.size // SAMPLES)
        samples = self.everyone.gather(times[::every].tolist())
        self.samples[f"{test.key}, {block}"] = [value for part in samples or [] for value in part]


@dataclass(frozen=True)
class CongestionRoles:
    """Which nodes and ranks test, send background traffic, or rest.

    A lane is the ranks of equal local number on the nodes of one group. It has its own communicator.

    Attributes
    ----------
    test_nodes
        The numbers of the nodes that take the tests.
    background_nodes
        The nodes of each kind of background traffic.
    testers
        The lanes of ranks that take the tests.
    background
        (kind, lane) of the senders of background traffic.
    resting
        The ranks that have no partner in their lane.
    """

    test_nodes: list[int]
    background_nodes: dict[str, list[int]]
    testers: list[list[int]]
    background: list[tuple[str, list[int]]]
    resting: list[int] = field(default_factory=list)

    def lane_of(self, rank: int) -> int | None:
        """Return the number of a rank's lane, testers before senders of background traffic, or None if it rests."""
        lanes = [*self.testers, *(lane for _, lane in self.background)]
        return next((i for i, lane in enumerate(lanes) if rank in lane), None)


def assign_roles(
    node_of_rank: Sequence[int],
    fraction: float = 0.8,
    seed: int = 0,
    kinds: Sequence[str] = DEFAULT_KINDS,
) -> CongestionRoles:
    """Divide the nodes, shuffled by the seed, into testers and senders of background traffic, evenly over its kinds.

    `fraction` is the share of the nodes that congest, rounded down; at least two nodes test and one congests. A kind
    takes at least two nodes, so with few nodes only the first kinds are used. The ranks of a single node exchange
    with themselves (all-to-all). Raises ConfigError if no such division is possible.
    """
    n_nodes = max(node_of_rank) + 1
    if not 0.0 < fraction < 1.0:
        raise ConfigError(
            f"--fraction {fraction}: the fraction of nodes with background traffic must be between 0 and 1, such as "
            "GPCNeT's 0.8."
        )
    unknown = [kind for kind in kinds if kind not in PATTERNS]
    if unknown or not kinds or len(set(kinds)) < len(kinds):
        raise ConfigError(
            f"--background {' '.join(kinds) or '(empty)'}: give at least one kind, and each at most once. Kinds: "
            f"{', '.join(PATTERNS)}."
        )
    if n_nodes < LEAST_NODES:
        raise ConfigError(
            "congestion requires at least 3 nodes, two that run the tests and one that sends background traffic, "
            f"and there {'is 1' if n_nodes == 1 else f'are {n_nodes}'}. Use more nodes, or count every rank as a "
            "node: -n 3 --ranks-per-node 1."
        )
    n_background = min(max(1, math.floor(fraction * n_nodes + 1e-9)), n_nodes - LEAST_TESTERS)
    if n_background == 1 and kinds[0] != "all-to-all":
        raise ConfigError(
            f"--background {kinds[0]} requires two nodes, but only one of {n_nodes} nodes sends background traffic. "
            "Name all-to-all first, which one node can do with itself, or use more nodes or a larger --fraction."
        )
    shuffled: list[int] = np.random.default_rng(seed).permutation(n_nodes).tolist()
    used = kinds[: max(1, n_background // 2)]
    background_nodes = {kind: sorted(shuffled[:n_background][i :: len(used)]) for i, kind in enumerate(used)}
    test_nodes = sorted(shuffled[n_background:])
    testers, resting = _lanes(node_of_rank, test_nodes, 2)
    background = []
    for kind, nodes in background_nodes.items():
        lanes, alone = _lanes(node_of_rank, nodes, min(2, len(nodes)))
        background += [(kind, lane) for lane in lanes]
        resting += alone
    return CongestionRoles(test_nodes, background_nodes, testers, background, sorted(resting))


def _lanes(node_of_rank: Sequence[int], nodes: list[int], least: int) -> tuple[list[list[int]], list[int]]:
    """Return the lanes of the nodes that have at least `least` ranks, and the ranks that are left over."""
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


def find_units(comm: MPI.Comm, ranks_per_node: int | None) -> tuple[Layout, list[str]]:
    """Return the layout of what counts as nodes, and a note if these do not share memory each. Collective."""
    layout = find_layout(comm, ranks_per_node)
    if ranks_per_node is not None:
        ranks = f"{ranks_per_node} consecutive ranks count" if ranks_per_node > 1 else "Each rank counts"
        return layout, [f"{ranks} as a node."]
    if layout.n_nodes >= LEAST_NODES:
        return layout, []
    if comm.size < LEAST_NODES:
        raise ConfigError(
            "congestion requires at least 3 ranks, two that run the tests and one that sends background traffic, and "
            f"there {'is 1' if comm.size == 1 else f'are {comm.size}'}. Start more, as with -n 4."
        )
    few = f"The job has {layout.n_nodes} node{'s' * (layout.n_nodes != 1)}, and every rank counts as a node."
    return find_layout(comm, 1), [
        f"{few} These share memory and cores, so the factors do not describe a network alone."
    ]


def _result(layout: Layout, roles: CongestionRoles, options: CongestionOptions, memory: Memory) -> Result:
    """Return the result without its figures."""
    return Result(
        benchmark="congestion",
        pattern=(
            f"{len(roles.test_nodes)} of {layout.n_nodes} nodes exchange messages in random rings (RR)"
            f"{', in rings in the order of the ranks (NR)' * options.natural_ring} and do "
            "allreduces, first alone and then while the others congest the network: "
            + ", ".join(f"{kind} on {len(nodes)}" for kind, nodes in roles.background_nodes.items())
        ),
        formula=(
            "lat = t / 2 of 8 B to and from both neighbours; BW = 2 x 8 x 131072 B / t with a barrier in t; "
            "impact factor = congested / isolated, or isolated / congested for bandwidths, of values rounded to 0.1"
        ),
        statistic="mean over rings and ranks; 99 % of all repetitions are not worse than the 99th percentile",
        ranks=len(layout.node_of_rank),
        nodes=layout.n_nodes,
        columns=COLUMNS,
        rows=[],
        left_out=roles.resting,
        settings={
            "fraction": options.fraction,
            "seconds": options.seconds,
            "seed": options.seed,
            "ranks_per_node": layout.ranks_per_node(),
            "kinds": list(roles.background_nodes),
            "rings": options.rings,
            "natural_ring": options.natural_ring,
            "iterations": options.iterations,
            "memory": memory,
            "background_bytes": SIZE,
        },
        extra={
            "test_nodes": [layout.hosts[node] for node in roles.test_nodes],
            "background_nodes": {
                kind: [layout.hosts[node] for node in nodes] for kind, nodes in roles.background_nodes.items()
            },
            "test_ranks": roles.testers,
        },
        plot=Plot(kind="boxes", y_label="us of a repetition", y_scale=1e-6, log_y=True),
    )


def _total_traffic(
    roles: CongestionRoles, loads: list[dict[str, Traffic]], tests: Sequence[NetworkTest]
) -> dict[str, dict[str, float]]:
    """Return the bandwidth of all senders of a kind in B/s, by kind and test."""
    return {
        kind: {
            test.key: sum(
                loads[rank][test.key].bytes / loads[rank][test.key].seconds
                for of, lane in roles.background
                for rank in lane
                if of == kind
            )
            for test in tests
        }
        for kind in roles.background_nodes
    }


def _notes(roles: CongestionRoles, layout: Layout, options: CongestionOptions, memory: Memory) -> list[str]:
    """Return a note for each difference from the rules of GPCNeT."""
    notes, kinds, fraction = [], options.kinds, options.fraction
    n_background = sum(map(len, roles.background_nodes.values()))
    unused = kinds[len(roles.background_nodes) :]
    if unused:
        notes.append(
            f"There are too few nodes for background traffic of the kinds {', '.join(unused)}, because each kind "
            "requires two nodes."
        )
    if n_background < math.floor(fraction * layout.n_nodes + 1e-9):
        notes.append(
            f"The fraction of nodes with background traffic is {n_background / layout.n_nodes:.2f}, not "
            f"{fraction:g}, because two nodes must run the tests."
        )
    if n_background == 1:
        notes.append(
            "Only one node sends background traffic. It exchanges with itself, which loads its memory but not the "
            "network."
        )
    if layout.n_nodes < 10 and kinds == DEFAULT_KINDS:
        notes.append(
            "GPCNeT requires at least 10 nodes: 2 that run the tests, and 2 for each of the 4 kinds of traffic."
        )
    one_sided = [kind for kind in roles.background_nodes if kind in ONE_SIDED]
    if memory == "cuda-staged" and one_sided:
        notes.append(
            f"The windows of {' and '.join(one_sided)} are in host memory. Their owners copy them from or to the GPU "
            "once in each test."
        )
    return notes
