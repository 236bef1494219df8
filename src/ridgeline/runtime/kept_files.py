"""Files that are kept between runs in the user's cache: measurements, choices, kernels, locks and marks.

Such a file counts only if it is a regular file of this user, or of root, that nobody else can write. Links are not
followed and pipes are not waited for, because somebody may have put them there while the folder was open to others.
A file that is damaged or cannot be read counts as missing, and costs a remark and the time to measure again.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from functools import cache
from pathlib import Path
from typing import Any

from ridgeline.runtime.files import open_regular, replace_file

log = logging.getLogger(__name__)


def open_kept(file: str | Path, flags: int) -> int:
    """Return the descriptor of a file that is kept, for `open`. Raises OSError, also where the file is not trusted.

    flags: as of os.open. A new file has mode 0600.
    """
    descriptor = open_regular(file, flags)
    facts = os.fstat(descriptor)
    why = ""
    if facts.st_uid not in (os.geteuid(), 0):
        why = "it belongs to another user"
    elif facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        why = "others can write to it"
    if why:
        os.close(descriptor)
        raise OSError(errno.EPERM, why, str(file))
    return descriptor


def read_kept_bytes(file: Path) -> bytes:
    """Return the content of a file that is kept. Raises OSError; FileNotFoundError if there is none."""
    with open(file, "rb", opener=open_kept) as opened:
        return opened.read()


def read_kept(file: Path) -> bytes | None:
    """Return the content of a file of measurements; None without one, with a remark where it cannot be read."""
    try:
        return read_kept_bytes(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        _remark(f"cannot read {file}: {why}; what it holds is measured again")
        return None


def read_kept_table(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of measurements; {} without one, with a remark where it is damaged."""
    content = read_kept(file)
    if content is None:
        return {}
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    remark_damage(file)
    return {}


def remark_damage(file: Path) -> None:
    """Say, once, that a file of measurements is damaged."""
    _remark(f"{file} is damaged; what it held is measured again")


def write_kept(file: Path, content: bytes) -> None:
    """Write a file of measurements whole or not at all; a remark where it cannot be written."""
    try:
        replace_file(file, content)
    except OSError as error:
        _remark(
            f"cannot keep what was measured in {file}: {error.strerror}; RIDGELINE_CACHE_DIR names another folder"
        )


@cache
def _remark(text: str) -> None:
    log.warning("%s", text)
