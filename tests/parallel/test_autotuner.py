"""Choices of the autotuner: kept on disk, tolerated where damaged."""

import json
import logging
from pathlib import Path

import pytest
from mpi4py import MPI

from ridgeline.parallel.autotuner import TuningResult, choices_file, choose, recall

CANDIDATES = {"packed": lambda: {"fft": 1.0}, "strided": dict}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the user's cache be an empty folder."""
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def remarks(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("ridgeline"), "propagate", True)
    return caplog


def tune(key: str) -> TuningResult:
    return choose(CANDIDATES, key, MPI.COMM_SELF)


def test_trials_are_kept(remarks: pytest.LogCaptureFixture) -> None:
    assert recall("a", MPI.COMM_SELF) is None
    first, second = tune("a"), tune("b")
    assert (
        recall("a", MPI.COMM_SELF) == tune("a") == TuningResult(first.taken, first.seconds, earlier_run=True)
    )
    assert recall("b", MPI.COMM_SELF) == TuningResult(second.taken, second.seconds, earlier_run=True)
    choices_file().write_text('{"a": ')
    assert recall("a", MPI.COMM_SELF) is None
    assert "choices.json is damaged" in remarks.text
    again = tune("b")
    (kept,) = json.loads(choices_file().read_text()).values()
    assert kept == {"taken": again.taken, "seconds": again.seconds}


@pytest.mark.parametrize(
    "kept", [None, 3, [], {}, "packed", {"taken": "a"}, {"taken": "a", "seconds": 1},
             {"taken": "a", "seconds": {"a": {"fft": 1.0}}}, {"taken": "a", "seconds": {"a": 1}},
             {"taken": "a", "seconds": {"a": {"total": "soon"}}},
             {"taken": "a", "seconds": {"a": {"total": 10**400}}}]
)  # fmt: skip
def test_a_trial_that_makes_no_sense_is_unknown(kept) -> None:
    tune("a")
    (key,) = json.loads(choices_file().read_text())
    choices_file().write_text(json.dumps({key: kept}))
    assert recall("a", MPI.COMM_SELF) is None
    assert not tune("a").earlier_run


def test_a_trial_in_words() -> None:
    seconds = {"packed": {"total": 1.5e-3, "fft": 1e-3}, "strided": {"total": 2e-3}}
    assert TuningResult("packed", seconds).words() == "packed (packed 1.5 ms, strided 2 ms)"
    assert TuningResult("packed", {}).words() == "packed"


def test_folder_that_cannot_be_written(monkeypatch, remarks: pytest.LogCaptureFixture) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ridgeline.runtime.user_cache.replace_file", full)
    assert not tune("a").earlier_run
    assert "cannot store measurements" in remarks.text
    assert recall("a", MPI.COMM_SELF) is None
