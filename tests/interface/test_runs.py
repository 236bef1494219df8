"""Whole runs from Python: what they give, on one rank and on several, their errors, and their interrupts."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline.interface import rank_process, studies
from ridgeline.runtime.errors import CheckpointError, DecompositionError, OutputError, VerificationError
from ridgeline.simulation import report


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run in an empty folder, and measure no machine in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def case_of(steps=6, **more):
    output = {"path": "out/spots.bp", "every": 3, "series": "out/series.csv", "series_every": 2}
    checkpoint = {"path": "out/saved", "every": 3}
    return ridgeline.Case(
        "gray_scott", steps, grid={"shape": (9, 8, 7)}, output=output, checkpoint=checkpoint, **more
    )


def test_runs_on_ranks_give_what_a_run_in_this_process_gives():
    alone = ridgeline.run(case_of(), progress=False)
    serial = alone.data.V.values
    apart = ridgeline.run(case_of(), ranks=3, progress=False, overwrite=True)
    assert apart.report["run"]["ranks"] == 3
    assert apart.complete
    np.testing.assert_array_equal(apart.data.V.values, serial)
    assert apart.series["step"].tolist() == alone.series["step"].tolist() == [0, 2, 4, 6]
    assert [path.name for path in apart.checkpoints] == ["checkpoint_00000006", "checkpoint_00000003"]
    assert len(apart.plot("V", step=3).axes) == 2  # with its colour bar
    assert "ended at step 6" in repr(apart.report)
    assert "out/spots.bp" in apart._repr_html_()


def test_a_run_is_found_by_its_data_set_its_report_and_its_folder_even_if_it_was_moved():
    ridgeline.run(case_of(), progress=False)
    Path("out").rename("kept")
    for path in ("kept/spots.bp", "kept/spots.bp.run.json", "kept"):
        run = ridgeline.load_run(path)
        assert (run.data.sizes["step"], len(run.series), len(run.checkpoints)) == (2, 4, 2), f"{path=}"
    assert "no report other.bp.run.json" in refusal(OutputError, lambda: ridgeline.load_run("other.bp"))
    words = refusal(ridgeline.RidgelineError, lambda: run.spectra)
    assert "wrote no spectra. It wrote: data set, series" in words
    Path("kept/second.bp.run.json").write_text("{}")
    words = refusal(ridgeline.RidgelineError, lambda: ridgeline.load_run("kept"))
    assert "several runs" in words
    assert "kept/second.bp, kept/spots.bp" in words


def refusal(kind, make):
    with pytest.raises(kind) as caught:
        make()
    return str(caught.value)


def test_mistakes_are_answered_by_one_error():
    case, general = case_of(), ridgeline.RidgelineError
    tiny = case.replace({"grid.shape": (1, 1, 1)})
    for kind, words, make in [
        (DecompositionError, "cannot be divided into 7", lambda: ridgeline.run(tiny, ranks=7, progress=False)),
        (CheckpointError, "nowhere: it does not exist", lambda: ridgeline.run(case, ranks=2, resume="nowhere")),
        (general, "ranks is 0, but it must be an integer >= 1", lambda: ridgeline.run(case, ranks=0)),
        (general, "Did you mean 'slice'?", lambda: ridgeline.run(case, progress=False).plot(slce="z=mid")),
        (general, 'Did you mean "latency"?', lambda: ridgeline.run_bench("latenci")),
        (general, "unknown option 'sise'. Did you mean", lambda: ridgeline.run_bench("latency", sise=8)),
        (general, "seconds requires all_pairs.", lambda: ridgeline.run_bench("latency", seconds=0)),
        (general, "a list of tuples", lambda: ridgeline.run_sweep(case, {("model.F", "model.k"): [0.03]})),
        (general, "it must be a mapping", lambda: ridgeline.run_sweep(case, "model.F=0.03")),
        (general, "Did you mean 'at_once'?", lambda: ridgeline.run_sweep(case, {"model.F": [0.03]}, at_one=2)),
        (general, "str is not a dictionary", lambda: ridgeline.Case.from_dict("[run]")),
        (general, "line:2: unknown key 'shpe'", lambda: ridgeline.Case.from_toml(
            'run = {model = "gray_scott", steps = 1}\ngrid = {shpe = [8, 8, 8]}')),
    ]:  # fmt: skip
        assert words in refusal(kind, make), f"{words=}"


def test_an_interrupt_ends_the_ranks_with_a_checkpoint_and_the_run_continues(monkeypatch):
    update = rank_process.WatchedProgress.update
    sent = []

    def interrupt(self):
        """Interrupt this process once the ranks have begun to step."""
        update(self)
        if self._last and not sent:
            sent.append(True)
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

    monkeypatch.setattr(rank_process.WatchedProgress, "update", interrupt)
    case = case_of(10**6).replace({"output.every": 0, "output.series_every": 0, "checkpoint.every": 0})
    assert "its checkpoint was saved" in refusal(
        ridgeline.RunInterrupted, lambda: ridgeline.run(case, ranks=2)
    )
    stopped = ridgeline.load_run("out")
    step = stopped.report["run"]["last_step"]
    assert not stopped.complete
    assert 0 < step < 10**6
    case = case.replace({"run.steps": step + 1})
    assert ridgeline.run(case, ranks=2, resume="auto", progress=False).report["run"]["first_step"] == step


def test_an_interrupt_before_the_first_step_leaves_nothing_locked(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("ridgeline.simulation.output_paths.PathLock.acquire", interrupted)
        with pytest.raises(ridgeline.RunInterrupted, match="before its first step"):
            ridgeline.run(case_of())
    assert ridgeline.run(case_of(), progress=False).complete


def test_an_interrupt_after_the_last_step_keeps_the_report(monkeypatch):
    monkeypatch.setattr(
        report, "measure_limits", lambda *arguments: os.kill(os.getpid(), signal.SIGINT) or {}
    )
    simulation = ridgeline.Simulation(case_of(), progress=False)
    with pytest.raises(ridgeline.RunInterrupted, match="came after the last step"):
        simulation.run()
    assert simulation.close()["run"]["complete"]
    assert "closed" in repr(simulation)


def test_a_finished_run_does_not_advance_in_silence():
    with ridgeline.Simulation(case_of(), progress=False) as simulation:
        assert simulation.advance(100) == 6
        with pytest.raises(ridgeline.RidgelineError, match="has ended at step 6"):
            simulation.advance()
        with pytest.raises(ridgeline.RidgelineError, match="has ended at step 6"):
            simulation.advance(until=100.0)
        simulation.change({"run.steps": 8})
        assert simulation.advance(2) == 8


def test_settings_survive_the_way_through_text():
    case = case_of(parameters={"F": 1e-05, "k": 0.06})
    tables = ridgeline.Case.from_dict(
        {"run": {"model": "gray_scott", "steps": 6}, "grid": {"shape": [9, 8, 7]}}
    )
    assert ridgeline.Case.from_toml(case.to_toml()) == case != tables
    assert ridgeline.Case.from_toml(tables.to_toml()) == tables
    assert "grid" in case._repr_html_()
    assert "F = 1e-05" in case.to_toml()
    check = case.check(ranks=2)
    assert check["process_grid"] == [2, 1, 1]
    assert "process grid" in repr(check)


def test_sweeps_studies_and_benchmarks_give_tables():
    pairs = {("model.F", "model.k"): [(0.02, 0.05), (0.03, 0.06)]}
    sweep = ridgeline.run_sweep(case_of(), pairs, output="pairs", progress=False, at_once=1)
    assert sweep.table[["F", "k", "state"]].values.tolist() == [[0.02, 0.05, "done"], [0.03, 0.06, "done"]]
    assert [run.report["settings"]["model.k"] for run in sweep.runs] == [0.05, 0.06]
    assert sweep.plot().axes
    assert "0.03" in repr(sweep.report)
    study = ridgeline.run_study(case_of(), ranks=(2,), repeat=1, output="study", progress=False)
    assert study.table["ranks"].tolist() == [2]
    table = ridgeline.run_bench(
        "latency", ranks=2, sizes=(8, 32), iterations=3, warm_up=1, progress=False
    ).table
    assert table["size"].tolist() == [8, 16, 32]


def test_options_become_the_words_of_the_command_line():
    benchmark = studies.find_benchmark("latency")
    options = {option.name: option for option in benchmark.offered}
    assert list(studies._flags(options["serial"], {"serial": False})) == []
    assert list(studies._flags(options["serial"], {"serial": True})) == ["--serial"]


def test_errors_of_another_process_keep_their_kind():
    for kind in (VerificationError, CheckpointError, OutputError):
        words = refusal(kind, lambda kind=kind: rank_process._raise_error(kind.exit_code, ["error: a"], True))
        assert words == "a", f"{kind=}"
