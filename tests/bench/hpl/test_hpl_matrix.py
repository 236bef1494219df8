"""The matrices of HPL and HPL-MxP: the sequence of numbers, grids against each other, what makes one stable."""

from itertools import product

import numpy as np
import pytest
from mpi4py import MPI

from hpl_cases import random_system
from ridgeline.bench.hpl.block_cyclic import Axis, distribute
from ridgeline.bench.hpl.factor_host import allocate_singles
from ridgeline.bench.hpl.matrix import SEED, MxpHostMatrix, jump, jumps, random_matrix, shift
from ridgeline.bench.hpl.team import TileTeam


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


@pytest.fixture
def team():
    with TileTeam(2) as team:
        yield team


def dense(n, team, **kinds):
    """The whole matrix in float64, from HPL's generator and the diagonal, and an MxpHostMatrix of one rank."""
    matrix = MxpHostMatrix(MPI.COMM_SELF, Axis(n, 16, 1, 0), Axis(n, 16, 1, 0), team, **kinds)
    random, b = random_system(n)
    np.testing.assert_array_equal(matrix.right_hand_side(), b)
    return random + np.diag(matrix.diagonal), matrix


@pytest.mark.parametrize("n", [1, 2, 7, 300, 1100])
def test_products_norms_and_parts_are_those_of_the_whole(n, team):
    a, matrix = dense(n, team)
    x = np.random.default_rng(1).standard_normal(n)
    np.testing.assert_allclose(matrix.product(x), a @ x, rtol=0, atol=1e-14 * n)
    assert matrix.norm == pytest.approx(np.linalg.norm(a, np.inf), rel=1e-14)
    part = allocate_singles(n, n)
    matrix.write(part)
    np.testing.assert_array_equal(part[:, :n].T, a.astype(np.float32))


@pytest.mark.parametrize("n", [300, 1100])
def test_it_is_neither_dominant_nor_symmetric_and_elimination_is_stable(n, team):
    a, _ = dense(n, team)
    beside = np.abs(a).sum(1) - np.abs(np.diag(a))
    assert (np.abs(np.diag(a)) < 0.2 * beside).all()  # far from dominant, in every row
    assert not np.array_equal(a, a.T)
    assert np.linalg.eigvalsh((a + a.T) / 2)[0] > 0.05 * shift(n)
    assert np.linalg.cond(a) < 12
    upper = a.copy()  # elimination without pivoting, in float64
    for k in range(n - 1):
        factors = upper[k + 1 :, k] / upper[k, k]
        upper[k + 1 :, k:] -= np.outer(factors, upper[k, k:])
    assert np.abs(upper).max() < 2 * np.abs(a).max()


def test_the_matrix_for_testing_is_strictly_dominant(team):
    a, _ = dense(200, team, dominant=True)
    assert (2 * np.abs(np.diag(a)) > np.abs(a).sum(1)).all()


def test_many_jumps_are_single_ones():
    steps = np.array([0, 1, 2, 63, 64, 10**9, 3 * 10**15])
    multipliers, increments = jumps(steps)
    for step, multiplier, increment in zip(steps, multipliers, increments):
        assert jump(int(step)) == (int(multiplier), int(increment))
