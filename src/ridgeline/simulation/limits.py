"""The limits of the machine that a run is compared with: the rates of memory, arithmetic, caches and network.

The memory bandwidth is measured in the same run, with the same ranks and threads. Measuring the other three would
take longer than many runs do, and they change little, so they are taken from an earlier job of the same day if
there was one on the same host and processors with as many ranks and threads (`cached_rates`). They are stored in a
file each in the user's private folder, which rank 0 reads and writes. Rates that were measured while others used the
node are not stored, because they may be far too low.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.limits.messages import measure_message_bandwidth
from ridgeline.limits.peak import best_total, measure_peak_rates
from ridgeline.limits.stream import measure_caches, measure_stream
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.layout import busiest_share, place_on_node
from ridgeline.parallel.payload import memory_for
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import OutputError, RidgelineError
from ridgeline.runtime.files import DAMAGED
from ridgeline.runtime.machine import describe_machine
from ridgeline.runtime.node_load import MOST_OTHERS, Reading, read_load
from ridgeline.runtime.user_cache import private_folder, read_kept_table, write_kept
from ridgeline.version import VERSION

if TYPE_CHECKING:
    from mpi4py import MPI

log = logging.getLogger(__name__)

KEPT_SECONDS = 86400.0  # a day
FOLDER = "limits"
_SHORT_RUN = 1.0  # seconds, for which STREAM runs otherwise
_SHORT_REPEATS = 3
_PEAK_SECONDS, _PEAK_REPEATS = 0.03, 3
_LARGEST_MESSAGE = 4 * 2**20  # bytes

Rates = dict[str, float]


def measure_limits(
    context: Context, message: float = 0.0, run_seconds: float = math.inf, fresh: bool = False
) -> dict[str, Any]:
    """Return the rates that bound the run, of all ranks together.

    The run has ended and only its report is missing, so a failure to measure is a warning and not an error.

    Parameters
    ----------
    message
        The mean size of the run's messages in bytes, 0 for none.
    run_seconds
        What the run took, the same on all ranks. After a run that was shorter than STREAM would be, STREAM is
        repeated less often.
    fresh
        Measure everything now, even if an earlier job stored it.

    Returns
    -------
    dict
        best: B/s of memory, the highest of all kernels and store kinds of a short STREAM; best_name: which one it
        was; peak: FLOP/s by dtype; caches: level, capacity in B and B/s, on CPUs; network: message in B and B/s, if
        there are several ranks; ages: seconds since these three were measured; others_share: the share of a node's
        processors that others used then. If nothing could be measured, {"best": 0.0, "unknown": why}.

    Notes
    -----
    Collective; the result is the same on all ranks.
    """
    try:
        since = read_load()
        limits = _bandwidth(context, _SHORT_REPEATS if run_seconds < _SHORT_RUN else None)
        start = time.perf_counter()
        limits |= _slowly_changing(context, round(message), since, fresh)
        return limits | {"seconds_beside_stream": time.perf_counter() - start}
    except (MemoryError, RuntimeError, RidgelineError) as problem:
        why = "too little memory is left" if isinstance(problem, MemoryError) else str(problem)
        if context.comm.rank == 0:
            log.warning(
                "the memory bandwidth could not be measured (%s), so the report gives no shares of it.", why
            )
        return {"best": 0.0, "best_name": "not measured", "unknown": why}


def _bandwidth(context: Context, repeats: int | None) -> dict[str, Any]:
    if context.device == "cpu":
        return measure_stream(context.comm, context.threads, repeats=repeats).to_dict()
    from ridgeline.limits.limits_cuda import measure_device_copy

    with errors_on_all_ranks(context.comm):
        mine = measure_device_copy()
    rate = context.comm.allreduce(mine)
    return {"device_copy": rate, "best": rate, "best_name": "device copy"}


def _slowly_changing(context: Context, message: int, since: Reading | None, fresh: bool) -> dict[str, Any]:
    """Return the rates that an earlier job may have measured, their ages and the node's load. Collective."""
    comm = context.comm
    machine = describe_machine()
    key = {
        "host": machine.host,
        "cpu": machine.cpu,
        "cores": machine.cores,
        "ranks": comm.size,
        "ranks_on_node": place_on_node(comm).ranks,
        "threads": context.threads,
        "device": context.device,
        "version": VERSION,
    }
    limits: dict[str, Any] = {"ages": {}, "others_share": {}, "caches": []}

    def rates_of(what: str, measure: Callable[[], Rates], **further_keys: Any) -> Rates:
        cached = cached_rates(comm, {**key, "of": what, **further_keys}, measure, since, fresh)
        limits["ages"][what], limits["others_share"][what] = cached.age, cached.others_share
        return cached.rates

    limits["peak"] = rates_of("peak", lambda: _peak(context))
    if context.device == "cpu":
        rates = rates_of("caches", lambda: _caches(context))
        limits["caches"] = [
            {"level": int(level), "capacity": rates[f"capacity {level}"], "rate": rates[f"rate {level}"]}
            for level in sorted(name.removeprefix("rate ") for name in rates if name.startswith("rate "))
        ]
    if comm.size > 1 and message:
        message = min(message, _LARGEST_MESSAGE)
        rates = rates_of("network", lambda: _network(context, message), message=message)
        limits["network"] = {"message": message, "rate": rates["rate"]}
    return limits


def _peak(context: Context) -> Rates:
    rates = measure_peak_rates(
        context.comm, context.threads, _PEAK_SECONDS, _PEAK_REPEATS, device=context.device
    )
    return {dtype: best_total(rates_of_dtype) for dtype, rates_of_dtype in rates.items()}


def _caches(context: Context) -> Rates:
    rates: Rates = {}
    for cache in measure_caches(context.comm, context.threads, "float64"):
        rates |= {f"capacity {cache.level}": float(cache.capacity), f"rate {cache.level}": cache.rate}
    return rates


def _network(context: Context, message: int) -> Rates:
    memory = memory_for(context.comm, context.device)
    return {"rate": measure_message_bandwidth(context.comm, message, memory)}


@dataclass(frozen=True)
class CachedRates:
    """Rates, their age in seconds (0: measured by this run), and the share of the node that others used then."""

    rates: Rates
    age: float
    others_share: float


def cached_rates(
    comm: MPI.Comm,
    key: Mapping[str, Any],
    measure: Callable[[], Rates],
    since: Reading | None,
    fresh: bool = False,
) -> CachedRates:
    """Return the rates that an earlier job stored under a key, or measure and store them.

    Collective; the result is the same on all ranks. A file is ignored if it is damaged, belongs to another key, is
    older than KEPT_SECONDS or carries a time in the future.

    Parameters
    ----------
    key
        What the rates depend on, as JSON can hold it. The key of rank 0 counts.
    measure
        Measures the rates. Collective; it returns the same on all ranks.
    since
        An earlier reading of the load of this rank's node; the use by others is counted from then on.
    fresh
        Measure in any case.
    """
    stored: CachedRates | None = comm.bcast(_read(key) if comm.rank == 0 and not fresh else None)
    if stored is not None:
        return stored
    measured = CachedRates(measure(), 0.0, busiest_share(comm, since))
    if comm.rank == 0 and measured.others_share <= MOST_OTHERS:
        _write(key, measured)
    return measured


def _file(key: Mapping[str, Any]) -> Path:
    """Return the file of a key. Raises OutputError if there is no private folder."""
    text = json.dumps(key, sort_keys=True)
    return private_folder(FOLDER) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _read(key: Mapping[str, Any]) -> CachedRates | None:
    try:
        content = read_kept_table(_file(key))
        age, others = time.time() - float(content["measured"]), float(content["others_share"])
        rates = {str(name): float(rate) for name, rate in content["rates"].items()}
        is_ours = content["key"] == json.loads(json.dumps(key))
    except (OutputError, *DAMAGED):
        return None
    whole = rates and all(math.isfinite(rate) and rate > 0 for rate in rates.values())
    good = is_ours and whole and 0 <= others <= MOST_OTHERS and 0 <= age <= KEPT_SECONDS
    return CachedRates(rates, age, others) if good else None


def _write(key: Mapping[str, Any], measured: CachedRates) -> None:
    """Store rates, and delete the files that are too old. Rates that cannot be stored are measured again."""
    with suppress(OSError, OutputError):
        file = _file(key)
        content = {"key": key, "measured": time.time()} | asdict(measured)
        write_kept(file, json.dumps(content, indent=1).encode())
        oldest = time.time() - KEPT_SECONDS
        for other in file.parent.glob("*.json"):
            if other.stat().st_mtime < oldest:
                other.unlink()
