"""The exchanges of a substep between simulated GPUs: what arrives is checked, and both ways have their figures."""

from simulator import simulate

simulate()

import pytest

from bench_tools import measure
from ridgeline.bench.transpose import transpose_timing_cuda
from ridgeline.bench.transpose.transpose_options import TransposeOptions
from ridgeline.bench.transpose.transpose_options import scaling_figures as figures_of_study
from ridgeline.bench.transpose.transpose_timing import DeviceFigures, counts_of, fitting_grids, time_exchanges
from ridgeline.bench.transpose.transpose_timing_cuda import DirectionCalls, buffer_bytes, time_on_devices
from ridgeline.parallel.payload import Buffer
from ridgeline.runtime.errors import ConfigError, DecompositionError, DeviceError, VerificationError

RANKS = (1, 2)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}
CASE = {"shape": [12, 10, 16], "batches": [1, 2, 4], "cycles": 2}
STAGED = ("device_to_host", "cpu_mpi", "host_to_device")


@pytest.fixture
def aware(monkeypatch) -> list[bool]:
    """MPI that takes memory of simulated GPUs, which is an array within; the list says what it was given."""
    asked = []
    plain = Buffer.array

    def array(self, on_device):
        asked.append(on_device)
        return plain(self, True)._ary if on_device else plain(self, False)

    monkeypatch.setattr(Buffer, "array", array)
    return asked


def test_staged_figures_of_every_case(comm) -> None:
    result = measure("transpose", comm, memory="cuda-staged", **CASE)
    shown = [f"{d}_{key}_seconds" for d in ("row", "column") for key in (*STAGED, "cpu")]
    keys = [column.key for column in result.columns]
    assert set(shown) < set(keys)
    assert not any("gpu" in key for key in keys), "what was not measured has no column"
    assert any("GPU MPI was not measured" in note for note in result.notes)
    assert any("simulator" in note for note in result.notes)
    assert result.verified
    assert result.settings["memory"] == "cuda-staged"
    assert len(result.rows) == 3 * comm.size
    assert [row["process_grid"] for row in result.rows[::3]] == (
        ["1 x 2", "2 x 1"] if comm.size == 2 else ["1 x 1"]
    )
    for row in result.rows:
        p_r, p_c = map(int, row["process_grid"].split(" x "))
        for direction, ranks in (("row", p_r), ("column", p_c)):
            if ranks == 1:
                assert row[f"{direction}_method"] == "one rank"
                continue
            parts = [row[f"{direction}_{part}_seconds"] for part in STAGED]
            assert min(parts) > 0
            assert row[f"{direction}_cpu_seconds"] == pytest.approx(sum(parts))
            assert row[f"{direction}_seconds"] == row[f"{direction}_cpu_seconds"]
            assert row[f"{direction}_bandwidth"] == row[f"{direction}_cpu_bandwidth"]
            assert row[f"{direction}_gpu_seconds"] is None
    assert len({str(rows) for rows in comm.allgather(result.rows)}) == 1
    assert [one.seconds for one in figures_of_study(result.to_dict())] == [
        row["seconds"] for row in result.rows
    ]


def test_direct_figures_beside_staged_ones(comm, aware) -> None:
    result = measure("transpose", comm, memory="cuda", **CASE)
    assert {True, False} == set(aware)
    keys = [column.key for column in result.columns]
    assert {f"{d}_gpu_{key}" for d in ("row", "column") for key in ("seconds", "bandwidth")} < set(keys)
    assert not any("left out" in note for note in result.notes)
    for row in result.rows:
        for direction in ("row", "column"):
            if row[f"{direction}_method"] != "one rank":
                assert row[f"{direction}_seconds"] == row[f"{direction}_gpu_seconds"] > 0
                assert row[f"{direction}_cpu_bandwidth"] > 0


@pytest.mark.parametrize("lines", ["retained", "full"])
def test_messages_and_bytes_are_those_of_the_hosts(comm, lines: str) -> None:
    options = TransposeOptions((12, 10, 16), lines=lines, method="alltoallv", cycles=1, batches=(1, 3, 4))
    _, found = time_on_devices(comm, options, direct=False)
    expected = time_exchanges(comm, options)
    for mine, host in zip(found, expected, strict=True):
        assert (mine.process_grid, mine.batch) == (host.process_grid, host.batch)
        for one, other in ((mine.row, host.row), (mine.column, host.column)):
            assert isinstance(one, DeviceFigures)
            assert (one.ranks, one.method, one.messages) == (other.ranks, other.method, other.messages)
            assert one.bytes_sent == other.bytes_sent
            assert one.message == pytest.approx(other.message)


@pytest.mark.parametrize("broken", ["stage_out", "stage_in"])
def test_a_copy_that_is_missing_is_found(comm, monkeypatch, broken: str) -> None:
    monkeypatch.setattr(Buffer, broken, lambda self, n_bytes: None)
    with pytest.raises(VerificationError, match="of them wrong"):
        measure("transpose", comm, memory="cuda-staged", **CASE)


def test_a_message_in_the_wrong_place_is_found(comm, aware) -> None:
    options = TransposeOptions((12, 10, 16))
    largest, _ = buffer_bytes(comm, options, [(comm.size, 1)])
    rows, columns, _, _ = counts_of(options, (comm.size, 1), comm.rank)
    buffers = Buffer(largest, "cuda"), Buffer(largest, "cuda")
    calls = DirectionCalls(comm, rows, columns, options.dtype, 5, 4, *buffers)
    for direct in (False, True):
        calls.verify(direct)
    if comm.size == 2:
        call = calls.calls[0]
        for _, received in (call.host, call.device):
            counts = received[1]
            received[2] = [counts[0] - 1, 0]  # the first message begins where it overlaps
        for direct in (False, True):
            with pytest.raises(VerificationError, match="of them wrong"):
                calls.verify(direct)


def test_memory_is_counted_before_it_is_taken(comm, monkeypatch) -> None:
    asked = {}

    def require(comm, device, parts, advice):
        asked.update(parts)
        raise DeviceError("full")

    monkeypatch.setattr(transpose_timing_cuda, "require_device_memory", require)
    monkeypatch.setattr(transpose_timing_cuda, "Buffer", None)
    with pytest.raises(DeviceError, match="full"):
        measure("transpose", comm, memory="cuda", lines="full", **CASE)
    full = 4 * 12 * 10 * 8 // comm.size * 8  # Q variables of complex64 at the points of half of x
    assert min(asked.values()) >= full
    monkeypatch.setattr(transpose_timing_cuda, "require_device_memory", lambda *_: None)
    with pytest.raises((ConfigError, DecompositionError), match=r"more than is free|can address"):
        measure(
            "transpose",
            comm,
            memory="cuda",
            shape=[2**17, 2**17, 16],
            lines="full",
            process_grid=[1, comm.size],
        )


@pytest.mark.parametrize("nx", [8, 10, 12, 14])
@pytest.mark.parametrize("batch", [1, 4])
def test_buffers_are_as_large_as_the_largest_call(comm, nx: int, batch: int) -> None:
    """Also where ranks have unequal numbers of columns, so that a rank has more on one side than on the other."""
    options = TransposeOptions((6, 10, nx), lines="full", batches=(batch,))
    for p_r, p_c in fitting_grids(options, comm.size):
        largest, message = buffer_bytes(comm, options, [(p_r, p_c)])
        r, c = comm.rank % p_r, comm.rank // p_r
        counts = counts_of(options, (p_r, p_c), comm.rank)
        sizes, pieces = [], []
        for group, cut, n in (((c, r), counts[:2], 5), ((r, c), counts[2:], 4)):
            members = comm.Split(*group)
            calls = DirectionCalls(members, *cut, options.dtype, n, batch, Buffer(0), Buffer(0)).calls
            members.Free()
            both = [side for call in calls for side in (call.sent, call.received)]
            sizes += [8 * side.total for side in both]
            pieces += [8 * count for side in both for count in side.counts]
        assert largest == max(sizes)
        assert message == max(pieces)
