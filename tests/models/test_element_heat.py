"""The model of docs/element-models.md: its page, and what a user of it gets on one rank."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from ridgeline import models
from ridgeline.models.contract import Context

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "docs" / "example_models"
CASE = MODELS / "element_heat" / "settings.toml"
K2 = 4 * np.pi**2 * (1 + 1 / 4 + 1 / 9)  # of one wave in each direction of a box of lengths 1, 2, 3
D = 0.1


@pytest.fixture
def start(monkeypatch):
    """Return a function that sets up the model on one rank."""
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(MODELS)])

    def begin(order=7, dt=0.01, boundary="fixed", tolerance=1e-12):
        case = models.case_class("element_heat").model_validate(
            {
                "run": {"model": "element_heat", "steps": 1},
                "grid": {
                    "shape": (1, 2, 3),
                    "order": order,
                    "lengths": (1.0, 2.0, 3.0),
                    "boundary": boundary,
                },
                "model": {"D": D, "dt": dt, "tolerance": tolerance},
            }
        )
        model = models.create("element_heat")
        model.setup(case, Context(MPI.COMM_SELF))
        model.compile()
        model.initialize()
        return model

    return begin


def midpoint(dt: float) -> float:
    """Return the factor of a step of the midpoint rule, exact in space."""
    return (1 - D * K2 * dt / 2) / (1 + D * K2 * dt / 2)


def error(model, factor) -> float:
    """Return the largest difference from the first state times a factor."""
    places = (model.outputs(["T"])[axis].local for axis in "xyz")
    sines = [np.sin(2 * np.pi * place / length) for place, length in zip(places, (3.0, 2.0, 1.0))]
    return float(abs(model.state()["T"].local - factor * sines[0] * sines[1] * sines[2]).max())


@pytest.mark.parametrize("boundary", ["fixed", "periodic"])
def test_the_error_falls_with_the_order_of_the_elements(start, boundary):
    errors = []
    for order in (6, 9):
        model = start(order, boundary=boundary)
        for _ in range(3):
            model.step(1)
        errors.append(error(model, midpoint(0.01) ** 3))
    assert errors[0] < 1e-3
    assert errors[1] < errors[0] / 100


def test_the_error_falls_with_the_square_of_the_time_step(start):
    errors = []
    for steps in (2, 4):
        model = start(9, 0.2 / steps)
        for _ in range(steps):
            model.step(1)
        errors.append(error(model, np.exp(-D * K2 * 0.2)))
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_a_shortened_step_meets_its_time(start):
    model = start(9)
    while model.time(0) < 0.025:
        model.step(1, until=0.025)
    assert model.time(0) == 0.025
    assert error(model, midpoint(0.025 / 3) ** 3) < 5e-6


def command(folder, *arguments) -> None:
    environment = {**os.environ, "RIDGELINE_MODEL_PATH": str(MODELS), "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_that_is_resumed_decays_as_the_exact_solution(tmp_path, start):
    command(tmp_path, "run", CASE, "--set", "run.steps=10", "--set", "checkpoint.every=10")
    command(tmp_path, "run", CASE, "--resume", "auto")
    with ridgeline.open(tmp_path / "heat.bp") as data:
        assert data.step.values.tolist() == [0, 10, 20]
        found = data["T"].values
        assert data["x"].shape == found.shape[1:]
    largest = abs(found).max(axis=(1, 2, 3, 4))
    np.testing.assert_allclose(largest / largest[0], np.exp(-D * K2 * data.time.values), rtol=1e-3)
    model = start(tolerance=1e-10)
    for _ in range(20):
        model.step(1)
    np.testing.assert_array_equal(found[-1], model.state()["T"].local)  # one run without a restart


def test_the_page_shows_the_files_as_they_are():
    page = (ROOT / "docs" / "element-models.md").read_text()
    shown = dict(re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```\n", page, re.DOTALL))
    files = [path for path in CASE.parent.glob("*.*") if path.name != "__init__.py"]
    assert shown == {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}
