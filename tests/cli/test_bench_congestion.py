"""`ridgeline bench congestion`: three blocks on the screen, JSON, a picture, and refusals in one sentence."""

import json

QUICK = ("--seconds", 0.2, "--rings", 2, "--iterations", 3)


def test_table_json_and_picture(ridgeline):
    done = ridgeline(
        "bench", "congestion", "-n", 4, *QUICK, "--congestor", "incast", "--json", "x.json", "--plot", "x.svg"
    )
    assert done.returncode == 0, done.stderr
    for words in (
        "Isolated network tests",
        "Network tests with congestion tests",
        "Congestion impact factor",
    ):
        assert done.stdout.count(words) == 1
    for words in ("RR two-sided lat (8 B)", "RR two-sided BW+sync (131072 B)", "Multiple allreduce (8 B)"):
        assert done.stdout.count(words) == 3
    assert done.stdout.count("MiB/s/rank") == 2
    facts = json.loads((ridgeline.path / "x.json").read_text())
    assert (facts["ranks"], facts["nodes"], facts["settings"]["kinds"]) == (4, 4, ["incast"])
    assert len(facts["rows"]) == 9
    assert sorted(facts["extra"]["samples"])[0] == "allreduce, congested"
    assert (ridgeline.path / "x.svg").read_text().startswith("<?xml")


def test_refusals(ridgeline):
    for options, words in (
        (("-n", 2), "congestion requires at least 3 ranks"),
        (("--congestor", "flood", "-n", 3), "--background flood: give at least one kind"),
    ):
        done = ridgeline("bench", "congestion", *options)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("error:") == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr
