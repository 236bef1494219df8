"""The update of a tile: exchanges as one permutation, triangular solve and product, against NumPy step by step."""

import time
from itertools import product

import numpy as np
import pytest

from ridgeline.bench.hpl import update
from ridgeline.bench.hpl.blas import blas_addresses
from ridgeline.bench.hpl.team import TileTeam, tiles


def exchanged(matrix, pivots, first):
    """Rows exchanged one after the other."""
    matrix = matrix.copy()
    for j, pivot in enumerate(pivots.astype(int), start=first):
        matrix[[j, pivot]] = matrix[[pivot, j]]
    return matrix


def composed(pivots, first):
    sources, targets, taken = (np.empty(pivots.size, np.int64) for _ in range(3))
    count = update.compose_exchanges(pivots, first, sources, targets, taken)
    return sources, targets[:count], taken[:count]


def random_pivots(rng, first, width, rows):
    """Some within the top block, some outside, some outside twice."""
    return np.array(
        [rng.integers(j, min(rows, first + 2 * width)) for j in range(first, first + width)], float
    )


def test_exchanges_are_composed():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        first, width, rows = 5, 8, 30
        pivots = random_pivots(rng, first, width, rows)
        before = np.arange(rows)
        sources, targets, taken = composed(pivots, first)
        after = before.copy()
        after[targets] = before[first + taken]
        after[first : first + width] = before[sources]
        np.testing.assert_array_equal(after, exchanged(before, pivots, first), err_msg=f"{seed=}")


def test_a_tile_is_updated():
    for (width, columns), alone in product([(1, 1), (7, 40), (70, 300), (128, 17)], [True, False]):
        case = f"{width=}, {columns=}, {alone=}"
        rng = np.random.default_rng(width)
        first, rows, start = 3, 3 + 2 * width + 11, 2
        a = np.asfortranarray(rng.random((rows + 4, columns + 5)))
        below = np.asfortranarray(rng.random((rows - first, width)))
        top = np.asfortranarray(rng.random((width, width)) / width)
        pivots = random_pivots(rng, first, width, rows)
        lower = np.tril(top, -1) + np.eye(width)
        expected, those = a.copy(), slice(start, start + columns)
        expected[:rows, those] = exchanged(a[:rows, those], pivots, first)
        u = np.linalg.solve(lower, expected[first : first + width, those])
        expected[first : first + width, those] = u
        expected[first + width : rows, those] -= below[width:] @ u

        inverses = np.full((width, update.BLOCK), np.nan, order="F")
        for row in range(0, width, update.BLOCK):
            block = slice(row, min(row + update.BLOCK, width))
            inverses[block, : block.stop - row] = np.linalg.inv(lower[block, block])
        raw, room = (np.zeros((width, columns), order="F") for _ in range(2))
        sources, targets, taken = composed(pivots, first)
        places = np.argsort(sources)
        moves = (sources[places], places, targets, first + taken)
        if not alone:  # rows came from elsewhere
            raw[:] = a[sources, those]
            a[targets, those] = a[first + taken, those]
            moves = (np.zeros(0, np.int64),) * 4
        update.update_tile(
            blas_addresses().gemm,
            *(matrix.T for matrix in (below, top, inverses, raw, room, a)),
            *moves,
            rows,
            width,
            start,
            start + columns,
        )
        np.testing.assert_allclose(a, expected, rtol=0, atol=1e-12, err_msg=case)


def test_tiles_cover_the_columns_once():
    spans = [(0, 0), (3, 4), (0, 1000), (7, 5000)]
    for (start, stop), n_threads in product(spans, [1, 2, 5]):
        case = f"{start=}, {stop=}, {n_threads=}"
        found = tiles(start, stop, n_threads, widest=600, narrowest=50)
        columns = [column for tile in found for column in range(*tile)]
        assert columns == list(range(start, stop)), case
        assert all(last - first <= 600 for first, last in found), case
        assert all(last - first >= 50 for first, last in found[:-1]), case


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_team_does_every_tile_once_and_tells_of_errors(n_threads):
    done, polled = [], []
    with TileTeam(n_threads) as team:
        team.start(lambda start, stop: done.append((start, stop)), [(k, k + 1) for k in range(50)])
        team.finish(lambda: polled.append(1))
        assert sorted(done) == [(k, k + 1) for k in range(50)]
        assert len(polled) <= 50

        def fails(start, stop):
            raise ValueError(f"tile {start}")

        team.start(fails, [(k, k + 1) for k in range(10)])
        with pytest.raises(ValueError, match="tile"):
            team.finish()


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_a_tile_waits_for_earlier_ones_that_have_its_columns(n_threads):
    counts, batches, cuts = np.zeros(60, int), 200, ((0, 20, 40, 60), (0, 7, 33, 60))

    def counted(batch):
        def action(start, stop):
            assert (counts[start:stop] == batch).all()
            time.sleep(0)  # lets another thread run
            counts[start:stop] += 1

        return action

    with TileTeam(n_threads) as team:
        for batch in range(batches):
            given = team.start(counted(batch), zip(cuts[batch % 2][:-1], cuts[batch % 2][1:]))
            if batch == batches // 2:
                team.join(given)
                team.wait(given, 10, 20)
                assert (counts[10:20] > batch).all()
                team.wait(given)
                assert (counts > batch).all()
        team.finish()
    assert (counts == batches).all()
