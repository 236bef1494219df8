"""Small files with damages placed at random: each is read, refused in a sentence, or counts as missing.

What a user names (meshes, series, reports, machine files, places) is refused in one sentence. What is kept between
runs (kernels, wisdom, choices, limits, locks) costs a warning and the time to measure or to compile again.
"""

import contextlib
import os
import pickle
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import numpy as np
import pytest
from mpi4py import MPI
from numba.core.caching import FunctionCache

from attack_cases import CASES
from mesh_files import BoxFile
from re2_files import write_butterfly
from ridgeline.config.machine_file import Quantity, read_machine_file
from ridgeline.elements.meshes.hexahedra import build_mesh
from ridgeline.fourier import planning
from ridgeline.fourier.fft import plan
from ridgeline.io.machine_file import write_machine_file
from ridgeline.io.mesh_file import mesh_digest, read_mesh
from ridgeline.io.place_lists import read_places, write_places
from ridgeline.io.series import SeriesWriter, read_series
from ridgeline.jit import kernel_cache
from ridgeline.jit.kernel_cache import keep_kernels
from ridgeline.jit.kernel_folders import kernel_folder
from ridgeline.parallel.autotuner import choose
from ridgeline.runtime.aligned import aligned_empty
from ridgeline.runtime.errors import RidgelineError
from ridgeline.runtime.locks import PathLock
from ridgeline.simulation import limits
from ridgeline.study.folder import read_status
from settings_fuzz import within

KINDS = (
    "bit", "bytes", "zeros", "cut", "grow", "swap", "digits", "brackets", "empty", "folder", "pipe", "endless",
    "link",
)  # fmt: skip
SECONDS = 20  # of one file; a hang is a failure
MORE_BYTES = 2**31  # of addresses that the use of a file may take


def damage(file: Path, kind: str, random: np.random.Generator) -> None:
    """Damage a file: change its bytes, or put something else in its place."""
    content = bytearray(file.read_bytes())
    start, length = int(random.integers(len(content))), int(random.integers(1, 65))
    if kind == "bit":
        content[start] ^= 1 << int(random.integers(8))
    elif kind == "bytes":
        content[start : start + length] = random.bytes(length)
    elif kind == "zeros":
        content[start : start + length] = bytes(len(content[start : start + length]))
    elif kind == "cut":
        del content[start:]
    elif kind == "grow":
        content += random.bytes(length)
    elif kind == "swap":
        content = content[start:] + content[:start]
    elif kind == "digits":
        content[start:start] = b"9" * 5000
    elif kind == "brackets":
        content = bytearray(b"[" * 100_000)
    elif kind == "empty":
        content.clear()
    else:
        file.unlink()
        if kind == "folder":
            file.mkdir()
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to("/dev/zero" if kind == "endless" else "nothing")
        return
    file.write_bytes(content)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """End the block by an error if it takes too long or too much memory."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_BYTES, before[1]))
    try:
        with within(SECONDS):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def twice(x: int) -> int:
    return 2 * x


def use_kernel(file: Path) -> None:
    """Compile a kernel, or load it from the cache, and call it."""
    kernel_cache._remembered.cache_clear()
    kernel_cache._lock_file.cache_clear()
    compiled = numba.njit(twice)
    keep_kernels(compiled, FunctionCache, pickle.dumps)
    assert compiled(21) == 42


def use_wisdom(file: Path) -> None:
    lines = aligned_empty((2, 24), "c16")
    planning.load_wisdom()
    plan(lines, lines, 1, "forward").execute()
    planning.save_wisdom()


def use_limits(file: Path) -> None:
    found = limits.cached_rates(MPI.COMM_SELF, {"host": "a"}, lambda: {"rate": 2.0}, None)
    assert found.rates["rate"] > 0


def use_lock(file: Path) -> None:
    with PathLock(file, "the data set", waits=False):
        pass


def use_choices(file: Path) -> None:
    trial = choose({"a": dict, "b": dict}, "key", MPI.COMM_SELF)
    assert isinstance(trial.words(), str)


def use_mesh(file: Path) -> None:
    build_mesh(read_mesh(file))
    mesh_digest(file)


def write_series(file: Path) -> None:
    with SeriesWriter(file, MPI.COMM_SELF, ("energy", "dissipation")) as series:
        for step in range(20):
            series.write(step, 0.1 * step, {"energy": 1 / (1 + step), "dissipation": -0.5 * step})


def write_lock(file: Path) -> None:
    lock = PathLock(file, "the data set")
    lock.acquire()
    content = file.read_bytes()
    lock.release()
    file.write_bytes(content)


def write_job(file: Path) -> None:
    (file.parent / "job.json").write_text('{"generator": "ridgeline-output/1", "ranks": 2}')
    file.write_text(
        '{"model": "m", "run": {"last_step": 3, "steps": 3}, "work": {}, "seconds_per_step": 1.5}'
    )


def write_machine(file: Path) -> None:
    write_machine_file({"machine": {"name": "toy"}, "node": {"peak": Quantity(1e9, "counted")}}, file)


# What writes a file of each kind, and what reads it. Kept files are where the cache has them.
NAMED: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "mesh.re2": (write_butterfly, use_mesh),
    "mesh.msh": (lambda file: BoxFile((2, 2, 3), seed=1).write(file), use_mesh),
    "series.csv": (write_series, read_series),
    "places.csv": (
        lambda file: write_places(file, np.arange(30.0).reshape(10, 3), "file"),
        lambda file: read_places(file, "file"),
    ),
    "machine.toml": (write_machine, read_machine_file),
    "report.json": (write_job, lambda file: read_status(file.parent)),
}  # fmt: skip
KEPT: dict[str, tuple[Callable[[Path], object], Callable[[Path], object], str]] = {
    "kernel": (use_kernel, use_kernel, "kernels/*.kernel"),
    "sources": (use_kernel, use_kernel, "kernels/sources.json"),
    "kernel lock": (use_kernel, use_kernel, "kernels/*.lock"),
    "mark": (use_kernel, use_kernel, "kernels/cleaned"),
    "wisdom": (use_wisdom, use_wisdom, "fft/*/double.wisdom"),
    "choices": (use_choices, use_choices, "choices/choices.json"),
    "limits": (use_limits, use_limits, "limits/*.json"),
    "lock": (write_lock, use_lock, ""),
}


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """Let the user's cache be an empty folder."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(limits, "busiest_share", lambda comm, since: 0.0)
    kernel_cache._own_folder.cache_clear()
    yield tmp_path / "cache"
    kernel_cache._own_folder.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.filterwarnings("error")
def test_a_damaged_file_is_read_or_refused_in_one_sentence(name, tmp_path):
    write, read = NAMED[name]
    random = np.random.default_rng(37)
    refused = 0
    for number in range(2 * len(KINDS)):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        write(folder / name)
        read(folder / name)
        damage(folder / name, kind := KINDS[number % len(KINDS)], random)
        try:
            with bounded():
                read(folder / name)
        except RidgelineError as error:
            refused += 1
            if "\n" in str(error):
                pytest.fail(f"damage {number}, {kind}: {error}")
        except BaseException as error:
            pytest.fail(f"damage {number}, {kind}: {type(error).__name__}: {error}")
    assert refused >= 8 or name == "report.json", "damages are seen"


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_a_damaged_file_that_is_kept_costs_a_warning(name, tmp_path, cache):
    make, use, pattern = KEPT[name]
    random = np.random.default_rng(73)
    for number in range(len(KINDS)):
        shutil.rmtree(cache, ignore_errors=True)
        kernel_cache._own_folder.cache_clear()
        file = tmp_path / f"{number}"
        make(file)
        if name == "sources":
            (kernel_folder() / "sources.json").write_text('{"a.py": [[1, 2, 3], "digest", ["b"]]}')
        if pattern:
            (file,) = cache.glob(pattern)
        if not file.stat().st_size:
            file.write_bytes(b"something")
        damage(file, kind := KINDS[number % len(KINDS)], random)
        try:
            with bounded():
                use(file)
        except BaseException as error:
            sentence = isinstance(error, RidgelineError) and name == "lock" and "cannot lock" in str(error)
            if not sentence:
                pytest.fail(f"damage {number}, {kind}: {type(error).__name__}: {error}")


@pytest.mark.slow
def test_a_run_with_a_damaged_cache_ends_well(ridgeline):
    """All files of the cache at once, by the command line, on two ranks."""
    (ridgeline.path / "case.toml").write_text(CASES["turbulence"][0].replace("steps = 60", "steps = 4"))
    cache = ridgeline.path / "cache"
    environment = {"RIDGELINE_CACHE_DIR": str(cache), "NUMBA_CACHE_DIR": ""}
    random = np.random.default_rng(7)
    for kind in ("", "bytes", "cut", "empty", "pipe", "link"):
        if kind:
            for file in sorted(path for path in cache.rglob("*") if path.is_file() and path.stat().st_size):
                damage(file, kind, random)
        done = ridgeline("run", "case.toml", "-n", 2, env=environment, timeout=500)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
