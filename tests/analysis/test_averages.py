"""Pictures of statistics: profiles and planes at the places of their points."""

import logging

import numpy as np
import pytest
import xarray as xr

from ridgeline.analysis.averages import (
    WindowChoice,
    has_averages,
    plot_averages,
    plot_budget,
    plot_convergence,
    plot_wall_units,
)
from ridgeline.analysis.budgets import REQUIRED
from ridgeline.analysis.colour_scales import colour_map
from ridgeline.analysis.plot_command import draw
from ridgeline.analysis.windows import add_windows, running_windows
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


def in_height() -> xr.Dataset:
    """Two windows of profiles over z, as the wind model writes them."""
    z, lengths = np.array([5.0, 15.0]), [1.0, 3.0]
    means = {
        "u": [[1.0, 2.0], [5.0, 6.0]],
        "uu": [[4.0, 4.0], [8.0, 0.0]],
        "subgrid_uw": [[0.0, 1.0], [0.0, 1.0]],
    }
    values = {name: (("step", "z"), np.array(each)) for name, each in means.items()}
    values |= {name: (("step", "point"), np.array([lengths]).T) for name in ("averaging_time", "samples")}
    return xr.Dataset(values, {"step": [10, 40], "time": ("step", [1.0, 4.0]), "z": z})


def test_profiles_in_height_are_drawn_upright_with_plain_means_of_moments():
    data = in_height()
    # Not 12, as if the means of the windows differed by turbulence.
    assert add_windows(data).uu.values.tolist() == [7.0, 1.0]
    figure = plot_averages(data)
    assert [axes.get_title() for axes in figure.axes] == ["u", "uu", "subgrid_uw"]
    mean = figure.axes[0]
    assert (mean.get_ylabel(), mean.get_xlabel()) == ("z", "")
    np.testing.assert_array_equal(mean.lines[0].get_xydata(), [[4.0, 5.0], [5.0, 15.0]])
    with pytest.raises(ConfigError, match="profiles in height over a rough ground"):
        plot_wall_units(data)


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
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: statistics())
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
    [(statistics(), "wall units require profiles along one direction, .* depend on z, y"),
     (channel().isel(y=slice(5, 15)), "wall units require a wall, but velocity_x is not zero")],
)  # fmt: skip
def test_wall_units_without_a_wall_are_refused(data, words):
    with pytest.raises(ConfigError, match=words):
        plot_wall_units(data)


def windows(n=6, dims=("y",)) -> xr.Dataset:
    """Windows of a channel whose means and moments are random about those of `channel`."""
    one, random = channel(uv=0.01, velocity_y=0.1), np.random.default_rng(2)
    steps, coords = 10 * np.arange(1, n + 1), {"y": one.y}
    shape = {("y",): (n, 1), ("z", "y"): (n, 3, 1), ("point",): (n, 1)}[dims]
    arrays = {
        name: (("step", *dims), one[name].values[0] * (1 + 0.1 * random.normal(size=shape)))
        for name in ("velocity_x", "velocity_y", "uu", "uv")
    }
    if dims == ("z", "y"):
        coords["z"] = np.arange(3.0)
    arrays |= {name: (("step", "point"), np.ones((n, 1))) for name in ("averaging_time", "samples")}
    return xr.Dataset(arrays, coords | {"step": steps, "time": ("step", 1.0 * steps)}, one.attrs)


def band(axes):
    """Heights of the lower and the upper edge of a band, along the axis."""
    (patch,) = axes.collections
    points = patch.get_paths()[0].vertices[1:-1]
    n = len(points) // 2
    return points[:n, 1], points[n:, 1][::-1]


def test_windows_are_added_up_with_bands_of_a_standard_error():
    data = windows()
    total = add_windows(data)
    figure = plot_averages(data, ["velocity_x", "uu"])
    for axes, name in zip(figure.axes, ("velocity_x", "uu")):
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), total[name])
        for edge, sign in zip(band(axes), (-1, 1)):
            np.testing.assert_allclose(
                np.unique(edge), np.unique(total[name] + sign * total[f"{name}_error"])
            )
    assert figure.get_suptitle() == "step 60, t = 60, mean over 6 in 6 windows"
    early = plot_averages(data, ["uu"], WindowChoice(average=":30", merge=2)).axes[0]
    np.testing.assert_array_equal(early.lines[0].get_ydata(), add_windows(data, end=30.0).uu)
    (one,) = plot_averages(data, ["uu"], WindowChoice(step=20)).axes
    np.testing.assert_array_equal(one.lines[0].get_ydata(), data.uu.isel(step=1))
    assert not one.collections
    plane = plot_averages(windows(dims=("z", "y")), ["uu"]).axes[0]
    assert plane.get_title().startswith("uu, error at most 0.")


def test_running_convergence_is_drawn_with_its_errors():
    data = windows()
    (axes,) = plot_convergence(data, "uu", "y=0.0").axes
    running = running_windows(data, "uu", "y=0.0")
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), np.stack([running.time, running.uu], 1))
    assert axes.get_title() == f"uu at y = 0: {float(running.uu[-1]):.6g} ± {float(running.uu_error[-1]):.2g}"
    low, high = band(axes)
    assert (high[-1] - low[-1]) / 2 == pytest.approx(float(running.uu_error[-1]))
    assert "±" not in plot_convergence(data.isel(step=[0]), "velocity_x").axes[0].get_title()
    in_plane = plot_convergence(windows(dims=("z", "y")), "velocity_x").axes[0].get_title()
    assert in_plane.startswith("velocity_x at y = 0, z = ")


@pytest.mark.parametrize("dims", [("y",), ("z", "y")])
def test_budgets_are_drawn_with_their_sum(dims):
    y, z = np.linspace(-1, 1, 11), np.linspace(0, 1, 6)
    places = {"y": y, "z": z}
    shape = tuple(len(places[dim]) for dim in dims)
    random = np.random.default_rng(4)
    arrays = {name: (("step", *dims), random.normal(size=(1, *shape))) for name in REQUIRED}
    coords = {"step": [5], "time": ("step", [0.5])} | {dim: places[dim] for dim in dims}
    data = xr.Dataset(arrays, coords, {"grid.order": 5, "model.viscosity": 0.1})
    figure = plot_budget(data, "uv")
    assert figure.get_suptitle() == "budget of uv, step 5, t = 0.5"
    if dims == ("y",):
        *terms, residual = figure.axes[0].lines
        assert len(terms) == 7
        assert residual.get_label() == "residual"
        np.testing.assert_allclose(sum(line.get_ydata() for line in terms), residual.get_ydata(), atol=1e-12)
    else:
        titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
        assert (len(titles), titles[0], titles[-1]) == (8, "production", "residual")


def test_options_of_windows(tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: windows())
    path = str(tmp_path / "s.bp")
    assert draw(path, convergence="uu", slice="y=mid", merge=2) == [tmp_path / "s_convergence.png"]
    assert draw(path, average="20:40", merge=2) == [tmp_path / "s.png"]
    for options, words in (
        ({"slice": "y=mid"}, "--slice requires --convergence for files of this kind"),
        ({"step": 20, "average": "20:40"}, "--step of statistics cannot be used with --average"),
        ({"step": 20, "merge": 2}, "--merge cannot be used with --step"),
        ({"budget": "k"}, r"the statistics have no velocity_z, which budgets need"),
        ({"budget": "k", "convergence": "uu"}, "--convergence cannot be used with --budget"),
        ({"convergence": "nusselt"}, "the windows have no 'nusselt'"),
        ({"convergence": "uu", "slice": "q=0"}, "slice 'q=0' is not a plane"),
        ({"average": "70:"}, "the average 70: contains no output"),
    ):
        with pytest.raises(ConfigError, match=words):
            draw(path, **options)
