"""The end of a validation: judged and reported once, whoever ends it, with the right code."""

import json

import numpy as np
import pytest

from ridgeline.validate.judge import outcome as module
from ridgeline.validate.judge.outcome import Outcome, SessionProgress, read_progress, write_progress
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, Stage
from ridgeline.validate.watchdog import Trouble


@pytest.fixture
def end(tmp_path):
    """An outcome of three nodes with a rank each, one figure measured; `shown` holds the verdicts."""

    def make(report="report"):
        measurements = Measurements(["a", "b", "c"], node_of_rank=[0, 1, 2])
        measurements.node_quantities = [NodeQuantity("stream", "B/s", True, np.full((3, 3), 1e10))]
        shown = []
        made = Outcome(
            measurements,
            Thresholds(),
            None,
            str(tmp_path / report),
            lambda _, verdict: shown.append(verdict),
            str(tmp_path / "progress.json"),
            [("a", 11), ("b", 12), ("c", 13)],
        )
        return made, shown

    return make


def trouble(**more) -> Trouble:
    return Trouble(
        **{"outcome": "hung", "stage": "pairs", "level": "system", "seconds": 3.0, "detail": "so"} | more
    )


def test_only_the_first_end_counts(end, tmp_path):
    outcome, shown = end()
    assert outcome.finish() == 0
    outcome.measurements.errors = {1: ["too late"]}
    assert outcome.finish() == 0
    assert len(shown) == 1
    assert read_progress(str(tmp_path / "progress.json")) == SessionProgress(code=0)


@pytest.mark.parametrize(
    ("what", "code", "suspects", "good"),
    [
        (trouble(silent=[1], waiting={0: 1}), 1, ["b"], ["a", "c"]),
        (trouble(outcome="failed", died=[1]), 2, [], ["a", "c"]),
        (trouble(outcome="failed", failures={2: "ValueError: no"}), 2, [], ["a", "b", "c"]),
        (trouble(outcome="failed", failures={2: "VerificationError: wrong"}), 1, ["c"], ["a", "b"]),
        (trouble(waiting={0: 2, 1: 2}), 1, ["c"], ["a", "b"]),
    ],
)
def test_what_stopped_a_stage_is_judged(end, tmp_path, monkeypatch, what, code, suspects, good):
    outcome, shown = end()
    codes = []
    monkeypatch.setattr(module.os, "_exit", codes.append)
    outcome.end_process(what)
    assert codes == [code]
    assert [suspect.name for suspect in shown[0].suspects] == suspects
    assert (tmp_path / "report" / "nodes.good").read_text().split() == good
    stage = json.loads((tmp_path / "report" / "report.json").read_text())["stages"][-1]
    assert (stage["name"], stage["outcome"], stage["died"]) == ("pairs", what.outcome, what.died)


def test_a_process_ends_also_where_nothing_can_be_said(end, monkeypatch, capsys):
    outcome, _ = end()
    codes = []
    monkeypatch.setattr(module.os, "_exit", codes.append)
    outcome.show = lambda *_: 1 / 0
    outcome.end_process(trouble(silent=[1]))
    assert codes == [2]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_does_not_hide_the_verdict(end, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    outcome, shown = end("file/report")
    assert outcome.finish() == 0
    assert len(shown) == 1
    assert capsys.readouterr().err.count("error: cannot write the report") == 1


def test_suspects_are_given_by_quantity(end):
    outcome, _ = end()
    outcome.measurements.node_quantities[0].values[2] /= 2
    assert outcome.suspects(outcome.measurements) == {"stream": [2]}


def test_progress_holds_what_was_measured_before_the_stage(end, tmp_path):
    outcome, _ = end()
    outcome.measurements.stages = [Stage("memory", "node")]
    outcome.stage_begins("pairs", 9.0)
    left = read_progress(str(tmp_path / "progress.json"))
    assert (left.stage, left.limit, left.code) == ("pairs", 9.0, None)
    assert left.processes == [["a", 11], ["b", 12], ["c", 13]]
    assert Measurements.from_dict(left.measurements).stages == [Stage("memory", "node")]


def test_progress_that_is_not_there_or_broken_says_nothing(tmp_path):
    path = tmp_path / "progress.json"
    assert read_progress(str(path)) == SessionProgress()
    path.write_text('{"stage": ')
    assert read_progress(str(path)) == SessionProgress()
    path.write_text('{"stages": 3}')
    assert read_progress(str(path)) == SessionProgress()
    write_progress(str(tmp_path / "gone" / "progress.json"), SessionProgress())
    write_progress(None, SessionProgress())
