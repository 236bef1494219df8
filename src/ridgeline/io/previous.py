"""What lies at an output's path already: the one rule for all that Ridgeline writes.

What an earlier command of ours wrote is set aside, under a name with `.previous` in it: `gs.bp` becomes
`gs.previous.bp`, the next one `gs.previous-2.bp`. Of reports and other JSON one is kept. Files that are not ours are
an error, and stay as they are. Empty files and data sets without a step hold nothing, and are replaced.

Ours is what carries our mark. A data set has its file of checksums, a CSV file its first column, and every other file
MARK, in its text or its metadata. A hostfile can have none, and is known by its name.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ridgeline.io import bp_files
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors, try_folder
from ridgeline.version import VERSION

log = logging.getLogger(__name__)

MARK = "ridgeline-output/"
GENERATOR = MARK + VERSION  # what files carry: the mark and the version that wrote them
_CSV_STARTS = (b"step,time", b"benchmark,")  # time series, and rows of a benchmark
_HOSTFILE = "nodes.good"  # one host a line: what reads it takes no mark
_PLAIN_LIST = re.compile(
    r'\[\n[^][{}"]*\]'
)  # of no text; in JSON no string holds a line end, so it begins in none
_LOOK = 4096  # bytes at both ends of a file in which the mark is looked for


def is_ours(path: Path) -> bool:
    """Say whether Ridgeline wrote what is at `path`. Raises OSError if that cannot be read."""
    if path.is_dir():
        return bp_files.is_ours(path)
    if path.name == _HOSTFILE:
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_LOOK)
        if head.startswith(_CSV_STARTS):
            return True
        file.seek(max(path.stat().st_size - _LOOK, 0))
        return MARK.encode() in head + file.read()


def free_name(path: Path) -> Path:
    """Return the first name with `.previous` in it, before the suffix, that nothing has."""
    number = 1
    while True:
        count = f"-{number}" if number > 1 else ""
        name = path.with_name(f"{path.stem}.previous{count}{path.suffix}")
        if not name.exists() and not name.is_symlink():
            return name
        number += 1


def refuse_foreign(path: Path, option: str) -> None:
    """Raise OutputError if something that is not ours is at `path`. option: what the user may change."""
    refuse_special(path, option)
    with output_errors(f"look at {path}", f"choose another {option}"):
        if _is_nothing(path) or is_ours(path):
            return
    raise OutputError(
        f"{path} exists and Ridgeline did not write it ({bp_files.describe(path)}), so it is not replaced; move it "
        f"away or choose another {option}"
    )


def refuse_special(path: Path, option: str) -> None:
    """Raise OutputError for a device, a pipe or a socket. Opens nothing: a pipe would wait, a device has no end."""
    with output_errors(f"look at {path}", f"choose another {option}"):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OutputError(
                f"{option} = {path} is {bp_files.describe(path)}, and a file is needed that can be read, renamed and "
                f"continued; choose another {option}"
            )


def _is_nothing(path: Path) -> bool:
    """Say whether replacing what is at `path` loses nothing: none, an empty one, or ours without content."""
    if not path.exists():
        return True
    if path.is_dir():
        return bp_files.holds_nothing(path)
    with path.open("rb") as file:
        head = file.readline(_LOOK)
        return not head or (head.startswith(_CSV_STARTS) and not file.read(1))


def make_way(file: str | os.PathLike[str], option: str) -> None:
    """Set aside what an earlier command of ours left at a path, and say so: at most an empty folder is there then.

    A link stays, and what it points to makes way. Raises OutputError if that is not ours or cannot be renamed.
    """
    path = Path(os.path.realpath(file))
    refuse_foreign(path, option)
    doing = f"set {path} aside, which an earlier command wrote"
    with output_errors(doing, f"move it away or choose another {option}"):
        if not path.exists():
            return
        if _is_nothing(path):
            _delete(path)
            return
        aside = path.with_name(f"{path.stem}.previous{path.suffix}")
        if path.suffix != ".json" or aside.is_symlink() or (aside.exists() and not is_ours(aside)):
            aside = free_name(path)
        path.replace(aside)
    log.warning("%s of an earlier command is now %s", path, aside)


def discard(file: str | os.PathLike[str], option: str) -> None:
    """Delete what an earlier command of ours left at a path, as `make_way` sets it aside."""
    path = Path(os.path.realpath(file))
    refuse_foreign(path, option)
    with output_errors(f"delete {path}", f"choose another {option}"):
        if path.exists():
            _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        bp_files.empty(path)
    else:
        path.unlink()


def check_file(file: str | os.PathLike[str] | None, option: str) -> None:
    """Raise OutputError if a file cannot be written, or would replace one of somebody else; "-" and None can.

    Asked before the content is computed. Changes nothing.
    """
    if file is None or str(file) == "-":
        return
    path = Path(os.path.realpath(file))
    with output_errors(f"write {file}", f"choose another {option}"):
        if _is_stream(Path(file)):
            if not os.access(file, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
    refuse_foreign(path, option)
    with output_errors(f"write {file}", f"choose another {option}"):
        try_folder(path.parent)


@contextlib.contextmanager
def written(file: str | os.PathLike[str], option: str) -> Iterator[Path]:
    """Give the path of a new file, which becomes `file` when the block ends well, after `make_way`.

    So `file` is at no time half written. A device or a pipe is written as it is. Raises OutputError, also for a pipe
    that nobody reads.
    """
    path = Path(os.path.realpath(file))
    with output_errors(f"write {file}", f"choose another {option}"):
        if _is_stream(Path(file)):
            # Open until all is written: otherwise a reader that waits would see the end of the pipe at once.
            try:
                kept_open = os.open(file, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    raise OSError(errno.ENXIO, "nobody reads this pipe") from None
                raise
            try:
                yield Path(file)
            finally:
                os.close(kept_open)
            return
    check_file(path, option)
    new = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        with output_errors(f"write {file}", f"free space there or choose another {option}"):
            yield new
            make_way(path, option)
            new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def write_text(file: str | os.PathLike[str], text: str, option: str) -> None:
    """Write a text file by the rule of this module; "-" is standard output. Raises OutputError."""
    if str(file) == "-":
        sys.stdout.write(text)
        return
    with written(file, option) as new:
        new.write_text(text)


def to_json(content: dict[str, Any], indent: int | None = 2) -> str:
    """Return JSON that carries the mark, with a line end. A list of numbers is one line, however long it is."""
    text = json.dumps({"generator": GENERATOR} | content, indent=indent, default=str)
    return _PLAIN_LIST.sub(lambda found: f"[{' '.join(found[0][1:-1].split())}]", text) + "\n"


def _is_stream(path: Path) -> bool:
    """Say whether this is a pipe or a device of characters, such as a terminal: it is written as it is."""
    return path.exists() and (path.is_fifo() or path.is_char_device())
