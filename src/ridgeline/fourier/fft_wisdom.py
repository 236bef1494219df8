"""What was measured about transforms, kept between runs: FFTW's wisdom, and choices between ways to compute.

A folder per FFTW version and CPU in the user's cache (RIDGELINE_CACHE_DIR) holds double.wisdom, single.wisdom and
choices.json. The last says which way is taken, and the seconds of each that was timed. With this folder, planning
takes milliseconds, and a resumed run makes the plans of the first one, hence the same rounding. Files are replaced
whole, so that a run that reads while another writes sees the old or the new one. A damaged file, or a folder that
cannot be written, costs a remark and the time to measure anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import re
from pathlib import Path
from typing import Any

from ridgeline.fourier.fft import describe, export_wisdom, import_wisdom
from ridgeline.fourier.tuning import Trial
from ridgeline.runtime.files import replace_file
from ridgeline.runtime.machine import cpu_name
from ridgeline.runtime.private_folder import cache_root

log = logging.getLogger(__name__)


def wisdom_folder() -> Path:
    """Return the folder for this library version and this CPU; it need not exist."""
    machine = hashlib.blake2b(f"{platform.machine()} {cpu_name()}".encode(), digest_size=4).hexdigest()
    library = re.sub(r"[^\w.]+", "-", describe().lower()).strip("-")
    return cache_root() / "fft" / f"{library}-{machine}"


def load_wisdom() -> None:
    """Add the folder's wisdom, where there is some, to FFTW's. Not for two threads at once."""
    folder = wisdom_folder()
    for precision in export_wisdom():
        path = folder / f"{precision}.wisdom"
        text = _read(path)
        if text is not None and import_wisdom({precision: text}):
            log.warning("FFTW does not take the wisdom in %s (damaged?); plans are measured anew", path)


def save_wisdom() -> None:
    """Write FFTW's wisdom, and what others have saved meanwhile, to the folder."""
    load_wisdom()
    for precision, text in export_wisdom().items():
        path = wisdom_folder() / f"{precision}.wisdom"
        if text != _read(path):
            _replace(path, text)


def remembered_trial(key: str) -> Trial | None:
    """Return what `remember_trial` was last told about `key` on this CPU, None if nothing."""
    found: Any = _choices().get(key)
    if isinstance(found, str):  # as kept by versions that did not keep the seconds
        return Trial(found, {}, earlier_run=True)
    try:
        seconds = {
            str(way): {str(part): float(each) for part, each in parts.items()}
            for way, parts in found["seconds"].items()
        }
        return Trial(str(found["taken"]), seconds, earlier_run=True)
    except (TypeError, KeyError, AttributeError, ValueError):
        return None


def remember_trial(key: str, trial: Trial) -> None:
    """Keep the choice, and the seconds that it rests on, for later runs."""
    kept = {"taken": trial.taken, "seconds": trial.seconds}
    text = json.dumps(_choices() | {key: kept}, indent=0, sort_keys=True)
    _replace(wisdom_folder() / "choices.json", text.encode())


def _choices() -> dict[str, Any]:
    path = wisdom_folder() / "choices.json"
    text = _read(path)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        log.warning("%s is damaged; what it remembered is measured anew", path)
        return {}
    return found


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("cannot read %s: %s; plans are measured anew", path, error.strerror)
        return None


def _replace(path: Path, content: bytes) -> None:
    """Write the file whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        log.warning(
            "cannot keep what was measured in %s: %s; RIDGELINE_CACHE_DIR names another folder",
            path,
            error.strerror,
        )
