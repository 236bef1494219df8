"""Running the jobs of a study here: one after the other, in random order, those that are missing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.errors import LauncherError
from ridgeline.runtime.files import output_errors, read_regular
from ridgeline.runtime.launcher import die_with_parent, this_program
from ridgeline.study.folder import ADVICE, ERROR, LOG, Found, StudyJob, clear, look
from ridgeline.study.plan import Plan

LINES = 5  # of a log that tell why a job failed
END_SECONDS = 30.0  # that an interrupted job has to end by itself

Runner = Callable[[StudyJob], int]  # runs a job to its end, with its output in its log; returns its exit code
Tell = Callable[[str], None]


def run_jobs(plan: Plan, jobs: Sequence[StudyJob], tell: Tell, runner: Runner | None = None) -> list[Found]:
    """Run the jobs that are not done, in their order; return what stands in the folder of each of all `jobs`.

    A job that fails keeps its log and gets a file with its error; the others go on. Raises OutputError.
    """
    runner = runner or run_here
    waiting = [job for job in jobs if look(job.folder).state != "done"]
    if len(waiting) < len(jobs):
        tell(f"{len(jobs) - len(waiting)} of {len(jobs)} jobs are done already")
    for number, job in enumerate(waiting, 1):
        tell(f"{number} of {len(waiting)}: {job.name}")
        clear(job, plan)
        code = runner(job)
        found = look(job.folder)
        if code or found.state != "done":
            why = f"exit code {code}" if code else f"exit code 0, but it {found.why}"
            write_error(job.folder, why)
            tell(f"{job.name} failed: {look(job.folder).why}")
    return [look(job.folder) for job in jobs]


def run_here(job: StudyJob) -> int:
    """Run a job by the command line, in a process of its own. Returns its exit code.

    Ctrl-C goes to the job too, which has END_SECONDS to end; the job dies with this process.
    """
    command = [*this_program(), *job.arguments, "-n", str(job.point.ranks)]
    with output_errors(f"write into {job.folder}", ADVICE), (job.folder / LOG).open("wb") as log:
        try:
            process = subprocess.Popen(
                command,
                cwd=job.directory,
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            raise LauncherError(f"cannot start a job in {job.directory}: {error.strerror}") from None
        try:
            return process.wait()
        except KeyboardInterrupt:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise


def write_error(folder: Path, why: str) -> None:
    """Write why a job failed: its exit code, and the error of its log, or the last lines if it says none."""
    try:
        lines = read_regular(folder / LOG).decode(errors="replace").splitlines()
    except OSError:
        lines = []
    said = [line for line in lines if line.startswith("error:")] or [one for one in lines if one.strip()][
        -LINES:
    ]
    with output_errors(f"write into {folder}", ADVICE):
        (folder / ERROR).write_text("\n".join([why, *said]) + "\n")
