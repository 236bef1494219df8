"""Choices between ways to compute: kept on disk, tolerated where damaged."""

import json
import logging
from pathlib import Path

import pytest

from ridgeline.parallel.choices import Trial, remember_trial, remembered_trial


@pytest.fixture
def choices(tmp_path: Path) -> Path:
    return tmp_path / "choices.json"


@pytest.fixture
def remarks(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("ridgeline"), "propagate", True)
    return caplog


def test_trials_are_remembered(choices: Path, remarks: pytest.LogCaptureFixture) -> None:
    seconds = {"packed": {"total": 1.5, "fft": 1.0}, "strided": {"total": 2.0}}
    assert remembered_trial(choices, "a") is None
    remember_trial(choices, "a", Trial("packed", seconds))
    remember_trial(choices, "b", Trial("strided", {}))
    assert remembered_trial(choices, "a") == Trial("packed", seconds, earlier_run=True)
    assert remembered_trial(choices, "b") == Trial("strided", {}, earlier_run=True)
    choices.write_text('{"a": ')
    assert remembered_trial(choices, "a") is None
    assert "choices.json is damaged" in remarks.text
    remember_trial(choices, "b", Trial("packed", seconds))
    assert json.loads(choices.read_text()) == {"b": {"taken": "packed", "seconds": seconds}}


def test_a_choice_of_an_older_version_is_known_without_its_seconds(choices: Path) -> None:
    remember_trial(choices, "a", Trial("packed", {}))
    choices.write_text('{"a": "packed"}')
    assert remembered_trial(choices, "a") == Trial("packed", {}, earlier_run=True)


@pytest.mark.parametrize(
    "kept", [None, 3, [], {}, {"taken": "a"}, {"taken": "a", "seconds": 1}, {"taken": "a", "seconds": {"a": 1}},
             {"taken": "a", "seconds": {"a": {"total": "soon"}}},
             {"taken": "a", "seconds": {"a": {"total": 10**400}}}]
)  # fmt: skip
def test_a_trial_that_makes_no_sense_is_unknown(choices: Path, kept) -> None:
    remember_trial(choices, "a", Trial("packed", {}))
    choices.write_text(json.dumps({"a": kept}))
    assert remembered_trial(choices, "a") is None


def test_a_trial_in_words() -> None:
    seconds = {"packed": {"total": 1.5e-3, "fft": 1e-3}, "strided": {"total": 2e-3}}
    assert Trial("packed", seconds).words() == "packed (packed 1.5 ms, strided 2 ms)"
    assert Trial("packed", {}).words() == "packed"


def test_folder_that_cannot_be_written(tmp_path: Path, remarks: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    choices = tmp_path / "file" / "choices.json"
    remember_trial(choices, "transpose", Trial("alltoall", {}))
    assert "cannot keep what was measured" in remarks.text
    assert remembered_trial(choices, "transpose") is None
