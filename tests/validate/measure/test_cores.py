"""Every core of a node works and can be blamed; a node alone, and the whole system, have limits."""

import os
import time
from types import SimpleNamespace

import numpy as np
import pytest

from node_trees import write
from ridgeline.bench.memory import memory_check
from ridgeline.config.machine_file import check_machine
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Thresholds, limits_of_machine
from ridgeline.validate.measure import cores, validation_levels, validation_stages
from ridgeline.validate.measure.cores import (
    cores_of_rank,
    count_cores,
    first_threads,
    on_cores,
    remarks_on_cores,
)
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity
from ridgeline.validate.validation_options import ValidationOptions


def test_one_hardware_thread_of_each_core_works(tmp_path):
    for cpu, siblings in {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5", 6: "6-7", 7: "6-7"}.items():
        write(tmp_path, {f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": siblings})
    assert first_threads({0, 1, 4, 5, 6, 7}, tmp_path) == [0, 1, 6]
    assert first_threads({4, 5, 9}, tmp_path) == [4, 5, 9]


@pytest.mark.parametrize(
    ("mine", "masks", "expected"),
    [
        ({0, 1, 2, 3}, 1, [[0, 1, 2, 3]]),
        ({0, 1, 2, 3, 4}, 2, [[0, 1], [2, 3, 4]]),
        ({0, 1}, 3, [[0], [0], [1]]),
    ],
)
def test_ranks_share_the_cores_that_all_of_them_may_use(monkeypatch, tmp_path, mine, masks, expected):
    monkeypatch.setattr(cores, "usable_cores", lambda: mine)
    found = [
        cores_of_rank(SimpleNamespace(rank=rank, allgather=lambda one: [one] * masks), tmp_path)
        for rank in range(masks)
    ]
    assert found == expected


def test_bound_ranks_keep_their_own_cores(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "usable_cores", lambda: {2, 3})
    comm = SimpleNamespace(rank=1, allgather=lambda mine: [[0, 1], mine])
    assert cores_of_rank(comm, tmp_path) == [2, 3]


def test_cores_that_no_rank_may_use_are_counted_and_named(monkeypatch, tmp_path):
    write(tmp_path, {"sys/devices/system/cpu/online": "0-7"})
    for cpu in range(8):
        file = f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        write(tmp_path, {file: f"{cpu % 4},{cpu % 4 + 4}"})
    monkeypatch.setattr(cores, "usable_cores", lambda: {1, 5})
    comm = SimpleNamespace(allgather=lambda mine: [mine, {2}])
    assert count_cores(comm, tmp_path) == (2, 4)
    assert count_cores(comm, tmp_path / "none") == (3, 3), "what is not known is not complained of"
    few, fine, less = (2, 4), (4, 4), (1, 4)
    said = remarks_on_cores([few, fine, less, few], ["a", "b", "c", "d"])
    assert [line.split(",")[0] for line in said] == [
        "2 nodes",
        "c: the ranks of a node may use 1 of its 4 cores",
    ]
    assert "such as a: the ranks of a node may use 2 of its 4 cores" in said[0]


def test_each_thread_is_on_its_core_and_this_process_stays_where_it_was():
    before = os.sched_getaffinity(0)
    here = sorted(before)
    assert on_cores(here, lambda: os.sched_getaffinity(0)) == [{core} for core in here] or len(here) == 1
    assert os.sched_getaffinity(0) == before


def alone(**values) -> Measurements:
    """One node with these figures."""
    found = Measurements(["n0"], node_of_rank=[0], parts={"slowest core": {0: "core 17"}})
    found.node_quantities = [
        NodeQuantity(name.replace("_", " "), "1", True, np.full((1, 3), value))
        for name, value in values.items()
    ]
    return found


def test_a_node_alone_is_not_healthy_at_any_speed():
    (suspect,) = screen(alone(stream=1e6)).suspects
    assert suspect.name == "n0"
    assert suspect.reasons == ["stream: 1e+06, but at least 5e+08 is required"]
    assert screen(alone(stream=4e10)).exit_code == 0


def test_a_slow_core_is_named():
    (suspect,) = screen(alone(slowest_core=0.2)).suspects
    assert suspect.reasons[0].startswith("slowest core (core 17): 0.2")
    assert screen(alone(slowest_core=0.55)).suspects == []  # as on a processor with two kinds of cores


def test_a_system_is_not_healthy_at_any_speed():
    found = alone(stream=4e10)
    rows = [{"size": 1024, "bandwidth": 1.0}]
    found.system = [{"benchmark": "alltoall", "columns": {"size": "B", "bandwidth": "B/s"}, "rows": rows}]
    (suspect,) = screen(found).suspects
    assert suspect.kind == "system"
    rows[0]["bandwidth"] = 1e9
    assert screen(found).exit_code == 0


MACHINE = """
[machine]
name = "Test"
[node]
memory_bandwidth = { value = 100, unit = "GB/s", source = "a test" }
peak = { value = 1, unit = "TFLOP/s", source = "a test" }
[network]
injection = { value = 20, unit = "GB/s", source = "a test" }
latency = { value = 2e-6, unit = "s", source = "a test" }
[[all_to_all]]
nodes = { value = 8, source = "a test" }
efficiency = { value = 0.5, source = "a test" }
"""


def test_limits_come_from_the_machine_file_unless_the_site_has_its_own(tmp_path):
    machine = check_machine(tmp_path / "machine.toml", MACHINE)
    limits = limits_of_machine(machine, 0.5, 4, 2)
    assert limits == {"stream": 5e10, "peak": 2.5e11, "latency": 4e-6, "alltoall bandwidth": 2e10}
    assert limits_of_machine(machine, 0.5, 1, 1) == {"stream": 5e10, "peak": 5e11}
    thresholds = Thresholds(machine_limits=limits, limits={"peak": 1e9})
    assert (thresholds.limit("stream"), thresholds.limit("peak"), thresholds.limit("x")) == (5e10, 1e9, None)
    assert screen(alone(stream=4e10), thresholds).exit_code == 1
    assert screen(alone(stream=6e10), thresholds).exit_code == 0


def test_no_stage_begins_when_the_time_of_a_prolog_is_over(monkeypatch):
    session = SimpleNamespace(
        plan=ValidationOptions(prolog=True).plan(), comm=SimpleNamespace(bcast=lambda one: one)
    )
    monkeypatch.setattr(time, "monotonic", lambda: 129.0)
    assert validation_levels._no_time(session, 100.0) == ""
    monkeypatch.setattr(time, "monotonic", lambda: 131.0)
    assert validation_levels._no_time(session, 100.0) == "the 30 s of --within are over"
    session.plan = ValidationOptions()
    assert validation_levels._no_time(session, 0.0) == ""


def test_a_prolog_tests_as_much_memory_as_its_time_allows(monkeypatch):
    tested = []
    clock = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))  # a small check takes a second
    monkeypatch.setattr(validation_stages, "memory_available", lambda: 2**40)
    monkeypatch.setattr(validation_stages, "cores_of_rank", lambda _: [0, 1])
    monkeypatch.setattr(validation_stages, "on_cores", lambda cores, action: [action() for _ in cores])
    monkeypatch.setattr(
        memory_check,
        "check_memory",
        lambda size, seconds: tested.append((size, seconds)) or SimpleNamespace(n_errors=0),
    )
    session = SimpleNamespace(
        plan=ValidationOptions(prolog=True, within=12.0).plan(),
        node_comm=SimpleNamespace(size=1),
        on_nodes=lambda setup, repeats: setup()(),
    )
    validation_stages.memory(session)
    assert tested == [(2**25, 0.0)] * 2 + [(2 * 2**25, 0.0)] * 2  # a sixth of 12 s at 32 MiB/s
