"""Pictures of benchmarks: every kind, from what their JSON holds; what cannot be drawn or written is said."""

import json
import math

import numpy as np
import pytest
from matplotlib import image

from ridgeline.analysis.bench_plots import draw_benchmark, save_plot
from ridgeline.bench.result import Plot, Result
from ridgeline.runtime.errors import ConfigError, OutputError


def facts(plot, rows=(), **extra):
    """The JSON of a benchmark with this picture, read back."""
    result = Result("latency", "p", "f", "s", 2, [], list(rows), plot=plot, extra=extra)
    return json.loads(json.dumps(result.to_dict()))


ROWS = [
    {"size": 0, "way": "C", "seconds": 1e-6, "other": 4e-6},
    {"size": 8, "way": "C", "seconds": 2e-6, "other": None},
    {"size": 8, "way": "Python", "seconds": None, "other": 3e-6},
    {"size": 0, "way": "Python", "seconds": 3e-6, "other": 5e-6},
]
LINES = facts(Plot("size", ("seconds",), ("way",), x_label="B", y_label="us", y_scale=1e-6), ROWS)
HEAT = facts(
    Plot(kind="heat", x_label="to", y_label="us", y_scale=1e-6),
    matrix=[[None, 2e-6], [3e-6, None]],
    names=["n0", "n1"],
)
BOXES = facts(
    Plot(kind="boxes", y_label="us", y_scale=1e-6),
    samples={"C": [1e-6, 2e-6, 3e-6], "nothing": [], "Python": [4e-6, 5e-6, 4e-6]},
)
BARS = facts(
    Plot("way", ("seconds", "other"), ("size",), kind="bars", y_label="us", y_scale=1e-6, log_y=False), ROWS
)


def axes_of(result):
    return draw_benchmark(result).axes[0]


def test_lines_are_sorted_and_named():
    lines = {line.get_label(): line.get_xydata() for line in axes_of(LINES).get_lines()}
    assert np.allclose(lines["C"], [[0, 1], [8, 2]])
    assert np.allclose(lines["Python"], [[0, 3]])
    two = facts(Plot("size", ("seconds", "other"), ("way",)), ROWS)
    assert {line.get_label() for line in axes_of(two).get_lines()} == {
        "C, seconds",
        "C, other",
        "Python, seconds",
        "Python, other",
    }


def test_one_curve_without_a_name_has_no_legend():
    axes = axes_of(facts(Plot("size", ("seconds",)), ROWS[:2]))
    assert len(axes.get_lines()) == 1
    assert axes.get_legend() is None


def test_heat_map_leaves_gaps_and_names_rows():
    axes = axes_of(HEAT)
    values = np.ma.filled(axes.get_images()[0].get_array(), math.nan)
    assert np.allclose(values, [[math.nan, 2], [3, math.nan]], equal_nan=True)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["n0", "n1"]


@pytest.mark.parametrize("n", [2, 8, 40])
def test_a_map_fills_its_picture(tmp_path, n):
    """No part of it is empty: a map is square, and has no use for a wide page."""
    matrix = (1e-6 + 1e-9 * np.arange(n * n).reshape(n, n)).tolist()
    extra = {"matrix": matrix, "names": [f"nid{k:05d}" for k in range(n)]}
    save_plot(HEAT | {"extra": extra}, str(tmp_path / "map.png"))
    picture = image.imread(tmp_path / "map.png")[..., :3]
    for axis in (0, 1):
        drawn = np.flatnonzero((picture < 0.99).any(axis=(axis, 2)))
        gaps = np.diff(np.concatenate([[0], drawn, [picture.shape[1 - axis]]]))
        assert gaps.max() < 0.12 * picture.shape[1 - axis]


def test_boxes_leave_out_what_has_no_samples():
    assert [label.get_text() for label in axes_of(BOXES).get_xticklabels()] == ["C", "Python"]


def test_bars_are_stacked():
    bars = [patch.get_bbox().bounds for patch in axes_of(BARS).patches]
    assert len(bars) == 8
    assert np.allclose(bars[4][1::2], [1.0, 4.0])  # above "seconds" of the first row
    assert np.allclose(bars[6][1::2], [0.0, 3.0])  # where "seconds" is missing


@pytest.mark.parametrize("result", [LINES, HEAT, BOXES, BARS], ids=["lines", "heat", "boxes", "bars"])
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_every_kind_in_every_format(tmp_path, result, ending):
    path = tmp_path / f"figure.{ending}"
    save_plot(result, str(path))
    start = path.read_bytes()[:300]
    assert {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}[ending] in start.replace(
        b"<!DOCTYPE svg", b"<svg"
    )


def test_no_picture_unknown_format_and_unwritable_path(tmp_path):
    with pytest.raises(ConfigError, match=r"latency has no picture\. Leave --plot out"):
        save_plot(facts(None), str(tmp_path / "x.png"))
    with pytest.raises(ConfigError, match=r"x\.doc.*suffix must be \.png, \.svg or \.pdf\."):
        save_plot(LINES, str(tmp_path / "x.doc"))
    with pytest.raises(OutputError, match="hoose another --plot"):
        save_plot(LINES, str(tmp_path / "nowhere" / "x.png"))
    assert list(tmp_path.iterdir()) == []


def test_a_picture_of_a_busy_node_says_so():
    assert draw_benchmark(LINES | {"others_share": 0.01}).get_supxlabel() == ""
    said = draw_benchmark(LINES | {"others_share": 0.92}).get_supxlabel()
    assert said.startswith("Other processes used 92% of the busiest node during the measurement.\n")
