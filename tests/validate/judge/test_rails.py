"""Nodes with several network interfaces: the one that is slow is blamed, and its node's other interfaces are not."""

import json

import numpy as np
import pytest

from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.measure.measurements import Measurements, PairQuantity
from ridgeline.validate.report.page import make_page
from simulated_system import simulate, with_rails


def blamed(verdict):
    return [(suspect.kind, suspect.name) for suspect in verdict.suspects]


@pytest.mark.parametrize("n", [3, 5, 12, 40])
@pytest.mark.parametrize("quantity", ["bandwidth", "latency"])
def test_one_slow_interface_of_eight_is_blamed_and_no_other(n, quantity):
    verdict = screen(with_rails(n, 8, slow=[(n - 1, 3)], name=quantity, seed=n))
    assert blamed(verdict) == [("interface", f"nid{n - 1} hsn3")]
    (suspect,) = verdict.suspects
    assert suspect.nodes == [n - 1]
    assert "Most other interfaces of the node are well" in suspect.advice[0]
    assert verdict.good_nodes() == [f"nid{node}" for node in range(n - 1)]
    assert verdict.nodes[n - 1].reasons == [f"{suspect.name}: {suspect.reasons[0]}"]
    assert verdict.exit_code == 1


def test_interfaces_of_several_nodes():
    verdict = screen(with_rails(16, 4, slow=[(2, 0), (9, 3), (9, 1)]))
    assert sorted(blamed(verdict)) == [("interface", f"nid{name}") for name in ("2 hsn0", "9 hsn1", "9 hsn3")]


def test_a_node_whose_interfaces_are_all_slow_is_blamed_as_a_node():
    verdict = screen(with_rails(12, 8, slow=[(5, None)]))
    assert blamed(verdict) == [("node", "nid5")]
    assert verdict.suspects[0].reasons[0].endswith("on 8 of 8 interfaces")
    # The links of one interface beside it stay its own fault.
    both = screen(with_rails(12, 8, slow=[(5, None), (7, 2)]))
    assert blamed(both) == [("node", "nid5"), ("interface", "nid7 hsn2")]


def test_links_of_one_interface_and_of_all():
    one = screen(with_rails(12, 8, slow_links=[(1, 6, 4)]))
    assert blamed(one) == [("link", "nid1 hsn4 - nid6 hsn4")]
    assert len(one.good_nodes()) == 11
    assert blamed(screen(with_rails(12, 8, slow_links=[(1, 6, None)]))) == [("link", "nid1 - nid6")]


@pytest.mark.parametrize("n", [2, 3, 6, 16])
def test_healthy_interfaces_are_acquitted(n):
    for seed in range(5):
        assert blamed(screen(with_rails(n, 8, noise=0.02, seed=seed))) == []


def test_interfaces_that_are_slower_by_their_place_are_compared_with_their_like():
    measurements = with_rails(12, 4)
    quantity = measurements.pair_quantities[0]
    quantity.values[quantity.rail >= 2] *= 0.6
    assert blamed(screen(measurements)) == []


def test_a_node_with_fewer_interfaces_is_judged_by_those_it_has():
    measurements = with_rails(8, 2, slow=[(3, 0)])
    quantity = measurements.pair_quantities[0]
    there = (quantity.rail == 0) | ((quantity.first != 3) & (quantity.second != 3))
    measurements.pair_quantities = [quantity.rows(there)]
    measurements.interfaces[3] = ["hsn0"]
    assert blamed(screen(measurements)) == [("node", "nid3")]  # all that it has


def test_limits_hold_for_each_interface():
    measurements = with_rails(6, 2, slow=[(1, 1)], factor=0.1)
    verdict = screen(measurements, Thresholds(limits={"bandwidth": 5e9}, slowdown=0.99, z=2000))
    assert blamed(verdict) == [("interface", "nid1 hsn1")]


def test_stalls_of_one_interface():
    measurements = with_rails(6, 4, repeats=10)
    quantity = measurements.pair_quantities[0]
    of_port = ((quantity.first == 2) | (quantity.second == 2)) & (quantity.rail == 1)
    random = np.random.default_rng(3)
    quantity.values[of_port] /= np.where(random.random((of_port.sum(), 10)) < 0.5, 50.0, 1.0)
    assert blamed(screen(measurements)) == [("interface", "nid2 hsn1")]


def test_the_baseline_is_compared_by_interface():
    before = with_rails(4, 3)
    now = with_rails(4, 3, slow=[(2, 1)], factor=0.6, seed=1)
    verdict = screen(now, Thresholds(slowdown=0.99, z=2000), before)
    assert blamed(verdict) == [("interface", "nid2 hsn1")]
    assert "where the baseline has" in verdict.suspects[0].reasons[0]


def test_rails_survive_json_and_are_on_the_page():
    measurements = with_rails(4, 2, slow=[(2, 1)])
    again = Measurements.from_dict(json.loads(json.dumps(measurements.to_dict())))
    assert again.interfaces == measurements.interfaces
    np.testing.assert_array_equal(again.pair_quantities[0].rail, measurements.pair_quantities[0].rail)
    verdict = screen(again)
    assert blamed(verdict) == [("interface", "nid2 hsn1")]
    page = make_page(again, verdict)
    assert "bandwidth over hsn1, map of pairs" in page
    assert "nid2 hsn1" in page


def test_files_of_one_interface_from_before_are_read():
    content = json.loads(json.dumps(with_rails(3, 1).to_dict())) | {"schema": 1}
    for name in ("interfaces", "ranks", "mpi"):
        content.pop(name)
    content["pair_quantities"][0].pop("rail")
    assert blamed(screen(Measurements.from_dict(content))) == []


@pytest.mark.full
def test_slow_interfaces_among_eighty_thousand():
    """10,000 nodes of eight interfaces, eight links each; noise of 2 %, 50 interfaces that are 20 % slower."""
    measurements = simulate(10_000, rounds=8, bad_nodes=0, bad_links=0, seed=1).measurements
    links, random = measurements.pair_quantities[0], np.random.default_rng(0)
    speed = np.ones((8, len(links.first), 1))
    bad = range(0, 1000, 20)
    speed[3, np.isin(links.first, bad) | np.isin(links.second, bad)] = 0.8
    values = 2.3e10 * speed * (1 + 0.02 * random.standard_normal((8, *links.values.shape)))
    ends = np.tile(links.first, 8), np.tile(links.second, 8)
    rails = np.repeat(np.arange(8), len(links.first))
    measurements.pair_quantities = [
        PairQuantity("bandwidth", "B/s", True, *ends, values.reshape(-1, links.values.shape[1]), rails)
    ]
    measurements.interfaces = {node: [f"hsn{rail}" for rail in range(8)] for node in range(10_000)}
    assert set(blamed(screen(measurements))) == {("interface", f"nid{node:05d} hsn3") for node in bad}
