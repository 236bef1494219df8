"""Views in space: what is refused everywhere, and the pictures where PyVista is installed and VTK can render."""

import signal
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from ridgeline.analysis import views
from ridgeline.analysis.colour_scales import ColourScale
from ridgeline.analysis.plot_command import draw
from ridgeline.runtime import extras
from ridgeline.runtime.errors import ConfigError, DeviceError

N = 24


@pytest.fixture
def ball() -> xr.Dataset:
    """A field that falls off from 1 in the middle of a box, and one that no value crosses."""
    x = (np.arange(N) + 0.5) / N - 0.5
    radius = np.sqrt(x**2 + x[:, None] ** 2 + x[:, None, None] ** 2)
    fields = {"rho": np.exp(-8 * radius**2), "flat": np.ones((N, N, N)), "tilt": x + 0 * radius}
    columns = {name: (("step", "z", "y", "x"), values[None]) for name, values in fields.items()}
    return xr.Dataset(columns, {"step": [3], "time": ("step", [1.5]), "z": x, "y": x, "x": x})


@pytest.fixture
def with_pyvista(monkeypatch):
    """Act as if PyVista were there; nothing is rendered."""
    monkeypatch.setattr(extras, "find_spec", lambda name: object())


@pytest.mark.usefixtures("with_pyvista")
@pytest.mark.parametrize(
    ("wish", "words"),
    [("rho", "Write FIELD=VALUE, such as V=0.2"), ("rho=much", "is not a surface"), ("rh=0.5", "Did you mean 'rho'"),
     ("rho=7", r"rho is between 0.00.* and 0.9.* there\. Use a value in between"), ("flat=1", "is between 1 and 1")],
)  # fmt: skip
def test_impossible_surfaces(ball, wish, words):
    with pytest.raises(ConfigError, match=words):
        views.plot_isosurface(ball, wish)


@pytest.mark.usefixtures("with_pyvista")
def test_a_second_field_colours_the_surface(ball, monkeypatch):
    drawn = []
    monkeypatch.setattr(views, "_figure", lambda scene, words: drawn.append((scene, words)))
    views.plot_isosurface(ball, "rho=0.5", 3, "flat")
    ((scene, words),) = drawn
    assert words == "rho = 0.5 coloured by flat, step 3, t = 1.5"
    name, values = scene.colour
    assert name == "flat"
    np.testing.assert_array_equal(values, 1.0)
    assert scene.values.max() < 1.0
    with pytest.raises(ConfigError, match=r"the data set has no field 'flit'\. Did you mean 'flat'"):
        views.plot_isosurface(ball, "rho=0.5", 3, "flit")


def test_a_colour_needs_a_surface(ball, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: ball)
    with pytest.raises(ConfigError, match="--colour requires --isosurface"):
        draw(str(tmp_path / "r.bp"), colour="rho")


@pytest.mark.usefixtures("with_pyvista")
def test_planes_have_no_depth(ball):
    with pytest.raises(ConfigError, match="requires three directions, which rho does not have"):
        views.plot_volume(ball.isel(z=[2]), "rho")


def test_without_pyvista_one_sentence_says_how_to_get_it(ball, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: ball)
    for wish in ({"isosurface": "rho=0.5"}, {"volume": "rho"}):
        with pytest.raises(ConfigError, match=r"pip install pyvista, or draw a plane") as error:
            draw(str(tmp_path / "r.bp"), **wish)
        assert "\n" not in str(error.value)


@pytest.mark.usefixtures("with_pyvista")
def test_a_crash_of_the_renderer_is_one_sentence(ball, monkeypatch):
    """VTK does not raise where it finds no library to render with."""
    monkeypatch.setattr(views, "_scene", lambda *_: (ball.rho[0], int(signal.SIGABRT)))
    monkeypatch.setattr(views, "render", signal.raise_signal)
    with pytest.raises(DeviceError, match=r"cannot render without a display here .* --slice"):
        views.plot_volume(ball, "rho")


def test_large_fields_are_thinned_and_places_are_kept(ball, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    monkeypatch.setattr(views, "MOST", 9)
    _, scene = views._scene(ball, "rho", -1, None)
    assert scene.values.shape == (8, 8, 8)
    assert scene.spacing == pytest.approx((3 / N,) * 3)
    assert scene.origin == pytest.approx((0.5 / N - 0.5,) * 3)


@pytest.mark.parametrize(
    ("places", "ends"),
    [
        ((np.arange(N) + 0.5) / N - 0.5, (-0.5, 0.5)),
        (np.arange(N) / N, (0.0, 1.0)),
        (1e-12 + np.arange(N) + 0.5, (0.0, N)),
    ],
)
@pytest.mark.usefixtures("with_pyvista")
def test_the_box_is_that_of_the_domain_also_of_a_thinned_field(ball, places, ends, monkeypatch):
    """Places are middles of cells, or the points of a periodic box."""
    monkeypatch.setattr(views, "MOST", 7)
    _, scene = views._scene(ball.assign_coords(z=places, y=places, x=places), "rho", -1, None)
    np.testing.assert_allclose(scene.box, (ends,) * 3, atol=1e-15)
    assert abs(scene.box[0][0]) in (0.0, 0.5), "no rounding of zero"


@pytest.mark.parametrize("name", ["vorticity_magnitude_of_all", "rho"])
def test_the_colour_bar_is_whole(ball, name, monkeypatch):
    """It is Matplotlib's, which makes room for it."""
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    shade = ColourScale("viridis", (0.000118, 17.3))
    image = np.zeros((130, 150, 3), np.uint8)
    monkeypatch.setattr(views, "_rendered", lambda scene: (image, shade))
    figure = views.plot_volume(ball.rename({"rho": name}), name)
    bar = figure.axes[1]
    assert (bar.get_ylabel(), bar.get_ylim()) == (name, shade.limits)
    assert figure.axes[0].get_window_extent().x1 < bar.get_window_extent().x0
    figure.draw_without_rendering()
    box = bar.get_tightbbox()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert 0 <= box.y0 < box.y1 <= figure.bbox.height


@pytest.mark.full  # starts Python and VTK
@pytest.mark.skipif(find_spec("pyvista") is None, reason="the extra `viz` (PyVista) is not installed")
@pytest.mark.parametrize(
    "wish", [{"isosurface": "rho=0.5"}, {"isosurface": "rho=0.5", "colour": "tilt"}, {"volume": "rho"}]
)
def test_views_are_drawn_or_the_reason_is_given(ball, tmp_path, monkeypatch, wish):
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: ball)
    try:
        (path,) = draw(str(tmp_path / "r.bp"), **wish)
    except DeviceError as error:
        pytest.skip(str(error))
    assert path == tmp_path / f"r_{next(iter(wish))}.png"
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    middle = pixels[pixels.shape[0] // 2, pixels.shape[1] // 2]
    assert np.ptp(middle) > 20, "the ball is in the middle, and coloured"
    if "colour" in wish:
        ball_pixels = pixels[
            pixels.shape[0] // 4 : -pixels.shape[0] // 4, pixels.shape[1] // 4 : -pixels.shape[1] // 4
        ]
        red, blue = ball_pixels[..., 0].astype(int), ball_pixels[..., 2].astype(int)
        assert (red > blue + 60).any(), "one side has the one sign"
        assert (blue > red + 60).any(), "the other side has the other"
