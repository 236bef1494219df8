"""Separation and reattachment of analytic shear, and pictures of sides."""

import numpy as np
import pytest
import xarray as xr

from ridgeline.analysis.plot_command import kind_of
from ridgeline.analysis.separation import shear_zeros
from ridgeline.analysis.side_plots import plot_side
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.runtime.errors import ConfigError

POINTS = np.unique(np.concatenate([e + (1 + gauss_lobatto(8)[0]) / 2 for e in range(10)]).round(12))


def on_line(values, x, y=None, curve=0.0, arc=None):
    arc = x if arc is None else arc
    y = np.zeros(len(x)) if y is None else y
    coords = {
        name: ("arc_length", np.broadcast_to(place, len(x)))
        for name, place in (("x", x), ("y", y), ("z", 0.5), ("curve", curve))
    }
    return xr.DataArray(values, {"arc_length": arc, **coords}, ("arc_length",))


def test_zeros_of_a_shear_that_is_known():
    """tau = cos(x) - 0.3 on [0, 10]: zeros at arccos(0.3) and its images, which fall and rise in turn."""
    first = np.arccos(0.3)
    expected = [first, 2 * np.pi - first, 2 * np.pi + first]
    found = shear_zeros(on_line(np.cos(POINTS) - 0.3, POINTS))
    assert [zero.kind for zero in found] == ["separation", "reattachment", "separation"]
    np.testing.assert_allclose([zero.x for zero in found], expected, atol=2e-5)
    assert all(zero.z == 0.5 for zero in found)
    against = shear_zeros(on_line(-(np.cos(POINTS) - 0.3), POINTS))
    assert [zero.kind for zero in against] == ["reattachment", "separation", "reattachment"]


def test_the_lower_half_of_a_circle_runs_against_the_flow():
    """tau_x = cos(angle from the top) + 0.5 on both halves: each separates at 120 degrees from the top."""
    angle = np.linspace(
        -np.pi / 2, 3 * np.pi / 2, 721
    )  # from the front over the top, the rear and the bottom
    x, y = np.sin(angle), np.cos(angle)
    shear = np.where(y > 0, 1.0, -1.0) * 0 + 0.4 - x
    found = shear_zeros(on_line(shear, x, y, arc=angle))
    assert [zero.kind for zero in found] == ["separation", "separation"]
    np.testing.assert_allclose([zero.x for zero in found], 0.4, atol=1e-6)
    assert found[0].y > 0 > found[1].y


def test_curves_are_separate_and_faces_across_the_flow_have_no_zeros():
    x = np.concatenate([np.linspace(0, 1, 11), np.linspace(0, 1, 11)])
    shear = np.concatenate([np.full(11, -1.0), np.full(11, 1.0)])  # the jump between two curves is no zero
    curve = np.repeat([0.0, 1.0], 11)
    assert shear_zeros(on_line(shear, x, curve=curve, arc=np.arange(22.0))) == []
    step = np.where(np.abs(x[:11] - 0.5) < 0.16, 1e-17, np.sign(x[:11] - 0.5))
    assert shear_zeros(on_line(step, x[:11])) == []
    exact = x[:11] - 0.5  # a point is a zero itself
    (zero,) = shear_zeros(on_line(exact, x[:11]))
    assert (zero.kind, zero.x) == ("reattachment", 0.5)
    with pytest.raises(ConfigError, match=r"the dimensions step, arc_length, but it must have"):
        shear_zeros(on_line(exact, x[:11]).expand_dims(step=2))


def dataset(values, dims, coords):
    names = ("wall_shear_x", "wall_shear_y", "pressure")
    fields = {
        name: (("step", *dims), np.stack([0 * values, scale * values]))
        for name, scale in zip(names, (1, 1e-14, 2))
    }
    times = {"step": [0, 5], "time": ("step", [0.0, 0.5])}
    return xr.Dataset(fields, times | {k: (dims, v) for k, v in coords.items()}, {"part.side": "floor"})  # fmt: skip


def test_pictures_of_a_curve():
    x = POINTS
    data = dataset(
        np.cos(x) - 0.3, ("arc_length",), {"arc_length": x, "x": x, "y": 0 * x, "z": 0 * x, "curve": 0 * x}
    )
    kind = kind_of(data)
    assert kind.description == "a data set of a side of the domain"
    figure = plot_side(data)
    shear, _ = figure.axes  # wall_shear_y is rounding
    assert [axes.get_ylabel() for axes in figure.axes] == ["wall_shear_x", "pressure"]
    assert shear.get_xlabel() == "x"
    np.testing.assert_array_equal(shear.lines[0].get_ydata(), data.wall_shear_x[-1])
    assert [text.get_text() for text in shear.get_legend().get_texts()] == ["separation", "reattachment"]
    assert figure.get_suptitle() == "floor, step 5, t = 0.5"
    circle = data.assign_coords(x=("arc_length", np.cos(x)), y=("arc_length", np.sin(x)))
    assert plot_side(circle, ["pressure"]).axes[0].get_xlabel() == "arc_length"
    with pytest.raises(ConfigError, match=r"the part has no 'presure'\. Did you mean 'pressure'"):
        plot_side(data, ["presure"])


@pytest.mark.parametrize("bent", [False, True])
def test_maps_of_a_side(bent):
    s, r = np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 4), indexing="ij")
    x, z = np.stack([r, r + 1]), np.stack([s, s])
    y = x * x if bent else 0 * x
    data = dataset(x + z, ("face", "s", "r"), {"x": x, "y": y, "z": z, "area": 0 * x + 1})
    figure = plot_side(data, step=5)
    maps = figure.axes[::2]
    assert len(figure.axes) == 4  # with the bars of colours
    assert len(maps[0].collections[0].get_facecolor()) == 2 * 9
    assert [axes.get_xlabel() for axes in maps] == ["x", "x"]
    assert maps[0].get_ylabel() == ("y" if bent else "z")
