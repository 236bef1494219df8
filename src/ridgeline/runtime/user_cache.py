"""The user's cache: folders and files that are kept between runs and that nobody else may have put there.

They hold compiled kernels and C, FFTW's wisdom, tuning results, measured limits, machine files, locks and marks.
Numba unpickles the files of its cache, and a shared library runs when it is loaded. Anybody who can write there could
therefore run code as the user who reads. The owner of a folder could also put a link in the place of a file, through
which files of this user would be replaced. A folder is therefore used only if this user owns it, nobody else can
write to it, and nobody else can replace it (`private_folder`).

A file counts only if it is a regular file of this user, or of root, that nobody else can write (`open_kept`). Links
are not followed and pipes are not waited for, because somebody may have put them there while the folder was open to
others. A file of measurements that is damaged or cannot be read counts as missing: it costs a warning and the time to
measure again.
"""

from __future__ import annotations

import atexit
import errno
import json
import logging
import os
import shutil
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

from ridgeline.runtime.environment import give_home
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import open_regular, replace_file
from ridgeline.runtime.launcher import may_print

log = logging.getLogger(__name__)

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_root() -> Path:
    """Return the user's cache directory: RIDGELINE_CACHE_DIR, or `ridgeline` below XDG_CACHE_HOME or ~/.cache.

    Where that folder belongs to another user or others can write to it, such as a disk that all users share, it is
    the folder `ridgeline-USERID` in it. Creates nothing; `private_folder` checks who owns it.
    """
    give_home()
    chosen = os.environ.get("RIDGELINE_CACHE_DIR") or user_cache_dir("ridgeline")
    root = Path(os.path.expanduser(chosen)).resolve()  # a link is followed once, not after the check
    return root / _own_name() if root.is_dir() and why_not_private(root) else root


def private_folder(*parts: str, make: bool = True) -> Path:
    """Return the folder PART/PART in `cache_root`, created with mode 0700 where it is missing.

    Where that cannot be used, it is one in the system's temporary folder. Where that cannot be used either, because
    somebody else made it, it is a new folder that is deleted when this process ends. The job's first rank then prints
    a warning, once.

    make: whether to create a folder that is missing; False is for looking at a file that may not be there.

    Raises OutputError if no folder can be created at all.
    """
    whys: list[str] = []
    try:
        for root in (cache_root(), Path(tempfile.gettempdir()).resolve() / _own_name()):
            why = _why_unusable(root, parts, make)
            if not why:
                if whys:
                    _warn(f"compiled code and measurements are stored in {root}, because {whys[0]}.")
                return root.joinpath(*parts)
            whys.append(why)
        folder = _folder_of_this_process().joinpath(*parts)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        because = "".join(f"{why}, and " for why in whys)
        raise OutputError(
            f"there is no folder for compiled code and measurements: {because}{error}. "
            f"Set RIDGELINE_CACHE_DIR to a folder that belongs to you and that you may write to."
        ) from None
    _warn(f"compiled code and measurements are not stored after this run, because {' and '.join(whys)}.")
    return folder


def _own_name() -> str:
    return f"ridgeline-{os.geteuid()}"


@cache
def _folder_of_this_process() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _why_unusable(root: Path, parts: tuple[str, ...], make: bool) -> str:
    """Return why root/part/part cannot be used, "" if it can. make: create what is missing, for this user alone."""
    folder = root
    try:
        if make:
            root.parent.mkdir(parents=True, exist_ok=True)
        elif not root.exists() and not root.is_symlink():
            return ""
        # The folder above must not let somebody else rename what lies in it. The group of a folder that this user
        # owns is trusted: where every user has a group, ~/.cache is open to it.
        parent, why = root.parent, ""
        facts = parent.stat()
        others = stat.S_IWOTH if facts.st_uid == os.geteuid() else _OTHERS
        if facts.st_uid not in (os.geteuid(), 0):
            why = f"{parent} belongs to another user"
        elif facts.st_mode & others and not facts.st_mode & stat.S_ISVTX:
            why = f"other users can replace files in {parent}"
        for part in ("", *parts):
            if why:  # nothing is made in a folder of somebody else
                return why
            folder = folder / part
            if make:
                folder.mkdir(mode=0o700, exist_ok=True)
            elif not folder.exists() and not folder.is_symlink():
                return ""
            why = why_not_private(folder)
        if make and not why and not os.access(folder, os.W_OK | os.X_OK):
            why = f"you may not write to {folder}"
    except OSError as error:
        why = f"{folder} cannot be {'created' if make else 'used'} ({error.strerror})"
    return why


def why_not_private(folder: Path) -> str:
    """Return why somebody else may have put something into a folder, "" if nobody can.

    The owner of a link can redirect it after the check, so the link and what it points to must both be this user's.
    """
    facts = folder.stat()
    if {facts.st_uid, folder.lstat().st_uid} != {os.geteuid()}:
        return f"{folder} belongs to another user"
    return f"other users can write to {folder}" if facts.st_mode & _OTHERS else ""


@cache
def _warn(text: str) -> None:
    """Print a warning once, on one rank, before there is a communicator."""
    if may_print():
        sys.stderr.write(f"warning: {text} Set RIDGELINE_CACHE_DIR to use another folder.\n")


def open_kept(file: str | Path, flags: int) -> int:
    """Open a file of the cache and return its descriptor: the `opener` of `open`. A new file has mode 0600.

    flags: those of os.open. Raises OSError, also for a file that is not trusted.
    """
    descriptor = open_regular(file, flags)
    facts = os.fstat(descriptor)
    why = ""
    if facts.st_uid not in (os.geteuid(), 0):
        why = "the file belongs to another user"
    elif facts.st_mode & _OTHERS:
        why = "other users can write to the file"
    if why:
        os.close(descriptor)
        raise OSError(errno.EPERM, why, str(file))
    return descriptor


def read_kept_bytes(file: Path) -> bytes:
    """Return the content of a file of the cache. Raises OSError; FileNotFoundError if there is none."""
    with open(file, "rb", opener=open_kept) as opened:
        return opened.read()


def read_kept(file: Path) -> bytes | None:
    """Return the content of a file of measurements; None if there is none, or with a warning if it is unreadable."""
    try:
        return read_kept_bytes(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "the file is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        _remark(f"cannot read {file}: {why}. Its measurements are repeated.")
        return None


def read_kept_table(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of measurements; {} if there is none, or with a warning if it is damaged."""
    content = read_kept(file)
    if content is None:
        return {}
    try:
        table = json.loads(content)
    except (ValueError, RecursionError):
        table = None
    if isinstance(table, dict):
        return table
    remark_damage(file)
    return {}


def remark_damage(file: Path) -> None:
    """Warn, once, that a file of measurements is damaged."""
    _remark(f"{file} is damaged. Its measurements are repeated.")


def write_kept(file: Path, content: bytes) -> None:
    """Write a file of measurements, whole or not at all; warn if it cannot be written."""
    try:
        replace_file(file, content)
    except OSError as error:
        _remark(
            f"cannot store measurements in {file}: {error.strerror}. Set RIDGELINE_CACHE_DIR to use another folder."
        )


@cache
def _remark(text: str) -> None:
    log.warning("%s", text)
