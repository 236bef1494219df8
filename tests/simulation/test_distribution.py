"""The distribution of step times: percentiles to the stated accuracy, the worst step, bounded memory."""

import json
import math

import numpy as np
import pytest

from ridgeline.simulation.distribution import (
    LEAST,
    MOST,
    N_BINS,
    PERCENTILES,
    RATIO,
    StepDistribution,
    bins_of,
    lower_edges,
)

ACCURACY = math.sqrt(RATIO) - 1.0  # half a bin


def filled(calls, names=("total",)) -> StepDistribution:
    """Return the distribution of calls (steps, seconds by name ...), one after the other from step 0."""
    distribution, step = StepDistribution(names), 0
    for steps, *seconds in calls:
        step += steps
        distribution.add(step, steps, seconds)
    return distribution


SAMPLES = {
    "one": np.array([3.0]),
    "two": np.array([1.0, 2.0]),
    "equal": np.full(50, 0.125),
    "lognormal": np.exp(np.random.default_rng(1).normal(-7.0, 0.3, 5000)),
    "noisy network": np.random.default_rng(2).choice([0.030, 0.0306, 0.3], 3000, p=[0.7, 0.299, 0.001]),
    "spread over decades": 10.0 ** np.random.default_rng(3).uniform(-8.0, 4.0, 2500),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_percentiles_are_those_of_numpy_within_half_a_bin(name):
    values = SAMPLES[name]
    found = filled((1, value) for value in values)
    for percent in (0, 1, *PERCENTILES, 99.9, 100):
        expected = np.quantile(values, percent / 100, method="inverted_cdf")
        assert found.percentile("total", percent) == pytest.approx(expected, rel=1.001 * ACCURACY)
    row = found.to_dict()["total"]
    assert (row["count"], row["min"], row["max"]) == (len(values), values.min(), values.max())
    assert row["percentiles"] == {str(p): found.percentile("total", p) for p in PERCENTILES}
    assert sum(row["bins"]["counts"]) == len(values)
    assert row["bins"]["lower"][0] <= values.min() * (1 + 1e-5)
    assert row["bins"]["lower"][-1] * row["bins"]["ratio"] * (1 + 1e-5) >= values.max()


def test_a_call_counts_as_many_times_as_it_did_steps():
    calls = [(1, 1.0), (4, 8.0), (2, 6.0), (1, 1.0)]
    found = filled(calls)
    expected = np.repeat([s / n for n, s in calls], [n for n, _ in calls])
    for percent in PERCENTILES:
        exact = np.quantile(expected, percent / 100, method="inverted_cdf")
        assert found.percentile("total", percent) == pytest.approx(exact, rel=ACCURACY)
    assert found.to_dict()["total"]["count"] == 8
    assert found.seconds.tolist() == [16.0]


@pytest.mark.parametrize("n", [1, 3, 1023, 1024, 1025, 3000])
def test_the_worst_step_is_named_whatever_waits_to_be_sorted(n):
    """Two names, whose worst steps are others; of equal ones the first counts."""
    rng = np.random.default_rng(n)
    compute, exchange = rng.uniform(1.0, 2.0, n), rng.uniform(1.0, 2.0, n)
    compute[n // 2] = compute[n - 1] = 5.0
    exchange[n // 3] = 7.0
    found = filled(((2, 2 * a, 2 * b) for a, b in zip(compute, exchange)), ("compute", "exchange"))
    worst = found.worst("compute")
    assert (worst.seconds, worst.step, worst.steps, worst.rank) == (5.0, 2 * (n // 2 + 1), 2, 0)
    worst = found.worst("exchange")
    assert (worst.seconds, worst.step) == (7.0, 2 * (n // 3 + 1))


def test_times_outside_the_bins_are_counted_in_the_outer_ones():
    """A phase that nothing was spent on, and a step of days."""
    assert bins_of(np.array([0.0, -1e-9, LEAST / 2, LEAST, MOST, 1e9])).tolist() == [
        0,
        0,
        0,
        0,
        N_BINS - 1,
        N_BINS - 1,
    ]
    found = filled([(1, 0.0), (1, 0.0), (1, 1e9)])
    assert found.percentile("total", 50) == pytest.approx(0.0, abs=LEAST * RATIO)
    assert found.percentile("total", 99) <= 1e9
    assert found.to_dict()["total"]["max"] == 1e9
    assert filled([(1, 0.0)]).percentile("total", 50) == 0.0


def test_bins_begin_where_they_are_said_to():
    edges = lower_edges(np.arange(N_BINS))
    assert edges[0] == LEAST
    assert edges[-1] * RATIO >= MOST
    np.testing.assert_allclose(edges[1:] / edges[:-1], RATIO)
    assert bins_of(edges * RATIO**0.5).tolist() == list(range(N_BINS))


def test_nothing_is_said_without_a_step():
    assert StepDistribution(("compute", "total")).to_dict() == {}


def test_memory_is_bounded_at_a_million_steps():
    names = ("compute", "exchange", "other", "total")
    found = StepDistribution(names)
    empty = found.nbytes
    times = 10.0 ** np.random.default_rng(4).uniform(-6.0, 1.0, (1000, 4))
    rows = [tuple(row) for row in times.tolist()]
    for step in range(1_000_000):
        found.add(step + 1, 1, rows[step % 1000])
    assert found.nbytes == empty < 200_000
    assert found._waiting.itemsize * len(found._waiting) < 8 * 1024 * (2 + len(names))
    assert found.to_dict()["total"]["count"] == 1_000_000
    expected = np.quantile(times[:, 3], 0.95, method="inverted_cdf")
    assert found.percentile("total", 95) == pytest.approx(expected, rel=ACCURACY)
    assert len(json.dumps(found.to_dict())) < 200_000


class Many:
    """The messages of one of 10^4 ranks: what it hands over, and as much memory as it takes back."""

    rank, size = 0, 10_000

    def __init__(self):
        self.bytes = []

    def Allreduce(self, sent, received, operation=None):
        self.bytes += [sent.nbytes, received.nbytes]
        received[...] = sent


def test_merging_moves_the_bins_of_one_rank_however_many_there_are():
    found, comm = filled([(1, 1.0, 2.0), (1, 3.0, 4.0)], ("compute", "total")), Many()
    whole = found.merged(comm)
    assert max(comm.bytes) == found.counts.nbytes == 2 * N_BINS * 8
    assert len(comm.bytes) < 20
    assert whole.nbytes == found.nbytes < 200_000
