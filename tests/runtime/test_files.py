"""Whether results can be written is known before they are measured, and asking leaves no trace."""

import os
from pathlib import Path

import pytest

from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import check_folder, output_errors, replace_file


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    assert list(check_folder(tmp_path / "new" / "deep", "the report", "--report").iterdir()) == []


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        OutputError, match=r"cannot write the report into .*file/report: .*choose another --report"
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


def test_an_error_of_the_system_is_said_in_words(tmp_path: Path) -> None:
    missing = r"^cannot read it: No such file or directory"
    with (
        pytest.raises(OutputError, match=missing + "; try another$"),
        output_errors("read it", "try another"),
    ):
        (tmp_path / "absent").read_text()
    with pytest.raises(OutputError, match=missing + "$"), output_errors("read it"):
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
