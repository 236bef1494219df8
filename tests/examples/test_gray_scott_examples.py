"""The patterns of the Gray-Scott examples are the equations' and not the grid's, and the main one is quick."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline.config.load import load_case
from ridgeline.models import case_class

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SLOW_RATE = 3.2e8  # cells/s of two slow cores together, in float64 with noise


def power(plane):
    """Return the power of each Fourier mode of a square plane without its mean, and the mode's cycles per cell."""
    frequency = np.fft.fftfreq(len(plane))
    return np.abs(np.fft.fft2(plane - plane.mean())) ** 2, np.hypot(frequency[:, None], frequency)


def test_a_wave_of_eight_cells_has_its_length():
    x = np.arange(64)
    plane = 3.0 + np.cos(2 * np.pi * x / 8) + np.zeros((64, 1))
    found, cycles = power(plane)
    assert found.sum() / (found * cycles).sum() == pytest.approx(8.0)


# Where the settings are those of a publication, so are diffusion and wavelength: the two others are ours to choose.
@pytest.mark.full
@pytest.mark.parametrize("name", ["gray_scott", "gray_scott_holes"])
def test_a_wavelength_has_ten_cells_and_noise_is_small(name, tmp_path):
    small = ["grid.shape=[64,64,64]", "run.steps=1500", "output.every=1500", "output.path=small.bp"]
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", "run", str(EXAMPLES / name / "settings.toml")]
        + [word for setting in small for word in ("--set", setting)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with ridgeline.open(tmp_path / "small.bp") as data:
        u, v = (data[field].isel(step=-1, z=32).values for field in ("U", "V"))
    assert v.std() > 0.2 * v.mean(), "there is a pattern in the middle plane"
    found, cycles = power(v)
    assert found.sum() / (found * cycles).sum() >= 10.0
    found, cycles = power(u)
    assert found[cycles > 0.25].sum() < 0.001 * found.sum(), "next to nothing is shorter than four cells"


def test_the_case_of_make_run_takes_half_a_minute_on_slow_cores():
    case = load_case(EXAMPLES / "gray_scott" / "settings.toml", case_class).case
    assert case.run.steps * math.prod(case.grid.shape) / SLOW_RATE < 30.0
