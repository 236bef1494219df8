"""Collective benchmarks, memory bandwidth and peak rate as a user calls them."""

import json
import re

import pytest

from ridgeline.cli.bench_commands import benchmarks


def bench(ridgeline, *arguments):
    return ridgeline("bench", *arguments)


def test_all_to_all_over_sub_communicators(ridgeline):
    sizes = ("--sizes", 8, 32, "--iterations", 2, "--warm-up", 0)
    output = ("--json", "figures.json", "--plot", "picture.svg")
    done = bench(ridgeline, "alltoall", "-n", 3, "--sweep", *sizes, "--ranks-per-node", 2, *output)
    assert done.returncode == 0, done.stderr
    assert "ranks x (ranks - 1) x size / t of the slowest rank" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s*\d+\s+\d", line)]
    assert [(row[:2], row[-6]) for row in rows] == [
        (point, size) for point in (["1", "2"], ["2", "1"]) for size in ("8", "16", "32")
    ]
    facts = json.loads((ridgeline.path / "figures.json").read_text())
    assert (facts["nodes"], facts["verified"], facts["settings"]["ranks_per_node"]) == (2, True, "1 to 2")
    assert "<svg" in (ridgeline.path / "picture.svg").read_text()


def test_sums_in_place_and_barriers(ridgeline):
    sizes = ("--sizes", 4, 8, "--iterations", 2, "--json", "-")
    done = bench(ridgeline, "allreduce", "-n", 2, "--in-place", *sizes)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["pattern"].endswith("in place")
    assert [row["size"] for row in facts["rows"]] == [4, 8]
    done = bench(ridgeline, "barrier", "-n", 2, "--seconds", 0.01, "--plot", "picture.png")
    assert done.returncode == 0, done.stderr
    assert "MPI_Barrier" in done.stdout


def test_memory_bandwidth_and_peak_rate(ridgeline):
    done = bench(ridgeline, "stream", "--bytes", 300_000, "--repeats", 1, "--json", "-", "--plot", "s.png")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert len(facts["rows"]) == 9
    assert all(row["rate"] > 0 for row in facts["rows"])
    options = ("--seconds", 0.001, "--repeats", 1, "--threads", 2, "--dtype", "float32", "--plot", "p.png")
    done = bench(ridgeline, "peak", "-n", 2, *options, "--json", "-")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["dtype"], row["threads"]) == ("float32", 2)
    assert row["total"] >= row["most"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("alltoall",), "Start them with -n 2"),
        (
            ("allgather", "-n", 2, "--among", 3),
            "--among 3: allgather requires 2 ranks or more, and the job has 2 ranks.",
        ),
        (("stream", "--bytes", 10), "STREAM cannot run on 10 bytes"),
    ],
)
def test_refusals(ridgeline, arguments, words):
    done = bench(ridgeline, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_help_states_pattern_and_formula():
    commands = {command.name: command for command in benchmarks.registered_commands}
    assert {"alltoall", "allreduce", "bcast", "allgather", "barrier", "stream", "peak"} < set(commands)
    for command in commands.values():
        text = command.callback.__doc__
        assert "Pattern:" in text
        assert "Formula:" in text
