"""The folders of the kernel cache: the one of this user, and the one that a centre fills once for all users.

The user's own folder is read and written, and must be private (`runtime.user_cache`). The shared folder is only read,
before the own one. Kernels are loaded and run unchecked, so a shared folder counts only if nobody but root and the
owner of this installation, whose code this process runs anyway, can have put something there: they own the folder,
the folders above it and each file, and no others may write to these. Any process whose NUMBA_CACHE_DIR names the
shared folder fills it.

Ids that this machine cannot name, as behind a file system or a container that maps users, all look like one owner,
who is never trusted.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from ridgeline.runtime.files import open_regular
from ridgeline.runtime.launcher import may_print
from ridgeline.runtime.user_cache import open_kept, private_folder

log = logging.getLogger(__name__)

SHARED_VARIABLE = "RIDGELINE_SHARED_KERNELS"
SUFFIX = ".kernel"
KEPT_SECONDS = 30 * 86400.0  # since a kernel was used last
KEPT_BYTES = 2 * 1024**3  # of all kernels
DAY = 86400.0

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


# ---- the user's own folder ----


def kernel_folder() -> Path:
    """Return the folder that kernels are kept in; create it if it is missing.

    NUMBA_CACHE_DIR, if set, is used without a check of who can write there. Otherwise it is `kernels` in the user's
    cache (`user_cache.private_folder`), in which kernels that have not been used for long are deleted.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen)
    return _own_folder(*map(os.environ.get, ("RIDGELINE_CACHE_DIR", "XDG_CACHE_HOME")))


@cache
def _own_folder(*environment: str | None) -> Path:
    folder = private_folder("kernels")
    if may_print():
        delete_old_kernels(folder)
    return folder


def delete_old_kernels(folder: Path) -> None:
    """Delete, once a day, kernels not used for 30 days and, beyond 2 GiB, those that were used longest ago.

    Folders of earlier versions are deleted after 30 days too. A process that is about to load a deleted kernel
    compiles it again.
    """
    mark, now = folder / "cleaned", time.time()
    with suppress(OSError):
        if mark.is_file() and now - mark.stat().st_mtime < DAY:
            return
        with open(mark, "ab", opener=open_kept) as file:
            os.utime(file.fileno())
        paths = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
        facts = {path: path.lstat() for path in paths if path != mark}
        total = 0
        for path in sorted(facts, key=lambda path: facts[path].st_mtime, reverse=True):
            total += facts[path].st_size
            is_kernel = path.suffix == SUFFIX
            may_go = is_kernel or path.suffix == ".new" or path.parent != folder
            if may_go and (now - facts[path].st_mtime > KEPT_SECONDS or (is_kernel and total > KEPT_BYTES)):
                path.unlink(missing_ok=True)
        for parent, folders, _ in os.walk(folder, topdown=False):
            for name in folders:
                with suppress(OSError):  # it is not empty
                    Path(parent, name).rmdir()


# ---- the shared folder ----


def shared_folder() -> tuple[Path, str]:
    """Return the folder of shared kernels and why it is not used, "" if it is: "it does not exist", for example.

    It is RIDGELINE_SHARED_KERNELS, or `share/ridgeline/kernels` of this Python environment.
    """
    chosen = os.environ.get(SHARED_VARIABLE) or Path(sys.prefix, "share", "ridgeline", "kernels")
    return _shared_folder(Path(chosen))


@cache
def _shared_folder(chosen: Path) -> tuple[Path, str]:
    try:
        # Links are followed once, not after the check.
        folder = chosen.expanduser().resolve(strict=True)
        if not folder.is_dir():
            return folder, "it is not a folder"
        owners = _trusted_owners()
        for part in (folder, *folder.parents):
            facts = part.stat()
            # In a folder such as /tmp others can add names, but not replace those of a trusted owner.
            sticky = part != folder and facts.st_mode & stat.S_ISVTX
            if facts.st_uid not in owners:
                return folder, f"{part} belongs neither to root nor to the owner of this installation"
            if facts.st_mode & _OTHERS and not sticky:
                return folder, f"other users can write to {part}"
    except FileNotFoundError:
        return chosen, "it does not exist"
    except (OSError, RuntimeError) as error:  # RuntimeError: no home for ~
        return chosen, f"it cannot be read ({getattr(error, 'strerror', None) or error})"
    return folder, ""


@cache
def _trusted_owners() -> frozenset[int]:
    """Return root and the owner of this installation."""
    unknown = 65534
    with suppress(OSError, ValueError):
        unknown = int(Path("/proc/sys/kernel/overflowuid").read_text())
    return frozenset({0, Path(__file__).stat().st_uid} - {unknown, 65534})


def read_shared(name: str) -> bytes | None:
    """Return the content of a file of the shared folder; None if there is none that is trusted.

    A folder or a file that is there and not trusted costs a warning, and so does a folder that the environment names.
    """
    folder, why = shared_folder()
    if why:
        if os.environ.get(SHARED_VARIABLE) or folder.exists():
            warn_of_shared(f"shared kernels in {folder}", why)
        return None
    try:
        with open(folder / name, "rb", opener=_open_shared) as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        warn_of_shared(f"some shared kernels in {folder}", error.strerror or str(error))
        return None


def _open_shared(file: str, flags: int) -> int:
    """Open a file of the shared folder: the `opener` of `open`. Raises OSError for one that is not trusted."""
    descriptor = open_regular(file, flags)
    facts = os.fstat(descriptor)
    why = ""
    if facts.st_uid not in _trusted_owners():
        why = "they belong neither to root nor to the owner of this installation"
    elif facts.st_mode & _OTHERS:
        why = "other users can write to them"
    if why:
        os.close(descriptor)
        raise OSError(errno.EPERM, why, file)
    return descriptor


@cache  # once is enough; the log of ranks other than the first is silent
def warn_of_shared(kernels: str, why: str) -> None:
    """Warn that shared kernels are not used, and are compiled into the user's own folder if they are needed."""
    log.warning("%s are not used: %s.", kernels, why)
