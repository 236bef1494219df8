"""Threads of the libraries below: none beside Numba's, whatever the environment asks for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# The command line, and the threads that a BLAS finds in its environment when NumPy loads it.
WATCHED = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print("pools:", os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"])
        return None

sys.meta_path.insert(0, Watch())
from ridgeline.cli.main import main
main()
"""


@pytest.mark.full
@pytest.mark.parametrize("example", ["gray_scott", "turbulence_decay", "square_duct"])
def test_numpy_is_loaded_when_its_pool_is_limited(example: str, tmp_path: Path) -> None:
    """A BLAS that starts workers at its import spins on the cores of other ranks: a step took six times as long."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "check", str(EXAMPLES / example / "settings.toml")],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "7", "OMP_NUM_THREADS": "7"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("pools:")] == ["pools: 1 1"]
