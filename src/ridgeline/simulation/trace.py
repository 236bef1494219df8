"""`ridgeline run --trace`: when the parts of some steps were at work, on every rank's host and GPU streams.

Steps of the second call of the model's `step` and of those after it are traced: the first one touches pages and warms
caches. The file is of Chrome's trace format, for ui.perfetto.dev. A process is a rank; its threads are the host and
the streams of a GPU. The host's spans are the phases of a step, outputs and checkpoints. Times are since a barrier
before the first traced call, by each rank's own clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ridgeline.io.output_files import to_json, write_text
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.runtime.files import LastWrites
from ridgeline.runtime.regions import Span, Timeline, trace_events

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.runtime.context import Context

CALLS = 20  # of `step` that are traced
log = logging.getLogger(__name__)


class StepTrace:
    """The trace of a run's first steps, written to `path` by rank 0. All methods are collective."""

    def __init__(self, path: str, context: Context, writes: LastWrites) -> None:
        """Begin with the call of `step` after the next. writes: told of a trace that cannot be written."""
        self.path, self._context, self._writes = path, context, writes
        self._calls = 0
        self._written = False

    def sample(self) -> None:
        """Note that a call of `step` is over."""
        self._calls += 1
        if self._calls == 1:
            self._context.comm.Barrier()
            self._origin = time.perf_counter()
            self._context.regions.timeline = Timeline()
        elif self._calls == 1 + CALLS:
            self.finish()

    def finish(self) -> None:
        """Write what was traced, if that is not done; the run is over."""
        if self._written:
            return
        self._written = True
        timeline, self._context.regions.timeline = self._context.regions.timeline, None
        spans = [] if timeline is None else timeline.spans()
        if self._calls < 2 and self._context.comm.rank == 0:
            log.warning("%s has no steps: the run ended with its first call of step", self.path)
        with self._writes.trying():
            write_trace(self.path, self._context.comm, spans, self._origin if spans else 0.0)


def write_trace(path: str, comm: MPI.Comm, spans: Sequence[Span], origin: float) -> None:
    """Write the spans of all ranks, in seconds since each rank's `origin`. Collective; rank 0 writes.

    Raises OutputError on all ranks.
    """
    gathered = comm.gather(trace_events(spans, comm.rank, origin))
    with errors_on_all_ranks(comm):
        if gathered is not None:
            events = [event for of_rank in gathered for event in of_rank]
            write_text(path, to_json({"traceEvents": events, "displayTimeUnit": "ms"}, None), "--trace")
