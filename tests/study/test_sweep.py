"""Sweeps: axes written as ranges, cases shared out among processes, what is done when one dies."""

import json
from dataclasses import replace

import pytest

from ridgeline.runtime import locks
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.study import jobs as jobs_module
from ridgeline.study.folder import read_status
from ridgeline.study.jobs import run_jobs
from ridgeline.study.plan import make_plan
from ridgeline.study.request import FILE, read_request
from ridgeline.study.study_options import SweepOptions
from ridgeline.study.sweep import run_sweep, to_result, values_between
from study_tools import case_file, points_of, prepared, run_report


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.F=0.02:0.06:5", "model.F=0.02,0.03,0.04,0.05,0.06"),
        ("model.F=1:0:3", "model.F=1.0,0.5,0.0"),
        ("run.seed=1:4:4", "run.seed=1,2,3,4"),
        ("model.F=0.1,0.3", "model.F=0.1,0.3"),
        ("model.F=0:1:2 & model.k=0.1,0.2", "model.F=0,1 & model.k=0.1,0.2"),
        ("initial.expression=['a:b:c']", "initial.expression=['a:b:c']"),
        ("model.F", "model.F"),
    ],
)
def test_ranges_are_written_out(text, expected):
    assert values_between(text) == expected


def test_a_sweep_that_runs_is_not_run_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(locks.time, "sleep", lambda seconds: pytest.fail("it waits"))
    case, path = case_file(tmp_path), tmp_path / "swept"
    path.mkdir()
    (path / FILE).touch()
    with (
        locks.PathLock.inside(path, "the sweep"),
        pytest.raises(OutputError, match=r"the sweep .* is in use by another run in this process"),
    ):
        run_sweep(str(case), SweepOptions(over=("model.F=0.02,0.03",)), str(path), print)


def test_a_count_without_bound_is_refused_before_it_takes_time_and_memory():
    with pytest.raises(ConfigError, match="a sweep has at most 10000 cases"):
        values_between("model.F=0:1:100000000")


@pytest.mark.parametrize("text", ["F=0:1:1", "F=0:1:x", "F=a:b:3", "F=0:1:2.5", "F=0:1:-3"])
def test_ranges_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match=r"write the range as FIRST:LAST:COUNT with at least 2 values"):
        values_between(text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"over": ("run.threads=1,2",)}, "a sweep cannot vary the threads"),
        ({"over": ("model.f=1,2",)}, "Did you mean 'F'"),
        ({"over": ("model.F=0:1:200", "model.k=0:1:100")}, "the axes have 20000 combinations"),
        ({"over": ("model.F=1:2:0",)}, "write the range as FIRST:LAST:COUNT"),
        ({"over": ("model.F=-1,2",)}, "point n1_F--1"),
        ({"over": ("model.F=0.01,0.02",), "picture": "Q"}, "--picture Q: the cases do not write this field"),
        (
            {"over": ("model.F=0.01,0.02",), "picture": "U", "settings": ("output.every=0",)},
            "the cases write no fields",
        ),
        ({"over": ("model.F=0.01,0.02",), "plane": "q=mid"}, "--plane q=mid: write AXIS=PLACE"),
        ({}, "a sweep requires an axis"),
        ({"over": ("model.F=1,2",), "ranks": 0}, "--ranks"),
        ({"over": ("model.F=0.01,0.02",), "ranks": 8000}, "8000 ranks"),
        ({"over": ("model.F=0.01:0.02:90",), "ranks": 3, "at_once": 80}, "240 ranks"),
    ],
)
def test_refusals_leave_nothing_behind(tmp_path, monkeypatch, given, words):
    monkeypatch.chdir(tmp_path)
    case = case_file(tmp_path)
    with pytest.raises(ConfigError) as caught:
        run_sweep(case, SweepOptions(**given), None, print)
    assert words in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["case.toml"]


class Process:
    """Stands in for a process that does some of its jobs, and ends with a code."""

    def __init__(self, jobs, does, code):
        for job in jobs[:does]:
            report = run_report(job, 1e-3, points_of(job), summary={"U_mean": {"value": 0.5, "unit": "mol"}})
            (job.folder / "report.json").write_text(json.dumps(report))
        self.code = code

    def poll(self):
        return self.code


@pytest.fixture
def processes(monkeypatch):
    """Return the names of the jobs that each process was started for; each does one job and dies of a signal."""
    started = []

    def start(batch, folder, number):
        started.append([job.point.name for job in batch])
        return Process(batch, 1, -9)

    monkeypatch.setattr(jobs_module, "start_batch", start)
    monkeypatch.setattr(jobs_module, "POLL", 0.0)
    return started


def test_a_process_that_dies_costs_one_case(tmp_path, processes):
    study, plan, jobs = prepared(tmp_path, {"vary": (values_between("run.seed=1:7:7"),), "repeat": 1})
    jobs = sorted(jobs, key=lambda job: job.point.name)
    said = []
    found = run_jobs(plan, jobs, study.path, said.append, 2)
    assert [one.state for one in found] == ["done", "done", "failed", "failed", "done", "done", "failed"]
    assert "its process ended with exit code -9 (its log is processes/0.log)" in found[2].why
    assert [[name[-1] for name in names] for names in processes] == [
        ["1", "3", "5", "7"],
        ["2", "4", "6"],
        ["5", "7"],
        ["6"],
    ]
    assert said[-1].startswith("7 of 7: ")
    assert all(read_status(job.folder).state == one.state for job, one in zip(jobs, found, strict=True))
    table = to_result(plan, found)
    assert [row["U_mean"] for row in table.rows[:3]] == [0.5, 0.5, None]
    assert [row["state"] for row in table.rows].count("failed") == 3
    assert len(table.notes) == 3
    processes.clear()
    run_jobs(plan, jobs, study.path, said.append, 9)
    assert processes == [["n1_seed-3"], ["n1_seed-4"], ["n1_seed-7"]]


def test_a_case_whose_process_died_while_it_wrote_its_report_is_the_failed_one(tmp_path, monkeypatch):
    study, plan, jobs = prepared(tmp_path, {"vary": ("run.seed=1,2",), "repeat": 1})
    batches = []

    def start(batch, folder, number):
        batches.append([job.point.name for job in batch])
        (batch[0].folder / "report.json").write_text('{"model": "gray_')
        return Process(batch, 0, -9)

    monkeypatch.setattr(jobs_module, "start_batch", start)
    jobs.sort(key=lambda job: plan.order[job.point.name])
    found = run_jobs(plan, jobs, study.path, print, 1)
    assert [one.state for one in found] == ["failed", "failed"]
    assert batches == [["n1_seed-1", "n1_seed-2"], ["n1_seed-2"]]


def test_keys_that_change_together_are_all_named(tmp_path):
    together = {"vary": ("model.F=0.01,0.01,0.02 & model.k=0.05,0.06,0.06",)}
    request = read_request(case_file(tmp_path), together)
    for asked in (request, replace(request, all_keys=True)):
        names = [point.name for point in make_plan(asked).points]
        assert names == ["n1_F-0.01_k-0.05", "n1_F-0.01_k-0.06", "n1_F-0.02_k-0.06"]
    distinct = read_request(case_file(tmp_path), {"vary": ("model.F=0.01,0.02 & model.k=0.05,0.06",)})
    assert [point.name for point in make_plan(distinct).points] == ["n1_F-0.01", "n1_F-0.02"]
