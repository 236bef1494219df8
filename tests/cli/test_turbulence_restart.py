"""Turbulence from the command line: resumed, started from its own checkpoints and data sets, and refused."""

import csv

import numpy as np
import pytest

import ridgeline as package

CASE = """\
[run]
model = "turbulence"
steps = {steps}
precision = "{precision}"
seed = 5

[grid]
shape = [{shape}]

[model]
viscosity = 0.02
{time_step}

[initial]
kind = "spectrum"
energy = 0.5
peak_wavenumber = 2.0

[forcing]
{forcing}

[output]
every = 2
initial = true
series_every = 1

[checkpoint]
every = 2
keep = 9

[[scalar]]
schmidt = 0.7
mean_gradient = [0.0, 1.0, 0.0]
variance = 0.1
"""
FORCINGS = {
    "none": 'kind = "none"',
    "eswaran-pope": 'kind = "eswaran-pope"\namplitude = 0.1\ncorrelation_time = 0.5',
    "frozen": 'kind = "frozen"',
    "linear": 'kind = "linear"\ncoefficient = 0.1',
}


def write(
    ridgeline,
    steps=6,
    shape="12, 14, 16",
    forcing="none",
    time_step="courant = 0.5",
    precision="float64",
    name="case.toml",
):
    path = ridgeline.path / name
    path.write_text(
        CASE.format(
            steps=steps, shape=shape, forcing=FORCINGS[forcing], time_step=time_step, precision=precision
        )
    )
    return path


def succeeds(done):
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def refused(done, code):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error:") == 1
    return done.stderr


def data(ridgeline, path):
    """Steps, times and velocity [step, component, z, y, x] of a data set."""
    with package.open(ridgeline.path / path) as found:
        names = ("velocity_x", "velocity_y", "velocity_z")
        return found.step.values, found.time.values, np.stack([found[name].values for name in names], axis=1)


def rows(ridgeline, path):
    with (ridgeline.path / path).open() as file:
        return list(csv.reader(line for line in file if not line.startswith("#")))


def checkpoint_bytes(ridgeline, step):
    folder = ridgeline.path / "checkpoints" / f"checkpoint_{step:08d}"
    return [file.read_bytes() for file in sorted(folder.glob("data_*.bin"))]


def anew(shape, path, *more, steps=1):
    """A run that starts from a file."""
    settings = (
        f"grid.shape=[{shape}]",
        f"run.steps={steps}",
        "initial.kind=file",
        f"initial.path={path}",
        "output.path=anew.bp",
        "output.series=anew.csv",
        "checkpoint.path=anew",
        "checkpoint.every=0",
        *more,
    )
    return [part for setting in settings for part in ("--set", setting)]


PENCILS = ("--set", "grid.decomposition=pencils", "--set", "grid.process_grid=[2, 1]")


@pytest.mark.parametrize(
    ("forcing", "precision", "layout"),
    [
        ("none", "float32", ()),
        pytest.param("eswaran-pope", "float64", ("-n", 2), marks=pytest.mark.full),
        pytest.param("frozen", "float64", ("-n", 2, *PENCILS), marks=pytest.mark.full),
        pytest.param("linear", "float64", ("-n", 3), marks=pytest.mark.full),
    ],
)
def test_resume_on_the_same_layout_gives_the_same_bits(ridgeline, forcing, precision, layout):
    case = write(ridgeline, forcing=forcing, precision=precision)
    succeeds(ridgeline("run", case, *layout))
    whole, series = data(ridgeline, "turbulence.bp"), rows(ridgeline, "series.csv")
    last = checkpoint_bytes(ridgeline, 6)
    again = ridgeline("run", case, *layout, "--resume", "checkpoints/checkpoint_00000002")
    assert "at step 2" in succeeds(again).stderr
    for before, after in zip(whole, data(ridgeline, "turbulence.bp")):
        np.testing.assert_array_equal(after, before)
    assert rows(ridgeline, "series.csv") == series
    folder = ridgeline.path / "checkpoints"
    newest = max(folder.glob("checkpoint_00000006*"), key=lambda path: path.stat().st_mtime_ns)
    assert [file.read_bytes() for file in sorted(newest.glob("data_*.bin"))] == last


@pytest.mark.full
def test_resume_on_other_layouts_agrees_to_rounding(ridgeline):
    """The process grid changes from a word to numbers and back, and the data set stays readable."""
    case = write(ridgeline, forcing="eswaran-pope")
    succeeds(ridgeline("run", case, "-n", 2))
    _, times, whole = data(ridgeline, "turbulence.bp")
    for layout in (("-n", 2, *PENCILS), ("-n", 3)):
        succeeds(ridgeline("run", case, *layout, "--resume", "checkpoints/checkpoint_00000002"))
        _, times_again, again = data(ridgeline, "turbulence.bp")
        np.testing.assert_allclose(times_again, times, rtol=1e-13)
        np.testing.assert_allclose(again, whole, rtol=0, atol=1e-12)


@pytest.mark.full
def test_start_from_checkpoint_and_data_set_of_the_same_grid(ridgeline):
    case = write(ridgeline, steps=2)
    succeeds(ridgeline("run", case, "-n", 2))
    _, _, whole = data(ridgeline, "turbulence.bp")
    for path, tolerance in (("checkpoints", 1e-14), ("turbulence.bp", 1e-13)):
        done = succeeds(ridgeline("run", case, *anew("12, 14, 16", path)))
        assert (
            f"the initial state is from {'checkpoint' if path == 'checkpoints' else 'data set'}"
            in done.stderr
        )
        steps, times, fields = data(ridgeline, "anew.bp")
        assert (steps[0], times[0]) == (0, 0.0)
        np.testing.assert_allclose(fields[0], whole[-1], rtol=0, atol=tolerance)


@pytest.mark.full
def test_start_on_a_finer_and_a_coarser_grid(ridgeline):
    case = write(ridgeline, steps=2)
    succeeds(ridgeline("run", case, "-n", 2))
    _, _, whole = data(ridgeline, "turbulence.bp")
    done = succeeds(ridgeline("run", case, "-n", 2, *anew("24, 28, 32", "checkpoints")))
    assert "modes that only this grid has are zero" in done.stderr
    finer = data(ridgeline, "anew.bp")[2]
    # The same trigonometric polynomial, seen at twice as many points.
    np.testing.assert_allclose(finer[0][:, ::2, ::2, ::2], whole[-1], rtol=0, atol=1e-13)
    done = succeeds(ridgeline("run", case, *anew("8, 8, 8", "checkpoints")))
    assert "are left out, and with them" in done.stderr
    energies = [float(rows(ridgeline, "anew.csv")[1][2]), 0.5 * (whole[-1] ** 2).sum(axis=0).mean()]
    assert 0.1 * energies[1] < energies[0] < energies[1]


@pytest.mark.full
def test_checkpoints_of_something_else(ridgeline):
    other = ridgeline.write("gray_scott.toml", steps=2, shape="8, 8, 8", every=0, checkpoint=2)
    succeeds(ridgeline("run", other, "--set", "checkpoint.path=gray_scott"))
    case = write(ridgeline, steps=2)
    error = refused(ridgeline("run", case, "-n", 2, "--resume", "gray_scott"), 4)
    assert "run.model: the checkpoint has 'gray_scott', the run has 'turbulence'" in error
    error = refused(ridgeline("run", case, "-n", 2, *anew("12, 14, 16", "gray_scott")), 4)
    assert 'run.model = "gray_scott"' in error
    succeeds(ridgeline("run", case))
    error = refused(ridgeline("run", case, "--resume", "auto", "--set", "model.viscosity=0.03"), 4)
    assert "model.viscosity: the checkpoint has 0.02, the run has 0.03" in error
    error = refused(ridgeline("run", case, "--resume", "auto", "--set", "grid.shape=[16,16,16]"), 4)
    assert "grid.shape: the checkpoint has [12, 14, 16], the run has [16, 16, 16]" in error
    lengths = "grid.lengths=[1.0, 2.0, 3.0]"
    error = refused(ridgeline("run", case, "-n", 2, *anew("12, 14, 16", "checkpoints", lengths)), 4)
    assert "of another box" in error
    error = refused(ridgeline("run", case, *anew("12, 14, 16", "nowhere")), 2)
    assert "nowhere is nothing" in error
    error = refused(
        ridgeline(
            "run",
            case,
            *anew("12, 14, 16", "checkpoints", "checkpoint.path=checkpoints", "checkpoint.every=2"),
        ),
        2,
    )
    assert "a path that does not contain initial.path" in error


@pytest.mark.full
def test_damage_is_an_error_on_all_ranks(ridgeline):
    case = write(ridgeline, steps=2)
    succeeds(ridgeline("run", case, "-n", 2))
    (file,) = (ridgeline.path / "checkpoints").glob("checkpoint_00000002/data_0000.bin")
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0x10
    file.write_bytes(content)
    error = refused(ridgeline("run", case, "-n", 2, *anew("12, 14, 16", "checkpoints")), 4)
    assert "data_0000.bin is damaged" in error
    error = refused(ridgeline("run", case, "-n", 2, "--resume", "checkpoints/checkpoint_00000002"), 4)
    assert "data_0000.bin is damaged" in error
