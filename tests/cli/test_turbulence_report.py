"""The run report of turbulence: the columns of the paper's tables, and its figures from counts made here."""

import json

import pytest

from ridgeline.fourier.decomposition import Truncation
from ridgeline.runtime.units import number

CASE = """\
[run]
model = "turbulence"
steps = 6
precision = "float32"

[grid]
shape = [20, 24, 16]
decomposition = "{decomposition}"
process_grid = {process_grid}

[model]
viscosity = 0.02
dt = 0.01
transpose_variables = 2
transpose.method = "alltoallv"
fft.effort = "estimate"

[output]
every = 0
series_every = 0
"""
TRUNCATION = Truncation((20, 24, 16), "phase-shift")


def report_of(ridgeline, decomposition, process_grid, ranks):
    (ridgeline.path / "case.toml").write_text(
        CASE.format(decomposition=decomposition, process_grid=process_grid)
    )
    done = ridgeline("run", "case.toml", "-n", ranks, "--verbose")
    assert done.returncode == 0, done.stderr
    return json.loads((ridgeline.path / "turbulence.bp.run.json").read_text()), done.stderr


def check_step(report):
    """The columns of Tables 2 to 7, which add up; and the figures of the flow, with units."""
    assert report["summary"]["reynolds_taylor"]["unit"] == ""
    assert report["summary"]["energy"] == {
        "value": report["diagnostics"]["energy"],
        "unit": "length^2/time^2",
    }
    trial = report["run"]["trials"]["transforms in z"]
    assert set(trial["seconds"]) == {"strided", "packed"}
    for way, parts in trial["seconds"].items():
        assert set(parts) == {"unpack", "fft", "pack", "total"}
        assert f"{way} {number(parts['total'], 's')}" in report["run"]["method"]
    assert f"transforms in z {trial['taken']} (" in report["run"]["method"]
    for kind in ("mean", "best"):
        row = report["step"][kind]
        assert list(row) == ["fft", "pack", "row all-to-all", "column all-to-all", "other", "total"]
        assert sum(row.values()) == pytest.approx(2 * row["total"])
        assert row["fft"] > 0
        assert row["other"] > 0
    assert report["figures"]["figure_of_merit"]["value"] == pytest.approx(7680 / report["seconds_per_step"])
    left_out = 1 - TRUNCATION.n_lines / (20 * 9)
    assert report["figures"]["lines_left_out"]["value"] == pytest.approx(left_out)


@pytest.mark.full
def test_slabs(ridgeline):
    report, printed = report_of(ridgeline, "slabs", [1, 2], 2)
    check_step(report)
    figures, mean = report["figures"], report["step"]["mean"]
    assert mean["row all-to-all"] == 0
    assert not any(name.startswith("row") for name in figures)
    # 7 variables, complex64, of all planes and lines; two substeps.
    held = 7 * 24 * TRUNCATION.n_lines * 8 / 2
    assert figures["column_bandwidth"]["value"] > 0  # its value: tests/ranks/test_turbulence_figures.py
    assert figures["column_bandwidth"]["unit"] == "B/s"
    # Four calls of up to 2 variables, each with one message to the other rank.
    assert figures["column_message"] == {"value": pytest.approx(held / 2 / 4), "unit": "B"}
    for words in (
        "one step, slowest rank",
        "column all-to-all",
        "figure of merit",
        "column bandwidth",
        "peak",
    ):
        assert words in printed


@pytest.mark.full  # the quick tier has its figures in tests/ranks/test_turbulence_figures.py
def test_pencils(ridgeline):
    report, printed = report_of(ridgeline, "pencils", [2, 1], 2)
    check_step(report)
    figures = report["figures"]
    assert not any(name.startswith("column") for name in figures)
    assert figures["row_bandwidth"]["value"] > 0
    assert "row bandwidth" in printed
