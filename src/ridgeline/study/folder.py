"""The folder of a study, and what stands in it.

    study.toml              what was asked
    case.toml               the settings file, as it was
    points/NAME/1/          the first job of a point:
        job.json            what was started: ranks, axes, command
        log.txt             what it printed
        report.json         its report, when it has ended well
        error.txt           why it failed, when it has not
        ...                 outputs and checkpoints, if they are asked for
    study.csv, study.json, study.md, figures/    what `ridgeline study collect` makes of the reports

A folder may grow: more ranks, values and repeats add points and jobs. What is in it is never made to mean another.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ridgeline.config.load import read_text
from ridgeline.io.previous import to_json
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import DAMAGED, check_folder, output_errors, read_regular, replace_file
from ridgeline.study.asked import FILE, Asked, to_toml, with_case
from ridgeline.study.plan import Plan, Point

POINTS = "points"
JOB, LOG, REPORT, ERROR = "job.json", "log.txt", "report.json", "error.txt"
ADVICE = "choose another -o"
# What reports hold that a study can read: of a run, of a benchmark.
KINDS = ({"model", "run", "work", "seconds_per_step"}, {"benchmark", "rows", "settings"})

State = Literal["done", "failed", "damaged", "missing"]


@dataclass(frozen=True)
class StudyJob:
    """One start of a point. folder: its own; number: of the repeat, from 1; directory: where it starts."""

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
class Found:
    """What stands in the folder of a job. why: of what is not done, in words; record: of job.json."""

    name: str
    state: State
    why: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyFolder:
    """A study's folder that is there."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> StudyFolder:
        """Return the folder of a study. Raises OutputError if it is none."""
        if not (Path(path) / FILE).is_file():
            raise OutputError(f"{path} is no folder of a study: it has no {FILE}; name the -o of `study run`")
        return cls(Path(path).resolve())

    @classmethod
    def prepare(cls, path: Path, asked: Asked) -> tuple[StudyFolder, Asked]:
        """Make the folder of a study, or take up that which is there; return it, and what is asked of its case.

        Raises OutputError for a folder that holds something else.
        """
        if path.is_dir() and any(path.iterdir()) and not (path / FILE).is_file():
            raise OutputError(f"{path} holds something else than a study (no {FILE}); {ADVICE}")
        check_folder(path, "a study", "-o")
        folder = cls(path.resolve())
        if asked.case is not None:
            asked = with_case(asked, folder._keep_case(asked.case))
        return folder, asked

    def _keep_case(self, case: Path) -> Path:
        """Copy the settings file into the folder, where it stays what it was."""
        kept = self.path / f"case{case.suffix}"
        text = read_text(case)
        if kept.exists() and read_text(kept) != text:
            raise OutputError(f"{self.path} holds a study of another case than {case}; {ADVICE}")
        with output_errors(f"write {kept}", ADVICE):
            replace_file(kept, text.encode())
        return kept

    def keep_asked(self, asked: Asked) -> None:
        """Write what was asked. Raises OutputError."""
        with output_errors(f"write {self.path / FILE}", ADVICE):
            case = None if asked.case is None else asked.case.name
            replace_file(self.path / FILE, to_toml(asked, case).encode())

    def jobs(self, plan: Plan, directory: Path) -> list[StudyJob]:
        """Return the jobs of a plan in their random order. directory: where runs start.

        Raises OutputError if the folder has jobs that the plan has not, or that were started with other settings.
        """
        root = self.path / POINTS
        jobs = [
            StudyJob(
                point, number, folder := root / point.name / str(number), directory if point.paths else folder
            )
            for point, number in plan.jobs()
        ]
        planned = {job.name: job for job in jobs}
        for found in self.look():
            job = planned.get(found.name)
            if job is None and found.name.split("/")[0] not in {point.name for point in plan.points}:
                raise OutputError(
                    f"{self.path} holds the point {found.name.split('/')[0]}, which is not asked for; ask for it "
                    f"too, or {ADVICE}"
                )
            if job is not None and found.record and differs(found.record, record_of(job, plan)):
                raise OutputError(
                    f"{self.path} holds the job {found.name} with other settings than those asked for; {ADVICE}"
                )
        return jobs

    def look(self) -> Iterator[Found]:
        """Yield what stands in the folder of every job that was ever started or prepared, by name."""
        for path in sorted(self.path.glob(f"{POINTS}/*/*/{JOB}"), key=_in_order):
            yield look(path.parent)


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
        "order": plan.points.index(point),
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


def differs(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Say whether two jobs are different ones. Sizes and memory follow from the rest."""
    return any(first.get(key) != second.get(key) for key in ("subject", "ranks", "threads", "arguments"))


def clear(job: StudyJob, plan: Plan) -> None:
    """Give a job a folder with nothing in it but what it is. Raises OutputError."""
    with output_errors(f"write into {job.folder}", ADVICE):
        if (job.folder / JOB).is_file():
            shutil.rmtree(job.folder)
        job.folder.mkdir(parents=True, exist_ok=True)
        replace_file(job.folder / JOB, to_json(record_of(job, plan)).encode())


def look(folder: Path) -> Found:
    """Return what stands in the folder of a job: only a whole report of all steps makes it done."""
    name = f"{folder.parent.name}/{folder.name}"
    try:
        record = _read(folder / JOB)
        record.pop("generator", None)
    except (OSError, *DAMAGED) as problem:
        return Found(name, "damaged", f"{JOB}: {_words(problem)}")
    if (folder / ERROR).exists():
        try:
            text = read_regular(folder / ERROR).decode(errors="replace").strip()
        except OSError as problem:
            text = _words(problem)
        return Found(name, "failed", " ".join(text.split()) or "no reason is known", record)
    try:
        report = _read(folder / REPORT)
    except FileNotFoundError:
        return Found(name, "missing", "has no report yet", record)
    except (OSError, *DAMAGED) as problem:
        return Found(name, "damaged", f"{REPORT}: {_words(problem)}", record)
    if not any(kind <= report.keys() for kind in KINDS):
        return Found(name, "damaged", f"{REPORT}: is JSON, but no report of a run or a benchmark", record)
    run = report.get("run", {})
    try:
        ended_early = "run" in report and run.get("last_step", 0) < run.get("steps", 0)
    except DAMAGED:
        return Found(name, "damaged", f"{REPORT}: does not say where the run ended", record)
    if ended_early:
        why = f"ended at step {run.get('last_step')} of {run.get('steps')} ({run.get('ended')})"
        return Found(name, "missing", why, record)
    return Found(name, "done", "", record, report)


def _read(path: Path) -> dict[str, Any]:
    content = json.loads(read_regular(path).decode())
    if not isinstance(content, dict):
        raise ValueError("is no table")
    return content


def _words(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return str(problem.strerror)
    return f"is not JSON, or cut off ({problem})"
