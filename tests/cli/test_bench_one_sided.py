"""`ridgeline bench one-sided`: both patterns, a picture, refusals in one sentence."""

import json

import pytest


def test_pair_and_pattern_of_fast_multipoles(ridgeline):
    few = ("--sizes", 8, 16, "--iterations", 3, "--warm-up", 0, "--plot", "pair.png", "--json", "-")
    done = ridgeline("bench", "one-sided", "-n", 3, "--op", "get", "--op", "put", "--sync", "pscw", *few)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [(r["operation"], r["size"]) for r in facts["rows"][:4]] == [
        ("get", 8),
        ("get", 16),
        ("put", 8),
        ("put", 16),
    ]
    assert facts["left_out"] == [2]
    assert facts["settings"]["sync"] == "pscw"
    assert (ridgeline.path / "pair.png").stat().st_size > 1000
    options = ("--pattern", "fmm", "--messages", 50, "--every", 20, "--pieces", 8, 64, "--repeats", 1)
    done = ridgeline("bench", "one-sided", "-n", 4, *options, "--communicators", 1, "--communicators", 2)
    assert done.returncode == 0, done.stderr
    assert "50 pieces of 8 to 64 B" in done.stdout
    assert "flush after every 20 operations" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("get")]
    assert [row[1:3] for row in rows] == [["1", "200"], ["2", "200"]]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ((), 2, "-n 2"),
        (("--every", 3), 2, "cannot be used with --pattern pair"),
        (("--pattern", "fmm", "--window", 3), 2, "cannot be used with --pattern fmm"),
        (("--pattern", "fmm", "--sync", "pscw"), 2, "pscw cannot be used with --pattern fmm"),
        (("--op", "swap"), 2, "--op"),
    ],
)
def test_refusals(ridgeline, options, code, words):
    done = ridgeline("bench", "one-sided", *options)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_help_states_pattern_and_formula(ridgeline):
    text = " ".join(ridgeline("bench", "one-sided", "--help").stdout.split())
    assert "size x window x n / t" in text
    assert "messages/s = messages of all ranks / t" in text
