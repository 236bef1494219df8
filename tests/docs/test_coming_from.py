"""The planned runs of docs/coming-from.md: settings that are valid, run to their end, and write at their times."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from commands import run_command
from ridgeline.config.load import load_case
from ridgeline.models import case_class

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"
SECTION = re.compile(r"^### A planned run of (\w+)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ORIGINS = {
    "Nek5000": ["ini", "fortran"],
    "Dedalus": ["python"],
    "Oceananigans": ["julia"],
    "FluidSim": ["python"],
}
SECTIONS = {name: FENCE.findall(text) for name, text in SECTION.findall(PAGE.read_text())}
# Coarser, and shorter by whole intervals of the outputs.
SMALLER = {
    "Nek5000": {"grid.order": 3},
    "Dedalus": {"grid.order": 4, "run.end_time": 2.0, "output.every_time": 1.0},
    "Oceananigans": {"grid.shape": [12, 12, 12], "run.end_time": 1.0},
    "FluidSim": {"grid.shape": [12, 12, 12], "run.end_time": 1.0, "output.every_time": 0.5},
}
# What every run writes: the interval of each data set, and whether its first state is there.
WRITTEN = {
    "Nek5000": {"channel_plane.bp": (2.0, False)},
    "Dedalus": {
        "navier_stokes.bp": (1.0, False),
        "navier_stokes_slices.bp": (0.25, True),
        "navier_stokes_profiles.bp": (1.0, False),
    },
    "Oceananigans": {
        "turbulence_surface.bp": (0.1, False),
        "turbulence_averages.bp": (0.5, False),
        "stratified_spectra.bp": (0.5, True),
    },
    "FluidSim": {
        "forced.bp": (0.5, False),
        "forced_movie.bp": (0.1, False),
        "forced_spectra.bp": (0.5, True),
    },
}


def settings_of(name, folder):
    path = folder / "case.toml"
    path.write_text(SECTIONS[name][-1][1])
    return path


def test_each_origin_has_its_script_and_our_settings(tmp_path) -> None:
    assert {name: [kind for kind, _ in blocks] for name, blocks in SECTIONS.items()} == {
        name: [*kinds, "toml"] for name, kinds in ORIGINS.items()
    }
    for name in ORIGINS:
        loaded = load_case(settings_of(name, tmp_path), case_class)
        assert not loaded.warnings
        assert loaded.case.run.end_time is not None
        assert loaded.case.output.part


@pytest.mark.full
@pytest.mark.parametrize("name", ORIGINS)
def test_the_planned_run_writes_at_its_times(tmp_path, name) -> None:
    path = settings_of(name, tmp_path)
    changes = [f"--set={key}={json.dumps(value)}" for key, value in SMALLER[name].items()]
    for command in ("check", "run"):
        done = run_command([command, path, *changes], tmp_path, {**os.environ, "NUMBA_NUM_THREADS": "1"}, 300)
        assert done.returncode == 0, done.stderr
    end = SMALLER[name].get("run.end_time")
    report = json.loads(next(tmp_path.glob("*.run.json")).read_text())
    if name == "Nek5000":
        assert report["run"]["ended"] == "steady state"
        end = report["run"]["time"]
        assert 20.0 < end < 60.0
    for file, (interval, initial) in WRITTEN[name].items():
        with ridgeline.open(tmp_path / file) as data:
            expected = interval * np.arange(0 if initial else 1, 1 + int(end / interval + 1e-9))
            np.testing.assert_allclose(data.time.values[: len(expected)], expected, rtol=1e-13, atol=0)
            assert len(data.time) - len(expected) == (name == "Nek5000" and end not in expected)
            assert data.time.values[-1] == end
