"""`ridgeline bench tasking`: launches its ranks, prints, writes JSON and a picture, refuses in one sentence."""

import json

import pytest

FEW = ("--trials", 2, "--warm-up", 1, "--workers", 1, "--bytes", 8000)


def test_table_json_and_picture(ridgeline):
    items = ("--item", "creation", "--item", "futures", "--item", "channel")
    done = ridgeline("bench", "tasking", "-n", 2, *FEW, *items, "--json", "t.json", "--plot", "t.svg")
    assert done.returncode == 0, done.stderr
    assert "compiled ring" in done.stdout
    facts = json.loads((ridgeline.path / "t.json").read_text())
    assert facts["settings"]["items"] == ["creation", "futures", "channel"]
    assert any(row["primitive"] == "mpi4py.futures" and row["seconds"] > 0 for row in facts["rows"])
    assert (ridgeline.path / "t.svg").read_text().count("<path") > 50


def test_curves_over_workers(ridgeline):
    done = ridgeline("bench", "tasking", *FEW, "--item", "initialise", "--json", "-", "--plot", "t.png")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plot"]["kind"] == "lines"
    assert (ridgeline.path / "t.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--item", "flight"), "--item flight: unknown item"),
        (("--workers", 2000, "--bytes", 800), "the array is too small for 2000 workers"),
        (("--trials", 0), "--trials"),
    ],
)
def test_refusals(ridgeline, options, words):
    done = ridgeline("bench", "tasking", *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
