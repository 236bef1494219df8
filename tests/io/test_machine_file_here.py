"""The machine file of the machine at hand: where it lies, and that another one makes way."""

import socket
import tempfile
from pathlib import Path

import pytest

from ridgeline.config.machine_file import Quantity, read_machine_file
from ridgeline.io.machine_file import machine_file_here, write_machine_file
from ridgeline.runtime.errors import ConfigError, OutputError

DOCUMENT = {"machine": {"name": "toy"}, "node": {"peak": Quantity(1e9, "counted")}}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("node001.site.org", "node.toml"),
        ("nid-0042", "nid.toml"),
        ("1234", "1234.toml"),
        ("laptop", "laptop.toml"),
    ],
)
def test_nodes_of_one_cluster_share_a_file(
    host: str, name: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert machine_file_here() == cache / "machines" / name
    assert not cache.exists()


def test_a_written_file_is_found_and_an_earlier_one_set_aside() -> None:
    first = write_machine_file(DOCUMENT)
    assert first == machine_file_here()
    again = write_machine_file({**DOCUMENT, "node": {"peak": Quantity(2e9, "counted")}})
    assert read_machine_file(again).node.peak == Quantity(2e9, "counted")
    assert read_machine_file(first.with_name(f"{first.stem}.previous.toml")).node.peak == Quantity(
        1e9, "counted"
    )


def test_another_users_folder_is_not_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    (cache / "machines").mkdir(parents=True)
    (cache / "machines").chmod(0o777)
    path = write_machine_file(DOCUMENT)
    assert path == machine_file_here()
    assert path.is_relative_to(tmp_path / "temp")


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[mine]\n")
    with pytest.raises(OutputError, match="did not write it"):
        write_machine_file(DOCUMENT, path)
    assert path.read_text() == "[mine]\n"


def test_what_is_no_machine_file_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        write_machine_file({"machine": {}}, tmp_path / "no.toml")
    assert not (tmp_path / "no.toml").exists()
