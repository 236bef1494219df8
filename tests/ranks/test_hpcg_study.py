"""HPCG over ranks: the scaling study, and the reference path against the plain C twin, bit for bit."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from bench_tools import measure
from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.problem import generate_problem
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.runtime.errors import ConfigError

RANKS = (1, 3)
TWIN = Path(__file__).resolve().parents[2] / "benchmarks" / "hpcg_twin.py"


@pytest.fixture(scope="module")
def twin():
    specification = importlib.util.spec_from_file_location("hpcg_twin", TWIN)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("box", [(16, 16, 16), (24, 16, 32)])
def test_the_reference_path_has_the_bits_of_plain_c(comm, twin, box):
    geometry = make_geometry(comm.size, comm.rank, *box)
    grid = geometry.npx, geometry.npy, geometry.npz
    try:
        peer = twin.Twin(comm, box, grid)
    except twin.TwinUnavailable as reason:
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


def test_scaling_over_ranks(comm):
    counts = sorted({1, comm.size})
    result = measure("hpcg-scaling", comm, local=[16], mode="strong", sweep=counts, iterations=2, repeats=1)
    assert result.ranks == comm.size
    if comm.rank > 0:
        return
    assert [(row["ranks"], row["path"]) for row in result.rows] == [
        (n_ranks, path) for n_ranks in counts for path in ("reference", "optimised")
    ]
    assert {row["rows"] for row in result.rows} == {16**3 * comm.size}
    # More ranks weaken the preconditioner, so that the residual may not fall as far.
    assert result.rows[0]["residual"] <= result.rows[-1]["residual"] < 1.0


def test_every_rank_refuses(comm):
    with pytest.raises(ConfigError, match=f"the job has {comm.size}"):
        measure("hpcg-scaling", comm, local=[16], sweep=[comm.size + 1])
