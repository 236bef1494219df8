"""Where compiled kernels are kept between runs.

Numba's own key holds the text of one function and its file's time stamp, but not the helpers that it calls
from other files. So the directory carries the rest: a digest of the package's sources, the CPU and the
versions. A stale kernel is impossible, concurrent ranks share one directory, and clusters with mixed nodes
or a home on a network file system set RIDGELINE_CACHE_DIR to a local disk.
"""

import fcntl
import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from ridgeline.runtime.machine import cpu_name


def cache_root() -> Path:
    """Return the user's cache directory: RIDGELINE_CACHE_DIR, or `ridgeline` below XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("RIDGELINE_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path("~/.cache").expanduser()) / "ridgeline"


# Packages whose code is never compiled into a kernel: editing them keeps the kernels.
_NEVER_COMPILED = {"analysis", "cli", "config", "driver", "io", "perf", "runtime"}


def source_digest() -> str:
    """Return a digest of the package's sources that kernels are, or may be, made of."""
    package = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in _NEVER_COMPILED:
            continue
        digest.update(str(path.relative_to(package)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kernel_cache() -> Path:
    """Return the directory of kernels compiled from these sources, for this CPU and these versions."""
    machine = hashlib.blake2b(f"{platform.machine()} {cpu_name()}".encode(), digest_size=4).hexdigest()
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return cache_root() / "kernels" / f"{python}-numba{version('numba')}-{machine}-{source_digest()}"


def configure_kernel_cache() -> Path:
    """Point Numba at the kernel cache and return it. Call before Numba is imported.

    NUMBA_CACHE_DIR, if set, wins. A root that cannot be written is replaced by a temporary directory, so that
    the run goes on, compiling anew.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    path = kernel_cache()
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(path)
    except OSError:
        path = Path(tempfile.gettempdir()) / f"ridgeline-{os.getuid()}" / "kernels" / path.name
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.environ["NUMBA_CACHE_DIR"] = str(path)
    return path


@contextmanager
def sole_compiler() -> Iterator[None]:
    """Keep the other runs of this host from compiling into the kernel cache meanwhile.

    Numba numbers the files of a function's kernels when it writes them: two runs that compile it for two
    precisions at once would give both the same number, and one would load the other's kernel ever after. Hosts
    that share a cache are not kept apart; RIDGELINE_CACHE_DIR gives each its own. Without a cache that can be
    locked nothing is kept. No communication: waits for other processes only.
    """
    with ExitStack() as stack:
        folder = os.environ.get("NUMBA_CACHE_DIR")
        if folder:
            with suppress(OSError):
                file = stack.enter_context((Path(folder) / f"{platform.node()}.lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
        yield
