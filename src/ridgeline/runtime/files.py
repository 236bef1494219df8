"""Small files and folders: errors about them in words for people, and files that are never half written."""

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ridgeline.runtime.errors import OutputError, RidgelineError, full_stop, sentence

# The exceptions that using JSON of an unexpected form may raise, beside those of reading it.
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def expanded(path: str) -> str:
    """Return a path with a leading ~ and every $NAME and ${NAME} replaced, as a shell does.

    Raises ValueError, whose message names the unknown variable or user. An empty variable counts as unset, because
    "$SCRATCH/out" would otherwise lie in the root folder.
    """
    for plain, braced in re.findall(r"\$(?:(\w+)|\{([^}]*)\})", path):
        name = plain or braced
        if not os.environ.get(name):
            raise ValueError(f"the environment variable {name} is not set")
    path = os.path.expanduser(path)
    if path.startswith("~"):
        raise ValueError(f"{path.split('/')[0]} is not a user of this machine")
    return os.path.expandvars(path)


@contextmanager
def output_errors(doing: str, advice: str = "") -> Iterator[None]:
    """Raise an OSError of the block as OutputError "cannot DOING: why. ADVICE."."""
    try:
        yield
    except OSError as error:
        more = f" {sentence(advice)}" if advice else ""
        raise OutputError(f"cannot {doing}: {full_stop(error.strerror or str(error))}{more}") from error


def open_regular(file: str | Path, flags: int, mode: int = 0o600) -> int:
    """Return the descriptor of a regular file, as os.open does. Raises OSError for anything else, without waiting.

    A link is not followed, because in a folder that others can write to it may lead to any file of this user.
    """
    descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "this is not a regular file", str(file))
    return descriptor


def require_regular(file: str | Path) -> None:
    """Raise OSError for a file that is missing or not regular: a device may be endless, a pipe may have no writer.

    A folder passes, because opening it raises an error that says what is wrong.
    """
    mode = os.stat(file).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "this is not a regular file", str(file))


def read_regular(file: str | Path, most: int = 2**31) -> bytes:
    """Return the content of a regular file. Raises OSError, also for other files and for more than `most` bytes."""
    require_regular(file)
    with open(file, "rb") as opened:
        if os.fstat(opened.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"the file is larger than {most >> 30} GiB", str(file))
        return opened.read()


class LastWrites:
    """The files that a command writes at its end: each is tried, whether or not the others could be written.

    `raise_failures` raises the errors when all have been tried.
    """

    def __init__(self) -> None:
        self._failures: list[RidgelineError] = []

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Remember a RidgelineError that the block raises."""
        try:
            yield
        except RidgelineError as error:
            self._failures.append(error)

    def raise_failures(self) -> None:
        """Raise the remembered errors as one."""
        if len(self._failures) > 1:
            raise type(self._failures[0])(" ".join(full_stop(str(failure)) for failure in self._failures))
        for failure in self._failures:
            raise failure


def check_folder(folder: str | Path, what: str, option: str) -> Path:
    """Create a folder; raise OutputError if no file can be created in it. what: "the report"; option: "--report"."""
    path = Path(folder)
    with output_errors(f"write {what} into {path}", f"choose another {option}"):
        path.mkdir(parents=True, exist_ok=True)
        try_folder(path)
    return path


def try_folder(folder: Path) -> None:
    """Raise OSError if no file can be created in a folder. Leaves nothing there."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def replace_file(file: Path, content: bytes) -> None:
    """Write a file so that readers see either the old or the new content. Raises OSError and keeps the old file."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as new:
            new.write(content)
        os.replace(name, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def sync_directory(path: Path) -> None:
    """Force the names in a directory to the disk, if the file system supports it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
