"""The contact sheet of a sweep: the same plane of the same field of all its cases, on one scale, in a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ridgeline.io.dataset
from ridgeline.analysis.element_images import on_grid
from ridgeline.analysis.plot import blank_figure, draw_plane, load_plane, panels, save_figure
from ridgeline.analysis.shades import finite_range, shades_of
from ridgeline.analysis.slices import field_names
from ridgeline.io.previous import discard
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.units import in_words
from ridgeline.study.folder import StudyJob
from ridgeline.study.plan import Plan

INCHES = 1.9  # of a picture
DATA = "output.path"  # key of the data set among what a run writes
PER_ROW = 6  # of a sweep that is no table of two axes


def save_contact_sheet(
    plan: Plan, jobs: Sequence[StudyJob], path: Path, field: str | None, plane: str
) -> Path:
    """Draw the last output step of all jobs that are done; return the path of the picture.

    In a table of values the last axis runs to the right and the others upwards, as in the map of the final figures.
    field: None for the first of the data set.

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
                planes[job.point.name] = load_plane(data, field or names[0], plane, -1)
        except OutputError:  # it wrote no output, or wrote it elsewhere
            continue
    if not planes:
        raise ConfigError("no case wrote a field; set output.every")
    counts = [len({in_words(point.axes[axis]) for point in plan.points}) for axis in plan.points[0].axes]
    table = len(counts) > 1 and math.prod(counts) == len(plan.points)  # else keys change together
    across = counts[-1] if table else min(len(plan.points), PER_ROW)
    down = -(-len(plan.points) // across)
    figure = blank_figure(INCHES * across + 0.8, (INCHES + 0.12) * down + 0.2)
    name = str(next(iter(planes.values())).name)
    least, most = zip(*(finite_range(plane.values) for plane in planes.values()))
    shade = shades_of({name: (min(least), max(most))})[name]
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
    figure.colorbar(image, ax=axes, shrink=min(1.0, 2.0 / down), label=name)
    discard(path, "-o")
    save_figure(figure, path, "-o")
    return path
