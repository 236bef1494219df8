"""Files that are kept between runs: links, pipes and other users' files count as missing, with one remark."""

import logging
import os
from pathlib import Path

import pytest

from ridgeline.runtime import user_cache as module
from ridgeline.runtime.user_cache import open_kept, read_kept, read_kept_table, write_kept


@pytest.fixture
def remarks(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("ridgeline"), "propagate", True)
    module._remark.cache_clear()
    return caplog


def plant(kind: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "a link":
        (file.parent / "precious").write_text("{}")
        file.symlink_to("precious")
    elif kind == "a pipe":
        os.mkfifo(file)
    elif kind == "a folder":
        file.mkdir()
    else:
        file.write_text("{}")
        file.chmod(0o666 if kind == "writable" else 0o600)
    if kind == "another user's":
        if os.geteuid() == 0:
            os.chown(file, 65534, 65534)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("a link", "the file is a symbolic link"),
        ("a pipe", "this is not a regular file"),
        ("a folder", "this is not a regular file"),
        ("writable", "other users can write to the file"),
        ("another user's", "the file belongs to another user"),
    ],
)
def test_what_others_may_have_planted_is_not_read(kind, why, tmp_path, monkeypatch, remarks) -> None:
    file = tmp_path / "choices.json"
    plant(kind, file, monkeypatch)
    for _ in range(2):
        assert read_kept(file) is None
    assert [record.getMessage() for record in remarks.records] == [
        f"cannot read {file}: {why}. Its measurements are repeated."
    ]


@pytest.mark.parametrize("kind", ["a link", "a pipe"])
def test_what_others_may_have_planted_is_replaced_and_not_written_through(
    kind, tmp_path, monkeypatch
) -> None:
    file = tmp_path / "choices.json"
    plant(kind, file, monkeypatch)
    with pytest.raises(OSError, match=r"symbolic links|not a regular file"):
        open_kept(file, os.O_RDWR | os.O_CREAT)
    write_kept(file, b"[]")
    assert file.read_bytes() == b"[]"
    assert not file.is_symlink()
    assert (tmp_path / "precious").exists() == (kind == "a link")
    if kind == "a link":
        assert (tmp_path / "precious").read_text() == "{}"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_a_damaged_table_is_empty(content, tmp_path, remarks) -> None:
    file = tmp_path / "choices.json"
    assert read_kept_table(file) == {}
    assert not remarks.records
    file.write_bytes(content)
    assert read_kept_table(file) == {}
    assert [record.getMessage() for record in remarks.records] == [
        f"{file} is damaged. Its measurements are repeated."
    ]
