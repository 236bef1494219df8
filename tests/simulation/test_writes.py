"""What each output cost: totals of all, rows of a bounded number, spread over the run."""

import pytest

from ridgeline.simulation.outputs import MOST_ROWS, Write, WriteLog


def logged(*writes) -> WriteLog:
    log = WriteLog()
    for write in writes:
        log.record(Write(*write))
    return log


def test_every_write_has_a_row_and_the_extremes_are_named():
    found = logged((0, 100, 2.0), (10, 100, 0.5), (20, 50, 1.0)).to_dict()
    rows = found.pop("rows")
    assert rows == [
        {"step": 0, "bytes": 100, "seconds": 2.0, "bytes_per_second": 50.0},
        {"step": 10, "bytes": 100, "seconds": 0.5, "bytes_per_second": 200.0},
        {"step": 20, "bytes": 50, "seconds": 1.0, "bytes_per_second": 50.0},
    ]
    assert found == {
        "count": 3,
        "bytes": 250,
        "seconds": 3.5,
        "bytes_per_second": pytest.approx(250 / 3.5),
        "slowest": rows[0],
        "fastest": rows[1],
        "rows_every": 1,
    }


def test_rows_of_many_writes_are_spread_over_the_run():
    log = logged(*((step, 8, 1.0) for step in range(100_000)))
    assert MOST_ROWS / 2 <= len(log.rows) <= MOST_ROWS
    steps = [row.step for row in log.rows]
    assert steps == list(range(0, 100_000, log.every))
    assert (log.count, log.bytes, log.seconds) == (100_000, 800_000, 100_000.0)


@pytest.mark.parametrize("n", [MOST_ROWS, MOST_ROWS + 1])
def test_rows_are_left_out_only_beyond_the_bound(n):
    log = logged(*((step, 8, 1.0) for step in range(n)))
    assert (len(log.rows), log.every) == ((n, 1) if n <= MOST_ROWS else (MOST_ROWS // 2 + 1, 2))


def test_a_write_of_no_time_has_no_rate():
    found = logged((1, 8, 0.0)).to_dict()
    assert (found["bytes_per_second"], found["fastest"]["bytes_per_second"]) == (0.0, 0.0)
