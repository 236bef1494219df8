"""Whether results can be written is known before they are measured, and asking leaves no trace."""

import os
from pathlib import Path

import pytest

from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import LastWrites, check_folder, output_errors, read_regular, replace_file


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    assert list(check_folder(tmp_path / "new" / "deep", "the report", "--report").iterdir()) == []


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        OutputError, match=r"cannot write the report into .*file/report: .*Choose another --report"
    ):
        check_folder(tmp_path / "file" / "report", "the report", "--report")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_protected_folder_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="Permission denied"):
            check_folder(tmp_path / "report", "the report", "--report")
    finally:
        tmp_path.chmod(0o700)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert read_regular(tmp_path / "file") == b"abc"
    with pytest.raises(OSError, match="larger than 0 GiB"):
        read_regular(tmp_path / "file", most=2)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="this is not a regular file"):
            read_regular(path)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)


def test_each_of_the_last_files_is_tried() -> None:
    writes = LastWrites()
    tried = []
    for name in "ab":
        with writes.trying():
            tried.append(name)
            raise OutputError(f"cannot write {name}")
    with writes.trying():
        tried.append("c")
    with pytest.raises(OutputError, match=r"^cannot write a\. cannot write b\.$"):
        writes.raise_failures()
    assert tried == ["a", "b", "c"]
    LastWrites().raise_failures()


def test_an_error_of_the_system_is_said_in_words(tmp_path: Path) -> None:
    missing = r"^cannot read it: No such file or directory"
    with (
        pytest.raises(OutputError, match=missing + r"\. Try another\.$"),
        output_errors("read it", "try another"),
    ):
        (tmp_path / "absent").read_text()
    with pytest.raises(OutputError, match=missing + r"\.$"), output_errors("read it"):
        (tmp_path / "absent").read_text()
    with pytest.raises(ValueError, match="of another kind"), output_errors("read it"):
        raise ValueError("of another kind")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "figures.json"
    replace_file(file, b"old")
    replace_file(file, b"new")
    assert file.read_bytes() == b"new"

    def fail(*names: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="the disk is full"):
        replace_file(file, b"newest")
    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]
