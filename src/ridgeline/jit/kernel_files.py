"""Numba's cache files with a digest at their end, and each kernel with its key. Imports Numba.

A disk that was full, a node that lost power or a stray write leave half a file, or another one. Numba would fail at
it in every run until somebody deletes it, or run what is in it. With the digest a damaged file counts as missing: the
kernel is compiled again and replaces it.

Numba numbers the files of a function's kernels when it writes them. Processes that write two at once may give both
the same number. With the key in the file, the one that lost it compiles it again, and never runs the other's kernel.
"""

import hashlib
import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from numba.core import caching as caching_of_cpus

log = logging.getLogger(__name__)
_DIGEST = 16  # bytes


def check_kernel_files(caching: Any = caching_of_cpus) -> None:
    """Let every function that is compiled after this read and write checked files.

    caching: the module that keeps kernels, of Numba or of numba-cuda.
    """
    if not hasattr(caching.IndexDataCacheFile, "checks_key"):
        caching.IndexDataCacheFile = checked(caching.IndexDataCacheFile)


def checked(files: Any) -> Any:
    """Return `IndexDataCacheFile` of Numba or numba-cuda with keys in the files of kernels, and digests after all."""

    class CheckedFiles(files):  # type: ignore[misc]  # Numba has no types
        """The index and the kernels of one function on disk."""

        def save(self, key: Any, data: Any) -> None:
            """Keep a kernel; where the disk takes no more, say so and go on with the kernel in memory."""
            try:
                super().save(key, (key, data))
            except OSError as error:
                _say_not_kept(os.path.dirname(self._cache_path), error.strerror or str(error))

        def load(self, key: Any) -> Any:
            """Return the kernel of a key, if there is one; give up a number that has become another kernel's."""
            kept = super().load(key)
            if kept is None:
                return None
            if self.checks_key(key, kept):
                return kept[1]
            with suppress(OSError):  # a cache that cannot be written
                self._save_index({other: name for other, name in self._load_index().items() if other != key})
            return None

        @staticmethod
        def checks_key(key: Any, kept: Any) -> bool:
            """Say whether a file holds the kernel of a key."""
            return isinstance(kept, tuple) and len(kept) == 2 and kept[0] == key

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

    return CheckedFiles


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
