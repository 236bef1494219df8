"""Small files and folders: what goes wrong with them in words for people, and files that are never half written."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ridgeline.runtime.errors import OutputError

# What the use of JSON of an unexpected form raises, beside errors of reading it.
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def output_errors(doing: str, advice: str = "") -> Iterator[None]:
    """Raise an OSError of the block as OutputError "cannot DOING: why; ADVICE"."""
    try:
        yield
    except OSError as error:
        more = f"; {advice}" if advice else ""
        raise OutputError(f"cannot {doing}: {error.strerror or error}{more}") from error


def open_regular(file: str | Path, flags: int, mode: int = 0o600) -> int:
    """Return the descriptor of a regular file, as os.open. Raises OSError for anything else, which is not waited for.

    A link is not followed: in a folder that others can write to, it may lead to any file of this user.
    """
    descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))
    return descriptor


def read_regular(file: str | Path, most: int = 2**31) -> bytes:
    """Return what a regular file holds. Raises OSError, also for more than `most` bytes.

    A device may have no end and a pipe no writer, so both are refused before they are opened.
    """
    if not Path(file).is_dir() and not stat.S_ISREG(os.stat(file).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))
    with open(file, "rb") as opened:
        if os.fstat(opened.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most >> 30} GiB", str(file))
        return opened.read()


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
