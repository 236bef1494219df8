"""What ranks measure and decide together before a run: plans of transforms, the faster of several ways.

Collective; the results are equal on all ranks and are kept for later runs (fourier/fft_wisdom.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

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
from ridgeline.fourier.fft_wisdom import load_wisdom, remember_trial, remembered_trial, save_wisdom
from ridgeline.fourier.tuning import Trial
from ridgeline.parallel.reduce import decide, global_max, raise_together, together

T = TypeVar("T")
Planner = Callable[..., FFTPlan]
Candidate = Callable[[], Mapping[str, float]]
log = logging.getLogger(__name__)

ROUNDS = (3, 40)  # of measuring candidates, at least and at most
SECONDS = 0.3  # for measuring them all, about
CLEARLY_FASTER = 0.97  # of the time of a candidate that comes earlier


def planned_together(comm: MPI.Comm, make: Callable[[Planner], T], effort: Effort = "measure") -> T:
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
        with together(comm):
            result = make(partial(plan, effort=effort))
        return result
    if comm.rank == 0 and backend() == "scipy":
        log.info("Fourier transforms by scipy.fft (%s=fftw and pyfftw would be faster)", SWITCH)
    import_wisdom(decide(comm, _stored_wisdom))
    made: list[T] = []
    measured: list[T] = []
    n_rounds = 0
    while True:
        missing: MissingWisdomError | None = None
        with together(comm):
            if not made:
                try:
                    made.append(make(partial(plan, effort=effort, known=True)))
                except MissingWisdomError as error:
                    made += measured  # FFTW keeps no wisdom of some trivial transforms
                    missing = None if measured else error
        if effort == "wisdom-only":
            raise_together(comm, missing)
        first = comm.allreduce(comm.size if missing is None else comm.rank, MPI.MIN)
        if first == comm.size:
            break
        n_rounds += 1
        wisdom: dict[str, bytes] = {}
        with together(comm):
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


def choose(candidates: Mapping[str, Candidate], key: str, comm: MPI.Comm) -> Trial:
    """Return which candidate is fastest, or was so in an earlier run, and the seconds of all. Collective.

    candidates: two or more ways to do one thing. They are called repeatedly on all ranks in the same order, so they
    may communicate. They return the seconds of their parts, under the same names on all ranks. The time of a call is
    that of the slowest rank, and the shortest of several calls counts; of each part too. A candidate replaces an
    earlier one only if it is clearly faster. key: names what is chosen with all that the answer depends on (shape,
    dtype, ranks, process grid); the answer is remembered under it.
    """
    known = decide(comm, lambda: remembered_trial(key))
    if known is not None and known.taken in candidates and candidates.keys() <= known.seconds.keys():
        return known
    seconds = _measure(candidates, comm)
    best, *others = candidates
    for name in others:
        if seconds[name]["total"] < CLEARLY_FASTER * seconds[best]["total"]:
            best = name
    if known is not None and known.taken in candidates:
        best = known.taken  # results of the runs before depend on it in their last bits
    trial = Trial(best, seconds)
    if comm.rank == 0:
        remember_trial(key, trial)
    return trial


def _measure(candidates: Mapping[str, Candidate], comm: MPI.Comm) -> dict[str, dict[str, float]]:
    """Return seconds per call of each candidate and its parts on the slowest rank, the shortest of some rounds."""

    def one_round() -> tuple[list[tuple[str, str]], NDArray[np.float64]]:
        seconds = {}
        for name, candidate in candidates.items():
            comm.Barrier()
            start = time.perf_counter()
            parts = candidate()
            seconds[name, "total"] = time.perf_counter() - start
            seconds.update({(name, part): each for part, each in parts.items()})
        return list(seconds), global_max(comm, list(seconds.values()))

    one_round()  # compiles, touches memory
    keys, times = one_round()
    least, most = ROUNDS
    whole = sum(each for (_, part), each in zip(keys, times) if part == "total")
    for _ in range(min(most, max(least, int(SECONDS / max(whole, 1e-9)))) - 1):
        times = np.minimum(times, one_round()[1])
    found: dict[str, dict[str, float]] = {name: {} for name in candidates}
    for (name, part), each in zip(keys, times.tolist()):
        found[name][part] = each
    return found
