"""HPL's generator: jumps against steps one by one, grids against each other."""

from itertools import product

import numpy as np

from ridgeline.bench.hpl.block_cyclic import distribute
from ridgeline.bench.hpl.matrix import SEED, jump, random_matrix


def sequence(count, seed=SEED):
    """The first numbers of the generator, one by one, as its definition says."""
    found, state = [], seed
    for _ in range(count):
        state = (6364136223846793005 * state + 1) % 2**64
        found.append(0.5 - float(state) / 2.0**64)
    return np.array(found)


def generate(n, nb, grid, place, seed=SEED):
    part = distribute(n, nb, grid, place)
    out = np.full(part.shape, np.nan, order="F")
    random_matrix(part, seed)(out, 0, out.shape[1])
    return part, out


def test_a_jump_is_as_many_steps():
    for steps in (0, 1, 2, 3, 64, 1000):
        state = SEED
        for _ in range(steps):
            state = jump(1)(state)
        assert jump(steps)(SEED) == state, f"{steps=}"
        assert jump(5).then(jump(steps)) == jump(steps + 5), f"{steps=}"


def test_the_matrix_is_the_sequence_by_columns():
    _, matrix = generate(13, 4, (1, 1), (0, 0))
    np.testing.assert_array_equal(matrix.ravel("F"), sequence(13 * 14))
    assert np.abs(matrix).max() <= 0.5


def test_every_grid_has_the_same_matrix():
    sizes = [(1, 1), (13, 4), (12, 4), (7, 9), (20, 3)]
    for (n, nb), grid in product(sizes, [(1, 2), (2, 1), (2, 3), (3, 2)]):
        case = f"{n=}, {nb=}, {grid=}"
        _, whole = generate(n, nb, (1, 1), (0, 0), seed=7)
        for row in range(grid[0]):
            for column in range(grid[1]):
                part, mine = generate(n, nb, grid, (row, column), seed=7)
                np.testing.assert_array_equal(
                    mine, whole[np.ix_(part.rows.globals(), part.columns.globals())], err_msg=case
                )


def test_columns_may_be_filled_by_parts():
    part, whole = generate(13, 4, (2, 2), (1, 0))
    again = np.zeros_like(whole)
    fill = random_matrix(part, SEED)
    for first in range(0, whole.shape[1], 3):
        fill(again, first, min(first + 3, whole.shape[1]))
    np.testing.assert_array_equal(again, whole)
