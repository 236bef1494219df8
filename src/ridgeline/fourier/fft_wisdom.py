"""What FFTW measured about transforms, kept between runs: its wisdom.

A folder per FFTW version and CPU in the user's cache (RIDGELINE_CACHE_DIR) holds double.wisdom and single.wisdom.
With this folder, planning takes milliseconds, and a resumed run makes the plans of the first one, hence the same
rounding. A damaged file, or a folder that cannot be written, costs a warning and the time to measure again.

The first line of a file of wisdom is a digest of the rest, because FFTW checks the form of wisdom but not its
numbers: one that is out of range ends the process.
"""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

from ridgeline.fourier.fft import describe, export_wisdom, import_wisdom
from ridgeline.runtime.machine import cpu_name
from ridgeline.runtime.user_cache import private_folder, read_kept, remark_damage, write_kept


def wisdom_folder() -> Path:
    """Return the folder for this library version and this CPU, which is made if it is missing."""
    machine = hashlib.blake2b(f"{platform.machine()} {cpu_name()}".encode(), digest_size=4).hexdigest()
    library = re.sub(r"[^\w.]+", "-", describe().lower()).strip("-")
    return private_folder("fft", f"{library}-{machine}")


def load_wisdom() -> None:
    """Add the folder's wisdom, where there is some, to FFTW's. Not for two threads at once."""
    folder = wisdom_folder()
    for precision in export_wisdom():
        path = folder / f"{precision}.wisdom"
        content = read_kept(path)
        if content is None or content.startswith(b"(fftw-"):  # version 0.1.0 wrote no digest
            continue
        text = content[content.find(b"\n") + 1 :]
        if content != _with_digest(text) or import_wisdom({precision: text}):
            remark_damage(path)


def save_wisdom() -> None:
    """Write FFTW's wisdom, and what others have saved meanwhile, to the folder."""
    load_wisdom()
    for precision, text in export_wisdom().items():
        path, content = wisdom_folder() / f"{precision}.wisdom", _with_digest(text)
        if content != read_kept(path):
            write_kept(path, content)


def _with_digest(wisdom: bytes) -> bytes:
    return hashlib.blake2b(wisdom, digest_size=16).hexdigest().encode() + b"\n" + wisdom
