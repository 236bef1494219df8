"""The table of regions: rates from counted work and measured time, combined over ranks."""

import io

import pytest
from rich.console import Console

from ridgeline.models.contract import SolveCount
from ridgeline.runtime.regions import Region
from ridgeline.simulation.print_report import region_table, solve_table
from ridgeline.simulation.roofline import Ceilings, RegionContext, merge_regions, report_regions

RANKS = (
    {"gmres": Region(2.0, 4e9, 8e9, 10), "cg": Region(1.0, 1e9, 3e9, 20)},
    {"gmres": Region(1.0, 4e9, 8e9, 10), "gather-scatter": Region(1.0, 0.0, 0.0, 30)},
)
MEMORY = Ceilings({}, 20e9)  # as far as reports before the roofline knew
SOLVES = {"pressure": SolveCount(10, 55, 9), "velocity": SolveCount(10, 30, 3)}


def test_seconds_are_means_that_add_up_and_work_is_that_of_all_ranks():
    merged = merge_regions(RANKS)
    assert list(merged) == ["gmres", "cg", "gather-scatter"]
    assert merged["gmres"] == {"seconds": 1.5, "seconds_max": 2.0, "flops": 8e9, "bytes": 16e9, "calls": 10}
    assert merged["cg"]["seconds"] == merged["gather-scatter"]["seconds"] == 0.5
    assert merged["cg"]["calls"] == 20


def test_rates_and_the_overall_efficiency():
    report = report_regions(RANKS, SOLVES, MEMORY, RegionContext())
    gmres, scatter = report["regions"]["gmres"], report["regions"]["gather-scatter"]
    assert gmres["share"] == pytest.approx(1.5 / 2.5)
    assert gmres["flops_per_second"] == pytest.approx(8e9 / 1.5)
    assert gmres["bytes_per_second"] == pytest.approx(16e9 / 1.5)
    assert gmres["fraction_of_stream"] == pytest.approx(16 / 1.5 / 20)
    assert (scatter["flops_per_second"], scatter["fraction_of_stream"]) == (0.0, 0.0)
    assert sum(row["share"] for row in report["regions"].values()) == pytest.approx(1.0)
    assert report["overall_efficiency"] == pytest.approx(19e9 / 2.5 / 20e9)
    assert report["solves"]["pressure"] == {
        "solves": 10, "iterations": 55, "most": 9, "iterations_per_solve": 5.5,
    }  # fmt: skip


def test_a_model_without_regions_adds_nothing():
    assert report_regions([{}, {}], {}, MEMORY, RegionContext()) == {}


def test_nothing_is_divided_by_nothing():
    report = report_regions(
        [{"cg": Region()}], {"velocity": SolveCount(0, 0, 0)}, Ceilings({}, 0.0), RegionContext()
    )
    row = report["regions"]["cg"]
    assert (
        row["share"] is row["flops_per_second"] is row["fraction_of_stream"] is row["share_of_limit"] is None
    )
    assert report["overall_efficiency"] is None
    assert report["solves"]["velocity"]["iterations_per_solve"] == 0.0
    assert "cg" in printed(report)


def printed(report) -> str:
    out = io.StringIO()
    console = Console(file=out, width=120)
    console.print(region_table(report))
    console.print(solve_table(report["solves"]))
    return out.getvalue()


def test_the_tables_say():
    lines = [
        line.split() for line in printed(report_regions(RANKS, SOLVES, MEMORY, RegionContext())).splitlines()
    ]
    assert ["gmres", "1.500", "2.000", "60.0%", "5.33", "10.67", "0.533", "memory"] in lines
    assert ["gather-scatter", "0.500", "1.000", "20.0%", "0.00", "0.00"] in lines
    assert ["all", "2.500", "100.0%", "3.60", "7.60", "0.380", "memory"] in lines
    assert ["pressure", "10", "5.50", "9"] in lines


def test_a_report_of_an_older_version_is_compared_with_stream():
    report = report_regions(RANKS, SOLVES, MEMORY, RegionContext())
    for row in (*report["regions"].values(), report["all_regions"]):
        for key in ("least_seconds", "limit", "share_of_limit"):
            del row[key]
    lines = [line.split() for line in printed(report).splitlines()]
    assert ["seconds", "slowest", "share", "GFLOP/s", "GB/s", "of", "STREAM"] in lines
    assert ["gmres", "1.500", "2.000", "60.0%", "5.33", "10.67", "0.533"] in lines


def test_each_region_is_compared_with_its_own_limit():
    """Of 8 GFLOP and 16 GB in 10 calls; 1 GFLOP and 3 GB in 20; the caches hold 200 MB, which a call of cg needs."""
    ceilings = Ceilings({"float64": 4e9, "float32": 80e9}, 20e9, (("L3 cache", 2e8, 60e9),))
    found = report_regions(RANKS, {}, ceilings, RegionContext())
    gmres, cg = found["regions"]["gmres"], found["regions"]["cg"]
    assert (gmres["limit"], gmres["least_seconds"]) == ("peak", pytest.approx(2.0))
    assert gmres["share_of_limit"] == pytest.approx(2.0 / 1.5)
    assert (cg["limit"], cg["least_seconds"]) == ("peak", pytest.approx(0.25))
    single = report_regions(RANKS, {}, ceilings, RegionContext(precisions={"gmres": "float32"}))
    assert single["regions"]["gmres"]["limit"] == "memory"
    assert single["regions"]["gmres"]["share_of_limit"] == pytest.approx(0.8 / 1.5)
    cached = report_regions(RANKS, {}, ceilings, RegionContext("float32"))["regions"]["cg"]
    assert (cached["limit"], cached["least_seconds"]) == ("L3 cache", pytest.approx(3 / 60))
    small = report_regions(RANKS, {}, ceilings, RegionContext("float32", field_bytes=1e8))
    assert small["regions"]["gmres"]["limit"] == "L3 cache"
    total = single["all_regions"]
    assert (total["limit"], total["least_seconds"]) == ("memory", pytest.approx(0.8 + 0.25))
    assert total["share_of_limit"] == pytest.approx(1.05 / 2.5)
    assert single["overall_efficiency"] == pytest.approx(19e9 / 2.5 / 20e9)
