"""`ridgeline run` end to end: data set, report, streams, exit codes."""

import json
import re

import numpy as np
import pytest

import ridgeline as package
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.models.gray_scott.reference import advance


def reference(shape, steps, seed=7, half_width=3):
    u, v = np.ones(shape), np.zeros(shape)
    box = tuple(slice(n // 2 - half_width, n // 2 + half_width) for n in shape)
    u[box], v[box] = 0.25, 0.33
    return advance(u, v, coefficients(0.2, 0.1, 0.02, 0.048, 0.01, 1.0), steps, "periodic", seed)


def test_a_run_writes_the_states_of_the_reference(ridgeline):
    case = ridgeline.write(steps=8, every=4)
    done = ridgeline("run", case, "-n", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", "nothing but data goes to stdout"
    with package.open(ridgeline.path / "gray_scott.bp") as data:
        assert data.step.values.tolist() == [4, 8]
        for step in (4, 8):
            u, v = reference((13, 10, 17), step)
            np.testing.assert_allclose(data.U.sel(step=step).values, u, rtol=1e-13)
            np.testing.assert_allclose(data.V.sel(step=step).values, v, rtol=1e-13, atol=1e-16)


def test_report_says_what_ran_and_how_fast(ridgeline):
    case = ridgeline.write(steps=12, every=6)
    done = ridgeline("run", case, "-n", 2, "--json", "copy.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((ridgeline.path / "gray_scott.bp.run.json").read_text())
    assert json.loads((ridgeline.path / "copy.json").read_text()) == report
    assert report["steps"] == 12
    assert report["run"]["ranks"] == 2
    assert report["seconds_per_step"] > 0
    assert report["points_per_second"] == pytest.approx(13 * 10 * 17 / report["seconds_per_step"])
    assert set(report["phases"]) == {"compute", "exchange", "output", "checkpoint", "other"}
    assert report["work"]["bytes_memory"] == 32 * 13 * 10 * 17
    assert report["fraction_of_stream"] == pytest.approx(
        report["work"]["bytes_memory"] / report["seconds_per_step"] / report["limits"]["best"]
    )
    assert report["settings"]["model.F"] == 0.02
    for word in (
        "gray_scott",
        "diffusivities: 0.03333 and 0.01667 cells^2/time",
        "front: ",
        "steps/s",
        "V_mean",
        "ridgeline plot gray_scott.bp",
        "of the limit",
    ):
        assert word in done.stderr
    assert "max over ranks" not in done.stderr


def test_overrides_and_json_on_stdout(ridgeline):
    case = ridgeline.write()
    done = ridgeline("run", case, "--set", "run.steps=3", "--set", "output.every=0", "--json", "-")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["steps"] == 3
    assert not (ridgeline.path / "gray_scott.bp").exists()


@pytest.mark.full
def test_settings_of_grayscott_jl_run_as_they_are(ridgeline):
    (ridgeline.path / "settings.json").write_text(
        json.dumps(
            {
                "L": 16,
                "Du": 0.2,
                "Dv": 0.1,
                "F": 0.02,
                "k": 0.048,
                "dt": 1.0,
                "plotgap": 5,
                "steps": 10,
                "noise": 0.1,
                "output": "gs-julia.bp",
                "checkpoint": False,
                "precision": "Float32",
                "adios_config": "adios2.xml",
            }
        )
    )
    done = ridgeline("run", "settings.json")
    assert done.returncode == 0, done.stderr
    assert "adios_config" in done.stderr
    with package.open(ridgeline.path / "gs-julia.bp") as data:
        assert data.step.values.tolist() == [5, 10]
        assert data.U.dtype == np.float32
        assert data.U.shape == (2, 16, 16, 16)


@pytest.mark.full
@pytest.mark.parametrize("ranks", [1, 3])
def test_bits_do_not_depend_on_ranks_grid_or_threads(ridgeline, ranks):
    case = ridgeline.write(steps=7, every=7)
    assert ridgeline("run", case, "--set", "output.path=a.bp").returncode == 0
    arguments = ["--threads", 2] if ranks == 1 else ["--set", "grid.process_grid=[1, 1, 3]"]
    done = ridgeline("run", case, "-n", ranks, "--set", "output.path=b.bp", *arguments)
    assert done.returncode == 0, done.stderr
    with package.open(ridgeline.path / "a.bp") as a, package.open(ridgeline.path / "b.bp") as b:
        assert a.U.values.tobytes() == b.U.values.tobytes()
        assert a.V.values.tobytes() == b.V.values.tobytes()


def test_quiet_prints_warnings_alone_and_the_log_keeps_everything_with_its_time(ridgeline):
    case = ridgeline.write(steps=20, every=10)
    override = ("--set", "initial.count=3")  # has no effect: a warning
    done = ridgeline("run", case, "-n", 2, "--quiet", "--log", "run.log", *override)
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch("warning: --set: initial.count .*\n", done.stderr), done.stderr
    lines = (ridgeline.path / "run.log").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( |$)", line) for line in lines)
    texts = [line[20:] for line in lines]
    assert texts[0].startswith("warning: --set: initial.count")
    assert texts[1].startswith("ridgeline: gray_scott, grid 13 x 10 x 17")
    # On a grid as small as this one, all steps between two outputs are one call.
    assert [text.split()[1] for text in texts if text.startswith("step ")] == ["10/20", "20/20"]
    assert any(text.startswith("speed: 20 steps") for text in texts)
    again = ridgeline("run", case, "--quiet", "--log", "run.log", "--resume", "nowhere")
    assert again.returncode == 4
    kept = (ridgeline.path / "run.log").read_text().splitlines()
    assert kept[: len(lines)] == lines
    assert f"{kept[-1][20:]}\n" == again.stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--quiet", "--verbose"), 2, "--quiet cannot be used with --verbose."),
        (("--log", "no/such/folder/run.log"), 6, "--log"),
        (("--log", "gray_scott.bp/run.log"), 6, "--log"),
    ],
)
def test_a_log_that_cannot_be_written_ends_the_run_before_it_begins(ridgeline, options, code, words):
    done = ridgeline("run", ridgeline.write(steps=1), *options)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert not (ridgeline.path / "gray_scott.bp").exists()
