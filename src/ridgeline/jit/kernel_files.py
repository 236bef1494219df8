"""Numba's cache files with a digest at their end. Imports Numba.

A disk that was full, a node that lost power or a stray write leave half a file, or another one. Numba would fail at
it in every run until somebody deletes it, or run what is in it. With the digest a damaged file counts as missing: the
kernel is compiled again and replaces it.
"""

import hashlib
import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from numba.core import caching

log = logging.getLogger(__name__)
_DIGEST = 16  # bytes


def check_kernel_files() -> None:
    """Let every function that is compiled after this read and write checked files."""
    caching.IndexDataCacheFile = CheckedFiles


class CheckedFiles(caching.IndexDataCacheFile):  # type: ignore[misc]  # Numba has no types
    """The index and the kernels of one function on disk; the same layout as Numba's, and a digest after it."""

    def save(self, key: Any, data: Any) -> None:
        """Keep a kernel; where the disk takes no more, say so and go on with the kernel in memory."""
        try:
            super().save(key, data)
        except OSError as error:
            _say_not_kept(os.path.dirname(self._cache_path), error.strerror or str(error))

    def _load_index(self) -> dict[Any, str]:
        return super()._load_index() if _intact(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        if not _intact(self._data_path(name)):
            raise FileNotFoundError(name)  # which Numba takes for a kernel that is yet to be compiled
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + _digest(content.getvalue()))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


def _intact(path: str) -> bool:
    """Say whether a file is there, whole."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return False
    except OSError as error:
        _say_damaged(_cache_of(path), f"cannot be read ({error.strerror})")
        return False
    if _digest(content[:-_DIGEST]) != content[-_DIGEST:]:
        _say_damaged(_cache_of(path), "are damaged")
        return False
    return True


def _cache_of(path: str) -> str:
    """Return the cache of a file, which has a folder for each source file."""
    return os.path.dirname(os.path.dirname(path))


# Once is enough; ranks other than the first are silent.
@cache
def _say_damaged(folder: str, what: str) -> None:
    log.warning("compiled kernels in %s %s; they are compiled again", folder, what)


@cache
def _say_not_kept(folder: str, why: str) -> None:
    log.warning("compiled kernels cannot be kept in %s (%s); the next run compiles them again", folder, why)
