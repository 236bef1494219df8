"""Folders for what is kept between runs, which nobody but this user may have put there.

They hold compiled kernels and C, FFTW's wisdom, choices, measured limits and machine files. Numba unpickles the files
of its cache, and a shared library runs when it is loaded, so whoever can write there can run code as the user who
reads. Whoever owns the folder of a measurement can put a link in its place, through which files of this user are
replaced. So a folder is used only if this user owns it, nobody else can write to it, and nobody else can replace it.
Files in it are opened by `runtime.kept_files`.
"""

import atexit
import os
import shutil
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path

from platformdirs import user_cache_dir

from ridgeline.runtime.environment import give_home
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.launcher import may_print

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_root() -> Path:
    """Return the user's cache directory: RIDGELINE_CACHE_DIR, or `ridgeline` below XDG_CACHE_HOME or ~/.cache.

    Where others own it or can write to it, such as a disk that all share, `ridgeline-USERID` in it. Makes nothing.
    Who owns that is left to `private_folder`.
    """
    give_home()
    chosen = os.environ.get("RIDGELINE_CACHE_DIR") or user_cache_dir("ridgeline")
    root = Path(os.path.expanduser(chosen)).resolve()  # a link is followed once, not after the check
    return root / _own_name() if root.is_dir() and why_not_private(root) else root


def private_folder(*parts: str, make: bool = True) -> Path:
    """Return the folder PART/PART in `cache_root`, made with mode 0700 where it is missing.

    Where that cannot be used, it is one in the system's temporary folder. Where that cannot be used either, because
    somebody else made it, it is a new one that is deleted when this process ends. The job's first rank says so, once.

    make: False leaves a folder that is missing so, for a look at a file that may not be there.

    Raises OutputError if no folder can be made at all.
    """
    whys: list[str] = []
    try:
        for root in (cache_root(), Path(tempfile.gettempdir()).resolve() / _own_name()):
            why = _why_unusable(root, parts, make)
            if not why:
                if whys:
                    _warn(f"compiled code and measurements are kept in {root}, because {whys[0]}")
                return root.joinpath(*parts)
            whys.append(why)
        folder = _folder_of_this_process().joinpath(*parts)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        because = "".join(f"{why}; " for why in whys)
        raise OutputError(
            f"there is no folder for compiled code and measurements: {because}{error}; "
            f"set RIDGELINE_CACHE_DIR to a folder of yours that can be written"
        ) from None
    _warn(f"compiled code and measurements are not kept after this run, because {' and '.join(whys)}")
    return folder


def _own_name() -> str:
    return f"ridgeline-{os.geteuid()}"


@cache
def _folder_of_this_process() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _why_unusable(root: Path, parts: tuple[str, ...], make: bool) -> str:
    """Return why root/part/part cannot be used, "" if it can. make: make what is missing, for this user alone."""
    folder = root
    try:
        if make:
            root.parent.mkdir(parents=True, exist_ok=True)
        elif not root.exists() and not root.is_symlink():
            return ""
        why = _why_replaceable(root.parent)
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
            why = f"{folder} cannot be written"
    except OSError as error:
        why = f"{folder} cannot be {'made' if make else 'used'} ({error.strerror})"
    return why


def why_not_private(folder: Path) -> str:
    """Return why somebody else may have put something into a folder, "" if nobody can.

    Whoever owns a link can turn it after the check, so the link and what it points to must both be this user's.
    """
    facts = folder.stat()
    if {facts.st_uid, folder.lstat().st_uid} != {os.geteuid()}:
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
    if may_print():
        sys.stderr.write(f"warning: {text}; RIDGELINE_CACHE_DIR names another folder\n")
