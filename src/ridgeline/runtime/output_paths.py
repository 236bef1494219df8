"""Can results be written into the folder that the user wants? Asked before they are measured, not after."""

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
