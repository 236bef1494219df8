"""Wisdom on disk: kept between processes, merged, tolerated where damaged."""

import logging
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyfftw
import pytest

from ridgeline.fourier import fft
from ridgeline.fourier.planning import load_wisdom, save_wisdom, wisdom_folder
from ridgeline.parallel.autotuner import choices_file
from ridgeline.runtime.aligned import aligned_empty
from ridgeline.runtime.errors import ConfigError


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("RIDGELINE_FFT", raising=False)
    pyfftw.forget_wisdom()


@pytest.fixture
def remarks(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("ridgeline"), "propagate", True)
    return caplog


def make(n: int, effort: str = "measure", dtype: str = "c16") -> fft.FFTPlan:
    lines = aligned_empty((4, n), dtype)
    return fft.plan(lines, lines, 1, "forward", effort=effort)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_wisdom_survives_the_process(dtype: str) -> None:
    make(24, dtype=dtype)
    save_wisdom()
    program = (
        "from ridgeline.fourier import fft, planning\n"
        "from ridgeline.runtime.aligned import aligned_empty\nplanning.load_wisdom()\n"
        f"lines = aligned_empty((4, 24), '{dtype}')\n"
        "fft.plan(lines, lines, 1, 'forward', effort='wisdom-only')"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_missing_wisdom_names_size_and_remedy() -> None:
    make(24)
    make(24, "wisdom-only")
    with pytest.raises(ConfigError, match=r"4 forward transforms of 26 points in complex128.*fft\.effort"):
        make(26, "wisdom-only")
    with pytest.raises(ConfigError, match="complex64"):
        make(24, "wisdom-only", "c8")


def test_estimated_plans_are_no_wisdom_and_measured_ones_not_patient() -> None:
    make(22, "estimate")
    with pytest.raises(ConfigError):
        make(22, "wisdom-only")
    make(22, "measure")
    lines = aligned_empty((4, 22), "c16")
    with pytest.raises(fft.MissingWisdomError):
        fft.plan(lines, lines, 1, "forward", effort="patient", known=True)
    make(22, "patient")
    fft.plan(lines, lines, 1, "forward", effort="patient", known=True)


def test_arrays_survive_planning_from_wisdom() -> None:
    make(24)
    lines = aligned_empty((4, 24), "c16")
    lines[...] = 1.5
    fft.plan(lines, lines, 1, "forward")
    assert (lines == 1.5).all()


def test_saving_keeps_what_another_run_saved() -> None:
    make(24)
    save_wisdom()
    pyfftw.forget_wisdom()
    make(26)
    save_wisdom()
    pyfftw.forget_wisdom()
    load_wisdom()
    make(24, "wisdom-only")
    make(26, "wisdom-only")
    assert sorted(path.name for path in wisdom_folder().iterdir()) == ["double.wisdom", "single.wisdom"]


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "number"])
def test_damaged_wisdom_costs_a_remark(damage: str, remarks: pytest.LogCaptureFixture) -> None:
    make(24)
    make(24, dtype="c8")
    save_wisdom()
    path = wisdom_folder() / "double.wisdom"
    whole = path.read_bytes()
    # FFTW ends the process on flags that are out of range.
    large = re.sub(rb"_register (\d+) #x\w+", rb"_register \1 #xffffffff", whole)
    path.write_bytes({"cut": whole[:-40], "garbage": b"\xff" * 100, "empty": b"", "number": large}[damage])
    pyfftw.forget_wisdom()
    load_wisdom()
    load_wisdom()
    assert remarks.text.count("double.wisdom") == remarks.text.count("measurements are repeated") == 1
    make(24, "wisdom-only", "c8")
    with pytest.raises(ConfigError):
        make(24, "wisdom-only")
    make(24)
    save_wisdom()
    pyfftw.forget_wisdom()
    remarks.clear()
    load_wisdom()
    assert not remarks.records
    make(24, "wisdom-only")


def test_a_full_disk_is_a_remark(monkeypatch: pytest.MonkeyPatch, remarks: pytest.LogCaptureFixture) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ridgeline.runtime.user_cache.replace_file", full)
    make(24)
    save_wisdom()
    assert "cannot store measurements" in remarks.text


@pytest.mark.parametrize(("part", "make_folder"), [("fft", wisdom_folder), ("choices", choices_file)])
def test_another_users_folder_is_not_used(
    part: str, make_folder: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    (tmp_path / part).mkdir()
    (tmp_path / part).chmod(0o777)
    assert make_folder().is_relative_to(tmp_path / "temp")


def test_wisdom_is_kept_by_library_and_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    here = wisdom_folder()
    monkeypatch.setattr("ridgeline.fourier.planning.cpu_name", lambda: "another CPU")
    assert wisdom_folder() != here
    monkeypatch.undo()
    monkeypatch.setattr(pyfftw, "fftw_version", "3.4.0")
    assert wisdom_folder() != here
    assert "3.4.0" in wisdom_folder().name


def test_scipy_has_no_wisdom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RIDGELINE_FFT", "scipy")
    make(24)
    make(24, "wisdom-only")
    save_wisdom()
    load_wisdom()
    assert not list(tmp_path.rglob("*.wisdom"))


def test_plans_from_wisdom_round_alike() -> None:
    """The plan of a resumed run is that of the first run: the same bits."""
    lines = aligned_empty((4, 240), "c16")
    plan = fft.plan(lines, lines, 1, "forward")
    wisdom = fft.export_wisdom()
    lines[...] = values = np.random.default_rng(2).standard_normal((4, 240))
    plan.execute()
    first = lines.copy()
    pyfftw.forget_wisdom()
    assert fft.import_wisdom(wisdom) == []
    again = fft.plan(lines, lines, 1, "forward", effort="wisdom-only")
    lines[...] = values
    again.execute()
    np.testing.assert_array_equal(lines, first)
