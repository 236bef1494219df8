"""Pictures of sweeps: curves over one axis, maps over two, places by name where keys change together."""

import json
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from ridgeline.analysis.plot_command import draw
from ridgeline.analysis.study_plots import SWEEP_AXES, plot_sweep
from ridgeline.bench.result import Column, Result
from ridgeline.runtime.errors import ConfigError
from ridgeline.study import sweep
from ridgeline.study.study_options import SweepOptions

FIGURES = ("V_mean", "V_max", "U_mean", "dt")


def swept(**axes):
    """The JSON of a sweep over all combinations; cases whose first value is 9 failed."""
    return facts(tuple(axes), [dict(zip(axes, each)) for each in product(*axes.values())])


def facts(axes, cases):
    rows = []
    for n, case in enumerate(cases):
        done = 9 not in case.values()
        figures = {name: (n + 1.0) * 10**k if done else None for k, name in enumerate(FIGURES)}
        rows.append({**case, "state": "done" if done else "failed", "step": 10 if done else None, **figures})
    columns = [Column(name, name) for name in (*axes, "state", "step", "time")]
    columns += [Column(name, f"{name} (mol)") for name in FIGURES]
    result = Result("sweep of toy", "p", "f", "s", 1, columns, rows, extra={SWEEP_AXES: list(axes)})
    return json.loads(json.dumps(result.to_dict()))


def panels(figure):
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def test_one_axis_is_a_curve_of_each_figure_in_the_order_of_its_values():
    found = panels(plot_sweep(swept(F=[3, 1, 2])))
    assert [axes.get_title() for axes in found] == ["V_mean (mol)", "V_max (mol)", "U_mean (mol)"]
    (line,) = found[1].lines
    np.testing.assert_array_equal(line.get_xydata(), [[1, 20], [2, 30], [3, 10]])
    assert found[-1].get_xlabel() == "F"
    assert found[0].get_xscale() == "linear"
    assert len(panels(plot_sweep(swept(F=[1, 2]), every=True))) == 4
    assert panels(plot_sweep(swept(F=[1e-3, 1, 2])))[0].get_xscale() == "log"


def test_two_axes_are_maps_with_the_last_to_the_right_and_a_gap_for_what_failed():
    figure = plot_sweep(swept(k=[2, 1], F=[0.1, 9, 0.3]), ["dt"])
    (axes,) = panels(figure)
    (image,) = axes.images
    cells = np.ma.filled(image.get_array(), np.nan)
    np.testing.assert_array_equal(cells, [[4000, 6000, np.nan], [1000, 3000, np.nan]])
    assert image.origin == "lower"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "0.3", "9"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("F", "k")


def test_signed_figures_are_white_at_zero():
    result = swept(a=[1, 2], b=[1, 2])
    for row, value in zip(result["rows"], (-1.0, 2.0, 0.5, -0.5)):
        row["dt"] = value
    (image,) = panels(plot_sweep(result, ["dt"]))[0].images
    assert (image.get_cmap().name, image.get_clim()) == ("RdBu_r", (-2.0, 2.0))


def test_of_three_axes_each_combination_of_the_others_is_a_curve():
    figure = plot_sweep(swept(a=[1, 2], b=["x", "y"], c=[1, 2, 3]), ["V_mean"])
    lines = {line.get_label(): line.get_xydata().tolist() for line in panels(figure)[0].lines}
    assert list(lines) == ["a = 1, b = x", "a = 1, b = y", "a = 2, b = x", "a = 2, b = y"]
    assert lines["a = 2, b = x"] == [[1, 7], [2, 8], [3, 9]]
    assert figure.legends


def test_keys_that_change_together_and_values_that_are_no_numbers_are_named_places():
    cases = [{"F": 0.1, "k": 0.5}, {"F": 0.1, "k": 0.6}, {"F": 0.2, "k": 0.6}]
    (axes,) = panels(plot_sweep(facts(("F", "k"), cases), ["V_mean"]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1, 0.5", "0.1, 0.6", "0.2, 0.6"]
    assert axes.get_xlabel() == "F, k"
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [1, 2, 3])
    (axes,) = panels(plot_sweep(swept(shape=[[16, 16], [8, 8]]), ["V_mean"]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["16x16", "8x8"]


def test_many_places_are_not_all_named():
    (axes,) = panels(plot_sweep(swept(F=list(range(30)), k=[0, 1]), ["V_mean"]))
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(n) for n in range(0, 30, 3)]


def test_the_command_draws_the_table_of_a_sweep(tmp_path):
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(swept(F=[1, 2])))
    assert draw(str(path)) == [tmp_path / "sweep_figures.png"]  # sweep.png is the contact sheet
    draw(str(path), ["V_max"], output=str(tmp_path / "one.png"))
    with pytest.raises(ConfigError, match=r"the sweep has no column 'V_mex'\. Did you mean 'V_max'\?"):
        draw(str(path), ["V_mex"])
    with pytest.raises(ConfigError, match=r"--pdf does not apply .* the table of a sweep"):
        draw(str(path), pdf=True)


def test_a_sweep_without_a_case_that_is_done_says_so():
    result = swept(F=[9, 9])
    result["columns"] = {name: name for name in ("F", "state", "step", "time")}
    with pytest.raises(ConfigError, match=r"no case of the sweep is done yet\. Run the same sweep again"):
        plot_sweep(result)


def test_a_contact_sheet_runs_upwards_like_the_map_beside_it(tmp_path, monkeypatch):
    """F is the first axis, k the last: the least F is in the lowest row, as in the map of a final figure."""
    points = [
        SimpleNamespace(name=f"{f}{k}", axes={"F": f, "k": k}, paths={"output.path": f"{f}{k}.bp"})
        for f, k in product((0.02, 0.03, 0.04), (0.05, 0.06))
    ]
    jobs = [SimpleNamespace(folder=tmp_path, point=point) for point in points]
    data = xr.Dataset(
        {"U": (("step", "z", "y", "x"), np.full((1, 1, 2, 2), np.nan))},
        {"step": [3], "time": ("step", [3.0])},
    )
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda path: data)
    drawn = []
    monkeypatch.setattr(sweep, "save_figure", lambda figure, *_: drawn.append(figure))
    options = SweepOptions(over=("model.F=1,2",), plane="z=0", colour_map="gray")
    sweep.save_contact_sheet(SimpleNamespace(points=points), jobs, tmp_path / "s.png", options)
    places = {axes.get_title(): axes.get_subplotspec() for axes in drawn[0].axes if axes.get_title()}
    rows = [places[f"F = {f}, k = 0.05"].rowspan.start for f in (0.02, 0.03, 0.04)]
    assert rows == [2, 1, 0]
    assert places["F = 0.02, k = 0.06"].colspan.start == 1
    assert {image.get_cmap().name for axes in drawn[0].axes for image in axes.images} == {"gray"}
