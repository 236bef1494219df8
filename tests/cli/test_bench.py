"""`ridgeline bench transpose`: launches its ranks, prints a table, writes JSON, refuses in one sentence."""

import json
import re

import pytest


def bench(ridgeline, *arguments):
    return ridgeline("bench", "transpose", "--shape", 16, 16, 16, "--cycles", 1, *arguments)


@pytest.mark.full
def test_table_of_every_process_grid(ridgeline):
    done = bench(ridgeline, "-n", 4)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s*\d+ x \d", line)]
    assert [(*row[:3:2], row[3]) for row in rows] == [
        (r, c, q) for r, c in ("14", "22", "41") for q in "1234"
    ]
    assert "retained lines: 96 of 128" in done.stdout
    assert "Eq. 13" in done.stdout


def test_json_of_chosen_cases(ridgeline):
    options = (
        "-n",
        2,
        "--method",
        "alltoallv",
        "-q",
        2,
        "-q",
        4,
        "--lines",
        "full",
        "--precision",
        "float64",
    )
    done = bench(ridgeline, *options, "--process-grid", 2, 1, "--json", "-")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    settings = facts["settings"]
    assert (facts["ranks"], settings["dtype"], settings["lines_sent"]) == (2, "complex128", 128)
    assert [(row["process_grid"], row["batch"]) for row in facts["rows"]] == [("2 x 1", 2), ("2 x 1", 4)]
    assert facts["rows"][0]["row_method"] == "alltoallv"
    assert facts["rows"][0]["row_bytes_sent"] == 8 * 16 * 16 * 16 * 8 // 2
    done = bench(ridgeline, "--json", "figures.json")
    assert done.returncode == 0, done.stderr
    assert "P_r x P_c" in done.stdout
    assert json.loads((ridgeline.path / "figures.json").read_text())["ranks"] == 1


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (
            ("-n", 2, "--process-grid", 3, 1),
            3,
            "--process-grid 3 1: this grid requires 3 ranks, but the job has 2.",
        ),
        (("-n", 2, "--shape", 16, 15, 16), 3, "grid.shape has 15 points in y"),
        (("--json", "nowhere/x.json"), 6, "cannot write nowhere/x.json"),
        (
            ("--plot", "x.word"),
            2,
            "cannot write a picture to 'x.word', because its suffix must be .png, .svg or .pdf.",
        ),
    ],
)
def test_refusals(ridgeline, options, code, words):
    done = bench(ridgeline, *options)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("error:") == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_written_leaves_the_table_and_the_others(ridgeline):
    done = bench(ridgeline, "--json", "/dev/full", "--csv", "rows.csv")
    assert done.returncode == 6
    assert done.stderr.count("error: cannot write /dev/full: No space left on device") == 1, done.stderr
    assert "P_r x P_c" in done.stdout
    assert (ridgeline.path / "rows.csv").read_text().startswith("benchmark,")


@pytest.mark.parametrize("option", [("--dealias", "half"), ("-q", 5), ("--method", "fast"), ("--cycles", 0)])
def test_options_out_of_range(ridgeline, option):
    done = bench(ridgeline, *option)
    assert done.returncode == 2
    assert option[0].lstrip("-") in done.stderr


def test_help(ridgeline):
    assert "transpose" in ridgeline("bench", "--help").stdout
