"""The Navier-Stokes model from the command line: stopped and resumed, and refused in one sentence."""

import csv
import os
import signal
import time

import numpy as np
import pytest

import ridgeline as package

CASE = """\
[run]
model = "navier_stokes"
steps = {steps}

[grid]
elements = [2, 2, 3]
order = 4
lengths = [2.0, 2.0, 6.0]
origin = [-1.0, -1.0, 0.0]
distribution = ["sine", "sine", "uniform"]
periodic = [false, false, true]

[model]
viscosity = 0.02
dt = 0.005

[model.projection]
pressure = 4
velocity = 3

[model.forcing]
kind = "flow-rate"
bulk_velocity = 1.0

[boundary]
y_min.kind = "wall"
y_max.kind = "wall"
z_min.kind = "wall"
z_max.kind = "wall"

[[scalar]]
diffusivity = 0.02
mean_gradient = [1.0, 0.0, 0.0]
boundary.y_min.kind = "fixed"
boundary.y_max.kind = "fixed"
boundary.z_min.kind = "adiabatic"
boundary.z_max.kind = "adiabatic"

[initial]
kind = "perturbed-duct"
perturbation = 0.3

[output]
path = "flow.bp"
every = 4
variables = ["velocity_x", "pressure", "scalar_0"]
series = "flow.csv"
series_every = 1
statistics_every = 2

[checkpoint]
path = "checkpoints"
every = 4
keep = 9
"""


@pytest.fixture
def case(ridgeline):
    path = ridgeline.path / "case.toml"
    path.write_text(CASE.format(steps=8))
    return path


def succeeds(done):
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def refused(done, code, *words):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0]


def results(ridgeline):
    """Return the rows of the series, and every field of the data sets by name."""
    with (ridgeline.path / "flow.csv").open() as file:
        rows = list(csv.reader(line for line in file if not line.startswith("#")))
    fields = {}
    for path in ("flow.bp", "statistics.bp"):
        with package.open(ridgeline.path / path) as data:
            fields |= {(path, name): data[name].values for name in data.data_vars}
    return rows, fields


def overrides(*settings):
    return [word for setting in settings for word in ("--set", setting)]


@pytest.mark.full
@pytest.mark.parametrize("ranks", [1, 3])
def test_resume_gives_the_same_bits(ridgeline, case, ranks):
    succeeds(ridgeline("run", case, "-n", ranks))
    rows, fields = results(ridgeline)
    again = succeeds(ridgeline("run", case, "-n", ranks, "--resume", "checkpoints/checkpoint_00000004"))
    assert "at step 4" in again.stderr
    rows_again, fields_again = results(ridgeline)
    assert rows_again == rows
    assert fields_again.keys() == fields.keys()
    for name, values in fields.items():
        np.testing.assert_array_equal(fields_again[name], values, err_msg=str(name))


@pytest.mark.full
def test_a_signal_ends_the_run_with_a_checkpoint_to_resume_from(ridgeline, case):
    long = ("run", case, "-n", 2, "--set", "run.steps=100000", "--set", "output.every=0")
    running = ridgeline.start(*long)
    series = ridgeline.path / "flow.csv"
    while not (series.exists() and series.read_text().count("\n") > 1):  # any moment from here on must do
        assert running.poll() is None, running.communicate()
    running.send_signal(signal.SIGTERM)
    _, rest = running.communicate(timeout=60)
    assert running.returncode == 0, rest
    assert "(SIGTERM)" in rest
    newest = max(path.name for path in (ridgeline.path / "checkpoints").iterdir())
    step = int(newest.removeprefix("checkpoint_"))
    again = ridgeline(*long[:-3], f"run.steps={step + 2}", "--set", "output.every=0", "--resume", "auto")
    assert f"at step {step}" in succeeds(again).stderr


def windows_written(ridgeline):
    try:
        with package.open(ridgeline.path / "statistics.bp") as data:
            return data.sizes["step"]
    except package.RidgelineError:
        return 0


@pytest.mark.full
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (3, 1)])
def test_windows_of_statistics_continue_after_a_kill(ridgeline, case, before, after):
    """On the same ranks with the same bits, on others but for rounding; the windows lie at the same times."""
    plan = overrides(
        "grid.elements=[2, 2, 1]",
        "grid.order=3",
        "run.steps=40",
        "output.every=0",
        "output.series_every=0",
        "output.statistics_window_time=0.03125",
        "output.homogeneous=['x']",
        "checkpoint.every=7",
    )
    running = ridgeline.start("run", case, *plan, "-n", before, start_new_session=True)
    while windows_written(ridgeline) < 2:  # then a checkpoint lies in the middle of the second window
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    resumed = succeeds(ridgeline("run", case, *plan, "-n", after, "--resume", "auto"))
    assert "continuing from" in resumed.stderr
    succeeds(
        ridgeline(
            "run",
            case,
            *plan,
            "-n",
            before,
            *overrides("output.statistics=whole.bp", "checkpoint.path=other"),
        )
    )
    with (
        package.open(ridgeline.path / "statistics.bp") as found,
        package.open(ridgeline.path / "whole.bp") as whole,
    ):
        assert found.sizes["step"] == 6
        np.testing.assert_allclose(found.time[:5], 0.03125 * np.arange(1, 6), rtol=1e-14)
        assert found.step.values.tolist() == whole.step.values.tolist()
        for name in whole.data_vars:
            if before == after:
                np.testing.assert_array_equal(found[name], whole[name], err_msg=name)
            else:
                np.testing.assert_allclose(found[name], whole[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        (["grid.order=0"], 2, ["--set: grid.order is 0"]),
        (["grid.order=32"], 2, ["--set: grid.order is 32"]),
        (["boundary.x_min.kind=wall"], 2, ["boundary.x_min.kind", "direction x"]),
        (
            ["boundary.y_min.kind=inflow", "boundary.y_min.value=[0, 1, 0]", "initial.kind=rest"],
            2,
            ["boundary.y_min.value", "as much fluid enters as leaves"],
        ),
        (
            ["grid.mapping=wavy", "grid.mapping_amplitude=0.9", "initial.kind=rest"],
            2,
            ["the mapping of the mesh folds element (z=", "Jacobian"],
        ),
    ],
)
def test_bad_input_ends_with_one_sentence(ridgeline, case, settings, code, words):
    refused(ridgeline("run", case, "-n", 2, *overrides(*settings)), code, *words)


@pytest.mark.full  # the estimate has a quick test of the refusal
def test_a_first_step_beyond_stability_is_refused_before_an_output_is_opened(ridgeline, case):
    settings = overrides("model.dt=0.5", "output.statistics_every=0")
    refused(
        ridgeline("check", case, *settings), 2, "Courant number of step 0", "above the stability limit (1)"
    )
    (ridgeline.path / "flow.csv").write_text("step,time\n1,0.1\n")  # of an earlier run
    refused(ridgeline("run", case, "-n", 2, *settings), 5, "Courant number", "at step 0", "must be at most 1")
    assert (ridgeline.path / "flow.csv").read_text() == "step,time\n1,0.1\n"
    assert not list(ridgeline.path.glob("flow*bp"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ["scalar.0.initial=1/0"],
            ['--set: scalar.0.initial is "1/0"', "finite everywhere on the mesh", "inf at x = 0"],
        ),
        (
            ["initial.kind=expression", 'initial.velocity=["log(x)",0,0]'],
            ["initial.velocity", "-inf at x = 0"],
        ),
        (["boundary.y_max={kind='inflow',value=[0,1,0]}", "initial.kind=rest"], ["boundary.y_max.value"]),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_check_and_run_refuse_alike_before_anything_is_compiled(ridgeline, case, command, settings, words):
    done = ridgeline(command, case, *overrides(*settings))
    refused(done, 2, *words)
    assert "method" not in done.stderr


def test_a_step_that_is_too_long_is_refused_and_the_checkpoint_stays(ridgeline, case):
    succeeds(ridgeline("run", case, *overrides("run.steps=4")))
    done = ridgeline("run", case, *overrides("model.dt=0.5"), "--resume", "auto")
    refused(done, 5, "at step 4, but it must be at most 1")
    assert (ridgeline.path / "checkpoints" / "checkpoint_00000004").exists()


@pytest.mark.full
def test_a_solve_that_fails_is_named_and_keeps_the_last_checkpoint(ridgeline, case):
    succeeds(ridgeline("run", case, *overrides("run.steps=4")))
    strict = overrides("model.pressure.max_iterations=1", "model.pressure.tolerance=1e-14")
    done = ridgeline("run", case, *strict, "--resume", "auto")
    refused(
        done,
        5,
        "the pressure solve of step 5",
        "residual",
        "after 1 iteration",
        "The last good checkpoint is ",
    )
    assert [path.name for path in (ridgeline.path / "checkpoints").iterdir()] == ["checkpoint_00000004"]
    succeeds(ridgeline("run", case, "--resume", "auto"))
