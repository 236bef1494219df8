"""The folder of a study: jobs that are run, killed, continued, failed, damaged, added and refused."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ridgeline.models import memory_check
from ridgeline.runtime import locks
from ridgeline.runtime.errors import ConfigError, LauncherError, OutputError
from ridgeline.study.command import run_study
from ridgeline.study.folder import StudyFolder, open_study, read_status
from ridgeline.study.jobs import run_jobs
from ridgeline.study.request import read_request
from study_tools import CASE, Runner, case_file, prepared

WEAK = {"weak": True, "ranks": (1, 2), "repeat": 2}
NAMES = ["n1/1", "n1/2", "n2/1", "n2/2"]


def run(tmp_path, runner, given=WEAK):
    """Run a study; return its folder and what was told."""
    study, plan, jobs = prepared(tmp_path, given)
    told = []
    runner.run(run_jobs, plan, jobs, study.path, told.append)
    return study, told


def states(study):
    return {found.name: found.state for found in study.statuses()}


def test_every_job_is_run_once_in_the_random_order(tmp_path):
    runner = Runner()
    study, told = run(tmp_path, runner)
    _, plan, _ = prepared(tmp_path, WEAK)
    assert runner.names == [f"{point.name}/{number}" for point, number in plan.jobs()]
    assert sorted(runner.names) == NAMES
    assert states(study) == dict.fromkeys(NAMES, "done")
    assert told[0] == f"1 of 4: {runner.names[0]}"
    assert {path.name for path in study.path.iterdir()} == {"study.toml", "case.toml", "points"}
    job = json.loads((study.path / "points" / "n2" / "1" / "job.json").read_text())
    assert (job["ranks"], job["size"], job["scaling"]) == (2, "32 x 16 x 16", "weak")
    assert any(part.endswith('n2/1/gray_scott.bp"') for part in job["arguments"])


def test_outputs_of_jobs_do_not_collide(tmp_path):
    _, _, jobs = prepared(tmp_path, {**WEAK, "outputs": True})
    written = [name for job in jobs for name in (*job.point.paths, "report.json")]
    paths = {part for job in jobs for part in job.arguments if str(job.folder) in part}
    assert len(paths) == len(written) == 3 * len(jobs)


def test_an_interrupted_study_does_the_missing_jobs_only(tmp_path):
    _, _, jobs = prepared(tmp_path, WEAK)
    order = [job.name for job in jobs]
    first = Runner(wrong={order[2]: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, first)
    assert first.names == order[:3]
    second = Runner()
    study, told = run(tmp_path, second)
    assert second.names == order[2:]
    assert told[0] == "2 of 4 jobs are done already"
    assert set(states(study).values()) == {"done"}


KILLED = """\
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from study_tools import Runner, prepared
from ridgeline.study.jobs import run_jobs

class Killed(Runner):
    def end(self, job):
        if len(self.names) == 2:
            (job.folder / "report.json").write_text('{{"model": "gray_')
            os.kill(os.getpid(), signal.SIGKILL)
        return super().end(job)

study, plan, jobs = prepared(Path({folder!r}), {given!r})
Killed().run(run_jobs, plan, jobs, study.path, print)
"""


def test_a_study_that_was_killed_is_continued(tmp_path):
    """The third job kills the process that runs the study, half a report written."""
    code = KILLED.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path), given=WEAK)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    study, _, jobs = prepared(tmp_path, WEAK)
    assert states(study) == {jobs[0].name: "done", jobs[1].name: "done", jobs[2].name: "damaged"}
    runner = Runner()
    run(tmp_path, runner)
    assert runner.names == [job.name for job in jobs[2:]]
    assert set(states(study).values()) == {"done"}


def test_a_failed_job_keeps_its_error_and_the_others_go_on(tmp_path):
    runner = Runner(wrong={"n2/1": 6})
    study, told = run(tmp_path, runner)
    assert states(study) == dict.fromkeys(NAMES, "done") | {"n2/1": "failed"}
    (failed,) = (found for found in study.statuses() if found.state == "failed")
    assert failed.why == "exit code 6 error: the disk is full; free some space"
    assert "n2/1 failed: exit code 6 error: the disk is full; free some space" in told
    again = Runner()
    run(tmp_path, again)
    assert again.names == ["n2/1"]
    assert set(states(study).values()) == {"done"}


@pytest.mark.parametrize(
    ("text", "state", "why"),
    [
        ('{"model": "gray', "failed", "report.json is not JSON, or it is cut off"),
        ("[]", "failed", "report.json is not JSON, or it is cut off (its content is not a table)"),
        ('{"answer": 42}', "failed", "is JSON, but not the report of a run or a benchmark"),
        ("[" * 100_000, "failed", "report.json is not JSON, or it is cut off"),
        (
            '{"model": 1, "work": 1, "seconds_per_step": 1, "run": []}',
            "failed",
            "does not say where the run ended",
        ),
    ],
)
def test_a_job_that_ends_well_without_a_report_has_failed(tmp_path, text, state, why):
    study, _ = run(tmp_path, Runner(wrong={"n1/1": text}))
    (found,) = (found for found in study.statuses() if found.name == "n1/1")
    assert found.state == state
    assert why in found.why


def test_a_run_that_was_stopped_is_not_done(tmp_path):
    study, _ = run(tmp_path, Runner())
    path = study.path / "points" / "n1" / "1" / "report.json"
    report = json.loads(path.read_text())
    report["run"] |= {"last_step": 4, "ended": "signal"}
    path.write_text(json.dumps(report))
    found = read_status(path.parent)
    assert (found.state, found.why) == ("missing", "it ended at step 4 of 10 (signal)")
    runner = Runner()
    run(tmp_path, runner)
    assert runner.names == ["n1/1"]


def test_damaged_and_missing_files_are_named(tmp_path):
    study, _ = run(tmp_path, Runner())
    points = study.path / "points"
    (points / "n1" / "1" / "report.json").write_text("")
    (points / "n1" / "2" / "report.json").unlink()
    (points / "n2" / "1" / "job.json").write_text("{")
    (points / "n2" / "2" / "error.txt").write_text("exit code 9\nerror: wrong\n")
    found = {
        one.name: (one.state, one.why.split(":")[0].split(" is not JSON")[0]) for one in study.statuses()
    }
    assert found == {
        "n1/1": ("damaged", "report.json"),
        "n1/2": ("missing", "it has no report yet"),
        "n2/1": ("damaged", "job.json"),
        "n2/2": ("failed", "exit code 9 error"),
    }
    runner = Runner()
    run(tmp_path, runner)
    assert sorted(runner.names) == NAMES
    assert set(states(study).values()) == {"done"}


def test_a_study_may_grow(tmp_path):
    run(tmp_path, Runner())
    runner = Runner()
    study, _ = run(tmp_path, runner, {**WEAK, "ranks": (1, 2, 4), "repeat": 3})
    assert sorted(runner.names) == ["n1/3", "n2/3", "n4/1", "n4/2", "n4/3"]
    assert len(states(study)) == 9


def test_fewer_repeats_leave_what_is_there(tmp_path):
    run(tmp_path, Runner())
    runner = Runner()
    study, _ = run(tmp_path, runner, {**WEAK, "repeat": 1})
    assert runner.names == []
    assert len(states(study)) == 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**WEAK, "ranks": (1,)}, "holds the point n2, which this study does not have"),
        ({**WEAK, "settings": ("run.steps=20",)}, "with other settings"),
        ({**WEAK, "weak": False, "strong": True}, "holds the job n2/1 with other settings"),
    ],
)
def test_a_folder_is_never_made_to_mean_another_study(tmp_path, given, words):
    run(tmp_path, Runner())
    with pytest.raises(OutputError, match=words):
        run(tmp_path, Runner(), given)


def test_a_folder_of_another_case_and_one_of_something_else(tmp_path):
    run(tmp_path, Runner())
    request = read_request(case_file(tmp_path, CASE.replace("16, 16", "20, 20")), WEAK)

    def refused(path, words):
        with pytest.raises(OutputError, match=words), open_study(path, request, "study"):
            pass

    refused(tmp_path / "study", "holds a study of a case other")
    refused(tmp_path, "is not empty and holds no study")
    with pytest.raises(OutputError, match="is not the folder of a study"):
        StudyFolder.open(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    refused(file, "cannot write a study")


def test_a_study_goes_on_from_its_folder_elsewhere(tmp_path, monkeypatch):
    """The case is the copy in the folder, and a folder that was moved holds the same jobs."""
    study, _ = run(tmp_path, Runner())
    moved = tmp_path / "moved"
    os.rename(study.path, moved)
    request = read_request(str(moved), {})
    (tmp_path / "case.toml").unlink()
    monkeypatch.chdir(tmp_path)
    runner = Runner()
    with open_study(moved, request, "study") as (folder, plan, jobs):
        runner.run(run_jobs, plan, jobs, folder.path, print)
    assert runner.names == []


def test_a_study_is_not_started_by_a_launcher(tmp_path, monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("PMI_RANK", "1")
    with pytest.raises(LauncherError, match="started this command as one of 2 ranks"):
        run_study(case_file(tmp_path), {}, str(tmp_path / "study"), print)
    assert not (tmp_path / "study").exists()


def test_a_study_that_runs_is_not_run_twice(tmp_path, monkeypatch):
    study, _ = run(tmp_path, Runner())
    monkeypatch.setattr(locks.time, "sleep", lambda seconds: pytest.fail("it waits"))
    with (
        locks.PathLock.inside(study.path, "the study"),
        pytest.raises(OutputError, match=r"the study .* is in use by another run in this process"),
    ):
        run_study(str(study.path), {}, None, print)
    assert not (study.path / ".lock").exists()


def test_what_is_too_large_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_check, "node_memory_available", lambda: 10**4)
    with pytest.raises(ConfigError, match="point n1: the run needs"):
        run_study(case_file(tmp_path), {}, str(tmp_path / "study"), print)
    assert not (tmp_path / "study").exists()


def test_points_are_listed_in_the_order_of_numbers(tmp_path):
    study, _ = run(tmp_path, Runner(), {"strong": True, "ranks": (10, 2, 1), "repeat": 1})
    assert list(states(study)) == ["n1/1", "n2/1", "n10/1"]
