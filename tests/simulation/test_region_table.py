"""The table of regions: rates from counted work and measured time, combined over ranks."""

import io

import pytest
from rich.console import Console

from ridgeline.models.contract import SolveCount
from ridgeline.runtime.regions import Region
from ridgeline.simulation.region_table import merge_regions, region_table, report_regions, solve_table

RANKS = (
    {"gmres": Region(2.0, 4e9, 8e9, 10), "cg": Region(1.0, 1e9, 3e9, 20)},
    {"gmres": Region(1.0, 4e9, 8e9, 10), "gather-scatter": Region(1.0, 0.0, 0.0, 30)},
)
SOLVES = {"pressure": SolveCount(10, 55, 9), "velocity": SolveCount(10, 30, 3)}


def test_seconds_are_means_that_add_up_and_work_is_that_of_all_ranks():
    merged = merge_regions(RANKS)
    assert list(merged) == ["gmres", "cg", "gather-scatter"]
    assert merged["gmres"] == {"seconds": 1.5, "seconds_max": 2.0, "flops": 8e9, "bytes": 16e9, "calls": 10}
    assert merged["cg"]["seconds"] == merged["gather-scatter"]["seconds"] == 0.5
    assert merged["cg"]["calls"] == 20


def test_rates_and_the_overall_efficiency():
    report = report_regions(RANKS, SOLVES, 20e9)
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
    assert report_regions([{}, {}], {}, 20e9) == {}


def test_nothing_is_divided_by_nothing():
    report = report_regions([{"cg": Region()}], {"velocity": SolveCount(0, 0, 0)}, 0.0)
    row = report["regions"]["cg"]
    assert row["share"] is row["flops_per_second"] is row["fraction_of_stream"] is None
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
    lines = [line.split() for line in printed(report_regions(RANKS, SOLVES, 20e9)).splitlines()]
    assert ["gmres", "1.500", "2.000", "60.0%", "5.33", "10.67", "0.533"] in lines
    assert ["all", "2.500", "100.0%", "3.60", "7.60", "0.380"] in lines
    assert ["pressure", "10", "5.50", "9"] in lines
