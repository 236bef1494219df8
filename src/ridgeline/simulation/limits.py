"""The machine's limits: the bandwidth of memory, the peak rate, the bandwidth of the caches and that of messages.

The first is measured in the same run, with the same ranks and threads. The other three are measured now, or were
measured by an earlier job of the same day.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from ridgeline.limits.messages import measure_message_bandwidth
from ridgeline.limits.peak import best_total, measure_peak_rates
from ridgeline.limits.stream import measure_caches, measure_stream
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.layout import place_on_node
from ridgeline.parallel.payload import memory_for
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import RidgelineError
from ridgeline.runtime.machine import describe_machine
from ridgeline.runtime.node_load import Reading, read_load
from ridgeline.simulation.remembered import Rates, remembered
from ridgeline.version import VERSION

log = logging.getLogger(__name__)

_SHORT_RUN = 1.0  # seconds, for which STREAM runs otherwise
_SHORT_REPEATS = 3
_PEAK_SECONDS, _PEAK_REPEATS = 0.03, 3
_LARGEST_MESSAGE = 4 * 2**20  # bytes


def measure_limits(
    context: Context, message: float = 0.0, run_seconds: float = math.inf, fresh: bool = False
) -> dict[str, Any]:
    """Return the rates that bound the run, of all ranks together.

    The run is over and its report waits, so what goes wrong here is a warning.

    Parameters
    ----------
    message
        The mean size of the run's messages in bytes, 0 for none.
    run_seconds
        What the run took, the same on all ranks. After a run that was shorter than STREAM would be, STREAM is
        repeated less often.
    fresh
        Measure everything now, even if it is remembered.

    Returns
    -------
    dict
        best: B/s of memory, the highest of all kernels and store kinds of a short STREAM; best_name: which it was;
        peak: FLOP/s by dtype; caches: level, capacity in B and B/s, on CPUs; network: message in B and B/s, if there
        are several ranks; ages: seconds since these three were measured; others_share: which share of a node's
        processors others used then. If nothing could be measured, {"best": 0.0, "unknown": why}.

    Notes
    -----
    Collective; the result is the same on all ranks.
    """
    try:
        since = read_load()
        limits = _bandwidth(context, _SHORT_REPEATS if run_seconds < _SHORT_RUN else None)
        start = time.perf_counter()
        limits |= _further(context, round(message), since, fresh)
        return limits | {"seconds_beside_stream": time.perf_counter() - start}
    except (MemoryError, RuntimeError, RidgelineError) as problem:
        why = "too little memory is left" if isinstance(problem, MemoryError) else str(problem)
        if context.comm.rank == 0:
            log.warning("the memory bandwidth is not known (%s), so the report gives no shares of it", why)
        return {"best": 0.0, "best_name": "not measured", "unknown": why}


def _bandwidth(context: Context, repeats: int | None) -> dict[str, Any]:
    if context.device == "cpu":
        return measure_stream(context.comm, context.threads, repeats=repeats).to_dict()
    from ridgeline.limits.limits_cuda import measure_device_copy

    with errors_on_all_ranks(context.comm):
        mine = measure_device_copy()
    rate = context.comm.allreduce(mine)
    return {"device_copy": rate, "best": rate, "best_name": "device copy"}


def _further(context: Context, message: int, since: Reading | None, fresh: bool) -> dict[str, Any]:
    """Return peak, caches, network, their ages, and how busy the node was with others. Collective."""
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
    found: dict[str, Any] = {"ages": {}, "others_share": {}, "caches": []}

    def take(what: str, measure: Callable[[], Rates], **more: Any) -> Rates:
        known = remembered(comm, {**key, "of": what, **more}, measure, since, fresh)
        found["ages"][what], found["others_share"][what] = known.age, known.others_share
        return known.rates

    found["peak"] = take("peak", lambda: _peak(context))
    if context.device == "cpu":
        rates = take("caches", lambda: _caches(context))
        found["caches"] = [
            {"level": int(level), "capacity": rates[f"capacity {level}"], "rate": rates[f"rate {level}"]}
            for level in sorted(name.removeprefix("rate ") for name in rates if name.startswith("rate "))
        ]
    if comm.size > 1 and message:
        message = min(message, _LARGEST_MESSAGE)
        rate = take("network", lambda: _network(context, message), message=message)
        found["network"] = {"message": message, "rate": rate["rate"]}
    return found


def _peak(context: Context) -> Rates:
    found = measure_peak_rates(
        context.comm, context.threads, _PEAK_SECONDS, _PEAK_REPEATS, device=context.device
    )
    return {dtype: best_total(rates) for dtype, rates in found.items()}


def _caches(context: Context) -> Rates:
    rates: Rates = {}
    for cache in measure_caches(context.comm, context.threads, "float64"):
        rates |= {f"capacity {cache.level}": float(cache.capacity), f"rate {cache.level}": cache.rate}
    return rates


def _network(context: Context, message: int) -> Rates:
    memory = memory_for(context.comm, context.device)
    return {"rate": measure_message_bandwidth(context.comm, message, memory)}
