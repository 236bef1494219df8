"""Figures as the OSU micro-benchmarks print them: what scripts read from them."""

import re

import pytest

from ridgeline.bench.osu_format import check_options, osu_text
from ridgeline.bench.pairs.pairs_options import OneWayOptions
from ridgeline.bench.result import Result
from ridgeline.runtime.errors import ConfigError


def result(name, rows, **settings):
    return Result(name, "", "", "", 2, [], rows, settings=settings)


def table(text):
    """Return the numbers of each line that is no comment, as scripts for OSU's programs read them."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [[float(word) for word in line.split()] for line in lines]


def test_lines_of_latency_have_the_columns_of_osu():
    text = osu_text(
        result(
            "latency",
            [{"size": 1, "seconds": 3e-6}, {"size": 4194304, "seconds": 412.765e-6}],
        )
    )
    assert text.splitlines()[:2] == ["# OSU MPI Latency Test v7.4", "# Datatype: MPI_CHAR."]
    assert text.splitlines()[-3:] == [
        "# Size       Avg Latency(us)",
        "1                       3.00",
        "4194304               412.76",
    ]


def test_rates_of_many_pairs():
    row = {"size": 8, "bandwidth": 12.5e6, "message_rate": 1.5625e6}
    text = osu_text(result("multi-bandwidth", [row], n_pairs=2, window=64))
    assert "# [ pairs: 2 ] [ window size: 64 ]" in text.splitlines()
    assert table(text) == [[8, 12.5, 1562500.0]]
    assert table(osu_text(result("bandwidth", [row]))) == [[8, 12.5]]


def test_a_sweep_over_ranks_has_a_block_for_each_number():
    rows = [
        {"ranks": ranks, "size": size, "seconds": size * 1e-6, "least": 1e-6, "most": 9e-6}
        for ranks in (2, 4)
        for size in (4, 8)
    ]
    text = osu_text(result("allreduce", rows))
    assert re.findall("# Ranks: (.)", text) == ["2", "4"]
    assert text.count("# OSU MPI Allreduce Latency Test") == 2
    assert table(text) == [[4, 4, 1, 9], [8, 8, 1, 9]] * 2
    (row,) = table(osu_text(result("barrier", [{**rows[0], "size": 0} | {"ranks": 2}])))
    del rows[0]["size"]
    assert table(osu_text(result("barrier", rows[:1]))) == [row[1:]]


def test_one_sided_messages_have_a_block_for_each_operation_and_test():
    rows = [
        {"test": test, "operation": operation, "size": 2, "seconds": 1e-6, "rate": 3e6}
        for test in ("latency", "bandwidth")
        for operation in ("get", "put")
    ]
    text = osu_text(result("one-sided", rows, sync="lock", memory="host"))
    titles = re.findall(r"# OSU (\S+ \S+) Test", text)
    assert titles == ["MPI_Get Latency", "MPI_Put Latency", "MPI_Get Bandwidth", "MPI_Put Bandwidth"]
    assert text.count("# Synchronization: MPI_Win_lock/unlock") == 4
    assert table(text) == [[2, 1], [2, 1], [2, 3], [2, 3]]


def test_what_osu_does_not_measure_is_refused():
    check_options(OneWayOptions())
    for options, flag in (
        (OneWayOptions(all_pairs=True), "--all-pairs"),
        (OneWayOptions(method="alcf"), "alcf"),
    ):
        with pytest.raises(ConfigError, match=flag):
            check_options(options)
