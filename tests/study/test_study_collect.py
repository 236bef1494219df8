"""What a study says: rows, efficiencies, jitter, files, figures, and jobs that are not done."""

import csv
import json
import math
from functools import partial
from unittest.mock import patch

import pytest

from ridgeline.bench.benchmark import find_benchmark
from ridgeline.bench.result import Result
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.study.collect import collect, compare, to_result
from ridgeline.study.command import collect_study, compare_studies, run_study
from ridgeline.study.folder import StudyFolder
from ridgeline.study.jobs import run_jobs
from ridgeline.study.page import FigureAxis
from ridgeline.study.rows import rows_of_job
from study_tools import CASE, TURBULENCE, Runner, case_file, prepared, run_report

WEAK = {"weak": True, "ranks": (1, 2, 4), "repeat": 2}
# Each job of a point is slower than the one before it.
SECONDS = {1: 1e-3, 2: 1.25e-3, 4: 2e-3}


def seconds(job):
    return SECONDS[job.point.ranks] * (1 + 0.1 * (job.number - 1))


def studied(tmp_path, given=WEAK, runner=None):
    """Run a study by a stand-in, with its files; return its folder, its exit code and what was told."""
    told = []
    folder = tmp_path / "study"
    code, _ = (runner or Runner(seconds)).run(run_study, case_file(tmp_path), given, str(folder), told.append)
    return folder, code, told


def run(tmp_path, given=WEAK, text=CASE, runner=None, name="study"):
    """Run the jobs of a study by a stand-in, draw nothing, and return its folder."""
    study, plan, jobs = prepared(tmp_path, given, text, name)
    (runner or Runner(seconds)).run(run_jobs, plan, jobs, study.path, print)
    return study.path


def rows(folder):
    return collect(StudyFolder.open(folder)).rows


def test_weak_scaling(tmp_path):
    found = rows(run(tmp_path))
    assert [row["cores"] for row in found] == [1, 2, 4]
    assert [row["seconds"] for row in found] == [1e-3, 1.25e-3, 2e-3]
    assert [row["efficiency"] for row in found] == pytest.approx([1.0, 0.8, 0.5])
    assert [row.get("efficiency_before") for row in found[1:]] == pytest.approx([0.8, 0.625])
    assert [row["jitter"] for row in found] == pytest.approx([0.1] * 3)
    assert [row["median"] for row in found] == pytest.approx([1.05e-3, 1.3125e-3, 2.1e-3])
    assert [row["crowded"] for row in found] == [False, False, True]  # of a machine with two cores
    assert found[0]["simulated"] == pytest.approx(2000.0)
    assert found[2]["phase exchange"] == pytest.approx(0.5e-3)
    assert "ws1" not in found[0]


def test_strong_scaling(tmp_path):
    found = rows(run(tmp_path, {**WEAK, "weak": False, "strong": True}))
    assert [row["efficiency"] for row in found] == pytest.approx([1.0, 0.4, 0.125])
    assert [row.get("efficiency_before") for row in found] == [
        None,
        pytest.approx(0.4),
        pytest.approx(0.3125),
    ]


def test_the_work_of_transforms_counts_for_turbulence(tmp_path):
    found = rows(run(tmp_path, {**WEAK, "repeat": 1}, TURBULENCE))
    grown = math.log2(2 * 32**3) / math.log2(32**3)
    assert found[1]["ws1"] == found[1]["ws2"] == pytest.approx(0.8 * grown)
    assert found[1]["efficiency"] == pytest.approx(0.8)
    assert found[1]["jitter"] is None
    heads = [column.head for column in to_result("study", (), found).columns]
    assert {"efficiency", "to fewer", "N^3 log N", "N^3 log N to fewer"} <= set(heads)
    assert len(set(heads)) == len(heads)


def test_process_grids_are_curves_by_row_communicator(tmp_path):
    given = {"weak": True, "ranks": (2, 4), "process_grids": "all", "repeat": 1}
    folder = run(tmp_path, given, TURBULENCE, Runner(lambda job: 1e-3 * job.point.ranks))
    found = {row["labels"]["process_grid"]: row for row in rows(folder)}
    assert set(found) == {"1x2", "2x1", "1x4", "2x2", "4x1"}
    assert found["2x2"]["efficiency"] == pytest.approx(0.5)  # to 2x1, of the same P_r
    assert found["4x1"]["efficiency"] == 1.0  # the only one with P_r = 4
    over = FigureAxis.of(list(found.values()))
    assert sorted(over.name(curve) for curve in over.curves) == ["P_r 1", "P_r 2", "P_r 4"]


def test_overall_efficiency_and_solves(tmp_path):
    folder = run(tmp_path, {**WEAK, "repeat": 1})
    for path in folder.glob("points/*/1"):
        job_report = json.loads((path / "report.json").read_text())
        ranks = json.loads((path / "job.json").read_text())["ranks"]
        job_report["overall_efficiency"] = {1: 0.5, 2: 0.45, 4: 0.4}[ranks]
        job_report["solves"] = {"pressure": {"iterations_per_solve": 7.5}}
        (path / "report.json").write_text(json.dumps(job_report))
    found = rows(folder)
    assert [row["parallel_efficiency"] for row in found] == pytest.approx([1.0, 0.9, 0.8])
    assert found[0]["iterations pressure"] == 7.5


def test_files_and_figures(tmp_path):
    folder, _, told = studied(tmp_path)
    table = list(csv.DictReader((folder / "study.csv").read_text().splitlines()))
    assert [float(row["efficiency"]) for row in table] == pytest.approx([1.0, 0.8, 0.5])
    assert float(table[0]["bytes"]) == pytest.approx(32 * 16**3 / 1e-3)
    again = Result.from_dict(json.loads((folder / "study.json").read_text()))
    assert [row["seconds"] for row in again.rows] == [1e-3, 1.25e-3, 2e-3]
    page = (folder / "study.md").read_text()
    assert page.startswith("<!-- ridgeline-output/")
    for words in (
        "# gray_scott, weak scaling",
        "- stand-in: none, 2 cores, commit 0123abcd",
        "more threads than cores on 4 ranks",
        "| 2 | 32 x 16 x 16 | 1.25 | 2 | 1.312 | 0.100 |",
        "## Phases of a step, ms",
        "](figures/time.png)",
        'case = "case.toml"',
    ):
        assert words in page, words
    drawn = {path.name for path in (folder / "figures").iterdir()}
    assert drawn == {
        f"{name}.{end}"
        for name in ("time", "speed", "efficiency", "limit", "phases")
        for end in ("png", "svg")
    }
    assert "hollow: more threads than cores" in (folder / "figures" / "time.svg").read_text()
    assert told[-1].endswith("and 5 figures beside them")
    assert collect_study(str(folder), told.append) == 0
    assert not list(folder.rglob("*previous*"))


def test_what_is_not_done_is_named(tmp_path):
    runner = Runner(seconds, {"n2/1": 6, "n2/2": 6})
    folder = run(tmp_path, runner=runner)
    (folder / "points" / "n4" / "1" / "report.json").unlink()
    (folder / "points" / "n4" / "2" / "report.json").write_text("{")
    told = []
    assert collect_study(str(folder), told.append) == 1
    page = (folder / "study.md").read_text()
    assert "failed: n2/1 (exit code 6 error: the disk is full; free some space); n2/2 (" in page
    assert "missing: n4/1 (it has no report yet)" in page
    assert "damaged: n4/2 (report.json is not JSON" in page
    assert [row["ranks"] for row in rows(folder)] == [1]


def test_points_that_were_measured_on_a_busy_node_are_counted(tmp_path):
    folder = run(tmp_path, {**WEAK, "repeat": 1})
    assert "Other processes" not in " ".join(collect(StudyFolder.open(folder)).result.notes)
    report = folder / "points" / "n2" / "1" / "report.json"
    content = json.loads(report.read_text()) | {"limits": {"others_share": {"stream": 0.4, "network": 0.0}}}
    report.write_text(json.dumps(content))
    assert (
        "Other processes used up to 40% of the busiest node during the fastest jobs of 1 of 3 points. The machine "
        "may be faster than these values."
    ) in collect(StudyFolder.open(folder)).result.notes


def test_a_machine_file_that_was_measured_on_a_busy_node_is_named(tmp_path):
    folder = run(tmp_path, {**WEAK, "ranks": (1,)})
    busy = '\nothers_share = { value = 0.92, source = "this test" }\n[node]\nranks'
    (tmp_path / "machine.toml").write_text(MACHINE.replace("\n[node]\nranks", busy))
    notes = collect(StudyFolder.open(folder), str(tmp_path / "machine.toml")).result.notes
    assert "was measured while other processes used 92% of the busiest node." in " ".join(notes)


def test_a_study_without_a_report(tmp_path):
    folder, code, told = studied(tmp_path, runner=Runner(wrong=dict.fromkeys(
        [f"n{n}/{k}" for n in (1, 2, 4) for k in (1, 2)], 3)))  # fmt: skip
    assert code == 1
    assert "no job has finished yet" in told
    assert not (folder / "study.md").exists()


def test_a_report_of_another_version(tmp_path):
    folder = run(tmp_path)
    path = folder / "points" / "n1" / "1" / "report.json"
    report = json.loads(path.read_text())
    del report["step"]
    path.write_text(json.dumps(report))
    with pytest.raises(OutputError, match=r"damaged, or another version of Ridgeline wrote it \(KeyError"):
        collect(StudyFolder.open(folder))


def test_files_of_somebody_else_stay(tmp_path):
    folder, told = run(tmp_path), []
    (folder / "study.md").write_text("my notes\n")
    with pytest.raises(OutputError, match="Ridgeline did not write it"):
        collect_study(str(folder), told.append)
    assert (folder / "study.md").read_text() == "my notes\n"


def test_axes_alone(tmp_path):
    axis = {"vary": ("run.precision=float64,float32",), "repeat": 1}
    times = {"float64": 2e-3, "float32": 1e-3}
    folder, _, _ = studied(tmp_path, axis, runner=Runner(lambda job: times[job.point.axes["precision"]]))
    found = rows(folder)
    assert [row["speedup"] for row in found] == [1.0, 2.0]
    drawn = {path.stem for path in (folder / "figures").iterdir()}
    assert drawn == {"time", "speed", "limit", "simulated", "phases"}
    page = (folder / "study.md").read_text()
    assert "# gray_scott, by precision" in page
    assert "efficiency" not in page


MACHINE = """\
[machine]
name = "Stand-in"

[node]
ranks = { value = 2, source = "this test" }
memory_bandwidth = { value = 16, unit = "GB/s", source = "this test" }

[codes]
gray_scott = { value = 0.5, source = "this test" }

[variability]
node = { value = 0.1, source = "this test" }
"""


def test_predictions_stand_beside_what_was_measured(tmp_path):
    folder = run(tmp_path, {**WEAK, "ranks": (1,)})
    (tmp_path / "machine.toml").write_text(MACHINE)
    assert collect_study(str(folder), print, str(tmp_path / "machine.toml")) == 0
    (row,) = csv.DictReader((folder / "study.csv").read_text().splitlines())
    assert float(row["predicted"]) == pytest.approx(
        4 * 8 * 16**3 / (16e9 * 0.5)
    )  # two fields in and out, in float64
    assert float(row["predicted_most"]) == pytest.approx(1.1 * float(row["predicted"]))
    assert "| predicted ms | 80 % from ms | 80 % to ms |" in (folder / "study.md").read_text()
    drawn = (folder / "figures" / "time.svg").read_text()
    assert "predicted" in drawn
    assert "predicted for 80 % of steps" in drawn
    with pytest.raises(ConfigError, match="unknown machine"):
        collect(StudyFolder.open(folder), "frontir")


def test_what_a_prediction_lacks_is_said(tmp_path):
    folder = run(tmp_path, {**WEAK, "ranks": (1,)})
    (tmp_path / "machine.toml").write_text(MACHINE.split("[codes]")[0])
    notes = collect(StudyFolder.open(folder), str(tmp_path / "machine.toml")).result.notes
    assert "predictions are lower bounds: the full bandwidth is assumed" in " ".join(notes)
    assert "predicted" not in rows(folder)[0]  # measured on another machine than this


def test_outputs_that_were_written(tmp_path):
    folder = run(tmp_path, {**WEAK, "repeat": 1, "outputs": True})
    for path in folder.glob("points/*/1/report.json"):
        report = json.loads(path.read_text())
        report["written"] = [
            {"kind": "data set", "bytes": 4_000_000},
            {"kind": "series", "bytes": None},
            {"kind": "checkpoints", "bytes": 9},
        ]
        report["checkpoint"] = {"written_bytes_per_second": 3e6}
        report["phases"]["output"]["max"] = 0.5
        path.write_text(json.dumps(report))
    assert {(row["output_rate"], row["checkpoint_rate"]) for row in rows(folder)} == {(8e6, 3e6)}
    assert collect_study(str(folder), print) == 0
    assert {path.stem for path in (folder / "figures").iterdir()} > {"output", "checkpoint"}


def bench_report(rows, **more):
    return {"benchmark": "x", "rows": rows, "settings": {}, "nodes": 1, "machine": {"cores": 2}, **more}


@pytest.mark.parametrize(
    ("name", "report", "labels", "expected"),
    [
        (
            "hpcg-iteration",
            bench_report([{"implementation": "c", "seconds": 0.5, "rows": 4096, "flops": 3.0}]),
            {"nx": "16", "implementation": "plain C"},
            {"seconds": 0.5, "points_per_second": 8192.0, "flops": 3.0, "fraction": None},
        ),
        (
            "nekbone",
            bench_report(
                [
                    {
                        "nx1": 8,
                        "seconds": 5.0,
                        "points": 512,
                        "rate": 1.0,
                        "bandwidth": 2.0,
                        "fraction_of_stream": 0.7,
                    }
                ],
                settings={"iterations": 100},
            ),
            {"nx": "16", "nx1": "8"},
            {"seconds": 0.05, "fraction": 0.7, "bytes": 2.0},
        ),
        (
            "transpose",
            bench_report(
                [
                    {
                        "process_grid": "2 x 1",
                        "batch": 3,
                        "seconds": 0.3,
                        "row_seconds": 0.1,
                        "column_method": "one",
                    }
                ],
                settings={"shape": [4, 4, 8]},
            ),
            {"nx": "16", "process_grid": "2x1", "Q": "3"},
            {"points": 128, "phase row": 0.1},
        ),
    ],
)
def test_reports_of_benchmarks(name, report, labels, expected):
    from ridgeline.study.folder import JobStatus

    record = {"subject": name, "point": "n4", "ranks": 4, "threads": 1, "axes": {"nx": 16}}
    record |= {"size": "", "logarithmic": False}
    for crowded in (True, False):  # whatever cores one rank alone is bound to
        whole = report | {"machine": {"cores": 1}, "oversubscribed": crowded}
        (row,) = rows_of_job(JobStatus("n4/1", "done", "", record, whole))
        assert row["labels"] == labels
        assert row | expected == row
        assert row["crowded"] is crowded
    assert find_benchmark(name).scaling is not None


def test_a_benchmark_that_no_longer_scales():
    from ridgeline.study.folder import JobStatus

    record = {"subject": "congestion", "ranks": 1, "threads": 1, "axes": {}, "size": "", "logarithmic": False}
    with pytest.raises(ConfigError, match="congestion declares no size law in this version"):
        list(rows_of_job(JobStatus("n1/1", "done", "", record, bench_report([]))))


def test_two_studies_in_one_figure(tmp_path):
    first = run(tmp_path, name="old")
    half = Runner(lambda job: seconds(job) / 2)
    second, told = run(tmp_path, {**WEAK, "ranks": (1, 2)}, runner=half, name="new"), []
    output = tmp_path / "both"
    for _ in range(2):  # the second time it replaces its files
        compare_studies(str(first), str(second), str(output), told.append)
    assert not list(output.rglob("*previous*"))
    table = list(csv.DictReader((output / "compare.csv").read_text().splitlines()))
    assert [(row["ranks"], float(row["ratio"])) for row in table] == [("1", 2.0), ("2", 2.0)]
    page = (output / "compare.md").read_text()
    assert "the other study lacks 1 point of old" in page
    svg = (output / "figures" / "time.svg").read_text()
    assert "old" in svg
    assert "new" in svg


def test_studies_that_cannot_be_compared(tmp_path):
    first = run(tmp_path, {"ranks": (1,), "repeat": 1}, name="a")
    second = run(tmp_path, {"ranks": (2,), "repeat": 1}, name="b")
    third = run(tmp_path, {"ranks": (1,), "repeat": 1}, name="c", text=TURBULENCE)
    one, two, three = (collect(StudyFolder.open(path)) for path in (first, second, third))
    with pytest.raises(ConfigError, match="a and b have no point in common"):
        compare(one, two)
    with pytest.raises(ConfigError, match="a is a study of gray_scott, but c is a study of turbulence"):
        compare(one, three)


def test_rows_hold_the_spread_over_ranks_and_the_regions(tmp_path):
    more = {
        "limit": "memory",
        "steps": 10,
        "ranks": {"steady_steps": 8, "steady": {"total": [0.8, 1.6, 1.2]}},
        "regions": {
            "sweep": {
                "seconds": 0.4,
                "flops_per_second": 3e9,
                "bytes_per_second": 2e10,
                "share_of_limit": 0.5,
                "limit": "L3 cache",
            },
            "rest": {"seconds": 0.1, "flops_per_second": 0.0, "bytes_per_second": 0.0, "limit": ""},
        },
    }
    runner = Runner(seconds)
    study, plan, jobs = prepared(tmp_path, {"ranks": (1,), "repeat": 1}, CASE, "study")
    with patch("study_tools.run_report", partial(run_report, **more)):
        runner.run(run_jobs, plan, jobs, study.path, print)
    (row,) = rows(study.path)
    assert [row["fastest_rank"], row["mean_rank"], row["slowest_rank"]] == pytest.approx([0.1, 0.15, 0.2])
    assert row["limited_by"] == "memory"
    assert row["region sweep seconds"] == pytest.approx(0.05)
    assert (row["region sweep bytes"], row["region sweep share"]) == (2e10, 0.5)
    assert (row["region sweep limited_by"], row["region rest limited_by"]) == ("L3 cache", None)
    shown = [column.head for column in collect(StudyFolder.open(study.path)).result.columns]
    assert {"limited by", "fastest rank ms", "slowest rank ms"} <= set(shown)
