"""Kernel caches of sources, machines and versions that nobody uses any more: marked while in use, deleted later."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from ridgeline.runtime.private_folder import why_not_private

KEPT = 20  # of the caches used last
KEPT_SECONDS = 30 * 86400.0  # since a cache was used last
_NAME = re.compile(r"py\d+-numba.*-(checked|keyed)")
_REMAINS = ".deleted-"  # what a process was killed over while it deleted it begins so
_MARK = "in-use"


def mark_in_use(folder: Path) -> bool:
    """Keep a cache from being deleted until this process ends, and note when it was used; say whether it is there.

    False: another process has just deleted it, and it must be made again. Where files cannot be locked nothing is
    ever deleted.
    """
    try:
        mark = os.open(folder / _MARK, os.O_RDWR | os.O_CREAT, 0o600)  # open, and so locked, to the end
    except FileNotFoundError:
        return False
    except OSError:
        return True
    with suppress(OSError):
        fcntl.flock(mark, fcntl.LOCK_SH)
        os.utime(mark)
    try:
        return os.path.samestat(os.fstat(mark), (folder / _MARK).stat())
    except FileNotFoundError:
        os.close(mark)
        return False


def delete_old_kernels(folder: Path) -> None:
    """Delete the caches below `folder` that are not in use, unless they are among the last ones used.

    It keeps those used in the last 30 days, at most the 20 used last. Those of versions that made no mark are kept
    for 30 days. Only folders of this user alone are touched, and nothing is said: what is missing is compiled again.
    """
    with suppress(OSError):
        for remains in folder.glob(f"{_REMAINS}*"):
            shutil.rmtree(remains, ignore_errors=True)
        caches = [path for path in folder.iterdir() if _NAME.fullmatch(path.name) and _is_ours(path)]
        last_used = {cache: _last_used(cache) for cache in caches}
        marked = [cache for cache in caches if (cache / _MARK).exists()]
        kept = sorted(marked, key=last_used.__getitem__, reverse=True)[:KEPT]
        oldest = time.time() - KEPT_SECONDS
        for cache in caches:
            if last_used[cache] < oldest or (cache in marked and cache not in kept):
                _delete(cache)


def _is_ours(path: Path) -> bool:
    """Say whether this is a folder, no link, that only this user can write to."""
    return path.is_dir() and not path.is_symlink() and not why_not_private(path)


def _last_used(cache: Path) -> float:
    """Return when a cache was used last; one that was never marked, when it was last written to."""
    try:
        return (cache / _MARK).stat().st_mtime
    except OSError:
        return cache.stat().st_mtime


def _delete(cache: Path) -> None:
    """Delete a cache unless a process uses it: at once for who looks for it, then file by file."""
    remains = cache.with_name(f"{_REMAINS}{os.getpid()}-{cache.name}")
    with suppress(OSError):
        mark = os.open(cache / _MARK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            cache.rename(remains)
        finally:
            os.close(mark)
        shutil.rmtree(remains, ignore_errors=True)
