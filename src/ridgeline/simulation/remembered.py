"""Measured rates of this machine that jobs keep for each other: a file for each, with the time it was measured.

What is measured in seconds at every run costs more than many runs take. So the rates that change little are taken
from an earlier job, if it is younger than KEPT_SECONDS. That job had the same host, processors, ranks and threads.
What was measured while others used the node is not kept, since it may be far too low. Rank 0 reads and writes, into
the user's private folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.parallel.layout import busiest_share
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import DAMAGED
from ridgeline.runtime.node_load import MOST_OTHERS, Reading
from ridgeline.runtime.user_cache import private_folder, read_kept_table, write_kept

if TYPE_CHECKING:
    from mpi4py import MPI

KEPT_SECONDS = 86400.0  # a day
FOLDER = "limits"

Rates = dict[str, float]


@dataclass(frozen=True)
class Remembered:
    """Rates, their age in seconds (0: of this run), and the share of the node that others used meanwhile."""

    rates: Rates
    age: float
    others_share: float


def remembered(
    comm: MPI.Comm,
    key: Mapping[str, Any],
    measure: Callable[[], Rates],
    since: Reading | None,
    fresh: bool = False,
) -> Remembered:
    """Return the rates of a key, of an earlier job or measured now. Collective, the same on all ranks.

    key: what they depend on, as JSON holds it; that of rank 0 counts. measure: collective, the same on all ranks.
    since: a look at this rank's node some time before, from which on others count. fresh: measure in any case.
    A file that is damaged, of another key, too old or of the future is as none.
    """
    kept: Remembered | None = comm.bcast(_read(key) if comm.rank == 0 and not fresh else None)
    if kept is not None:
        return kept
    found = Remembered(measure(), 0.0, busiest_share(comm, since))
    if comm.rank == 0 and found.others_share <= MOST_OTHERS:
        _write(key, found)
    return found


def _file(key: Mapping[str, Any]) -> Path:
    """Return where the rates of a key are. Raises OutputError if there is no private folder."""
    text = json.dumps(key, sort_keys=True)
    return private_folder(FOLDER) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _read(key: Mapping[str, Any]) -> Remembered | None:
    try:
        content = read_kept_table(_file(key))
        age, others = time.time() - float(content["measured"]), float(content["others_share"])
        rates = {str(name): float(rate) for name, rate in content["rates"].items()}
        is_ours = content["key"] == json.loads(json.dumps(key))
    except (OutputError, *DAMAGED):
        return None
    whole = rates and all(math.isfinite(rate) and rate > 0 for rate in rates.values())
    good = is_ours and whole and 0 <= others <= MOST_OTHERS and 0 <= age <= KEPT_SECONDS
    return Remembered(rates, age, others) if good else None


def _write(key: Mapping[str, Any], found: Remembered) -> None:
    """Keep rates, and delete the files that are too old. What cannot be kept is measured again."""
    with suppress(OSError, OutputError):
        file = _file(key)
        content = {"key": key, "measured": time.time()} | asdict(found)
        write_kept(file, json.dumps(content, indent=1).encode())
        oldest = time.time() - KEPT_SECONDS
        for other in file.parent.glob("*.json"):
            if other.stat().st_mtime < oldest:
                other.unlink()
