"""What the stages of a validation measure: memory, arithmetic, STREAM, messages between pairs, and all nodes at once.

A stage is a function of the session (`validate.measure.session`), collective over its ranks, which stores what it
measured there. `validate.measure.validation_levels` says which stages run, in which order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.runtime.machine import memory_available
from ridgeline.validate.measure import gpu_stages
from ridgeline.validate.measure.cores import cores_of_rank, on_cores
from ridgeline.validate.measure.session import (
    Session,
    group_rounds,
    node_rounds,
    pack_rounds,
    rounds_of_rail,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ridgeline.bench.pairs.pairing import Pair
    from ridgeline.bench.result import Result

    Figures = tuple[NDArray[np.int64], NDArray[np.int64], dict[str, NDArray[np.float64]]]


_MEMORY = (
    32 * 2**20,
    4 * 2**30,
)  # bytes a core, quick and not, at most a quarter of what is free on the node
_MEMORY_SECONDS = (0.5, 20.0)
_MEMORY_PART = (
    6  # of the time of a whole check, where that is limited; all memory that it may take is then used
)
_COMPUTE_SECONDS = (0.15, 1.0)  # of a repeat
_PEAK_SECONDS = (0.05, 0.2)
_STREAM = (48 * 2**20, 768 * 2**20)  # bytes of an array a core
_STREAM_CALLS = 4  # of a repeat


def prepare(session: Session, stages: Collection[str]) -> None:
    """Compile what these stages measure, one rank of each node first. Collective."""
    from ridgeline.parallel.communicator import compile_on_nodes

    compile_on_nodes(session.comm, lambda: _compile(session, stages))


def _compile(session: Session, stages: Collection[str]) -> None:
    if "gpus" in stages:
        gpu_stages.compile_checks(session)
    if "compute" in stages:
        from ridgeline.bench.memory.compute_check import compile_checks

        compile_checks()
    if "memory" in stages:
        from ridgeline.bench.memory.memory_check import check_memory

        check_memory(4096)
    if "peak" in stages:
        from ridgeline.limits.peak import MultiplyAdds

        MultiplyAdds(np.float64, 1)
    if "stream" in stages:
        from ridgeline.limits.stream import compile_stream

        compile_stream()


def memory(session: Session) -> None:
    """Write and read back patterns; words that differ are errors of the node. Collective."""
    from ridgeline.bench.memory.memory_check import check_memory
    from ridgeline.runtime.errors import VerificationError

    plan, cores = session.plan, cores_of_rank(session.node_comm)
    n_bytes, seconds = _MEMORY[not plan.quick], _MEMORY_SECONDS[not plan.quick]

    def setup() -> Callable[[], None]:
        size = max(min(n_bytes, memory_available() // (4 * session.node_comm.size * len(cores))), 4096)
        if plan.within is None:
            return lambda: check(size, seconds)
        # As much of the quarter as one pattern can test in its part of the time, by the speed of a small check.
        begin, part = time.perf_counter(), plan.within / _MEMORY_PART
        check(size, 0.0)
        speed = size / (time.perf_counter() - begin)
        room = memory_available() // (4 * session.node_comm.size * len(cores))
        return lambda: check(max(min(int(speed * part), room), size), 0.0)

    def check(size: int, seconds: float) -> None:
        for core, found in zip(cores, on_cores(cores, lambda: check_memory(size, seconds))):
            if found.n_errors:
                raise VerificationError(
                    f"{found.n_errors} words of memory are wrong, seen by core {core}: {found.detail}"
                )

    session.on_nodes(setup, 1)


def compute(session: Session) -> None:
    """Compute what is known bit for bit: the rate, and the share of its core that each rank got. Collective."""
    from ridgeline.bench.memory.compute_check import check_compute
    from ridgeline.runtime.errors import VerificationError

    cores = cores_of_rank(session.node_comm)

    def once() -> tuple[float, float, float, int]:
        found = on_cores(cores, lambda: check_compute(_COMPUTE_SECONDS[not session.plan.quick]))
        for core, result in zip(cores, found):
            if not result.correct:
                raise VerificationError(f"core {core} computes wrong results: {result.detail}")
        rates = [result.rate for result in found]
        slowest = int(np.argmin(rates))
        share = min(result.cpu_share for result in found)
        return rates[slowest], share, rates[slowest] / float(np.median(rates)), cores[slowest]

    found = session.on_nodes(lambda: once, session.plan.repeats)
    columns = [("compute", "operations/s"), ("cpu_share", "1"), ("slowest core", "1")]
    for column, (name, unit) in enumerate(columns if len(cores) > 1 else columns[:2]):
        values = [None if rows is None else [row[column] for row in rows] for rows in found]
        session.store_by_rank(name, unit, True, values, np.min)
    slowest = {rank: min(rows, key=itemgetter(2))[3] for rank, rows in enumerate(found) if rows}
    firsts = {rank: session.layout.node_of_rank[rank] for rank in session.leaders}
    session.note_worst(
        "slowest core", {firsts[r]: f"core {core}" for r, core in slowest.items() if r in firsts}
    )


def peak(session: Session) -> None:
    """Measure the rate of fused multiply-adds of every rank on all its cores. Collective."""
    from ridgeline.limits.peak import measure_peak_here

    seconds, threads = _PEAK_SECONDS[not session.plan.quick], _threads(session)
    found = session.on_nodes(
        lambda: lambda: measure_peak_here(seconds, n_threads=threads), session.plan.repeats
    )
    session.store_by_rank("peak", "FLOP/s", True, found, np.min)


def _threads(session: Session) -> int:
    """Return the threads of compiled loops that this rank uses: one for each of its cores. Collective over a node."""
    import numba

    return min(len(cores_of_rank(session.node_comm)), int(numba.config.NUMBA_NUM_THREADS))


def stream(session: Session) -> None:
    """Measure STREAM triad of all ranks of a node together. Collective."""
    from ridgeline.limits.stream import StreamArrays

    threads = _threads(session)
    room = memory_available() // (4 * session.node_comm.size)
    n_bytes = min(threads * _STREAM[not session.plan.quick], room)

    def setup() -> Callable[[], float]:
        arrays = StreamArrays(n_bytes, threads)
        arrays.run("triad")

        def triad() -> float:
            start = time.perf_counter()
            for _ in range(_STREAM_CALLS):
                arrays.run("triad")
            return _STREAM_CALLS * arrays.bytes_moved("triad") / (time.perf_counter() - start)

        return triad

    found = session.on_nodes(setup, session.plan.repeats)
    session.store_by_rank("stream", "B/s", True, found, np.sum)


_LATENCY_SIZE = 8  # B
_BANDWIDTH_SIZE = (2**17, 2**20)  # B, quick and not
_WINDOW = (8, 16)  # messages
_ITERATIONS = (50, 200)  # round trips of a repeat
_SECONDS = (1.0, 5.0)  # of a pair, on a link however slow
_REPEATS = 5  # fewer cannot tell a link that stalls now and then from chance
_ALLTOALL_SIZE = (2**16, 2**20)  # B to each rank, at most
_SIZE_SECONDS = (0.2, 2.0)  # of one size
_CONGESTION_SECONDS = (0.3, 10.0)  # of one of six tests
_QUANTITIES = (("latency", "s", False), ("bandwidth", "B/s", True))


def on_node(session: Session) -> None:
    """Measure latency and bandwidth between the first two ranks of every node that has them. Collective."""
    ranks = [session.layout.ranks_on(node)[:2] for node in range(session.layout.n_nodes)]
    pairs = [(r[0], r[1]) for node, r in enumerate(ranks) if len(r) == 2 and session.takes_part(node)]
    figures = _measure(session, [pairs])
    if figures is None:
        return
    for name, unit, higher_is_better in _QUANTITIES:
        rows = _rows_by_rank(session, figures, name)
        session.store_by_rank(f"on-node {name}", unit, higher_is_better, rows, np.nanmean)


def _rows_by_rank(session: Session, figures: Figures, name: str) -> list[list[float] | None]:
    """Return the repeats of a quantity of pairs, at the place of the first rank of each."""
    first, _, values = figures
    rows: list[list[float] | None] = [None] * session.comm.size
    for rank, row in zip(first.tolist(), values[name]):
        rows[rank] = row.tolist()
    return rows


def loopback_pairs(session: Session) -> list[tuple[str, Pair]]:
    """Return the first two ranks on each network interface of the nodes that are measured, with its name."""
    found: list[tuple[str, Pair]] = []
    for node, interfaces in enumerate(session.ranks_on_interfaces):
        for name, ranks in interfaces.items():
            if len(ranks) > 1 and session.takes_part(node):
                found.append((name, (ranks[0], ranks[1])))
    return found


def loopback(session: Session) -> None:
    """Measure messages that leave and enter a node through one interface; the worst of a node counts. Collective."""
    pairs = loopback_pairs(session)
    figures = _measure(session, [[pair for _, pair in pairs]])
    if figures is None:
        return
    for quantity, unit, higher_is_better in _QUANTITIES:
        rows = _rows_by_rank(session, figures, quantity)
        worst = np.min if higher_is_better else np.max
        session.store_by_rank(f"loopback {quantity}", unit, higher_is_better, rows, worst)
        of_node: dict[int, tuple[float, str]] = {}
        for name, (rank, _) in pairs:
            row, node = rows[rank], session.layout.node_of_rank[rank]
            if row is not None:
                cost = -float(np.mean(row)) if higher_is_better else float(np.mean(row))
                of_node[node] = max(of_node.get(node, (-np.inf, "")), (cost, name))
        session.note_worst(f"loopback {quantity}", {node: name for node, (_, name) in of_node.items()})


def switch_pairs(session: Session) -> None:
    """Measure the pairs of nodes of every switch, all switches at the same time. Collective."""
    _node_pairs(session, group_rounds(session.switches), "switch ")


def group_pairs(session: Session) -> None:
    """Measure the pairs of nodes inside every group, all groups at the same time. Collective."""
    _node_pairs(session, group_rounds(session.groups), "group ")


def pairs(session: Session) -> None:
    """Measure pairs of nodes of the whole system. Collective."""
    plan = session.plan
    _node_pairs(session, node_rounds(session.layout.n_nodes, plan.rounds, plan.quick, plan.seed), "")


def _node_pairs(session: Session, rounds: list[list[Pair]], prefix: str) -> None:
    """Measure pairs of nodes over each of their network interfaces, one interface of all nodes after the other."""
    rails = session.rails
    pairs: list[list[Pair]] = []
    rail_of_rank: dict[int, int] = {}
    for number, rank_of in enumerate(rails):
        rail_of_rank |= dict.fromkeys(rank_of.values(), number)
        chosen = rounds
        if len(rails) > 1 and session.plan.rounds is None:
            chosen = rounds_of_rail(rounds, number, len(rails))
        if session.again is not None:
            again = session.again
            chosen = pack_rounds([pair for some in chosen for pair in some if again & set(pair)])
        there = [[(a, b) for a, b in some if a in rank_of and b in rank_of] for some in chosen]
        pairs += [[(rank_of[a], rank_of[b]) for a, b in some] for some in there if some]
    figures = _measure(session, pairs)
    if figures is None:
        return
    node = np.array(session.layout.node_of_rank, np.int64)
    first, second, values = figures
    rail = np.array([rail_of_rank[rank] for rank in first.tolist()], np.int64)
    for name, unit, higher_is_better in _QUANTITIES:
        session.store_pairs(
            prefix + name, unit, higher_is_better, node[first], node[second], values[name], rail
        )


def _measure(session: Session, rounds: list[list[Pair]]) -> Figures | None:
    """Return first and second ranks and values by name on rank 0, None elsewhere. Collective."""
    from ridgeline.bench.pairs.pair_matrix import PairPlan, measure_pairs

    me, watch, slow = session.comm.rank, session.watch, not session.plan.quick

    def on_pair(pair: Pair | None, step: str) -> None:
        watch.note(step, None if pair is None else sum(pair) - me)

    figures = measure_pairs(
        session.comm,
        rounds,
        PairPlan(
            latency_size=_LATENCY_SIZE,
            bandwidth_size=_BANDWIDTH_SIZE[slow],
            repeats=_REPEATS,
            iterations=_ITERATIONS[slow],
            window=_WINDOW[slow],
            seconds=_SECONDS[slow],
        ),
        serial=session.plan.serial,
        on_pair=on_pair,
    )
    if figures is None:
        return None
    for source, target, text in figures.errors:
        for rank in (source, target):  # either of the two, or what is between them
            session.note_fault(session.layout.node_of_rank[rank], text)
    # A repeat for which a pair had no time left counts as if it had taken its whole share of the time.
    share = _SECONDS[slow] / (3 * _REPEATS)
    late = {
        "latency": share / (2 * _ITERATIONS[slow]),
        "bandwidth": _BANDWIDTH_SIZE[slow] * _WINDOW[slow] / share,
    }
    measured = {"latency": figures.latency, "bandwidth": figures.bandwidth}
    values = {name: np.where(np.isnan(found), late[name], found) for name, found in measured.items()}
    return figures.first, figures.second, values


def alltoall(session: Session) -> None:
    """Measure the aggregate bandwidth of all-to-all over sizes. Collective."""
    from ridgeline.bench.collectives.collective_benchmark import measure_collective
    from ridgeline.bench.collectives.collectives_options import CollectiveOptions

    # Every rank holds a message for every other one, twice; a quarter of what is free is the most to take.
    room = memory_available() // (8 * session.node_comm.size * session.comm.size)
    most = min(session.comm.allgather(min(room, _ALLTOALL_SIZE[not session.plan.quick])))
    sizes = (1, 2 ** (max(most, 1).bit_length() - 1))
    seconds = _SIZE_SECONDS[not session.plan.quick]
    options = CollectiveOptions(
        operation="alltoall", sizes=sizes, seconds=seconds, ranks_per_node=session.plan.ranks_per_node
    )
    session.note_result(measure_collective(session.comm, options))


def multi_bandwidth(session: Session) -> None:
    """Measure the bandwidth and the message rate of many pairs across node halves. Collective."""
    from ridgeline.bench.pairs.pairs_options import ManyPairsRateOptions
    from ridgeline.bench.pairs.point_to_point import measure_multi_bandwidth

    options = ManyPairsRateOptions(**_pair_options(session, 2**20))
    _note_pairs(session, measure_multi_bandwidth(session.comm, options))


def multi_latency(session: Session) -> None:
    """Measure the latency of many pairs at the same time. Collective."""
    from ridgeline.bench.pairs.pairs_options import ManyPairsOptions
    from ridgeline.bench.pairs.point_to_point import measure_multi_latency

    options = ManyPairsOptions(**_pair_options(session, 1024))
    _note_pairs(session, measure_multi_latency(session.comm, options))


def _note_pairs(session: Session, result: Result) -> None:
    """Keep a benchmark of many pairs, with the longest seconds of each pair of nodes at the best size."""
    if session.comm.rank == 0 and "pair_seconds" in result.extra:
        node = session.layout.node_of_rank
        best = -1 if result.benchmark == "multi-bandwidth" else 0  # the largest messages, or the smallest
        worst: dict[tuple[int, int], float] = {}
        for (a, b), seconds in zip(result.extra.pop("pair_ranks"), result.extra.pop("pair_seconds")):
            ends = (node[a], node[b])
            worst[ends] = max(worst.get(ends, 0.0), seconds[best])
        result.extra["node_pairs"] = [list(ends) for ends in worst]
        result.extra["node_pair_seconds"] = list(worst.values())
    session.note_result(result)


def allreduce(session: Session) -> None:
    """Measure sums over all ranks of few numbers, whose latency bounds codes with many small sums. Collective."""
    from ridgeline.bench.collectives.collective_benchmark import measure_collective
    from ridgeline.bench.collectives.collectives_options import CollectiveOptions

    options = CollectiveOptions(
        operation="allreduce",
        sizes=(8, 1024),
        seconds=_SIZE_SECONDS[not session.plan.quick],
        ranks_per_node=session.plan.ranks_per_node,
    )
    session.note_result(measure_collective(session.comm, options))


def _pair_options(session: Session, most: int) -> dict[str, Any]:
    pairing = "node-halves" if session.layout.n_nodes > 1 else "halves"
    options = {"pairing": pairing, "sizes": (8, most), "ranks_per_node": session.plan.ranks_per_node}
    return options | {"iterations": 5, "warm_up": 1} if session.plan.quick else options


def congestion(session: Session) -> None:
    """Measure the impact of congestion by GPCNet's method, ranks as nodes if there is one node. Collective."""
    from ridgeline.bench.congestion.congestion_benchmark import measure_congestion
    from ridgeline.bench.congestion.congestion_options import CongestionOptions

    seconds = _CONGESTION_SECONDS[not session.plan.quick]
    ranks_per_node = 1 if session.layout.n_nodes == 1 else session.plan.ranks_per_node
    options = CongestionOptions(seconds=seconds, ranks_per_node=ranks_per_node)
    session.note_result(measure_congestion(session.comm, options))
