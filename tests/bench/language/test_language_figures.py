"""Formulas of the ping-pong and the ring, and the ring's work, against numbers made by hand or by plain loops."""

import numpy as np
import pytest

from ridgeline.bench.language import bsp, pingpong
from ridgeline.bench.language.loops import RingWork, compute, read_words, write_words


def test_latency_is_half_a_round_trip():
    assert pingpong.one_way(3e-5, 10) == pytest.approx(1.5e-6)


def test_throughput_is_the_harmonic_mean():
    """1000 B in 1 us and in 3 us: 1000 and 1000/3 MB/s, whose harmonic mean is 500, not 667."""
    assert pingpong.harmonic_throughput(1000, np.array([1e-6, 3e-6])) == pytest.approx(500e6)
    assert pingpong.harmonic_throughput(0, np.array([1e-6])) == 0.0


def test_rows_of_the_ping_pong():
    times = np.array([[2e-6] * 8 + [9e-6], [1e-6, 3e-6, 4e-6, 4e-6, 4e-6, 4e-6, 4e-6, 5e-6, 7e-6]])
    c, python = pingpong.make_rows(["C", "mpi4py"], [16], [times])
    assert (c["outliers"], c["seconds"], c["ratio"]) == (1, pytest.approx(2e-6), 1.0)
    assert c["bandwidth"] == pytest.approx(8e6)
    # All but the quartiles' own 4 us lie beyond 1.5 interquartile ranges, which are none.
    assert (python["outliers"], python["median"], python["best"]) == (4, 4e-6, 1e-6)
    assert python["ratio"] == pytest.approx(2.0)
    (alone,) = pingpong.make_rows(["mpi4py"], [16], [times[1:]])
    assert alone["ratio"] is None


def test_rows_of_the_ring():
    c = np.array([[1.0, 2.0, 3.0, 4.0]] * 6 + [[100.0, 0.0, 0.0, 0.0]]) * 1e-6
    python = np.array([[1.0, 2.0, 3.0, 14.0]] * 7) * 1e-6
    first, second = bsp.make_rows(["C", "mpi4py"], 4, 10, np.array([c, python]))
    assert (first["ranks"], first["per_iteration"], first["outliers"]) == (4, 10, 1)
    assert (first["seconds"], second["seconds"]) == (pytest.approx(10e-6), pytest.approx(20e-6))
    assert (first["ratio"], second["ratio"]) == (1.0, pytest.approx(2.0))
    assert (first["communications_ratio"], second["communications_ratio"]) == (1.0, pytest.approx(3.5))
    assert second["communications"] == pytest.approx(14e-6)
    shares = [second[f"{part}_share"] for part in bsp.PARTS]
    assert shares == pytest.approx([0.05, 0.1, 0.15, 0.7])


@pytest.mark.parametrize(
    "work",
    [
        RingWork(0, 0, 0, 0),
        RingWork(5, 3, 7, 1),
        RingWork(8, 8, 2, 1),
        RingWork(29, 21, 9, 1),
        RingWork(3, 30, 500, 1),
    ],
)
def test_expected_sums_and_kernels_against_plain_loops(work):
    n = 8
    words, by_kernel = list(range(n)), bsp.initial_words(n)
    seen, x, kernel_seen, kernel_x = 0, 1.0, 0, 1.0
    for i in range(3):
        seen += sum(words[k % n] for k in range(work.reads))
        kernel_seen += int(read_words(by_kernel, n - 1, work.reads))
        for k in range(work.writes):
            words[k % n] = i + k
        write_words(by_kernel, n - 1, work.writes, np.uint64(i))
        x += 1.0
        for _ in range(work.flops // 2):
            x = x / 2 + 1
        kernel_x = compute(kernel_x + 1.0, work.flops)
        assert by_kernel.tolist() == words
    assert bsp.expected_sums(work, n, 3) == (seen, x)
    assert (kernel_seen, kernel_x) == (seen, x)
