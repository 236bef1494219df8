"""What a node's counters did during a job: the epilog's against those that the prolog kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.runtime.errors import OutputError
from ridgeline.validate.measure.counters import Counters, read_output, set_back
from ridgeline.validate.measure.prolog_readings import Readings, keep_readings, load_readings, read_boot

VALIDATED = "while it was validated"
_NAMED = 4  # counters in a remark


@dataclass(frozen=True)
class Job:
    """What a prolog or an epilog knows of its job. phase: "prolog", "epilog" or "" for none; number: None if nobody
    says; folder: of the readings; output: the job's output file, if it is known.
    """

    phase: str = ""
    number: str | None = None
    folder: Path = Path()
    output: str | None = None


@dataclass
class Counted:
    """Counters of one node. before, after: what is compared; period: what lies between; remarks: on that."""

    before: Counters
    after: Counters
    period: str = VALIDATED
    remarks: list[str] = field(default_factory=list)


def count(job: Job, host: str, before: Counters, after: Counters) -> Counted:
    """Return what to compare on this node: of an epilog the prolog's readings with those at its end.

    A prolog keeps its last readings here. before, after: of this validation. Nothing raises: a node can be judged
    without; the remarks say what is missing. No communication.
    """
    counted = Counted(before, after)
    if job.phase == "prolog":
        counted.remarks += _keep(job, host, after)
    elif job.phase == "epilog":
        _compare(job, host, counted)
    return counted


def count_output(job: Job, counted: Counted) -> None:
    """Add the time-outs of the summary that Cray MPICH printed into the job's output, if it is known."""
    if job.phase != "epilog" or job.output is None:
        return
    try:
        summary = read_output(job.output)
    except OSError as error:
        counted.remarks.append(f"the job's output {job.output} cannot be read: {error.strerror}")
        return
    if "mpich/network_timeouts" not in summary:
        counted.remarks.append(f"the job's output {job.output} holds no network summary of Cray MPICH")
        return
    counted.before = counted.before | {"job/network_timeouts": 0}
    counted.after = counted.after | {"job/network_timeouts": summary["mpich/network_timeouts"]}


def _keep(job: Job, host: str, counters: Counters) -> list[str]:
    lost = "the epilog will not know what the job does to them"
    if job.number is None:
        return [f"the counters are not kept: no job number is known (--job, SLURM_JOB_ID, PBS_JOBID); {lost}"]
    try:
        keep_readings(job.folder, host, Readings(job.number, read_boot(), time.time(), counters))
    except OutputError as error:
        return [f"the counters are not kept: {error}; {lost}"]
    return []


def _compare(job: Job, host: str, counted: Counted) -> None:
    alone = "counters are compared over the epilog's own run only; what the job did to them is not known"
    if job.number is None:
        counted.remarks.append(f"no job number is known (--job, SLURM_JOB_ID, PBS_JOBID): {alone}")
        return
    try:
        readings = load_readings(job.folder, host, job.number)
    except OutputError as error:
        counted.remarks.append(f"{error}: {alone}")
        return
    if readings is None:
        counted.remarks.append(f"no readings of the prolog of job {job.number} are in {job.folder}: {alone}")
        return
    prolog = f"the prolog of job {job.number}"
    counted.period = f"since {prolog}"
    minutes = max(time.time() - readings.taken, 0.0) / 60
    counted.remarks.append(f"counters are compared with what {prolog} read {minutes:.1f} min before")
    if readings.boot != read_boot():
        counted.before = {}
        counted.remarks.append(
            f"the node was started again since {prolog}: its counters began anew with that start"
        )
        return
    counted.before = readings.counters
    for names, what in (
        (sorted(readings.counters.keys() - counted.after.keys()), "are gone, with what they belong to"),
        (set_back(readings.counters, counted.after), "were set back, and count from there"),
    ):
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            counted.remarks.append(f"counters that {prolog} read {what}: {', '.join(names[:_NAMED])}{more}")
