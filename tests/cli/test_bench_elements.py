"""`ridgeline bench nekbone` and `ridgeline bench acceptance`: ranks, tables, JSON, refusals."""

import json
import re

import pytest


def test_nekbone_prints_its_table(ridgeline):
    options = ("--nx1", 4, "--nx1", 6, "--elements", 8, "--iterations", 10)
    done = ridgeline("bench", "nekbone", "-n", 2, *options)
    assert done.returncode == 0, done.stderr
    head = next(line for line in done.stdout.splitlines() if line.startswith("nx1"))
    assert "Tot MFlops" in head
    rows = [
        line.split() for line in done.stdout.splitlines() if line[:1].isdigit() or line[:4].strip().isdigit()
    ]
    assert [row[:3] for row in rows] == [["4", "8", "2"], ["6", "8", "2"]]
    assert re.search(r"STREAM [\d.]+ GB/s \((copy|scale|add|triad)", done.stdout)
    assert "Avg MFlops" in done.stdout


def test_nekbone_json(ridgeline):
    options = ("--nx1", 5, "--elements", 8, "--iterations", 10, "--no-stream", "--json", "-")
    done = ridgeline("bench", "nekbone", *options)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    (figure,) = facts["rows"]
    stream = facts["extra"]["stream"]
    assert (figure["nx1"], figure["elements"], figure["brick"], stream) == (5, 8, "2 x 2 x 2", None)
    assert figure["flops"] == (12 * 5 + 34) * 8 * 125 * 10
    residuals = facts["extra"]["residuals"]["5"]
    assert residuals[-1] == figure["last_residual"] < residuals[0] == figure["first_residual"]


def test_acceptance_of_two_ranks(ridgeline):
    done = ridgeline(
        "bench", "acceptance", "-n", 2, "--nx1", 4, "--elements", 8, "--hpl", 100, "--json", "health.json"
    )
    assert done.returncode == 0, done.stderr
    for words in ("Tensor kernels, s = 1", "STREAM triad", "[GFLOP/s]", "Average", "Worst rank"):
        assert words in done.stdout
    facts = json.loads((ridgeline.path / "health.json").read_text())
    assert facts["ranks"] == 2
    assert len(facts["rows"]) == 6
    assert all(len(values) == 2 for values in facts["extra"]["by_rank"].values())
    assert all(row["min"] <= row["average"] <= row["max"] for row in facts["rows"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nekbone", "--nx1", 40), 2, "nx1"),
        (("nekbone", "--nx1", 32, "--elements", 2**24), 2, "Use fewer --elements"),
        (("acceptance", "--elements", 0), 2, "elements"),
        (
            ("nekbone", "--nx1", 2, "--elements", 1, "--no-stream", "--json", "no/x.json"),
            6,
            "cannot write no/x.json",
        ),
    ],
)
def test_refusals(ridgeline, arguments, code, words):
    done = ridgeline("bench", *arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
