"""The report of a run as data: the facts of its header, the provenance of its outputs, its times and speeds.

print_report.py prints it; io/report_file.py reads it again.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.checkpoint_format import find_checkpoints
from ridgeline.io.output_files import to_json, write_text
from ridgeline.models.contract import Model, Region, StepTimes, Work
from ridgeline.parallel.allreduce import allreduce_max, errors_on_all_ranks, gather_and_broadcast
from ridgeline.parallel.communicator import mpi_versions
from ridgeline.parallel.layout import node_cores, place_on_node
from ridgeline.runtime.context import Context
from ridgeline.runtime.files import LastWrites
from ridgeline.runtime.machine import describe_machine
from ridgeline.runtime.provenance import git_commit, package_versions
from ridgeline.runtime.regions import Regions
from ridgeline.simulation.limits import measure_limits
from ridgeline.simulation.outputs import Outputs
from ridgeline.simulation.print_report import RunReport
from ridgeline.simulation.roofline import (
    Ceilings,
    RegionContext,
    compare_with_limit,
    exchange_share,
    report_regions,
)
from ridgeline.simulation.step_times import StepClock

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase

MOST_ROWS = 512  # of the table of the ranks


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds that the ranks spent in one phase."""

    min: float
    mean: float
    max: float


@dataclass
class Timing:
    """Where the seconds of a run went; each is that of the slowest rank.

    Only the steps of this run count, not those before a restart. The first call of the model's `step` also warms
    caches and touches pages, so the steps after it, the steady ones, are timed apart.

    Attributes
    ----------
    steady
        Seconds of the steady steps, without output, checkpoints and NaN checks.
    mean_step, best_step
        Seconds of the mean and of the best steady step by phase, on the rank where each is slowest; None without a
        steady step.
    """

    setup: float
    compile: float
    first_step: float
    steady: float
    total: float
    steps: int
    steady_steps: int
    phases: dict[str, PhaseTimes] = field(default_factory=dict)
    mean_step: StepTimes | None = None
    best_step: StepTimes | None = None

    @property
    def seconds_per_step(self) -> float:
        """Seconds of one steady step, or of one step of the first call if it was the only one; 0 without a step."""
        if self.steady_steps > 0:
            return self.steady / self.steady_steps
        return self.first_step / self.steps if self.steps else 0.0


def compute_performance(work: Work, timing: Timing, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the speeds of a run; None where a speed has no denominator."""
    seconds = timing.seconds_per_step
    best = float(limits.get("best", 0.0))
    rate = work.bytes_memory / seconds if seconds else None
    return {
        "steps": timing.steps,
        "seconds_per_step": seconds if timing.steps else None,
        "points_per_second": work.points / seconds if seconds else None,
        "flops_per_second": work.flops / seconds if seconds else None,
        "least_bytes_per_second": rate,
        "fraction_of_stream": rate / best if rate is not None and best else None,
    }


@dataclass(frozen=True)
class Measured:
    """What this rank measured of a run, in seconds and bytes."""

    setup: float
    compile: float
    loop: float
    clock: StepClock
    # The peak before the model was set up: the interpreter and its libraries.
    memory_before: int
    memory_peak: int
    # Those of the steady steps.
    regions: Mapping[str, Region]


def make_facts(case: AnyCase, model: Model, context: Context) -> dict[str, Any]:
    """Return what the header of a run shows before the model is set up and adds its decomposition. Collective."""
    return {
        "model": model.name,
        "time_name": model.time_name,
        "points_name": model.points_name,
        "shape": list(case.grid.points()),
        "grid": case.grid.words(),
        "precision": case.run.precision,
        "steps": case.run.steps,
        "end_time": case.run.end_time,
        "ranks": context.comm.size,
        "ranks_on_node": place_on_node(context.comm).ranks,
        "threads": context.threads,
        "device": context.device,
        "cores": node_cores(context.comm),
        "remarks": list(case.remarks()),
    }


def make_provenance(case: AnyCase, model: Model, context: Context, started_at: str) -> dict[str, Any]:
    """Return the provenance that the attributes of a data set hold, the same on all ranks. Collective."""
    machine = describe_machine()
    versions = {**package_versions(), **mpi_versions()}
    provenance: dict[str, Any] = context.comm.bcast(
        {
            "settings": case.flatten(),
            "seed": case.run.seed,
            "time/long_name": model.time_name,
            "ranks": context.comm.size,
            "threads": context.threads,
            "process_grid": model.describe().get("process_grid", []),
            "versions": versions,
            "git_commit": git_commit() if context.comm.rank == 0 else "",
            "host": machine.host,
            "cpu": machine.cpu,
            "start_time": started_at,
            **model.output_attributes(),
        }
    )
    return provenance


def make_report(
    case: AnyCase,
    model: Model,
    context: Context,
    facts: dict[str, Any],
    provenance: dict[str, Any],
    measured: Measured,
) -> RunReport:
    """Measure the limits, and return the report of a run that has ended, the same on all ranks. Collective."""
    comm = context.comm
    work = model.work()
    timing = gather_timing(comm, measured, context.regions, model.phases)
    message = work.bytes_exchanged / work.messages if work.messages else 0.0
    limits = measure_limits(context, message, timing.total)
    ceilings = Ceilings.of(limits)
    region_context = RegionContext(
        case.run.precision, model.precisions(), comm.size * facts.get("field_bytes_per_rank", math.inf)
    )
    figures = model.figures(timing.mean_step) if timing.mean_step else {}
    solves = model.solves()
    return RunReport(
        {
            "model": model.name,
            **compute_performance(work, timing, limits),
            **compare_with_limit(
                timing.seconds_per_step, ceilings.least_seconds(region_context.work_of_step(work))
            ),
            "run": dict(facts),
            "seconds": {
                "setup": timing.setup,
                "compile": timing.compile,
                "first_step": timing.first_step,
                "steady": timing.steady,
                "total": timing.total,
            },
            "phases": {name: vars(phase) for name, phase in timing.phases.items()},
            "step": {
                kind: {**step.phases, "total": step.total}
                for kind, step in (("mean", timing.mean_step), ("best", timing.best_step))
                if step is not None
            },
            "step_times": measured.clock.distribution.merge_ranks(comm).to_dict(),
            "ranks": gather_ranks(comm, measured.clock, _time_outside_steps(measured, context.regions)),
            "work": work.to_dict(),
            "limits": limits,
            "figures": {name: asdict(figure) for name, figure in figures.items()},
            "exchange": exchange_share(work, timing.mean_step, model.exchanges, limits),
            **gather_and_broadcast(
                comm,
                dict(measured.regions),
                lambda ranks: report_regions(ranks, solves, ceilings, region_context),
            ),
            "diagnostics": model.diagnostics(),
            "summary": {name: asdict(figure) for name, figure in model.summary().items()},
            "peak_memory_per_rank": int(allreduce_max(comm, measured.memory_peak)),
            "memory_before_setup_per_rank": int(allreduce_max(comm, measured.memory_before)),
            "settings": case.flatten(),
            "machine": describe_machine().to_dict(),
            "versions": provenance["versions"],
            "provenance": {key: value for key, value in provenance.items() if key != "versions"},
        }
    )


def _time_outside_steps(measured: Measured, regions: Regions) -> dict[str, float]:
    """Return this rank's seconds of the loop outside its steps; "other" is NaN checks, stop requests, progress."""
    spent = {name: regions.seconds(name) for name in ("output", "checkpoint")}
    steps = float(measured.clock.first[-1] + measured.clock.steady[-1])
    return {**spent, "other": measured.loop - steps - sum(spent.values())}


def gather_timing(comm: MPI.Comm, measured: Measured, regions: Regions, phases: Sequence[str]) -> Timing:
    """Combine the clocks of all ranks; the time of the slowest rank counts. Collective.

    The phases are the model's, then "output", "checkpoint" and the rest of the loop, "other". The rows of the mean
    and of the best step are each those of one rank, the slowest, so that their columns add up.
    """
    clock = measured.clock
    names = (*phases, "output", "checkpoint")
    seconds = {name: regions.seconds(name) for name in names}
    seconds["other"] = measured.loop - sum(seconds.values())
    whole = (measured.setup, measured.compile, clock.first[-1], clock.steady[-1], measured.loop)
    setup, compiled, first, steady, loop = (float(most) for most in allreduce_max(comm, whole))

    def spread(ranks: list[list[float]]) -> dict[str, PhaseTimes]:
        table = zip(seconds, zip(*ranks))
        return {
            name: PhaseTimes(min(values), sum(values) / len(values), max(values)) for name, values in table
        }

    spent = gather_and_broadcast(comm, list(seconds.values()), spread)
    mean, best = (gather_and_broadcast(comm, step, _slowest) for step in (clock.mean(), clock.best))
    return Timing(
        setup=setup,
        compile=compiled,
        first_step=first,
        steady=steady,
        total=setup + compiled + loop,
        steps=clock.first_steps + clock.steady_steps,
        steady_steps=clock.steady_steps,
        phases=spent,
        mean_step=mean,
        best_step=best,
    )


def _slowest(steps: Sequence[StepTimes | None]) -> StepTimes | None:
    return max((step for step in steps if step is not None), key=lambda step: step.total, default=None)


def describe_files(case: AnyCase, outputs: Outputs, saved: int, comm: MPI.Comm) -> list[dict[str, Any]]:
    """Return a row for each kind of output: kind, path, steps, bytes on disk, and the command that shows it.

    `saved` is the number of checkpoints of this run. steps, bytes and show are None where they are not known.
    Collective; the result is the same on all ranks.
    """
    rows: list[dict[str, Any]] = []
    for kind, (path, steps, *_) in outputs.position().items():
        plot = outputs.recorders[kind].plot
        show = (
            f"ridgeline plot {shlex.quote(path if plot is None else plot)}" if steps and plot != "" else None
        )
        rows.append({"kind": kind, "path": path, "steps": steps, "show": show})
    if saved:
        rows.append(
            {
                "kind": "checkpoints",
                "path": case.checkpoint.path,
                "steps": None,
                "show": "continue with --resume auto",
            }
        )
    if comm.rank == 0:
        for row in rows:
            path = Path(row["path"])
            parts = find_checkpoints(path) if row["kind"] == "checkpoints" else [path]
            sizes = [_bytes_on_disk(part) for part in parts]
            row["bytes"] = None if None in sizes else sum(size or 0 for size in sizes)
    rows = comm.bcast(rows)
    return rows


def _bytes_on_disk(path: Path) -> int | None:
    """Return the size of a file or of all files of a folder in bytes, or None if it cannot be read."""
    try:
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if not file.is_dir())
    except OSError:
        return None


def write_report(
    report: dict[str, Any], case: AnyCase, json_path: str | None, comm: MPI.Comm, writes: LastWrites
) -> None:
    """Write the report beside the data set and to `json_path`, on rank 0; `writes` notes failures on all ranks."""
    beside = case.report_path()
    report["files"]["report"] = beside
    for path, option in ((json_path, "--json"), (beside, "output.path")):
        is_other = option == "output.path" or os.path.realpath(path or "-") != os.path.realpath(beside)
        if path not in (None, "-") and is_other:
            with writes.trying(), errors_on_all_ranks(comm):
                if comm.rank == 0:
                    write_text(path, to_json(report), option)


def gather_ranks(comm: MPI.Comm, clock: StepClock, between: Mapping[str, float]) -> dict[str, Any]:
    """Return the table of the seconds of each rank, the same on all ranks.

    `between` holds the seconds of this rank outside its steps, by name.

    Notes
    -----
    Collective: a gather of ten to thirty numbers of each rank (2 MB at most for 10^4 ranks) and a broadcast.
    """
    mine = np.concatenate([clock.first, clock.steady, [*between.values()]])
    table = np.empty((comm.size, len(mine))) if comm.rank == 0 else None
    comm.Gather(mine, table)
    rows: dict[str, Any] = {}
    if table is not None:
        n = len(clock.names)
        parts = {
            "first": (clock.names, table[:, :n]),
            "steady": (clock.names, table[:, n : 2 * n]),
            "between": (tuple(between), table[:, 2 * n :]),
        }
        rows = {"first_steps": clock.first_steps, "steady_steps": clock.steady_steps, **_rows(parts)}
    rows = comm.bcast(rows)
    return rows


def _rows(parts: Mapping[str, tuple[tuple[str, ...], NDArray[np.float64]]]) -> dict[str, Any]:
    """Return columns of seconds by part and name, with one row for each rank, or for several if there are too many.

    A row for several ranks holds their mean, and in "most" the largest value of each column, so that no slow rank is
    averaged away.
    """
    n_ranks = len(next(iter(parts.values()))[1])
    per_row = -(-n_ranks // MOST_ROWS)
    first = np.arange(0, n_ranks, per_row)
    last = np.append(first[1:], n_ranks) - first
    rows: dict[str, Any] = {"ranks_per_row": per_row, "rank": first.tolist()}
    rows |= {
        part: _columns(names, np.add.reduceat(table, first) / last[:, np.newaxis])
        for part, (names, table) in parts.items()
    }
    if per_row > 1:
        rows["most"] = {
            part: _columns(names, np.maximum.reduceat(table, first)) for part, (names, table) in parts.items()
        }
    return rows


def _columns(names: tuple[str, ...], table: NDArray[np.float64]) -> dict[str, list[float]]:
    """Return columns by name, rounded to the six digits that a clock can give."""
    return {name: [float(f"{value:.6g}") for value in column] for name, column in zip(names, table.T)}
