"""Pictures of recorded time series: what is drawn at first, and with which range."""

import json
import logging

import numpy as np
import pytest
from PIL import Image

from ridgeline.analysis.plot_command import draw
from ridgeline.analysis.time_series import SeriesLabels, labels_beside, most_informative, plot_time_series
from ridgeline.runtime.errors import ConfigError

SERIES = "step,time,energy,dissipation,enstrophy\n0,0.0,0.5,0.1,2.0\n5,0.25,0.4,0.2,3.0\n9,0.45,0.3,0.1,2.5\n"


def test_a_column_of_the_series_is_not_looked_for_in_the_data_set(dataset, tmp_path, monkeypatch):
    (tmp_path / "s.csv").write_text(SERIES)
    (tmp_path / "run.bp.run.json").write_text(
        json.dumps(
            {"model": "m", "run": {}, "phases": {}, "written": [{"path": "runs/s.csv"}], "summary": {}}
        )
    )
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: dataset)
    with pytest.raises(
        ConfigError, match=r"'energy' is a column .* Draw it with: ridgeline plot .*s\.csv --variable energy"
    ):
        draw(str(tmp_path / "run.bp"), ["energy"])
    with pytest.raises(ConfigError, match="the data set has no field 'W'"):
        draw(str(tmp_path / "run.bp"), ["W"])


def test_time_series_over_time():
    series = {"step": np.array([0, 5]), "time": np.array([0.0, 0.25])}
    series |= {name: np.array([i, i + 1.0]) for i, name in enumerate("abcdef")}
    assert [axes.get_title() for axes in plot_time_series(series).axes] == list("abc")
    figure = plot_time_series(series, every=True)
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in shown] == list("abcdef")
    for axes in shown:
        x, y = axes.lines[0].get_xydata().T
        np.testing.assert_array_equal(x, series["time"])
        np.testing.assert_array_equal(y, series[axes.get_title()])
    assert [axes.get_title() for axes in plot_time_series(series, ["e", "b"]).axes] == ["e", "b"]


def test_command_draws_time_series(tmp_path):
    path = tmp_path / "series.csv"
    path.write_text(SERIES)
    assert draw(str(path)) == [tmp_path / "series.csv.png"]
    assert draw(str(path), ["energy"], output=str(tmp_path / "e.svg")) == [tmp_path / "e.svg"]
    assert (tmp_path / "e.svg").stat().st_size > 1000
    with pytest.raises(ConfigError, match=r"has no column 'enstropy'\. Did you mean 'enstrophy'\?"):
        draw(str(path), ["enstropy"])
    with pytest.raises(ConfigError, match=r"--pdf does not apply .* a time series"):
        draw(str(path), pdf=True)
    path.write_text(SERIES.splitlines()[0] + "\n")
    with pytest.raises(ConfigError, match="nothing to draw yet"):
        draw(str(path))


TIME = np.linspace(0.0, 10.0, 200)


def series_of(**columns) -> dict:
    return {"step": np.arange(len(TIME)), "time": TIME, **columns}


def axes_of(values):
    (axes,) = plot_time_series(series_of(a=values)).axes
    return axes


def test_what_tells_most_comes_first_and_what_does_not_change_last():
    wave = np.sin(TIME)
    many = series_of(dt=wave, energy_x=wave, courant=1 + wave, dissipation=wave, energy=wave, flat=0 * wave)
    assert most_informative(many) == ["energy", "dissipation", "energy_x"]
    assert most_informative(series_of(flat=0 * wave, also=1 + 1e-12 * wave, heat=wave))[0] == "heat"
    steady = series_of(
        kinetic_energy=1 + 0 * wave, dt=wave, mean_velocity_x=wave, enstrophy=wave, skew=0 * wave
    )
    assert most_informative(steady) == ["enstrophy", "kinetic_energy", "dt"]
    assert most_informative(series_of(flat=0 * wave)) == ["flat"]
    assert (
        most_informative(series_of(dt=wave, scalar_0_dissipation=wave, scalar_0_nusselt=wave))[0]
        == "scalar_0_nusselt"
    )


def test_a_start_does_not_flatten_the_rest():
    values = 100 + np.sin(TIME)
    values[:2] = 0.0
    axes = axes_of(values)
    low, high = axes.get_ylim()
    assert 97 < low < 99
    assert 101 < high < 103
    assert [text.get_text() for text in axes.texts] == ["2 outside"]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), values)


def test_decades_are_logarithmic_and_few_of_them_are_not():
    assert axes_of(np.exp(-TIME)).get_yscale() == "log"
    assert axes_of(np.exp(-TIME / 5)).get_yscale() == "linear"
    assert axes_of(np.exp(-TIME) - 1e-3).get_yscale() == "linear"
    nothing_at_first = np.exp(TIME)
    nothing_at_first[0] = 0.0
    assert axes_of(nothing_at_first).get_yscale() == "log"


def test_rounding_at_the_start_does_not_flatten_decades():
    values = np.exp(TIME)
    values[0], values[1] = 1e-34, 0.0
    axes = axes_of(values)
    low, high = axes.get_ylim()
    assert axes.get_yscale() == "log"
    assert 0.01 < low < values[2]
    assert values[-1] < high < 1e7
    assert [text.get_text() for text in axes.texts] == ["1 outside"]


@pytest.mark.parametrize("value", [0.0, 3.0, -2e5])
def test_rounding_is_a_flat_line(value):
    low, high = axes_of(value + 1e-13 * value * np.sin(TIME)).get_ylim()
    assert high - low == pytest.approx(0.2 * (abs(value) or 1.0))


def test_what_is_not_finite_is_left_out():
    values = np.sin(TIME)
    values[50:60] = np.nan, *[np.inf] * 9
    assert axes_of(values).get_ylim()[1] < 1.2
    axes_of(np.full(200, np.nan))


def test_short_series_show_everything():
    series = {"step": np.arange(3), "time": np.arange(3.0), "a": np.array([0.0, 100.0, 101.0])}
    (axes,) = plot_time_series(series).axes
    assert axes.get_ylim()[0] <= 0.0


def test_the_command_draws_a_few_all_or_those_named(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("ridgeline"), "propagate", True)
    path = tmp_path / "s.csv"
    path.write_text("step,time,a,b,c,d\n0,0.0,1,2,3,4\n1,1.0,2,3,4,5\n")
    with caplog.at_level("INFO", "ridgeline"):
        draw(str(path), output=str(tmp_path / "few.png"))
    assert "a, b, c, of 4 columns. --all draws all" in caplog.text
    draw(str(path), output=str(tmp_path / "every.png"), all=True)
    assert caplog.text.count("--all") == 1
    with Image.open(tmp_path / "few.png") as few, Image.open(tmp_path / "every.png") as every:
        assert few.size[0] < few.size[1] * 1.2 < every.size[0], "three in a column, all in rows"


FORCES = {
    "cyl_force_x": 2 + 0.1 * np.sin(TIME), "cyl_force_z": 1e-16 * np.sin(TIME), "cyl_pressure_force_x": 1 + TIME,
    "cyl_coefficient_x": 4 + 0.2 * np.sin(TIME), "cyl_coefficient_y": np.sin(TIME), "scalar_0_nusselt_x": 1 + TIME,
}  # fmt: skip


def test_coefficients_come_first_and_rounding_is_left_out_and_named(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("ridgeline"), "propagate", True)
    with caplog.at_level("INFO", "ridgeline"):
        drawn = [axes.get_title() for axes in plot_time_series(series_of(**FORCES)).axes]
        every = [
            axes.get_title() for axes in plot_time_series(series_of(**FORCES), every=True).axes if axes.axison
        ]
    assert drawn == ["cyl_coefficient_x", "cyl_coefficient_y", "scalar_0_nusselt_x"]
    assert every == [name for name in FORCES if name != "cyl_force_z"]
    assert "not drawn, because zero up to rounding: cyl_force_z. --variable draws them" in caplog.text
    assert plot_time_series(series_of(**FORCES), ["cyl_force_z"]).axes[0].get_title() == "cyl_force_z"


@pytest.mark.parametrize(
    ("columns", "word", "expected"),
    [
        (FORCES, "drag", ["cyl_coefficient_x"]),
        (FORCES, "lift", ["cyl_coefficient_y"]),
        (
            {"a_force_x": TIME, "b_force_x": TIME, "a_pressure_force_x": TIME},
            "drag",
            ["a_force_x", "b_force_x"],
        ),
        ({"drag": TIME, "a_force_x": TIME}, "drag", ["drag"]),
    ],
)
def test_drag_and_lift_are_forces_along_x_and_y(columns, word, expected):
    figure = plot_time_series(series_of(**columns), [word])
    assert [axes.get_title() for axes in figure.axes] == expected
    with pytest.raises(ConfigError, match=f"the time series has no column '{word}'.* Its columns are energy"):
        plot_time_series(series_of(energy=TIME), [word])


def test_all_of_many_columns_are_on_pages(tmp_path):
    many = series_of(**{f"c{n:02}": TIME for n in range(30)})
    shown = [axes.get_title() for axes in plot_time_series(many, every=True, page=3).axes if axes.axison]
    assert shown == [f"c{n}" for n in range(24, 30)]
    path = tmp_path / "s.csv"
    path.write_text("step,time," + ",".join(f"c{n}" for n in range(13)) + "\n0,0.0" + 13 * ",1" + "\n")
    assert draw(str(path), all=True, page=2) == [tmp_path / "s.csv_page2.png"]


def test_axes_have_the_words_and_units_of_the_run_that_wrote_it(tmp_path):
    (tmp_path / "other.bp.run.json").write_text("{}")
    report = {"model": "m", "run": {"time_name": "scale factor"}, "phases": {}, "written": [{"path": "runs/s.csv"}],
              "summary": {"energy": {"value": 1.0, "unit": "length^2/time^2"}}}  # fmt: skip
    (tmp_path / "s.bp.run.json").write_text(json.dumps(report))
    labels = labels_beside(tmp_path / "s.csv")
    figure = plot_time_series(series_of(energy=TIME, rate=TIME), labels=labels)
    assert [axes.get_ylabel() for axes in figure.axes] == ["length^2/time^2", ""]
    assert figure.axes[-1].get_xlabel() == "scale factor"
    assert labels_beside(tmp_path / "t.csv") == SeriesLabels("time", {})
