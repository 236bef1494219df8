"""Plans of transforms that ranks measure together before a run.

Collective; the results are equal on all ranks and are kept for later runs (fourier/fft_wisdom.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mpi4py import MPI

from ridgeline.fourier.fft import (
    SWITCH,
    Effort,
    FFTPlan,
    MissingWisdomError,
    backend,
    export_wisdom,
    import_wisdom,
    plan,
)
from ridgeline.fourier.fft_wisdom import load_wisdom, save_wisdom
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks, raise_on_all_ranks

T = TypeVar("T")
Planner = Callable[..., FFTPlan]
log = logging.getLogger(__name__)


def plan_on_all_ranks(comm: MPI.Comm, make: Callable[[Planner], T], effort: Effort = "measure") -> T:
    """Return `make(planner)` on every rank, equal transforms planned equally. Collective.

    make: makes all plans of this rank by `planner(source, target, axis, direction)`, which is
    `fourier.fft.plan`; called once or several times, must not communicate; arrays hold garbage afterwards. effort:
    the setting fft.effort. One rank measures at a time, the lowest that knows no plan for one of its transforms. The
    others learn its wisdom. So where all have the same shapes, strides and alignment only rank 0 measures. Wisdom is
    loaded before and saved after, so that the next run of this CPU plans at once, and alike to the last bit.
    `estimate` neither measures nor loads.

    Raises on all ranks what `make` raises on one: ConfigError if effort is wisdom-only and there is none.
    Communication: wisdom (some kilobytes) is broadcast once per rank that measures.
    """
    if effort == "estimate":
        with errors_on_all_ranks(comm):
            result = make(partial(plan, effort=effort))
        return result
    if comm.rank == 0 and backend() == "scipy":
        log.info("Fourier transforms by scipy.fft (%s=fftw and pyfftw would be faster)", SWITCH)
    import_wisdom(broadcast_decision(comm, _stored_wisdom))
    made: list[T] = []
    measured: list[T] = []
    n_rounds = 0
    while True:
        missing: MissingWisdomError | None = None
        with errors_on_all_ranks(comm):
            if not made:
                try:
                    made.append(make(partial(plan, effort=effort, known=True)))
                except MissingWisdomError as error:
                    made += measured  # FFTW keeps no wisdom of some trivial transforms
                    missing = None if measured else error
        if effort == "wisdom-only":
            raise_on_all_ranks(comm, missing)
        first = comm.allreduce(comm.size if missing is None else comm.rank, MPI.MIN)
        if first == comm.size:
            break
        n_rounds += 1
        wisdom: dict[str, bytes] = {}
        with errors_on_all_ranks(comm):
            if comm.rank == first:
                measured.append(make(partial(plan, effort=effort)))
                wisdom = export_wisdom()
        import_wisdom(comm.bcast(wisdom, first))
    if n_rounds and comm.rank == 0:
        save_wisdom()
    return made[0]


def _stored_wisdom() -> dict[str, bytes]:
    load_wisdom()
    return export_wisdom()
