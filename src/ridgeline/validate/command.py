"""Validation as a job: start the ranks, prepare this one, measure the levels, judge, report, exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.parallel.job import job, start_ranks
from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.launcher import detect_launch, launch_ranks, ranks_that_died
from ridgeline.runtime.machine import describe_machine

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.parallel.layout import Layout
    from ridgeline.validate.judge.outcome import Outcome
    from ridgeline.validate.judge.thresholds import Thresholds
    from ridgeline.validate.judge.verdict import Verdict
    from ridgeline.validate.log_patterns import LogPattern
    from ridgeline.validate.measure.counters import Counters
    from ridgeline.validate.measure.logs import LogMoment
    from ridgeline.validate.measure.measurements import Measurements
    from ridgeline.validate.measure.prolog_readings import Counted, Job
    from ridgeline.validate.measure.vendor_tools import VendorTool
    from ridgeline.validate.validation_options import ValidationOptions

_BY_SIGNAL = 128  # added to the number of the signal that ended the launcher
_PROGRESS = "RIDGELINE_VALIDATE_PROGRESS"
_SLURM = ("SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN")
_OVERTIME = 20.0  # seconds over a stage's limit after which the starting process stops waiting for rank 0
_GRACE = 5.0  # seconds for the launcher to end after the verdict
_KEPT_WORDS = 65536  # bytes of the launcher's messages


def start_validation(ranks: int | None, options: ValidationOptions, debug: bool = False) -> int:
    """Validate this machine, on `ranks` ranks that are started here unless a launcher did; return the exit code.

    0 healthy, 1 suspects, 2 could not measure. A job that hangs or dies ends in bounded time, with the report of what
    was measured. Raises ConfigError or OutputError for what can be checked before.
    """
    if detect_launch() is not None or ranks is None or ranks == 1:
        start_ranks(ranks)  # refuses a number that contradicts the launcher
        return run_validation(options, debug)
    with tempfile.TemporaryDirectory(prefix="ridgeline-validate-") as folder:
        path = str(Path(folder, "progress.json"))
        watch = _LaunchWatch(path)
        environ = dict(os.environ) | {_PROGRESS: path}
        code = launch_ranks(ranks, sys.argv[1:], environ, watch.over, _GRACE, watch.hear)
        return watch.judge(options, code)


class _LaunchWatch:
    """What the process that started the ranks knows of them: the file that rank 0 rewrites at every stage."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = (0, 0.0)
        self._deadline: float | None = None
        self._words = b""
        self._lock = threading.Lock()
        self.late = False

    def hear(self, words: bytes) -> None:
        """Keep the end of the launcher's messages."""
        with self._lock:
            self._words = (self._words + words)[-_KEPT_WORDS:]

    def over(self) -> bool:
        """Say whether rank 0 has reported its verdict, or should have reported it long ago."""
        from ridgeline.validate.judge.outcome import read_progress

        try:
            state = os.stat(self._path)
        except OSError:
            return False
        seen = (state.st_ino, state.st_mtime)
        if seen != self._seen:
            self._seen = seen
            progress = read_progress(self._path)
            if progress.code is not None:
                return True
            self._deadline = time.monotonic() + progress.limit + _OVERTIME
        self.late = self._deadline is not None and time.monotonic() > self._deadline
        return self.late

    def judge(self, options: ValidationOptions, code: int) -> int:
        """Return the exit code; if rank 0 reported none, say so and report what it had measured."""
        from ridgeline.validate.judge.outcome import Outcome, read_progress
        from ridgeline.validate.measure.measurements import Measurements, Stage

        progress = read_progress(self._path)
        if progress.code is not None:
            return progress.code or self._timeouts(options)
        if not progress.measurements:
            return code  # it ended with a message before the first stage
        measurements = Measurements.from_dict(progress.measurements)
        died = ranks_that_died(self._words.decode(errors="replace"), progress.processes)
        if self.late:
            why = "rank 0 was killed because it exceeded every time limit"
        elif died:
            names = (
                f"rank {rank} on {measurements.nodes[measurements.node_of_rank[rank]]}" for rank in died[:8]
            )
            why = f"{', '.join(names)} was killed, and the launcher ended the job (exit code {code})"
        elif code > _BY_SIGNAL:
            why = f"the launcher itself was killed by signal {code - _BY_SIGNAL}"
        else:
            why = f"the job ended with exit code {code}"
        outcome = "hung" if self.late else "failed"
        detail = f"{why}, before rank 0 could report the verdict"
        if not died:
            detail += " (the launcher's messages above may name the rank)"
        measurements.stages.append(Stage(progress.stage, "", 0.0, outcome, detail, died=died))
        thresholds, baseline = _load(options, measurements)
        return (
            Outcome(measurements, thresholds, baseline, options.report, _show, **_records(options)).finish()
            or 2
        )

    def _timeouts(self, options: ValidationOptions) -> int:
        """Say which time-outs the ranks printed when they ended, after the verdict; return the exit code."""
        from ridgeline.validate.counter_kinds import kind_of
        from ridgeline.validate.judge.verdict import HEALTHY, SUSPECTS
        from ridgeline.validate.measure.counters import read_summary
        from ridgeline.validate.measure.measurements import Measurements

        count = read_summary(self._words.decode(errors="replace")).get("mpich/network_timeouts", 0)
        kind = kind_of("job/network_timeouts")
        assert kind is not None
        warn, suspect = _load(options, Measurements([]))[0].bounds(kind)
        if count >= min(warn, suspect):
            sys.stdout.write(f"warning: {kind.what} during the validation: {count}. {kind.advice}\n")
        return SUSPECTS if count >= suspect else HEALTHY


def run_validation(options: ValidationOptions, debug: bool = False) -> int:
    """Validate on the ranks of this job; return the exit code, the same on all ranks. Collective over the world."""
    with job(debug=debug) as comm:
        from ridgeline.parallel.layout import find_layout

        plan = options.plan()
        layout = find_layout(comm, plan.ranks_per_node)
        code = _validate(comm, layout, plan, options)
    return code


def _validate(comm: MPI.Comm, layout: Layout, plan: ValidationOptions, options: ValidationOptions) -> int:
    from ridgeline.io.output_files import check_writable
    from ridgeline.parallel.allreduce import errors_on_all_ranks
    from ridgeline.parallel.communicator import mpi_environment, mpi_versions
    from ridgeline.parallel.rank_devices import find_rank_devices, ranks_on_interfaces
    from ridgeline.runtime.console import Phases
    from ridgeline.runtime.files import check_folder
    from ridgeline.validate.judge.outcome import Outcome
    from ridgeline.validate.judge.verdict import HEALTHY
    from ridgeline.validate.measure.cores import count_cores, remarks_on_cores
    from ridgeline.validate.measure.counters import read_counters
    from ridgeline.validate.measure.logs import log_moment
    from ridgeline.validate.measure.measurements import Measurements, save_measurements
    from ridgeline.validate.measure.node_gpus import find_gpus
    from ridgeline.validate.measure.session import Session
    from ridgeline.validate.measure.validation_levels import chosen_steps, run_levels
    from ridgeline.validate.report.page import check_report
    from ridgeline.validate.watchdog import start_watch

    chosen_steps(plan)
    leaders = layout.leaders
    machines, slurm = _gather_facts(comm, leaders)
    processes = comm.gather((layout.hosts[layout.node_of_rank[comm.rank]], os.getpid()))
    devices = find_rank_devices(comm, layout)
    interfaces = ranks_on_interfaces(layout, devices)
    measurements = Measurements(
        nodes=list(layout.hosts),
        node_of_rank=list(layout.node_of_rank),
        machine=_machine(layout, machines, plan.quick),
        settings=plan.measured()
        | {"phase": options.phase, "job": _job(options).number if options.phase else None},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        interfaces={node: list(of_node) for node, of_node in enumerate(interfaces)},
        ranks=[of_rank.to_dict() for of_rank in devices] if comm.rank == 0 else [],
        mpi=mpi_versions() | {"environment": mpi_environment()},
    )
    outcome: Outcome | None = None
    with errors_on_all_ranks(comm):
        if comm.rank == 0:
            thresholds, baseline = _load(options, measurements)
            measurements.groups = _find_groups(layout, options, slurm)
            if options.topology not in (None, "xnames"):
                from ridgeline.validate.fabric.files import read_fabric

                measurements.fabric = read_fabric(str(options.topology), layout.hosts)
                measurements.groups = measurements.fabric.nodes_by_group()
            if baseline is not None:
                from ridgeline.validate.judge.baseline import check_baseline

                check_baseline(measurements, baseline)
            if options.report is not None:
                check_report(options.report)
            for path, option in ((options.history, "--history"), (options.prometheus, "--prometheus")):
                if path is not None:
                    check_folder(Path(path).parent, "the file", option)
            if options.save_baseline is not None:
                check_folder(Path(options.save_baseline).parent, "the baseline", "--save-baseline")
                check_writable(options.save_baseline, "--save-baseline")
            outcome = Outcome(
                measurements,
                thresholds,
                baseline,
                options.report,
                _show,
                os.environ.get(_PROGRESS),
                processes or [],
                Phases("validate", not options.phase),
                **_records(options),
            )
    site = None if outcome is None else outcome.thresholds
    fabric = measurements.fabric
    switches = {} if fabric is None else fabric.nodes_by_switch()
    groups, switches, patterns, log_files, tools = comm.bcast(
        None if site is None else (measurements.groups, switches, site.patterns, site.log_files, site.tools)
    )
    node_comm = comm.Split(layout.node_of_rank[comm.rank], comm.rank)
    counts = comm.gather(count_cores(node_comm))
    if counts is not None:
        measurements.remarks += remarks_on_cores([counts[rank] for rank in leaders], layout.hosts)
    # Only rank 0 finds trouble and suspects.
    end = outcome.end_process if outcome is not None else print
    before = read_counters() if comm.rank in leaders else {}
    start = log_moment(log_files)
    watch = start_watch(comm, end)
    session = Session(
        comm,
        layout,
        plan,
        watch,
        measurements,
        node_comm,
        comm.Dup(),
        groups,
        switches,
        ranks_on_interfaces=interfaces,
    )
    if any(step.name == "gpus" for step in chosen_steps(plan)):
        session.gpus = find_gpus(comm, layout)
    if outcome is not None:
        run_levels(session, outcome.suspects, outcome.stage_begins)
    else:
        run_levels(session, lambda _: {}, lambda *_: None)
    counted = _count(comm, layout, options, before, start, patterns)
    _gather_nodes(comm, layout, counted, tools, measurements)
    watch.close()
    code = None
    with errors_on_all_ranks(comm):
        if outcome is not None:
            code = outcome.finish()
            if options.save_baseline is not None and code == HEALTHY:
                save_measurements(measurements, options.save_baseline)
            elif options.save_baseline is not None:
                sys.stderr.write(
                    f"error: --save-baseline {options.save_baseline}: nothing was stored, because a baseline "
                    "requires that every node was measured and is healthy. Validate again when that is the case.\n"
                )
    agreed: int = comm.bcast(code)
    _forget(comm, layout, options)
    return agreed


def _gather_facts(
    comm: MPI.Comm, leaders: Sequence[int]
) -> tuple[list[dict[str, Any]], list[tuple[str, ...]]]:
    """Return the machine of every rank, and what Slurm says on every node, complete on rank 0 alone. Collective.

    The other ranks get their own machine only: all of them on every rank would take a kilobyte for each rank.
    """
    leads = comm.rank in leaders
    slurm = tuple(os.environ.get(name, "") for name in _SLURM) if leads else None
    mine = describe_machine().to_dict()
    gathered = comm.gather((mine, slurm))
    if gathered is None:
        return [mine], []
    return [machine for machine, _ in gathered], [gathered[rank][1] for rank in leaders]


def _count(
    comm: MPI.Comm,
    layout: Layout,
    options: ValidationOptions,
    before: Counters,
    start: LogMoment,
    patterns: Sequence[LogPattern],
) -> Counted | None:
    """Return the counters of this node and the lines of its logs, since `before` or since the prolog of the job.

    None on ranks that are not the first of their node. No communication.
    """
    from ridgeline.validate.measure.counters import read_counters
    from ridgeline.validate.measure.logs import marker, write_marker
    from ridgeline.validate.measure.prolog_readings import count, count_log_lines, count_output

    node, job = layout.node_of_rank[comm.rank], _job(options)
    if comm.rank != layout.leaders[node]:
        return None
    counted = count(job, layout.hosts[node], before, read_counters(), start)
    count_log_lines(counted, list(start.files), patterns)
    if job.phase:
        write_marker(marker(job.phase, job.number))
    if comm.rank == 0:
        count_output(job, counted)
    return counted


def _gather_nodes(
    comm: MPI.Comm,
    layout: Layout,
    counted: Counted | None,
    tools: Sequence[VendorTool],
    measurements: Measurements,
) -> None:
    """Fill in the counters, the inventory and what tools did, of all nodes, on rank 0. Collective."""
    from ridgeline.validate.measure.counters import by_name
    from ridgeline.validate.measure.inventory import read_inventory
    from ridgeline.validate.measure.prolog_readings import VALIDATED
    from ridgeline.validate.measure.vendor_tools import run_tools

    found = comm.gather(counted)
    others = comm.gather(None if counted is None else (read_inventory(), run_tools(tools, comm.rank == 0)))
    if found is None or others is None:
        return
    for number, leader in enumerate(layout.leaders):
        inventory, results = others[leader]
        measurements.inventory |= {number: inventory} if inventory else {}
        measurements.tools |= {number: results} if results else {}
    nodes = [one for one in (found[leader] for leader in layout.leaders) if one is not None]
    measurements.counters = by_name([n.before for n in nodes], [n.after for n in nodes])
    measurements.counted = {number: n.period for number, n in enumerate(nodes) if n.period != VALIDATED}
    measurements.lines = {number: n.lines for number, n in enumerate(nodes) if n.lines}
    for name, one in zip(layout.hosts, nodes):
        measurements.remarks += [f"{name}: {text}" for text in one.remarks]


def _job(options: ValidationOptions) -> Job:
    """Return what is known of the job of a prolog or an epilog."""

    from ridgeline.validate.measure.prolog_readings import Job, default_folder, job_here

    folder = default_folder() if options.readings is None else Path(options.readings)
    return Job(options.phase, job_here(options.job), folder, options.job_output)


def _forget(comm: MPI.Comm, layout: Layout, options: ValidationOptions) -> None:
    """Remove the prolog's readings after the verdict of an epilog."""
    from ridgeline.validate.measure.prolog_readings import forget_readings

    job, node = _job(options), layout.node_of_rank[comm.rank]
    if job.phase == "epilog" and job.number is not None and comm.rank == layout.leaders[node]:
        forget_readings(job.folder, layout.hosts[node], job.number)


def _machine(layout: Layout, machines: Sequence[dict[str, Any]], quick: bool) -> dict[str, Any]:
    """Return what a baseline must have in common with this run."""
    return {
        "cpu": sorted({str(machine["cpu"]) for machine in machines}),
        "cores": sorted({int(machine["cores"]) for machine in machines}),
        "ranks_per_node": layout.ranks_per_node(),
        "quick": quick,
    }


def _load(options: ValidationOptions, measurements: Measurements) -> tuple[Thresholds, Measurements | None]:
    """Return thresholds and baseline of the files that were named."""
    from ridgeline.io.machine_file import read_named_machine
    from ridgeline.validate.judge.thresholds import Thresholds, limits_of_machine, load_thresholds
    from ridgeline.validate.measure.measurements import load_measurements

    thresholds = Thresholds() if options.thresholds is None else load_thresholds(options.thresholds)
    if options.machine is not None:
        ranks = max(measurements.machine.get("ranks_per_node") or [1])
        machine = read_named_machine(options.machine)
        limits = limits_of_machine(machine, thresholds.machine_share, len(measurements.nodes), ranks)
        thresholds = thresholds.model_copy(update={"machine_limits": limits})
    return thresholds, None if options.baseline is None else load_measurements(options.baseline)


def _records(options: ValidationOptions) -> dict[str, Any]:
    """Return the history so far and the files to write, for `Outcome`."""
    from ridgeline.validate.judge.history import load_history

    earlier = [] if options.history is None else load_history(options.history)
    files = {"history": options.history, "prometheus": options.prometheus}
    return {"earlier": earlier, "syslog": options.syslog} | files


def _find_groups(
    layout: Layout, options: ValidationOptions, addresses: Sequence[Any]
) -> dict[str, list[int]]:
    """Check the hostfile and return the groups of nodes."""
    from ridgeline.validate.measure.hosts import check_hosts, read_hosts
    from ridgeline.validate.measure.topology import find_groups, groups_of_xnames

    if options.hostlist is not None:
        check_hosts(read_hosts(options.hostlist), layout.hosts, options.hostlist)
    if options.topology == "xnames":
        return groups_of_xnames(layout.hosts)
    return find_groups(layout.hosts, options.groups, options.group_by, addresses, _run_command)


def _run_command(command: Sequence[str]) -> str | None:
    """Return what a command of the batch system prints, None if it is not there or fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout
    return None


def _node_values(measurements: Measurements) -> Iterator[str]:
    """Yield what was measured of the nodes, one line for each quantity."""
    import numpy as np

    from ridgeline.runtime.units import number
    from ridgeline.validate.judge.statistics import costs, steady

    for quantity in measurements.node_quantities:
        cost = steady(costs(quantity.values, quantity.higher_is_better))[0]
        there = np.flatnonzero(np.isfinite(cost))
        if not there.size:
            continue
        values = np.exp(-cost[there] if quantity.higher_is_better else cost[there])
        median = number(float(np.median(values)), quantity.unit)
        if there.size == 1:
            yield f"{quantity.name}: {median}"
            continue
        worst = int(np.argmax(cost[there]))
        yield (
            f"{quantity.name}: median {median}, worst {number(float(values[worst]), quantity.unit)} on "
            f"{measurements.nodes[there[worst]]}"
        )


def _gpu_values(measurements: Measurements) -> Iterator[str]:
    """Yield what was measured of GPUs, one line for each quantity."""
    import numpy as np

    from ridgeline.runtime.units import number
    from ridgeline.validate.judge.part_screening import part_name

    for quantity in measurements.part_quantities:
        values = np.nanmedian(quantity.values, axis=1)
        worst = int(np.nanargmin(values))
        node = int(quantity.node[worst])
        row = int(quantity.number[worst]), int(quantity.peer[worst])
        name = part_name(measurements.nodes[node], measurements.gpus.get(node, ()), row)
        median, least = (
            number(float(value), quantity.unit) for value in (np.nanmedian(values), values[worst])
        )
        yield f"{quantity.name}: median {median}, worst {least} on {name}"


def _show(measurements: Measurements, verdict: Verdict) -> None:
    """Print stages, the values of the nodes, and the verdict."""
    from rich.table import Table

    from ridgeline.runtime.console import plain_console
    from ridgeline.validate.judge.busy_nodes import ADVICE

    console = plain_console()
    table = Table(box=None, pad_edge=False)
    for head in ("level", "stage", "s", "outcome"):
        table.add_column(head, justify="right" if head == "s" else "left")
    for stage in measurements.stages:
        outcome = stage.outcome + (f": {stage.detail}" if stage.detail else "")
        table.add_row(stage.level, stage.name, f"{stage.seconds:.1f}", outcome)

    def say(what: Any) -> None:
        # In a log a sentence is one line, which a script can look for.
        console.print(what, soft_wrap=not sys.stdout.isatty())

    say(table)
    for text in (*_node_values(measurements), *_gpu_values(measurements)):
        say(text)
    for name, counter in measurements.counters.items():
        places = ", ".join(
            f"{measurements.nodes[int(node)]} +{by}" for node, by in list(counter["grown"].items())[:8]
        )
        more = f" and {len(counter['grown']) - 8} more nodes" if len(counter["grown"]) > 8 else ""
        say(f"counter {name} grew: {places}{more}")
    for suspect in verdict.suspects:
        say(f"{suspect.kind} {suspect.name}")
        doubt = [suspect.doubt] if suspect.doubt else []
        for text in (*suspect.reasons, *doubt, *(f"-> {advice}" for advice in suspect.advice)):
            say(f"    {text}")
    for busy in verdict.busy:
        for text in (f"busy: node {busy.sentence}", f"    -> {ADVICE}"):
            say(text)
    for warning in verdict.warnings:
        say(f"warning: node {warning.name}: {warning.text}")
    for text in verdict.notes:
        say(text)
    say(verdict.sentence)
