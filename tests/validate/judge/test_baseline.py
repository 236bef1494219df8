"""Drift against a stored validation, and baselines that are of another machine."""

import copy
import os

import numpy as np
import pytest

from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.validate.judge.baseline import compare_with_baseline
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.measure.measurements import NodeQuantity, load_measurements, save_measurements
from simulated_system import all_pairs


@pytest.fixture
def before():
    measurements = all_pairs(np.full((6, 6), 1e10))
    noise = 1 + 0.002 * np.random.default_rng(0).standard_normal((6, 3))
    measurements.node_quantities = [NodeQuantity("triad", "B/s", True, 4e11 * noise)]
    measurements.machine = {"processor": "EPYC", "cores": 96}
    rows = [{"size": 8, "bandwidth": 1e8, "mean": 1e-6}, {"size": 64, "bandwidth": 8e8, "mean": 1.2e-6}]
    columns = {"size": "B", "bandwidth": "MB/s", "mean": "us"}
    measurements.system = [{"benchmark": "alltoall", "columns": columns, "rows": rows}]
    return measurements


def test_the_same_is_no_drift(before):
    verdict = screen(before, baseline=copy.deepcopy(before))
    assert verdict.exit_code == 0
    assert {drift.quantity for drift in verdict.drifts} == {
        "triad", "bandwidth", "alltoall bandwidth", "alltoall mean",
    }  # fmt: skip
    assert not [drift for drift in verdict.drifts if drift.slow]


def test_a_node_that_became_slow_is_named_by_its_host(before):
    now = copy.deepcopy(before)
    now.nodes = [*now.nodes[3:], *now.nodes[:3]]  # in another order: host names tell
    now.pair_quantities = []
    values = now.node_quantities[0].values
    now.node_quantities[0].values = np.concatenate([values[3:], values[:3]])
    before.node_quantities[0].values[4] *= 1.4
    verdict = screen(now, baseline=before)
    assert [(s.kind, s.name) for s in verdict.suspects] == [("node", "nid4")]
    assert "where the baseline has" in verdict.suspects[0].reasons[0]
    assert ", 40" in verdict.suspects[0].reasons[0]
    assert verdict.exit_code == 1


def test_a_system_that_became_slow_as_a_whole_blames_no_node(before):
    now = copy.deepcopy(before)
    now.pair_quantities[0].values *= 0.8
    verdict = screen(now, baseline=before)
    assert [s.kind for s in verdict.suspects] == ["system"]
    assert verdict.suspects[0].slowdown == pytest.approx(0.25, abs=0.01)


def test_a_link_that_lost_speed_is_named_though_others_were_never_faster():
    """Links of two kinds; one of the fast kind is now as fast as the slow kind."""
    speeds = np.full((12, 12), 2e10)
    speeds[:, ::2] = speeds[::2] = 1.4e10
    before, now = all_pairs(speeds, seed=1), all_pairs(speeds, seed=2)
    first = now.pair_quantities[0].first
    lost = (first == 3) & (now.pair_quantities[0].second == 7)
    now.pair_quantities[0].values[lost] *= 0.7
    loose = Thresholds(slowdown=0.9)
    assert screen(now, loose).suspects == []
    verdict = screen(now, loose, before)
    assert [(s.kind, s.name, s.quantities) for s in verdict.suspects] == [
        ("link", "nid3 - nid7", ["bandwidth"])
    ]
    assert verdict.suspects[0].reasons[0].endswith("more time than in the baseline")
    # In another order, with a node that the baseline has not: host names tell.
    now.nodes[0] = "new"
    before.nodes.reverse()
    old = before.pair_quantities[0]
    old.first, old.second = 11 - old.second, 11 - old.first
    assert [s.name for s in screen(now, loose, before).suspects] == ["nid3 - nid7"]
    # A node whose links all lost is the node's drift alone, and nothing is wrong with links that were always slow.
    slow = all_pairs(speeds, seed=3)
    of_node = (slow.pair_quantities[0].first == 5) | (slow.pair_quantities[0].second == 5)
    slow.pair_quantities[0].values[of_node] *= 0.7
    verdict = screen(slow, loose, all_pairs(speeds, seed=1))
    assert [(s.kind, s.name) for s in verdict.suspects] == [("node", "nid5")]
    assert screen(all_pairs(speeds, seed=4), loose, all_pairs(speeds, seed=1)).suspects == []


def test_benchmarks_of_the_whole_system_drift(before):
    now = copy.deepcopy(before)
    for row in now.system[0]["rows"]:
        row["bandwidth"] /= 1.5
    drifts = compare_with_baseline(now, before)
    assert [(d.quantity, round(d.slowdown, 3)) for d in drifts if d.slow] == [("alltoall bandwidth", 0.5)]


def test_faster_is_told_and_is_no_fault(before):
    now = copy.deepcopy(before)
    now.node_quantities[0].values[2] *= 1.5
    now.pair_quantities = before.pair_quantities = []
    drifts = [drift for drift in compare_with_baseline(now, before) if drift.node is not None]
    assert [(drift.name, drift.slow) for drift in drifts] == [("nid2", False)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machine": {"processor": "Xeon", "cores": 96}}, ["processor is EPYC here and Xeon in the file"]),
        ({"machine": {}}, ["cores is 96 here and None in the file"]),
        ({"nodes": [f"other{n}" for n in range(6)]}, ["none of its nodes", "other0"]),
    ],
)
def test_a_baseline_of_another_machine_is_an_error(before, change, words):
    other = copy.deepcopy(before)
    for key, value in change.items():
        setattr(other, key, value)
    with pytest.raises(ConfigError, match="belongs to another machine") as error:
        screen(before, baseline=other)
    assert [word for word in words if word not in str(error.value)] == []


@pytest.mark.parametrize(("stored", "words"), [(True, "with"), (False, "without")])
def test_a_baseline_that_differs_in_quick_alone_is_not_of_another_machine(before, stored, words):
    now = copy.deepcopy(before)
    before.machine["quick"], now.machine["quick"] = stored, not stored
    with pytest.raises(
        ConfigError,
        match=rf"^--baseline: the file was stored {words} --quick, .*Validate {words} --quick, or",
    ):
        screen(now, baseline=before)


def test_a_stored_baseline_compares_as_the_one_in_memory(before, tmp_path):
    before.node_quantities[0].values[1, 2] = np.nan
    save_measurements(before, tmp_path / "baseline.json")
    stored = load_measurements(tmp_path / "baseline.json")
    assert compare_with_baseline(before, stored) == compare_with_baseline(before, before)


@pytest.mark.parametrize("content", ["", "[" * 100_000, "[]", '{"schema": 1}', "{}"])
def test_a_damaged_baseline_is_refused_in_one_sentence(content, tmp_path):
    path = tmp_path / "baseline.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=rf"^{path}[^\n]*$"):
        load_measurements(path)


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_a_baseline_that_is_no_regular_file_is_not_read(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(OutputError, match=f"cannot read {path}: .* is not a regular file"):
        load_measurements(path)
