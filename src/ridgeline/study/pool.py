"""Running the cases of a sweep: shared out among a few processes, each of which runs its own one after the other."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.errors import LauncherError
from ridgeline.runtime.files import check_folder, output_errors, replace_file
from ridgeline.runtime.launcher import die_with_parent, this_program
from ridgeline.study.folder import ADVICE, ERROR, REPORT, Found, StudyJob, clear, look
from ridgeline.study.plan import Plan
from ridgeline.study.run import END_SECONDS, Tell, write_error

FOLDER = "processes"  # lists and logs
POLL = 0.2  # seconds between two looks


def run_in_processes(
    plan: Plan, jobs: Sequence[StudyJob], at_once: int, folder: Path, tell: Tell
) -> list[Found]:
    """Run the jobs that are not done, at_once at a time; return what stands in the folder of each of all `jobs`.

    A process takes every at_once-th job. A job that fails keeps its error, and the others go on. If a whole process
    dies, its next job is to blame, and a new process takes the rest. Raises OutputError, LauncherError.
    """
    waiting = [job for job in jobs if look(job.folder).state != "done"]
    if len(waiting) < len(jobs):
        tell(f"{len(jobs) - len(waiting)} of {len(jobs)} cases are done already")
    for job in waiting:
        clear(job, plan)
    check_folder(folder / FOLDER, "lists of cases", "-o")
    shares = [list(waiting[first::at_once]) for first in range(min(at_once, len(waiting)))]
    told: set[str] = set()
    with contextlib.ExitStack() as stack:
        running = {
            number: stack.enter_context(_process(share, folder, number))
            for number, share in enumerate(shares)
        }
        while running:
            time.sleep(POLL)
            _tell_done(waiting, told, tell)
            for number, process in list(running.items()):
                code = process.poll()
                if code is None:
                    continue
                rest = [job for job in shares[number] if look(job.folder).state == "missing"]
                del running[number]
                if rest and code:
                    write_error(
                        rest[0].folder, f"its process ended with exit code {code}; see {FOLDER}/{number}.log"
                    )
                    shares[number] = rest[1:]
                    if rest[1:]:
                        running[number] = stack.enter_context(_process(rest[1:], folder, number))
    _tell_done(waiting, told, tell)
    return [look(job.folder) for job in jobs]


def _tell_done(jobs: Sequence[StudyJob], told: set[str], tell: Tell) -> None:
    """Say which jobs have ended since the last look."""
    for job in jobs:
        if job.name not in told and ((job.folder / REPORT).exists() or (job.folder / ERROR).exists()):
            told.add(job.name)
            found = look(job.folder)
            end = "" if found.state == "done" else f" {found.state}: {found.why}"
            tell(f"{len(told)} of {len(jobs)}: {job.point.name}{end}")


@contextlib.contextmanager
def _process(jobs: Sequence[StudyJob], folder: Path, number: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process for some jobs; on leaving it has END_SECONDS to end by itself."""
    entries = folder / FOLDER / f"{number}.json"
    command = [*this_program(), "run-list", str(entries), "-n", str(jobs[0].point.ranks)]
    with output_errors(f"write into {folder}", ADVICE), (folder / FOLDER / f"{number}.log").open("ab") as log:
        replace_file(entries, json.dumps([_entry(job) for job in jobs], indent=1).encode())
        try:
            process = subprocess.Popen(
                command,
                cwd=jobs[0].directory,
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            raise LauncherError(f"cannot start a process in {jobs[0].directory}: {error.strerror}") from None
    try:
        yield process
    finally:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _entry(job: StudyJob) -> dict[str, Any]:
    """Return what `ridgeline run-list` reads of a job."""
    arguments = job.arguments
    settings = [value for flag, value in itertools.pairwise(arguments) if flag == "--set"]
    return {
        "case": arguments[1],
        "settings": settings,
        "report": str(job.folder / REPORT),
        "error": str(job.folder / ERROR),
    }
