"""The model of docs/adding-a-model.md, in a folder outside the package, run as its user would run it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline.io.series import read_series

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "docs" / "example_models"
CASE = MODELS / "heat" / "settings.toml"
# One step multiplies a cosine of one wave on 24 cells by this (D = 1, dt = 0.1).
FACTOR = 1 - 0.1 * (2 - 2 * np.cos(2 * np.pi / 24))


def command(folder, *arguments, models=MODELS) -> subprocess.CompletedProcess:
    """Run `ridgeline ARGUMENTS` in `folder`."""
    environment = {**os.environ, "RIDGELINE_MODEL_PATH": str(models), "NUMBA_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "ridgeline", *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )


def run(folder, *arguments) -> None:
    done = command(folder, "run", CASE, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def temperature(folder) -> np.ndarray:
    with ridgeline.open(folder / "heat.bp") as data:
        return data["T"].values


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a run on one rank."""
    folder = tmp_path_factory.mktemp("heat")
    run(folder)
    return folder


def test_a_cosine_decays_by_its_factor(finished):
    with ridgeline.open(finished / "heat.bp") as data:
        assert list(data.step.values) == [0, 20, 40, 60, 80, 100]
        np.testing.assert_allclose(data.time, 0.1 * data.step)
        cosine = np.cos(2 * np.pi / 24 * np.arange(24))
        for step in data.step.values:
            expected = np.broadcast_to(FACTOR ** int(step) * cosine, (12, 16, 24))
            np.testing.assert_allclose(data["T"].sel(step=step), expected, atol=1e-13)


def test_a_time_series_comes_with_the_driver(finished):
    series = read_series(finished / "series.csv")
    assert list(series) == ["step", "time", "T_min", "T_max"]
    assert series["step"].tolist() == [0, 20, 40, 60, 80, 100]
    np.testing.assert_allclose(series["T_max"], FACTOR ** series["step"], rtol=1e-13)


def test_report_and_provenance_come_with_the_driver(finished):
    report = json.loads((finished / "heat.bp.run.json").read_text())
    assert report["model"] == "heat"
    assert report["steps"] == 100
    assert report["work"]["bytes_memory"] == 2 * 8 * 12 * 16 * 24
    assert report["fraction_of_stream"] > 0
    with ridgeline.open(finished / "heat.bp") as data:
        assert data.attrs["model.dt"] == 0.1


@pytest.mark.full
def test_two_ranks_then_three_give_the_bits_of_one(finished, tmp_path):
    run(tmp_path, "-n", 2, "--set", "run.steps=50", "--set", "checkpoint.every=50")
    run(tmp_path, "-n", 3, "--resume", "auto")
    np.testing.assert_array_equal(temperature(tmp_path), temperature(finished))
    assert (tmp_path / "series.csv").read_text() == (finished / "series.csv").read_text()


def test_divergence_is_found_by_the_driver(tmp_path):
    shutil.copytree(MODELS, tmp_path / "models")
    config = tmp_path / "models" / "heat" / "settings.py"
    text = config.read_text()
    assert "self.dt * self.D * 6 > 1" in text
    config.write_text(text.replace("self.dt * self.D * 6 > 1", "False"))  # a model that forgot its limit
    wish = ("--set", "initial.amplitude=1e30", "--set", "initial.waves=[6,8,12]", "--set", "model.dt=1e10")
    done = command(tmp_path, "run", CASE, *wish, models=tmp_path / "models")
    assert done.returncode == 5, done.stderr
    assert "T at z=0, y=0, x=0" in done.stderr


def test_settings_are_checked_and_explained(tmp_path):
    done = command(tmp_path, "run", CASE, "--set", "model.dt=0.2")
    assert done.returncode == 2
    assert "at most 1/(6 D)" in done.stderr
    done = command(tmp_path, "explain", "heat")
    assert done.returncode == 0, done.stderr
    assert "model.D" in done.stdout
    assert "heat" in command(tmp_path, "explain").stdout


def test_the_page_shows_the_files_as_they_are():
    page = (ROOT / "docs" / "adding-a-model.md").read_text()
    shown = re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```\n", page, re.DOTALL)
    assert {name for name, _ in shown} == {
        "docs/example_recorders/extremes.py",
        *(
            f"docs/example_models/heat/{name}"
            for name in ("settings.py", "kernels.py", "estimate.py", "model.py", "settings.toml")
        ),
    }
    for name, text in shown:
        assert text == (ROOT / name).read_text(), f"{name} differs from what the page shows"


def test_a_model_without_a_prediction_of_its_own_is_predicted_from_its_estimate(tmp_path):
    done = command(tmp_path, "predict", CASE, "--machine", "frontier")
    assert done.returncode == 0, done.stderr
    assert "sweep" in done.stdout
    assert "has no codes.heat" in done.stdout


def test_a_folder_of_models_that_is_not_there_is_named(tmp_path):
    done = command(tmp_path, "run", CASE, models=tmp_path / "nowhere")
    assert done.returncode == 2, done.stderr
    assert "nowhere, which is not a directory" in done.stderr
