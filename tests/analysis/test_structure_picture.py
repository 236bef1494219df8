"""The picture of cosmic structure: what it draws, and what it says where something is missing."""

import numpy as np
import pytest
import xarray as xr

from ridgeline.analysis.spectra import has_structure, plot_structure
from ridgeline.runtime.errors import ConfigError


def data(halos=True):
    k, pixels = np.array([0.1, 0.2, 0.4]), np.arange(4) * 2.5
    fields = {
        "matter_power": (("step", "k"), np.array([[3.0, 2.0, -1.0], [30.0, 20.0, 1.0]])),
        "linear_power": (("step", "k"), np.array([[3.0, 2.0, 1.0], [29.0, 19.0, 1.0]])),
        "shot_noise": (("step", "k"), np.ones((2, 3))),
        "surface_density": (("step", "y", "x"), np.arange(32.0).reshape(2, 4, 4)),
    }
    if halos:
        fields["halo_density"] = (("step", "halo_mass"), np.array([[0.0, 0.0], [1e-3, 0.0]]))
    axes = {"step": [0, 8], "time": ("step", [0.02, 0.5]), "k": k, "y": pixels, "x": pixels}
    return xr.Dataset(fields, axes | ({"halo_mass": [1e12, 1e13]} if halos else {}))


def test_the_last_step_is_drawn_with_all_that_is_there() -> None:
    dataset = data()
    assert has_structure(dataset)
    figure = plot_structure(dataset)
    density, power, halos = (axes for axes in figure.axes if axes.get_label() != "<colorbar>")
    assert figure.get_suptitle() == "redshift 1, step 8"
    assert density.images[0].get_extent() == [0, 10, 0, 10]
    assert density.images[0].get_array().min() == 16
    np.testing.assert_array_equal(power.lines[0].get_ydata(), [30, 20, 1])
    np.testing.assert_array_equal(halos.lines[0].get_xdata(), [1e12])


def test_what_has_no_logarithm_and_no_halos_is_left_out() -> None:
    figure = plot_structure(data(halos=False), step=0)
    density, power = (axes for axes in figure.axes if axes.get_label() != "<colorbar>")
    np.testing.assert_array_equal(power.lines[0].get_ydata(), [3, 2])
    assert density.images[0].get_array().min() == 0.1, "empty pixels have the darkest colour"
    with pytest.raises(ConfigError, match="step"):
        plot_structure(data(), step=3)
    assert not has_structure(xr.Dataset())


def test_what_is_empty_is_said() -> None:
    dataset = data()
    dataset["matter_power"] = -dataset["matter_power"].where(dataset["matter_power"] > 0, 1.0)
    figure = plot_structure(dataset, step=0)
    _, power, halos = (axes for axes in figure.axes if axes.get_label() != "<colorbar>")
    assert power.lines[0].get_label() == "measured (nowhere positive, so not drawn)"
    assert [text.get_text() for text in halos.texts] == ["no halos"]
    assert not halos.lines
    assert not [*halos.get_xticks(), *halos.get_yticks()]
