"""Messages of several threads of a rank, with MPI_THREAD_MULTIPLE: every row, damage found, refusals."""

import ctypes
from dataclasses import replace

import pytest

from bench_tools import measure
from ridgeline.bench.pairs import thread_messages
from ridgeline.runtime.errors import ConfigError, VerificationError

ENVIRONMENT = {"MPI4PY_RC_THREAD_LEVEL": "multiple"}
TIMEOUT = 120
FEW = {"iterations": 3, "warm_up": 1}


def test_every_number_of_threads_and_size(comm):
    if comm.size < 2:
        with pytest.raises(ConfigError, match="-n 2"):
            measure("multi-thread", comm)
        return
    result = measure("multi-thread", comm, threads=3, sizes=(0, 5000), window=4, **FEW)
    sizes = [0, *(2**k for k in range(13)), 5000]
    assert [(r["test"], r["threads"], r["size"]) for r in result.rows] == [
        (test, count, size) for test in ("latency", "rate") for count in (1, 2, 3) for size in sizes
    ]
    for row in result.rows:
        assert row["message_rate"] > 0
        assert row["threads"] > 1 or row["speed_up"] == 1
        if row["test"] == "latency":
            assert 0 < row["min_seconds"] <= row["seconds"] * (1 + 1e-9)
        else:
            assert row["bandwidth"] == pytest.approx(row["size"] * row["message_rate"])
    assert comm.bcast(result.rows) == result.rows
    assert len(result.left_out) == comm.size - 2


@pytest.mark.parametrize("test", ["latency", "rate"])
def test_a_damaged_message_of_one_thread_is_found_on_all_ranks(comm, monkeypatch, test):
    if comm.size < 2:
        return
    load = thread_messages.load_c

    def damaging(*arguments):
        library, how = load(*arguments)
        honest = library["message_threads"]

        def run(handle, partner, first, threads, buffers, stride, size, *rest):
            error = honest(handle, partner, first, threads, buffers, stride, size, *rest)
            if not first and threads == 2 and size == 16:
                (ctypes.c_ubyte * size).from_address(buffers + stride)[3] ^= 1
            return error

        return replace(library, functions={"message_threads": run}), how

    monkeypatch.setattr(thread_messages, "load_c", damaging)
    with pytest.raises(
        VerificationError, match="received 16 B from rank 0, 1 of them wrong, the first at byte 3"
    ):
        measure("multi-thread", comm, threads=2, tests=[test], sizes=(8, 16), **FEW)


def test_what_cannot_be_measured_is_refused(comm, monkeypatch):
    if comm.size < 2:
        return
    with pytest.raises(ConfigError, match="--window 2000: a thread can keep 1 to 1024"):
        measure("multi-thread", comm, window=2000)
    monkeypatch.setattr(thread_messages, "load_c", lambda *arguments: (None, "no C compiler: there is none"))
    with pytest.raises(ConfigError, match="cannot be compiled here: no C compiler"):
        measure("multi-thread", comm)
    monkeypatch.setattr(thread_messages, "thread_level", lambda: "serialized")
    with pytest.raises(ConfigError, match=r"requires MPI_THREAD_MULTIPLE, but .* MPI_THREAD_SERIALIZED"):
        measure("multi-thread", comm)
