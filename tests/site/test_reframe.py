"""ReFrame runs the checks on this machine: figures are read, references are held."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "site" / "reframe"
REFRAME = Path(sys.executable).parent / "reframe"
REFERENCES = """
["local:default".Latency]
latency = { value = 1e6, unit = "us", above = 0.0 }

["local:default".MultiBandwidth]
bandwidth = { value = 1e12, unit = "MB/s", below = 0.5 }
"""


@pytest.mark.skipif(not REFRAME.exists(), reason="reframe-hpc is not installed")
def test_a_healthy_figure_passes_and_one_below_its_reference_fails(tmp_path):
    (tmp_path / "references.toml").write_text(REFERENCES)
    environment = os.environ | {
        "RIDGELINE_REFERENCES": str(tmp_path / "references.toml"),
        "PATH": f"{REFRAME.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
    }
    checks = ["-C", SITE / "settings.py", "-c", SITE / "ridgeline_checks.py", "--prefix", tmp_path]
    wanted = ["-n", "^Latency", "-n", "^MultiBandwidth", "--nocolor", "-r"]
    done = subprocess.run(
        [REFRAME, *checks, *wanted],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"OK \] \(./2\) Latency", done.stdout)
    assert re.search(r"FAIL \] \(./2\) MultiBandwidth", done.stdout)
    assert re.search(r"failed to meet reference.*bandwidth=", done.stdout), done.stdout
    assert re.search(r"P: latency: \d+\.\d+ us", done.stdout)
