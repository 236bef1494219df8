"""The machine's limits, measured in the same run, with the same ranks and threads."""

from __future__ import annotations

import logging
from typing import Any

from ridgeline.bench.memory.stream import measure_stream
from ridgeline.parallel.reduce import together
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import RidgelineError

log = logging.getLogger(__name__)


def measure_limits(context: Context) -> dict[str, Any]:
    """Return the bandwidths in B/s that bound the run: a short STREAM over all ranks. Collective.

    `best` is the highest of all kernels and store kinds, `best_name` says which it was. The work is done and its
    report waits: what goes wrong here is a warning, and {"best": 0.0, "unknown": why} has no share to give.
    """
    try:
        if context.device == "cuda":
            return _of_gpus(context)
        return measure_stream(context.comm, context.threads).to_dict()
    except (MemoryError, RuntimeError, RidgelineError) as problem:
        why = "too little memory is left" if isinstance(problem, MemoryError) else str(problem)
        if context.comm.rank == 0:
            log.warning("the memory bandwidth is not known (%s), so the report gives no shares of it", why)
        return {"best": 0.0, "best_name": "not measured", "unknown": why}


def _of_gpus(context: Context) -> dict[str, Any]:
    from ridgeline.bench.memory.device_copy import measure_device_copy

    with together(context.comm):
        mine = measure_device_copy()
    rate = context.comm.allreduce(mine)
    return {"device_copy": rate, "best": rate, "best_name": "device copy"}
