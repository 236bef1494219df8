"""`ridgeline bench hpcg-scaling`: table, CSV, JSON, picture, help, and refusals in one sentence."""

import csv
import json


def test_weak_scaling(ridgeline):
    files = ("--csv", "x.csv", "--json", "x.json", "--plot", "x.svg")
    options = ("--local", 16, "--sweep", "1,2", "--iterations", 2, "--repeats", 1)
    done = ridgeline("bench", "hpcg-scaling", "-n", 2, *options, *files)
    assert done.returncode == 0, done.stderr
    assert "weak scaling" in done.stdout
    rows = list(csv.DictReader((ridgeline.path / "x.csv").read_text().splitlines()))
    assert [(row["ranks"], row["path"]) for row in rows] == [
        ("1", "reference"),
        ("1", "optimised"),
        ("2", "reference"),
        ("2", "optimised"),
    ]
    facts = json.loads((ridgeline.path / "x.json").read_text())
    assert [str(row["seconds"]) for row in facts["rows"]] == [row["seconds"] for row in rows]
    assert (ridgeline.path / "x.svg").read_text().startswith("<?xml")


def test_the_help_has_the_commands_for_a_cluster(ridgeline):
    done = ridgeline("bench", "hpcg-scaling", "--help")
    assert "srun -N 8" in done.stdout
    assert "mpiexec -n 128" in done.stdout


def test_refusals(ridgeline):
    for options, words in (
        (("--sweep", "1;2"), "--sweep 1;2 is no list of numbers of ranks"),
        (("--sweep", "2"), "the job has 1"),
        (("--local", 20), "nx = 20"),
        (("--path", "fast"), "implementation 'fast' is unknown"),
        (("--local", 16, "--iterations", 1, "--repeats", 1, "--csv", "no/x.csv"), "choose another --csv"),
    ):
        done = ridgeline("bench", "hpcg-scaling", *options)
        assert done.returncode in (2, 6), done.stderr
        assert done.stderr.count("error:") == 1
        assert words in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
