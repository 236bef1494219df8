"""Congestion as GPCNeT measures it: network tests alone, then beside background traffic that congests the network.

Source: GPCNeT 1.3 (github.com/netbench/GPCNET), its network load test; Sec. 3.8.2 and Fig. 5 of the Aurora paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mpi4py import MPI

from ridgeline.bench.congestion.background import (
    ONE_SIDED,
    PATTERNS,
    SIZE,
    Traffic,
    send_until_over,
)
from ridgeline.bench.congestion.congestion_options import DEFAULT_KINDS, CongestionOptions
from ridgeline.bench.congestion.figures import COLUMNS, NetworkSummary, make_rows
from ridgeline.bench.congestion.network_tests import TESTS
from ridgeline.bench.congestion.roles import CongestionRoles, assign_roles, find_units
from ridgeline.bench.congestion.tester import Tester
from ridgeline.bench.result import Plot, Result
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.layout import Layout
from ridgeline.parallel.payload import Memory
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import VerificationError


@dataclass
class TakenPart:
    """What one rank has after all tests: figures and samples of a tester, traffic by test of a sender, an error."""

    figures: dict[tuple[str, str], NetworkSummary] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    traffic: dict[str, Traffic] = field(default_factory=dict)
    problem: VerificationError | None = None


def measure_congestion(
    comm: MPI.Comm, options: CongestionOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Return latency, bandwidth and Allreduce of tester nodes, alone and beside background traffic.

    Collective over comm; all ranks return the same. memory: where messages lie, and windows if MPI takes that memory.
    Raises ConfigError if there are too few nodes or an option is out of range, VerificationError if anything arrived
    that was not sent.
    """
    layout, notes = find_units(comm, options.ranks_per_node)
    roles = assign_roles(layout.node_of_rank, options.fraction, options.seed, options.kinds)
    # Rank 0 may send background traffic, or rest: it knows how long all will take, and not how far the testers are.
    (progress or silent()).begin(f"{2 * len(TESTS)} tests of up to {options.seconds:g} s each")
    mine = _take_part(comm, roles, options, memory)
    raise_on_all_ranks(comm, mine.problem)
    figures, samples = comm.bcast((mine.figures, mine.samples), roles.testers[0][0])
    result = _result(layout, roles, options, memory)
    result.rows = make_rows(figures)
    result.extra["traffic"] = _total_traffic(roles, comm.allgather(mine.traffic))
    result.extra["samples"] = samples
    result.notes = notes + _notes(roles, layout, options, memory)
    return result


def _take_part(
    comm: MPI.Comm, roles: CongestionRoles, options: CongestionOptions, memory: Memory
) -> TakenPart:
    """Test, send background traffic or rest, as the roles say. Collective over comm."""
    number = roles.lane_of(comm.rank)
    tests = number is not None and number < len(roles.testers)
    signals = comm.Dup()
    everyone = comm.Split(0 if tests else MPI.UNDEFINED)
    lane = comm.Split(MPI.UNDEFINED if number is None else number)
    if number is None:
        mine = TakenPart()
        for _ in range(1 + 2 * len(TESTS)):
            sleeping_barrier(signals)
    elif tests:
        tester = Tester(everyone, lane, roles.testers[number], number, options)
        tester.run(signals, memory)
        mine = TakenPart(tester.figures, tester.samples, problem=tester.problem)
    else:
        mine = _send_background(signals, lane, *roles.background[number - len(roles.testers)], memory)
    for communicator in (signals, everyone, lane):
        if communicator != MPI.COMM_NULL:
            communicator.Free()
    return mine


def _send_background(
    signals: MPI.Comm, lane: MPI.Comm, kind: str, names: list[int], memory: Memory
) -> TakenPart:
    """Send one kind of traffic during the second half of the tests. Collective over lane and signals."""
    mine = TakenPart()
    pattern = PATTERNS[kind](lane, names, memory)
    sleeping_barrier(signals)
    for test in TESTS:
        mine.traffic[test.key] = send_until_over(signals, lane, pattern)
        try:
            pattern.verify()
        except VerificationError as error:
            mine.problem = mine.problem or VerificationError(f"{kind} during {test.title}: {error}")
    pattern.free()
    return mine


def _result(layout: Layout, roles: CongestionRoles, options: CongestionOptions, memory: Memory) -> Result:
    """Return the result without its figures."""
    return Result(
        benchmark="congestion",
        pattern=(
            f"{len(roles.test_nodes)} of {layout.n_nodes} nodes exchange in random rings (RR) and sum, alone and "
            "while the others congest the network: "
            + ", ".join(f"{kind} on {len(nodes)}" for kind, nodes in roles.background_nodes.items())
        ),
        formula=(
            "lat = t / 2 of 8 B to and from both neighbours; BW = 2 x 8 x 131072 B / t with a barrier in t; "
            "impact factor = congested / isolated, for bandwidths isolated / congested, of figures rounded to 0.1"
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


def _total_traffic(roles: CongestionRoles, loads: list[dict[str, Traffic]]) -> dict[str, dict[str, float]]:
    """Return the bandwidth of all senders of a kind in B/s, by kind and test."""
    return {
        kind: {
            test.key: sum(
                loads[rank][test.key].bytes / loads[rank][test.key].seconds
                for of, lane in roles.background
                for rank in lane
                if of == kind
            )
            for test in TESTS
        }
        for kind in roles.background_nodes
    }


def _notes(roles: CongestionRoles, layout: Layout, options: CongestionOptions, memory: Memory) -> list[str]:
    """Return what differs from GPCNeT's rules."""
    notes, asked, fraction = [], options.kinds, options.fraction
    n_background = sum(map(len, roles.background_nodes.values()))
    left = asked[len(roles.background_nodes) :]
    if left:
        notes.append(
            f"too few nodes for background traffic of kinds {', '.join(left)}: a kind takes two nodes"
        )
    if n_background < math.floor(fraction * layout.n_nodes + 1e-9):
        notes.append(
            f"{n_background / layout.n_nodes:.2f} of the nodes congest, not {fraction:g}: two must test"
        )
    if n_background == 1:
        notes.append("one node congests, which exchanges with itself: it loads its memory, not the network")
    if layout.n_nodes < 10 and asked == DEFAULT_KINDS:
        notes.append("GPCNeT asks for at least 10 nodes: 2 that test, 2 for each of 4 kinds of traffic")
    one_sided = [kind for kind in roles.background_nodes if kind in ONE_SIDED]
    if memory == "cuda-staged" and one_sided:
        notes.append(
            f"the windows of {' and '.join(one_sided)} are host memory, which their owners copy from or to the GPU "
            "once a test"
        )
    return notes
