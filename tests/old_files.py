"""Write a small one of each kind of file with the present version, so that tests can hold later versions to it.

    python tests/old_files.py tests/data/version_0_1_0

The folder holds a settings file for each model, NAME.toml, whose run saves itself at step 5 and ends at step 8. This
adds NAME.tar.xz, all that 2 ranks wrote up to step 5; other.tar.xz, with the figures of a benchmark, a sweep, a
study, a machine file and a baseline; and recorded.json, what the tests compare: figures of the data sets and tables
at step 5 and, from a run that never stopped, at step 8, and the keys of its report.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import ridgeline

STOP = 5
OTHER: dict[str, tuple[str, ...]] = {
    "benchmark": ("bench", "latency", "-n", "2", "--sizes", "0", "64", "--json", "benchmark.json"),
    "sweep": ("sweep", "gray_scott.toml", "--over", "model.F=0.02,0.03", "-o", "sweep"),
    "study": ("study", "run", "gray_scott.toml", "--weak", "--ranks", "1,2", "--repeat", "1", "-o", "study"),
    "machine": ("bench", "machine-file", "-n", "2", "--name", "old", "--machine-file", "machine.toml",
                "--repeats", "3", "--seconds", "0.02", "--sizes", "8", "4096"),
    "baseline": ("validate", "-n", "2", "--quick", "--level", "node", "--stage", "compute", "--stage", "on-node",
                 "--thresholds", "limits.toml", "--save-baseline", "baseline.json"),
}  # fmt: skip


def call(folder: Path, *arguments: str) -> None:
    """Run a command in a folder."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "ridgeline", *arguments], cwd=folder, env=environment, check=True)


def describe(values: np.ndarray) -> dict[str, Any]:
    """Return what is compared of an array: its shape and type, and of its numbers a few and three sums."""
    found: dict[str, Any] = {
        "shape": list(values.shape),
        "dtype": "text" if values.dtype.kind in "OU" else str(values.dtype),
    }
    if values.dtype.kind in "iuf" and values.size:
        flat = np.nan_to_num(values.ravel().astype(np.float64))
        picked = flat[np.linspace(0, flat.size - 1, 4).astype(int)]
        found["largest"] = float(np.abs(flat).max())
        figures = flat.mean(), np.abs(flat).mean(), np.sqrt(np.mean(flat**2)), *picked
        found["figures"] = [float(f"{x:.13g}") for x in figures]
    return found


def figures(folder: Path) -> dict[str, Any]:
    """Return what is compared of the data sets and tables in a folder, by file and array or column."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.bp")):
        with ridgeline.open(path) as data:
            found[path.name] = {
                name: {"dims": [str(dim) for dim in array.dims], **describe(array.values)}
                for name, array in data.variables.items()
            }
    for path in sorted(folder.glob("*.csv")):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        table = np.genfromtxt(lines, delimiter=",", names=True, deletechars="", ndmin=1)
        found[path.name] = {name: describe(table[name]) for name in table.dtype.names or ()}
    return found


def keys(report: dict[str, Any]) -> list[str]:
    """Return the keys of a run's report and of its tables; the limits that are measured depend on the ranks."""
    tables = {name: table for name, table in report.items() if isinstance(table, dict) and name != "limits"}
    return sorted([*report, *(f"{name}.{key}" for name, table in tables.items() for key in table)])


def pack(folder: Path, archive: Path) -> None:
    """Put a folder into an archive, without locks, pictures, who wrote it and when."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return None if entry.name.endswith((".lock", ".png", ".svg")) else entry

    with tarfile.open(archive, "w:xz", preset=9) as written:
        for path in sorted(folder.iterdir()):
            written.add(path, path.name, filter=plain)


def main(folder: Path) -> None:
    """Write the archives and what they are compared with."""
    recorded: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for settings in sorted(folder.glob("*.toml")):
            model = settings.stem
            stopped, at_once = Path(name, model), Path(name, f"{model}_at_once")
            for work, steps in ((stopped, STOP), (at_once, 8)):
                work.mkdir()
                shutil.copy(settings, work)
                call(
                    work, "run", settings.name, "-n", "2", "--set", f"run.steps={steps}", "--json", "run.json"
                )
            recorded[model] = {"stopped": figures(stopped), "at_once": figures(at_once)}
            recorded[model]["report"] = keys(json.loads((at_once / "run.json").read_text()))
            pack(stopped, folder / f"{model}.tar.xz")
        other = Path(name, "other")
        other.mkdir()
        shutil.copy(folder / "gray_scott.toml", other)
        (other / "limits.toml").write_text("[thresholds]\ncpu_share = 0.01\nothers_share = 1\n")
        for arguments in OTHER.values():
            call(other, *arguments)
        pack(other, folder / "other.tar.xz")
    lines = (f"{json.dumps(model)}: {json.dumps(found)}" for model, found in recorded.items())
    (folder / "recorded.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
