"""Running the jobs of a study or sweep on this machine, in processes whose output goes to a log.

A batch is what one process runs. In a study it is one job, and one batch runs at a time, so that jobs do not disturb
each other's times. In a sweep it is every n-th case, and n batches run at a time, so that kernels are loaded once a
process.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from ridgeline.runtime.files import check_folder, output_errors, read_regular, replace_file
from ridgeline.runtime.launcher import start_program
from ridgeline.study.folder import ADVICE, ERROR, LOG, REPORT, JobStatus, StudyJob, clear, read_status
from ridgeline.study.plan import Plan

PROCESSES = "processes"  # folder of a sweep's lists and logs
POLL = 0.2  # seconds between two looks at the processes
END_SECONDS = 30.0  # that the processes have to end when the study is interrupted
LINES = 5  # of a log that are kept when it names no error

Batch = list[StudyJob]
Tell = Callable[[str], None]


def run_jobs(
    plan: Plan, jobs: Sequence[StudyJob], folder: Path, tell: Tell, at_once: int | None = None
) -> list[JobStatus]:
    """Run the jobs that are not done; return the state of every job in `jobs`.

    A job that fails keeps its error, and the others continue. If a process dies that runs several jobs, its next job
    is marked as failed, and a new process runs the rest. Ctrl-C reaches the processes too, which then have
    END_SECONDS to end.

    Parameters
    ----------
    plan, jobs, folder
        The plan, its jobs in the order in which they run, and the folder of the study.
    tell
        Called with each line that reports progress.
    at_once
        Processes that share the jobs of a sweep; None for a study, whose jobs run one after the other.

    Raises
    ------
    OutputError, LauncherError
        If a folder cannot be written, or a process cannot be started.
    """
    shared = at_once is not None
    waiting = [job for job in jobs if read_status(job.folder).state != "done"]
    if len(waiting) < len(jobs):
        tell(f"{len(jobs) - len(waiting)} of {len(jobs)} {'cases' if shared else 'jobs'} are done already")
    count = min(at_once or len(waiting), len(waiting))
    queue = deque((number, waiting[number::count]) for number in range(count))
    told: set[str] = set()
    running: dict[int, tuple[subprocess.Popen[bytes], Batch]] = {}
    try:
        while queue or running:
            while queue and len(running) < (at_once or 1):
                number, batch = queue.popleft()
                if not shared:
                    tell(f"{number + 1} of {len(waiting)}: {batch[0].name}")
                for job in batch:
                    clear(job, plan)
                running[number] = (start_batch(batch, folder, number if shared else None), batch)
            time.sleep(POLL)
            for number, (process, batch) in [*running.items()]:
                code = process.poll()
                if code is None:
                    continue
                del running[number]
                if not shared:
                    _close_job(batch[0], code, tell)
                elif rest := _rest_of_batch(batch, code, number):
                    queue.append((number, rest))
            if shared:
                _tell_ended(waiting, told, tell)
    finally:
        for process, _ in running.values():
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return [read_status(job.folder) for job in jobs]


def start_batch(batch: Batch, folder: Path, number: int | None) -> subprocess.Popen[bytes]:
    """Start the process of a batch. number: of the process, if several jobs share it; None for a job alone.

    Several jobs are given as a list to the hidden command `run-list`, which runs one after the other.
    """
    job = batch[0]
    arguments, log = job.arguments, job.folder / LOG
    if number is not None:
        check_folder(folder / PROCESSES, "lists of cases", "-o")
        cases, log = folder / PROCESSES / f"{number}.json", folder / PROCESSES / f"{number}.log"
        entries = [
            {
                "case": job.arguments[1],
                "settings": [value for flag, value in itertools.pairwise(job.arguments) if flag == "--set"],
                "report": str(job.folder / REPORT),
                "error": str(job.folder / ERROR),
            }
            for job in batch
        ]
        with output_errors(f"write into {folder}", ADVICE):
            replace_file(cases, json.dumps(entries, indent=1).encode())
        arguments = ["run-list", str(cases)]
    with output_errors(f"write into {log.parent}", ADVICE), log.open("ab") as output:
        return start_program([*arguments, "-n", str(job.point.ranks)], job.directory, output)


def _close_job(job: StudyJob, code: int, tell: Tell) -> None:
    """Mark a job as failed unless its process ended well with a whole report."""
    found = read_status(job.folder)
    if code or found.state != "done":
        _write_error(job.folder, f"exit code {code}" if code else f"exit code 0, but {found.why}")
        tell(f"{job.name} failed: {read_status(job.folder).why}")


def _rest_of_batch(batch: Batch, code: int, number: int) -> Batch:
    """Return what another process must run; the job that ended this process is marked as failed."""
    rest = [job for job in batch if read_status(job.folder).state not in ("done", "failed")]
    if not rest or not code:
        return []
    _write_error(
        rest[0].folder, f"its process ended with exit code {code} (its log is {PROCESSES}/{number}.log)"
    )
    return rest[1:]


def _tell_ended(jobs: Batch, told: set[str], tell: Tell) -> None:
    """Report the jobs that have ended since the last look."""
    for job in jobs:
        if job.name not in told and ((job.folder / REPORT).exists() or (job.folder / ERROR).exists()):
            told.add(job.name)
            found = read_status(job.folder)
            end = "" if found.state == "done" else f" {found.state}: {found.why}"
            tell(f"{len(told)} of {len(jobs)}: {job.point.name}{end}")


def _write_error(folder: Path, why: str) -> None:
    """Write why a job failed: its exit code, and the errors in its log, or the log's last lines if it has none."""
    try:
        lines = read_regular(folder / LOG).decode(errors="replace").splitlines()
    except OSError:
        lines = []
    errors = [line for line in lines if line.startswith("error:")]
    said = errors or [line for line in lines if line.strip()][-LINES:]
    with output_errors(f"write into {folder}", ADVICE):
        (folder / ERROR).write_text("\n".join([why, *said]) + "\n")
