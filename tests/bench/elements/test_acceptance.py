"""The acceptance benchmark: its sizes, its kernel, what it says of every rank."""

from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure, options_for
from ridgeline.bench import node_memory
from ridgeline.bench.elements import acceptance
from ridgeline.bench.elements.acceptance import HealthCheck, elements_out_of_cache, judge, make_gradient_probe
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.parallel.layout import Layout
from ridgeline.runtime.errors import ConfigError, VerificationError


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


def checks_of(triad, seconds=(1e-6,) * 4):
    return [
        HealthCheck("STREAM triad", "GB/s", 1e9, list(triad), True),
        HealthCheck("MPI Allreduce (1 double)", "us", 1e-6, list(seconds), False),
    ]


def machine(tmp_path, *lines):
    path = tmp_path / "m.toml"
    path.write_text("\n".join(["[machine]", 'name = "M"', *lines]))
    return path


def test_nodes_with_a_slow_rank_are_named():
    job = Layout((0, 0, 1, 1), (0, 1, 0, 1), ("nid1", "nid2"))
    good = [10e9, 10e9, 10e9, 9.1e9]
    assert judge(checks_of(good), job, 0.9, {}) == {}
    assert judge(checks_of(good, (1e-6, 1e-6, 1e-6, 9e-6)), job, 0.9, {}) == {}, "a time blames no node"
    found = judge(checks_of([10e9, 10e9, 10e9, 8e9]), job, 0.9, {})
    assert found == {"nid2": ["STREAM triad: 0.80 of the median"]}
    found = judge(checks_of(good), job, 0.9, {"STREAM triad": 20e9})
    assert list(found) == ["nid1", "nid2"]
    assert found["nid1"] == ["STREAM triad: 0.50 of the machine file's figure"]


def test_figures_of_a_machine_file_are_expected_and_nodes_are_written(tmp_path):
    source = 'source = "here"'
    path = machine(
        tmp_path,
        "[node]",
        f'memory_bandwidth = {{ value = 1e9, unit = "GB/s", {source} }}',
        f'peak = {{ value = 1, unit = "TFLOP/s", {source} }}',
        "[network]",
        f'allreduce = {{ value = 1, unit = "us", {source} }}',
    )
    options = options_for(
        "acceptance", points=4, elements=8, hpl=50, machine=str(path), leave_out=str(tmp_path / "out")
    )
    result = acceptance.measure_acceptance(MPI.COMM_SELF, options)
    (host,) = result.extra["leave_out"]
    assert "of the machine file's figure" in result.extra["leave_out"][host][0]
    notes = " ".join(result.notes)
    assert f"Leave out {host}: STREAM triad" in notes
    assert "times what the machine file says" in notes
    assert "% of the peak of a node" in notes
    (line,) = acceptance.write_leave_out(result, options)
    assert line.endswith("1 node to leave out")
    assert (tmp_path / "out").read_text() == f"{host}\n"
    with pytest.raises(ConfigError, match="there is no machine file"):
        measure("acceptance", MPI.COMM_SELF, machine=str(tmp_path / "none.toml"))


def test_a_wrong_solution_of_hpl_is_an_error(monkeypatch):
    monkeypatch.setattr(
        acceptance, "measure_hpl", lambda *arguments: SimpleNamespace(failures=["HPL FAILED"])
    )
    with pytest.raises(VerificationError, match="HPL FAILED"):
        measure("acceptance", MPI.COMM_SELF, points=4, elements=8, hpl=50)


def test_all_figures_are_there():
    result = measure("acceptance", MPI.COMM_SELF, points=4, elements=8, hpl=100)
    units = ["[GFLOP/s]", "[GB/s]", "[GB/s]", "[us]", "[us]", "[GFLOP/s]"]
    assert [row["unit"] for row in result.rows] == units
    assert len(measure("acceptance", MPI.COMM_SELF, points=4, elements=8, hpl=0).rows) == 5
    by_rank = result.extra["by_rank"]
    for row in result.rows:
        (value,) = by_rank[row["name"]]
        assert 0 < value / row["scale"] < 1e5
    assert f"s = {result.settings['large']}" in result.rows[1]["name"]
    assert len(by_rank) == len(result.rows) == 6


@pytest.mark.parametrize(
    ("n", "elements", "words"), [(1, 8, "nx1 is 1"), (33, 8, "nx1 is 33"), (8, 0, "elements is 0")]
)
def test_refusals(n, elements, words):
    with pytest.raises(ConfigError, match=words):
        measure("acceptance", MPI.COMM_SELF, points=n, elements=elements)
