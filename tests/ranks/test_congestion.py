"""Congestion on few ranks: every pattern moves what it says, tests and background traffic begin and end together."""

import os

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench.congestion import network_tests
from ridgeline.bench.congestion.background import (
    ONE_SIDED,
    PATTERNS,
    SIZE,
    GetIncastTraffic,
    PutIncastTraffic,
    send_until_over,
)
from ridgeline.bench.congestion.declaration import DEFAULT_KINDS
from ridgeline.bench.congestion.figures import summarise
from ridgeline.bench.congestion.network_tests import TESTS, Allreduces, RandomRing
from ridgeline.bench.exposed_memory import ExposedMemory
from ridgeline.bench.payload import Buffer
from ridgeline.bench.sleeping_wait import wait_asleep
from ridgeline.runtime.errors import ConfigError, VerificationError

ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
MEMORIES = ("host", "cuda", "cuda-staged")
FEW = {"seconds": 0.2, "rings": 2, "iterations": 3}
RECEIVERS = {  # whether rank r of n gets data
    "all-to-all": lambda r, n: True,
    "incast": lambda r, n: r == 0 and n > 1,
    "put-incast": lambda r, n: r == 0 and n > 1,
    "get-incast": lambda r, n: r > 0,
    "broadcast": lambda r, n: r > 0,
}
BYTES = {  # that rank r of n moves in a step
    "all-to-all": lambda r, n: SIZE * max(1, n - 1),
    "incast": lambda r, n: SIZE * (r > 0),
    "put-incast": lambda r, n: SIZE * (r > 0),
    "get-incast": lambda r, n: SIZE * (r > 0),
    "broadcast": lambda r, n: SIZE * (n - 1) * (r == 0),
}


def arrives_in(pattern) -> Buffer | ExposedMemory:
    """What a pattern verifies on ranks that get data."""
    if isinstance(pattern, PutIncastTraffic):
        return pattern.exposed
    return pattern.local if isinstance(pattern, GetIncastTraffic) else pattern._received


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", PATTERNS)
def test_patterns_verify_what_they_move(comm, kind, memory):
    """Also in memory of simulated GPUs that MPI takes: an array of the host stands in for it."""
    pattern = PATTERNS[kind](comm, [10 + rank for rank in range(comm.size)], memory)
    assert pattern.bytes == BYTES[kind](comm.rank, comm.size)
    pattern.open()
    pattern.close()
    if RECEIVERS[kind](comm.rank, comm.size):  # nothing has arrived
        with pytest.raises(VerificationError, match=f"rank {10 + comm.rank} "):
            pattern.verify()
    else:
        pattern.verify()
    comm.Barrier()
    for _ in range(2):
        pattern.open()
        for _ in range(3):
            pattern.step()
        pattern.close()
        pattern.verify()
        comm.Barrier()
    if RECEIVERS[kind](comm.rank, comm.size):  # one byte of the last block
        arrived = arrives_in(pattern)
        data = arrived.read(arrived.n_bytes).copy()
        data[-1] ^= 1
        arrived.write(data)
        with pytest.raises(VerificationError, match=r"\b1 of them wrong"):
            pattern.verify()
    pattern.free()


@pytest.mark.parametrize("memory", MEMORIES[1:])
@pytest.mark.parametrize("kind", PATTERNS)
def test_what_is_moved_and_verified_lies_on_the_gpu(comm, kind, memory, monkeypatch):
    made = []
    make = Buffer.__init__

    def note(self, *arguments):
        make(self, *arguments)
        made.append(self)

    monkeypatch.setattr(Buffer, "__init__", note)
    pattern = PATTERNS[kind](comm, range(comm.size), memory)
    assert {buffer.memory for buffer in made} == {memory}
    pattern.open()
    window = made[0].host if kind in ONE_SIDED else None
    for buffer in made:
        if kind != "get-incast" or buffer.host is not window:  # staged, others fetch from there
            buffer.host[:] = 5
    comm.Barrier()
    for _ in range(2):
        pattern.step()
    pattern.close()
    for buffer in made:
        buffer.host[:] = 5
    pattern.verify()
    if RECEIVERS[kind](comm.rank, comm.size):
        for buffer in made:
            damaged = buffer.array(on_device=True)
            damaged[-1] ^= 1
        with pytest.raises(VerificationError, match=r"\b1 of them wrong"):
            pattern.verify()
    comm.Barrier()
    pattern.free()


@pytest.mark.parametrize("missing", ["stage_out", "stage_in"])
@pytest.mark.parametrize("kind", PATTERNS)
def test_a_copy_that_is_missing_is_noticed(comm, kind, missing, monkeypatch):
    """Copies of the first block there, as made by `write`, are not what a step should send."""
    pattern = PATTERNS[kind](comm, range(comm.size), "cuda-staged")
    pattern.open()
    sent = [pattern.local] if kind == "put-incast" else [] if kind in ONE_SIDED else [pattern._sent]
    for buffer in sent:
        buffer.host[:] = 5
    monkeypatch.setattr(Buffer, missing, lambda self, n_bytes: None)
    comm.Barrier()
    pattern.step()
    pattern.close()
    if RECEIVERS[kind](comm.rank, comm.size) and (missing, kind) != ("stage_out", "get-incast"):
        with pytest.raises(VerificationError, match="wrong"):
            pattern.verify()
    else:
        pattern.verify()
    comm.Barrier()
    pattern.free()


def test_background_traffic_stops_when_the_tests_end(comm):
    """Rank 0 tests; the others send background traffic, and all of them do as many steps."""
    lane = comm.Split(int(comm.rank > 0))
    if comm.rank == 0:
        for _ in range(2 * len(PATTERNS)):
            wait_asleep(comm.Ibarrier())
    else:
        for kind in PATTERNS:
            pattern = PATTERNS[kind](lane, range(1, comm.size))
            traffic = send_until_over(comm, lane, pattern)
            pattern.verify()
            pattern.free()
            assert traffic.steps >= 1
            assert lane.allreduce(traffic.steps, MPI.MIN) == lane.allreduce(traffic.steps, MPI.MAX)
            assert traffic.bytes == traffic.steps * pattern.bytes
            assert traffic.seconds > 0
    lane.Free()


@pytest.mark.parametrize("memory", ["host", "cuda-staged"])
def test_rings_and_sums_verify(comm, memory):
    names = [20 + rank for rank in range(comm.size)]
    if comm.size > 1:
        for test in TESTS[:2]:
            ring = RandomRing(comm, names, test, (5, 0), memory)
            for number in range(2):
                ring.prepare(number)
                with pytest.raises(VerificationError, match=f"rank {20 + comm.rank} received"):
                    ring.verify()
                comm.Barrier()
                times = np.zeros(2)
                ring.repeat(times)
                assert times.min() > 0
                ring.verify()
            last = ring.received[1][-1]  # one byte in the last of the outstanding messages
            data = last.read(test.size).copy()
            data[-1] ^= 1
            last.write(data)
            with pytest.raises(VerificationError, match="1 of them wrong"):
                ring.verify()
            ring.free()
    sums = Allreduces(comm, names, memory)
    sums.prepare(0)
    with pytest.raises(VerificationError, match="gave 0"):
        sums.verify()
    comm.Barrier()
    sums.repeat(np.zeros(2))
    sums.verify()
    assert sums.expected == sum(range(21, 21 + comm.size))


def test_summary_of_all_ranks(comm):
    test = TESTS[2]
    rounds = [np.array([1.0, 3.0]) + comm.rank, np.array([4.0]) + comm.rank]
    found = summarise(comm, test, rounds)
    assert found.mean == pytest.approx(3.0 + (comm.size - 1) / 2)  # rings of mean 2 and 4
    assert (found.least, found.largest) == (1.0, 3.0 + comm.size)
    assert (found.samples, found.rings) == (3 * comm.size, 2)
    bandwidth = summarise(comm, TESTS[1], [np.array([1.0, 3.0] * 50)])
    assert bandwidth.mean == 2 * 8 * 131072 / 2.0  # of the mean time
    assert bandwidth.percentile == pytest.approx(2 * 8 * 131072 / 3.0)


def test_measurement(comm):
    if comm.size < 3:
        with pytest.raises(ConfigError, match=f"with {comm.size} rank.*start 3 or more"):
            measure("congestion", comm, **FEW)
        return
    result = measure("congestion", comm, **FEW)
    rows = result.rows
    assert [row["block"] for row in rows] == ["isolated"] * 3 + ["congested"] * 3 + ["impact"] * 3
    for row in rows[:6]:
        assert 0 < row["least"] <= row["mean"] <= row["largest"]
        assert row["rings"] in (1, 2)
        assert row["samples"] <= 2 * 3 * 2
    assert all(row["mean"] > 0 for row in rows[6:])
    assert comm.bcast(rows) == rows
    kinds = list(result.extra["background_nodes"])
    assert kinds == ["all-to-all"]
    assert all(rate > 0 for rate in result.extra["traffic"]["all-to-all"].values())
    notes = " ".join(result.notes)
    assert "every rank counts as one" in notes
    assert "too few nodes for background traffic of kinds incast, put-incast, get-incast" in notes
    assert ("exchanges with itself" in notes) == (comm.size == 3)
    if comm.size == 4:
        for kind in (*DEFAULT_KINDS[1:], "broadcast"):
            result = measure("congestion", comm, **FEW, kinds=[kind], seed=3, ranks_per_node=1)
            assert all(rate > 0 for rate in result.extra["traffic"][kind].values())
        for kind in ("incast", "put-incast", "get-incast"):
            staged = measure("congestion", comm, **FEW, kinds=[kind], ranks_per_node=1, memory="cuda-staged")
            assert (f"windows of {kind} are host memory" in " ".join(staged.notes)) == (kind in ONE_SIDED)
            aware = measure("congestion", comm, **FEW, kinds=[kind], ranks_per_node=1, memory="cuda")
            assert "host memory" not in " ".join(aware.notes)
            assert aware.settings["memory"] == "cuda"
    elif comm.size == 3:
        staged = measure("congestion", comm, **FEW, memory="cuda-staged")
        assert "host memory" not in " ".join(staged.notes)


def test_wrong_data_on_one_rank_is_an_error_on_all(comm, monkeypatch):
    if comm.size < 3:
        return

    def check(arrived, source, target, sequence):
        raise VerificationError(f"rank {target} has wrong data")

    # Seed 0: one of the testers alone finds something wrong.
    tester = measure("congestion", comm, **FEW).extra["test_ranks"][0][1]
    if comm.rank == tester:
        monkeypatch.setattr(network_tests, "check", check)
    with pytest.raises(VerificationError, match=f"rank {tester} has wrong data"):
        measure("congestion", comm, **FEW)


@pytest.mark.parametrize("option", [{"seconds": 0.0}, {"rings": 0}, {"iterations": 0}, {"ranks_per_node": 0}])
def test_options_out_of_range(comm, option):
    with pytest.raises(ConfigError):
        measure("congestion", comm, **option)
