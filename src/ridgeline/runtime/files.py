"""Small files and folders: what goes wrong with them in words for people, and files that are never half written."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ridgeline.runtime.errors import OutputError


@contextmanager
def output_errors(doing: str, advice: str = "") -> Iterator[None]:
    """Raise an OSError of the block as OutputError "cannot DOING: why; ADVICE"."""
    try:
        yield
    except OSError as error:
        more = f"; {advice}" if advice else ""
        raise OutputError(f"cannot {doing}: {error.strerror or error}{more}") from error


def check_folder(folder: str | Path, what: str, option: str) -> Path:
    """Make a folder, and raise OutputError if no file can be made in it. what: "the report"; option: "--report"."""
    path = Path(folder)
    with output_errors(f"write {what} into {path}", f"choose another {option}"):
        path.mkdir(parents=True, exist_ok=True)
        try_folder(path)
    return path


def try_folder(folder: Path) -> None:
    """Raise OSError if no file can be made in a folder. Leaves nothing there."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def replace_file(file: Path, content: bytes) -> None:
    """Write a file so that readers see the old or the new one whole. Raises OSError and leaves the old one."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as new:
            new.write(content)
        os.replace(name, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
