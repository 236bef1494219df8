"""Pictures into axes of one's own: the same curves and images as in figures of ours."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import ridgeline

STEPS = {"step": [0, 10], "time": ("step", [0.0, 1.0])}


def fields():
    values = np.random.default_rng(1).random((2, 3, 5, 7))
    coords = {**STEPS, "z": range(3), "y": range(5), "x": range(7)}
    return xr.Dataset(
        {"U": (("step", "z", "y", "x"), values), "V": (("step", "z", "y", "x"), 2 * values)}, coords
    )


def test_planes_are_those_of_the_data_set_in_a_new_figure_and_in_given_axes():
    data = fields()
    alone = ridgeline.plot.slice(data, ["U", "V"], plane="y=2", step=10)
    axes = Figure().subplots(1, 2)
    assert ridgeline.plot.slice(data, "V", plane="y=2", step=10, ax=axes[1]) is axes[0].figure
    for panel in (alone.axes[1], axes[1]):
        np.testing.assert_array_equal(panel.images[0].get_array(), data.V.sel(step=10, y=2).values)
    assert not axes[0].images


def test_spectra_and_series_go_into_given_axes():
    k = np.arange(1.0, 9.0)
    spectra = xr.Dataset({"energy_spectrum": (("step", "k"), np.exp([-k, -k / 2]))}, {**STEPS, "k": k})
    left, right = Figure().subplots(1, 2)
    ridgeline.plot.spectrum(spectra, ax=left)
    ridgeline.plot.spectrum(spectra, step=0, compensated=True, ax=right)
    np.testing.assert_allclose(left.lines[1].get_ydata(), np.exp(-k / 2))
    np.testing.assert_allclose(right.lines[1].get_ydata(), k ** (5 / 3) * np.exp(-k))
    table = {"step": np.arange(3), "time": np.arange(3.0), "energy": np.array([3.0, 2.0, 1.0])}
    axes = Figure().subplots()
    ridgeline.plot.series(table, "energy", ax=axes)
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[0.0, 3.0], [1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize(
    ("words", "draw"),
    [
        ("2 fields do not fit", lambda axes: ridgeline.plot.slice(fields(), ["U", "V"], ax=axes)),
        ("no variable 'W'|'W'", lambda axes: ridgeline.plot.slice(fields(), "W", ax=axes)),
        ("0 columns do not fit", lambda axes: ridgeline.plot.series({"time": np.arange(2.0)}, ax=axes)),
        (
            "no column 'b'",
            lambda axes: ridgeline.plot.series({"time": np.ones(2), "a": np.ones(2)}, "b", ax=axes),
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(words, draw):
    with pytest.raises(ridgeline.RidgelineError, match=words):
        draw(Figure().subplots())
