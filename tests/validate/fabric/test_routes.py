"""The routing matrix, by hand and against a search of all shortest routes."""

import itertools

import numpy as np
import pytest

from ridgeline.validate.fabric.fabric import Fabric
from ridgeline.validate.fabric.routes import routing_matrix
from simulated_fabrics import dragonfly, fat_tree, torus


def shares(fabric, a, b):
    """Return link name -> share of the messages between two nodes, and switch -> share."""
    routes = routing_matrix(fabric, np.array([a]), np.array([b]))
    row = routes.matrix.tocsr()[[0]].toarray().ravel()
    links = {fabric.link_name(k): row[routes.start[1] + k] for k in range(len(fabric.links))}
    switches = dict(zip(fabric.switches, row[routes.start[2] : routes.start[3]]))
    return {k: v for k, v in links.items() if v}, {k: v for k, v in switches.items() if v}


def all_shortest(fabric, s, t):
    """Return the share of each link in all shortest routes, found one by one."""
    near = {}
    for number, (u, v) in enumerate(fabric.links.tolist()):
        near.setdefault(u, []).append((v, number))
        near.setdefault(v, []).append((u, number))
    routes = [(s, ())]
    while not (done := [links for end, links in routes if end == t]):
        routes = [(v, (*links, n)) for end, links in routes for v, n in near[end]]
    count = np.bincount([n for links in done for n in links], minlength=len(fabric.links))
    return count / len(done)


@pytest.mark.parametrize("fabric", [fat_tree(2, 2, 1, 2, 2), torus([3, 3])], ids=["tree", "torus"])
def test_minimal_routes_are_all_shortest_ones(fabric):
    fabric.routing = "minimal"
    ends = list(itertools.combinations(range(len(fabric.switch_of)), 2))
    routes = routing_matrix(fabric, *np.array(ends).T)
    table = routes.matrix[:, routes.start[1] : routes.start[2]].toarray()
    for row, (a, b) in zip(table, ends):
        np.testing.assert_allclose(row, all_shortest(fabric, fabric.switch_of[a], fabric.switch_of[b]))


def test_a_fat_tree_spreads_messages_over_its_uplinks():
    links, switches = shares(fat_tree(2, 2, 1, 2, 2), 0, 3)
    assert set(links.values()) == {0.5, 0.25}
    assert switches["leaf0"] == switches["leaf3"] == 1.0
    assert switches["core0"] == 0.25


def test_a_dragonfly_crosses_one_global_link_though_two_are_shorter():
    fabric = dragonfly(4, 3, 1)
    for a, b in itertools.combinations(range(12), 2):
        links, _ = shares(fabric, a, b)
        groups = [
            tuple(fabric.group_of[fabric.links[k]])
            for k in range(len(fabric.links))
            if fabric.link_name(k) in links
        ]
        crossing = [pair for pair in groups if pair[0] != pair[1]]
        assert len(crossing) == (fabric.group_of[a] != fabric.group_of[b])
        assert len(links) <= 3
        assert set(links.values()) <= {1.0}


def test_valiant_routes_go_through_all_other_groups():
    fabric = dragonfly(4, 3, 1, nonminimal=0.4)
    links, _ = shares(fabric, 0, 11)
    pairs = {}
    for k in range(len(fabric.links)):
        g, h = fabric.group_of[fabric.links[k]]
        if g != h and fabric.link_name(k) in links:
            pairs[int(g), int(h)] = round(links[fabric.link_name(k)], 6)
    assert pairs == {(0, 3): 0.6, (0, 1): 0.2, (0, 2): 0.2, (1, 3): 0.2, (2, 3): 0.2}


def test_parallel_global_links_share_the_messages():
    links, _ = shares(dragonfly(3, 4, 1, links=2), 0, 11)
    assert sorted(value for value in links.values()) == [0.5] * 6 or set(links.values()) <= {0.5, 1.0}


def test_dimension_order_goes_along_x_first_and_both_ways():
    fabric = torus([4, 4])
    links, switches = shares(fabric, 0, 5)  # (0, 0) and (1, 1)
    assert links == {"0-0 - 1-0": 0.5, "1-0 - 1-1": 0.5, "0-1 - 1-1": 0.5, "0-0 - 0-1": 0.5}
    assert switches == {"0-0": 1.0, "1-0": 0.5, "0-1": 0.5, "1-1": 1.0}
    assert shares(fabric, 0, 3)[0] == {"3-0 - 0-0": 1.0}  # the shorter way round


def test_switches_that_nothing_joins_have_no_links():
    fabric = Fabric(["a", "b"], np.array([0, 1]), np.zeros((0, 2)))
    assert shares(fabric, 0, 1) == ({}, {"a": 1.0, "b": 1.0})
