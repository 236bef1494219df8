"""The geometry of parts, compared with slices of NumPy; and the sentences about parts that a grid does not have."""

import itertools

import numpy as np
import pytest

from ridgeline.config.part_selection import SelectionError, UniformGrid, index_of, select
from ridgeline.parallel.partition import split

SHAPE = (5, 6, 7)
GRID = UniformGrid(SHAPE, (0.25, 0.0, -1.0), (0.5, 1.0, 2.0))
PARTS = [
    ({}, np.s_[:, :, :]),
    ({"plane": "z=mid"}, np.s_[2:3, :, :]),
    ({"plane": "y=-1"}, np.s_[:, 5:6, :]),
    ({"plane": "x=3.2"}, np.s_[:, :, 2:3]),
    ({"line": "z=0, x=6"}, np.s_[0:1, :, 6:7]),
    ({"box": "z=1:4, x=:-2"}, np.s_[1:4, :, :5]),
    ({"box": "y=1.0:3.0, z=0.5:"}, np.s_[1:, 1:4, :]),
    ({"stride": (2, 4, 3)}, np.s_[::2, ::4, ::3]),
    ({"box": "x=1:7", "stride": (1, 1, 4)}, np.s_[:, :, 1:7:4]),
]


@pytest.mark.parametrize(("settings", "slices"), PARTS)
@pytest.mark.parametrize("pieces", [(1, 1, 1), (2, 1, 3), (5, 4, 2)])
def test_the_pieces_of_blocks_are_the_part(settings, slices, pieces):
    whole = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    selection = select(GRID, **settings)
    part = np.full(selection.shape, -1)
    for index in itertools.product(*map(range, pieces)):
        offset, shape = zip(*(split(n, p, i) for n, p, i in zip(SHAPE, pieces, index)))
        piece = selection.piece(offset, shape)
        block = whole[tuple(slice(o, o + n) for o, n in zip(offset, shape))]
        window = part[tuple(slice(o, o + n) for o, n in zip(piece.offset, piece.shape))]
        assert window.shape == piece.shape == block[piece.slices].shape
        assert (window == -1).all()  # no point is in two pieces
        window[...] = block[piece.slices]
    np.testing.assert_array_equal(part, whole[slices])
    points = selection.grid(GRID)
    for axis, chosen in enumerate(slices):
        expected = GRID.places(axis)[chosen]
        np.testing.assert_allclose(points.places(axis), expected, rtol=1e-14)


def test_means_have_one_point_at_the_middle():
    selection = select(GRID, mean=("x", "z"), box="x=1:4")
    points = selection.grid(GRID)
    assert selection.shape == points.shape == (1, 6, 1)
    assert points.origin == (1.25, 0.0, 3.0)
    assert points.spacing == (2.5, 1.0, 6.0)


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({"plane": "q=3"}, "plane", "a plane such as"),
        ({"plane": "z=1, y=1"}, "plane", "a plane such as"),
        ({"plane": "z="}, "plane", "a plane such as"),
        ({"plane": "z=5"}, "plane", "inside the domain, which has 5 points in z from 0.25 to 2.25"),
        ({"plane": "x=-4.0"}, "plane", "inside the domain, which has 7 points in x from -1 to 11"),
        ({"line": "z=1"}, "line", "two planes"),
        ({"line": "z=1, z=2"}, "line", "two planes"),
        ({"box": "z=3"}, "box", "a box such as"),
        ({"box": "z=a:b"}, "box", "a box such as"),
        ({"box": "z=nan:0.5"}, "box", "a box such as"),
        ({"box": "z=0:2, z=3:4"}, "box", "a box such as"),
        ({"box": "z=2:9"}, "box", "inside the domain; the domain has 5 points in z"),
        ({"box": "x=5.0:50.0"}, "box", "inside the domain; the domain has 7 points in x"),
        ({"box": "z=3:3"}, "box", "a box with points"),
        ({"box": "x=1.2:1.4"}, "box", "a box with points"),
    ],
)
def test_what_a_grid_does_not_have(settings, key, words):
    with pytest.raises(SelectionError) as error:
        select(GRID, **settings)
    assert (error.value.key, words in error.value.rule) == (key, True), error.value.rule


def test_unknown_places_give_the_largest_size():
    grid = UniformGrid(SHAPE, None)
    assert select(grid, plane="z=12.5").shape == (1, 6, 7)
    assert select(grid, box="y=0.1:0.2, z=1:3").shape == (2, 6, 7)
    assert index_of("0.4", 3, [0.0, 0.5, 1.0]) == 1
