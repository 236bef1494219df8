"""STREAM: what it counts, what it reports, what it refuses. Speeds themselves are not tested."""

import json
from dataclasses import replace

import numba
import numpy as np
import pytest

from ridgeline.bench.elements.nekbone import NekboneFigures, to_result
from ridgeline.limits import stream
from ridgeline.limits.stream import StreamArrays, StreamLimits, StreamRates, measure_stream
from ridgeline.models.contract import Work
from ridgeline.runtime.errors import ConfigError
from ridgeline.simulation.report import Timing, compute_performance
from ridgeline.simulation.roofline import sum_regions

MiB = 2**20
LIMITS = StreamLimits(
    ordinary=StreamRates(copy=30.0, scale=28.0, add=33.0, triad=32.0),
    streaming=StreamRates(copy=45.0, scale=44.0, add=41.0, triad=40.0),
    read=50.0,
    ranks=4,
    threads=2,
    dtype="float64",
    bytes_per_array=32 * MiB,
    ranks_per_node=2,
    caches_per_node=16 * MiB,
    repeats=7,
)


def test_best_is_the_highest_rate_that_writes():
    assert LIMITS.best == 45.0
    assert LIMITS.best_name == "copy, streaming stores"
    other = replace(LIMITS, ordinary=StreamRates(copy=30.0, scale=28.0, add=46.0, triad=32.0))
    assert (other.best, other.best_name) == (46.0, "add, ordinary stores")


def test_every_share_is_of_the_best_rate():
    assert LIMITS.share(36.0) == 0.8
    work = Work(points=1, flops=1.0, bytes_memory=72.0, bytes_exchanged=0.0, messages=0.0)
    timing = Timing(0.0, 0.0, 1.0, steady=2.0, total=3.0, steps=2, steady_steps=1)
    assert compute_performance(work, timing, LIMITS.to_dict())["fraction_of_stream"] == 0.8
    assert (
        sum_regions({"all": {"seconds": 2.0, "flops": 1.0, "bytes": 72.0}}, LIMITS.best)["fraction_of_stream"]
        == 0.8
    )
    figures = NekboneFigures(8, 1, 1, (1, 1, 1), 1, 1, 1, 2.0, 1.0, 72e9, (1.0, 0.5))
    result = to_result([figures], replace(LIMITS, streaming=StreamRates(45e9, 44e9, 41e9, 90e9)))
    (share,) = (column for column in result.columns if column.key == "fraction_of_stream")
    assert (share.head, share.cell(result.rows[0])) == ("of STREAM", "0.40"), (
        "of the triad, which is faster than the copy"
    )
    assert "STREAM 90.0 GB/s (triad, streaming stores)" in result.notes[0]


def test_size_is_compared_with_the_caches_of_a_node():
    assert LIMITS.times_caches == 4.0


def test_dictionary_is_json_and_holds_what_the_report_needs():
    content = json.loads(json.dumps(LIMITS.to_dict()))
    assert content["best"] == 45.0
    assert content["best_name"] == LIMITS.best_name
    assert content["streaming"]["triad"] == 40.0
    assert content["ordinary"]["copy"] == 30.0
    assert content["ranks"] == 4


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bytes_are_counted_as_stream_counts_them(dtype):
    arrays = StreamArrays(1000 * np.dtype(dtype).itemsize, 1, dtype)
    words = {name: arrays.bytes_moved(name) / 1000 / np.dtype(dtype).itemsize for name in stream.WORDS}
    assert words == {"copy": 2, "scale": 2, "add": 3, "triad": 3, "read": 2}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_measures_every_kernel(dtype, n_threads):
    limits = measure_stream(None, n_threads, dtype, bytes_per_rank=3 * MiB, repeats=2)
    rates = [getattr(kind, name) for kind in (limits.ordinary, limits.streaming) for name in stream.KERNELS]
    assert all(0 < rate < 1e15 for rate in [*rates, limits.read])
    assert (limits.ranks, limits.threads, limits.dtype, limits.repeats) == (1, n_threads, dtype, 2)
    assert limits.bytes_per_array == MiB


def test_rate_is_bytes_over_the_best_time(monkeypatch):
    times = np.arange(1.0, 19.0).reshape(9, 2)  # seconds[case, repeat]; the best are 1, 3, 5, ...
    monkeypatch.setattr(stream, "_time", lambda arrays, comm, repeats: times)
    limits = measure_stream(None, 1, bytes_per_rank=3 * MiB)
    assert limits.ordinary == StreamRates(2 * MiB / 1, 2 * MiB / 3, 3 * MiB / 5, 3 * MiB / 7)
    assert limits.streaming == StreamRates(2 * MiB / 9, 2 * MiB / 11, 3 * MiB / 13, 3 * MiB / 15)
    assert limits.read == 2 * MiB / 17


def test_arrays_exceed_the_caches_unless_memory_is_short(monkeypatch):
    monkeypatch.setattr(stream, "_time", lambda arrays, comm, repeats: np.ones((9, 1)))
    monkeypatch.setattr(stream, "last_level_caches", lambda cpus: {"0-1": 8 * MiB, "2-3": 8 * MiB})
    limits = measure_stream(None, 1)
    assert limits.bytes_per_array == 64 * MiB
    assert limits.times_caches == 4.0
    monkeypatch.setattr(stream, "node_memory_available", lambda: 90 * MiB)
    assert measure_stream(None, 1).bytes_per_array == 10 * MiB
    monkeypatch.setattr(stream, "process_memory_available", lambda: 45 * MiB)  # ulimit -v
    assert measure_stream(None, 1).bytes_per_array == 5 * MiB


def test_caches_are_found_once_each():
    caches = stream.last_level_caches({0})
    assert stream.last_level_caches({0, 10**6}) == caches
    assert all(size > 0 for size in caches.values())
    assert len(caches) <= 1


@pytest.mark.parametrize("kernel", ["copy", "scale", "add", "triad"])
def test_a_wrong_result_is_noticed(kernel):
    arrays = StreamArrays(MiB, 2)
    for name in stream.KERNELS:
        arrays.run(name, streaming=True)
    arrays.check()
    arrays.a[-1] = 0.9
    arrays.b[0] = 0.9
    with pytest.raises(RuntimeError, match=r"STREAM computed a wrong result: \w\[\d+\]"):
        arrays.run(kernel) or arrays.check()


def test_threads_are_set_back():
    before = numba.get_num_threads()
    measure_stream(None, 1, bytes_per_rank=MiB, repeats=1)
    assert numba.get_num_threads() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_threads": 0}, "STREAM on 0 threads"),
        ({"n_threads": 10**6}, "NUMBA_NUM_THREADS"),
        ({"n_threads": 1, "dtype": "int32"}, "int32. Use float64 or float32"),
        ({"n_threads": 1, "bytes_per_rank": 100}, "STREAM cannot run on 100 bytes per rank"),
        ({"n_threads": 1, "repeats": 0}, "repeats of STREAM is 0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        measure_stream(None, **arguments)
