"""Folders for what is run later: compiled kernels and C, which nobody but this user may have put there.

Numba unpickles the files of its cache, and a shared library runs when it is loaded. Whoever can write there can run
code as the user who reads. So a folder is used only if this user owns it, nobody else can write to it, and nobody
else can replace it.
"""

import atexit
import os
import shutil
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path

from ridgeline.runtime.environment import give_home
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.launcher import speaks

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_root() -> Path:
    """Return the user's cache directory: RIDGELINE_CACHE_DIR, or `ridgeline` below XDG_CACHE_HOME or ~/.cache.

    Where others own it or can write to it, such as a disk that all share, `ridgeline-USERID` in it. Makes nothing.
    """
    chosen, base = os.environ.get("RIDGELINE_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    give_home()
    root = Path(chosen or os.path.join(base or "~/.cache", "ridgeline"))
    root = Path(os.path.expanduser(root)).resolve()  # a link is followed once, and not again after the check
    return root / _own_name() if root.is_dir() and why_not_private(root) else root


def private_folder(*parts: str) -> Path:
    """Return the folder PART/PART in `cache_root`, made with mode 0700 where it is missing, for what is run later.

    Where that cannot be used, it is one in the system's temporary folder. Where that cannot be used either, because
    somebody else made it, it is a new one that is deleted when this process ends. The job's first rank says so, once.

    Raises OutputError if no folder can be made at all.
    """
    whys: list[str] = []
    try:
        for root in (cache_root(), (Path(tempfile.gettempdir()) / _own_name()).resolve()):
            why = _make(root, parts)
            if not why:
                if whys:
                    _warn(f"what is compiled is kept in {root}, because {whys[0]}")
                return root.joinpath(*parts)
            whys.append(why)
        folder = Path(tempfile.mkdtemp(prefix="ridgeline-"))
    except OSError as error:
        because = "".join(f"{why}; " for why in whys)
        raise OutputError(
            f"there is no folder to compile into: {because}{error}; "
            f"set RIDGELINE_CACHE_DIR to a folder of yours that can be written"
        ) from None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _warn(f"what is compiled is not kept after this run, because {' and '.join(whys)}")
    return folder


def _own_name() -> str:
    return f"ridgeline-{os.geteuid()}"


def _make(root: Path, parts: tuple[str, ...]) -> str:
    """Make root/part/part, each for this user alone; return why that cannot be used, "" if it can."""
    folder = root
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        why = _why_replaceable(root.parent)
        for part in ("", *parts):
            folder = folder / part
            folder.mkdir(mode=0o700, exist_ok=True)
            why = why or why_not_private(folder)
        if not why and not os.access(folder, os.W_OK | os.X_OK):
            why = f"{folder} cannot be written"
    except OSError as error:
        why = f"{folder} cannot be made ({error.strerror})"
    return why


def why_not_private(folder: Path) -> str:
    """Return why somebody else may have put something into a folder, "" if nobody can."""
    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        return f"{folder} belongs to another user"
    return f"others can write to {folder}" if facts.st_mode & _OTHERS else ""


def _why_replaceable(parent: Path) -> str:
    """Return why somebody else may rename what lies in a folder, "" if only this user and root may.

    The group of a folder of this user's own is trusted: where every user has a group, ~/.cache is open to it.
    """
    facts = parent.stat()
    if facts.st_uid not in (os.geteuid(), 0):
        return f"{parent} belongs to another user"
    others = stat.S_IWOTH if facts.st_uid == os.geteuid() else _OTHERS
    if facts.st_mode & others and not facts.st_mode & stat.S_ISVTX:
        return f"others can replace what lies in {parent}"
    return ""


@cache
def _warn(text: str) -> None:
    """Say something once, on one rank, before there is a communicator."""
    if speaks():
        sys.stderr.write(f"warning: {text}; RIDGELINE_CACHE_DIR names another folder\n")
