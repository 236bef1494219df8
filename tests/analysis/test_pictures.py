"""Plots and movies: what is drawn, written and refused, without a display."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from matplotlib import colormaps
from PIL import Image

from ridgeline.analysis import movie, plot
from ridgeline.analysis.colour_scales import colour_map
from ridgeline.analysis.series import compute_series
from ridgeline.runtime.errors import ConfigError, DivergedError, OutputError


def panels(figure):
    """Return the axes of the fields, without those of the colour bars."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def test_slices_show_the_planes_with_equal_aspect(recorded, values):
    figure = plot.plot_slices(recorded.dataset, slice_spec="y=1", step=20)
    u, v = panels(figure)
    for axes, array, name in ((u, values[0], "U"), (v, values[1], "V")):
        np.testing.assert_array_equal(axes.images[0].get_array(), array[2, :, 1, :])
        assert axes.images[0].origin == "lower"
        assert axes.get_aspect() == 1.0
        assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == (name, "x", "z")
    assert figure.get_suptitle() == "step 20, t = 40, y = 1"
    assert len(figure.axes) == 4
    assert u.images[0].get_cmap().name != v.images[0].get_cmap().name
    assert sum(recorded.reads) == 2 * 6 * 7 * 8, "only the two planes may be read"


def test_slices_of_one_variable_keep_its_colours(dataset):
    both, alone = plot.plot_slices(dataset), plot.plot_slices(dataset, ["V"])
    assert len(panels(alone)) == 1
    assert panels(alone)[0].images[0].get_cmap() == panels(both)[1].images[0].get_cmap()


def test_pdf_shows_slice_and_volume(dataset, values):
    figure = plot.plot_pdf(dataset, ["U", "V"], "z=0", step=-1, bins=12)
    u, v = panels(figure)
    for axes, array in ((u, values[0]), (v, values[1])):
        of_slice, of_volume = (patch.get_data() for patch in axes.patches)
        edges = np.linspace(array[3].min(), array[3].max(), 13)
        np.testing.assert_allclose(of_slice.edges, edges)
        np.testing.assert_allclose(of_slice.values, np.histogram(array[3, 0], edges, density=True)[0])
        np.testing.assert_allclose(of_volume.values, np.histogram(array[3], edges, density=True)[0])
        assert axes.get_yscale() == "log"


def test_series_shows_all_statistics(dataset):
    series = compute_series(dataset)
    figure = plot.plot_series(series)
    for axes, name in zip(panels(figure), "UV"):
        lines = {line.get_label(): line for line in axes.lines}
        for statistic in ("min", "max", "mean"):
            np.testing.assert_array_equal(lines[statistic].get_ydata(), series[name].sel(statistic=statistic))
            np.testing.assert_array_equal(lines[statistic].get_xdata(), dataset.time)


def box(n_y, n_x, spacing=0.5, **fields):
    """One output step of fields on a grid of one plane, in lengths."""
    coords = {"step": [7], "time": ("step", [3.5]), "z": [0.25]}
    coords |= {"y": (np.arange(n_y) + 0.5) * spacing, "x": (np.arange(n_x) + 0.5) * spacing}
    return xr.Dataset(
        {
            name: (("step", "z", "y", "x"), values[None, None], {"units": "m/s"})
            for name, values in fields.items()
        },
        coords,
    )


def test_places_are_lengths_and_vectors_have_one_scale_about_zero():
    wave = np.sin(np.linspace(0, 6, 24)).reshape(4, 6)
    data = box(4, 6, velocity_x=3 * wave, velocity_y=wave, velocity_z=1e-15 * wave, heat=2 + wave)
    data = data.assign_coords(x=("x", data.x.values, {"units": "m"}))
    figure = plot.plot_slices(data)
    x, y, z, heat = panels(figure)
    for axes in (x, y, z, heat):
        assert tuple(axes.images[0].get_extent()) == (0.0, 3.0, 0.0, 2.0)
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("x in m", "y")
    most = 3 * np.abs(wave).max()
    for axes in (x, y, z):
        assert axes.images[0].get_cmap().name == "RdBu_r"
        assert axes.images[0].get_clim() == (-most, most)
    assert heat.images[0].get_cmap().name == colour_map("heat")
    assert heat.images[0].get_clim() == ((2 + wave).min(), (2 + wave).max())
    assert [axes.get_title() for axes in (y, z)] == ["velocity_y", "velocity_z: zero up to rounding"]
    assert [axes.get_ylabel() for axes in figure.axes if axes.get_label() == "<colorbar>"] == ["m/s"] * 4


def test_a_secondary_flow_is_seen_beside_the_mean_one_and_one_map_is_for_all_components():
    wave = np.sin(np.linspace(0, 6, 24)).reshape(4, 6)
    data = box(4, 6, velocity_x=2 + wave, velocity_y=0.02 * wave, velocity_z=0 * wave)
    x, y, z = panels(plot.plot_slices(data))
    size = 0.02 * np.abs(wave).max()
    assert y.images[0].get_clim() == pytest.approx((-size, size))
    assert y.get_title() == f"velocity_y: limits are 1/{(2 + wave).max() / size:.2g} of the shared ones"
    assert z.get_title() == "velocity_z: zero"
    assert {axes.images[0].get_cmap().name for axes in (x, y, z)} == {"RdBu_r"}
    (alone,) = panels(plot.plot_slices(data, ["velocity_x"]))
    assert alone.images[0].get_cmap() == x.images[0].get_cmap()


def test_the_unit_of_pure_numbers_is_not_written():
    data = box(2, 3, a=np.ones((2, 3)))
    data["a"].attrs["units"] = "1"
    data = data.assign_coords(x=("x", data.x.values, {"units": "1"}))
    axes, bar = plot.plot_slices(data).axes
    assert (axes.get_xlabel(), bar.get_ylabel()) == ("x", "")


def test_a_hole_is_not_the_colour_of_any_value():
    values = np.array([[-1.0, 1.0, 0.0], [0.5, np.nan, -0.5]])
    (axes,) = panels(plot.plot_slices(box(2, 3, a=values)))
    image = axes.images[0]
    hole, zero = image.to_rgba(image.get_array())[[1, 0], [1, 2], :3]
    np.testing.assert_allclose(hole, 0.6)
    assert zero.min() > 0.95


def test_a_field_that_hardly_has_another_sign_keeps_its_map():
    data = box(2, 3, a=np.array([[-0.05, 1, 1], [0, 0.5, 1]]), b=np.array([[-0.2, 1, 1], [0, 0.5, 1]]))
    a, b = panels(plot.plot_slices(data))
    assert (a.images[0].get_cmap().name, b.images[0].get_cmap().name) == (
        colour_map("a"),
        "RdBu_r",
    )
    assert b.images[0].get_clim() == (-1.0, 1.0)


def test_a_field_of_rounding_says_so_and_shows_no_structure():
    noise = np.random.default_rng(1).random((2, 3))
    dead, even, alive = panels(
        plot.plot_slices(box(2, 3, a=1e-270 * noise, b=1 + 1e-15 * noise, c=1e-9 * noise))
    )
    assert dead.get_title().startswith("a: zero up to rounding (at most ")
    assert even.get_title() == "b: uniform up to rounding"
    assert alive.get_title() == "c"
    for axes in (dead, even):
        image = axes.images[0]
        assert len(np.unique(image.to_rgba(image.get_array()).reshape(-1, 4), axis=0)) == 1


def test_a_colour_map_can_be_chosen():
    signed = np.array([[-1.0, 0.5, 1.0]])
    (axes,) = panels(plot.plot_slices(box(1, 3, a=signed), colour_map="gray"))
    assert axes.images[0].get_cmap().name == "gray"
    assert axes.images[0].get_clim() == (-1.0, 1.0)


def test_thin_channels_are_strips_one_above_the_other():
    figure = plot.plot_slices(box(4, 40, u=np.ones((4, 40)), v=np.ones((4, 40))))
    u, v = panels(figure)
    assert u.get_subplotspec().rowspan.start == 0 < v.get_subplotspec().rowspan.start
    width, height = figure.get_size_inches()
    assert width > 1.5 * height


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_pictures_are_written(dataset, tmp_path, suffix):
    plot.save_figure(plot.plot_slices(dataset, ["U"]), tmp_path / f"slices.{suffix}")
    plot.save_figure(plot.plot_pdf(dataset, None, "x=0", 10), tmp_path / f"pdf.{suffix}")
    plot.save_figure(plot.plot_series(compute_series(dataset)), tmp_path / f"series.{suffix}")
    assert all((tmp_path / f"{name}.{suffix}").stat().st_size > 1000 for name in ("slices", "pdf", "series"))
    if suffix == "png":
        with Image.open(tmp_path / "slices.png") as image:
            assert image.size[0] > 400


def test_movie_has_a_frame_per_step_and_one_colour_scale(recorded, values, tmp_path):
    levels = np.array([0.1, 0.5, 0.2, 0.4])
    values[1][:] = levels[:, None, None, None]
    path = tmp_path / "v.gif"
    assert movie.save_movie(recorded.dataset, "V", "z=2", path, frames_per_second=5) == 4
    scale = colormaps[colour_map("V")]
    with Image.open(path) as image:
        assert (image.n_frames, image.info["duration"], image.info["loop"]) == (4, 200, 0)
        for i, level in enumerate(levels):
            image.seek(i)
            frame = np.asarray(image.convert("RGB"))
            middle = frame[frame.shape[0] // 2, int(0.4 * frame.shape[1])]
            # A GIF has 256 colours a frame, so they are near the scale's and not on it.
            np.testing.assert_allclose(middle, scale((level - 0.1) / 0.4, bytes=True)[:3], atol=12)
    assert sum(recorded.reads) <= 2 * 4 * 5 * 7 * 8, "nothing but the plane may be read, twice"


def test_a_movie_is_as_wide_as_asked(dataset, tmp_path):
    movie.save_movie(dataset, ["U", "V"], "z=2", tmp_path / "v.gif", width=800)
    with Image.open(tmp_path / "v.gif") as image:
        assert image.size[0] == 800
        assert image.size[1] % 16 == 0


def test_movie_of_a_diverging_run(dataset, values, tmp_path):
    values[0][2:] = np.nan
    assert movie.save_movie(dataset, "U", "z=mid", tmp_path / "u.gif") == 4
    values[0][:] = np.nan
    assert movie.save_movie(dataset, "U", "z=mid", tmp_path / "u.gif") == 4


def test_diverged_field_has_a_slice_but_no_density(dataset, values, tmp_path):
    values[0][3, 3, 2, 2] = np.nan
    plot.save_figure(plot.plot_slices(dataset, ["U"]), tmp_path / "u.png")
    with pytest.raises(DivergedError):
        plot.plot_pdf(dataset, ["U"])


@pytest.mark.parametrize("name", ["u.jpx", "u"])
def test_unknown_picture_format(dataset, tmp_path, name):
    with pytest.raises(ConfigError, match=r"suffix must be \.png, \.svg or \.pdf"):
        plot.save_figure(plot.plot_slices(dataset, ["U"]), tmp_path / name)


def test_movie_has_a_known_suffix_and_a_possible_rate(dataset, tmp_path):
    with pytest.raises(ConfigError, match=r"suffix must be \.gif or \.mp4"):
        movie.save_movie(dataset, "U", "z=mid", tmp_path / "u.avi")
    with pytest.raises(ConfigError, match="frames_per_second is 0, but"):
        movie.save_movie(dataset, "U", "z=mid", tmp_path / "u.gif", frames_per_second=0)
    with pytest.raises(ConfigError, match="no output step"):
        movie.save_movie(dataset.isel(step=[]), "U", "z=mid", tmp_path / "u.gif")


def test_unwritable_picture_and_movie(dataset, tmp_path):
    with pytest.raises(
        OutputError, match=r"nowhere/u\.png: the folder .*nowhere does not exist\. Create it, or"
    ):
        plot.save_figure(plot.plot_slices(dataset, ["U"]), tmp_path / "nowhere" / "u.png")
    with pytest.raises(OutputError, match=r"nowhere/u\.gif: the folder .*nowhere does not exist"):
        movie.save_movie(dataset, "U", "z=mid", tmp_path / "nowhere" / "u.gif")


def test_no_fields_to_draw(dataset):
    with pytest.raises(ConfigError, match="no field to draw"):
        plot.plot_slices(dataset[[]])


@pytest.mark.parametrize(
    ("limits", "labels"), [((1, 9), ["1", "2", "5"]), ((0.02, 0.3), ["0.02", "0.05", "0.1", "0.2"])]
)
def test_short_logarithmic_axes_have_few_labels(limits, labels):
    figure = plot.blank_figure(3, 3)
    (axes,) = plot.panels(figure, 1)
    axes.loglog(limits, (1, 1e6))
    axes.set_xlim(*limits)
    plot.label_decades(figure)
    figure.draw_without_rendering()
    low, high = limits
    shown = [
        text.get_text()
        for text in axes.get_xticklabels(which="both")
        if text.get_text() and low <= text.get_position()[0] <= high
    ]
    assert shown == labels
    boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text() in labels]
    assert all(
        left.x1 < right.x0 for left, right in itertools.pairwise(sorted(boxes, key=lambda box: box.x0))
    )


def test_the_time_of_a_model_has_its_own_name(dataset):
    dataset = dataset.assign_coords(time=("step", dataset.time.values, {"long_name": "scale factor"}))
    figure = plot.plot_slices(dataset, ["U"], step=20)
    assert figure.get_suptitle() == "step 20, scale factor = 40, z = 3"
    assert plot.mean_title(dataset) == "mean of 4 outputs, scale factor = 0 to 80"


def test_no_display_and_no_pyplot_is_needed():
    code = (
        "import sys, ridgeline.analysis.movie, ridgeline.analysis.plot\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MPLBACKEND")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
