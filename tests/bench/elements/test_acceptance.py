"""The acceptance benchmark: its sizes, its kernel, what it says of every rank."""

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench import node_memory
from ridgeline.bench.elements import acceptance
from ridgeline.bench.elements.acceptance import HealthCheck, elements_out_of_cache, make_gradient_probe
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.runtime.errors import ConfigError


def test_probe_is_the_gradient():
    n = 5
    u = np.random.default_rng(2).uniform(-1, 1, (3, n, n, n))
    D = np.ascontiguousarray(gll_derivative(n))
    out = np.full((3, 3, n, n, n), np.nan)
    make_gradient_probe(n)(u, D, np.ascontiguousarray(D.T), 2, out)
    for direction, axis in enumerate((3, 2, 1)):
        expected = np.moveaxis(np.tensordot(D, u, (1, axis)), 0, axis)
        np.testing.assert_allclose(out[:, direction], expected, rtol=0, atol=1e-13)


def test_enough_elements_to_leave_the_caches():
    assert elements_out_of_cache(16, 2**20, 1) == 768  # the paper's
    n_bytes = 4 * 8 * 8**3
    assert elements_out_of_cache(8, 2**25, 1) == 2 * 2**25 // n_bytes
    assert elements_out_of_cache(8, 2**25, 2) == 2**25 // n_bytes


@pytest.mark.parametrize(("n", "advice"), [(32, "Use a smaller --nx1"), (4, "Stop the other programs")])
def test_too_little_memory_is_refused_with_an_advice_that_helps(monkeypatch, n, advice):
    monkeypatch.setattr(acceptance, "last_level_caches", lambda cpus: {"0": 2**25})
    monkeypatch.setattr(node_memory, "memory_available", lambda: 2**28)
    with pytest.raises(ConfigError, match=f"GiB on a node, which is more than is free. {advice}"):
        measure("acceptance", MPI.COMM_SELF, points=n)


def test_worst_rank_depends_on_the_kind_of_figure():
    rate = HealthCheck("a", "GB/s", 1e9, [3.0, 1.0, 2.0], True)
    seconds = HealthCheck("b", "us", 1e-6, [3.0, 1.0, 2.0], False)
    assert (rate.worst_rank, seconds.worst_rank) == (1, 0)
    facts = seconds.row()
    assert (facts["min"], facts["max"], facts["average"], facts["worst_rank"]) == (1.0, 3.0, 2.0, 0)


def test_all_figures_are_there():
    result = measure("acceptance", MPI.COMM_SELF, points=4, elements=8)
    assert [row["unit"] for row in result.rows] == ["[GFLOP/s]", "[GB/s]", "[GB/s]", "[us]", "[us]"]
    by_rank = result.extra["by_rank"]
    for row in result.rows:
        (value,) = by_rank[row["name"]]
        assert 0 < value / row["scale"] < 1e5
    assert f"s = {result.settings['large']}" in result.rows[1]["name"]
    assert len(by_rank) == len(result.rows) == 5


@pytest.mark.parametrize(
    ("n", "elements", "words"), [(1, 8, "nx1 is 1"), (33, 8, "nx1 is 33"), (8, 0, "elements is 0")]
)
def test_refusals(n, elements, words):
    with pytest.raises(ConfigError, match=words):
        measure("acceptance", MPI.COMM_SELF, points=n, elements=elements)
