"""Pictures of statistics: profiles and planes at the places of their points."""

import numpy as np
import pytest
import xarray as xr

import ridgeline
from ridgeline.analysis.averages import has_averages, plot_averages
from ridgeline.analysis.command import draw
from ridgeline.runtime.errors import ConfigError

Z, Y = np.array([0.0, 0.1, 0.9, 1.0]), np.array([0.0, 0.5, 2.0])
PLANE = np.add.outer(Z, 10 * Y)


def statistics(dims=("z", "y"), mapped=False) -> xr.Dataset:
    """One output step of two averages over dims."""
    values = {("z", "y"): PLANE, ("y",): 10 * Y, ("point",): np.array([3.0])}[dims]
    coords = {"step": [40], "time": ("step", [0.5])}
    if mapped:
        dims = ("k", "j")
        places = {"z": np.add.outer(Z, 0 * Y), "y": np.add.outer(0.1 * Z, Y)}
        more = {name: (("step", *dims), place[None]) for name, place in places.items()}
    else:
        coords |= {name: (name, place) for name, place in (("z", Z), ("y", Y)) if name in dims}
        more = {}
    both = {"velocity_x": (("step", *dims), values[None]), "uu": (("step", *dims), values[None] ** 2)}
    return xr.Dataset(both | more | {"samples": (("step", "point"), [[5.0]])}, coords)


def test_profiles_are_lines_over_their_places():
    figure = plot_averages(statistics(("y",)))
    mean, moment = figure.axes
    np.testing.assert_array_equal(mean.lines[0].get_xydata(), np.stack([Y, 10 * Y], 1))
    assert (mean.get_title(), moment.get_title(), mean.get_xlabel()) == ("velocity_x", "uu", "y")
    assert figure.get_suptitle() == "step 40, t = 0.5"


@pytest.mark.parametrize("mapped", [False, True])
def test_planes_are_drawn_at_their_places(mapped):
    figure = plot_averages(statistics(mapped=mapped), ["velocity_x"])
    axes, bar = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("y", "z")
    (mesh,) = axes.collections
    places = mesh.get_coordinates()
    y = np.add.outer(0.1 * Z, Y) if mapped else np.add.outer(0 * Z, Y)
    np.testing.assert_allclose(places[..., 0], y)
    np.testing.assert_allclose(places[..., 1], np.add.outer(Z, 0 * Y))
    np.testing.assert_array_equal(mesh.get_array().reshape(PLANE.shape), PLANE)
    assert bar is not axes


def test_impossible_wishes():
    with pytest.raises(ConfigError, match="'vv' is not in the statistics, which have velocity_x, uu"):
        plot_averages(statistics(), ["vv"])
    with pytest.raises(ConfigError, match=r"the axes point, .* output\.homogeneous"):
        plot_averages(statistics(("point",)))


def test_the_command_knows_statistics(tmp_path, monkeypatch):
    assert has_averages(statistics())
    monkeypatch.setattr(ridgeline, "open", lambda name: statistics())
    assert draw(str(tmp_path / "s.bp")) == [tmp_path / "s.png"]
    with pytest.raises(ConfigError, match="no probability density"):
        draw(str(tmp_path / "s.bp"), pdf=True)
    in_space = xr.Dataset(
        {name: (("step", "z", "y", "x"), np.ones((1, 2, 3, 4))) for name in ("velocity_x", "uu")}
    )
    assert not has_averages(in_space), "averages over no direction are fields"


def test_planes_of_both_signs_are_white_at_zero_each_on_its_own_scale():
    data = statistics()
    data["velocity_y"] = 0.01 * (data["velocity_x"] - 5.0)
    mean, small = (
        plot_averages(data, [name]).axes[0].collections[0] for name in ("velocity_x", "velocity_y")
    )
    assert mean.get_clim() == (0.0, PLANE.max())
    assert small.get_clim() == pytest.approx((-0.16, 0.16))
    assert (mean.get_cmap().name, small.get_cmap().name) == ("viridis", "RdBu_r")
