"""One run from settings to report: the only time loop there is.

The stages, in order: decompose and allocate, compile, restore or initialise, step (with output, checkpoints
and NaN checks at their steps), measure the machine's limits, report. Nothing here knows any physics.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.comm.reduce import raise_together
from ridgeline.driver.limits import measure_limits
from ridgeline.driver.outputs import DataSet
from ridgeline.driver.restart import Restart
from ridgeline.driver.schedule import Schedule
from ridgeline.models.contract import Model, StepTimes
from ridgeline.perf.report import PHASES, PhaseTimes, Timing, performance
from ridgeline.runtime.communicator import in_turn_per_node, mpi_versions, node_communicator
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import DivergedError, OutputError
from ridgeline.runtime.machine import describe_machine, peak_memory
from ridgeline.runtime.progress import Progress
from ridgeline.runtime.provenance import git_commit, package_versions, start_time
from ridgeline.runtime.signals import SignalCatcher, StopRequest
from ridgeline.runtime.threads import oversubscription

if TYPE_CHECKING:
    from ridgeline.config.case import Case

log = logging.getLogger(__name__)


@dataclass
class Options:
    """What a run is told beside its settings.

    started: time.monotonic() when the job began, so that the wall-clock limit includes imports.
    caught: the stop signals received so far; the caller has entered it.
    show: called on rank 0 with the header's facts once the grid is decomposed.
    """

    resume: str = "never"
    json_path: str | None = None
    progress: bool = True
    started: float = field(default_factory=time.monotonic)
    caught: SignalCatcher = field(default_factory=SignalCatcher)
    show: Callable[[dict[str, Any]], None] | None = None


@dataclass
class _Clock:
    """Seconds of this rank's steps, apart from everything between them."""

    first: float = 0.0
    steady: float = 0.0
    first_steps: int = 0
    steady_steps: int = 0

    def add(self, seconds: float, steps: int) -> None:
        if self.first_steps == 0:
            self.first, self.first_steps = seconds, steps
        else:
            self.steady += seconds
            self.steady_steps += steps


def run_case(case: Case, model: Model, context: Context, options: Options) -> dict[str, Any]:
    """Run `case` to its last step, its wall-clock limit or a signal, and return the run report. Collective.

    Raises OutputError, CheckpointError, DivergedError, DecompositionError; all ranks raise together.
    """
    comm = context.comm
    started_at = start_time()
    clock, timers = _Clock(), context.timers

    begin = time.perf_counter()
    model.setup(case, context)
    setup_seconds = time.perf_counter() - begin
    node = node_communicator(comm)
    ranks_on_node = node.size
    node.Free()
    facts = _facts(case, model, context, ranks_on_node)
    if comm.rank == 0 and options.show is not None:
        options.show(facts)
    crowded = oversubscription(ranks_on_node, context.threads, describe_machine().cores)
    if crowded and comm.rank == 0:
        log.warning("%s", crowded)

    begin = time.perf_counter()
    in_turn_per_node(comm, model.compile)
    compile_seconds = time.perf_counter() - begin

    begin = time.perf_counter()
    restart = Restart(case, model, comm)
    step, outputs = restart.begin(options.resume)
    provenance = _provenance(case, model, context, started_at)
    data = DataSet(case, model, comm, provenance, keep_steps=outputs)
    setup_seconds += time.perf_counter() - begin
    first = step

    schedule = Schedule(case.run.steps, case.output.every, case.checkpoint.every, case.run.check_every)
    timers.reset()
    loop_begin = time.perf_counter()
    ended = "all steps done"
    saved = step if options.resume != "never" and step else -1
    checked = step
    with (
        StopRequest(comm, options.caught, case.run.walltime, options.started) as stop,
        Progress(step, schedule.steps, options.progress and comm.rank == 0) as progress,
    ):
        if step == 0 and case.output.initial and case.output.every and not outputs:
            with timers.phase("output"):
                data.write(0)
        while step < schedule.steps:
            reason = stop.poll()
            if reason is not None:
                ended = reason
                break
            begin = time.perf_counter()
            done = model.step(schedule.next_event(step) - step)
            clock.add(time.perf_counter() - begin, done)
            step += done
            if schedule.check_due(step):
                with timers.phase("other"):
                    _refuse_nonfinite(model, step, checked, restart)
                checked = step
            if schedule.output_due(step):
                with timers.phase("output"):
                    data.write(step)
            if schedule.checkpoint_due(step):
                with timers.phase("checkpoint"):
                    restart.save(step, data.steps_written)
                saved = step
            progress.update(step)
    if step < schedule.steps and saved != step:
        with timers.phase("checkpoint"):
            _refuse_nonfinite(model, step, checked, restart)
            restart.save(step, data.steps_written)
    with timers.phase("output"):
        data.close()
    loop_seconds = time.perf_counter() - loop_begin
    timers.seconds["other"] += loop_seconds - sum(timers.seconds.values())

    limits = measure_limits(context)
    timing = _gather_timing(context, clock, setup_seconds, compile_seconds, loop_seconds, step - first)
    work = model.work()
    final = model.diagnostics()
    step_times = StepTimes(timing.seconds_per_step, {})
    figures = model.figures(step_times) if timing.steps else {}
    report: dict[str, Any] = {
        "model": model.name,
        **performance(work, timing, limits),
        "run": {**facts, "first_step": first, "last_step": step, "ended": ended},
        "seconds": {
            "setup": timing.setup,
            "compile": timing.compile,
            "first_step": timing.first_step,
            "steady": timing.steady,
            "total": timing.total,
        },
        "phases": {name: vars(phase) for name, phase in timing.phases.items()},
        "work": work.to_dict(),
        "limits": limits,
        "figures": {name: vars(value) for name, value in figures.items()},
        "diagnostics": final,
        "checkpoint": restart.figures(),
        "peak_memory_per_rank": max(comm.allgather(peak_memory())),
        "settings": case.flatten(),
        "machine": describe_machine().to_dict(),
        "versions": provenance["versions"],
        "provenance": {key: value for key, value in provenance.items() if key != "versions"},
        "files": {},
    }
    _write_report(report, case, data, options, comm)
    return report


def _facts(case: Case, model: Model, context: Context, ranks_on_node: int) -> dict[str, Any]:
    return {
        "model": model.name,
        "shape": list(case.grid.shape),
        "precision": case.run.precision,
        "steps": case.run.steps,
        "ranks": context.comm.size,
        "ranks_on_node": ranks_on_node,
        "threads": context.threads,
        "device": context.device,
        "cores": describe_machine().cores,
        **model.describe(),
    }


def _provenance(case: Case, model: Model, context: Context, started_at: str) -> dict[str, Any]:
    machine = describe_machine()
    versions = {**package_versions(), **mpi_versions()}
    provenance: dict[str, Any] = context.comm.bcast(
        {
            "settings": case.flatten(),
            "seed": case.run.seed,
            "ranks": context.comm.size,
            "threads": context.threads,
            "process_grid": model.describe().get("process_grid", []),
            "versions": versions,
            "git_commit": git_commit() if context.comm.rank == 0 else "",
            "host": machine.host,
            "cpu": machine.cpu,
            "start_time": started_at,
        }
    )
    return provenance


def _refuse_nonfinite(model: Model, step: int, checked: int, restart: Restart) -> None:
    where = model.locate_nonfinite()
    if where is None:
        return
    kept = restart.newest()
    raise DivergedError(
        f"the fields stopped being finite between step {checked + 1} and step {step}: {where} at step {step}; "
        + (f"the last good checkpoint is kept ({kept}); " if kept else "no checkpoint was written before; ")
        + model.advice
    )


def _gather_timing(
    context: Context, clock: _Clock, setup: float, compiled: float, loop: float, steps: int
) -> Timing:
    """Combine the ranks' clocks: the slowest rank's time counts. Collective."""
    mine = {name: context.timers.seconds.get(name, 0.0) for name in PHASES}
    everyone = context.comm.allgather((setup, compiled, clock.first, clock.steady, loop, mine))
    phases = {}
    for name in PHASES:
        values = [rank[5][name] for rank in everyone]
        phases[name] = PhaseTimes(min(values), sum(values) / len(values), max(values))
    setup, compiled, first, steady, loop = (max(rank[i] for rank in everyone) for i in range(5))
    total = setup + compiled + loop
    return Timing(setup, compiled, first, steady, total, steps, clock.steady_steps, phases)


def _write_report(report: dict[str, Any], case: Case, data: DataSet, options: Options, comm: Any) -> None:
    """Write the report beside the data set and where asked. Rank 0 writes; all ranks learn of a failure."""
    error: OutputError | None = None
    beside = Path(f"{case.output.path.rstrip('/')}.run.json")
    if data.steps_written or case.output.every:
        report["files"]["data set"] = str(case.output.path)
    report["files"]["report"] = str(beside)
    if comm.rank == 0:
        for path in (beside, options.json_path):
            if path is None or str(path) == "-":
                continue
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(json.dumps(report, indent=2, default=str) + "\n")
            except OSError as problem:
                error = OutputError(f"cannot write the run report {path}: {problem.strerror}")
    raise_together(comm, error)
