"""Writing output files, and the one rule for what is at an output's path already.

Output of an earlier command is set aside under a name with `.previous` in it: `gs.bp` becomes `gs.previous.bp`, the
next one `gs.previous-2.bp`. For reports and other JSON only one is kept. Files that Ridgeline did not write are an
error and stay unchanged. Empty files and data sets without a step contain nothing and are replaced.

Output of Ridgeline carries a mark. A data set has its file of checksums, a CSV file its first column, and every other
file the text MARK in its content or its metadata. A hostfile cannot have a mark and is recognised by its name.
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

from ridgeline.io import bp_files, zarr_files
from ridgeline.io.store import describe
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors, try_folder
from ridgeline.version import VERSION

log = logging.getLogger(__name__)

MARK = "ridgeline-output/"
GENERATOR = MARK + VERSION  # the mark in files: it includes the version that wrote them
_CSV_STARTS = (b"step,time", b"benchmark,")  # time series, and rows of a benchmark
_HOSTFILES = ("nodes.good", "nodes.bad")  # one host a line; programs that read it accept no mark
# A list of numbers in indented JSON. A string cannot contain a line end, so that no match begins inside one.
_PLAIN_LIST = re.compile(r'\[\n[^][{}"]*\]')
_SEARCHED = 4096  # bytes at both ends of a file in which the mark is searched


def is_output(path: Path) -> bool:
    """Whether Ridgeline wrote the file or folder at `path`. Raises OSError if it cannot be read."""
    if path.is_dir():
        return bp_files.is_own_data_set(path) or zarr_files.is_own_zarr(path)
    if path.name in _HOSTFILES:
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_SEARCHED)
        if head.startswith(_CSV_STARTS):
            return True
        file.seek(max(path.stat().st_size - _SEARCHED, 0))
        return MARK.encode() in head + file.read()


def free_previous_name(path: Path) -> Path:
    """Return the first unused name with `.previous` before the suffix of `path`."""
    number = 1
    while True:
        count = f"-{number}" if number > 1 else ""
        name = path.with_name(f"{path.stem}.previous{count}{path.suffix}")
        if not name.exists() and not name.is_symlink():
            return name
        number += 1


def check_replaceable(path: Path, option: str) -> None:
    """Raise OutputError if Ridgeline did not write what is at `path`. option: what the error tells to change."""
    check_not_special(path, option)
    with output_errors(f"look at {path}", f"choose another {option}"):
        if _is_empty(path) or is_output(path):
            return
    raise OutputError(
        f"{path} exists and Ridgeline did not write it ({describe(path)}), so it is not replaced. Move it "
        f"away, or choose another {option}."
    )


def check_not_special(path: Path, option: str) -> None:
    """Raise OutputError for a device, a pipe or a socket, without opening it: a pipe would wait."""
    with output_errors(f"look at {path}", f"choose another {option}"):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OutputError(
                f"{option} = {path} is {describe(path)}, but it must be a file that can be read, renamed "
                f"and continued. Choose another {option}."
            )


def _is_empty(path: Path) -> bool:
    """Whether nothing is lost if `path` is replaced: it is missing, empty, or output of ours without content."""
    if not path.exists():
        return True
    if path.is_dir():
        return bp_files.is_empty(path) or zarr_files.has_no_steps(path)
    with path.open("rb") as file:
        head = file.readline(_SEARCHED)
        return not head or (head.startswith(_CSV_STARTS) and not file.read(1))


def set_aside(file: str | os.PathLike[str], option: str) -> None:
    """Rename the output of an earlier command at a path, and log that; afterwards there is at most an empty folder.

    A link stays; the file that it points to is renamed. Raises OutputError if Ridgeline did not write what is there,
    or if it cannot be renamed.
    """
    path = Path(os.path.realpath(file))
    check_replaceable(path, option)
    doing = f"rename {path}, which an earlier command wrote"
    with output_errors(doing, f"move it away, or choose another {option}"):
        if not path.exists():
            return
        if _is_empty(path):
            _delete(path)
            return
        aside = path.with_name(f"{path.stem}.previous{path.suffix}")
        if path.suffix != ".json" or aside.is_symlink() or (aside.exists() and not is_output(aside)):
            aside = free_previous_name(path)
        path.replace(aside)
    log.warning("%s of an earlier command was renamed to %s.", path, aside)


def delete_output(file: str | os.PathLike[str], option: str) -> None:
    """Delete the output of an earlier command at a path. Raises OutputError like `set_aside`."""
    path = Path(os.path.realpath(file))
    check_replaceable(path, option)
    with output_errors(f"delete {path}", f"choose another {option}"):
        if path.exists():
            _delete(path)


def _delete(path: Path) -> None:
    if zarr_files.is_own_zarr(path):
        zarr_files.delete_zarr(path)
    elif path.is_dir():
        bp_files.delete_files(path)
    else:
        path.unlink()


def check_writable(file: str | os.PathLike[str] | None, option: str) -> None:
    """Raise OutputError if a file cannot be written, or would replace one that Ridgeline did not write.

    It is called before the content is computed, and changes nothing. "-" and None are always possible.
    """
    if file is None or str(file) == "-":
        return
    path = Path(os.path.realpath(file))
    with output_errors(f"write {file}", f"choose another {option}"):
        if _is_stream(Path(file)):
            if not os.access(file, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
    check_replaceable(path, option)
    _check_folder_of(Path(file), option)


def _check_folder_of(file: Path, option: str) -> None:
    """Raise OutputError if no file can be created in the folder of a file, with the first folder that is missing."""
    with output_errors(f"write {file}", f"choose another {option}"):
        missing = next((folder for folder in reversed(file.parents) if not folder.exists()), None)
        if missing is not None and missing.parent.is_dir():
            raise OutputError(
                f"cannot write {file}: the folder {missing} does not exist. Create it, or choose another {option}."
            )
        try_folder(Path(os.path.realpath(file)).parent)


def check_appendable(file: str | os.PathLike[str], option: str) -> None:
    """Raise OutputError if nothing can be appended to a file; it may be anybody's. Changes nothing."""
    with output_errors(f"write {file}", f"choose another {option}"):
        if Path(file).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not Path(file).exists():
            _check_folder_of(Path(file), option)
        elif not os.access(file, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def atomic_output(file: str | os.PathLike[str], option: str) -> Iterator[Path]:
    """Yield the path of a new file, which replaces `file` at the end of the block if that raises nothing.

    An earlier output is set aside first. At no time is `file` incomplete. A device or a pipe is written directly.
    Raises OutputError, also for a pipe without a reader.
    """
    path = Path(os.path.realpath(file))
    with output_errors(f"write {file}", f"choose another {option}"):
        if _is_stream(Path(file)):
            # The pipe is kept open until everything is written: a waiting reader would see its end otherwise.
            try:
                kept_open = os.open(file, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    raise OSError(errno.ENXIO, "no process reads this pipe") from None
                raise
            try:
                yield Path(file)
            finally:
                os.close(kept_open)
            return
    check_writable(path, option)
    new = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        with output_errors(f"write {file}", f"free space there, or choose another {option}"):
            yield new
            set_aside(path, option)
            new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def write_text(file: str | os.PathLike[str], text: str, option: str) -> None:
    """Write a text file as `atomic_output` does; "-" is the standard output. Raises OutputError."""
    if str(file) == "-":
        sys.stdout.write(text)
        return
    with atomic_output(file, option) as new:
        new.write_text(text)


def to_json(content: dict[str, Any], indent: int | None = 2) -> str:
    """Return JSON with the mark and a line end. A list of numbers is one line, however long it is."""
    text = json.dumps({"generator": GENERATOR} | content, indent=indent, default=str)
    return _PLAIN_LIST.sub(lambda match: f"[{' '.join(match[0][1:-1].split())}]", text) + "\n"


def _is_stream(path: Path) -> bool:
    """Whether this is a pipe or a character device, such as a terminal, which is written directly."""
    return path.exists() and (path.is_fifo() or path.is_char_device())
