"""How long a user waits, with the kernels in the cache, from the command to the first step."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.table import Row

if TYPE_CHECKING:
    from gray_scott_sweep import Settings

SETTINGS = """
[run]
model = "gray_scott"
steps = 1
[grid]
shape = [64, 64, 64]
[output]
every = 0
[checkpoint]
path = "checkpoints"
every = 1
"""
REPEATS = 7


def _first_step(folder: Path) -> float:
    """Run the command once; return seconds from its start to the manifest of step 1's checkpoint."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    command = [sys.executable, "-m", "ridgeline", "run", "case.toml", "-n", "2", "--threads", "1"]
    start = time.time()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (manifest,) = (folder / "checkpoints").rglob("manifest.json")
    return manifest.stat().st_mtime - start


def warm_start(settings: "Settings") -> Iterator[Row]:
    """Seconds from `ridgeline run` to the first step done, 2 ranks at 64^3, seen by its checkpoint on disk."""
    name = "warm start to first step: 64^3, 2 ranks"
    with tempfile.TemporaryDirectory(prefix="ridgeline-start-") as path:
        folder = Path(path)
        (folder / "case.toml").write_text(SETTINGS)
        try:
            _first_step(folder)  # fills the cache
            seconds = [_first_step(folder) for _ in range(REPEATS)]
        except subprocess.CalledProcessError as error:
            yield Row(name, None, "<= 2.0", note=f"failed: {error.stderr.strip().splitlines()[-1]}")
            return
    note = f"of {REPEATS} runs; checkpoint of the step included"
    yield Row(name, min(seconds), "<= 2.0", float(np.median(seconds)), note, unit="s")
