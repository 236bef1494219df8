"""A run that is stopped, killed or limited continues as if nothing had happened."""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ridgeline as package
from ridgeline.runtime.mpiexec import find_mpiexec


def wait_for(condition, process, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def manifests(folder):
    found = (folder.path / "checkpoints").glob("checkpoint_*/manifest.json")
    return sorted(path for path in found if path.parent.name.removeprefix("checkpoint_").isdigit())


def same_data(folder, a, b):
    with package.open(folder.path / a) as first, package.open(folder.path / b) as second:
        assert first.step.values.tolist() == second.step.values.tolist()
        for name in ("U", "V"):
            assert np.array_equal(first[name].values, second[name].values), name


IN_TIME = (
    "run.steps=",
    "run.end_time=393.3",
    "output.every=0",
    "output.every_time=9.7",
    "output.series_every_time=4.1",
)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (2, 1, ()),
        (2, 1, IN_TIME),
        *(
            pytest.param(*ranks, plan, marks=pytest.mark.full)
            for ranks in ((2, 3), (3, 1))
            for plan in ((), IN_TIME)
        ),
    ],
)
def test_kill_and_resume_on_other_ranks_gives_the_same_bits(ridgeline, before, after, changes):
    case = ridgeline.write(steps=400, every=10, checkpoint=50, shape="24, 20, 31")
    plan = [part for change in changes for part in ("--set", change)]
    path = ["--set", "output.path=whole.bp", *(["--set", "output.series=whole.csv"] if changes else [])]
    whole = ridgeline(
        "run", case, *plan, *path, "--set", "checkpoint.every=0", "--set", "checkpoint.at_end=false"
    )
    assert whole.returncode == 0, whole.stderr
    # Slowed down by many outputs, so that the kill falls into the middle and the data set is ahead.
    process = ridgeline.start("run", case, *plan, "-n", before, start_new_session=True)
    wait_for(lambda: manifests(ridgeline), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    resumed = ridgeline("run", case, *plan, "-n", after, "--resume", "auto")
    assert resumed.returncode == 0, resumed.stderr
    if changes:
        rows = [(ridgeline.path / name).read_text() for name in ("whole.csv", "series.csv")]
        assert rows[0] == rows[1]
        assert rows[0].splitlines()[-1].split(",")[1] == repr(95 * 4.1)
    assert "continuing from" in resumed.stderr
    same_data(ridgeline, "whole.bp", "gray_scott.bp")


def ranks_of(launcher):
    """Return the process numbers of the ranks that a command has started."""
    found, ahead = [], [launcher]
    while ahead:
        children = Path(f"/proc/{ahead[0]}/task/{ahead[0]}/children").read_text().split()
        ahead = [*ahead[1:], *map(int, children)]
        found += [pid for pid in map(int, children) if "PMI_RANK" in Path(f"/proc/{pid}/environ").read_text()]
    return found


# What Slurm sends, in ms: at a time limit by srun, to a batch job on scancel, and to a batch job at its time limit.
SEQUENCES = {
    "once": [(0, signal.SIGUSR1)],
    "time limit": [(0, signal.SIGTERM), (13, signal.SIGCONT), (14, signal.SIGTERM)],
    "scancel": [(0, signal.SIGTERM), (1, signal.SIGTERM)],
    "batch": [(0, signal.SIGTERM), (1, signal.SIGTERM), (30, signal.SIGTERM)],
}


@pytest.mark.parametrize(
    ("sequence", "reaches_ranks", "code"),
    [
        ("time limit", True, 75),
        *(pytest.param(name, to, 0, marks=pytest.mark.full) for name in SEQUENCES for to in (False, True)),
    ],
)
def test_signals_end_the_run_with_a_checkpoint_and_the_exit_code_asked_for(
    ridgeline, sequence, reaches_ranks, code
):
    case = ridgeline.write(steps=10_000, every=10_000)  # says that it goes on at every tenth
    process = ridgeline.start("run", case, "-n", 2, *(["--stopped-exit-code", code] if code else []))
    wait_for(
        lambda: process.stderr.readline().startswith("step "), process
    )  # any moment from here on must do
    receivers = [process.pid, *(ranks_of(process.pid) if reaches_ranks else [])]
    assert len(receivers) == 1 + 2 * reaches_ranks
    begin = time.monotonic()
    for after, number in SEQUENCES[sequence]:
        while time.monotonic() < begin + after / 1000:
            pass
        for pid in receivers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert len(manifests(ridgeline)) == 1
    report = json.loads((ridgeline.path / "gray_scott.bp.run.json").read_text())
    assert report["run"]["ended"] == SEQUENCES[sequence][0][1].name
    reached = report["run"]["last_step"]
    assert 1000 <= reached < 10_000
    options = "--set", f"run.steps={reached + 5}", "--resume", "auto", "--stopped-exit-code", 75
    resumed = ridgeline("run", case, *options)
    assert resumed.returncode == 0, resumed.stderr
    assert f"at step {reached}" in resumed.stderr


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.full)])
def test_a_signal_after_the_last_step_changes_nothing(ridgeline, name):
    process = ridgeline.start("run", ridgeline.write(steps=4), "-n", 2)
    wait_for(lambda: "ended at step 4" in process.stderr.readline(), process)
    process.send_signal(signal.Signals[name])
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "BAD TERMINATION" not in errors


# It notices nothing, like srun without --kill-on-bad-exit: a shell takes the place of each rank that is lost.
# The option -disable-auto-cleanup of MPICH's mpiexec does not do that reliably.
LAUNCHER = """\
#!{python}
import os, sys
program = sys.argv.index({python!r})
shell = ["sh", "-c", '"$@"; code=$?; [ $code -lt 128 ] || exec sleep 60; exit $code', "sh"]
words = [*{mpiexec!r}, *sys.argv[1:program], *shell, *sys.argv[program:]]
os.execvp(words[0], words)
"""


@pytest.mark.full
def test_a_rank_that_is_lost_is_noticed_where_the_launcher_does_not(ridgeline, monkeypatch):
    script = ridgeline.path / "mpiexec"
    script.write_text(LAUNCHER.format(python=sys.executable, mpiexec=find_mpiexec()))
    script.chmod(0o755)
    monkeypatch.setenv("RIDGELINE_MPIEXEC", str(script))
    process = ridgeline.start("run", ridgeline.write(steps=100_000, every=0), "-n", 2)
    wait_for(lambda: process.stderr.readline().startswith("step "), process)
    shells_and_ranks = ranks_of(process.pid)
    assert len(shells_and_ranks) == 4
    os.kill(shells_and_ranks[-1], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "error: rank 1 on " in errors
    assert "ended without a message" in errors


@pytest.mark.full
def test_wall_clock_limit_ends_the_run_with_a_checkpoint(ridgeline):
    case = ridgeline.write(steps=10_000_000, every=0)
    done = ridgeline("run", case, "-n", 2, "--set", "run.walltime=4")
    assert done.returncode == 0, done.stderr
    assert len(manifests(ridgeline)) == 1
    report = json.loads((ridgeline.path / "gray_scott.bp.run.json").read_text())
    assert report["run"]["ended"] == "wall-clock limit"


@pytest.mark.full
def test_damaged_checkpoint_falls_back_to_the_previous(ridgeline):
    case = ridgeline.write(steps=12, every=3, checkpoint=4)
    assert ridgeline("run", case, "--set", "output.path=whole.bp").returncode == 0
    assert ridgeline("run", case, "-n", 2, "--set", "run.steps=8").returncode == 0
    newest = manifests(ridgeline)[-1].parent
    assert newest.name == "checkpoint_00000008"
    victim = sorted(newest.glob("data_*"))[0]
    content = bytearray(victim.read_bytes())
    content[len(content) // 3] ^= 0x10
    victim.write_bytes(content)
    resumed = ridgeline("run", case, "-n", 2, "--resume", "auto")
    assert resumed.returncode == 0, resumed.stderr
    assert "checkpoint_00000008" in resumed.stderr
    assert "at step 4" in resumed.stderr
    same_data(ridgeline, "whole.bp", "gray_scott.bp")


def test_checkpoint_of_another_run_is_refused(ridgeline):
    case = ridgeline.write(steps=8, every=0, checkpoint=4)
    assert ridgeline("run", case).returncode == 0
    done = ridgeline("run", case, "--resume", "auto", "--set", "model.F=0.03")
    assert done.returncode == 4
    assert "model.F" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_starting_anew_sets_old_checkpoints_aside(ridgeline):
    case = ridgeline.write(steps=8, every=0, checkpoint=4)
    assert ridgeline("run", case).returncode == 0
    again = ridgeline("run", case, "--set", "run.steps=4")
    assert again.returncode == 0
    assert "checkpoints/previous" in again.stderr
    assert [m.parent.name for m in manifests(ridgeline)] == ["checkpoint_00000004"]
    assert (ridgeline.path / "checkpoints" / "previous" / "checkpoint_00000008").is_dir()


def test_two_mistaken_starts_do_not_cost_the_checkpoints_of_a_long_run(ridgeline):
    case = ridgeline.write(steps=8, every=0, checkpoint=4)
    assert ridgeline("run", case).returncode == 0
    for _ in range(3):
        assert ridgeline("run", case, "--set", "run.steps=4").returncode == 0
    folder = ridgeline.path / "checkpoints"
    assert [path.name for path in sorted((folder / "previous").iterdir())] == [
        "checkpoint_00000004",
        "checkpoint_00000008",
    ]
    assert [path.name for path in (folder / "previous-2").iterdir()] == ["checkpoint_00000004"]
    assert not (folder / "previous-3").exists()


@pytest.mark.full
def test_finished_run_resumes_to_nothing_and_to_more(ridgeline):
    case = ridgeline.write(steps=8, every=4, checkpoint=4)
    assert ridgeline("run", case, "--set", "run.steps=12", "--set", "output.path=whole.bp").returncode == 0
    assert ridgeline("run", case).returncode == 0
    nothing = ridgeline("run", case, "--resume", "auto")
    assert nothing.returncode == 0, nothing.stderr
    more = ridgeline("run", case, "--resume", "auto", "--set", "run.steps=12")
    assert more.returncode == 0, more.stderr
    same_data(ridgeline, "whole.bp", "gray_scott.bp")
