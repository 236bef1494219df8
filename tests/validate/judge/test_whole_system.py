"""Whole-system tests against baseline and machine file, pairs that are active at once, and congestion in words."""

from copy import deepcopy

import numpy as np
import pytest

from ridgeline.config.machine_file import check_machine
from ridgeline.validate.fabric.fabric import Fabric
from ridgeline.validate.judge.congestion_words import congestion_in_words
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Thresholds, limits_of_machine
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity

ALLREDUCE = {
    "benchmark": "allreduce",
    "columns": {"ranks": "ranks", "size": "B", "seconds": "mean s", "least": "min", "most": "max"},
    "rows": [{"ranks": 64, "size": 8, "seconds": 83.5e-6}, {"ranks": 64, "size": 1024, "seconds": 95e-6}],
}
MACHINE = """
[machine]
name = "test"
nodes = { value = 1000, source = "a test" }
[node]
ranks = { value = 8, source = "a test" }
[network]
injection = { value = 200, unit = "GB/s", source = "a test" }
allreduce = { value = 80, unit = "us", source = "a test" }
group_nodes = { value = 64, source = "a test" }
global_bandwidth = { value = 100, unit = "TB/s", source = "a test" }
[[all_to_all]]
nodes = { value = 64, source = "a test" }
efficiency = { value = 0.5, source = "a test" }
[[all_to_all]]
nodes = { value = 1000, source = "a test" }
efficiency = { value = 0.2, source = "a test" }
"""


def system(*results, n=64) -> Measurements:
    measurements = Measurements([f"n{k}" for k in range(n)], node_of_rank=list(range(n)))
    measurements.node_quantities = [NodeQuantity("stream", "B/s", True, np.full((n, 3), 4e11))]
    measurements.system = list(results)
    return measurements


def slower(result, factor):
    result = deepcopy(result)
    for row in result["rows"]:
        row["seconds"] *= factor
    return result


def test_a_slow_allreduce_is_judged_by_the_baseline():
    """130.6 us where 83.5 us are usual: Hadri et al. began their diagnosis with it."""
    verdict = screen(system(slower(ALLREDUCE, 130.6 / 83.5)), baseline=system(ALLREDUCE))
    (suspect,) = verdict.suspects
    assert (suspect.kind, suspect.quantities, verdict.exit_code) == ("system", ["allreduce seconds"], 1)
    assert suspect.slowdown == pytest.approx(0.564, abs=0.001)
    assert len(verdict.good_nodes()) == 64
    assert screen(system(slower(ALLREDUCE, 1.15)), baseline=system(ALLREDUCE)).exit_code == 0


def test_a_slow_allreduce_is_judged_by_limit_and_machine_file(tmp_path):
    limits = limits_of_machine(check_machine(tmp_path / "m.toml", MACHINE), 0.7, 64, 8)
    assert limits["allreduce seconds"] == pytest.approx(80e-6 / 0.7)
    for thresholds in (Thresholds(machine_limits=limits), Thresholds(limits={"allreduce seconds": 1.2e-4})):
        assert screen(system(slower(ALLREDUCE, 130.6 / 83.5)), thresholds).exit_code == 1
        assert screen(system(ALLREDUCE), thresholds).exit_code == 0


def test_the_machine_file_bounds_alltoall_and_bisection(tmp_path):
    machine = check_machine(tmp_path / "m.toml", MACHINE)
    small, large = limits_of_machine(machine, 0.5, 64, 8), limits_of_machine(machine, 0.5, 500, 8)
    assert small["alltoall bandwidth"] == pytest.approx(0.5 * 0.5 * 200e9 * 64)
    assert large["alltoall bandwidth"] == pytest.approx(0.5 * 0.2 * 200e9 * 500)
    assert small["multi-bandwidth bandwidth"] == pytest.approx(0.5 * 0.5 * 200e9 * 64)
    assert large["multi-bandwidth bandwidth"] == pytest.approx(0.5 * 0.5 * 100e12 * 0.5)
    assert "multi-bandwidth bandwidth" not in limits_of_machine(machine, 0.5, 64, 1)  # one interface of eight


def active_pairs(slow):
    seconds = np.full(32, 1e-3)
    seconds[5] *= slow
    pairs = [[k, k + 32] for k in range(32)]
    return {
        "benchmark": "multi-bandwidth",
        "columns": {"size": "B", "bandwidth": "B/s"},
        "rows": [{"size": 8, "bandwidth": 1e9}],
        "extra": {"node_pairs": pairs, "node_pair_seconds": seconds.tolist()},
    }


def test_a_pair_among_many_that_are_active_is_judged():
    assert screen(system(active_pairs(1.9))).suspects == []
    (suspect,) = screen(system(active_pairs(3.0))).suspects
    assert (suspect.kind, suspect.nodes) == ("link", [5, 37])
    assert suspect.reasons == ["multi-bandwidth: 3 times the usual time while all pairs were active"]


def test_where_the_fabric_is_known_its_nodes_stay():
    measurements = system(active_pairs(3.0))
    measurements.fabric = Fabric(["a", "b"], np.repeat([0, 1], 32), np.array([[0, 1]]))
    verdict = screen(measurements)
    assert [suspect.kind for suspect in verdict.suspects] == ["route"]
    assert len(verdict.good_nodes()) == 64


def congestion(**impacts):
    rows = [{"block": "isolated", "test": "allreduce", "mean": 66.4e-6, "percentile": 95e-6}]
    rows += [{"block": "impact", "test": t, "mean": m, "percentile": p} for t, (m, p) in impacts.items()]
    return {"benchmark": "congestion", "columns": {"block": "tests", "unit": "units"}, "rows": rows}


def test_congestion_is_told_in_words_beside_published_figures():
    told = congestion_in_words([congestion(allreduce=(1.1, 4.0))])
    assert told == [
        "congestion: the 99th percentile of allreduce is 4 times its quiet value of 95 us: latency-bound codes, "
        "which wait for many small sums, will suffer (Aurora on 9658 nodes: 2.4 and 3.3 times; ideal: 1)."
    ]
    (quiet,) = congestion_in_words([congestion(**{"ring-latency": (1.0, 1.1)})])
    assert quiet.startswith("congestion: traffic of others does not slow down latency noticeably")
    (rate,) = congestion_in_words([congestion(**{"ring-bandwidth": (1.5, 2.0)})])
    assert "falls to 0.5 of its quiet value" in rate
    assert "will notice it" in rate
    assert congestion_in_words([congestion(allreduce=(None, None))]) == [
        "congestion: the impact on allreduce was not measured."
    ]


def test_congestion_is_compared_with_the_baseline():
    before, now = congestion(allreduce=(2.0, 3.0)), congestion(allreduce=(2.2, 9.0))
    (suspect,) = screen(system(now), baseline=system(before)).suspects
    assert suspect.quantities == ["congestion impact percentile"]


def test_a_switch_whose_alltoall_is_slow_is_a_suspect_as_a_whole():
    measurements = system()
    measurements.fabric = Fabric([f"s{k}" for k in range(16)], np.repeat(np.arange(16), 4), np.zeros((0, 2)))
    values = np.full((64, 3), 1e10)
    values[8:12] *= 0.7
    measurements.node_quantities.append(NodeQuantity("switch all-to-all", "B/s", True, values))
    (suspect,) = screen(measurements).suspects
    assert (suspect.kind, suspect.name, suspect.nodes) == ("switch", "s2", [8, 9, 10, 11])
