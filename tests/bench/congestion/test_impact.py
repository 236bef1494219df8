"""Formulas of the congestion benchmark against numbers worked out by hand and against the paper's Fig. 5."""

import numpy as np
import pytest

from ridgeline.bench.congestion.congestion_figures import (
    BUCKETS,
    count_buckets,
    impact_factor,
    percentile,
)
from ridgeline.bench.congestion.network_tests import ring_bandwidth, ring_latency

MIB = 2.0**20


def test_ring_formulas():
    # Two neighbours, 8 messages of 131072 B each, in 2 ms: 2 MiB / 2 ms = 1000 MiB/s.
    assert ring_bandwidth(131072, 8, np.array([2e-3]))[0] == pytest.approx(1000 * MIB)
    assert ring_latency(np.array([6e-6]))[0] == pytest.approx(3e-6)


@pytest.mark.parametrize(
    ("isolated", "congested", "unit", "higher_is_better", "printed"),
    [  # Fig. 5, mean and 99 % of the three tests
        (3.1e-6, 7.1e-6, 1e-6, False, "2.3"),
        (5.2e-6, 55.0e-6, 1e-6, False, "10.6"),
        (1009.1 * MIB, 663.2 * MIB, MIB, True, "1.5"),
        (183.1 * MIB, 181.5 * MIB, MIB, True, "1.0"),
        (66.4e-6, 162.1e-6, 1e-6, False, "2.4"),
        (95.0e-6, 312.2e-6, 1e-6, False, "3.3"),
    ],
)
def test_impact_factors_of_the_paper(isolated, congested, unit, higher_is_better, printed):
    assert f"{impact_factor(isolated, congested, unit, higher_is_better):.1f}" == printed


def test_figures_are_rounded_as_printed_before_they_are_divided():
    assert impact_factor(1.04e-6, 1.16e-6, 1e-6, False) == 1.2  # 1.2 / 1.0, not 1.115
    assert impact_factor(0.04e-6, 1e-6, 1e-6, False) is None
    assert impact_factor(5e6, 0.0, MIB, True) is None


def distribution(values):
    low, high = values.min(), values.max()
    return count_buckets(values, low, high), low, high


def test_percentile_counts_from_the_bad_end():
    values = np.arange(1.0, 1001.0)
    width = 999 / (BUCKETS - 1)
    found = percentile(*distribution(values), from_top=False)
    assert found == pytest.approx(990.0, abs=1.01 * width)
    assert found >= 990.0
    found = percentile(*distribution(values), from_top=True)  # 990 values, 11 to 1000, reach it
    assert found == pytest.approx(11.0, abs=1.01 * width)
    assert found <= 11.0


def test_percentile_of_skewed_few_and_equal_values():
    values = np.r_[np.full(98, 2.0), 50.0, 1000.0]
    assert percentile(*distribution(values), from_top=False) == pytest.approx(50.0, abs=0.02)
    assert percentile(*distribution(values), from_top=True) == pytest.approx(2.0)
    for from_top in (False, True):
        assert percentile(*distribution(np.full(7, 3.0)), from_top) == 3.0
        assert percentile(*distribution(np.array([4.0])), from_top) == 4.0


def test_distributions_of_several_ranks_add():
    rng = np.random.default_rng(1)
    values = rng.lognormal(size=4000)
    low, high = values.min(), values.max()
    parts = sum(count_buckets(part, low, high) for part in np.split(values, 4))
    assert np.array_equal(parts, count_buckets(values, low, high))
    assert parts.sum() == 4000
    assert parts[-1] >= 1
    exact = np.sort(values)[int(0.99 * 4000) - 1]
    assert percentile(parts, low, high, from_top=False) == pytest.approx(exact, abs=high / BUCKETS * 1.01)
