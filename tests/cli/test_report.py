"""`ridgeline report`: a stored report in the words of the run; damaged and foreign files in one sentence."""

import json

import pytest


def of_the_report(printed):
    """Return what a run printed after its progress."""
    return printed[printed.index("\ngray_scott ") :]


@pytest.mark.full
def test_a_stored_report_reads_as_the_run_did(ridgeline):
    case = ridgeline.write(steps=8, every=4, checkpoint=4)
    for options in ((), ("--verbose",)):
        ran = ridgeline("run", case, "-n", 2, "--json", "copy.json", *options)
        assert ran.returncode == 0, ran.stderr
        for name in ("gray_scott.bp.run.json", "copy.json"):
            shown = ridgeline("report", name, *options)
            assert shown.returncode == 0, shown.stderr
            assert shown.stdout == of_the_report(ran.stderr)
    drawn = ridgeline("plot", "copy.json")
    assert (drawn.returncode, drawn.stderr) == (0, "wrote copy.png\n")
    drawn = ridgeline("plot", "copy.json", "--roofline")
    assert drawn.returncode == 0, drawn.stderr
    assert (ridgeline.path / "copy_roofline.png").stat().st_size > 0
    report = json.loads((ridgeline.path / "copy.json").read_text())
    limits = report["limits"]
    assert set(limits["peak"]) == {"float64", "float32"}
    assert limits["network"]["rate"] > 0
    assert report["exchange"]["share"] > 0
    assert report["share_of_limit"] > 0
    assert report["energy"]["joules"] or report["energy"]["nodes"][0]["unreadable"]
    assert {name: figure["value"] for name, figure in report["summary"].items()} == report["diagnostics"]
    assert {figure["unit"] for figure in report["summary"].values()} == {"concentration"}
    rows = {row["kind"]: row for row in report["written"]}
    assert (rows["data set"]["steps"], rows["data set"]["show"]) == (2, "ridgeline plot gray_scott.bp")
    files = [path for path in (ridgeline.path / "gray_scott.bp").iterdir() if path.is_file()]
    assert rows["data set"]["bytes"] == sum(path.stat().st_size for path in files)
    assert rows["checkpoints"]["bytes"] > 0


def test_a_stored_benchmark_reads_as_it_did(ridgeline):
    ran = ridgeline(
        "bench", "latency", "-n", 2, "--json", "latency.json", "--sizes", 8, 16, "--iterations", 10
    )
    assert ran.returncode == 0, ran.stderr
    assert ridgeline("report", "latency.json").stdout == ran.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot read the report some.json: No such file"),
        ('{"model": "gray_sc', "some.json is not JSON, or is cut off"),
        ("\0\xff", "some.json is not JSON, or is cut off"),
        ("[" * 100_000, "some.json is not JSON, or is cut off"),
        ("[1, 2]", "some.json is JSON, but not a report"),
        ('{"type": "FeatureCollection"}', "some.json is JSON, but not a report"),
        ('{"model": 3, "run": [], "phases": {}}', "some.json is damaged"),
        (
            '{"model": "m", "run": {}, "phases": {}}',
            "some.json is damaged, or of another version: 'shape' is missing",
        ),
        ('{"benchmark": "latency", "columns": {"size": "B"}, "rows": []}', "'formats' is missing"),
    ],
)
def test_what_is_no_report_gets_one_sentence(ridgeline, text, words):
    if text is not None:
        (ridgeline.path / "some.json").write_text(text, encoding="latin-1")
    done = ridgeline("report", "some.json")
    assert done.returncode == 6
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert done.stderr.startswith("error: ")
    assert words in done.stderr


@pytest.mark.parametrize("command", ["report", "plot"])
def test_a_device_that_has_no_end_is_not_read(ridgeline, command):
    (ridgeline.path / "some.json").symlink_to("/dev/zero")
    done = ridgeline(command, "some.json")
    assert done.returncode == 6
    assert done.stderr.startswith("error: cannot read the report some.json: this is not a regular file")
    assert done.stderr.count("\n") == 1


def test_plot_of_a_report_that_is_not_there_gets_one_sentence(ridgeline):
    done = ridgeline("plot", "some.bp.run.json")
    assert done.returncode == 6
    assert done.stderr.startswith("error: cannot read the report some.bp.run.json: No such file")
    assert done.stderr.count("\n") == 1


def test_two_reports_are_compared(ridgeline, capsys, monkeypatch):
    """B has half the time step and is twice as fast; what is the same in both is not named."""
    from ridgeline.simulation.compare_reports import compare_reports

    def report(dt, seconds, value, **more):
        run = {"shape": [4, 4, 4], "precision": "float64", "ranks": 2, "threads": 1, "device": "cpu",
               "last_step": 10, "time": 10 * dt}  # fmt: skip
        return {
            "model": "m", "run": run, "phases": {}, "steps": 10, "settings": {"model.dt": dt, "run.seed": 1},
            "provenance": {"host": "here"}, "versions": {"numpy": "2"}, "seconds_per_step": seconds,
            "step": {"mean": {"compute": seconds, "total": seconds}}, "seconds": {"total": 10 * seconds},
            "peak_memory_per_rank": 1e6, "summary": {"energy": {"value": value, "unit": "J"}}, **more,
        }  # fmt: skip

    monkeypatch.chdir(ridgeline.path)
    for name, content in (("a", report(0.1, 2e-3, 4.0)), ("b", report(0.05, 1e-3, 5.0))):
        (ridgeline.path / f"{name}.json").write_text(json.dumps(content))
    compare_reports("a.json", "b.json")
    rows = {
        line.strip().split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines() if line
    }
    assert rows["model.dt"] == ["model.dt", "0.1", "0.05"]
    assert "run.seed" not in rows
    assert rows["time per step"][-1] == rows["compute"][-1] == "0.500"
    assert rows["energy"] == ["energy", "4", "J", "5", "J", "0.25"]
    done = ridgeline("report", "a.json", "b.json", "--verbose")
    assert (done.returncode, done.stderr) == (
        2,
        "error: --verbose cannot be used with two reports.\n",
    )
    (ridgeline.path / "c.json").write_text(json.dumps({"benchmark": "b", "columns": {}, "rows": []}))
    done = ridgeline("report", "a.json", "c.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "c.json is the report of a benchmark, but only reports of runs can be compared." in done.stderr
