import pytest
from PIL import Image

import ridgeline
from ridgeline.analysis.command import draw
from ridgeline.runtime.errors import ConfigError


@pytest.fixture
def path(dataset, tmp_path, monkeypatch) -> str:
    """Return the name of a data set that `ridgeline.open` opens."""
    monkeypatch.setitem(vars(ridgeline), "open", lambda name: dataset)
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


def test_impossible_wishes(path, dataset, monkeypatch):
    with pytest.raises(ConfigError, match="'W'"):
        draw(path, ["W"])
    monkeypatch.setattr(ridgeline, "open", lambda name: dataset[[]])
    with pytest.raises(ConfigError, match="no field to draw"):
        draw(path, movie="m.gif")
