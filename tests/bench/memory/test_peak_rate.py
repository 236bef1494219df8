"""The peak rate as a benchmark: its figures, its refusals; and the rows of STREAM."""

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench.memory import limit_tables
from ridgeline.bench.memory.limit_tables import to_result
from ridgeline.limits.stream import StreamLimits, StreamRates
from ridgeline.runtime.errors import ConfigError


def test_best_repeat_and_sum_of_ranks(monkeypatch):
    rates = np.array([[1.0, 4.0, 2.0], [3.0, 2.0, 5.0]])  # [rank, repeat]
    assert limit_tables._figures(rates) == {
        "least": 4.0,
        "mean": 4.5,
        "most": 5.0,
        "total": 7.0,
        "slowest_rank": 0,
    }


def test_both_dtypes_on_one_rank():
    result = measure("peak", MPI.COMM_SELF, seconds=1e-3, repeats=2)
    assert [row["dtype"] for row in result.rows] == ["float64", "float32"]
    for row in result.rows:
        assert 0 < row["least"] == row["mean"] == row["most"] == row["total"]
    assert result.extra["by_rank"]["float64"] == [result.rows[0]["least"]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": 0}, "threads is 0, but it must be 1 or more"),
        ({"threads": 10**6}, "1000000 threads per rank"),
        ({"dtype": "int32"}, "dtype is int32, but it must be both, float64 or float32"),
        ({"seconds": 0.0}, "seconds is 0.0, but it must be more than 0"),
        ({"repeats": 0}, "repeats is 0"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(ConfigError, match=words):
        measure("peak", MPI.COMM_SELF, **options)


def test_rows_of_stream():
    limits = StreamLimits(
        ordinary=StreamRates(1.0, 2.0, 3.0, 4.0),
        streaming=StreamRates(5.0, 6.0, 7.0, 8.0),
        read=9.0,
        ranks=3,
        threads=2,
        dtype="float32",
        bytes_per_array=2**20,
        ranks_per_node=3,
        caches_per_node=2**20,
        repeats=4,
    )
    result = to_result(limits)
    figures = [(row["kernel"], row["stores"], row["words"], row["rate"]) for row in result.rows]
    kernels = (("copy", 2), ("scale", 2), ("add", 3), ("triad", 3))
    ordinary = [(name, "ordinary", words, rate) for rate, (name, words) in enumerate(kernels, 1)]
    streaming = [(name, "streaming", words, rate) for rate, (name, words) in enumerate(kernels, 5)]
    assert figures == [*ordinary, *streaming, ("dot", None, 2, 9.0)]
    assert result.rows[0]["rate_per_thread"] == 1 / 6
    assert "3.0 times the last-level caches" in result.notes[0]
    assert "bandwidth of the caches" in result.notes[1]
