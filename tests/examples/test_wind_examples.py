"""The examples of the wind model, shortened, give what their headers promise."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline.io.series import read_series
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


def printed(folder: Path, script: str, *arguments: str) -> list[str]:
    """Return the lines that a script of an example prints in a folder."""
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_warm_bubble_rises_and_keeps_its_heat(tmp_path: Path) -> None:
    small = ("grid.shape=[25,4,50]", "model.dt=8.0", "run.steps=40", "output.every=40")
    run(tmp_path, "wind_bubble", 2, *small, "output.initial=true")
    with ridgeline.open(tmp_path / "wind_bubble.bp") as data:
        first, last = np.asarray(data["theta"]) - 300
        w = np.asarray(data["w"])[-1]
        centres = [
            (theta.mean(axis=(1, 2)) @ data.z.values) / theta.mean(axis=(1, 2)).sum()
            for theta in (first, last)
        ]
    assert last.mean() == pytest.approx(first.mean(), rel=1e-4)
    assert centres[0] == pytest.approx(2000, abs=5)
    assert centres[1] > 2500
    # The limits make no new extremes, up to the divergence that the projections leave.
    assert last.max() <= first.max() + 1e-3
    assert last.min() >= -1e-3
    assert 7 < w.max() < 12


def test_a_turbine_slows_the_wind_as_momentum_theory_says(tmp_path: Path) -> None:
    small = ("grid.shape=[24,24,48]", "model.dt=2.0", "run.steps=60", "output.every=60")
    run(tmp_path, "wind_turbine", 1, *small)
    series = read_series(tmp_path / "wind_turbine.csv")
    speed, thrust, power = (series[f"turbine_0_{name}"][-1] for name in ("speed", "thrust", "power"))
    assert power == pytest.approx(thrust * speed)
    # C_T' = C_T/(1 - a)^2 refers to the speed at the disc.
    local = 0.75 / 0.75**2
    assert thrust == pytest.approx(0.5 * 1.225 * np.pi * 50**2 * local * speed**2, rel=1e-9)
    rows = printed(tmp_path, "wind_turbine/figures.py", "wind_turbine.bp", "wind_turbine.csv", "picture.png")
    differences = [float(row.split()[-2]) for row in rows]
    # With four cells across the disc.
    assert 0 < differences[0] < 6
    assert abs(differences[3]) < 3
    assert (tmp_path / "picture.png").stat().st_size > 0


def test_the_stress_of_the_ground_balances_the_force_on_a_neutral_layer(tmp_path: Path) -> None:
    small = ("grid.shape=[16,16,16]", "model.dt=5.0", "run.steps=200", "output.every=100")
    often = ("output.series_every=1", "output.profiles_every=20", "output.profiles_window=100")
    run(tmp_path, "wind_neutral", 1, *small, *often)
    series = read_series(tmp_path / "wind_neutral.csv")
    with ridgeline.open(tmp_path / "wind_neutral.bp") as data:
        change = np.diff(np.asarray(data["u"]).mean(axis=(1, 2, 3)))[0]
        begin, end = data.time.values
    inside = (series["time"] >= begin) & (series["time"] <= end)
    stress = np.trapezoid(series["friction_velocity"][inside] ** 2, series["time"][inside])
    assert change == pytest.approx(2.025e-4 * (end - begin) - stress / 1000, rel=1e-3)
    rows = printed(tmp_path, "wind_neutral/profiles.py", "wind_neutral_profiles.bp", "picture.png")
    assert any(row.startswith("phi_m below H/3") for row in rows)
    assert (tmp_path / "picture.png").stat().st_size > 0


def test_a_given_heat_flux_warms_a_convective_layer_by_it(tmp_path: Path) -> None:
    small = ("grid.shape=[16,16,16]", "run.steps=60", "output.every=60", "output.profiles_window=30")
    # The damping layer adds heat at the top, where it restores the initial temperature.
    run(tmp_path, "wind_convective", 2, *small, "output.initial=true", "damping.temperature=false")
    with ridgeline.open(tmp_path / "wind_convective.bp") as data:
        first, last = np.asarray(data["theta"]).mean(axis=(1, 2, 3))
        seconds = np.diff(data.time.values)[0]
    assert last - first == pytest.approx(0.1 * seconds / 1600, rel=1e-6)
    rows = printed(tmp_path, "wind_convective/profiles.py", "wind_convective_profiles.bp", "picture.png")
    assert len(rows) == 3
    assert (tmp_path / "picture.png").stat().st_size > 0


def test_a_cooling_ground_cools_a_stable_layer_by_its_flux(tmp_path: Path) -> None:
    small = ("grid.shape=[16,16,16]", "model.dt=1.5", "run.steps=200", "output.every=200")
    often = ("output.series_every=1", "output.profiles_every=10", "output.profiles_window=100")
    run(tmp_path, "wind_gabls1", 1, *small, *often, "output.initial=true", "damping.temperature=false")
    series = read_series(tmp_path / "wind_gabls1.csv")
    with ridgeline.open(tmp_path / "wind_gabls1.bp") as data:
        first, last = np.asarray(data["theta"]).mean(axis=(1, 2, 3))
    flux = np.trapezoid(series["surface_heat_flux"], series["time"])
    # In a step the ground has its temperature of the beginning, which lags behind by half a step.
    assert flux < 0
    assert last - first == pytest.approx(flux / 400, rel=0.02)
    rows = printed(
        tmp_path, "wind_gabls1/profiles.py", "wind_gabls1_profiles.bp", "wind_gabls1.csv", "picture.png"
    )
    assert len(rows) == 3
    assert (tmp_path / "picture.png").stat().st_size > 0
