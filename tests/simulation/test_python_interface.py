"""Cases and simulations in Python: built, seen, steered, interrupted, and read back."""

import gc
import os
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline.models.gray_scott import physics
from ridgeline.models.gray_scott.reference import advance
from ridgeline.simulation import report

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CASES = sorted({*EXAMPLES.glob("*/*.toml")} - {*EXAMPLES.glob("studies/*")})


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run in an empty folder, and measure no machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def small(steps=12, **more):
    return ridgeline.Case(
        "gray_scott", steps, grid={"shape": (9, 8, 7)}, parameters={"F": 0.03, "noise": 0}, **more
    )


def simulate(case, **options):
    return ridgeline.Simulation(case, progress=False, **options)


def stepped(case, u, v, steps):
    """Return both fields some steps later, by the reference."""
    m = case.settings.model
    return advance(
        u, v, physics.coefficients(m.Du, m.Dv, m.F, m.k, 0.0, m.dt), steps, case.settings.grid.boundary
    )


def test_a_case_takes_what_python_has():
    grid = {"shape": (np.int64(9), 8, 7)}
    case = ridgeline.Case(
        "gray_scott",
        np.int32(3),
        grid=grid,
        parameters={"F": np.float64(0.03)},
        output={"path": Path("a.bp")},
    )
    assert case.settings.grid.shape == (9, 8, 7)
    assert (case.settings.run.steps, case.settings.model.F, case.settings.output.path) == (3, 0.03, "a.bp")
    assert repr(case) == "<ridgeline.Case: gray_scott, grid 9 x 8 x 7 (z y x), float64, 3 steps>"
    assert case.estimate(2).work.points == 9 * 8 * 7


def test_what_is_read_may_be_changed(monkeypatch):
    monkeypatch.chdir(EXAMPLES.parent)  # from where the examples name the files that they read
    for path in CASES:
        case = ridgeline.Case.read(path)
        assert case.replace({}) == case, f"{path=}"
        longer = case.replace({"run.steps": case.settings.run.steps + 1})
        assert longer != case, f"{path=}"
        assert ridgeline.Case.read(path, {"run.steps": case.settings.run.steps + 1}) == longer, f"{path=}"


def check_refusal(make, words):
    with pytest.raises(ridgeline.RidgelineError) as caught:
        make()
    assert words in str(caught.value)


def test_what_is_wrong_is_said_as_on_the_command_line():
    many_threads = small().replace({"run.threads": 4000})
    for make, words in [
        (lambda: ridgeline.Case("gray_scot", 3), 'Did you mean "gray_scott"?'),
        (lambda: ridgeline.Case(model={"F": 1.0}), "must be the name of a model"),
        (lambda: ridgeline.Case("gray_scott"), "ridgeline.Case: grid.shape is missing"),
        (lambda: small(outputs={}), "ridgeline.Case: unknown section [outputs]"),
        (lambda: small(initial=3), "ridgeline.Case: initial is 3"),
        (
            lambda: small().replace({"model.F": -1}),
            "the changes: model.F is -1, but it must be a number >= 0",
        ),
        (lambda: small().replace({"model.f": 1}), "Did you mean 'F'?"),
        (lambda: small().replace({"F": 1}), "F: this is not the key of a setting"),
        (lambda: ridgeline.Case.read("nowhere.toml"), "nowhere.toml: there is no such file"),
        (lambda: simulate(many_threads), "run.threads is 4000, but it must be at most"),
        (lambda: simulate(small(), resume="nowhere"), "nowhere"),
        (lambda: small().replace({1: 2}), "1: this is not the key of a setting"),
    ]:
        check_refusal(make, words)


def test_steps_are_seen_and_steered():
    case = small(output={"every": 3, "series_every": 2})
    seen = []
    with simulate(case) as simulation:
        simulation.every(4, lambda now: seen.append((now.step, now.time, now.diagnostics()["U_mean"])))
        u, v = (simulation.fields()[name].copy() for name in "UV")
        assert simulation.advance(5) == 5
        u, v = stepped(case, u, v, 5)
        np.testing.assert_allclose(simulation.fields("V")["V"], v, rtol=1e-13)
        part = simulation.parts("U")["U"]
        assert (part.shape_global, part.offset_global) == ((9, 8, 7), (0, 0, 0))
        simulation.change({"model.F": 0.05, "run.steps": 14})
        assert (simulation.steps, simulation.case.settings.model.F) == (14, 0.05)
        figures = simulation.run()
    u, v = stepped(simulation.case, u, v, 9)
    assert [(step, time) for step, time, _ in seen] == [(4, 4.0), (8, 8.0), (12, 12.0)]
    assert figures["run"]["last_step"] == figures["run"]["steps"] == 14
    assert figures["changes"] == [
        {"step": 5, "key": "run.steps", "value": 14},
        {"step": 5, "key": "model.F", "value": 0.05},
    ]
    with ridgeline.open("gray_scott.bp") as data:
        assert data.step.values.tolist() == [3, 6, 9, 12]
        assert data.attrs["model.F"] == 0.05
    series = ridgeline.open("series.csv")
    assert series.step.values.tolist() == list(range(0, 15, 2))
    assert float(series.U_mean.sel(step=14)) == pytest.approx(u.mean(), rel=1e-13)
    assert float(series.U_mean.sel(step=8)) == seen[1][2]


def test_a_change_of_nothing_changes_no_bit():
    case = small(6).replace({"model.noise": 0.1})
    whole = simulate(case)
    whole.advance(6)
    expected = {name: values.copy() for name, values in whole.state().items()}
    whole.close()
    with simulate(case) as simulation:
        simulation.advance(3)
        simulation.change({})
        simulation.advance(3)
        for name, values in simulation.state().items():
            np.testing.assert_array_equal(values, expected[name])


def check_change_is_refused(simulation, changes, words):
    with pytest.raises(ridgeline.RidgelineError, match=words):
        simulation.change(changes)
    assert simulation.case == small(4)


def test_a_change_that_cannot_be_leaves_the_run_alone():
    with simulate(small(4)) as simulation:
        simulation.advance(2)
        check_change_is_refused(simulation, {"run.seed": 1}, "run.seed applies to the whole run")
        check_change_is_refused(simulation, {"output.every": 1}, "output.every applies to the whole run")
        check_change_is_refused(simulation, {"model.F": -1.0}, "the changes: model.F is -1.0")
        check_change_is_refused(simulation, {"run.steps": 1}, "run.steps is 1, but it must be at least 2")
        check_change_is_refused(
            simulation, {"initial.noise": 0.1}, "initial.noise applies to the initial state"
        )
        check_change_is_refused(
            simulation, {"run.end_time": 1.0}, "run.end_time is 1, but it must be at least 2"
        )
        check_change_is_refused(simulation, None, "change: None is not a mapping")
        check_change_is_refused(simulation, {1: 2}, "1: this is not the key of a setting")
        assert simulation.run()["run"]["last_step"] == 4


def test_a_callback_stops_the_run_which_another_goes_on_with():
    with simulate(small()) as simulation:
        simulation.every(5, lambda now: now.stop())
        assert simulation.run()["run"]["ended"] == "stopped"
        with pytest.raises(ridgeline.RidgelineError, match="this simulation is closed"):
            simulation.advance()
    with simulate(small(), resume="auto") as simulation:
        assert simulation.step == 5
        assert simulation.close()["run"]["ended"] == "closed"


def interrupted_at(step):
    """Return a callback that does what Ctrl-C does, in the middle of a run."""
    return lambda now: now.step == step and signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("last", [7, 12])
def test_an_interrupt_leaves_a_checkpoint_and_the_kernel_alive(last):
    before = signal.getsignal(signal.SIGINT)
    simulation = simulate(small())
    simulation.every(1, interrupted_at(7))
    with pytest.raises(
        KeyboardInterrupt, match=r"SIGINT stopped the run at step \d+\. Its checkpoint is checkpoints/"
    ):
        simulation.advance(last)
    assert signal.getsignal(signal.SIGINT) is before
    assert simulation.step < 10
    simulation.close()
    with simulate(small(), resume="auto") as again:
        assert again.step == simulation.step
    simulation = simulate(small())
    simulation.every(1, interrupted_at(7))
    with pytest.raises(KeyboardInterrupt):
        simulation.run()
    assert simulation.run()["run"]["ended"] == "all steps done"


def test_an_interrupt_between_steps_leaves_a_checkpoint_too():
    def interrupted():
        with simulate(small()) as simulation:
            simulation.advance(4)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with simulate(small(), resume="auto") as simulation:
        assert simulation.step == 4


def test_an_error_gives_the_paths_free():
    def fails():
        with simulate(small()) as simulation:
            simulation.every(2, lambda now: 1 / 0)
            simulation.run()

    with pytest.raises(ZeroDivisionError):
        fails()
    with simulate(small()) as simulation:
        assert simulation.run()["run"]["last_step"] == 12


def test_times_are_met_by_advance_and_by_callbacks():
    """Steps have the length 1; the end at 12 steps comes before that at time 20."""
    met, stepped = [], []
    with simulate(small(run={"end_time": 20.0})) as simulation:
        simulation.every_time(2.4, lambda now: met.append(now.time))
        simulation.every(4, lambda now: stepped.append(now.step))
        simulation.advance(until=5.5)
        assert simulation.time == 5.5
        assert simulation.advance(until=5.5) == simulation.step
        simulation.run()
        assert simulation.step == 12
    assert met == [2.4, 4.8, 3 * 2.4, 9.6]
    assert stepped == [4, 8, 12]
    with simulate(small(None, run={"end_time": 7.3})) as simulation:
        assert simulation.steps is None
        report = simulation.run()
    assert (report["run"]["time"], report["run"]["ended"], report["run"]["complete"]) == (
        7.3,
        "end time reached",
        True,
    )


def test_numbers_of_steps_are_integers():
    with simulate(small()) as simulation:
        for call, words in [
            (
                lambda: simulation.advance(2.0),
                "advance: the number of steps is 2.0, but it must be an integer >= 0.",
            ),
            (
                lambda: simulation.advance(2, until=3.0),
                "advance: both a number of steps and a time are given, but only one of them can be.",
            ),
            (
                lambda: simulation.advance(until="3"),
                "advance: the time is '3', but it must be a finite number.",
            ),
            (
                lambda: simulation.advance(until=-1.0),
                "advance: the time is -1, but it must be at least 0, the current time of the run.",
            ),
            (lambda: simulation.advance(-1), "advance: the number of steps is -1"),
            (
                lambda: simulation.every(True, print),
                "every: the number of steps is True, but it must be an integer >= 1.",
            ),
            (
                lambda: simulation.every(0, print),
                "every: the number of steps is 0, but it must be an integer >= 1.",
            ),
            (lambda: simulation.every(3, None), "every: None cannot be called"),
        ]:
            check_refusal(call, words)
        assert simulation.advance(np.int64(2)) == simulation.advance(0) == 2
        assert simulation.run()["run"]["last_step"] == 12


def test_nothing_is_done_after_the_end():
    def calls(simulation):
        return [
            simulation.state, simulation.parts, simulation.fields, simulation.diagnostics, simulation.profiles,
            simulation.advance, simulation.run, simulation.stop, simulation.save,
            lambda: simulation.communicator, lambda: simulation.every(1, print),
            lambda: simulation.set_fields({}), lambda: simulation.change({}),
        ]  # fmt: skip

    with simulate(small(2)) as simulation:
        report = simulation.run()
    for call in calls(simulation):
        check_refusal(call, "this simulation is closed. Create a new one")
    assert (simulation.close(), simulation.step, simulation.time) == (report, 2, 2.0)
    with pytest.raises(ZeroDivisionError), simulate(small(2)) as simulation:
        simulation.advance(1 / 0)
    for call in [*calls(simulation), simulation.close]:
        check_refusal(call, "this simulation ended with an error. Create a new one")


def test_an_end_that_fails_gives_the_paths_free():
    simulation = simulate(small(4))
    simulation.advance(2)
    Path("checkpoints").rename("elsewhere")
    Path("checkpoints").write_text("no folder")
    with pytest.raises((ridgeline.RidgelineError, OSError)):
        simulation.close()
    Path("checkpoints").unlink()
    with simulate(small(2)) as simulation:
        assert simulation.run()["run"]["last_step"] == 2


@pytest.mark.parametrize("call", ["close", "run"])
def test_a_callback_cannot_end_its_simulation(call):
    with simulate(small()) as simulation:
        simulation.every(3, lambda now: check_refusal(getattr(now, call), f"{call}: a callback cannot end"))
        assert simulation.advance(7) == 7


def test_a_callback_may_change_the_last_step():
    with simulate(small()) as simulation:
        simulation.every(4, lambda now: now.change({"run.steps": {4: 9, 8: 8}[now.step]}))
        assert simulation.run()["run"]["last_step"] == 8
    with simulate(small(4)) as simulation:
        simulation.every(2, lambda now: now.step == 2 and now.change({"run.steps": 6}))
        assert simulation.run()["run"]["last_step"] == 6


def test_a_fork_leaves_the_run_alone():
    """A child of a fork neither steps, nor writes, nor gives the paths of its parent free."""
    with simulate(small(output={"series_every": 1})) as simulation:
        simulation.advance(2)
        child = os.fork()
        if not child:  # pragma: no cover
            code = 1
            try:
                check_refusal(
                    simulation.advance, f"belongs to process {os.getppid()}, of which this process is a fork"
                )
                check_refusal(simulation.close, "of which this process is a fork")
                simulation.__exit__(ValueError, ValueError(), None)
                simulation._finalizer()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert Path("checkpoints/.lock").exists()
        simulation.run()
    assert ridgeline.open("series.csv").step.values.tolist() == list(range(13))


def test_a_dropped_simulation_gives_the_paths_free():
    simulation = simulate(small())
    check_refusal(lambda: simulate(small()), "in use by another run in this process. Close that run first")
    with pytest.warns(ResourceWarning, match="deleted before it was closed"):
        del simulation
    simulation = simulate(small())
    simulation.every(1, lambda now: simulation.fields())  # which garbage collection alone finds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.disable()
        try:
            del simulation
            with simulate(small()) as simulation:
                assert simulation.run()["run"]["last_step"] == 12
        finally:
            gc.enable()


def test_a_setting_without_effect_is_told_before_the_first_step(caplog):
    case = small(2, initial={"count": 3}).replace({"model.F": 0.02})
    with simulate(case):
        assert [record.getMessage() for record in caplog.records] == [
            'the case: initial.count = 3 has no effect, because initial.kind is "box". It is used only with '
            'initial.kind = "patches".'
        ]


def test_what_is_handed_out_is_read_only():
    with simulate(small()) as simulation:
        part = simulation.parts("U")["U"]
        for array in (*simulation.state().values(), *simulation.fields().values(), part.local):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        simulation.profiles()
        simulation.advance(2)


def test_a_hole_is_cut_into_a_pattern():
    case = small(8)
    with simulate(case) as simulation:
        simulation.advance(3)
        u, v = (simulation.fields()[name].copy() for name in "UV")
        simulation.save()
        v[:, :4, :5] = 0.3
        simulation.set_fields({"V": v})
        path = simulation.save()  # another one of this step
        simulation.advance(2)
        expected = stepped(case, u, v, 2)
        for name, values in zip("UV", expected):
            np.testing.assert_allclose(simulation.fields(name)[name], values, rtol=1e-13)
        simulation.set_fields({"U": simulation.fields()["V"], "V": simulation.fields()["U"]})
        for name, values in zip("VU", expected):
            np.testing.assert_allclose(simulation.fields(name)[name], values, rtol=1e-13)
        changes = simulation.close()["changes"]
    assert changes == [
        {"step": 3, "key": "fields", "value": ["V"]},
        {"step": 5, "key": "fields", "value": ["U", "V"]},
    ]
    with simulate(case, resume=str(path)) as simulation:
        np.testing.assert_array_equal(simulation.fields("V")["V"], v)


def test_fields_that_cannot_be_set_leave_the_run_alone():
    with simulate(small()) as simulation:
        bits = {name: values.copy() for name, values in simulation.state().items()}
        u, bad = bits["U"], np.full_like(bits["U"], np.nan)
        for fields, words in [
            (None, "set_fields: None is not a mapping"),
            ({"u": u}, "set_fields: gray_scott cannot set 'u'. It can set U, V."),
            ({"U": u[1:]}, "U has shape [8, 8, 7] and dtype float64, but it must be this rank's part"),
            ({"V": u, "U": 1j * u}, "dtype complex128, but it must be this rank's part"),
            ({"U": [[1], [2, 3]]}, "must be this rank's part as `fields` returns it, of shape [9, 8, 7]"),
            ({"V": u, "U": bad}, "set_fields: U contains NaN or infinity"),
        ]:
            check_refusal(lambda fields=fields: simulation.set_fields(fields), words)
        for name, values in simulation.state().items():
            np.testing.assert_array_equal(values, bits[name])


def test_atoms_come_with_their_box():
    case = ridgeline.Case(
        "molecular_dynamics", 1, grid={"cells": (2, 2, 3)}, output={"every": 1, "path": "a.bp"}
    )
    with simulate(case) as simulation:
        simulation.run()
    with ridgeline.open("a.bp") as data:
        edge = (4 / 0.8442) ** (1 / 3)
        np.testing.assert_allclose(data.length, [3 * edge, 2 * edge, 2 * edge])
        assert data.axis.values.tolist() == ["x", "y", "z"]
        assert float(data.position.sel(axis="y").max()) < data.length[1]
