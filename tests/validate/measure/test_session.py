"""What stages share: rounds of pairs, the better of two measurements, and waits that end."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.measure import validation_levels, validation_stages
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.measure.session import (
    Session,
    better,
    group_rounds,
    node_rounds,
    pack_rounds,
    rounds_of_rail,
)
from ridgeline.validate.validation_options import ValidationOptions


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_better_measurement_counts(higher_is_better):
    low, high = np.array([1.0, 1.1, 0.9]), np.array([2.0, 2.1, 0.95])
    best = high if higher_is_better else low
    assert better(low, high, higher_is_better) is best
    assert better(high, low, higher_is_better) is best


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_measurement_without_figures_is_never_hidden_by_an_earlier_one_nor_hides_a_later(higher_is_better):
    some, nothing = np.array([1.0, np.nan]), np.full(2, np.nan)
    assert better(some, nothing, higher_is_better) is nothing
    assert better(nothing, some, higher_is_better) is some


def test_a_rate_of_zero_is_worse_than_any():
    assert better(np.array([0.0, 1.0]), np.array([0.1, 0.1]), True).tolist() == [0.1, 0.1]


def test_the_worse_measurement_is_kept_beside_the_better():
    measurements = Measurements(["a", "b", "c"])
    session = Session(None, None, ValidationOptions(), None, measurements, None, None)
    pairs = np.array([0, 0, 1]), np.array([1, 2, 2])
    session.store_pairs("latency", "s", False, *pairs, np.array([[2.0, 9.0], [1.0, 1.0], [2.0, 2.0]]))
    session.again = {1}
    session.store_pairs(
        "latency", "s", False, np.array([1, 2]), np.array([0, 1]), np.array([[2.0, 2.0], [5.0, 5.0]])
    )
    assert measurements.pair_quantities[0].values.tolist() == [[2.0, 2.0], [1.0, 1.0], [2.0, 2.0]]
    np.testing.assert_array_equal(measurements.worse["latency"], [[2.0, 9.0], [np.nan, np.nan], [5.0, 5.0]])
    session.store_pairs("latency", "s", False, np.array([0]), np.array([1]), np.array([[1.0, 1.0]]))
    np.testing.assert_array_equal(measurements.worse["latency"][0], [2.0, 9.0, 2.0, 2.0])


def disjoint(rounds) -> bool:
    return all(len({node for pair in some for node in pair}) == 2 * len(some) for some in rounds)


def test_rounds_of_few_nodes_have_every_pair_once():
    rounds = node_rounds(7, None, False, 0)
    pairs = [tuple(sorted(pair)) for some in rounds for pair in some]
    assert disjoint(rounds)
    assert sorted(pairs) == [(a, b) for a in range(7) for b in range(a + 1, 7)]
    assert node_rounds(1, None, False, 0) == []
    assert len(node_rounds(8, 2, False, 0)) == 2


def test_rounds_of_many_nodes_are_random_disjoint_and_repeat_no_pair():
    rounds = node_rounds(101, None, False, 3)
    pairs = [pair for some in rounds for pair in some]
    assert len(rounds) == 24
    assert disjoint(rounds)
    assert len(set(pairs)) == len(pairs)
    assert rounds == node_rounds(101, None, False, 3) != node_rounds(101, None, False, 4)


def test_rails_share_the_rounds_so_that_several_interfaces_take_hardly_longer():
    rounds = node_rounds(64, None, False, 0)
    shares = [rounds_of_rail(rounds, rail, 8) for rail in range(8)]
    assert [len(share) for share in shares] == [8] * 8
    assert len({pair for share in shares for some in share for pair in some}) == 64 * 63 // 2
    few = node_rounds(6, None, False, 0)
    assert all(len(rounds_of_rail(few, rail, 8)) == len(few) for rail in range(8))
    assert rounds_of_rail([], 0, 8) == []


def test_pairs_are_measured_over_each_interface_and_the_slow_one_is_blamed(monkeypatch):
    """Three nodes of four ranks, two for each of two interfaces; the last node has only the first interface."""
    node_of_rank = [rank // 4 for rank in range(12)]
    layout = SimpleNamespace(node_of_rank=node_of_rank, n_nodes=3)
    ports = [[(0, "hsn0"), (2, "hsn1")], [(4, "hsn0"), (6, "hsn1")], [(8, "hsn0"), (10, "hsn1")]]
    measured = []

    def measure(session, rounds):
        pairs = [pair for some in rounds for pair in some]
        measured.extend(pairs)
        first, second = np.array(pairs).T
        slow = (first == 6) | (second == 6)
        times = np.where(slow, 2e-6, 1e-6)[:, None] * np.ones((1, 3))
        return first, second, {"latency": times, "bandwidth": 1e4 / times}

    monkeypatch.setattr(validation_stages, "_measure", measure)
    measurements = Measurements(["a", "b", "c"], node_of_rank=node_of_rank)
    measurements.interfaces = {node: [name for _, name in of_node] for node, of_node in enumerate(ports)}
    interfaces = [{name: [rank, rank + 1] for rank, name in of_node} for of_node in ports]
    session = Session(
        None, layout, ValidationOptions(), None, measurements, None, None, ranks_on_interfaces=interfaces
    )
    validation_stages.pairs(session)
    assert sorted(measured) == [(0, 4), (0, 8), (2, 6), (2, 10), (4, 8), (6, 10)]
    verdict = screen(measurements)
    assert [(s.kind, s.name, s.nodes) for s in verdict.suspects] == [("interface", "b hsn1", [1])]
    measured.clear()
    session.again = {1}
    validation_stages.pairs(session)
    assert sorted(measured) == [(0, 4), (2, 6), (4, 8), (6, 10)]
    assert len(measurements.pair_quantities[0].values) == 6
    session.ranks_on_interfaces = [{"hsn0": of_node["hsn0"]} for of_node in interfaces]
    measured.clear()
    session.again = None
    validation_stages.pairs(session)
    assert sorted(measured) == [(0, 4), (0, 8), (4, 8)]  # as ever with one interface a node


def test_groups_meet_inside_only_and_at_the_same_time():
    groups = {"x": [0, 3, 5], "y": [1, 2], "z": [4]}
    rounds = group_rounds(groups)
    pairs = sorted(tuple(sorted(pair)) for some in rounds for pair in some)
    assert disjoint(rounds)
    assert pairs == [(0, 3), (0, 5), (1, 2), (3, 5)]
    assert len(rounds) == 3


def test_pairs_are_packed_into_rounds():
    pairs = [(0, 1), (0, 2), (2, 3), (1, 2), (4, 5)]
    rounds = pack_rounds(pairs)
    assert rounds == [[(0, 1), (2, 3), (4, 5)], [(0, 2)], [(1, 2)]]
    assert pack_rounds([]) == []


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"level": "rack"}, "--level .* rack"),
        ({"time_limit": 0.0}, r"--time-limit .* 0\.0"),
        ({"time_limit": math.nan}, "--time-limit .* nan"),
        ({"rounds": 0}, "--rounds .* 0"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(plan, words):
    with pytest.raises(ConfigError, match=words):
        ValidationOptions(**plan)


class Late:
    """A barrier that the other ranks reach after so many looks, and what rank 0 hears meanwhile."""

    def __init__(self, looks):
        self.looks, self.said = looks, []

    def session(self):
        comm = SimpleNamespace(Ibarrier=lambda: self, allgather=lambda text: [text, ""])
        return SimpleNamespace(stage_ends=comm, watch=SimpleNamespace(fail=self.said.append))

    def Test(self):
        self.looks -= 1
        return self.looks < 0


def test_a_rank_that_failed_tells_so_once_where_the_others_do_not_come(monkeypatch):
    monkeypatch.setattr(validation_levels, "_AGREE_SECONDS", 0.0)
    late = Late(5)
    assert validation_levels._agree(late.session(), "ValueError: no") == ["ValueError: no", ""]
    assert late.said == ["ValueError: no"]


def test_a_rank_without_a_failure_waits_in_silence(monkeypatch):
    monkeypatch.setattr(validation_levels, "_AGREE_SECONDS", 0.0)
    late = Late(3)
    assert validation_levels._agree(late.session(), "") == ["", ""]
    assert late.said == []
