"""Nodes and links at fault, peeled from the distances of links; by hand."""

import numpy as np

from ridgeline.validate.judge.links import find_suspects, node_scores


def judge(n, links, cut=0.05):
    """links: (first, second) -> distance."""
    first, second = np.array(list(links)).T
    found = find_suspects(n, first, second, np.array(list(links.values()), float), cut, cut)
    rows = list(links)
    return sorted(found.nodes), [rows[row] for row in found.links]


def test_scores_are_what_more_than_half_of_the_links_exceed():
    first, second = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 2])
    scores = node_scores(5, first, second, np.array([0.1, 0.2, 0.3, 0.0]))
    assert scores.tolist() == [0.2, 0.0, 0.0, -np.inf, -np.inf]


def test_a_healthy_node_between_two_bad_ones_is_cleared():
    # Two of the three links of node 2 are slow, both because of their other ends.
    links = {(0, 2): 0.3, (1, 2): 0.1, (2, 3): 0.0}
    links |= {(0, 3): 0.3, (0, 4): 0.3, (1, 3): 0.1, (1, 4): 0.1, (3, 4): 0.0}
    links |= {(0, 5): 0.3, (1, 5): 0.1, (4, 5): 0.0, (3, 5): 0.0}
    assert judge(6, links) == ([0, 1], [])


def test_a_node_with_one_link_is_not_told_from_the_link():
    assert judge(4, {(0, 1): 0.2, (1, 2): 0.0, (1, 3): 0.0, (2, 3): 0.0}) == ([], [(0, 1)])


def test_one_slow_link_of_two_leaves_both_ends_healthy():
    assert judge(3, {(0, 1): 0.2, (1, 2): 0.0, (0, 2): 0.0}) == ([], [(0, 1)])
    assert judge(3, {(0, 1): 0.2, (1, 2): 0.0, (0, 2): 0.2}) == ([0], [])


def test_each_link_may_have_its_own_cut():
    first, second = np.array([0, 1, 0]), np.array([1, 2, 2])
    found = find_suspects(3, first, second, np.array([0.2, 0.2, 0.0]), 1.0, np.array([0.1, 0.3, 0.1]))
    assert (found.nodes, found.links) == ({}, [0])
