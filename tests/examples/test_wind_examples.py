"""The examples of the wind model, shortened, give what their headers promise."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline.models.wind.forcing import ekman_profile

pytestmark = pytest.mark.full

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(folder: Path, name: str, ranks: int, *overrides: str) -> None:
    """Run an example in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", "run", str(EXAMPLES / name / "settings.toml"), "-n", str(ranks)]
        + [word for override in overrides for word in ("--set", override)],
        cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_ekman_layer_is_exact_to_second_order(tmp_path: Path) -> None:
    errors = []
    for cells in (20, 40):
        short = ("run.steps=200", "output.every=200", "output.profiles_every=200")
        run(tmp_path, "wind_ekman", 1, f"grid.shape=[{cells},4,4]", *short)
        with ridgeline.open(tmp_path / "wind_ekman.bp") as data:
            u, v = (np.asarray(data[name])[-1, :, 0, 0] for name in "uv")
        heights = 2000 * (np.arange(cells) + 0.5) / cells
        exact = ekman_profile(heights, 5.0, 1e-4, (10.0, 0.0))
        errors.append(max(abs(u - exact[0]).max(), abs(v - exact[1]).max()))
    assert errors[0] < 0.3
    assert np.log2(errors[0] / errors[1]) > 1.5


def test_cold_air_over_warm_air_moves_alike_on_two_ranks(tmp_path: Path) -> None:
    small = ("grid.shape=[40,4,16]", "run.steps=20", "output.every=20")
    found = []
    for ranks in (1, 2):
        (tmp_path / str(ranks)).mkdir()
        run(tmp_path / str(ranks), "wind_rayleigh_taylor", ranks, *small)
        with ridgeline.open(tmp_path / str(ranks) / "wind_rayleigh_taylor.bp") as data:
            found.append((np.asarray(data["w"])[-1], np.asarray(data["theta"])[-1]))
    assert all(np.array_equal(one, two) for one, two in zip(*found))
    w, theta = found[0]
    assert 1e-3 < abs(w).max() < 1
    assert theta.mean() == pytest.approx(300, abs=0.1)
