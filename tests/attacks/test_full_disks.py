"""A disk that fills up, or can only be read from some moment on, in the middle of a run; two commands in one folder.

Each ends with one sentence and an exit code, and what was written before stays good: with space again, the run
continues to what it would have come to.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attack_cases import CASES, assert_same_results

pytestmark = pytest.mark.slow

TIMEOUT = 300  # seconds of one command on a busy machine
STEPS = 400


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A disk of 1 MiB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", place)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here: not root, or a container")
    yield place
    while os.path.ismount(place):
        subprocess.run(["umount", "-l", str(place)], check=True)


def case_of(ridgeline, model: str = "gray_scott", steps: int = STEPS) -> Path:
    path = ridgeline.path / "case.toml"
    path.write_text(CASES[model][0].replace("steps = 60", f"steps = {steps}"))
    return path


def rows_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def run_until(
    ridgeline, series: Path, rows: int, then: Callable[[], object], *arguments: object
) -> tuple[int, str]:
    """Start a run, do something once its series has so many lines, and return the exit code and stderr."""
    process = ridgeline.start("run", *arguments)
    deadline = time.monotonic() + TIMEOUT
    while rows_of(series) < rows:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "the run came to nothing"
        time.sleep(0.002)
    then()
    _, errors = process.communicate(timeout=TIMEOUT)
    assert "Traceback" not in errors, errors
    assert errors.count("error:") == (process.returncode != 0), errors
    return process.returncode, errors


def whole_run(ridgeline, case: Path) -> Path:
    whole = ridgeline.path / "whole"
    whole.mkdir()
    done = ridgeline("run", case, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    for name in ("series.csv", "fields.bp"):
        (ridgeline.path / name).rename(whole / name)
    return whole


FULL = {
    "fields.bp": ("output.path", 6),
    "series.csv": ("output.series", 6),
    "checkpoints": ("checkpoint.path", 4),
}


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_on_a_disk_that_fills_up_continues_when_there_is_space(name, ranks, ridgeline, disk) -> None:
    key, code = FULL[name]
    case = case_of(ridgeline)
    whole = whole_run(ridgeline, case)
    earlier = ridgeline.path / "checkpoints"
    earlier.rename(ridgeline.path / "checkpoints.whole")
    options = (case, "-n", ranks, "--set", f'{key}="{disk / name}"')
    series = disk / name if name == "series.csv" else ridgeline.path / "series.csv"

    def fill() -> None:
        with (disk / "fill").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    found, errors = run_until(ridgeline, series, 20, fill, *options)
    assert found == code, errors
    assert "No space left on device" in errors or "free space" in errors
    (disk / "fill").unlink()
    mount("-o", "remount,size=64m", disk)
    done = ridgeline("run", *options, "--resume", "auto", timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    for other in ("series.csv", "fields.bp"):
        if other == name:
            (disk / other).rename(disk / f"{other}.found")
            subprocess.run(["cp", "-r", f"{disk / other}.found", ridgeline.path / other], check=True)
    assert_same_results(ridgeline.path, whole, 0.0)


def test_a_disk_that_can_only_be_read_from_some_moment_on(ridgeline, disk) -> None:
    """What opens a file finds the read-only mount; open files stay as they are, as after an NFS export's change."""
    case = case_of(ridgeline)
    mount("-o", "remount,size=64m", disk)

    def protect() -> None:
        mount("--bind", disk, disk)
        mount("-o", "remount,bind,ro", disk)

    options = (case, "-n", 2, "--set", f'checkpoint.path="{disk / "checkpoints"}"')
    code, errors = run_until(ridgeline, ridgeline.path / "series.csv", 20, protect, *options)
    assert code == 4, errors
    assert "Read-only file system" in errors
    subprocess.run(["umount", str(disk)], check=True)
    done = ridgeline("run", *options, "--resume", "auto", timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("model", CASES)
def test_files_that_may_not_grow_end_a_run_in_one_sentence(model, ridgeline) -> None:
    """As a quota does; for machines where nothing can be mounted. All outputs, the report and the trace too."""
    case = case_of(ridgeline, model, 60)
    done = ridgeline("run", case, timeout=TIMEOUT)  # compiles
    assert done.returncode == 0, done.stderr
    for kilobytes in (1, 4, 16, 32):
        limits = f"ulimit -S -f {kilobytes}; ulimit -H -f {kilobytes}"
        command = f'{limits}; exec "$0" -m ridgeline run case.toml --trace t.json'
        done = subprocess.run(
            ["bash", "-c", command, sys.executable],
            cwd=ridgeline.path,
            env=ridgeline.environ(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (1, 4, 6), done.stderr
        assert done.stderr.count("error:") == 1, done.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_full_cache_costs_only_time(ranks, ridgeline, disk) -> None:
    """As a home with a quota: nothing is kept, and the run ends well."""
    (disk / "fill").write_bytes(bytes(2**20 - 64 * 1024))
    case = case_of(ridgeline, "turbulence", 10)
    environment = {"RIDGELINE_CACHE_DIR": str(disk / "cache"), "NUMBA_CACHE_DIR": ""}
    done = ridgeline("run", case, "-n", ranks, env=environment, timeout=2 * TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert "compiled kernels cannot be kept" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["study", "sweep"])
def test_the_second_command_in_one_folder_is_refused(command, ridgeline) -> None:
    case = case_of(ridgeline, steps=2000)
    arguments = {
        "study": ("study", "run", case, "--vary", "model.F=0.02,0.03", "--repeat", 1, "-o", "out"),
        "sweep": ("sweep", case, "--over", "model.F=0.02,0.03", "-o", "out"),
    }[command]
    first = ridgeline.start(*arguments)
    lock = ridgeline.path / "out" / ".lock"
    deadline = time.monotonic() + TIMEOUT
    while not (lock.exists() and lock.stat().st_size):
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    second = ridgeline(*arguments, timeout=TIMEOUT)
    running = first.poll() is None
    out, errors = first.communicate(timeout=TIMEOUT)
    assert (first.returncode, running) == (0, True), (out, errors)
    assert second.returncode == 6, second.stderr
    assert f"is in use by process {first.pid}" in second.stderr
    assert not lock.exists()
    again = ridgeline(*arguments, timeout=TIMEOUT)
    assert again.returncode == 0, again.stderr
    assert "2 of 2" in again.stdout
