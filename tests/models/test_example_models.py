"""The models of docs/spectral-models.md and docs/particle-models.md, against their exact solutions."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline import models

pytest_plugins = ["ridgeline.testing"]

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "docs" / "example_models"
PAGES = {"spectral_heat": "spectral-models.md", "oscillators": "particle-models.md"}


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """Make the models known to this process and to the ranks that it starts."""
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(MODELS)])
    monkeypatch.setenv("RIDGELINE_MODEL_PATH", str(MODELS))


def heat_case():
    """Return a case whose 10 points in y do not divide by 3, and whose 25 lines of modes by neither 2 nor 3."""
    return ridgeline.Case(
        "spectral_heat",
        steps=6,
        grid={"shape": (6, 10, 10)},
        parameters={"D": 0.5, "dt": 0.05},
        initial={"amplitude": 2.0, "waves": (1, 3, 2)},
        output={"every": 3, "initial": True},
    )


def exact_temperature(case):
    """Return the product of sines, which decays by D k^2 = 0.5 (1 + 9 + 4)."""
    z, y, x = (
        np.sin(2 * np.pi * waves / n * np.arange(n)) for waves, n in zip((1, 3, 2), case.settings.grid.shape)
    )
    return {"T": 2.0 * math.exp(-7.0 * 6 * 0.05) * z[:, None, None] * y[:, None] * x}


def oscillators_case():
    """Return a case whose particles cross the origin, so that all of them change their rank."""
    return ridgeline.Case(
        "oscillators",
        steps=40,
        grid={"shape": (3, 5, 7)},
        parameters={"frequency": 2.0, "dt": 0.05},
        output={"every": 20, "initial": True},
    )


def exact_particles(case):
    """Return x_0 cos(n theta), which solves the difference equation of Verlet's method with a start at rest."""
    theta, half = math.acos(1 - 0.5 * (2.0 * 0.05) ** 2), 0.5 * (2.0 * 0.05) ** 2
    z, y, x = np.indices((3, 5, 7)).reshape(3, -1)
    start = np.stack([(x + 0.5) / 7, (y + 0.5) / 5, (z + 0.5) / 3], axis=1) - 0.5
    assert abs(math.cos(40 * theta) - math.cos(2.0 * 2.0)) < 2e-3, "the method is of second order"
    # A step of Verlet's method gives x_1 = x_0 (1 - half) + dt v_0.
    velocity = start * (math.cos(41 * theta) - math.cos(40 * theta) * (1 - half)) / 0.05
    return {"position": start * math.cos(40 * theta), "velocity": velocity}


CASES = {"spectral_heat": (heat_case, exact_temperature), "oscillators": (oscillators_case, exact_particles)}


@pytest.mark.parametrize("name", CASES)
def test_the_exact_solution_is_found(model_checks, name):
    case, exact = CASES[name]
    model_checks.same_as(case(), exact, rtol=1e-12)


# Transforms may round differently on other ranks; the arithmetic of a particle does not.
@pytest.mark.full
@pytest.mark.parametrize(("name", "rtol"), [("spectral_heat", 1e-14), ("oscillators", 0.0)])
def test_three_ranks_then_two_give_the_answer_of_one(model_checks, name, rtol):
    model_checks.same_after_resume(CASES[name][0](), ranks=3, resumed_ranks=2, rtol=rtol)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_the_files_as_they_are(name):
    page = (ROOT / "docs" / PAGES[name]).read_text()
    shown = dict(re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```\n", page, re.DOTALL))
    files = ("settings.py", "estimate.py", "model.py", "settings.toml")
    assert shown == {
        f"docs/example_models/{name}/{file}": (MODELS / name / file).read_text() for file in files
    }
