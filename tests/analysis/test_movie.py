"""Movies: several fields, MP4 beside GIF, frames that do not jump, and what is said without the extra."""

import sys

import numpy as np
import pytest
from PIL import Image

from ridgeline.analysis import movie
from ridgeline.analysis.plot_command import draw
from ridgeline.runtime.errors import ConfigError


def frames(dataset, names=("U", "V")):
    return list(movie._frames(dataset, names, "z=mid", None, None))


def test_frames_of_several_fields_are_whole_blocks_and_do_not_jump(dataset):
    both, alone = frames(dataset), frames(dataset, ["V"])
    assert len(both) == 4
    assert {frame.shape for frame in both} == {both[0].shape}
    for frame in (both[0], alone[0]):
        assert frame.shape[0] % movie.BLOCK == frame.shape[1] % movie.BLOCK == 0
    assert both[0].shape[1] > 1.5 * alone[0].shape[1]
    dark = [
        (frame.sum(axis=2) == 0).sum(axis=0) for frame in both
    ]  # black pixels of a column: frames and ticks
    edges = [np.flatnonzero(columns > 100) for columns in dark]
    for other in edges[1:]:
        np.testing.assert_array_equal(other, edges[0])


def test_the_command_makes_a_movie_of_the_fields_named(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: dataset)
    path = tmp_path / "m.gif"
    assert draw(str(tmp_path / "run.bp"), ["U", "V"], movie=str(path), rate=4) == [path]
    with Image.open(path) as image:
        assert (image.n_frames, image.info["duration"]) == (4, 250)
        assert image.size[::-1] == frames(dataset)[0].shape[:2]


def test_an_mp4_has_a_frame_per_step_and_is_known_as_ours(dataset, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="the extra `movie` is not installed")
    path = tmp_path / "m.mp4"
    for _ in range(2):  # the second sets the first aside
        assert movie.save_movie(dataset, ["U", "V"], "z=mid", path, frames_per_second=5) == 4
    assert {each.name for each in tmp_path.iterdir()} == {"m.mp4", "m.previous.mp4"}
    assert ffmpeg.count_frames_and_secs(str(path)) == (4, pytest.approx(0.8))


def test_without_the_extra_an_mp4_is_refused_and_nothing_is_written(dataset, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"pip install imageio-ffmpeg, or write a \.gif") as error:
        movie.save_movie(dataset, "U", "z=mid", tmp_path / "m.mp4")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
