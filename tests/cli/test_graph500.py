"""`ridgeline bench graph500` as a user runs it: its outputs, a search that is wrong, and a rank that is killed."""

import contextlib
import csv
import json
import os
import re
import signal
from pathlib import Path

import pytest

QUICK = ("--scale", 8, "--roots", 3)
# Breaks a parent of every search on rank 1, as a fault of memory might.
BROKEN = """
from ridgeline.bench.graph500 import graph500_run
right = graph500_run.breadth_first
def wrong(graph, root, workspace):
    parents = right(graph, root, workspace)
    if graph.comm.rank == 1:
        parents[parents >= 0] = parents[parents >= 0][::-1].copy()
    return parents
graph500_run.breadth_first = wrong
"""


def test_a_scale_beyond_numbers_of_32_bits_is_refused(ridgeline):
    done = ridgeline("bench", "graph500", "--scale", 32)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --scale is 32, but it must be 1 to 31.\n"


@pytest.mark.full
def test_all_outputs_tell_of_every_search(ridgeline):
    done = ridgeline(
        "bench", "graph500", "-n", 2, *QUICK, "--json", "g.json", "--csv", "g.csv", "--plot", "g.svg"
    )
    assert done.returncode == 0, done.stderr
    content = json.loads((ridgeline.path / "g.json").read_text())
    assert [(row["kernel"], row["valid"]) for row in content["rows"]] == [("bfs", "yes")] * 3 + [
        ("sssp", "yes")
    ] * 3
    assert len({row["root"] for row in content["rows"]}) == 3
    rows = list(csv.DictReader((ridgeline.path / "g.csv").open()))
    assert [row["root"] for row in rows] == [str(row["root"]) for row in content["rows"]]
    assert "<svg" in (ridgeline.path / "g.svg").read_text()
    rate = content["extra"]["summaries"]["sssp"]["rate"]["harmonic_mean"]
    assert re.search(
        rf"^sssp harmonic_mean_TEPS:     !  {re.escape(f'{rate:g}')}$", done.stdout, re.MULTILINE
    )
    assert "not an official run" in done.stdout
    assert "graph500: construction" in done.stderr


@pytest.mark.full
def test_a_wrong_search_ends_with_its_sentence(ridgeline):
    (ridgeline.path / "sitecustomize.py").write_text(BROKEN)
    arguments = ("bench", "graph500", "-n", 2, *QUICK, "--no-sssp", "--json", "g.json")
    done = ridgeline(*arguments, env={"PYTHONPATH": str(ridgeline.path)})
    assert done.returncode == 9, done.stderr
    assert re.search(r"error: bfs from root \d+: .*vertex \d+ has the parent \d+", done.stderr)
    assert "No results printed for invalid run." in done.stdout
    assert "harmonic_mean" not in done.stdout
    assert json.loads((ridgeline.path / "g.json").read_text())["failures"]


def rank_below(launcher, rank):
    """Process id of a rank that a launcher's children started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    below = {launcher}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    mark = f"\0PMI_RANK={rank}\0".encode()
    (found,) = (pid for pid in below if mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes())
    return found


@pytest.mark.full
def test_a_killed_rank_ends_the_job_soon(ridgeline):
    arguments = ("bench", "graph500", "-n", 2, "--scale", 12, "--roots", 2000)
    process = ridgeline.start(*arguments, start_new_session=True)
    try:
        assert any(line.startswith("graph500: bfs") for line in process.stderr)
        os.kill(rank_below(process.pid, 1), signal.SIGKILL)
        output, _ = process.communicate(timeout=10)
        assert process.returncode != 0
        assert "Killed (signal 9)" in output, output
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
