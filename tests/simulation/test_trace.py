"""`ridgeline run --trace`: which steps it holds, where it is written, and what refuses it."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from ridgeline.models import create
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import OutputError
from ridgeline.simulation import meters, report
from ridgeline.simulation.case_run import RunCaller, run_case
from ridgeline.simulation.meters import StepTrace
from ridgeline.simulation.run_options import RunOptions


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run in an empty folder, and measure no machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def run(steps, trace_path="trace.json", json_path=None, show_end=None, **output):
    """Run a small case on this rank with a trace; return its report."""
    parameters = {"noise": 0, "steps_per_sweep": 1}
    case = ridgeline.Case(
        "gray_scott", steps, grid={"shape": (6, 5, 7)}, parameters=parameters, output=output
    )
    context = Context(MPI.COMM_SELF)
    options = RunOptions(trace=trace_path, json=json_path)
    caller = RunCaller(show_end=show_end, progress=False)
    return run_case(case.settings, create("gray_scott"), context, options, caller), context


def events():
    return json.loads(Path("trace.json").read_text())["traceEvents"]


def names():
    return [event["name"] for event in events()]


def test_holds_the_phases_of_the_steps_after_the_first(capsys):
    told, context = run(5, every=0)
    assert told["files"]["trace"] == "trace.json"
    assert names().count("compute") == 2 * 4, "next to faces, and the rest, of steps 2 to 5"
    assert names().count("exchange") == 2 * 4
    spans = [event for event in events() if event["ph"] == "X"]
    assert {event["tid"] for event in spans} == {0}
    assert [event["args"]["name"] for event in events() if event["ph"] == "M"] == ["rank 0", "host"]
    begins = [event["ts"] for event in spans]
    assert begins == sorted(begins)
    assert begins[0] >= 0
    assert min(event["dur"] for event in spans) >= 0
    assert context.regions.timeline is None


def test_ends_after_so_many_steps_and_has_outputs_between(monkeypatch):
    monkeypatch.setattr(meters, "CALLS", 3)
    run(9, every=2)
    assert names().count("compute") == 2 * 3
    assert names().count("output") == 2, "of steps 2 and 4; that of step 1 is not due"


def test_a_run_of_one_step_has_no_events_and_says_so(caplog):
    run(1)
    assert "compute" not in names()
    assert "trace.json has no steps" in caplog.text


def test_a_trace_of_an_earlier_run_is_set_aside_and_other_files_are_kept():
    run(2)
    run(2)
    Path("mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"mine\.txt exists and Ridgeline did not write it"):
        run(2, "mine.txt")
    with pytest.raises(OutputError, match=r"--trace gray_scott\.bp/t is output\.path, or is inside it"):
        run(2, "gray_scott.bp/t")


def test_what_cannot_be_written_leaves_the_other_files_and_the_figures(monkeypatch):
    monkeypatch.setattr(meters, "CALLS", 2)  # the trace fails long before the end
    shown = []
    with pytest.raises(OutputError) as failure:
        run(6, "/dev/full", "/dev/full", shown.append)
    assert str(failure.value).count("No space left on device") == 2
    assert "Choose another --trace. cannot write /dev/full" in str(failure.value)
    assert (shown[0]["run"]["last_step"], shown[0]["run"]["ended"]) == (6, "all steps done")
    assert json.loads(Path("gray_scott.bp.run.json").read_text())["steps"] == 6


@pytest.mark.parametrize("key", ["path", "series"])
def test_an_output_that_is_a_pipe_or_a_device_is_refused_before_a_lock_is_made(key, tmp_path):
    os.mkfifo("pipe")
    for path in ("pipe", "/dev/full"):
        with pytest.raises(OutputError, match=rf"output\.{key} = {path} is a device, a pipe or a socket"):
            run(2, **{"series_every": 1, key: path})
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_series_that_is_removed_while_the_run_writes_it_ends_the_run(monkeypatch):
    monkeypatch.setattr(StepTrace, "sample", lambda trace: Path("s.csv").unlink(missing_ok=True))
    with pytest.raises(OutputError, match=r"the time series s\.csv was removed, renamed or replaced"):
        run(3, series="s.csv", series_every=3, every=0)


def test_results_do_not_depend_on_it():
    run(6, "a.json", path="a.bp", every=6)
    run(6, None, path="b.bp", every=6)
    for name in ("U", "V"):
        found, expected = (ridgeline.open(path)[name].values[-1] for path in ("a.bp", "b.bp"))
        np.testing.assert_array_equal(found, expected)
