"""The statistics of Graph500 against formulas written out, and the official lines against the reference code's."""

import math
import re
from dataclasses import asdict

import pytest

from ridgeline.bench.graph500.official_output import (
    SearchRecord,
    official_text,
    summarise,
    summarise_kernel,
    summarise_rates,
)

# Names and places as the reference code printed them; the figures follow from SECONDS by hand.
OFFICIAL = """\
SCALE:                          12
edgefactor:                     16
NBFS:                           4
graph_generation:               0.0494803
num_mpi_processes:              2
construction_time:              0.5
bfs  min_time:                  0.25
bfs  firstquartile_time:        0.375
bfs  median_time:               0.75
bfs  thirdquartile_time:        1.5
bfs  max_time:                  2
bfs  mean_time:                 0.9375
bfs  stddev_time:               0.773924
min_nedge:                      65327
firstquartile_nedge:            65327
median_nedge:                   65327
thirdquartile_nedge:            65327
max_nedge:                      65327
mean_nedge:                     65327
stddev_nedge:                   0
bfs  min_TEPS:                  32663.5
bfs  firstquartile_TEPS:        43551.3
bfs  median_TEPS:               87102.7
bfs  thirdquartile_TEPS:        174205
bfs  max_TEPS:                  261308
bfs  harmonic_mean_TEPS:     !  69682.1
bfs  harmonic_stddev_TEPS:      33211.5
bfs  min_validate:              3
bfs  firstquartile_validate:    3
bfs  median_validate:           3
bfs  thirdquartile_validate:    3
bfs  max_validate:              3
bfs  mean_validate:             3
bfs  stddev_validate:           0
"""
SECONDS = (0.5, 1.0, 0.25, 2.0)
FACTS = {
    "SCALE": 12,
    "edgefactor": 16,
    "NBFS": 4,
    "graph_generation": 0.0494803,
    "num_mpi_processes": 2,
    "construction_time": 0.5,
}


def searches(kernel):
    return [SearchRecord(kernel, i, seconds, 65327, 3.0) for i, seconds in enumerate(SECONDS)]


def test_lines_are_the_official_ones():
    assert official_text(FACTS, {"bfs": summarise_kernel(searches("bfs"))}) == OFFICIAL


def test_both_kernels_have_their_lines_in_the_official_order():
    summaries = {kernel: summarise_kernel(searches(kernel)) for kernel in ("bfs", "sssp")}
    lines = official_text(FACTS, summaries).splitlines()
    names = [re.match(r"(\w+ +)?\w+:", line).group() for line in lines]
    assert len(set(names)) == len(lines) == len(OFFICIAL.splitlines()) + 7 + 7 + 7
    blocks = [name.split("_")[-1] for name in names[6:]]
    order = ["time:"] * 14 + ["nedge:"] * 7 + ["TEPS:"] * 14 + ["validate:"] * 14
    assert blocks == order
    assert [name[:4] for name in names[6:20]] == ["bfs "] * 7 + ["sssp"] * 7


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64])
def test_quartiles_are_means_of_two_in_order(n):
    values = [float((7 * i) % n) for i in range(n)] if n % 7 else list(map(float, range(n)))
    found = summarise(values)
    x = sorted(values)
    assert found.firstquartile == (x[(n - 1) // 4] + x[n // 4]) / 2
    assert found.thirdquartile == (x[n - 1 - (n - 1) // 4] + x[n - 1 - n // 4]) / 2
    assert (found.min, found.max) == (x[0], x[-1])


def test_the_harmonic_mean_has_the_deviation_of_norris():
    edges, seconds = [10.0, 20.0, 40.0], [1.0, 1.0, 1.0]
    inverse = [t / m for t, m in zip(seconds, edges)]
    mean = sum(inverse) / 3
    s = math.sqrt(sum((one - mean) ** 2 for one in inverse) / 2)
    found = summarise_rates(edges, seconds)
    assert found.harmonic_mean == pytest.approx(1 / mean)
    assert found.harmonic_stddev == pytest.approx(s / (mean**2 * math.sqrt(2)))
    assert (found.min, found.max) == pytest.approx((10, 40))


def test_one_search_deviates_by_nothing():
    assert summarise_rates([5.0], [2.0]).harmonic_stddev == 0
    assert set(asdict(summarise([3.0])).values()) == {3.0, 0.0}
