"""Memory in small pages of a few KiB or in huge pages of 2 MiB, and which of them Linux gave.

NumPy advises huge pages for arrays of 4 MiB and more, malloc of C does not. Messages through huge pages are faster,
so that a benchmark must choose and name them.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Pages = Literal["default", "huge", "small"]
HUGE_PAGE = 2 * 2**20  # bytes, on x86-64 and on ARM with base pages of 4 KiB
_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SMAPS = Path("/proc/self/smaps")
_ADVICE = {"huge": "MADV_HUGEPAGE", "small": "MADV_NOHUGEPAGE"}


def paged_zeros(n_bytes: int, pages: Pages = "default") -> NDArray[np.uint8]:
    """Return zeros, uint8 [n_bytes, at least 1], in pages of this size; "default" leaves the choice to NumPy.

    Pages of a chosen size are touched. Raises ConfigError where Linux does not offer them.
    """
    size = max(n_bytes, 1)
    if pages == "default":
        return np.zeros(size, np.uint8)
    if pages == "huge" and not _huge_pages_enabled():
        raise ConfigError(
            f"--pages huge requires transparent huge pages, which this system does not offer ({_ENABLED}). Use "
            "--pages small."
        )
    advice = getattr(mmap, _ADVICE[pages], None)
    # Whole huge pages, and one more so that the first can begin at its multiple.
    length = -(-size // HUGE_PAGE) * HUGE_PAGE + HUGE_PAGE
    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        if advice is not None:
            memory.madvise(advice)
        elif pages == "huge":
            raise OSError("Python knows no such advice on this system")
    except OSError as error:
        if pages == "huge":
            raise ConfigError(
                f"--pages huge is not possible, because the system refuses the advice: {error}. Use --pages small."
            ) from None
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.ctypes.data % HUGE_PAGE
    array = whole[start : start + size]
    array[:] = 0
    return array


def huge_share(array: NDArray[np.uint8]) -> float | None:
    """Return the share of huge pages in the resident memory of the mapping that holds the array's last byte.

    None where Linux does not tell.
    """
    address = array.ctypes.data + array.nbytes - 1
    inside, resident = False, 0
    try:
        for line in _SMAPS.read_text().splitlines():
            key, _, rest = line.partition(" ")
            if not key.endswith(":"):
                first, _, last = key.partition("-")
                inside = int(first, 16) <= address < int(last, 16)
            elif inside and key == "Rss:":
                resident = int(rest.split()[0])
            elif inside and key == "AnonHugePages:":
                return int(rest.split()[0]) / resident if resident else 0.0
    except (OSError, ValueError, IndexError):
        return None
    return None


def _huge_pages_enabled() -> bool:
    """Return whether a program may have huge pages, by advice or always."""
    try:
        return "[never]" not in _ENABLED.read_text()
    except OSError:
        return False
