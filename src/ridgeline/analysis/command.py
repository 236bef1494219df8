"""What `ridgeline plot` does: find out what a file is, and write the picture of it that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

import ridgeline
from ridgeline.analysis.bench_plots import draw as draw_benchmark
from ridgeline.analysis.data_sets import kind_of
from ridgeline.analysis.element_images import PLACES, on_grid
from ridgeline.analysis.movie import save_movie
from ridgeline.analysis.no_picture import refuse_idle, refuse_wishes, refuse_without_picture
from ridgeline.analysis.options import PictureOptions
from ridgeline.analysis.plot import save_figure
from ridgeline.analysis.roofline import plot_roofline
from ridgeline.analysis.run_plots import plot_run
from ridgeline.analysis.slices import field_names
from ridgeline.analysis.sweep_plots import is_sweep, plot_sweep
from ridgeline.analysis.time_series import labels_beside, plot_time_series
from ridgeline.io.nek5000_dataset import is_nek5000
from ridgeline.io.series import read_series
from ridgeline.io.stored_reports import damage_errors, is_run, read_report
from ridgeline.runtime.errors import ConfigError

IN_THE_NAME = (
    "pdf",
    "roofline",
    "compensated",
    "wall_units",
    "isosurface",
    "volume",
)  # wishes that pictures are called after


def draw(data: str, variables: Sequence[str] = (), output: str | None = None, **wishes: Any) -> list[Path]:
    """Write pictures of `data` as `draw_as` does. variables, wishes: fields of `PictureOptions` by name."""
    return draw_as(data, PictureOptions(variable=tuple(variables), **wishes), output)


def draw_as(data: str, options: PictureOptions, output: str | None = None) -> list[Path]:
    """Write pictures of what Ridgeline has written to `data`, and return their paths.

    data : a data set (see `data_sets.KINDS`), a Nek5000 field file, a time series, which ends in .csv, or a report,
        which ends in .json. Of other files one sentence says what shows them.
    options : what is wanted; a wish that has no meaning for this kind of file is refused.
    output : path of the picture; None writes NAME.png beside the data set NAME.bp, NAME_pdf.png with --pdf,
        NAME.csv.png beside the time series NAME.csv, NAME.run.png beside the report NAME.run.json, and
        sweep_figures.png beside sweep.json. With a movie
        a picture is written only if `output` names one.
    Raises ConfigError for an impossible wish, OutputError for what cannot be read or written.
    """
    base = Path(data)
    if options.roofline and base.suffix != ".json":
        raise ConfigError(f"'{data}' is no report; --roofline needs the NAME.bp.run.json beside a data set")
    refuse_without_picture(base)
    if base.suffix == ".json":
        return [_draw_report(base, options, output)]
    picture = Path(output) if output else base.with_name(_name(base, options))
    if base.suffix == ".csv":
        refuse_wishes(data, "a time series", options, ("variable", "all", "page"))
        figure = plot_time_series(
            read_series(base), options.variable, options.all, options.page, labels_beside(base)
        )
        save_figure(figure, picture)
        return [picture]
    written = []
    with _opened(data, options) as dataset:
        kind = kind_of(dataset)
        refuse_wishes(data, kind.what, options, kind.wishes)
        refuse_idle(options, options.movie is not None and output is None)
        if options.movie is not None:
            _save_movie(dataset, data, options, options.movie)
            written.append(Path(options.movie))
        if options.movie is None or output is not None:
            save_figure(kind.draw(dataset, options), picture)
            written.append(picture)
    return written


def _name(base: Path, options: PictureOptions) -> str:
    """Return the name of a picture: a series may be called like its data set, and each has one of its own."""
    if base.suffix == ".csv" or is_nek5000(base):
        return f"{base.name}.png" if options.page == 1 else f"{base.name}_page{options.page}.png"
    page = [f"page{options.page}"] if options.page > 1 else []
    return "_".join([base.stem, *(wish for wish in IN_THE_NAME if getattr(options, wish)), *page]) + ".png"


def _opened(data: str, options: PictureOptions) -> AbstractContextManager[xr.Dataset]:
    """Open what holds arrays; fields on elements become images, sharp ones where a plane is all that is drawn."""
    more = (options.movie, options.pdf, options.isosurface, options.volume)
    sharp = () if any(more) else set(PLACES) - {options.slice.partition("=")[0].strip()}
    return on_grid(ridgeline.open(data), sharp=sharp)


def _draw_report(base: Path, options: PictureOptions, output: str | None) -> Path:
    """Write the picture of a report. That of a sweep is not called like its contact sheet."""
    data = str(base)
    report = read_report(data)
    if is_sweep(report):
        refuse_wishes(data, "the table of a sweep", options, ("variable", "all", "page"))
        with damage_errors(data):
            figure = plot_sweep(report, options.variable, options.all, options.page)
        picture = base.with_name(f"{base.stem}_figures.png")
    else:
        figure = _picture_of_report(data, report, options)
        picture = base.with_name(_name(base, options))
    picture = Path(output) if output else picture
    save_figure(figure, picture)
    return picture


def _picture_of_report(data: str, report: dict[str, Any], options: PictureOptions) -> Figure:
    refuse_wishes(data, "a report", options, ("roofline",))
    if not is_run(report):
        refuse_wishes(data, "the report of a benchmark", options, ())
        with damage_errors(data):
            return draw_benchmark(report)
    with damage_errors(data):
        return plot_roofline(report) if options.roofline else plot_run(report, data)


def _save_movie(dataset: xr.Dataset, data: str, options: PictureOptions, movie: str) -> None:
    names = options.variable or field_names(dataset)[:1]
    if not names:
        raise ConfigError(f"the data set '{data}' has no field to draw")
    save_movie(dataset, names, options.slice, movie, options.rate, options.width)
