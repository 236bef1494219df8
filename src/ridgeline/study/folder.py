"""The folder of a study or sweep: its layout, the states of its jobs, how it is continued, and its lock.

    study.toml              what the study is to do
    case.toml               a copy of the settings file
    points/NAME/1/          the first job of a point:
        job.json            what was started: ranks, axes, command
        log.txt             what it printed
        report.json         its report, if it has ended well
        error.txt           why it failed, if it has not
        ...                 outputs and checkpoints, if the study writes them
    study.csv, study.json, study.md, figures/    what `ridgeline study collect` makes of the reports

A folder may grow: more ranks, values and repeats add points and jobs. A job that is in it is never given other
settings.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ridgeline.config.load import read_text
from ridgeline.io.output_files import to_json
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import DAMAGED, check_folder, output_errors, read_regular, replace_file
from ridgeline.runtime.locks import PathLock
from ridgeline.study.plan import Plan, Point, make_plan
from ridgeline.study.request import FILE, StudyRequest, to_toml

POINTS = "points"
JOB, LOG, REPORT, ERROR = "job.json", "log.txt", "report.json", "error.txt"
ADVICE = "Choose another folder with -o."
# What reports hold that a study can read: of a run, of a benchmark.
KINDS = ({"model", "run", "work", "seconds_per_step"}, {"benchmark", "rows", "settings"})

State = Literal["done", "failed", "damaged", "missing"]


@dataclass(frozen=True)
class StudyJob:
    """One run of a point. folder: of this job; number: of the repeat, from 1; directory: where it starts."""

    point: Point
    number: int
    folder: Path
    directory: Path

    @property
    def name(self) -> str:
        """Return the name of the point, and which of its jobs it is."""
        return f"{self.point.name}/{self.number}"

    @property
    def arguments(self) -> list[str]:
        """Arguments of `ridgeline`, without the number of ranks."""
        writes = [
            part
            for key, name in self.point.paths.items()
            for part in ("--set", f"{key}={json.dumps(str(self.folder / name), ensure_ascii=False)}")
        ]
        return [*self.point.command, *writes, "--json", str(self.folder / REPORT)]


@dataclass(frozen=True)
class JobStatus:
    """The state of a job, read from its folder. why: a clause on why it is not done; record: of job.json; report: if
    it is done.
    """

    name: str
    state: State
    why: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyFolder:
    """An existing folder of a study."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> StudyFolder:
        """Return the folder of a study. Raises OutputError if it is not one."""
        if not (Path(path) / FILE).is_file():
            raise OutputError(
                f"{path} is not the folder of a study, because it has no {FILE}. Name the folder that "
                "`ridgeline study run` wrote."
            )
        return cls(Path(path).resolve())

    def keep_case(self, case: Path) -> Path:
        """Copy the settings file into the folder, where it does not change; return the path of the copy."""
        kept = self.path / f"case{case.suffix}"
        text = read_text(case)
        if kept.exists() and read_text(kept) != text:
            raise OutputError(f"{self.path} already holds a study of a case other than {case}. {ADVICE}")
        with output_errors(f"write {kept}", ADVICE):
            replace_file(kept, text.encode())
        return kept

    def jobs(self, plan: Plan, directory: Path) -> list[StudyJob]:
        """Return the jobs of a plan in their random order. directory: where runs start.

        Raises OutputError if the folder has points that the plan lacks, or jobs that had other settings.
        """
        root = self.path / POINTS
        jobs = [
            StudyJob(
                point, number, folder := root / point.name / str(number), directory if point.paths else folder
            )
            for point, number in plan.jobs()
        ]
        planned = {job.name: job for job in jobs}
        for found in self.statuses():
            job = planned.get(found.name)
            if job is None and found.name.split("/")[0] not in {point.name for point in plan.points}:
                raise OutputError(
                    f"{self.path} already holds the point {found.name.split('/')[0]}, which this study does not "
                    "have. Add the point to the study, or choose another folder with -o."
                )
            expected = {} if job is None else record_of(job, plan)
            # Sizes and memory follow from these.
            keys = ("subject", "ranks", "threads", "arguments")
            if expected and found.record and any(found.record.get(key) != expected[key] for key in keys):
                raise OutputError(
                    f"{self.path} already holds the job {found.name} with other settings. {ADVICE}"
                )
        return jobs

    def statuses(self) -> Iterator[JobStatus]:
        """Yield the state of every job that was ever started or prepared, by name."""
        for path in sorted(self.path.glob(f"{POINTS}/*/*/{JOB}"), key=_in_order):
            yield read_status(path.parent)


@contextmanager
def open_study(
    path: Path, request: StudyRequest, noun: str, here: bool = True
) -> Iterator[tuple[StudyFolder, Plan, list[StudyJob]]]:
    """Make or continue the folder of a study or sweep, and hold its lock; give it, its plan and its jobs.

    The plan is that of the copy of the case in the folder, which does not change while the study exists.

    Parameters
    ----------
    path
        Of the folder, which is new, empty, or holds the same study with the same or fewer points.
    request
        What the study is to do; the folder's study file says so afterwards.
    noun
        What messages call it: "study" or "sweep".
    here
        Whether the jobs run on this machine.

    Raises
    ------
    OutputError
        If the folder holds something else, cannot be written, or another process runs the study.
    ConfigError, DecompositionError
        As `make_plan` does.
    """
    if path.is_dir() and any(path.iterdir()) and not (path / FILE).is_file():
        raise OutputError(f"{path} is not empty and holds no study, because it has no {FILE}. {ADVICE}")
    check_folder(path, "a study", "-o")
    folder = StudyFolder(path.resolve())
    if request.case is not None:
        request = replace(request, case=folder.keep_case(request.case))
    plan = make_plan(request, here)
    with PathLock.inside(folder.path, f"the {noun} {folder.path}", waits=False):
        jobs = folder.jobs(plan, request.directory.resolve())
        with output_errors(f"write {folder.path / FILE}", ADVICE):
            name = None if request.case is None else request.case.name
            replace_file(folder.path / FILE, to_toml(request, name).encode())
        yield folder, plan, jobs


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Sort n2 before n10, and the jobs of a point by number."""
    return [(int(n or 0), text) for text, n in re.findall(r"(\D+)(\d*)", str(path))]


def record_of(job: StudyJob, plan: Plan) -> dict[str, Any]:
    """Return what job.json says of a job: all that a table needs beside the report."""
    point = job.point
    content = {
        "subject": plan.subject.name,
        "scaling": plan.scaling,
        "point": point.name,
        "order": plan.order[point.name],
        "number": job.number,
        "ranks": point.ranks,
        "threads": point.threads,
        "axes": point.axes,
        "size": point.need.size,
        "process_grid": point.need.process_grid,
        "memory_per_rank": point.need.memory,
        "logarithmic": plan.subject.law.logarithmic,
        "arguments": [part.replace(str(job.folder.parents[2]), ".") for part in job.arguments],
    }
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def clear(job: StudyJob, plan: Plan) -> None:
    """Give a job a folder that holds its job.json and nothing else. Raises OutputError."""
    with output_errors(f"write into {job.folder}", ADVICE):
        if (job.folder / JOB).is_file():
            shutil.rmtree(job.folder)
        job.folder.mkdir(parents=True, exist_ok=True)
        replace_file(job.folder / JOB, to_json(record_of(job, plan)).encode())


def read_status(folder: Path) -> JobStatus:
    """Read the state of a job from its folder: only a complete report of all steps makes it done."""
    name = f"{folder.parent.name}/{folder.name}"
    try:
        record = _read(folder / JOB)
        record.pop("generator", None)
    except (OSError, *DAMAGED) as problem:
        return JobStatus(name, "damaged", f"{JOB} {_words(problem)}")
    if (folder / ERROR).exists():
        try:
            text = read_regular(folder / ERROR).decode(errors="replace").strip()
        except OSError as problem:
            text = f"{ERROR} {_words(problem)}"
        return JobStatus(name, "failed", " ".join(text.split()) or "no reason is known", record)
    try:
        report = _read(folder / REPORT)
    except FileNotFoundError:
        return JobStatus(name, "missing", "it has no report yet", record)
    except (OSError, *DAMAGED) as problem:
        return JobStatus(name, "damaged", f"{REPORT} {_words(problem)}", record)
    if not any(kind <= report.keys() for kind in KINDS):
        why = f"{REPORT} is JSON, but not the report of a run or a benchmark"
        return JobStatus(name, "damaged", why, record)
    run = report.get("run", {})
    try:
        reached = run.get("last_step", 0) >= (run.get("steps") or 0)  # what reports of older versions tell
        ended_early = "run" in report and not run.get("complete", reached)
    except DAMAGED:
        return JobStatus(name, "damaged", f"{REPORT} does not say where the run ended", record)
    if ended_early:
        of_steps = f" of {run.get('steps')}" if run.get("steps") else ""
        why = f"it ended at step {run.get('last_step')}{of_steps} ({run.get('ended')})"
        return JobStatus(name, "missing", why, record)
    return JobStatus(name, "done", "", record, report)


def _read(path: Path) -> dict[str, Any]:
    content = json.loads(read_regular(path).decode())
    if not isinstance(content, dict):
        raise ValueError("its content is not a table")
    return content


def _words(problem: Exception) -> str:
    """Return what is wrong with a file, to follow its name."""
    if isinstance(problem, OSError):
        return f"cannot be read: {problem.strerror}"
    return f"is not JSON, or it is cut off ({problem})"
