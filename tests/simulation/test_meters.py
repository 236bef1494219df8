"""Energy and measured traffic of a run: sums over nodes and ranks, and the line of each in the report."""

import pytest

from ridgeline.runtime.energy import EnergyUsed
from ridgeline.simulation.meters import sum_energy, sum_traffic
from ridgeline.simulation.print_report import energy_line, meter_lines, traffic_line

WHY = {"RAPL": "no zone", "NVML": "no driver"}


def used(joules, covers="processors", bound=1e4) -> EnergyUsed:
    return EnergyUsed(joules, covers, {}, WHY, 20.0, bound)


def test_joules_of_nodes_steps_points_and_ranks():
    nodes = [("a", used(300.0)), ("b", used(500.0, bound=2e3))]
    found = sum_energy(nodes, points=1000, steps=40, ranks=8)
    expected = {
        "joules": 800.0, "covers": "processors", "seconds": 20.0, "watts": 40.0, "joules_per_step": 20.0,
        "joules_per_point_and_step": 0.02, "joules_per_rank": 100.0, "exact_below": 2e3,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert [(node["host"], node["joules"]) for node in found["nodes"]] == [("a", 300.0), ("b", 500.0)]
    assert energy_line(found) == (
        "energy: 800 J (processors, 40 W), 100 J per rank, 20 J per step, 0.02 J per point and step "
        "(exact if no counter exceeded 2000 W)"
    )


def test_a_node_that_cannot_be_read_leaves_no_sum():
    found = sum_energy([("a", used(300.0)), ("b", used(None, ""))], 1000, 40, 8)
    assert found["joules"] is found["joules_per_step"] is found["joules_per_rank"] is found["watts"] is None
    assert energy_line(found) == "energy: not readable (b: RAPL: no zone; NVML: no driver)"


def test_nodes_that_count_different_parts_have_no_sum():
    found = sum_energy([("a", used(300.0)), ("b", used(500.0, "the whole node"))], 1000, 40, 8)
    assert found["joules"] is None
    assert energy_line(found) == "energy: not readable (the nodes measure different parts of their hardware)"


def test_a_run_without_steps_has_no_energy_of_a_step():
    found = sum_energy([("a", used(300.0, bound=None))], 1000, 0, 1)
    assert found["joules_per_step"] is found["joules_per_point_and_step"] is None
    assert energy_line(found) == "energy: 300 J (processors, 15 W), 300 J per rank"


def test_measured_traffic_beside_the_least():
    found = sum_traffic([{"read": 3e9, "write": 1e9}, {}, {"read": 2e9, "write": 2e9}], 4.0, 2e9)
    assert found == {"read": 5e9, "write": 3e9, "bytes": 8e9, "bytes_per_second": 2e9, "over_least": 4.0}
    line = "measured memory traffic: 8 GB, 2 GB/s, 4 times the least"
    assert traffic_line({"kind": "memory controllers", "unreadable": [], **found}) == line


def test_misses_are_told_as_misses():
    found = sum_traffic([{"misses": 3e6}, {"misses": 1e6}], 2.0, 2e9)
    assert found == {"misses": 4e6, "misses_per_second": 2e6}
    line = "cache misses: 4e+06, 2 million per second; traffic not readable (no controllers)"
    assert traffic_line({"kind": "cache misses", "unreadable": ["no controllers"], **found}) == line


@pytest.mark.parametrize("counts", [[{}, {}], [{"misses": 3e6}, None]])
def test_a_rank_whose_counters_cannot_be_read_leaves_no_sum(counts):
    assert sum_traffic(counts, 2.0, 2e9) == {}
    line = "measured memory traffic: not readable (why)"
    assert traffic_line({"kind": "", "unreadable": ["why"]}) == line


def test_reports_of_older_versions_have_no_meters():
    assert meter_lines({"limits": {}}) == []
