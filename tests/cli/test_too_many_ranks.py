"""Every command that starts ranks refuses too many of them. A stand-in for mpiexec says whether it was called."""

import json
import os

import pytest

CASE = "case.toml"
COMMANDS = {
    "run": ("run", CASE, "-n"),
    "bench": ("bench", "hpl", "-n"),
    "validate": ("validate", "-n"),
    "sweep": ("sweep", CASE, "--over", "model.F=0.02,0.03", "-o", "out", "-n"),
    "study": ("study", "run", CASE, "-o", "out", "--repeat", "1", "--ranks"),
}


@pytest.fixture
def started(ridgeline, monkeypatch):
    """Put a stand-in in the place of mpiexec; return the file in which it notes its arguments."""
    ridgeline.write()
    notes, script = ridgeline.path / "started", ridgeline.path / "mpiexec"
    script.write_text(f'#!/bin/sh\necho "$*" >> {notes}\n')
    script.chmod(0o755)
    monkeypatch.setenv("RIDGELINE_MPIEXEC", str(script))
    return notes


@pytest.mark.parametrize("command", COMMANDS)
def test_eight_thousand_ranks_are_not_started(command, ridgeline, started) -> None:
    done = ridgeline(*COMMANDS[command], 8000)
    assert done.returncode == 2
    assert "8000 ranks (-n, --ranks)" in done.stderr
    assert "--oversubscribe" in done.stderr
    assert not started.exists()
    assert not (ridgeline.path / "out").exists()


@pytest.mark.parametrize("command", ["bench", "study", "sweep"])
def test_they_are_where_it_is_asked_for(command, ridgeline, started) -> None:
    ridgeline(*COMMANDS[command], 17, "--oversubscribe", timeout=60)
    assert "-n 17 " in started.read_text()


def test_memory_that_is_not_there_is_missed_before_ranks_start(ridgeline, started) -> None:
    done = ridgeline("run", CASE, "-n", 2, "--set", "grid.shape=[9000, 9000, 9000]")
    assert done.returncode == 2
    assert "run.check_memory = false starts the run anyway" in done.stderr
    assert not started.exists()
    ridgeline(
        "run", CASE, "-n", 2, "--set", "grid.shape=[9000, 9000, 9000]", "--set", "run.check_memory=false"
    )
    assert started.exists()


def test_a_plan_for_a_larger_machine_is_checked_on_a_small_one(ridgeline) -> None:
    ridgeline.write(shape="9000, 9000, 9000")
    done = ridgeline("check", CASE, "-n", 4096, "--threads", 64)
    assert done.returncode == 0, done.stderr
    assert "4096 x 64" in done.stdout


def test_a_benchmark_warns_of_oversubscription_in_its_json_too(ridgeline) -> None:
    cores = len(os.sched_getaffinity(0))
    command = "bench", "stream", "--threads", cores + 1, "--bytes", 10**6, "--repeats", 1, "--json", "-"
    facts = json.loads(ridgeline(*command, env={"NUMBA_NUM_THREADS": str(cores + 1)}).stdout)
    assert facts["oversubscribed"] is True
    assert any(f"Use --threads {cores}" in note for note in facts["notes"])
