"""Small files and folders: what goes wrong with them in words for people, and files that are never half written."""

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ridgeline.runtime.errors import OutputError, RidgelineError

# What the use of JSON of an unexpected form raises, beside errors of reading it.
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def expanded(path: str) -> str:
    """Return a path with a leading ~ and every $NAME and ${NAME} replaced, as a shell does.

    Raises ValueError, whose message names what is not known here. An empty variable counts as none: "$SCRATCH/out"
    would lie in the root folder.
    """
    for plain, braced in re.findall(r"\$(?:(\w+)|\{([^}]*)\})", path):
        name = plain or braced
        if not os.environ.get(name):
            raise ValueError(f"the environment variable {name} is not set")
    found = os.path.expanduser(path)
    if found.startswith("~"):
        raise ValueError(f"{found.split('/')[0]} is not a user of this machine")
    return os.path.expandvars(found)


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


def require_regular(file: str | Path) -> None:
    """Raise OSError for a file that is missing or not a regular one: a device may have no end, and a pipe no writer.

    A folder passes, since opening it says what is wrong.
    """
    mode = os.stat(file).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))


def read_regular(file: str | Path, most: int = 2**31) -> bytes:
    """Return what a regular file holds. Raises OSError, also for anything else and for more than `most` bytes."""
    require_regular(file)
    with open(file, "rb") as opened:
        if os.fstat(opened.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most >> 30} GiB", str(file))
        return opened.read()


class LastWrites:
    """The files that a command writes at its end: each is tried, whether or not the others could be written.

    Raises what failed when all have been tried (`raise_failures`).
    """

    def __init__(self) -> None:
        self._failures: list[RidgelineError] = []

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Remember an error of ours that the block raises."""
        try:
            yield
        except RidgelineError as error:
            self._failures.append(error)

    def raise_failures(self) -> None:
        """Raise what failed, as one error."""
        if len(self._failures) > 1:
            raise type(self._failures[0])("; ".join(map(str, self._failures)))
        for failure in self._failures:
            raise failure


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
