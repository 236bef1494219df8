"""Who is blamed, and with which reasons, on small systems."""

import json

import numpy as np
import pytest

from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, PairQuantity, Stage
from simulated_system import all_pairs


def blamed(verdict):
    return [(suspect.kind, *suspect.nodes) for suspect in verdict.suspects]


def rates(n, slow_nodes=(), slow_links=(), factor=0.85):
    values = np.full((n, n), 1e10)
    for node in slow_nodes:
        values[node, :] = values[:, node] = factor * 1e10
    for a, b in slow_links:
        values[a, b] = values[b, a] = factor * 1e10
    return values


@pytest.mark.parametrize("n", [3, 4, 5, 8, 9, 32])
def test_a_node_whose_links_are_slow_is_blamed_and_not_its_links(n):
    for node in range(min(n, 5)):
        assert blamed(screen(all_pairs(rates(n, [node]), seed=node))) == [("node", node)]
        times = 1e-6 / (rates(n, [node]) / 1e10)
        assert blamed(screen(all_pairs(times, quantity="latency"))) == [("node", node)]


@pytest.mark.parametrize("n", [3, 4, 8, 32])
def test_a_link_is_blamed_when_other_links_of_both_ends_are_healthy(n):
    verdict = screen(all_pairs(rates(n, slow_links=[(0, 2)])))
    assert blamed(verdict) == [("link", 0, 2)]
    assert verdict.suspects[0].name == "nid0 - nid2"
    assert verdict.suspects[0].slowdown == pytest.approx(1 / 0.85 - 1, rel=0.1)
    assert len(verdict.good_nodes()) == n - 1
    assert verdict.exit_code == 1


def test_a_slow_link_beside_a_slow_node():
    values = rates(10, [4], [(1, 6), (4, 7)])
    assert blamed(screen(all_pairs(values))) == [("node", 4), ("link", 1, 6)]


def test_two_slow_nodes_of_different_severity():
    values = np.minimum(rates(12, [3], factor=0.5), rates(12, [9], factor=0.88))
    assert blamed(screen(all_pairs(values))) == [("node", 3), ("node", 9)]


@pytest.mark.parametrize("n", [2, 3, 4, 16])
def test_healthy_systems_are_healthy(n):
    for seed in range(10):
        verdict = screen(all_pairs(rates(n), noise=0.01, seed=seed))
        assert blamed(verdict) == []
        assert verdict.exit_code == 0


def test_the_only_link_of_two_nodes_is_judged_by_a_limit():
    measurements = all_pairs(rates(2))
    assert blamed(screen(measurements)) == []
    verdict = screen(measurements, Thresholds(limits={"bandwidth": 2e10}))
    assert blamed(verdict) == [("link", 0, 1)]
    assert "at least 20 GB/s is required" in verdict.suspects[0].reasons[0]


def test_most_links_beyond_a_limit_are_the_systems_fault():
    verdict = screen(all_pairs(rates(5)), Thresholds(limits={"bandwidth": 2e10}))
    assert blamed(verdict) == [("system",)]
    assert verdict.good_nodes() == [f"nid{n}" for n in range(5)]


def test_links_measured_twice_and_by_several_ranks_count_once():
    measurements = all_pairs(rates(4, [1]))
    quantity = measurements.pair_quantities[0]
    measurements.pair_quantities[0] = PairQuantity(
        "bandwidth",
        "B/s",
        True,
        np.concatenate([quantity.first, quantity.second]),
        np.concatenate([quantity.second, quantity.first]),
        np.concatenate([quantity.values, quantity.values]),
    )
    verdict = screen(measurements)
    assert blamed(verdict) == [("node", 1)]
    assert verdict.summaries[0].count == 6


def groups_of(n, size):
    return {f"switch{k}": list(range(k * size, (k + 1) * size)) for k in range(n // size)}


@pytest.mark.parametrize(("n", "size"), [(12, 4), (16, 4), (9, 3), (64, 4), (30, 10)])
def test_a_group_with_slow_uplinks_is_blamed_as_a_group(n, size):
    values = rates(n)
    slow = np.arange(n) // size == 1
    values[np.not_equal.outer(slow, slow)] = 0.8e10
    measurements = all_pairs(values)
    measurements.groups = groups_of(n, size)
    verdict = screen(measurements)
    members = np.flatnonzero(slow).tolist()
    assert [(s.kind, s.name, s.nodes) for s in verdict.suspects] == [("group", "switch1", members)]
    assert verdict.suspects[0].slowdown == pytest.approx(0.25, abs=0.02)
    assert len(verdict.suspects[0].reasons) == 1  # of the group; its nodes are not blamed beside it
    assert len(verdict.good_nodes()) == n - size


def test_links_between_groups_are_compared_with_their_like():
    inside = np.equal.outer(np.arange(16) // 4, np.arange(16) // 4)
    measurements = all_pairs(np.where(inside, 1e10, 0.6e10))
    measurements.groups = groups_of(16, 4)
    assert blamed(screen(measurements)) == []


def test_a_slow_node_in_a_group_stays_a_node():
    measurements = all_pairs(rates(16, [5]))
    measurements.groups = groups_of(16, 4)
    assert blamed(screen(measurements)) == [("node", 5)]


def test_a_group_whose_nodes_are_slow_in_their_own_figures_is_blamed():
    figures = np.full((20, 3), 4e11)
    figures[5:10] *= 0.8
    measurements = Measurements([f"n{k}" for k in range(20)], groups_of(20, 5))
    measurements.node_quantities = [NodeQuantity("triad", "B/s", True, figures)]
    assert [(s.kind, s.name) for s in screen(measurements).suspects] == [("group", "switch1")]


def own(name, values, higher=True, unit="B/s", repeats=3):
    values = np.repeat(np.asarray(values, float)[:, None], repeats, axis=1)
    measurements = Measurements([f"n{k}" for k in range(len(values))])
    measurements.node_quantities = [NodeQuantity(name, unit, higher, values)]
    return measurements


def test_slow_nodes_by_their_own_figures():
    assert blamed(screen(own("triad", [4e11, 3.5e11, 4.01e11, 3.9e11]))) == [("node", 1)]
    assert blamed(screen(own("latency", [1e-6, 1.02e-6, 1.2e-6], False, "s"))) == [("node", 2)]
    assert blamed(screen(own("triad", [4e11, 3.5e11]))) == [("node", 1)]
    assert blamed(screen(own("triad", [1e11]))) == []
    assert blamed(screen(own("triad", [4e11] * 9 + [0.0]))) == [("node", 9)]


def test_a_shared_processor_needs_no_comparison():
    verdict = screen(own("cpu_share", [0.5, 0.52, 0.99], unit=""))
    assert blamed(verdict) == []
    assert [(node.name, node.reasons) for node in verdict.busy] == [
        ("n0", ["its ranks got 50 % of their processors, but a verdict requires at least 90 %"]),
        ("n1", ["its ranks got 52 % of their processors, but a verdict requires at least 90 %"]),
    ]
    assert blamed(screen(own("cpu_share", [0.92, 1.0, 1.0, 1.0], unit=""))) == []


def test_limits_of_nodes():
    verdict = screen(
        own("triad", [4e11, 3.9e11, 3.95e11]), Thresholds(limits={"triad": 3.94e11, "peek": 1.0})
    )
    assert blamed(verdict) == [("node", 1)]
    assert verdict.notes == [
        "the limit of 'peek' was not applied, because it was not measured. Measured quantities: triad."
    ]


def test_a_slow_node_explains_its_slow_links():
    measurements = all_pairs(rates(5, slow_links=[(1, 3)]))
    measurements.errors = {3: ["memory: 2 wrong words"]}
    verdict = screen(measurements)
    assert blamed(verdict) == [("node", 3)]
    assert verdict.suspects[0].reasons == ["memory: 2 wrong words"]


def test_a_node_that_stalls_now_and_then_is_blamed():
    measurements = all_pairs(rates(4), repeats=10)
    quantity = measurements.pair_quantities[0]
    random = np.random.default_rng(3)
    of_node = (quantity.first == 2) | (quantity.second == 2)
    quantity.values[of_node] /= np.where(random.random((3, 10)) < 0.4, 50.0, 1.0)
    assert blamed(screen(measurements)) == [("node", 2)]
    quantity.values[0, 4] /= 50.0  # happens to anybody
    assert blamed(screen(measurements)) == [("node", 2)]


def stalling(share, seed):
    """Rates of four nodes, of which node 2 stalls in this share of its repeats."""
    measurements = all_pairs(rates(4), repeats=5, seed=seed)
    quantity = measurements.pair_quantities[0]
    of_node = (quantity.first == 2) | (quantity.second == 2)
    late = np.zeros((len(of_node), 5), bool)
    late[of_node, : round(5 * share)] = True
    quantity.values /= np.where(late, 50.0, 1.0)
    return measurements


def test_a_node_that_is_quieter_the_second_time_is_blamed_all_the_same():
    thresholds = Thresholds(stalls=0.5)
    measurements, first = stalling(0.4, 1), stalling(0.8, 2)
    name, worse = measurements.pair_quantities[0].name, first.pair_quantities[0].values
    assert blamed(screen(first, thresholds)) == [("node", 2)]
    assert blamed(screen(measurements, thresholds)) == []
    measurements.worse = {name: worse}
    assert blamed(screen(measurements, thresholds)) == [("node", 2)]
    again = Measurements.from_dict(json.loads(json.dumps(measurements.to_dict())))
    assert blamed(screen(again, thresholds)) == [("node", 2)]


def test_a_node_that_stalled_in_one_measurement_alone_was_disturbed():
    measurements, first = stalling(0.0, 1), stalling(0.8, 2)
    measurements.worse = {measurements.pair_quantities[0].name: first.pair_quantities[0].values}
    assert blamed(screen(first)) == [("node", 2)]
    assert blamed(screen(measurements)) == []


@pytest.mark.parametrize("n", [4, 12])
def test_stalls_everywhere_blame_nobody(n):
    for seed in range(10):
        measurements = all_pairs(rates(n), repeats=5, seed=seed)
        values = measurements.pair_quantities[0].values
        random = np.random.default_rng(seed)
        late = random.random(values.shape) < 0.25
        late[:, 0] = False  # of a link that is late every time nobody knows better
        values /= np.where(late, random.uniform(3, 50, values.shape), 1.0)
        assert blamed(screen(measurements)) == []


def test_a_link_that_stalls_now_and_then_is_blamed():
    measurements = all_pairs(rates(6), repeats=10)
    measurements.pair_quantities[0].values[3, :6] /= 50.0
    first, second = np.triu_indices(6, 1)
    assert blamed(screen(measurements)) == [("link", first[3], second[3])]


def test_silent_ranks_are_suspects_and_others_could_not_be_measured():
    measurements = all_pairs(rates(4))
    measurements.stages = [Stage("pairs", "system", 20.0, "hung", "", [2], {0: 2, 3: 0})]
    verdict = screen(measurements)
    assert blamed(verdict) == [("node", 2)]
    assert verdict.suspects[0].reasons == ["rank 2 did not answer in stage pairs, and rank 0 waited for it"]
    assert verdict.unmeasured == ["stage pairs hung (silent: rank 2)"]
    assert verdict.exit_code == 1
    measurements.stages = [Stage("pairs", "system", 20.0, "hung", "", [], {0: 3, 2: 3})]
    assert blamed(screen(measurements)) == [("node", 3)]


def test_what_was_not_measured_is_not_healthy():
    assert screen(Measurements(["a"])).exit_code == 2
    verdict = screen(own("triad", [4e11, np.nan, 4e11]))
    assert verdict.unmeasured == ["nothing was measured on n1"]
    assert (verdict.exit_code, verdict.good_nodes()) == (2, ["n0", "n2"])
    measurements = own("triad", [4e11, 4e11])
    measurements.stages = [Stage("stream", "node", 1.0, "failed", "no memory")]
    assert screen(measurements).unmeasured == ["stage stream failed: no memory"]
