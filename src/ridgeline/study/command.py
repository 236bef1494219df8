"""What `ridgeline study` does: plan and run, collect, compare."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from ridgeline.bench.result import make_table
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.declared_options import options_of
from ridgeline.runtime.errors import LauncherError
from ridgeline.runtime.files import check_folder
from ridgeline.runtime.launcher import detect_launch
from ridgeline.study.collect import Collected, collect, compare, joined, names_of
from ridgeline.study.folder import StudyFolder, open_study
from ridgeline.study.jobs import Tell, run_jobs
from ridgeline.study.plan import make_plan, show_plan
from ridgeline.study.request import FILE, read_request
from ridgeline.study.study_options import SubmitOptions
from ridgeline.study.submit import SUBMITTERS, submit, write_scripts

FAILED = 1  # exit code of a study with jobs that failed
PREFIX = "study_"  # of folders without a given name
STEM = "compare"


Show = Callable[[RenderableType], None]


def print_on_stdout(what: RenderableType) -> None:
    """Print on standard output; no table is cut where there is no terminal."""
    plain_console(soft_wrap=True).print(what)


def run_study(
    subject: str | None,
    given: Mapping[str, Any],
    output: str | None,
    tell: Tell,
    show: Show = print_on_stdout,
) -> tuple[int, Path]:
    """Plan a study and run its missing jobs, or write scripts for them; return the exit code and the study's folder.

    given: flags by the names of `StudyOptions` and `SubmitOptions`. output: the study's folder. show: called with the
    plan and the table of results.

    Raises RidgelineError before anything starts.
    """
    of_submit = {option.name for option in options_of(SubmitOptions)}
    submission = SubmitOptions(**{name: value for name, value in given.items() if name in of_submit})
    refuse_ranks()
    request = read_request(subject, {name: value for name, value in given.items() if name not in of_submit})
    path = Path(output) if output is not None else request.folder or Path(f"{PREFIX}{request.name}")
    here = submission.submit == "none"
    make_plan(request, here)  # a study that cannot run leaves no folder behind
    with open_study(path, request, "study", here) as (folder, plan, jobs):
        show(show_plan(plan))
        if here:
            run_jobs(plan, jobs, folder.path, tell)
            return collect_study(str(folder.path), tell, show=show), folder.path
        scripts = write_scripts(plan, jobs, submission, folder.path)
        if not scripts:
            tell("all jobs are done already")
            return 0, folder.path
        if submission.now:
            lines = submit(scripts, submission.submit)
        else:
            program = SUBMITTERS[submission.submit]
            lines = [f"  {program} {shlex.quote(str(script))}" for script in scripts]
            tell("the scripts were not submitted; submit them with:")
        for line in lines:
            tell(line)
        tell(f"collect the results at any time with: ridgeline study collect {shlex.quote(str(folder.path))}")
    return 0, folder.path


def refuse_ranks() -> None:
    """Raise LauncherError if a launcher started this process: a study starts the ranks of its jobs itself."""
    launch = detect_launch()
    if launch is not None:
        raise LauncherError(
            f"{launch.launcher} started this command as one of {launch.size} ranks, but a study or sweep starts its "
            "ranks itself. Start it without the launcher. A study can also write job scripts with --submit."
        )


def collect_study(path: str, tell: Tell, machine: str | None = None, show: Show = print_on_stdout) -> int:
    """Write tables and figures of what has finished; return the exit code: FAILED if a job failed.

    machine: for which points are predicted (`collect`). show: called with the table.
    """
    # Matplotlib takes long to load, and a plan that is refused does not need it.
    from ridgeline.study.page import make_page, save_figures, write_files

    folder = StudyFolder.open(path)
    study = collect(folder, machine)
    if study.rows:
        asked = (folder.path / FILE).read_text(encoding="utf-8")
        figures = save_figures(study.rows, folder.path, study.result.pattern)
        written = write_files(folder.path, study.result, make_page(study, asked, figures))
        show(make_table(study.result))
        tell(f"wrote {', '.join(map(str, written))} and {len(figures)} figures beside them")
    else:
        tell("no job has finished yet")
        for note in study.result.notes:
            tell(note)
    return FAILED if study.named("failed", "damaged") else 0


def compare_studies(first: str, second: str, output: str | None, tell: Tell) -> None:
    """Write the table and the figures of two studies into a folder. Raises ConfigError, OutputError."""
    from ridgeline.study.page import figure_lines, save_figures, table, write_files

    studies: list[Collected] = [collect(StudyFolder.open(path)) for path in (first, second)]
    result = compare(*studies)
    names = names_of(*studies)
    path = check_folder(output or f"{PREFIX}{STEM}", "the comparison", "-o")
    groups = {name: n for n, name in enumerate(names)}
    rows = joined(*studies)
    figures = save_figures(rows, path, f"{result.pattern}: {' and '.join(names)}", groups)
    page = [f"# {result.benchmark}", "", *(f"- {note}" for note in result.notes), ""]
    page += [*figure_lines(figures), "## Points", "", *table(result), "", f"{result.formula}.", ""]
    written = write_files(path, result, "\n".join(page), STEM)
    print_on_stdout(make_table(result))
    tell(f"wrote {', '.join(map(str, written))} and {len(figures)} figures beside them")
