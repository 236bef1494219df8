"""Can a result be written where the user wants it? Asked before it is measured, not after."""

import tempfile
from pathlib import Path

from ridgeline.runtime.errors import OutputError


def check_folder(folder: str | Path, what: str, option: str) -> Path:
    """Make a folder, and raise OutputError if no file can be made in it. what: "the report"; option: "--report"."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write {what} into {path}: {error.strerror}; choose another {option}"
        ) from None
    return path


def check_file(file: str | Path | None, option: str) -> None:
    """Raise OutputError if a file cannot be written, or made in its folder; None and "-" can. Changes nothing."""
    if file is None or str(file) == "-":
        return
    path = Path(file)
    try:
        if path.exists():
            with path.open("r+b"):
                return
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another {option}") from None
