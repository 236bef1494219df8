"""`ridgeline bench latency` and its like: tables, JSON, pictures, one sentence for bad input."""

import json

import pytest

FEW = ("--sizes", 0, 64, "--iterations", 2, "--warm-up", 0)


def test_table_and_picture(ridgeline):
    done = ridgeline("bench", "multi-bandwidth", "-n", 3, *FEW, "--plot", "curve.svg")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("multi-bandwidth, 3 ranks: ranks 0 and 1: one direction, windows of 64")
    assert lines[1].split() == ["B", "MB/s", "messages/s"]
    assert [line.split()[0] for line in lines[2:10]] == ["0", "1", "2", "4", "8", "16", "32", "64"]
    assert "Not measured: rank 2." in done.stdout
    assert (ridgeline.path / "curve.svg").read_text().count("<svg") == 1


@pytest.mark.full
def test_json_and_heat_map_of_all_pairs(ridgeline):
    options = ("--all-pairs", "--iterations", 2, "--plot", "map.png", "--json", "-")
    done = ridgeline("bench", "latency", "-n", 3, *options)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["rows"][0]["pairs"] == 3
    assert len(facts["extra"]["matrix"]) == 3
    assert facts["machine"]
    assert (ridgeline.path / "map.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("latency",), 2, "Start at least 2 ranks, as with -n 2"),
        (("multi-latency", "-n", 2, "--pairs", 5), 2, "--pairs 5: the number must be 1 with 2 ranks"),
        (("bandwidth", "-n", 2, *FEW, "--json", "nowhere/x.json"), 6, "cannot write nowhere/x.json"),
    ],
)
def test_refusals_of_pairs(ridgeline, options, code, words):
    done = ridgeline("bench", *options)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("error:") == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
