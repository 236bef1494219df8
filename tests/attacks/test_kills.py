"""Runs that are killed at any moment, again and again: what they resume to is what they would have come to."""

import os
import signal
import time

import numpy as np
import pytest

from attack_cases import CASES, DATA_SETS, assert_same_results
from toy_data_set import STORES

START_TIMEOUT = 300  # seconds for one start of a run on a busy machine


def rows_of(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_after(ridgeline, rows, *arguments):
    """Start a run and kill it once its series has so many lines; say whether it was still running."""
    process = ridgeline.start("run", *arguments, start_new_session=True)
    deadline = time.monotonic() + START_TIMEOUT
    while rows_of(ridgeline.path / "series.csv") < rows and process.poll() is None:
        assert time.monotonic() < deadline, "the run came to nothing"
        time.sleep(0.002)
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=START_TIMEOUT)
    assert "Traceback" not in errors, errors
    assert running or process.returncode == 0, errors
    return running


def attack(ridgeline, model, store, kills, steps, seed):
    text, distance = CASES[model]
    case = ridgeline.path / "case.toml"
    case.write_text(text.replace("steps = 60", f"steps = {steps}").replace('.bp"', f'.{store}"'))
    whole = ridgeline.path / "whole"
    whole.mkdir()
    for _ in range(2):  # the second one sets the first one's results aside, which must survive all kills
        done = ridgeline("run", case, timeout=START_TIMEOUT)
        assert done.returncode == 0, done.stderr
    earlier = {path: path.read_bytes() for path in ridgeline.path.rglob("*.previous*/*") if path.is_file()}
    for name in ("series.csv", *DATA_SETS, "fields_viewer"):
        if (ridgeline.path / name).exists():
            (ridgeline.path / name).rename(whole / name)
    random = np.random.default_rng(seed)
    moments = np.sort(random.integers(0, steps + 1, kills))
    for number, rows in enumerate(moments):
        ranks = int(random.integers(1, 4))
        resume = "auto" if number else "never"
        kill_after(ridgeline, rows, case, "-n", ranks, "--resume", resume)
    done = ridgeline("run", case, "-n", 2, "--resume", "auto", timeout=START_TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert_same_results(ridgeline.path, whole, distance)
    assert {path: path.read_bytes() for path in earlier} == earlier
    assert not [path for path in ridgeline.path.rglob("*") if path.name.endswith((".lock", ".partial"))]


@pytest.mark.full
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("model", ["gray_scott", "n_body"])
def test_a_run_survives_three_kills(ridgeline, model, store):
    attack(ridgeline, model, store, kills=3, steps=60, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("model", CASES)
def test_a_run_survives_twenty_kills(ridgeline, model, store):
    attack(ridgeline, model, store, kills=20, steps=200, seed=2)
