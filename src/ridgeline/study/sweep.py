"""`ridgeline sweep`: one case over settings, its runs shared among few processes, with a table and a contact sheet.

A sweep is a study whose axes are settings alone and whose runs write their outputs. Its folder is therefore that of a
study (see `study.folder`), and cases that are done are not run again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ridgeline.io.dataset
from ridgeline.analysis.colour_scales import check_colour_map, colour_scales, finite_range
from ridgeline.analysis.element_images import on_grid
from ridgeline.analysis.plot import blank_figure, draw_plane, load_plane, panels, save_figure
from ridgeline.analysis.slices import field_names
from ridgeline.analysis.study_plots import SWEEP_AXES, plot_sweep
from ridgeline.bench.result import Column, Result, make_table
from ridgeline.config.check import did_you_mean
from ridgeline.config.load import load_case
from ridgeline.io.output_files import delete_output
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.launcher import check_ranks
from ridgeline.runtime.machine import cores_available, node_memory_available
from ridgeline.runtime.units import counted, in_words
from ridgeline.study.command import FAILED, Show, print_on_stdout, refuse_ranks
from ridgeline.study.folder import JobStatus, StudyJob, open_study
from ridgeline.study.jobs import Tell, run_jobs
from ridgeline.study.page import table, write_files
from ridgeline.study.plan import LINK, MOST_POINTS, Plan, make_plan
from ridgeline.study.request import read_request
from ridgeline.study.study_options import SweepOptions

PREFIX, STEM, SHEET = "sweep_", "sweep", "sweep.png"
FIGURES = "sweep_figures.png"
_PLANE = re.compile(r"\s*[xyz]\s*=\s*(mid|[+-]?\d*\.?\d*(e[+-]?\d+)?)\s*", re.IGNORECASE)

INCHES = 1.9  # of a picture
DATA = "output.path"  # key of the data set among what a run writes
PER_ROW = 6  # pictures, in a sweep that is not a table of two axes


def values_between(text: str) -> str:
    """Return an axis with "FIRST:LAST:COUNT" written out as values, evenly spaced; other axes as they are.

    Raises ConfigError for an invalid range.
    """
    return f" {LINK} ".join(_one_axis(part.strip()) for part in text.split(LINK))


def _one_axis(text: str) -> str:
    key, sign, rest = text.partition("=")
    if not sign or rest.count(":") != 2 or re.search(r"[\[\"']", rest):
        return text
    try:
        first, last, count = (part.strip() for part in rest.split(":"))
        if int(count) < 2:
            raise ValueError(count)
        if int(count) > MOST_POINTS:
            raise ConfigError(f"--over {text}: a sweep has at most {MOST_POINTS} cases. Use fewer values.")
        values = np.linspace(float(first), float(last), int(count))
    except ValueError:
        raise ConfigError(
            f"--over {text}: write the range as FIRST:LAST:COUNT with at least 2 values, such as 0.02:0.06:5."
        ) from None
    whole = all(re.fullmatch(r"[+-]?\d+", end) for end in (first, last)) and np.array_equal(
        values, values.round()
    )
    # Ends as they were written, and between them no digits that rounding made.
    texts = [str(int(value)) if whole else repr(float(f"{value:.12g}")) for value in values]
    return f"{key}={','.join(texts)}"


def run_sweep(
    case: str, options: SweepOptions, output: str | None, tell: Tell, show: Show = print_on_stdout
) -> tuple[int, Path]:
    """Run the missing cases of a sweep; return the exit code, FAILED if a case failed, and the sweep's folder.

    output: its folder. show: called with the table of results. Raises RidgelineError before anything starts.
    """
    refuse_ranks()
    given = {
        "vary": tuple(map(values_between, options.over)),
        "settings": options.settings,
        "ranks": (options.ranks,),
        "repeat": 1,
        "outputs": True,
    }
    request = replace(read_request(case, given), all_keys=True)
    if request.case is None or request.folder is not None:
        raise ConfigError(f"{case} is not the settings file of a case. A sweep requires one.")
    path = Path(output or f"{PREFIX}{request.name.removesuffix('_strong')}")
    plan = make_plan(request)  # a sweep that cannot run leaves no folder behind
    if len({point.threads for point in plan.points}) > 1:
        raise ConfigError(
            "--over run.threads: a sweep cannot vary the threads, because its cases share processes. Use `ridgeline "
            "study run` instead."
        )
    _check_picture(plan, options)
    at_once = _cases_at_once(plan, options)
    with open_study(path, request, "sweep") as (folder, plan, jobs):
        jobs.sort(key=lambda job: plan.order[job.point.name])
        tell(
            f"{len(jobs)} cases of {plan.subject.name}, {at_once} at a time, each on "
            f"{counted(options.ranks, 'rank')} x {counted(plan.points[0].threads, 'thread')}"
        )
        found = run_jobs(plan, jobs, folder.path, tell, at_once)
        show(make_table(_collect(plan, jobs, found, folder.path, options, tell)))
    return (FAILED if any(one.state != "done" for one in found) else 0), folder.path


def _check_picture(plan: Plan, options: SweepOptions) -> None:
    """Raise ConfigError for a field that the cases do not write, or a plane that no field has."""
    if not _PLANE.fullmatch(options.plane):
        raise ConfigError(f"--plane {options.plane}: write AXIS=PLACE, such as z=mid, y=12 or x=0.5.")
    if options.colour_map is not None:
        check_colour_map(options.colour_map)
    if options.picture is None:
        return
    _, path, *settings = plan.points[0].command  # "run", and --set before each setting
    output = load_case(path, case_class, settings[1::2]).case.output
    if not output.interval():
        raise ConfigError(f"--picture {options.picture}: the cases write no fields. Set output.every.")
    if options.picture not in output.variables:
        names = output.variables
        raise ConfigError(
            f"--picture {options.picture}: the cases do not write this field{did_you_mean(options.picture, names)} "
            f"They write {', '.join(names)}."
        )


def _cases_at_once(plan: Plan, options: SweepOptions) -> int:
    """Return how many cases run at a time. Raises ConfigError for more than this machine holds."""
    needed = max(point.ranks * (point.need.memory or 1) for point in plan.points)
    # A single case that does not fit is refused when it begins.
    fitting = max(1, int(node_memory_available() // needed))
    if options.at_once is None:
        return max(1, min(cores_available() // plan.points[0].cores, fitting))
    at_once = min(options.at_once, len(plan.points))
    check_ranks(at_once * options.ranks)
    if at_once > fitting:
        raise ConfigError(
            f"--at-once {options.at_once}: so many cases need more memory than is free. Use at most {fitting}."
        )
    return at_once


def _collect(
    plan: Plan,
    jobs: Sequence[StudyJob],
    found: Sequence[JobStatus],
    path: Path,
    options: SweepOptions,
    tell: Tell,
) -> Result:
    """Write the table, its figures and the contact sheet of the cases that are done; return the table."""
    result = to_result(plan, found)
    done = [job for job, one in zip(jobs, found, strict=True) if one.state == "done"]
    pictures: list[Path] = []
    page = [f"# {result.benchmark}, {result.pattern}", "", *(f"- {note}" for note in result.notes), ""]
    try:
        pictures.append(save_contact_sheet(plan, done, path / SHEET, options))
        page += [f"![contact sheet]({SHEET})", ""]
    except (ConfigError, OutputError) as problem:
        tell(f"no contact sheet: {problem}")
    if done:
        delete_output(path / FIGURES, "-o")
        save_figure(plot_sweep(result.to_dict()), path / FIGURES, "-o")
        pictures.append(path / FIGURES)
        page += [f"![final values]({FIGURES})", ""]
    written = write_files(path, result, "\n".join([*page, *table(result), ""]), STEM)
    tell(f"wrote {', '.join(map(str, [*written, *pictures]))}")
    return result


def to_result(plan: Plan, found: Sequence[JobStatus]) -> Result:
    """Return a row for each case: its axes, where it ended, and the values of the summary of its report."""
    done = [one for one in found if one.state == "done"]
    names = list(dict.fromkeys(name for one in done for name in one.report["summary"]))
    axes = list(plan.points[0].axes)
    rows: list[dict[str, Any]] = []
    for point, one in zip(plan.points, found, strict=True):
        run: Mapping[str, Any] = one.report.get("run", {})
        summary = one.report.get("summary", {})
        rows.append(
            {
                **point.axes,
                "state": one.state,
                "step": run.get("last_step"),
                "time": run.get("time"),
                **{name: summary.get(name, {}).get("value") for name in names},
            }
        )
    units = {
        name: unit
        for one in done
        for name, figure in one.report["summary"].items()
        if (unit := figure["unit"])
    }
    columns = [Column(axis, axis, form=".6g") for axis in axes] + [
        Column("state", "state"),
        Column("step", "step"),
    ]
    columns += [Column("time", "time", form=".6g")]
    columns += [
        Column(name, f"{name} ({units[name]})" if name in units else name, form=".6g") for name in names
    ]
    return Result(
        benchmark=f"sweep of {plan.subject.name}",
        pattern=f"by {' and '.join(axes)}",
        formula="values of the last step",
        statistic="one run of each case",
        ranks=plan.points[0].ranks,
        columns=columns,
        rows=rows,
        settings={"subject": plan.subject.name},
        extra={SWEEP_AXES: axes},
        notes=[f"{one.name}: {one.why}" for one in found if one.state != "done"],
    )


def save_contact_sheet(plan: Plan, jobs: Sequence[StudyJob], path: Path, options: SweepOptions) -> Path:
    """Draw the last output step of all jobs that are done; return the path of the picture.

    In a table of values the last axis runs to the right and the others upwards, as in the map of the final figures.
    options: field, plane and colour map; without a field it is the first of the data set.

    Raises ConfigError for a field or a plane that is not there, or if there is no picture to draw; OutputError.
    """
    planes: dict[str, Any] = {}
    for job in jobs:
        try:
            with ridgeline.io.dataset.open(job.folder / job.point.paths[DATA]) as written:
                data = on_grid(written)
                names = field_names(data)
                if not names:
                    continue
                planes[job.point.name] = load_plane(data, options.picture or names[0], options.plane, -1)
        except OutputError:  # it wrote no output, or wrote it elsewhere
            continue
    if not planes:
        raise ConfigError("no case wrote a field. Set output.every.")
    counts = [len({in_words(point.axes[axis]) for point in plan.points}) for axis in plan.points[0].axes]
    table = len(counts) > 1 and math.prod(counts) == len(plan.points)  # otherwise keys change together
    across = counts[-1] if table else min(len(plan.points), PER_ROW)
    down = -(-len(plan.points) // across)
    figure = blank_figure(INCHES * across + 0.8, (INCHES + 0.12) * down + 0.2)
    name = str(next(iter(planes.values())).name)
    least, most = zip(*(finite_range(plane.values) for plane in planes.values()))
    shade = colour_scales({name: (min(least), max(most))}, options.colour_map)[name]
    axes = panels(figure, len(plan.points), across)
    if table:  # from below, as an axis runs
        rows = [axes[first : first + across] for first in range(0, len(axes), across)]
        axes = [panel for row in reversed(rows) for panel in row]
    image = None
    for panel, point in zip(axes, plan.points, strict=True):
        panel.set_title(
            ", ".join(f"{key} = {in_words(value)}" for key, value in point.axes.items()), fontsize=7
        )
        if point.name in planes:
            image = draw_plane(panel, planes[point.name], shade)
        panel.set(xticks=[], yticks=[], xlabel="", ylabel="")
    assert image is not None
    figure.colorbar(image, ax=axes, shrink=min(1.0, 2.0 / down), label=shade.title(name))
    delete_output(path, "-o")
    save_figure(figure, path, "-o")
    return path
