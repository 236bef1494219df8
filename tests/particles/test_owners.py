"""Owners of positions, neighbours of boxes, and wrapping."""

import math

import numpy as np
import pytest

from ridgeline.particles.boxes import NOT_FINITE, OUTSIDE, Boxes, cell_edges, even_boxes

EDGES = (np.array([0.0, 1.0, 1.5, 4.0]), np.array([-1.0, 2.0]), np.array([2.0, 3.0, 8.0]))
RANKS = np.array([[[5, 1]], [[0, 3]], [[4, 2]]])


@pytest.mark.parametrize("rank", range(6))
def test_owners_are_those_of_a_plain_search(rank):
    boxes = Boxes(EDGES, RANKS)
    place = np.random.default_rng(rank).random((3, 300)) * [[6.0], [3.0], [4.0]] + [[2.0], [-1.0], [0.0]]
    owner, others = boxes.owners(place, rank)
    c, b, a = (np.searchsorted(edges, row, "right") - 1 for edges, row in zip(reversed(EDGES), place))
    np.testing.assert_array_equal(owner, RANKS[a, b, c])
    assert others == np.sum(owner != rank)
    low, high = np.array(boxes.bounds(rank))[::-1].T[:, :, np.newaxis]
    np.testing.assert_array_equal(((place >= low) & (place < high)).all(0), owner == rank)


def test_edges_belong_to_the_next_box_and_the_end_to_the_last_where_it_is_closed():
    place = np.array([[3.0, 8.0, 2.0], [0.0, 0.0, 0.0], [1.0, 1.2, 4.0]])
    assert Boxes(EDGES, RANKS, (False,) * 3).owners(place, 0)[0].tolist() == [3, 3, 4]
    assert Boxes(EDGES, RANKS).owners(place, 0)[0].tolist() == [3, OUTSIDE, OUTSIDE]


def test_what_is_nowhere_is_said():
    place = np.full((3, 4), 2.5)
    place[1] = 0.0, math.nan, 5.0, -math.inf
    assert Boxes(EDGES, RANKS).owners(place, 0)[0].tolist() == [4, NOT_FINITE, OUTSIDE, NOT_FINITE]


def test_neighbours_are_those_that_touch():
    boxes = Boxes(EDGES, RANKS, (False, False, False))
    assert boxes.neighbours(5) == [0, 1, 3]
    assert boxes.neighbours(0) == [1, 2, 3, 4, 5]
    assert Boxes(EDGES, RANKS, (True, False, False)).neighbours(5) == [0, 1, 2, 3, 4]
    many = even_boxes((0, 0, 0), (1, 1, 1), np.arange(125).reshape(5, 5, 5), (True, True, True))
    assert len(many.neighbours(0)) == 26
    assert len(many.neighbours(62)) == 26


def test_wrapping_counts_lengths_and_stays_below_the_end():
    boxes = even_boxes((0.0, -1.0, 2.0), (1.0, 1.0, 5.0), np.zeros((1, 1, 1), np.int64), (False, True, True))
    place = np.array([[1.0, 14.0, 5.0, 2.0], [-1.0 - 1e-18, -1.0, 3.5, math.nan], [-7.0, 0.0, 1.0, 9.0]])
    place[1, 0] = np.nextafter(-1.0, -2)
    before, image = place.copy(), np.zeros((3, 4), np.int32)
    boxes.wrap(place, 0, image)
    assert place[0].tolist() == [4.0, 2.0, 2.0, 2.0]
    assert image[0].tolist() == [-1, 4, 1, 0]
    assert (place[1, :3] >= -1.0).all()
    assert (place[1, :3] < 1.0).all()
    assert math.isnan(place[1, 3])
    np.testing.assert_array_equal(place[2], before[2])
    np.testing.assert_allclose((place + image * [[3.0], [2.0], [0.0]])[:, :3], before[:, :3], atol=1e-15)


@pytest.mark.parametrize("rank", range(6))
def test_what_left_a_box_is_found_after_wrapping(rank):
    place = np.random.default_rng(rank).random((3, 300)) * [[12.0], [9.0], [8.0]] - [[2.0], [4.0], [1.0]]
    place[1, 7] = math.nan
    boxes, image = Boxes(EDGES, RANKS, (True, True, False)), np.zeros((3, 300), np.int64)
    before = place.copy()
    left = boxes.wrap(place, rank, image)
    np.testing.assert_allclose(place + image * [[0.0], [3.0], [4.0]], before, atol=1e-14)
    np.testing.assert_array_equal(left, np.flatnonzero(boxes.owners(place, rank)[0] != rank))
    assert 100 < len(left) < 300


def test_a_tiny_step_below_the_beginning_comes_to_the_beginning():
    boxes = even_boxes((0.0,) * 3, (1.0,) * 3, np.zeros((1, 1, 1), np.int64), (True,) * 3)
    place, image = np.full((3, 1), -1e-20), np.zeros((3, 1), np.int64)
    boxes.wrap(place, 0, image)
    assert (place == 0.0).all()
    assert (image == 0).all()


@pytest.mark.parametrize(("length", "cells"), [(2 * math.pi, 30), (1.0, 7), (0.3, 128)])
def test_edges_of_cells_are_where_the_number_of_the_cell_changes(length, cells):
    cuts = [0, 1, cells // 3, cells // 2, cells]
    edges = cell_edges(length, cells, cuts)
    assert edges[0] == 0.0
    assert edges[-1] == length
    for cut, edge in zip(cuts[1:-1], edges[1:-1]):
        assert math.floor(edge * (cells / length)) == cut
        assert math.floor(np.nextafter(edge, 0.0) * (cells / length)) == cut - 1


def test_edges_that_do_not_increase_are_refused():
    with pytest.raises(ValueError, match="increasing edges"):
        Boxes((np.array([0.0, 0.0]), EDGES[1], EDGES[2]), np.zeros((1, 1, 2), np.int64))
