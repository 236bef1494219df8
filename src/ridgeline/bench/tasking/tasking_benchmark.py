"""The cost of tasks in Python, compiled Python and C: creation, switch, futures, notification, channels, loops.

Source: Rizvi and Hale, "A Look at Communication-Intensive Performance in Julia", Sec. III, Figs. 1 to 5. There are
100 trials after 10 that do not count, and Tukey's rule removes outliers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.bench.outliers import remove_outliers
from ridgeline.bench.result import MICROSECONDS, Column, Plot, Result
from ridgeline.bench.tasking.array_fill import measure_fill, measure_mpi_fill
from ridgeline.bench.tasking.futures import (
    check_work,
    measure_futures,
    measure_mpi_futures,
    measure_spawned_futures,
)
from ridgeline.bench.tasking.jitter import measure_jitter
from ridgeline.bench.tasking.task_communication import measure_channels, measure_notification
from ridgeline.bench.tasking.task_creation import measure_creation, measure_switch
from ridgeline.bench.tasking.tasking_options import ITEMS, TaskingOptions
from ridgeline.bench.tasking.trials import Series, Trials, load_tasking, tabulate
from ridgeline.bench.tasking.worker_start import measure_start
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.machine import cores_available

if TYPE_CHECKING:
    from mpi4py import MPI

MAX_WORKERS = 16  # as in the paper, if the machine has this many cores

_COLUMNS = (
    Column("item", "item"),
    Column("primitive", "primitive"),
    Column("operation", "operation"),
    Column("work", "task"),
    Column("workers", "workers"),
    Column("seconds", "mean us", 1e-6, ".4g"),
    Column("deviation", "+- us", 1e-6, ".2g"),
    Column("median", "median us", 1e-6, ".4g"),
    Column("least", "min us", 1e-6, ".4g"),
    Column("outliers", "outliers"),
    Column("over_c", "x C", 1.0, ".3g"),
    Column("note", ""),
)


def default_workers(cores: int | None = None) -> list[int]:
    """Return 1, 2, 4, ... and the number of cores that this process may use, at most 16."""
    most = min(cores_available() if cores is None else cores, MAX_WORKERS)
    return sorted({2**k for k in range(most.bit_length()) if 2**k <= most} | {most})


def measure_tasking(comm: MPI.Comm, options: TaskingOptions, progress: Phases | None = None) -> Result:
    """Measure the primitives of tasking on rank 0, and those between ranks on all ranks. Collective over comm.

    Ranks that have nothing to do sleep. Only the result of rank 0 holds figures. Raises ConfigError for options out
    of range, and VerificationError if a task, a channel or an array holds wrong data.
    """
    items, fibonacci, n_bytes = options.items, options.fibonacci, options.n_bytes
    trials = Trials(options.trials, options.warm_up)
    counts = sorted(set(options.workers or default_workers()))
    _check(items, counts, n_bytes)
    check_work(fibonacci)
    c, how = load_tasking() if comm.rank == 0 else (None, "")
    on_rank_zero: dict[str, list[Callable[[], list[Series]]]] = {
        "creation": [lambda: measure_creation(trials, c, how)],
        "switch": [lambda: measure_switch(trials, c, how)],
        "futures": [lambda: measure_futures(trials, counts, fibonacci, c, how)],
        "notification": [lambda: measure_notification(trials, c, how)],
        "channel": [lambda: measure_channels(trials, c, how)],
        "initialise": [lambda: measure_fill(trials, counts, n_bytes, c, how)],
        "start": [lambda: measure_start(trials, counts)],
        "jitter": [lambda: measure_jitter(trials)],
    }
    if options.spawn:
        on_rank_zero["futures"].append(lambda: measure_spawned_futures(trials, counts, fibonacci))
    series: list[Series] = []
    progress = progress or silent()
    for item in (item for item in ITEMS if item in items):
        progress.begin(item)
        for measure in on_rank_zero[item]:
            series += _measure_on_rank_zero(comm, measure)
        if item == "futures":
            series += measure_mpi_futures(comm, trials, counts, fibonacci)
        if item == "initialise":
            series += measure_mpi_fill(comm, trials, counts, n_bytes)
    notes = [f"C: {how}"]
    if "futures" in items and comm.size == 1 and not options.spawn:
        notes.append(
            "mpi4py.futures was not measured, because it requires ranks for its workers. Use -n 3 for 2 workers, or "
            "--spawn to let MPI start them."
        )
    return Result(
        benchmark="tasking",
        pattern="tasks of Python and threads of C on one node, one operation at a time",
        formula="seconds of the operations in a trial / their number",
        statistic=f"mean of {trials.count} trials, after {trials.warm_up} to warm up, without outliers (Tukey's "
        "rule, 1.5 IQR)",
        ranks=comm.size,
        columns=_COLUMNS,
        rows=tabulate(series),
        settings={
            "items": list(items),
            "trials": trials.count,
            "warm_up": trials.warm_up,
            "workers": counts,
            "fibonacci": list(fibonacci),
            "bytes": n_bytes,
            "cores": cores_available(),
            "c": how if c is None else f"{c.compiler}; {c.command}",
        },
        extra={"samples": _samples(series, items)},
        notes=notes,
        plot=_plot(items),
    )


def _check(items: Sequence[str], workers: Sequence[int], n_bytes: int) -> None:
    for item in items:
        if item not in ITEMS:
            raise ConfigError(f"--item {item}: unknown item. Known items: {', '.join(ITEMS)}.")
    if not items:
        raise ConfigError("--item: there is nothing to measure. Give one item or more.")
    if n_bytes < 8 * max(workers):
        raise ConfigError(
            f"--bytes {n_bytes}: the array is too small for {max(workers)} workers, which require 8 B each."
        )


def _measure_on_rank_zero(comm: MPI.Comm, measure: Callable[[], list[Series]]) -> list[Series]:
    """Measure on rank 0 while the other ranks sleep; an error is raised on all ranks. Collective."""
    series: list[Series] = []
    problem: Exception | None = None
    if comm.rank == 0:
        try:
            series = measure()
        except Exception as error:
            problem = error
    sleeping_barrier(comm)
    raise_on_all_ranks(comm, problem)
    return series


def _samples(series: list[Series], items: Sequence[str]) -> dict[str, list[float]]:
    """Return the seconds of the trials that Tukey's rule keeps, by names that distinguish the series."""
    several = len(set(items)) > 1
    return {
        f"{entry.item}: {entry.name}" if several else entry.name: remove_outliers(entry.seconds).tolist()
        for entry in series
    }


def _plot(items: Sequence[str]) -> Plot:
    """Return curves over the number of workers if all items depend on it, otherwise violins of all trials."""
    labels: dict[str, Any] = {"y_label": f"time ({MICROSECONDS.head})", "y_scale": MICROSECONDS.scale}
    if set(items) <= {"futures", "initialise", "start"}:
        by = ("primitive", "operation", "work")
        return Plot("workers", ("seconds",), by, x_label="workers", log_x=False, **labels)
    return Plot(kind="boxes", **labels)
