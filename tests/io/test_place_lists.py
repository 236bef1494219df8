"""Lists of places: what is read, what is refused, and that what is written is read."""

from pathlib import Path

import numpy as np
import pytest

from ridgeline.io.place_lists import read_places, write_places
from ridgeline.runtime.errors import ConfigError


@pytest.mark.parametrize("head", ["", "x,y,z\n", "\ufeffx,y,z\n", "\ufeff", "# of a rake\nX, Y, Z\n\n"])
def test_places_are_read(tmp_path: Path, head: str) -> None:
    path = tmp_path / "places.csv"
    path.write_text(f"{head}0, 0.5,1e-3\n\n1,2,-3\n")
    np.testing.assert_array_equal(read_places(path, "file"), [[0, 0.5, 1e-3], [1, 2, -3]])


def test_an_empty_list_has_no_places(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("x,y,z\n")
    assert read_places(tmp_path / "places.csv", "file").shape == (0, 3)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    places = np.random.default_rng(0).random((5, 3))
    write_places(tmp_path / "new" / "places.csv", places, "file")
    np.testing.assert_array_equal(read_places(tmp_path / "new" / "places.csv", "file"), places)


@pytest.mark.parametrize("line", ["1,2", "1,2,3,4", "1,2,nan", "a,b,c", "x,y,z", "1;2;3"])
def test_other_lines_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "places.csv"
    path.write_text(f"x,y,z\n0,0,0\n{line}\n")
    with pytest.raises(
        ConfigError, match=r"places\.csv:3: the line is .*output\.probes\.file must be three numbers x,y,z"
    ):
        read_places(path, "output.probes.file")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"file = .*none\.csv.*cannot be read"):
        read_places(tmp_path / "none.csv", "file")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_places(tmp_path / "bytes.csv", "file")
    with pytest.raises(ConfigError, match=r"/dev/zero.*cannot be read: this is not a regular file"):
        read_places("/dev/zero", "file")
