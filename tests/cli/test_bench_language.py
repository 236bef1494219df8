"""`ridgeline bench pingpong` and `bsp`: tables, JSON, pictures, and refusals in one sentence."""

import json

QUICK = ("--language", "C", "--language", "mpi4py")


def test_pingpong(ridgeline):
    done = ridgeline(
        "bench",
        "pingpong",
        "-n",
        3,
        *QUICK,
        "--sizes",
        4,
        8,
        "--trials",
        5,
        "--json",
        "x.json",
        "--plot",
        "x.svg",
    )
    assert done.returncode == 0, done.stderr
    assert "harmonic mean" in done.stdout
    assert "Not measured: rank 2." in done.stdout
    facts = json.loads((ridgeline.path / "x.json").read_text())
    assert [row["size"] for row in facts["rows"] if row["language"] == "mpi4py"] == [4, 8]
    assert facts["settings"]["trials"] == 5
    assert facts["verified"]
    assert (ridgeline.path / "x.svg").read_text().startswith("<?xml")


def test_bsp(ridgeline):
    options = ("-r", 100, "-w", 100, "-f", 100, "-c", 3, "--iterations", 5, "--sweep", 1, "--sweep", 2)
    done = ridgeline("bench", "bsp", "-n", 2, *QUICK, *options, "--json", "x.json", "--plot", "x.svg")
    assert done.returncode == 0, done.stderr
    assert "communications %" in done.stdout
    facts = json.loads((ridgeline.path / "x.json").read_text())
    assert [row["ranks"] for row in facts["rows"] if row["language"] == "mpi4py"] == [1, 2]
    assert (facts["settings"]["reads"], facts["settings"]["communications"]) == (100, [3])
    assert (ridgeline.path / "x.svg").read_text().startswith("<?xml")


def test_refusals(ridgeline):
    for options, words in (
        (("pingpong",), "pingpong requires two ranks, but there is 1. Start them with -n 2."),
        (("bsp", "--language", "Fortran"), "--language Fortran: unknown language"),
    ):
        done = ridgeline("bench", *options)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("error:") == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr
