"""Robust statistics against hand numbers and against normal noise of known width."""

import math

import numpy as np
import pytest

from ridgeline.validate.judge.statistics import centre, costs, cut_of, figure, screen_costs, steady
from ridgeline.validate.judge.thresholds import Thresholds


def test_costs_are_logarithms_of_time():
    assert costs(np.array([[2.0, 4.0]]), True)[0] == pytest.approx([-math.log(2), -math.log(4)])
    assert costs(np.array([2.0]), False) == pytest.approx([math.log(2)])
    assert figure(costs(np.array([2.0]), True)[0], True) == pytest.approx(2.0)
    assert np.isnan(costs(np.array([np.nan, np.inf]), True)).all()
    assert costs(np.array([0.0, 1.0]), True)[0] > 20  # a rate of nothing takes very long


def test_steady_averages_repeats_and_leaves_stalls_out():
    cost, noise, holds = steady(np.array([[0.0, 0.01, 0.02], [0.01, 0.0, 5.0], [1.0, 1.02, 1.01]]))
    assert cost == pytest.approx([0.01, 0.005, 1.01])
    assert 0 < noise < 0.02
    assert holds.all()
    _, _, holds = steady(np.array([[0.0, 0.01, 0.02], [0.5, 1.0, 5.0], [0.0, 0.01, 0.01]]))
    assert holds.tolist() == [True, False, True]


def test_steady_knows_what_was_not_measured():
    cost, _, _ = steady(np.array([[0.0, 0.01, np.nan], [np.nan] * 3, [0.02, 0.0, 0.01]]))
    assert cost[0] == pytest.approx(0.005, abs=0.01)
    assert np.isnan(cost[1])
    assert steady(np.empty((0, 3)))[0].size == 0


@pytest.mark.parametrize("repeats", [3, 4, 5, 16])
def test_noise_is_estimated_without_bias(repeats):
    table = 0.02 * np.random.default_rng(0).standard_normal((20_000, repeats))
    cost, noise, _ = steady(table)
    assert noise * math.sqrt(repeats) == pytest.approx(0.02, rel=0.08)
    assert np.std(cost) == pytest.approx(0.02 / math.sqrt(repeats), rel=0.1)


def test_centre_by_hand():
    assert centre(np.array([1.0, 2.0, 3.0, 4.0, 10.0]), few=False) == pytest.approx((3.0, 1.4826))
    # Of few: the better of the two in the middle of the better half.
    assert centre(np.array([0.5, 0.0, 0.5]), few=True) == pytest.approx((0.0, 0.0))
    assert centre(np.array([0.3, 0.1, 0.2, 0.3, 0.3, 0.3]), few=True) == pytest.approx((0.2, 0.1))


def test_the_cut_lies_between_noise_and_slowdown():
    thresholds = Thresholds(slowdown=0.10)
    slow = math.log(1.1)
    assert cut_of(0.0, 100, thresholds) == pytest.approx(0.75 * slow)
    assert cut_of(0.01, 100, thresholds) == pytest.approx(slow - 0.03)
    assert cut_of(0.015, 100, thresholds) == pytest.approx(4 * 0.015)
    assert cut_of(0.1, 100, thresholds) == pytest.approx(0.4)  # too noisy to find 10 %
    assert cut_of(0.1, 1_000_000, thresholds) > 0.5


def test_bad_parts_widen_no_spread():
    random = np.random.default_rng(1)
    cost = 0.01 * random.standard_normal(1000)
    cost[:250] += 1.0
    distance, reference, sigma, cut = screen_costs(cost, 0.0, False, Thresholds())
    assert abs(reference) < 0.002
    assert sigma == pytest.approx(0.01, rel=0.1)
    assert np.flatnonzero(distance >= cut).tolist() == list(range(250))
