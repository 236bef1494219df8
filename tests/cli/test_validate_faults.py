"""A validation whose ranks or launcher die in the middle: it ends, says who, and reports what was measured."""

import json
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

TIMEOUT = 60  # seconds: the bound of each end, many times what it takes
STAGES = ("--quick", "--no-confirm", "--level", "node", "--stage", "compute", "--stage", "stream")

# What happens to rank 1 when the second stage asks how much memory there is.
FAULT = """\
import os, signal
from pathlib import Path

if os.environ.get("PMI_RANK") == "1":
    from ridgeline.runtime import machine

    def fault():
        match os.environ["FAULT"]:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill the launcher":
                proxy = Path(f"/proc/{os.getppid()}/stat").read_text()
                os.kill(int(proxy.rpartition(")")[2].split()[1]), signal.SIGKILL)
                signal.pause()
        raise ZeroDivisionError("one rank cannot go on")

    machine.memory_available = fault
"""


@pytest.fixture
def faulty(ridgeline):
    """Run a validation with a fault; return its last stage and the nodes of nodes.good."""
    (ridgeline.path / "sitecustomize.py").write_text(FAULT)
    (ridgeline.path / "limits.toml").write_text("[thresholds]\ncpu_share = 0.01\nothers_share = 1\n")

    def run(fault):
        environ = {"PYTHONPATH": str(ridgeline.path), "FAULT": fault}
        arguments = ("validate", *STAGES, "--thresholds", "limits.toml", "--report", "report")
        done = ridgeline(*arguments, "-n", 2, timeout=TIMEOUT, env=environ)
        assert done.returncode == 2, done.stdout + done.stderr
        assert (ridgeline.path / "report" / "report.html").exists()
        report = json.loads((ridgeline.path / "report" / "report.json").read_text())
        assert {"compute", "cpu_share"} <= {quantity["name"] for quantity in report["node_quantities"]}
        last = report["stages"][-1]
        assert (last["name"], last["outcome"]) == ("stream", "failed")
        assert report["verdict"]["exit_code"] == 2
        assert last["detail"] in done.stdout
        good = (ridgeline.path / "report" / "nodes.good").read_text().split()
        return last, good

    return run


def test_a_killed_rank_is_named(faulty):
    stage, good = faulty("kill")
    assert stage["died"] == [1]
    assert "rank 1 on " in stage["detail"]
    assert good == []


def test_a_killed_launcher_is_told(faulty, ridgeline):
    stage, _ = faulty("kill the launcher")
    assert "the launcher itself was killed by signal 9" in stage["detail"]
    deadline = time.monotonic() + TIMEOUT
    while left := ranks_left(ridgeline.path):  # they end a moment after their launcher
        assert time.monotonic() < deadline, left


def test_a_rank_with_an_exception_is_named(faulty):
    stage, _ = faulty("raise")
    assert "rank 1 failed: ZeroDivisionError: one rank cannot go on" in stage["detail"]


def ranks_left(folder: Path) -> list[str]:
    """Return the command lines of processes that still work for the test with this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"PYTHONPATH={folder}\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it ended meanwhile, or is another user's
    return [line for line in found if line]
