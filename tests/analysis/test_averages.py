"""Pictures of statistics: profiles and planes at the places of their points."""

import logging

import numpy as np
import pytest
import xarray as xr

import ridgeline
from ridgeline.analysis.averages import has_averages, plot_averages, plot_wall_units
from ridgeline.analysis.colour_scales import colour_map
from ridgeline.analysis.plot_command import draw
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
    with pytest.raises(ConfigError, match=r"the statistics have no 'vv'.* They have velocity_x, uu"):
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


def test_planes_have_scales_of_their_own_and_components_are_white_at_zero():
    data = statistics()
    data["velocity_y"] = 0.01 * (data["velocity_x"] - 5.0)
    mean, small, moment = (
        plot_averages(data, [name]).axes[0].collections[0] for name in ("velocity_x", "velocity_y", "uu")
    )
    assert mean.get_clim() == (-PLANE.max(), PLANE.max())
    assert small.get_clim() == pytest.approx((-0.16, 0.16))
    assert moment.get_clim() == (0.0, PLANE.max() ** 2)
    assert [mesh.get_cmap().name for mesh in (mean, small)] == ["RdBu_r", "RdBu_r"]
    assert moment.get_cmap().name == colour_map("uu")


def channel(**sizes) -> xr.Dataset:
    """Profiles between two walls of a flow with u_tau = 0.5 and nu = 0.01; other names have a size each."""
    y = np.linspace(-1.0, 1.0, 21)
    values = {"velocity_x": 12.5 * (1 - y**2), "uu": 0.25 * (1 - y**2)}
    values |= {name: np.full(21, size) for name, size in sizes.items()}
    return xr.Dataset(
        {name: (("step", "y"), value[None]) for name, value in values.items()},
        {"step": [40], "time": ("step", [0.5]), "y": ("y", y, {"units": "m"})},
        {"model.viscosity": 0.01, "grid.order": 5},
    )


def test_rounding_is_not_drawn_as_physics_and_a_note_names_it(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("ridgeline"), "propagate", True)
    data = channel(
        velocity_y=1e-13,
        uv=1e-4,
        uw=1e-12,
        vv=1.0,
        dissipation_xx=2.0,
        dissipation_xy=1e-14,
        pressure=0.0,
        up=1e-9,
    )
    with caplog.at_level("INFO", "ridgeline"):
        figure = plot_averages(data)
    shown = {axes.get_title() for axes in figure.axes if axes.axison}
    assert shown == {"velocity_x", "uu", "uv", "vv", "dissipation_xx", "up"}
    assert "zero up to rounding: velocity_y, uw, dissipation_xy, pressure" in caplog.text
    assert plot_averages(data, ["uw"]).axes[0].get_title() == "uw", "what is named is drawn"
    assert figure.axes[0].get_xlabel() == "y in m"


def test_many_panels_are_on_pages_means_and_stresses_first():
    more = [f"more_{n:02}" for n in range(20)]
    data = channel(**dict.fromkeys(["pressure", "uv", "vv", "ww", *more], 1.0))
    first, third = (
        [axes.get_title() for axes in plot_averages(data, page=page).axes if axes.axison] for page in (1, 3)
    )
    assert (len(first), first[:5]) == (12, ["velocity_x", "uu", "uv", "vv", "ww"])
    assert third == ["more_18", "more_19"]
    with pytest.raises(ConfigError, match="--page 4: the picture has only 3 pages with 26 panels"):
        plot_averages(data, page=4)


def test_wall_units_of_both_walls():
    """U = 12.5 (1 - y^2) has the slope 25 at the walls, so u_tau = sqrt(0.01 x 25) = 0.5."""
    mean, stresses = plot_wall_units(channel(uv=0.01)).axes
    lower, upper, *laws = mean.lines
    for line, end in ((lower, "min"), (upper, "max")):
        assert line.get_label() == f"y_{end}, u_tau = 0.5"
        x, u = line.get_xydata().T
        assert x[0] == pytest.approx(0.1 * 0.5 / 0.01)
        assert (x[-1], u[-1]) == pytest.approx((50.0, 25.0)), "the middle"
    assert [line.get_label() for line in laws] == ["y+", "ln(y+) / 0.41 + 5.2"]
    assert mean.get_xscale() == "log"
    assert [line.get_ydata()[-1] for line in stresses.lines] == pytest.approx([1.0, 0.04] * 2)


@pytest.mark.parametrize(
    ("data", "words"),
    [(statistics(), "requires profiles along one direction, .* depend on z, y"),
     (channel().isel(y=slice(5, 15)), "requires a wall, but velocity_x is not zero")],
)  # fmt: skip
def test_wall_units_without_a_wall_are_refused(data, words):
    with pytest.raises(ConfigError, match=words):
        plot_wall_units(data)
