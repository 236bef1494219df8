"""What `check` says of the paths of a run: what the run would say, before anything is made there."""

import os

import pytest

import ridgeline
from ridgeline.runtime.errors import RidgelineError
from ridgeline.simulation.check import raise_if_refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output.path": "foreign"}, "foreign exists and Ridgeline did not write it"),
        ({"output.path": "text/u.bp"}, "cannot write text/u.bp: Not a directory. Set output.path to"),
        ({"checkpoint.path": "text/c"}, "cannot write text/c: Not a directory. Set checkpoint.path to"),
        ({"output.series": "pipe", "output.series_every": 1}, "output.series = pipe is a device, a pipe or a socket"),
        ({"initial.kind": "file", "initial.path": "nothing.bp"}, "no data set at nothing.bp"),
        ({"initial.kind": "image", "initial.path": "nothing.png"}, "nothing.png"),
        ({}, None),
    ],
)  # fmt: skip
def test_what_a_run_refuses_is_refused_and_nothing_is_made(tmp_path, monkeypatch, changes, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "mine").write_text("precious")
    (tmp_path / "text").write_text("precious")
    os.mkfifo("pipe")
    before = sorted(tmp_path.rglob("*"))
    case = ridgeline.Case("gray_scott", 1, grid={"shape": (8, 8, 8)}).replace(changes)
    if words is None:
        raise_if_refused(case.settings, {"refusals": ()})
    else:
        with pytest.raises(RidgelineError, match=words):
            raise_if_refused(case.settings, {"refusals": ()})
    assert sorted(tmp_path.rglob("*")) == before
