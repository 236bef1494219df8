"""Passes by several threads against those by one, bit for bit."""

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError
from ridgeline.sparse import sweeps as serial
from ridgeline.sparse import sweeps_threaded as threaded
from ridgeline.sparse.row_strips import deal_strips
from sparse_systems import CASES, System, box


@pytest.fixture(params=["one row", "box", "box by planes", "box with external columns", "random", "dense"])
def matrix(request: pytest.FixtureRequest) -> System:
    return CASES[request.param]()


def vectors(matrix: System) -> dict[str, NDArray]:
    n, rng = matrix.fronts.size, np.random.default_rng(1)
    diagonal = np.diag(matrix.dense)[matrix.order]
    made = {name: rng.standard_normal(n) for name in ("r", "x", "half", "y")}
    return made | {"diagonal": diagonal, "inverse": 1 / diagonal}


def passes(functions, first: tuple, matrix: System) -> list:
    """Return what every pass leaves behind, called with the arguments `first` before its own."""
    lower, upper, v = matrix.lower, matrix.upper, vectors(matrix)
    r, x, half, y, inverse = (v[name] for name in ("r", "x", "half", "y", "inverse"))
    left: list = []
    functions.forward(*first, lower, r, half, inverse, x)
    left += [x.copy(), half.copy()]
    left.append(functions.backward_dot(*first, upper, half, inverse, x, r))
    left.append(x.copy())
    functions.forward_zero(*first, lower, r, inverse, x, half)
    left += [x.copy(), half.copy()]
    functions.backward(*first, upper, half, inverse, x)
    left.append(x.copy())
    left.append(functions.multiply_dot(*first, lower, upper, v["diagonal"], x, y))
    left.append(y.copy())
    functions.multiply_dot(*first, lower, upper, v["diagonal"], r, y)
    left.append(y)
    return left


@pytest.mark.parametrize("n_threads", range(1, numba.config.NUMBA_NUM_THREADS + 1))
def test_threads_do_as_one(matrix: System, n_threads: int) -> None:
    team = threaded.make_team(matrix.lower, n_threads)
    for _ in range(2):  # a team may be used again
        for found, expected in zip(
            passes(threaded, (team,), matrix), passes(serial, (), matrix), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_runs_are_dealt_by_rows(n_threads: int) -> None:
    strips = box(41, 21, 6).lower
    bounds = deal_strips(strips, n_threads)
    np.testing.assert_array_equal(bounds[:, 0], strips.front_strips[:-1])
    np.testing.assert_array_equal(bounds[:, -1], strips.front_strips[1:])
    rows = strips.strip_rows[bounds]
    even = (rows[:, -1:] - rows[:, :1]) / n_threads
    longest = np.array(
        [
            np.diff(strips.strip_rows[a : b + 1]).max()
            for a, b in zip(strips.front_strips, strips.front_strips[1:], strict=False)
        ]
    )
    assert np.all(np.abs(np.diff(rows, axis=1) - even) <= longest[:, None] + 1)


def test_a_team_needs_its_threads() -> None:
    strips, available = box(3, 3, 3).lower, int(numba.config.NUMBA_NUM_THREADS)
    with pytest.raises(ConfigError, match=f"{available + 1} threads must run at once"):
        threaded.make_team(strips, available + 1)
