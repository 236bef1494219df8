"""Data sets with damages placed at random: none is read as good with other values, none ends Python.

Zeroed ranges, flipped bits, files cut off, ranges swapped and files deleted, in the metadata and in the data.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from ridgeline.io import zarr_layout
from ridgeline.io.data_set_check import check_data_set
from ridgeline.io.open_store import open_writer
from ridgeline.io.store import Variable
from ridgeline.runtime.errors import OutputError

SHAPE = (6, 5, 7)
FILES = ("md.0", "mmd.0", "md.idx", "data.0")
ZARR_FILES = ("zarr.json", "ridgeline.sums", "U/c/1/0/0/0", "time/c/0", "V/zarr.json", "step/c/0")
KINDS = ("zeros", "bit", "cut", "swap", "delete")


def write(path: Path) -> Path:
    """Write a data set that was continued once, so that each file of metadata has several parts."""
    variables = [Variable(name, "float64", SHAPE, (0, 0, 0), SHAPE) for name in "UV"]
    random = np.random.default_rng(0)
    for kept, steps in ((None, (0, 1, 2)), (2, (2, 3))):
        with open_writer(path, MPI.COMM_SELF, variables, {"model.F": 0.02, "k": 7}, keep_steps=kept) as out:
            for step in steps:
                out.write(10 * step, 0.5 * step, {name: random.random(SHAPE) for name in "UV"})
    return path


def damage(file: Path, kind: str, random: np.random.Generator) -> bool:
    """Damage a file and say whether it is another one now."""
    before = file.read_bytes()
    content = bytearray(before)
    size = len(content)
    start, length = int(random.integers(size)), int(random.integers(1, 65))
    if kind == "delete":
        file.unlink()
        return True
    if kind == "zeros":
        content[start : start + length] = bytes(len(content[start : start + length]))
    elif kind == "bit":
        content[start] ^= 1 << int(random.integers(8))
    elif kind == "cut":
        del content[start:]
    else:
        a, b = sorted(int(place) for place in random.integers(size - length, size=2))
        b = max(b, a + length)
        first, second = content[a : a + length], content[b : b + length]
        content[a : a + len(second)], content[b : b + len(second)] = second, first[: len(second)]
    file.write_bytes(content)
    return bytes(content) != before


def values(path: Path) -> bytes:
    """Return all that `open` gives, as one value."""
    with ridgeline.open(path) as data:
        arrays = {str(name): data[name].values.tobytes() for name in (*data.data_vars, *data.coords)}
        return repr((sorted(arrays.items()), sorted((k, str(v)) for k, v in data.attrs.items()))).encode()


def attack(whole: Path, work: Path, count: int, summed: bool, files=FILES, kinds=KINDS) -> None:
    """Print a line for each damage: what it was, what `open` and `check` said of it."""
    good = values(whole)
    random = np.random.default_rng(13)
    for number in range(count):
        name, kind = files[number % len(files)], kinds[number // len(files) % len(kinds)]
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(whole, work)
        if not summed:
            (work / "ridgeline.sums").unlink()
        if not damage(work / name, kind, random):
            continue
        said = {"file": name, "kind": kind, "number": number}
        try:
            said["open"] = "same" if values(work) == good else "other"
        except OutputError as error:
            said["open"] = str(error)
        try:
            said["check"] = [str(line) for line in check_data_set(work).damages] if summed else []
        except OutputError as error:
            said["check"] = [str(error)]
        print(json.dumps(said), flush=True)


def outcomes(tmp_path: Path, *arguments, store: str = "bp") -> list[dict]:
    """Do `attack` in a process, since it may end."""
    code = f"""
import sys, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_damaged_data_sets import attack
warnings.filterwarnings("ignore", message=".* is left out")
attack(Path(sys.argv[2]), Path(sys.argv[3]), *{arguments})
"""
    whole = write(tmp_path / f"whole.{store}")
    folders = [str(Path(__file__).parent), str(whole), str(tmp_path / f"work.{store}")]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *folders], timeout=900, capture_output=True, text=True
    )
    assert done.returncode == 0, (
        f"ended by {done.returncode} after {done.stdout[-300:]}: {done.stderr[-2000:]}"
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 0.8 * arguments[0]
    assert all("\n" not in said["open"] for said in found)
    return found


@pytest.mark.parametrize("count", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_every_damage_is_refused_or_reported_or_harmless(tmp_path, count):
    for said in outcomes(tmp_path, count, True):
        if said["open"] == "other":
            assert said["file"] == "data.0", said  # values are compared on request
            assert said["check"], said
        elif said["open"] != "same":
            assert said["file"] in said["open"], said
            assert said["check"], said


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_every_damage_of_zarr_is_refused_or_reported_or_harmless(tmp_path, count, monkeypatch):
    """The metadata of one array alone are for other programs, and are not read."""
    monkeypatch.setattr(zarr_layout, "REPLACED", 0)
    for said in outcomes(tmp_path, count, True, ZARR_FILES, store="zarr"):
        if said["open"] == "other":
            assert said["file"] == "U/c/1/0/0/0", said  # values are compared on request
            assert said["check"], said
        elif said["open"] != "same":
            assert said["check"], said


@pytest.mark.parametrize(
    "which",
    [(6, False, ("mmd.0",), ("swap",)), pytest.param((150, False), marks=pytest.mark.slow)],
    ids=["quick", "all"],
)
def test_damaged_metadata_without_checksums_do_not_end_python(tmp_path, which):
    """As of other programs. Nothing tells which values were other ones."""
    said = [said["open"] for said in outcomes(tmp_path, *which)]
    assert any("ADIOS2 crashed while reading it (signal SIG" in words for words in said), said
