"""One-sided benchmarks on 1 to 4 ranks: all data verified, wrong data found."""

from functools import partial

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench.exposed_memory import ExposedMemory
from ridgeline.bench.one_sided import irregular_access, pair_access
from ridgeline.bench.one_sided.irregular_access import AccessPlan, Pieces, plan_accesses
from ridgeline.runtime.errors import ConfigError, VerificationError

TIMEOUT = 90
OPERATIONS = ("get", "put", "accumulate")
SYNCS = ("flush", "flush_local", "lock", "fence", "pscw")
FEW = {"iterations": 3, "warm_up": 1}
COMPLETIONS = ("flush", "flush_local", "unlock", "fence")
measure_pair = partial(measure, "one-sided")
measure_irregular = partial(measure, "one-sided", pattern="fmm")


@pytest.fixture(autouse=True)
def enough_ranks(comm, request):
    if comm.size < 2 and "alone" not in request.node.name:
        pytest.skip("one-sided communication requires two ranks")


def test_alone_is_refused_in_one_sentence(comm):
    if comm.size > 1:
        pytest.skip("not alone")
    for pattern in ("pair", "fmm"):
        with pytest.raises(ConfigError, match="-n 2"):
            measure("one-sided", comm, pattern=pattern)


def test_pair_with_every_synchronization(comm):
    for sync in SYNCS:
        pair = (comm.size - 1, 0)
        result = measure_pair(
            comm, operations=OPERATIONS, sync=sync, sizes=(0, 9), window=5, pair=pair, **FEW
        )
        sizes = [0, 1, 2, 4, 8, 9]
        assert [(r["test"], r["operation"], r["size"]) for r in result.rows] == [
            (test, operation, size)
            for test in ("latency", "bandwidth")
            for operation in OPERATIONS
            for size in sizes
        ]
        for row in result.rows:
            assert ("seconds" in row) == (row["test"] == "latency")
            if row["test"] == "bandwidth":
                assert row["window"] == 5
                assert row["rate"] == pytest.approx(row["size"] * row["messages"])
        assert result.left_out == list(range(1, comm.size - 1))
        assert result.verified


def test_both_ranks_access_at_the_same_time(comm):
    for sync in SYNCS:
        result = measure_pair(
            comm,
            operations=OPERATIONS,
            tests=("bibandwidth",),
            sync=sync,
            sizes=(0, 9),
            window=5,
            pair=(comm.size - 1, 0),
            percentiles=True,
            pages="small",
            **FEW,
        )
        assert len(result.rows) == 3 * 6
        for row in result.rows:
            assert row["test"] == "bibandwidth"
            assert row["rate"] == pytest.approx(row["size"] * row["messages"])
            assert 0 < row["fastest"] <= row["slowest"]


@pytest.mark.parametrize("idle_rank", [0, 1])
def test_a_direction_that_is_missing_is_noticed(comm, monkeypatch, idle_rank):
    loops = [pair_access.flush_bandwidth] * 2
    loops[idle_rank] = pair_access.idle
    monkeypatch.setitem(pair_access.LOOPS, ("bibandwidth", "flush"), tuple(loops))
    pair = comm.Split(0 if comm.rank < 2 else MPI.UNDEFINED)
    if pair == MPI.COMM_NULL:
        return
    with pytest.raises(VerificationError):
        measure_pair(pair, operations=("put",), tests=("bibandwidth",), sizes=(8, 8), **FEW)


def test_the_messages_of_all_ranks_can_be_given(comm):
    result = measure_irregular(comm, total_messages=4 * comm.size + 1, repeats=1, pieces=(8, 64))
    assert result.rows[0]["messages"] == result.settings["messages"] == 4 * comm.size + 1
    assert result.settings["messages_per_rank"] == 5
    with pytest.raises(ConfigError, match="--percentiles cannot be used with --pattern fmm"):
        measure_irregular(comm, percentiles=True)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_did_not_happen_is_noticed(comm, monkeypatch, operation):
    monkeypatch.setitem(pair_access.LOOPS, ("latency", "flush"), (pair_access.idle, pair_access.idle))
    pair = comm.Split(0 if comm.rank < 2 else MPI.UNDEFINED)
    if pair == MPI.COMM_NULL:
        return
    with pytest.raises(VerificationError):
        measure_pair(pair, operations=(operation,), tests=("latency",), sizes=(8, 8), **FEW)


def test_irregular_with_every_completion(comm):
    for sync in COMPLETIONS:
        counts = (1, 2) if comm.size > 3 else (1,)
        result = measure_irregular(
            comm,
            operations=OPERATIONS,
            sync=sync,
            every=7,
            communicators=counts,
            messages=31,
            pieces=(8, 256),
            repeats=2,
            seed=3,
        )
        assert [(r["communicators"], r["operation"]) for r in result.rows] == [
            (n, operation) for n in counts for operation in OPERATIONS
        ]
        for row in result.rows:
            assert row["messages"] == 31 * comm.size
            assert row["message_rate"] == pytest.approx(row["messages"] / row["seconds"])
            assert row["rate"] == pytest.approx(row["bytes"] / row["seconds"])
            assert 8 * row["messages"] <= row["bytes"] <= 256 * row["messages"]
            assert row["first_seconds"] <= row["seconds"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_lost_piece_is_noticed_everywhere(comm, monkeypatch, operation):
    access = irregular_access._access

    def lossy(win, operate, epochs, sync):
        access(win, operate, [epochs[0][1:], *epochs[1:]] if comm.rank == 1 else epochs, sync)

    monkeypatch.setattr(irregular_access, "_access", lossy)
    with pytest.raises(VerificationError, match="wrong numbers"):
        measure_irregular(comm, operations=(operation,), messages=20, pieces=(8, 64), repeats=1)


@pytest.mark.parametrize("overlap", [False, True])
def test_plan_is_fair_and_both_sides_know_the_same(comm, overlap):
    plan = plan_accesses(comm, 50, Pieces(8, 128), overlap, seed=5)
    others, counts = np.unique(plan.target, return_counts=True)
    assert others.tolist() == [rank for rank in range(comm.size) if rank != comm.rank]
    assert counts.max() - counts.min() <= 1
    assert sorted(plan.order) == list(range(50))
    assert not np.array_equal(plan.order, np.arange(50))
    np.testing.assert_array_equal(plan.start, np.cumsum(plan.length) - plan.length)
    every = comm.allgather(plan)
    for other in every:
        there, here = other.target == comm.rank, plan.arrival_origin == other.rank
        np.testing.assert_array_equal(other.length[there], plan.arrival_length[here])
        np.testing.assert_array_equal(other.place[there], plan.arrival_place[here])
    touched = np.zeros(plan.window_words, int)
    for place, length in zip(plan.arrival_place, plan.arrival_length):
        touched[place : place + length] += 1
    assert touched.max() > 1 if overlap else touched.max() == 1
    assert touched.sum() == plan.arrival_length.sum()
    check_expected(plan, every)


def check_expected(plan: AccessPlan, every: list[AccessPlan]) -> None:
    """Compare what a plan expects with a loop over pieces."""
    window = np.zeros(plan.window_words, np.uint64)
    for other in every:
        words = other.outgoing()
        for n in np.flatnonzero(other.target == plan.rank):
            at, start, length = other.place[n], other.start[n], other.length[n]
            window[at : at + length] += words[start : start + length]
    np.testing.assert_array_equal(plan.window_left(), window)
    pieces = [every[t].readable()[at : at + n] for t, at, n in zip(plan.target, plan.place, plan.length)]
    np.testing.assert_array_equal(plan.fetched(), np.concatenate(pieces))


def test_fewer_messages_than_ranks(comm):
    assert (
        measure_irregular(comm, operations=OPERATIONS, messages=1, repeats=1).rows[0]["messages"] == comm.size
    )


def test_exposed_memory_holds_what_its_owner_wrote(comm):
    exposed = ExposedMemory(comm, 12)
    exposed.write(np.arange(12, dtype=np.uint8))
    assert exposed.read(5).tolist() == [0, 1, 2, 3, 4]
    exposed.free()


@pytest.mark.parametrize(
    ("run", "options", "words"),
    [
        (measure_pair, {"pair": (0, 9)}, "--pair 0 9: "),
        (measure_pair, {"pair": (1, 1)}, "two different ranks"),
        (measure_pair, {"window": 0}, "window is 0"),
        (measure_pair, {"iterations": 0}, "iterations is 0"),
        (measure_pair, {"sizes": (8, 4)}, "sizes from 8 to 4"),
        (measure_irregular, {"communicators": (9,)}, "at least 18"),
        (measure_irregular, {"every": 0}, "every is 0"),
        (measure_irregular, {"pieces": (12, 64)}, "multiples of 8"),
        (measure_irregular, {"messages": 10**12}, "Use fewer --messages"),
    ],
)
def test_bad_arguments_are_refused_on_all_ranks(comm, run, options, words):
    with pytest.raises(ConfigError, match=words):
        run(comm, **options)


def test_operations_beyond_64_mib_are_cut():
    assert pair_access.operations_in_flight(4 * 2**20, 64) == 16
    assert pair_access.operations_in_flight(0, 64) == 64
    assert pair_access.operations_in_flight(2**30, 64) == 1
