"""FFT plans that are equal on all ranks, and FFTW's wisdom: what it has measured, kept for later runs.

Before a run, ranks measure those transforms of which none of them has wisdom. Wisdom is kept in a folder per FFTW
version and CPU in the user's cache (RIDGELINE_CACHE_DIR), in the files double.wisdom and single.wisdom. With it,
planning takes milliseconds, and a resumed run makes the plans of the first one, hence the same rounding. A damaged
file, or a folder that cannot be written, costs a warning and the time to measure again.

The first line of a file of wisdom is a digest of the rest, because FFTW checks the form of wisdom but not its
numbers: a number that is out of range ends the process.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from mpi4py import MPI

from ridgeline.fourier.fft import (
    SWITCH,
    Effort,
    FFTPlan,
    MissingWisdomError,
    backend,
    describe,
    export_wisdom,
    import_wisdom,
    plan,
)
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks, raise_on_all_ranks
from ridgeline.runtime.machine import cpu_name
from ridgeline.runtime.user_cache import private_folder, read_kept, remark_damage, write_kept

T = TypeVar("T")
Planner = Callable[..., FFTPlan]
log = logging.getLogger(__name__)


def plan_on_all_ranks(comm: MPI.Comm, make: Callable[[Planner], T], effort: Effort = "measure") -> T:
    """Return `make(planner)` on every rank, where equal transforms have equal plans. Collective.

    One rank measures at a time: the lowest that has no wisdom for one of its transforms. The others then get its
    wisdom, so that only rank 0 measures where all ranks have the same shapes, strides and alignment. Wisdom is loaded
    before and saved afterwards, so that the next run on this CPU plans at once, and alike to the last bit.

    Parameters
    ----------
    comm : all ranks
    make : makes all plans of this rank by `planner(source, target, axis, direction)`, which is `fourier.fft.plan`. It
        is called once or several times, must not communicate, and leaves garbage in the arrays
    effort : the setting fft.effort; "estimate" neither measures nor loads wisdom

    Raises
    ------
    ConfigError : if effort is "wisdom-only" and there is none. All that `make` raises on one rank is raised on all

    Notes
    -----
    Wisdom (some kilobytes) is broadcast once for each rank that measures.
    """
    if effort == "estimate":
        with errors_on_all_ranks(comm):
            result = make(partial(plan, effort=effort))
        return result
    if comm.rank == 0 and backend() == "scipy":
        log.info(
            "Fourier transforms are computed by scipy.fft. FFTW is faster, and is used if pyfftw is installed and %s "
            "is not scipy.",
            SWITCH,
        )

    def load_and_export() -> dict[str, bytes]:
        load_wisdom()
        return export_wisdom()

    import_wisdom(broadcast_decision(comm, load_and_export))
    planned: list[T] = []
    measured: list[T] = []
    n_rounds = 0
    while True:
        missing: MissingWisdomError | None = None
        with errors_on_all_ranks(comm):
            if not planned:
                try:
                    planned.append(make(partial(plan, effort=effort, known=True)))
                except MissingWisdomError as error:
                    planned += measured  # FFTW keeps no wisdom of some trivial transforms
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
    return planned[0]


def wisdom_folder() -> Path:
    """Return the folder for this library version and this CPU; it is made if it is missing."""
    machine = hashlib.blake2b(f"{platform.machine()} {cpu_name()}".encode(), digest_size=4).hexdigest()
    library = re.sub(r"[^\w.]+", "-", describe().lower()).strip("-")
    return private_folder("fft", f"{library}-{machine}")


def load_wisdom() -> None:
    """Add the folder's wisdom, if there is any, to FFTW's. Not for two threads at a time."""
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
    """Write FFTW's wisdom to the folder, together with what other processes have saved there meanwhile."""
    load_wisdom()
    for precision, text in export_wisdom().items():
        path, content = wisdom_folder() / f"{precision}.wisdom", _with_digest(text)
        if content != read_kept(path):
            write_kept(path, content)


def _with_digest(wisdom: bytes) -> bytes:
    return hashlib.blake2b(wisdom, digest_size=16).hexdigest().encode() + b"\n" + wisdom
