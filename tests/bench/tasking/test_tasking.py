"""The tasking benchmark: every primitive runs and is verified. Speeds themselves are not tested."""

import json
import os

import numpy as np
import pytest
from mpi4py import MPI

import bench_tools
from ridgeline.bench.tasking import array_fill as tasking_array
from ridgeline.bench.tasking import task_communication as tasking_notify
from ridgeline.bench.tasking import task_creation as tasking_create
from ridgeline.bench.tasking.futures import spawn_and_fetch
from ridgeline.bench.tasking.task_communication import use_channel
from ridgeline.bench.tasking.tasking_benchmark import default_workers
from ridgeline.bench.tasking.tasking_options import ITEMS
from ridgeline.bench.tasking.trials import Trials, load_tasking
from ridgeline.bench.tasking.worker_functions import fibonacci
from ridgeline.runtime.errors import ConfigError, RidgelineError, VerificationError

FEW = Trials(3, 1)


def measure(*items, **options):
    return bench_tools.measure(
        "tasking", MPI.COMM_SELF, items=items, trials=3, warm_up=1, n_bytes=80_008, **options
    )


@pytest.fixture
def without_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")


@pytest.fixture(scope="module")
def everything():
    return measure(*ITEMS, workers=[2, 1], fibonacci=[9])


def test_every_series_has_all_trials_and_a_name_of_its_own(everything):
    timed = [row for row in everything.rows if row["note"] is None]
    assert all(row["trials"] == 3 and row["seconds"] > 0 for row in timed)
    assert len(everything.extra["samples"]) == len(everything.rows)
    assert {row["item"] for row in everything.rows} == set(ITEMS)
    json.dumps(everything.to_dict())


def test_primitives_of_every_item(everything):
    def of(item, key):
        return {row[key] for row in everything.rows if row["item"] == item}

    assert len(of("creation", "primitive")) == len(of("switch", "primitive")) == 5
    assert len(of("notification", "primitive")) == 6
    assert len(of("channel", "primitive")) == 8
    assert of("channel", "operation") == {"put", "peek", "take"}
    assert of("futures", "workers") == of("initialise", "workers") == {1, 2}
    assert of("start", "workers") == {1, 2}
    assert {"Python interpreter", "Python with MPI", "multiprocessing, spawn"} <= of("start", "primitive")
    assert of("jitter", "operation") == {"longest delay", "pause", "call"}
    assert of("futures", "work") == {"null", "fib 9"}
    assert of("initialise", "primitive") == {
        "C, OpenMP", "C, pthreads", "Numba prange", "process pool, shared memory", "MPI ranks"
    }  # fmt: skip


def test_c_baselines_are_compared_with(everything):
    if load_tasking()[0] is None:
        pytest.skip("no C compiler here")
    c = [row for row in everything.rows if row["primitive"].startswith("C,")]
    assert all(row["note"] is None or "OpenMP" in row["note"] for row in c)
    with_ratio = [row for row in everything.rows if "over_c" in row]
    alone = {"start", "jitter"} | ({"initialise"} if any(row["note"] for row in c) else set())
    assert {row["item"] for row in with_ratio} == set(ITEMS) - alone


def test_without_a_compiler_the_rows_say_so(without_compiler):
    result = measure("creation", "channel")
    c = [row for row in result.rows if row["primitive"].startswith("C,")]
    assert len(c) == 4
    assert all("no C compiler" in row["note"] and "seconds" not in row for row in c)
    assert all(row["seconds"] > 0 and "over_c" not in row for row in result.rows if row not in c)
    assert "no C compiler" in result.notes[0]


def test_threads_are_bound_to_one_core_only_meanwhile():
    before = os.sched_getaffinity(0)
    with tasking_create.one_core():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_a_channel_that_mixes_numbers_up_is_noticed():
    items = []
    with pytest.raises(VerificationError, match="last in, first out: the numbers that were taken"):
        use_channel("last in, first out", FEW, items.append, items.pop)
    items = []
    with pytest.raises(VerificationError):
        use_channel("peeks behind", FEW, items.append, lambda: items.pop(0), lambda: items[-1])


def test_a_wrong_result_of_a_task_is_noticed():
    class Pool:
        def submit(self, function, *arguments):
            return self

        def result(self):
            return [0, 1, 2]

    with pytest.raises(VerificationError, match=r"returned \[0, 1, 2\]"):
        spawn_and_fetch(Pool(), "broken", 1, FEW, [3])


def test_an_element_that_was_not_set_is_noticed():
    array = np.full(10, FEW.total - 0.5)
    tasking_array._check(array, FEW, "whole")
    array[4] = 0.0
    with pytest.raises(
        VerificationError, match="1 of 10 elements were not set in the last trial, the first at 4"
    ):
        tasking_array._check(array, FEW, "hole")


def test_parts_cover_the_array_once():
    for n, parts in ((10, 3), (5, 7), (12, 4)):
        ends = [tasking_array.bounds(n, part, parts) for part in range(parts)]
        assert [i for low, high in ends for i in range(low, high)] == list(range(n))


def test_a_waiting_process_that_dies_is_an_error(monkeypatch):
    monkeypatch.setattr(tasking_notify, "await_event", os._exit)
    with pytest.raises(RidgelineError, match="ended too early"):
        tasking_notify._notify_process(FEW, "event")


def test_fibonacci_numbers():
    assert fibonacci(0) == []
    assert fibonacci(8) == [0, 1, 1, 2, 3, 5, 8, 13]
    assert fibonacci(93)[-1] < 2**63 <= fibonacci(94)[-1]


def test_workers_up_to_the_cores():
    assert default_workers(1) == [1]
    assert default_workers(6) == [1, 2, 4, 6]
    assert default_workers(96) == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("items", "options", "words"),
    [
        (["creation", "flight"], {}, "--item flight: unknown item"),
        ([], {}, "Give one item"),
        (["futures"], {"workers": [0]}, "workers is 0, but it must be 1 or more"),
        (["futures"], {"fibonacci": [94]}, "1 to 93"),
        (["initialise"], {"workers": [20_000]}, "the array is too small for 20000 workers"),
    ],
)
def test_refusals(items, options, words):
    with pytest.raises(ConfigError, match=words):
        measure(*items, **options)
