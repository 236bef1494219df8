"""The roofline of a report: where its dots and lines lie, what has no place, and files that are no report."""

import json
import re

import pytest

from ridgeline.analysis.plot_command import draw
from ridgeline.analysis.run_plots import bandwidth_lines, plot_roofline, roofline_dots
from ridgeline.runtime.errors import ConfigError, OutputError

LIMITS = {
    "best": 50e9,
    "best_name": "triad",
    "peak": {"float64": 200e9, "float32": 400e9},
    "caches": [{"level": 2, "capacity": 2e6, "rate": 400e9}, {"level": 3, "capacity": 32e6, "rate": 40e9}],
}


def region(seconds, share, flops, moved, least, limit):
    return {
        "seconds": seconds, "share": share, "flops": flops, "bytes": moved, "least_seconds": least, "limit": limit,
    }  # fmt: skip


REPORT = {
    "model": "navier_stokes",
    "phases": {},
    "run": {"shape": [8, 8, 8], "precision": "float64", "ranks": 2, "threads": 1, "device": "cpu"},
    "work": {"flops": 6e9, "bytes_memory": 12e9},
    "seconds_per_step": 2.0,
    "least_seconds": 0.24,
    "limit": "memory",
    "limits": LIMITS,
    "regions": {
        "advection": region(4.0, 0.5, 400e9, 20e9, 2.0, "peak"),
        "cg": region(2.0, 0.25, 5e9, 50e9, 1.0, "memory"),
        "coarse": region(1.6, 0.2, 0.0, 8e9, 0.16, "memory"),
        "waiting": region(0.4, 0.05, 0.0, 0.0, None, ""),
        "never": region(0.0, 0.0, 0.0, 0.0, None, ""),
    },
}


def test_a_dot_lies_at_its_intensity_and_rate_below_its_own_limit():
    dots, left_out = roofline_dots(REPORT)
    assert [(dot.name, dot.intensity, dot.rate, dot.limit) for dot in dots] == [
        ("advection", 20.0, 100e9, 200e9),
        ("cg", 0.1, 2.5e9, 5e9),
    ]
    assert left_out == {"coarse": 0.2, "waiting": 0.05}


def test_the_picture_shows_dots_by_area_and_lines_by_name():
    figure = plot_roofline(REPORT)
    (axes,) = figure.axes
    offsets = [tuple(dots.get_offsets()[0]) for dots in axes.collections]
    assert offsets == [(20.0, 100e9), (0.1, 2.5e9)]
    sizes = [dots.get_sizes()[0] for dots in axes.collections]
    assert sizes[0] == pytest.approx(2 * sizes[1])
    assert [text.get_text() for text in axes.texts] == [
        "L2 cache 400 GB/s", "memory 50 GB/s", "peak, float64 200 GFLOP/s", "peak, float32 400 GFLOP/s",
    ]  # fmt: skip
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "50.0%  advection: 50.0% of peak", "25.0%  cg: 50.0% of memory",
    ]  # fmt: skip
    assert "coarse 20.0%, waiting 5.0%" in figure.get_supxlabel()


def test_all_dots_and_limits_are_inside_the_picture():
    (axes,) = plot_roofline(REPORT).axes
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for dot in roofline_dots(REPORT)[0]:
        assert left < dot.intensity < right
        assert bottom < dot.rate < dot.limit < top


def test_a_model_without_regions_is_one_dot():
    dots, left_out = roofline_dots({**REPORT, "regions": {}})
    assert [(dot.name, dot.share, dot.intensity, dot.rate, dot.limit) for dot in dots] == [
        ("step", 1.0, 0.5, 3e9, 25e9)
    ]
    assert left_out == {}


def test_a_report_of_an_older_version_has_memory_and_dots_without_limits(tmp_path):
    old = json.loads(json.dumps(REPORT))
    old["limits"] = {"best": 50e9, "best_name": "triad"}
    for row in old["regions"].values():
        del row["least_seconds"], row["limit"]
    assert bandwidth_lines(old["limits"]) == {"memory": 50e9}
    assert [dot.limit for dot in roofline_dots(old)[0]] == [None, None]
    (tmp_path / "old.run.json").write_text(json.dumps(old))
    assert draw(str(tmp_path / "old.run.json"), roofline=True) == [tmp_path / "old.run_roofline.png"]


def test_a_report_whose_limits_could_not_be_measured_is_drawn():
    plot_roofline({**REPORT, "limits": {"best": 0.0, "best_name": "not measured", "unknown": "why"}})


@pytest.mark.parametrize(
    "regions", [{"coarse": REPORT["regions"]["coarse"]}, {"never": REPORT["regions"]["never"]}]
)
def test_nothing_to_draw_is_said(regions):
    with pytest.raises(ConfigError, match="no roofline to draw"):
        plot_roofline({**REPORT, "regions": regions})


@pytest.mark.parametrize("missing", ["limits", "work", "regions"])
def test_a_damaged_report_is_named(tmp_path, missing):
    content = {**REPORT, "regions": {"cg": {}} if missing == "regions" else {}}
    if missing != "regions":
        del content[missing]
    file = tmp_path / "x.json"
    file.write_text(json.dumps(content))
    with pytest.raises(OutputError, match=re.escape(f"the report {file} is damaged, or of another version")):
        draw(str(file), roofline=True)


def test_the_format_of_the_picture_is_that_of_its_name(tmp_path):
    file = tmp_path / "x.json"
    file.write_text(json.dumps(REPORT))
    (picture,) = draw(str(file), output=str(tmp_path / "r.svg"), roofline=True)
    assert picture.read_text().startswith("<?xml")
    with pytest.raises(ConfigError, match=r"its suffix must be \.png, \.svg or \.pdf\."):
        draw(str(file), output=str(tmp_path / "r.doc"), roofline=True)


def test_a_roofline_needs_a_report(tmp_path):
    for name in ("u.bp", "s.csv"):
        with pytest.raises(ConfigError, match=rf"{name}' is not a report\. --roofline requires"):
            draw(str(tmp_path / name), roofline=True)
    (tmp_path / "x.json").write_text('{"model": "toy", "run": {}, "phases": {}}')
    with pytest.raises(ConfigError, match=r"--pdf does not apply .* This is a report"):
        draw(str(tmp_path / "x.json"), pdf=True, roofline=True)
