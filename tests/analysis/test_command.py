import pytest
from PIL import Image

from ridgeline.analysis.plot_command import draw
from ridgeline.runtime.errors import ConfigError


@pytest.fixture
def path(dataset, tmp_path, monkeypatch) -> str:
    """Return the name of a data set that `ridgeline.open` opens."""
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: dataset)
    return str(tmp_path / "run.bp")


def test_picture_is_named_after_the_data_set(path, tmp_path):
    assert draw(path) == [tmp_path / "run.png"]
    assert draw(path, pdf=True) == [tmp_path / "run_pdf.png"]
    assert draw(path, output=str(tmp_path / "other.svg")) == [tmp_path / "other.svg"]
    assert {p.name for p in tmp_path.iterdir()} == {"run.png", "run_pdf.png", "other.svg"}


def test_picture_shows_the_variables_named(path, tmp_path):
    widths = []
    for variables in ([], ["V"]):
        draw(path, variables)
        with Image.open(tmp_path / "run.png") as image:
            widths.append(image.size[0])
    assert widths[0] == 2 * widths[1]


def test_movie_comes_alone_or_with_a_picture(path, tmp_path):
    gif, png = str(tmp_path / "m.gif"), str(tmp_path / "p.png")
    assert draw(path, movie=gif) == [tmp_path / "m.gif"]
    assert not (tmp_path / "run.png").exists()
    assert draw(path, ["V"], png, slice="y=0", step=10, movie=gif) == [tmp_path / "m.gif", tmp_path / "p.png"]


IDLE = [
    ({"rate": 5.0}, "--rate requires --movie."),
    (
        {"volume": "U", "isosurface": "V=0.1"},
        "--volume cannot be used with --isosurface. Draw one picture with each.",
    ),
    ({"pdf": True, "volume": "U"}, "--pdf cannot be used with --volume"),
    ({"slice": "z=1", "volume": "U"}, "--slice cannot be used with --volume"),
    ({"variables": ["U"], "isosurface": "V=0.1"}, "--variable cannot be used with --isosurface"),
    ({"colour_map": "gray", "pdf": True}, "--colour-map cannot be used with --pdf"),
    (
        {"colour_map": "virdis"},
        "the colour map virdis does not exist in matplotlib. Similar names: viridis",
    ),
    ({"movie": "m.gif", "pdf": True}, "--pdf has no effect on a movie. Name a picture too, with --output."),
]


@pytest.mark.parametrize(("wishes", "words"), IDLE)
def test_an_option_without_effect_is_refused(path, tmp_path, wishes, words):
    with pytest.raises(ConfigError, match=words):
        draw(path, **wishes)
    assert not [*tmp_path.iterdir()]


def test_impossible_wishes(path, dataset, monkeypatch):
    with pytest.raises(ConfigError, match="'W'"):
        draw(path, ["W"])
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda name: dataset[[]])
    with pytest.raises(ConfigError, match="no field to draw"):
        draw(path, movie="m.gif")
