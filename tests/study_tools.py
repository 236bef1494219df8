"""Stand-ins for the jobs of studies: reports with the keys that a study reads, written at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from ridgeline.study.folder import StudyFolder, StudyJob, open_study
from ridgeline.study.plan import Plan, make_plan
from ridgeline.study.request import read_request

CASE = """\
[run]
model = "gray_scott"
steps = 10

[grid]
shape = [16, 16, 16]
"""
TURBULENCE = """\
[run]
model = "turbulence"
steps = 4

[grid]
shape = [32, 32, 32]
decomposition = "pencils"

[model]
viscosity = 0.01
dt = 0.01
"""

Seconds = Callable[[StudyJob], float]


def run_report(job: StudyJob, seconds: float, points: float, **more: Any) -> dict[str, Any]:
    """Return what a run of ten steps reports, as far as a study reads it."""
    return {
        "model": "gray_scott",
        "seconds_per_step": seconds,
        "points_per_second": points / seconds,
        "flops_per_second": 30 * points / seconds,
        "least_bytes_per_second": 32 * points / seconds,
        "fraction_of_stream": 0.5,
        "run": {
            "time": 20.0,
            "steps": 10,
            "last_step": 10,
            "ranks_on_node": job.point.ranks,
            "cores": 2,
            "ended": "all steps done",
        },
        "step": {"mean": {"compute": 0.75 * seconds, "exchange": 0.25 * seconds, "total": seconds}},
        "phases": {"output": {"max": 0.0}, "checkpoint": {"max": 0.0}},
        "work": {"points": points},
        "machine": {"host": "stand-in", "cpu": "none", "cores": 2},
        "provenance": {"git_commit": "0123abcd"},
        **more,
    }


def points_of(job: StudyJob) -> float:
    """Return the points of the job's grid."""
    product = 1.0
    for part in job.point.need.size.split(" x "):
        product *= float(part)
    return product


class Runner:
    """Stands in for the processes of jobs. seconds: of a step; names: of the jobs that were run, in order.

    wrong: by name of a job, what it does in place of its report: an exit code, text in the report's place, or an
    exception to raise.
    """

    def __init__(self, seconds: Seconds = lambda job: 1e-3, wrong: Mapping[str, Any] | None = None) -> None:
        self.seconds, self.wrong = seconds, dict(wrong or {})
        self.names: list[str] = []

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that runs jobs, with this in place of their processes."""

        def start(batch: Sequence[StudyJob], folder: Path, number: int | None) -> SimpleNamespace:
            codes = [self.end(job) for job in batch]
            return SimpleNamespace(poll=lambda: max(codes))

        with patch.multiple("ridgeline.study.jobs", start_batch=start, POLL=0.0):
            return function(*arguments)

    def end(self, job: StudyJob) -> int:
        """Do what a job does, and return its exit code."""
        self.names.append(job.name)
        wrong = self.wrong.get(job.name)
        log, report = job.folder / "log.txt", job.folder / "report.json"
        if isinstance(wrong, BaseException):
            raise wrong
        if isinstance(wrong, int):
            log.write_text("ridgeline: starts\nerror: the disk is full; free some space\n")
            return wrong
        text = wrong or json.dumps(run_report(job, self.seconds(job), points_of(job)))
        report.write_text(text)
        log.write_text("ridgeline: all is well\n")
        return 0


def case_file(folder: Path, text: str = CASE) -> str:
    """Write a case and return its path."""
    path = folder / "case.toml"
    path.write_text(text)
    return str(path)


def planned(folder: Path, given: Mapping[str, Any], text: str = CASE) -> Plan:
    """Return the plan of a study of a case."""
    return make_plan(read_request(case_file(folder, text), given))


def prepared(
    folder: Path, given: Mapping[str, Any], text: str = CASE, name: str = "study"
) -> tuple[StudyFolder, Plan, list[StudyJob]]:
    """Return a study's folder, its plan and its jobs."""
    request = replace(read_request(case_file(folder, text), given), directory=folder)
    with open_study(folder / name, request, "study") as opened:
        return opened
