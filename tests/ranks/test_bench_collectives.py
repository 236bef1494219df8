"""Collective benchmarks over ranks: figures of every size, wrong data found, odd counts, sub-communicators."""

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench import node_memory
from ridgeline.bench.collectives import collective_benchmark as collectives
from ridgeline.bench.collectives.collective_benchmark import measure_collective
from ridgeline.bench.collectives.collective_calls import COLLECTIVES
from ridgeline.bench.collectives.collectives_options import CollectiveOptions
from ridgeline.runtime.errors import ConfigError, VerificationError

WITH_DATA = [name for name in COLLECTIVES if name != "barrier"]
FOR_ROOT = ("reduce", "gather")  # other ranks receive nothing
SIZE = 68  # not a power of two, a multiple of 4
needs_two = pytest.mark.skipif(MPI.COMM_WORLD.size < 2, reason="needs 2 ranks")


def form(name, in_place):
    """The option of an operation in place, which not all have."""
    return {"in_place": in_place} if COLLECTIVES[name].has_in_place else {}


def forms(name):
    return (False, True) if COLLECTIVES[name].has_in_place else (False,)


@needs_two
@pytest.mark.parametrize("name", WITH_DATA)
def test_figures_of_every_size(comm, name):
    for in_place in forms(name):
        result = measure(name, comm, **form(name, in_place), sizes=(4, SIZE), iterations=3, warm_up=1)
        assert [row["size"] for row in result.rows] == [4, 8, 16, 32, 64, SIZE]
        for row in result.rows:
            assert (row["ranks"], row["iterations"]) == (comm.size, 3)
            assert 0 < row["least"] <= row["seconds"] <= row["most"]
            if name == "alltoall":
                messages = comm.size * (comm.size - 1)
                assert row["bandwidth"] == pytest.approx(messages * row["size"] / row["most"])
        assert result.settings["ranks_per_node"] == str(comm.size)
        assert result.verified


@needs_two
@pytest.mark.parametrize("name", WITH_DATA)
def test_wrong_data_is_found_on_all_ranks(comm, name):
    for in_place in forms(name):
        calls = COLLECTIVES[name](comm, SIZE, in_place)
        function, arguments = calls.call(SIZE)
        calls.prepare(SIZE, 5)
        if name in FOR_ROOT and comm.rank != 0:
            function(*arguments)
            calls.verify(SIZE, 6)
            continue
        # Before anything moved every rank lacks something, but the root its own message.
        if name != "bcast" or comm.rank != 0:
            with pytest.raises(VerificationError, match=f"{name} of .* rank {comm.rank} holds"):
                calls.verify(SIZE, 5)
        function(*arguments)
        calls.verify(SIZE, 5)
        with pytest.raises(VerificationError):
            calls.verify(SIZE, 6)  # a message of another call
        every = calls.receive.read(calls.blocks(comm.size)[1] * SIZE)
        for place in (0, every.size // 2, every.size - 1):
            every[place] ^= 1
            with pytest.raises(VerificationError):
                calls.verify(SIZE, 5)
            every[place] ^= 1


@needs_two
@pytest.mark.parametrize("when", [0, 1])
def test_one_corrupt_rank_ends_the_benchmark_on_all(comm, monkeypatch, when):
    kind = COLLECTIVES["allgather"]
    honest = kind.verify

    def verify(self, size, sequence):
        if comm.rank == comm.size - 1 and sequence == when:
            self.receive.host[0] ^= 1
        honest(self, size, sequence)

    monkeypatch.setattr(kind, "verify", verify)
    with pytest.raises(VerificationError, match=f"rank {comm.size - 1} holds 1 wrong bytes"):
        measure("allgather", comm, sizes=(8, 8), iterations=2, warm_up=0)


@needs_two
def test_sweep_of_sub_communicators_on_nodes(comm):
    result = measure(
        "alltoall",
        comm,
        sizes=(8, 16),
        iterations=2,
        warm_up=0,
        sweep=True,
        placement="spread",
        ranks_per_node=2,
    )
    if comm.rank:
        return
    # (nodes, ranks on each): points of one rank are left out, and those that the nodes do not have
    points = {2: [(1, 2)], 3: [(1, 2), (2, 1)], 4: [(1, 2), (2, 1), (2, 2)]}[comm.size]
    found = [(row["nodes"], int(row["ranks_per_node"])) for row in result.rows]
    assert found == [point for point in points for _ in range(2)]
    assert [row["ranks"] for row in result.rows] == [a * b for a, b in found]
    shares = {
        row["nodes"]: row["network_bandwidth"] / row["bandwidth"]
        for row in result.rows
        if "1" in row["ranks_per_node"]
    }
    assert shares == ({2: 1} if comm.size > 2 else {})
    assert result.rows[0]["network_bandwidth"] == 0


@needs_two
def test_ranks_are_chosen_by_their_number_too(comm):
    result = measure(
        "bcast", comm, sizes=(8, 8), iterations=2, warm_up=0, among=[2, comm.size], placement="spread"
    )
    if comm.rank == 0:
        assert [row["ranks"] for row in result.rows] == sorted({2, comm.size})
    with pytest.raises(ConfigError, match="--among cannot be used with --sweep"):
        measure("bcast", comm, sweep=True, among=[2])


@needs_two
@pytest.mark.parametrize("name", list(COLLECTIVES))
def test_non_blocking_operations_hide_a_share(comm, name):
    few = {"iterations": 3, "warm_up": 1, "overlap": True, "percentiles": True}
    result = measure(name, comm, **few, **({} if name == "barrier" else {"sizes": (8, 8)}))
    (row,) = result.rows
    assert 0 <= row["hidden"] <= 1
    assert 0 < row["compute"] <= row["overall"]
    assert 0 < row["fastest"] <= row["p50"] <= row["p90"] <= row["p99"] <= row["slowest"]
    assert (
        row["slowest"] >= row["most"]
    )  # the slowest rank of the slowest iteration, and the mean of the slowest rank
    assert "non-blocking" in result.pattern


@needs_two
@pytest.mark.parametrize("datatype", ["contiguous", "vector", "indexed"])
@pytest.mark.parametrize("name", [n for n in WITH_DATA if n not in ("allreduce", "reduce")])
def test_derived_datatypes_move_the_same_bytes(comm, name, datatype):
    multiple = 32 if datatype == "indexed" else 8
    few = {"iterations": 2, "warm_up": 0, "datatype": datatype}
    for in_place in forms(name):
        result = measure(name, comm, sizes=(multiple, 5 * multiple), **few, **form(name, in_place))
        assert [row["size"] for row in result.rows] == [multiple * n for n in (1, 2, 4, 5)]
        assert result.settings["datatype"] == datatype
    with pytest.raises(ConfigError, match=f"--sizes 4: the sizes must be multiples of {multiple} B"):
        measure(name, comm, sizes=(4, 64), **few)


def test_a_non_blocking_operation_that_was_never_begun_is_noticed(comm, monkeypatch):
    if comm.size < 2:
        return
    kind = COLLECTIVES["allgather"]
    nothing = MPI.REQUEST_NULL
    monkeypatch.setattr(kind, "begin", lambda self, size: ((lambda *arguments: nothing), ()))
    with pytest.raises(VerificationError):
        measure("allgather", comm, sizes=(8, 8), iterations=2, warm_up=0, overlap=True)


@needs_two
def test_barrier_has_times_and_no_data(comm):
    result = measure("barrier", comm, iterations=3, warm_up=1)
    (row,) = result.rows
    assert "size" not in row
    assert 0 < row["least"] <= row["most"]
    assert not result.verified
    with pytest.raises(ConfigError, match="sends no data"):
        measure_collective(comm, CollectiveOptions(operation="barrier", sizes=(1, 2)))


@needs_two
def test_time_of_a_size_can_be_limited(comm, monkeypatch):
    monkeypatch.setattr(collectives, "_once", lambda calls, size, overlap: 0.5 if comm.rank == 1 else 1e-6)
    monkeypatch.setattr(COLLECTIVES["bcast"], "verify", lambda self, size, sequence: None)
    result = measure("bcast", comm, sizes=(4, 4), seconds=2.0)
    assert result.rows[0]["iterations"] == 4  # the slowest rank's half second decides on all


@needs_two
def test_messages_that_do_not_fit_are_left_out(comm, monkeypatch):
    room = 2 * comm.size * 2 * comm.size * 64  # for the buffers of a node's ranks, half of the memory
    monkeypatch.setattr(node_memory, "memory_available", lambda: 2 * room + (comm.rank == 0))
    result = measure("alltoall", comm, sizes=(16, 2**40), iterations=1, warm_up=0)
    if comm.rank == 0:
        assert [row["size"] for row in result.rows] == [16, 32, 64, 128]
        assert "above 128 B" in result.notes[0]
    monkeypatch.setattr(node_memory, "memory_available", lambda: 10)
    with pytest.raises(ConfigError, match="more than half of a node's free memory"):
        measure("alltoall", comm, sizes=(16, 32))


def test_staged_messages_are_copied_around_the_call(comm):
    """The copies to and from a GPU, counted on a buffer that only notes them."""

    class Noted:
        staged = True

        def __init__(self):
            self.copies = []

        def stage_out(self, n):
            self.copies.append(("out", n))

        def stage_in(self, n):
            self.copies.append(("in", n))

    for name, out, back in (
        ("alltoall", comm.size, comm.size),
        ("allgather", 1, comm.size),
        ("allreduce", 1, 1),
        ("gather", 1, comm.size if comm.rank == 0 else 0),
        ("scatter", comm.size if comm.rank == 0 else 0, 1),
    ):
        calls = COLLECTIVES[name](comm, 8)
        calls.prepare(8, 0)
        noted = Noted()
        ours = calls.call(8)
        calls.send = calls.receive = noted
        calls.call = lambda size, ours=ours: ours
        collectives._timed_staged(calls, 8, 2)
        assert noted.copies == [("out", out * 8), ("in", back * 8)] * 2
    calls = COLLECTIVES["bcast"](comm, 8)
    calls.receive = noted = Noted()
    calls.stage_out(8)
    calls.stage_in(8)
    assert noted.copies == [("out" if comm.rank == 0 else "in", 8)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"operation": "bcast", "in_place": True}, "--in-place cannot be used with bcast"),
        ({"operation": "allreduce", "sizes": (2, 8)}, "multiples of 4 B"),
        ({"operation": "alltoall", "sizes": (8, 2)}, "sizes from 8 to 2 B"),
        ({"operation": "alltoall", "among": (1,)}, "--among 1: "),
        ({"operation": "alltoall", "among": (99,)}, "--among 99: "),
    ],
)
def test_refusals(comm, options, words):
    with pytest.raises(ConfigError, match=words if comm.size > 1 else "Start them with -n 2"):
        measure_collective(comm, CollectiveOptions(**options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"iterations": 0}, "iterations is 0"),
        ({"seconds": 0.0}, "seconds is 0.0, but it must be more than 0"),
    ],
)
def test_options_out_of_range_are_refused_before_ranks_are_counted(options, words):
    with pytest.raises(ConfigError, match=words):
        CollectiveOptions(operation="alltoall", **options)


def test_values_of_allreduce_are_exact_for_a_million_ranks():
    kind = COLLECTIVES["allreduce"]
    largest = 10**6 * (kind._PERIOD + kind._TERMS - 1)
    assert largest < 2 ** (np.finfo(np.float32).nmant + 1)
