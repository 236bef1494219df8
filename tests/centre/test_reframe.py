"""ReFrame runs the checks on this machine: figures are read, references are held."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

CENTRE = Path(__file__).parents[2] / "centre" / "reframe"
REFRAME = Path(sys.executable).parent / "reframe"
REFERENCES = """
["local:default".Latency]
latency = { value = 1e6, unit = "us", above = 0.0 }

["local:default".Stream]
triad = { value = 1e-3, unit = "GB/s", below = 0.5 }

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
    checks = ["-C", CENTRE / "settings.py", "-c", CENTRE / "ridgeline_checks.py", "--prefix", tmp_path]
    wanted = [
        "--nocolor",
        "-r",
        "--setvar",
        "others_share=1.0",
    ]  # and so all checks, which read the JSON of all
    done = subprocess.run(
        [REFRAME, *checks, *wanted],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    ends = dict(map(reversed, re.findall(r"(\w+) \] \(./5\) (\w+)", done.stdout)))
    good = ("Latency", "Stream", "AllToAll", "Allreduce")
    assert ends == dict.fromkeys(good, "OK") | {"MultiBandwidth": "FAIL"}, done.stdout
    assert re.search(r"failed to meet reference.*bandwidth=", done.stdout), done.stdout
    # Limits are printed as what they are, shares of the reference: not as "u:0.0", which looks like a figure.
    assert re.search(r"P: latency: [\d.]{1,6} us \(r:1000000.0, l:None, u:\+0 %\)", done.stdout), done.stdout
    assert "l:-50 %, u:None" in done.stdout


BUSY = """#!{python}
import json, sys
row = {{"size": 8, "seconds": 2e-3}}
path = sys.argv[sys.argv.index("--json") + 1]
open(path, "w").write(json.dumps({{"verified": True, "rows": [row], "others_share": {share}}}))
"""


@pytest.mark.skipif(not REFRAME.exists(), reason="reframe-hpc is not installed")
@pytest.mark.parametrize(("share", "end"), [(0.4, "SKIP"), (0.01, "FAIL")])
def test_a_figure_that_misses_its_reference_on_a_busy_node_is_skipped(tmp_path, share, end):
    (tmp_path / "references.toml").write_text(
        '["local:default".Latency]\nlatency = { value = 50.0, unit = "us", above = 20.0 }\n'
    )
    command = tmp_path / "ridgeline"
    command.write_text(BUSY.format(python=sys.executable, share=share))
    command.chmod(0o755)
    environment = os.environ | {
        "RIDGELINE_REFERENCES": str(tmp_path / "references.toml"),
        "PATH": f"{tmp_path}:{REFRAME.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
    }
    checks = ["-C", CENTRE / "settings.py", "-c", CENTRE / "ridgeline_checks.py", "--prefix", tmp_path]
    wanted = ["-n", "^Latency", "--nocolor", "-r", "--setvar", "num_tasks=1"]
    done = subprocess.run(
        [REFRAME, *checks, *wanted],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert re.search(rf"{end} \] \(1/1\) Latency", done.stdout), done.stdout
    assert done.returncode == (end == "FAIL")
    if end == "SKIP":
        assert (
            "busy: others used 40 % of a node's processors, so latency = 2000.0 us is not judged"
            in done.stdout
        )
    else:
        assert "u:+2000 %" in done.stdout
