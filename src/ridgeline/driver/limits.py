"""The machine's limits, measured in the same run, with the same ranks and threads."""

from __future__ import annotations

from typing import Any

from ridgeline.bench.stream import measure_stream
from ridgeline.runtime.context import Context


def measure_limits(context: Context) -> dict[str, Any]:
    """Return the bandwidths in B/s that bound the run: a short STREAM over all ranks. Collective.

    `best` is the highest of all kernels and store kinds, `best_name` says which it was.
    """
    if context.device == "cuda":
        from ridgeline.bench.device_copy import measure_device_copy

        rate = context.comm.allreduce(measure_device_copy())
        return {"device_copy": rate, "best": rate, "best_name": "device copy"}
    limits = measure_stream(context.comm, context.threads)
    return limits.to_dict()
