"""Callbacks of the settings: when they are called, what they see, what they may do, also after a resume."""

import json

import pytest

from decay_model import Decay, DecayCase, N, decay_case, run
from ridgeline.io.series import read_series
from ridgeline.runtime.errors import ConfigError, OutputError

RANKS = (1, 2, 3)

WATCH = """\
import json
from pathlib import Path

HERE = Path(__file__).parent


def watch(now):
    with (HERE / f"calls{now.comm.rank}").open("a") as file:
        file.write(json.dumps([now.step, now.time]) + "\\n")
    powers = now.fields["powers"]
    assert powers.shape[0] + now.offsets["powers"][0] <= now.shapes["powers"][0] == 10
    total = now.comm.allreduce(float(powers[:, 0].sum()))
    return {"total": total, "double": 2 * total} if now.comm.rank == 0 else None


def halt(now):
    if now.step >= 8 and now.comm.rank == now.comm.size - 1:
        now.stop("enough\\nof it")


def at_once(now):
    now.stop("at once")


def alone(now):
    if now.step == 8 and now.comm.rank == now.comm.size - 1:
        raise KeyError("theirs")


def spoil(now):
    now.fields["powers"][0] = 1.0


def forget(now):
    return {"total": 1.0} if now.step < 8 else {"sums": 1.0}


def exit(now):
    raise SystemExit(0)
"""


@pytest.fixture(autouse=True)
def mine(comm, folder):
    """The file of the callbacks."""
    if comm.rank == 0:
        (folder / "mine.py").write_text(WATCH)
    comm.Barrier()


def case_with(folder, *callbacks, **output):
    tables = [{**each, "function": f"{folder}/mine.py:{each['function']}"} for each in callbacks]
    return DecayCase.model_validate({**decay_case(folder, **output).model_dump(), "callback": tables})


def calls(comm, folder):
    """The steps and times at which this rank's function was called."""
    return [json.loads(line) for line in (folder / f"calls{comm.rank}").read_text().splitlines()]


def test_it_is_called_at_steps_and_for_rows_once_each(comm, folder, monkeypatch):
    callback = {"function": "watch", "columns": ["total", "double"], "every": 4}
    model = Decay()
    report = run(comm, monkeypatch, case_with(folder, callback), model)
    assert [step for step, _ in calls(comm, folder)] == [0, 3, 4, 6, 8, 9, 12, 15, 16, 18, 20]
    series = read_series(folder / "s.csv")
    assert list(series) == ["step", "time", "largest", "sum", "total", "double"]
    assert series["step"].tolist() == [0, 3, 6, 9, 12, 15, 18]
    assert series["total"] == pytest.approx(series["sum"], rel=1e-14)
    assert (series["double"] == 2 * series["total"]).all()
    assert "callback 0" not in report["files"]


def test_a_resumed_run_calls_it_as_one_that_was_never_stopped(comm, folder, monkeypatch):
    callback = {"function": "watch", "columns": ["total", "double"], "every": 2}
    run(comm, monkeypatch, case_with(folder, callback), Decay())
    expected, rows = calls(comm, folder), (folder / "s.csv").read_bytes()
    comm.Barrier()
    (folder / f"calls{comm.rank}").unlink()
    with pytest.raises(RuntimeError, match="the power failed"):
        run(comm, monkeypatch, case_with(folder, callback), Decay(crash_at=13))
    before = calls(comm, folder)
    assert before == expected[: len(before)]
    assert before[-1][0] == 12
    (folder / f"calls{comm.rank}").unlink()
    run(comm, monkeypatch, case_with(folder, callback), Decay(), resume="auto")
    after = calls(comm, folder)
    assert after == [call for call in expected if call[0] > 10], "from the checkpoint of step 10 on"
    assert (folder / "s.csv").read_bytes() == rows


def test_one_rank_stops_the_run_with_a_checkpoint(comm, folder, monkeypatch):
    halt = {"function": "halt", "every": 4}
    watch = {"function": "watch", "columns": ["total", "double"], "every": 4}
    report = run(comm, monkeypatch, case_with(folder, halt, watch), Decay())
    assert report["run"]["ended"] == f"stopped by {folder}/mine.py:halt: enough of it"
    assert (report["run"]["last_step"], report["run"]["complete"]) == (8, False)
    assert calls(comm, folder)[-1][0] == 8, "callbacks after the one that stops are called"
    assert report["checkpoint"]["written"] == 2, "at steps 5 and 8"
    report = run(comm, monkeypatch, case_with(folder, halt, watch), Decay(), resume="auto")
    assert report["run"]["first_step"] == 8, "it was not called again at the step of the checkpoint"
    assert report["run"]["last_step"] == 12
    report = run(comm, monkeypatch, case_with(folder, watch), Decay(), resume="auto")
    assert report["run"]["ended"] == "all steps done"


def test_a_stop_at_step_0_makes_no_step(comm, folder, monkeypatch):
    report = run(comm, monkeypatch, case_with(folder, {"function": "at_once", "every": 1}), Decay())
    assert (report["run"]["last_step"], report["run"]["ended"][-7:]) == (0, "at once")


@pytest.mark.parametrize(
    ("function", "columns", "words"),
    [
        ("alone", (), r"mine.py:\d+: .*the call at step 8 failed \(KeyError: 'theirs'\)"),
        ("spoil", (), r"mine.py:\d+: .*the call at step 0 failed \(ValueError: .*read-only"),
        ("exit", (), r"mine.py:\d+: .*the call at step 0 failed \(SystemExit: 0\)"),
        ("forget", ("total",), r"mine.py:\d+: .*returned the keys sums, but its columns are total"),
        ("watch", (), r"returned numbers, but its setting columns is not given. Set columns = ..total"),
        ("halt", ("a",), r"returned None, but it must return a dict with a"),
    ],
)
def test_what_goes_wrong_in_it_ends_the_run_on_all_ranks(comm, folder, monkeypatch, function, columns, words):
    case = case_with(folder, {"function": function, "columns": columns, "every": 4})
    with pytest.raises(ConfigError, match=words):
        run(comm, monkeypatch, case, Decay())


def test_columns_are_those_of_the_series_that_is_continued(comm, folder, monkeypatch):
    one = {"function": "watch", "columns": ["total", "double"]}
    run(comm, monkeypatch, case_with(folder, one), Decay())
    with pytest.raises(OutputError, match=r"has the columns .*double, but this run writes"):
        run(comm, monkeypatch, case_with(folder), Decay(), resume="auto")
    two = {"function": "watch", "columns": ["sum", "double"]}
    with pytest.raises(ConfigError, match="the time series of decay has a column sum"):
        run(comm, monkeypatch, case_with(folder, two), Decay())


def test_without_rows_or_an_interval_it_would_never_be_called(folder):
    once = {"function": "watch", "columns": ["total"]}
    with pytest.raises(ValueError, match=r"callback.0.every must be .*output.series_every"):
        case_with(folder, once, series_every=0)
    with pytest.raises(ValueError, match="every must be an integer >= 1, unless"):
        case_with(folder, {"function": "watch"})
    with pytest.raises(ValueError, match='"total", a column of another callback'):
        case_with(folder, once, once)
    assert N == 10
