"""The distribution of step times: percentiles to the stated accuracy, the worst step, bounded memory."""

import json

import numpy as np
import pytest

from ridgeline.simulation.step_times import (
    LEAST,
    MOST,
    N_BINS,
    PERCENTILES,
    RATIO,
    StepDistribution,
    bins_of,
    lower_edges,
)

NAMES = ("compute", "exchange", "other", "total")
ACCURACY = 0.005  # as the module and docs/run-report.md state it


def filled(calls, names=("total",), at_once=700) -> StepDistribution:
    """Return the distribution of calls (steps, seconds by name ...), one after the other from step 0."""
    distribution, rows = StepDistribution(names), np.array(list(calls), float)
    steps = rows[:, 0].astype(np.int64)
    for i in range(0, len(rows), at_once):
        part = slice(i, i + at_once)
        distribution.add(np.cumsum(steps)[part], steps[part], rows[part, 1:].T)
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
        assert found.percentile("total", percent) == pytest.approx(expected, rel=ACCURACY)
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


@pytest.mark.parametrize(("n", "at_once"), [(1, 1), (3, 1), (3000, 1024), (3000, 1)])
def test_the_worst_step_is_named_however_many_calls_are_added_at_once(n, at_once):
    """Two names, whose worst steps are others; of equal ones the first counts."""
    rng = np.random.default_rng(n)
    compute, exchange = rng.uniform(1.0, 2.0, n), rng.uniform(1.0, 2.0, n)
    compute[n // 2] = compute[n - 1] = 5.0
    exchange[n // 3] = 7.0
    found = filled(((2, 2 * a, 2 * b) for a, b in zip(compute, exchange)), ("compute", "exchange"), at_once)
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


def size_of(distribution) -> int:
    """Return the bytes of its arrays, which are all that grows or might."""
    return sum(value.nbytes for value in vars(distribution).values() if isinstance(value, np.ndarray))


def test_memory_is_bounded_at_a_million_steps():
    found = StepDistribution(NAMES)
    empty = size_of(found)
    times = 10.0 ** np.random.default_rng(4).uniform(-6.0, 1.0, (1000, 4))
    for i in range(1000):
        found.add(np.arange(1000 * i, 1000 * (i + 1)) + 1, np.ones(1000, np.int64), times.T)
    assert size_of(found) == empty < 200_000
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
    whole = found.merge_ranks(comm)
    assert max(comm.bytes) == found.counts.nbytes == 2 * N_BINS * 8
    assert len(comm.bytes) < 20
    assert size_of(whole) == size_of(found) < 200_000
