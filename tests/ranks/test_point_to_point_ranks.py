"""Benchmarks of pairs on real ranks: every size verified, damage found on all ranks, odd ranks left out."""

import math
from functools import partial

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure, options_for
from ridgeline.bench.pairs import pair_matrix
from ridgeline.bench.pairs.pair_matrix import PairPlan, measure_all_pairs, measure_pairs
from ridgeline.bench.pairs.pairing import tournament
from ridgeline.limits import messages
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.errors import ConfigError, VerificationError

TIMEOUT = 120
ODD = {"sizes": (0, 20_001), "iterations": 3, "warm_up": 1}
SIZES = [0, *(2**k for k in range(15)), 20_001]
ALL = {
    name: partial(measure, name)
    for name in ("latency", "bandwidth", "bibandwidth", "multi-latency", "multi-bandwidth")
}
ALCF = {name: ALL[name] for name in ("latency", "bandwidth", "multi-bandwidth")}


def test_nodes_of_the_job(comm):
    real = find_layout(comm)
    assert (real.n_nodes, real.node_of_rank) == (1, (0,) * comm.size)  # the tests run on one machine
    assert real.local_rank == tuple(range(comm.size))
    two = find_layout(comm, ranks_per_node=2)
    assert two.node_of_rank == tuple(rank // 2 for rank in range(comm.size))
    assert two.local_rank == tuple(rank % 2 for rank in range(comm.size))
    assert len(set(two.hosts)) == two.n_nodes == (comm.size + 1) // 2
    assert two.ranks_on(0) == list(range(min(comm.size, 2)))
    assert two.ranks_per_node() == {1: "1", 2: "2", 3: "1 to 2", 4: "2"}[comm.size]
    with pytest.raises(ConfigError, match="ranks per node is 0"):
        find_layout(comm, ranks_per_node=0)


def test_nodes_have_the_names_that_slurm_gives_to_each(comm, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", f"node{comm.rank}")
    assert find_layout(comm, ranks_per_node=1).hosts == tuple(f"node{rank}" for rank in range(comm.size))
    if comm.size > 1:  # some launchers give all ranks the variables of the first
        monkeypatch.setenv("SLURMD_NODENAME", "node0")
        assert "node0" not in find_layout(comm, ranks_per_node=1).hosts


def test_one_rank_is_told_to_start_two(comm):
    if comm.size > 1:
        pytest.skip("there are pairs")
    for run in ALL.values():
        with pytest.raises(ConfigError, match="-n 2"):
            run(comm, **ODD)
    with pytest.raises(ConfigError, match="-n 2"):
        ALL["latency"](comm, all_pairs=True)
    figures = measure_pairs(comm, tournament(1), PairPlan())
    assert figures.latency.shape == (0, 5)


@pytest.fixture
def pairs(comm):
    """All ranks, where there are at least two."""
    if comm.size < 2:
        pytest.skip("one rank does not form a pair")
    return comm


def check(result, comm):
    """Every size has figures, the same on all ranks; ranks without a partner are named."""
    assert [row["size"] for row in result.rows] == SIZES
    for row in result.rows:
        if "seconds" in row:
            assert 0 < row["min_seconds"] <= row["seconds"] * (1 + 1e-9)
            assert row["seconds"] <= row["max_seconds"] * (1 + 1e-9)
        else:
            assert row["message_rate"] > 0
            assert math.isclose(row["bandwidth"], row["message_rate"] * row["size"], rel_tol=1e-12)
    assert result.verified
    assert comm.bcast(result.rows) == result.rows
    busy = {rank for pair in result.settings["pairs"] for rank in pair}
    assert sorted(busy | set(result.left_out)) == list(range(comm.size))
    assert not busy & set(result.left_out)


def test_every_benchmark_and_size(pairs):
    comm = pairs
    for name, run in ALL.items():
        result = run(comm, **ODD)
        check(result, comm)
        n_pairs = comm.size // 2 if name.startswith("multi") else 1
        assert len(result.settings["pairs"]) == n_pairs
        assert len(result.left_out) == comm.size - 2 * n_pairs
        assert result.settings["iterations"]["20001"] == 3
    for run in ALCF.values():
        result = run(comm, method="alcf", pairs=[comm.size // 2], **ODD)
        check(result, comm)
        assert result.settings["window"] == 16
        assert "synchronous" in result.pattern


def test_whom_a_rank_talks_to(pairs):
    comm = pairs
    few = {"sizes": (8, 8), "iterations": 1, "warm_up": 0}
    result = ALL["multi-latency"](comm, pairing="neighbours", **few)
    assert result.settings["pairs"] == [(i, i + 1) for i in range(0, comm.size - 1, 2)]
    result = ALL["multi-bandwidth"](comm, pairing="node-halves", ranks_per_node=comm.size - 1, **few)
    assert result.settings["pairs"] == [(0, comm.size - 1)]
    assert result.nodes == 2
    assert result.left_out == list(range(1, comm.size - 1))


def test_numbers_that_make_no_sense(pairs):
    comm = pairs
    latency, bandwidth = ALL["latency"], ALL["bandwidth"]
    for run, options, words in (
        (latency, {"pairs": [comm.size]}, "More pairs require more ranks"),
        (latency, {"window": 4}, "--window requires --method alcf"),
        (bandwidth, {"window": 0}, "window is 0"),
        (bandwidth, {"sizes": (8, 4)}, "sizes from 8 to 4"),
        (bandwidth, {"iterations": 0}, "iterations is 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            run(comm, **options)


def flip(buffer, size):
    if size == 16:
        buffer.host[size - 1] ^= 1


@pytest.mark.parametrize("loop", ["ping_pong", "windowed", "both_ways"])
def test_damage_inside_a_loop_is_found_on_all_ranks(pairs, monkeypatch, loop):
    """One bit that changes in the timed loop, on the last rank of the pair."""
    comm, run = pairs, getattr(messages, loop)

    def damaged(comm_, partner, first, *rest):
        size = rest[2] if loop == "both_ways" else rest[1]
        seconds = run(comm_, partner, first, *rest)
        if not first:
            flip(rest[1] if loop == "both_ways" else rest[0], size)
        return seconds

    def damaged_window(*arguments, **options):
        seconds = run(*arguments, **options)
        if not arguments[2]:
            flip(arguments[3], arguments[4])
        return seconds

    monkeypatch.setattr(messages, loop, damaged_window if loop == "windowed" else damaged)
    name = {"ping_pong": "latency", "windowed": "bandwidth", "both_ways": "bibandwidth"}[loop]
    with pytest.raises(VerificationError, match="1 of them wrong, the first at byte 15"):
        ALL[name](comm, sizes=(1, 64), iterations=2, warm_up=0)


def test_damaged_message_names_sender_and_receiver(pairs, monkeypatch):
    comm, true = pairs, messages.content

    def damaged(n_bytes, source, target, sequence=0):
        data = true(n_bytes, source, target, sequence)
        if source == comm.rank == 0 and n_bytes > 3:
            data[3] ^= 64
        return data

    monkeypatch.setattr(messages, "content", damaged)
    with pytest.raises(VerificationError, match="received 4 B from rank 0, 1 of them wrong"):
        ALL["latency"](comm, sizes=(1, 4), iterations=1, warm_up=0)
    with pytest.raises(VerificationError, match="from rank 0"):
        measure_all_pairs(comm, "latency", options_for("latency", iterations=1, window=1), repeats=1)
    figures = measure_pairs(
        comm, tournament(comm.size), PairPlan(bandwidth_size=9, repeats=1, iterations=2, window=1)
    )
    if comm.rank == 0:
        assert {(source, target) for source, target, _ in figures.errors} == {
            (0, other) for other in range(1, comm.size)
        }


def test_every_pair_is_measured_once(pairs):
    comm = pairs
    for serial in (False, True):
        seen = []
        figures = measure_pairs(
            comm,
            tournament(comm.size),
            PairPlan(bandwidth_size=5_001, repeats=3, iterations=20, window=4),
            serial=serial,
            on_pair=lambda *step, seen=seen: seen.append(step),
        )
        mine = [pair for pair, _ in seen if pair is not None]
        assert len(mine) == len(set(mine)) == comm.size - 1
        assert all(comm.rank in pair for pair in mine)
        n_pairs = comm.size * (comm.size - 1) // 2
        n_rounds = n_pairs if serial else comm.size - 1 + comm.size % 2
        assert seen[-1] == (None, f"round {n_rounds} of {n_rounds}")
        if comm.rank > 0:
            assert figures is None
            continue
        assert {*zip(figures.first.tolist(), figures.second.tolist())} == {
            (a, b) for a in range(comm.size) for b in range(a + 1, comm.size)
        }
        for values in (figures.latency, figures.forward, figures.backward):
            assert values.shape == (n_pairs, 3)
            assert (values > 0).all()
        assert (figures.bandwidth == np.minimum(figures.forward, figures.backward)).all()
        assert figures.errors == []


def test_pairs_end_when_their_time_is_over(pairs, monkeypatch):
    """However many repeats were asked for, a slow pair measures one of single messages and stops."""
    comm, orders = pairs, []
    give = pair_matrix._PairExchange._give
    monkeypatch.setattr(
        pair_matrix._PairExchange,
        "_give",
        lambda self, kind, count: orders.append((kind, count)) or give(self, kind, count),
    )
    figures = measure_pairs(comm, [[(0, 1)]], PairPlan(repeats=100, iterations=1000, seconds=0.0))
    if comm.rank == 0:
        assert len(orders) <= 9
        measured = [count for kind, count in orders if kind in pair_matrix._MEASURED]
        assert measured == [1] * 6
        for values in (figures.latency, figures.forward, figures.backward):
            assert np.isfinite(values).tolist() == [[True] + 99 * [False]]


def test_matrix_of_ranks_and_of_nodes(pairs):
    comm = pairs
    few = {"iterations": 4, "window": 2, "all_pairs": True}
    for quantity, size in (("latency", 8), ("bandwidth", 777)):
        result = measure_all_pairs(comm, quantity, options_for(quantity, size=size, **few), repeats=2)
        if comm.rank > 0:
            continue
        matrix = result.extra["matrix"]
        assert len(matrix) == len(result.extra["names"]) == comm.size
        for i, row in enumerate(matrix):
            assert [value is None for value in row] == [i == j for j in range(comm.size)]
        (row,) = result.rows
        assert (row["size"], row["pairs"]) == (size, comm.size * (comm.size - 1) // 2)
        assert 0 < row["min"] <= row["median"] <= row["max"]
        assert result.notes[0].startswith("Slowest pairs: ")
        assert result.left_out == []
    nodes = {"between": "nodes", "ranks_per_node": comm.size - 1}
    result = measure_all_pairs(comm, "latency", options_for("latency", **nodes, **few), repeats=2)
    if comm.rank == 0:
        assert result.rows[0]["pairs"] == 1
        assert result.left_out == list(range(1, comm.size - 1))
    with pytest.raises(ConfigError, match="--between nodes requires at least 2 nodes"):
        ALL["latency"](comm, all_pairs=True, between="nodes", ranks_per_node=comm.size)


def test_rounds_that_make_no_sense(pairs):
    comm = pairs
    for rounds, words in (
        ([[(0, 1), (1, comm.size - 1)]], "must be disjoint"),
        ([[(0, comm.size)]], f"must contain only the ranks 0 to {comm.size - 1}"),
        ([[(0, 1)], [(1, 0)]], "named more than once"),
    ):
        with pytest.raises(ConfigError, match=words):
            measure_pairs(comm, rounds, PairPlan())
    with pytest.raises(ConfigError, match="repeats is 0"):
        measure_pairs(comm, [[(0, 1)]], PairPlan(repeats=0))


def test_a_sweep_has_every_point_of_the_job(pairs):
    comm = pairs
    few = {"sizes": (0, 64), "iterations": 2, "warm_up": 1, "ranks_per_node": 2, "sweep": True}
    points = {2: [(1, 2, 1)], 3: [(1, 2, 1), (2, 1, 1)], 4: [(1, 2, 1), (2, 1, 1), (2, 2, 2)]}[comm.size]
    for placement in ("packed", "spread"):
        for name, run in ALL.items():
            result = run(comm, placement=placement, **few)
            found = [(row["nodes"], int(row["ranks_per_node"]), row["pairs"]) for row in result.rows]
            assert found == [point for point in points for _ in range(8)], name
            assert comm.bcast(result.rows) == result.rows
            assert result.plot.by == ("nodes", "ranks_per_node", "pairs")
    result = ALL["bandwidth"](comm, pairs=[1], **few)
    assert {row["pairs"] for row in result.rows} == {1}
    if comm.size > 3:
        result = ALL["multi-latency"](comm, pairs=[2, 1], sizes=(8, 8), iterations=1)
        assert [row["pairs"] for row in result.rows] == [1, 2]
    for options, words in (
        ({"nodes": [9]}, "--nodes 9: the job has . nodes? at most"),
        ({"per_node": [3]}, "--per-node 3: the job has 2 ranks at most"),
        ({"nodes": [1], "per_node": [1]}, "--sweep has no point with two ranks"),
        ({"pairs": [7]}, "--pairs 7"),
    ):
        with pytest.raises(ConfigError, match=words):
            ALL["latency"](comm, **few, **options)


def test_single_iterations_are_timed(pairs):
    for name, run in ALL.items():
        result = run(pairs, sizes=(8, 8), iterations=50, warm_up=0, percentiles=True)
        (row,) = result.rows
        assert 0 < row["fastest"] <= row["p50"] <= row["p90"] <= row["p99"] <= row["slowest"], name
        if "seconds" in row:
            assert row["fastest"] <= row["seconds"] <= row["slowest"]
        assert pairs.bcast(result.rows) == result.rows


def test_single_iterations_of_very_many_are_thinned():
    thinned = messages._thinned(np.arange(1000.0)[::-1], 101)
    assert thinned.size == 101
    assert (thinned[0], thinned[50], thinned[-1]) == (0.0, 500.0, 999.0)
    assert messages._thinned(np.arange(5.0), 5).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("datatype", ["contiguous", "vector", "indexed"])
def test_derived_datatypes_and_pages(pairs, datatype):
    multiple = 32 if datatype == "indexed" else 8
    for name, run in ALL.items():
        result = run(
            pairs, sizes=(0, 3 * multiple), iterations=2, warm_up=0, datatype=datatype, pages="small"
        )
        assert [row["size"] for row in result.rows] == [0, multiple, 2 * multiple, 3 * multiple], name
        assert (result.settings["datatype"], result.settings["pages"]) == (datatype, "small")
        assert result.settings["huge_pages"] in (0.0, None)
    with pytest.raises(ConfigError, match=f"must be multiples of {multiple} B"):
        ALL["latency"](pairs, sizes=(1, 64), datatype=datatype)


def test_a_byte_between_two_blocks_of_a_datatype_does_not_arrive(pairs, monkeypatch):
    """What was sent is scattered, and a message that is sent as if it were contiguous is noticed."""
    monkeypatch.setattr(messages.Buffer, "message", lambda self, n, first=0: [self.host, n, MPI.BYTE])
    with pytest.raises(VerificationError):
        ALL["latency"](pairs, sizes=(64, 64), iterations=1, warm_up=0, datatype="vector")
