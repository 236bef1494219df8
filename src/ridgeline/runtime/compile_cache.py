"""Where compiled kernels are kept between runs.

Numba's own key holds the text of one function and its file's time stamp, but not the helpers that it calls from
other files. So the directory carries the rest: a digest of the sources that reach the compiler, the CPU and the
versions. A width of vectors that was chosen is part of it too. A stale kernel is impossible, and concurrent ranks
share one directory. Clusters with mixed nodes or a home on a network file system set RIDGELINE_CACHE_DIR to a local
disk. Which folders are trusted with what will be run is said in `private_folder`.
"""

import fcntl
import hashlib
import logging
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO

from ridgeline.runtime.compiled_sources import compiled_sources
from ridgeline.runtime.launcher import speaks
from ridgeline.runtime.machine import VECTOR_BYTES_VARIABLE, cpu_name
from ridgeline.runtime.old_kernels import delete_old_kernels, mark_in_use
from ridgeline.runtime.private_folder import private_folder
from ridgeline.runtime.signals import stops_at_once

log = logging.getLogger(__name__)
_POLL = 0.05  # seconds between two looks at a lock that another process holds
_SILENT = 2.0  # seconds of waiting before it is said what for


def source_digest(package: Path | None = None) -> str:
    """Return a digest of the sources that reach the compiler, of this package unless another folder is given."""
    package = Path(__file__).parents[1] if package is None else package
    digest = hashlib.blake2b(digest_size=8)
    for path, text in compiled_sources(package).items():
        digest.update(f"{path.relative_to(package)} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


def configure_kernel_cache() -> Path:
    """Point Numba at the kernel cache of these sources, this CPU and these versions, and return it.

    Call before Numba is imported. NUMBA_CACHE_DIR, if set, wins, and is the caller's to answer for. What the cache
    holds is run: see `private_folder` for which folder is taken, and `kernel_files` for what is damaged. The cache is
    kept while this process lives; the job's first rank deletes old ones (see `old_kernels`).
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        path = Path(chosen)
    else:
        about = f"{platform.machine()} {cpu_name()} {os.environ.get(VECTOR_BYTES_VARIABLE, '')}"
        machine = hashlib.blake2b(about.encode(), digest_size=4).hexdigest()
        python = f"py{sys.version_info.major}{sys.version_info.minor}"
        name = f"{python}-numba{version('numba')}-{machine}-{source_digest()}-keyed"
        path = private_folder("kernels", name)
        if not mark_in_use(path):  # it was deleted as an old one at this moment
            path = private_folder("kernels", name)
            mark_in_use(path)
        if path.name == name and speaks():
            delete_old_kernels(path.parent)
        os.environ["NUMBA_CACHE_DIR"] = str(path)
    return path


@contextmanager
def sole_compiler() -> Iterator[None]:
    """Keep the other runs of this host from compiling into the kernel cache meanwhile.

    Two runs that start at once would otherwise compile the same kernels together. Hosts that share a cache are not
    kept apart; RIDGELINE_CACHE_DIR gives each its own. Without a cache that can be locked nothing is kept. No
    communication: waits for other processes only, and says for whom after 2 s.

    Raises StoppedError if a stop signal comes before the end of the block.
    """
    with ExitStack() as stack:
        stack.enter_context(stops_at_once())
        folder = os.environ.get("NUMBA_CACHE_DIR")
        if folder:
            with suppress(OSError):
                file = stack.enter_context((Path(folder) / f"{platform.node()}.lock").open("a+"))
                _lock(file)  # until the file is closed
        yield


def _lock(file: IO[str]) -> None:
    """Wait until nobody else holds the lock on a file, and leave this process's number in it."""
    begin, silent = time.monotonic(), True
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(_POLL)
        if silent and time.monotonic() - begin > _SILENT:
            silent = False
            file.seek(0)
            log.warning(
                "waiting for process %s of %s, which compiles into the same kernel cache (lock: %s)",
                file.read().strip() or "(unknown)",
                platform.node(),
                file.name,
            )
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
