"""The run report: figures derived from counted work and measured time, and what is printed of them."""

import io

import pytest
from rich.console import Console

from ridgeline.models.contract import StepTimes, Work
from ridgeline.simulation.print_report import print_report
from ridgeline.simulation.report import PhaseTimes, Timing, compute_performance

WORK = Work(points=4_000_000, flops=5e7, bytes_memory=6e7, bytes_exchanged=7e4, messages=8)


def timing(**more) -> Timing:
    values = {"setup": 1.0, "compile": 2.0, "first_step": 0.5, "steady": 1.0, "total": 9.0}
    return Timing(**{**values, "steps": 11, "steady_steps": 10, **more})


def test_speed_is_that_of_the_steady_steps():
    found = compute_performance(WORK, timing(), {"best": 1.2e9})
    assert found == {
        "steps": 11,
        "seconds_per_step": 0.1,
        "points_per_second": 4e7,
        "flops_per_second": 5e8,
        "least_bytes_per_second": pytest.approx(6e8),
        "fraction_of_stream": pytest.approx(0.5),
    }
    assert compute_performance(WORK, timing(steps=1, steady_steps=0), {})["seconds_per_step"] == 0.5
    assert set(compute_performance(WORK, timing(steps=0, steady_steps=0), {}).values()) == {0, None}


def printed(verbose=False, width=120, **more) -> str:
    """Return what is printed of a report; of verbose ones all tables."""
    step = StepTimes(0.1, {"FFT": 0.06, "row all-to-all": 0.03, "other": 0.01})
    best = StepTimes(0.09, {"FFT": 0.055, "row all-to-all": 0.027, "other": 0.008})
    report = {
        "model": "turbulence",
        **compute_performance(WORK, timing(), {"best": 1.2e9}),
        "run": {"shape": [64, 128, 256], "precision": "float32", "ranks": 2, "threads": 3, "device": "cpu",
                "last_step": 11, "time": 0.55, "ended": "SIGTERM"},
        "seconds": vars(timing()),
        "phases": {name: vars(PhaseTimes(1.0, 2.0, 3.0)) for name in ("FFT", "row all-to-all", "output", "other")},
        "step": {kind: {**s.phases, "total": s.total} for kind, s in (("mean", step), ("best", best))},
        "work": WORK.to_dict(),
        "limits": {"best": 1.2e9, "best_name": "triad"},
        "figures": {
            "figure_of_merit": {"value": 2.91e12, "unit": "points/s"},
            "row_message": {"value": 2048.0, "unit": "B"},
        },
        "peak_memory_per_rank": 5e9,
        "memory_before_setup_per_rank": 2e8,
        "summary": {
            "energy": {"value": 0.12345678, "unit": "length^2/time^2"},
            "k_max_eta": {"value": 1.5, "unit": ""},
        },
        "written": [
            {"kind": "series", "path": "series [1].csv", "steps": 1, "bytes": 2048, "show": "ridgeline plot it"},
            {"kind": "Nek5000 files", "path": "a/" * 40 + "prefix", "steps": 3, "bytes": None, "show": None},
        ],
        "files": {"series": "series.csv", "report": "u.bp.run.json"},
        **more,
    }  # fmt: skip
    out = io.StringIO()
    print_report(report, Console(file=out, width=width, soft_wrap=True), verbose)
    return out.getvalue()


def words(text: str) -> str:
    """Return a text with single spaces, as how wide its columns are is no matter of tests."""
    return " ".join(text.split())


HEAD = "turbulence 64 x 128 x 256, float32, 2 ranks x 3 threads on cpu: 11 steps, ended at step 11 (SIGTERM)"


def test_physics_comes_first_then_files_then_speed_whole_in_a_narrow_terminal():
    for width in (40, 120):
        text, place = words(printed(width=width)), 0
        for part in [
            HEAD,
            "state at step 11, time 0.55",
            "energy 0.123457 length^2/time^2",
            "k_max_eta 1.5",
            "series series [1].csv 1 step 2.048 kB ridgeline plot it",
            f"Nek5000 files {'a/' * 40}prefix 3 steps",
            "report u.bp.run.json ridgeline report u.bp.run.json --verbose",
            "11 steps in 1.5 s, 100 ms each (whole run 9 s)",
            "40 M grid points/s, 600 MB/s of least memory traffic",
            "0.500 of the limit, 1.2 GB/s (triad); most of a step goes to FFT, 60%",
        ]:
            assert part in text[place:], f"{width=}: {part}"
            place = text.index(part, place)


def test_the_largest_region_is_named_and_the_overall_efficiency_where_there_are_regions():
    regions = {name: {"seconds": s} for name, s in (("pressure", 3.0), ("advection", 1.0))}
    last = printed(regions=regions, overall_efficiency=0.25).splitlines()[-1]
    assert last.endswith("(triad); overall efficiency 0.250; most of a step goes to pressure, 75%")


def test_the_whole_table_keeps_the_physics_and_the_files_first():
    short, whole = printed().splitlines(), printed(verbose=True).splitlines()
    assert whole[:11] == short[:11]
    assert "speed:" not in "\n".join(whole)
    assert len(whole) > 30


def test_nothing_that_a_file_says_is_taken_for_markup():
    text = printed(
        model="[/red]", written=[{"kind": "k", "path": "[b]", "steps": 1, "bytes": 1, "show": "[/]"}]
    )
    assert "[/red] 64 x 128 x 256" in text
    assert "k [b] 1 step 1 B [/]" in words(text)


def test_a_report_of_an_older_version_is_printed_without_its_state():
    text = words(printed(summary={}, written=[]))
    assert "state at" not in text
    assert "files report u.bp.run.json ridgeline report" in text


def test_a_step_is_printed_by_phase_as_a_row_of_the_paper_s_tables():
    lines = printed(verbose=True).splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith("one step"))
    assert lines[row + 1].split() == ["FFT", "row", "all-to-all", "other", "total"]
    assert lines[row + 2].split() == ["mean", "60", "ms", "30", "ms", "10", "ms", "100", "ms"]
    assert lines[row + 3].split() == ["best", "55", "ms", "27", "ms", "8", "ms", "90", "ms"]


def test_the_whole_report_has_every_number():
    text = printed(verbose=True)
    for part in [
        HEAD, "figure of merit", "2.91e+12 points/s", "row message", "2.048 kB", "peak memory per rank", "5 GB",
        "of which before set-up", "200 MB", "limit (triad)", "1.2 GB/s", "fraction of the memory bandwidth", "0.500",
        "70 kB in 8 messages per step",
    ]:  # fmt: skip
        assert part in text, part
    assert "[bold]" not in text


def test_a_run_without_steps_has_no_speed():
    for verbose in (False, True):
        text = printed(verbose, seconds_per_step=None, step={})
        assert "no step was computed" in text, f"{verbose=}"
        assert "one step" not in text, f"{verbose=}"


def test_checkpoints_are_told_with_their_compression():
    saved = {
        "written": 3, "bytes_raw": 2.5e6, "bytes_written": 2e6, "compression_ratio": 1.25,
        "raw_bytes_per_second": 5e8, "written_bytes_per_second": 4e8,
    }  # fmt: skip
    line = "checkpoints: 3 written, 2.5 MB of fields at 500 MB/s, compressed 1.25 times to 2 MB on disk at 400 MB/s"
    assert line in " ".join(printed(True, checkpoint=saved).split())
    assert "checkpoints" not in printed(True, checkpoint={"written": 0})


def test_a_step_of_many_phases_is_a_table_of_rows():
    step = {f"phase {i}": 0.001 * i for i in range(9)} | {"total": 0.036}
    lines = [line.split() for line in printed(True, step={"mean": step, "best": step}).splitlines()]
    assert ["phase", "3", "3", "ms", "3", "ms"] in lines
    assert ["total", "36", "ms", "36", "ms"] in lines
