"""A run with particles that is stopped and resumed writes the data set of one that was not."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ridgeline

pytestmark = pytest.mark.full  # three jobs

CASE = """
[run]
model = "turbulence"
steps = 8
[grid]
shape = [8, 8, 8]
[model]
viscosity = 0.1
dt = 0.05
fft.effort = "estimate"
[particles]
count = 30
every = 2
sample = ["dissipation"]
[output]
series_every = 4
[checkpoint]
every = 4
"""


def run(folder: Path, *words: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "settings.toml").write_text(CASE)
    command = [sys.executable, "-m", "ridgeline", "run", "settings.toml", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_resumed_run_goes_on_in_the_data_set_of_particles(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    run(tmp_path / "parts", "--set", "run.steps=4")
    run(tmp_path / "parts", "--resume", "auto")
    with (
        ridgeline.open(tmp_path / "whole" / "particles.bp") as whole,
        ridgeline.open(tmp_path / "parts" / "particles.bp") as parts,
    ):
        assert parts.step.values.tolist() == [0, 2, 4, 6, 8]
        for name in ("position", "velocity", "dissipation"):
            np.testing.assert_array_equal(parts[name].values, whole[name].values)
