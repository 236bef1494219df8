"""Messages between simulated GPUs on 1 to 4 ranks, staged in host memory or taken by MPI: benchmarks of messages.

An array of the host stands in for device memory that MPI takes.
"""

from simulator import simulate

simulate()

import pytest

from bench_tools import measure
from congestion_patterns import RECEIVERS, check_pattern, check_rings_and_sums
from ridgeline.bench.collectives.collective_calls import COLLECTIVES
from ridgeline.bench.congestion.background import ONE_SIDED, PATTERNS
from ridgeline.bench.pairs.pair_matrix import PairPlan, measure_pairs
from ridgeline.bench.pairs.pairing import tournament
from ridgeline.parallel.payload import Buffer
from ridgeline.runtime.errors import ConfigError, DeviceError, VerificationError

ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
MEMORIES = ("cuda", "cuda-staged")
SIZE = 68  # not a power of two, a multiple of 4
FEW = {"iterations": 2, "warm_up": 1, "memory": "cuda-staged"}
BRIEF = {"seconds": 0.2, "rings": 2, "iterations": 3}


@pytest.fixture
def pairs(comm):
    """All ranks, where there are at least two."""
    if comm.size < 2:
        pytest.skip("one rank has no partner")
    return comm


def test_pairs(pairs) -> None:
    few = FEW | {"sizes": (0, 100)}
    for name in ("latency", "bandwidth", "bibandwidth", "multi-latency", "multi-bandwidth"):
        assert len(measure(name, pairs, **few).rows) == 9
    assert measure("bandwidth", pairs, method="alcf", window=3, **few).rows
    figures = measure_pairs(pairs, tournament(pairs.size), PairPlan(8, 999, 1, 2, 2), memory="cuda-staged")
    if pairs.rank == 0:
        assert (figures.forward > 0).all()
        assert figures.errors == []


@pytest.mark.parametrize("name", [name for name in COLLECTIVES if name != "barrier"])
def test_collectives(pairs, name) -> None:
    """The result on the device is verified."""
    for form in ({}, {"in_place": True}) if COLLECTIVES[name].has_in_place else ({},):
        assert len(measure(name, pairs, sizes=(4, SIZE), **FEW, **form).rows) == 6


def test_one_sided(pairs) -> None:
    result = measure(
        "one-sided", pairs, operations=("get", "put", "accumulate"), sizes=(8, 16), window=3, **FEW
    )
    assert len(result.rows) == 2 * 3 * 2
    with pytest.raises(ConfigError, match="Use --sync flush"):
        measure("one-sided", pairs, sync="fence", memory="cuda-staged")
    with pytest.raises(DeviceError, match="requires an MPI library that accepts GPU memory"):
        measure("one-sided", pairs, pattern="fmm", memory="cuda-staged")


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", PATTERNS)
def test_background_traffic_verifies_what_it_moves(comm, kind, memory) -> None:
    check_pattern(comm, kind, memory)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", PATTERNS)
def test_what_is_moved_and_verified_lies_on_the_gpu(comm, kind, memory, monkeypatch) -> None:
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
def test_a_copy_that_is_missing_is_noticed(comm, kind, missing, monkeypatch) -> None:
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


def test_rings_and_sums_verify(comm) -> None:
    check_rings_and_sums(comm, "cuda-staged")


def test_congestion(comm) -> None:
    if comm.size == 3:
        staged = measure("congestion", comm, **BRIEF, memory="cuda-staged")
        assert "host memory" not in " ".join(staged.notes)
    elif comm.size == 4:
        for kind in ("incast", "put-incast", "get-incast"):
            options = BRIEF | {"kinds": [kind], "ranks_per_node": 1}
            staged = measure("congestion", comm, memory="cuda-staged", **options)
            assert (f"windows of {kind} are in host memory" in " ".join(staged.notes)) == (kind in ONE_SIDED)
            aware = measure("congestion", comm, memory="cuda", **options)
            assert "host memory" not in " ".join(aware.notes)
            assert aware.settings["memory"] == "cuda"
