"""Whether results can be written is known before they are measured, and asking leaves no trace."""

import os
from pathlib import Path

import pytest

from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.output_paths import check_folder


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
