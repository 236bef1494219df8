"""What is printed of step times, ranks, writes and timed ways; and nothing of what an old report lacks."""

import io

import pytest
from rich.console import Console

from ridgeline.simulation.print_report import spread_line, spread_tables, writing_line

PERCENTILES = {"5": 0.001, "25": 0.0015, "50": 0.002, "75": 0.0025, "95": 0.003, "99": 0.0035}


def times(step=40, steps=1, rank=3):
    worst = {"seconds": 0.01, "step": step, "steps": steps, "rank": rank}
    return {"count": 100, "min": 0.0009, "percentiles": PERCENTILES, "max": 0.01, "worst": worst, "bins": {}}


def kind(count, size, seconds):
    ends = {end: {"bytes_per_second": size / seconds, "step": 7} for end in ("slowest", "fastest")}
    return {
        "count": count,
        "bytes": size,
        "seconds": seconds,
        "bytes_per_second": size / seconds,
        "rows": [],
        **ends,
    }


def ranks(n, per_row=1):
    """Ranks that all compute for 1 s a step; rank 5 for 3 s."""
    column = [100.0 if i != 5 else 300.0 for i in range(n)]
    return {
        "ranks_per_row": per_row,
        "rank": [per_row * i for i in range(n)],
        "first_steps": 2,
        "steady_steps": 100,
        "first": {"compute": [8.0] * n, "total": [9.0] * n},
        "steady": {"compute": column, "total": column},
    }


def printed(**report) -> list[str]:
    """Return the lines of the tables, with single spaces."""
    out = io.StringIO()
    console = Console(file=out, width=200)
    for table in spread_tables({"run": {}, **report}):
        console.print(table)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_median_and_worst_step_are_one_line():
    line = spread_line({"step_times": {"compute": times(rank=1), "total": times()}})
    assert line == "median step 2 ms, 95% of them below 3 ms, worst 10 ms (step 40, rank 3)"
    line = spread_line({"step_times": {"total": times(steps=4)}})
    assert line.endswith("worst 10 ms (steps 37 to 40, each, rank 3)")


def test_large_outputs_are_one_line():
    writes = {"data set": kind(2, 4e9, 2.0), "series": kind(500, 3e4, 0.1), "checkpoints": kind(1, 8e9, 8.0)}
    assert writing_line({"writes": writes}) == "writing: data set 4 GB at 2 GB/s, checkpoints 8 GB at 1 GB/s"


@pytest.mark.parametrize("report", [{}, {"step_times": {}, "writes": {}}])
def test_an_older_report_or_one_without_steps_has_no_lines(report):
    assert spread_line(report) is None
    assert writing_line(report) is None
    assert printed(**report) == []


def test_tables_have_a_row_for_each_phase_rank_and_kind():
    found = printed(
        step_times={"compute": times(rank=1), "total": times()},
        ranks=ranks(7),
        writes={"data set": kind(2, 4e9, 2.0)},
    )
    assert "min 5% 25% median 75% 95% 99% worst" in found
    assert "compute 900 us 1 ms 1.5 ms 2 ms 2.5 ms 3 ms 3.5 ms 10 ms (step 40, rank 1)" in found
    assert "rank compute total first call" in found
    assert "5 3 s 3 s 4.5 s" in found
    assert "0 1 s 1 s 4.5 s" in found
    assert "data set 2 4 GB 2.000 2 GB/s 2 GB/s (step 7) 2 GB/s (step 7)" in found


def test_of_many_ranks_those_that_differ_are_shown():
    found = printed(ranks=ranks(512, per_row=20))
    assert found[0] == "one step of the 16 rows of ranks, of 512, farthest from the median, means of 20 ranks"
    assert "100 3 s 3 s 4.5 s" in found
    assert len(found) == 2 + 16
    assert printed(ranks={**ranks(3), "steady_steps": 0}) == []


def test_timed_ways_are_named_with_their_parts():
    trials = {
        "transforms in z": {
            "taken": "packed",
            "seconds": {
                "strided": {"total": 4e-3, "unpack": 1e-3, "fft": 2e-3, "pack": 1e-3},
                "packed": {"total": 3e-3, "unpack": 1.5e-3, "fft": 1e-3, "pack": 0.5e-3},
            },
            "earlier_run": True,
        },
        "column exchange": {
            "taken": "alltoallv",
            "seconds": {"alltoallv": {"total": 2e-5}, "node": {"total": 3e-5}},
            "earlier_run": False,
        },
    }
    found = printed(run={"trials": trials})
    assert found == [
        "candidates that were timed",
        "total unpack fft pack",
        "transforms in z: strided 4 ms 1 ms 2 ms 1 ms timed in an earlier run",
        "transforms in z: packed 3 ms 1.5 ms 1 ms 500 us chosen, timed in an earlier run",
        "column exchange: alltoallv 20 us chosen",
        "column exchange: node 30 us",
    ]
