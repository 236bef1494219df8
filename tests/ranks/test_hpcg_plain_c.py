"""HPCG over ranks: the time of an iteration, and the reference implementation against plain C, bit for bit."""

import numpy as np
import pytest

from bench_tools import measure
from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.plain_c import PlainC, PlainCUnavailable
from ridgeline.bench.hpcg.problem import generate_problem
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.runtime.errors import ConfigError

RANKS = (1, 3)
QUICK_RANKS = (3,)


@pytest.mark.parametrize("box", [(16, 16, 16), (24, 16, 32)])
def test_the_reference_path_has_the_bits_of_plain_c(comm, box):
    geometry = make_geometry(comm.size, comm.rank, *box)
    grid = geometry.npx, geometry.npy, geometry.npz
    try:
        peer = PlainC(comm, box, grid)
    except PlainCUnavailable as reason:
        pytest.skip(str(reason))
    level, right_side, _ = generate_problem(comm, geometry)
    path = ReferenceImplementation(comm, level)
    b, x, y = path.vector(right_side), path.vector(), path.vector()
    for preconditioned in (True, False):
        x.values.fill(0.0)
        result = path.cg(b, x, 20, 0.0, preconditioned)
        history, seconds = peer.cg(20, 0.0, preconditioned)
        assert history[0] == 1.0
        assert result.history == history[1:]
        np.testing.assert_array_equal(path.natural(x), peer.solution())
        assert seconds["total"] >= seconds["spmv"] > 0.0
    values = np.random.default_rng(comm.rank).standard_normal(path.n_rows)
    b.owned[:] = values
    path.spmv(b, y)
    np.testing.assert_array_equal(path.natural(y), peer.spmv(values))
    path.precondition(b, y)
    np.testing.assert_array_equal(path.natural(y), peer.precondition(values))
    peer.close()


def test_an_iteration_over_ranks(comm):
    result = measure("hpcg-iteration", comm, nx=16, iterations=2, repeats=1)
    assert result.ranks == comm.size
    assert [row["implementation"] for row in result.rows][:2] == ["reference", "optimised"]
    assert {row["rows"] for row in result.rows} == {16**3 * comm.size}
    assert all(row["residual"] < 1.0 for row in result.rows)


def test_every_rank_refuses(comm):
    with pytest.raises(ConfigError, match=f"must be the number of ranks, {comm.size}"):
        measure("hpcg-iteration", comm, nx=16, npx=comm.size + 1)
