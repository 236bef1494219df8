"""The command `ridgeline plot`: determines the kind of a file, and draws the picture that the options select.

`KINDS` has the kinds of data sets, the options that each of them supports, and the function that draws it. Files that
have no picture, and options that have no effect, are errors of one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

import ridgeline.io.dataset
from ridgeline.analysis.atoms import has_atoms, has_radial, plot_atoms, plot_magnitudes, plot_radial
from ridgeline.analysis.averages import (
    WindowChoice,
    has_averages,
    plot_averages,
    plot_budget,
    plot_convergence,
    plot_wall_units,
)
from ridgeline.analysis.bench_plots import draw_benchmark
from ridgeline.analysis.colour_scales import check_colour_map
from ridgeline.analysis.element_images import PLACES, on_grid
from ridgeline.analysis.movie import save_movie
from ridgeline.analysis.paths import has_paths, has_places, plot_paths, plot_places
from ridgeline.analysis.picture_options import PictureOptions
from ridgeline.analysis.plot import plot_lines, plot_pdf, plot_slices, save_figure
from ridgeline.analysis.run_plots import plot_roofline, plot_run
from ridgeline.analysis.side_plots import has_side, plot_side
from ridgeline.analysis.slices import field_names, long_axes, spatial_dims
from ridgeline.analysis.spectra import (
    has_spectra,
    has_structure,
    plot_densities,
    plot_spectra,
    plot_structure,
)
from ridgeline.analysis.study_plots import is_sweep, plot_sweep
from ridgeline.analysis.time_series import labels_beside, plot_time_series, series_with
from ridgeline.analysis.views import plot_isosurface, plot_volume
from ridgeline.config.check import did_you_mean
from ridgeline.io import bp_files, checkpoint_format
from ridgeline.io.nek5000_read import is_nek5000
from ridgeline.io.open_store import is_zarr
from ridgeline.io.report_file import damage_errors, is_run_report, read_report
from ridgeline.io.series import read_series
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import read_regular

# Options that are part of a picture's name.
NAMED_OPTIONS = (
    "pdf", "roofline", "compensated", "wall_units", "convergence", "budget", "isosurface", "volume",
)  # fmt: skip
# Folders, by a name in them, and JSON files, by a key, that have no picture: what they are, and what to do instead.
IN_FOLDERS = {
    checkpoint_format.MANIFEST: "a checkpoint, which has no picture. Name the data set of output.path.",
    "checkpoint_*": "a folder of checkpoints, which have no picture. Name the data set of output.path.",
    "sweep.csv": "the folder of a sweep. Its contact sheet is {0}/sweep.png. Name {0}/sweep.json to draw its "
    "results.",
    "study.toml": "the folder of a study. `ridgeline study collect {0}` writes its pictures into {0}/figures.",
    "report.html": "the report of a validation. Open {0}/report.html, which has its pictures.",
}
IN_REPORTS = {
    "traceEvents": "a trace. Open https://ui.perfetto.dev in a browser, and choose 'Open trace file'.",
    "verdict": "the report of a validation. Open report.html beside it, which has its pictures.",
    "predictions": "a file of predictions. `ridgeline predict --plot` draws them.",
    "schema": "a baseline of a validation. `ridgeline validate --report` writes a page with pictures.",
    "xxh3_64": "the manifest of a checkpoint, which has no picture. Name the data set of output.path.",
}
_ROWS = "the table of a benchmark, study or sweep. Name the .json file beside it."
_TABLE = (
    "a table without a picture. `ridgeline report {0}` prints it. A study has figures in a folder beside it."
)
BY_SUFFIX = {
    ".toml": "a settings file. Run it with `ridgeline run`, and draw the data set of its output.path.",
    ".html": "a web page. Open it in a browser.",
    ".md": "a page of text, which has no picture.",
    ".txt": "a text, which has no picture.",
    ".png": "already a picture.",
    ".svg": "already a picture.",
    ".pdf": "already a picture.",
    ".gif": "already a movie.",
    ".mp4": "already a movie.",
    **dict.fromkeys((".pvd", ".vti", ".vtu", ".vtp", ".vtkhdf"), "a file for ParaView. Open it there."),
}
# (option, the option that it requires), and (option, the option with which it cannot be used).
NEEDED = (("rate", "movie"), ("width", "movie"), ("colour", "isosurface"))
EXCLUDED = (
    ("volume", "isosurface"),
    ("pdf", "isosurface"),
    ("pdf", "volume"),
    ("compensated", "pdf"),
    ("average", "pdf"),
    *((name, view) for name in ("variable", "page") for view in ("wall_units", "convergence", "budget")),
    ("convergence", "wall_units"),
    ("budget", "wall_units"),
    ("convergence", "budget"),
    *(("convergence", name) for name in ("step", "pdf", "compensated")),
    ("merge", "step"),
)
# The same as EXCLUDED if no movie is drawn. A movie has a variable and a plane too.
EXCLUDED_FROM_VIEWS = (
    ("colour_map", "pdf"),
    *((name, view) for name in ("variable", "slice", "colour_map") for view in ("isosurface", "volume")),
)
OF_PICTURES = ("step", "pdf", "isosurface", "volume")


def draw(data: str, variables: Sequence[str] = (), output: str | None = None, **options: Any) -> list[Path]:
    """Write pictures of `data` as `draw_file` does. variables, options: fields of `PictureOptions` by name."""
    return draw_file(data, PictureOptions(variable=tuple(variables), **options), output)


def draw_file(data: str, options: PictureOptions, output: str | None = None) -> list[Path]:
    """Write pictures of a file that Ridgeline has written, and return their paths.

    Parameters
    ----------
    data : str
        A data set (see `KINDS`), a Nek5000 field file, a time series, which ends in .csv, or a report, which ends in
        .json.
    options : PictureOptions
        What to draw. An option that does not apply to this kind of file is an error.
    output : str, optional
        Path of the picture. None writes NAME.png beside the data set NAME.bp, NAME_pdf.png with --pdf, NAME.csv.png
        beside the time series NAME.csv, NAME.run.png beside the report NAME.run.json, and sweep_figures.png beside
        sweep.json. With a movie a picture is written only if `output` names one.

    Raises
    ------
    ConfigError
        For an impossible option, and for a file without a picture.
    OutputError
        For a file that cannot be read or written.
    """
    base = Path(data)
    if options.roofline and base.suffix != ".json":
        raise ConfigError(
            f"'{data}' is not a report. --roofline requires the NAME.bp.run.json beside a data set."
        )
    check_has_picture(base)
    if base.suffix == ".json":
        return [_draw_report(base, options, output)]
    picture = Path(output) if output else base.with_name(_name(base, options))
    if base.suffix == ".csv":
        check_options(data, "a time series", options, ("variable", "all", "page"))
        figure = plot_time_series(
            read_series(base), options.variable, options.all, options.page, labels_beside(base)
        )
        save_figure(figure, picture)
        return [picture]
    written = []
    with _opened(data, options) as dataset:
        kind, options = _kind_and_options(
            dataset, base, options, options.movie is not None and output is None
        )
        if options.movie is not None:
            names = options.variable or field_names(dataset)[:1]
            if not names:
                raise ConfigError(f"the data set '{data}' has no field to draw.")
            save_movie(
                dataset, names, options.slice, options.movie, options.rate, options.width, options.colour_map
            )
            written.append(Path(options.movie))
        if options.movie is None or output is not None:
            save_figure(kind.draw(dataset, options), picture)
            written.append(picture)
    return written


def figure_of_data_set(data: str, variables: Sequence[str], given: Mapping[str, Any]) -> Figure:
    """Return the figure that `draw_file` would write of a data set.

    variables: names of fields, all if there are none; given: other fields of `PictureOptions` by name. Raises
    ConfigError for an impossible option.
    """
    known = [
        field.name
        for field in fields(PictureOptions)
        if field.name not in ("variable", "movie", "rate", "width")
    ]
    for name in given:
        if name not in known:
            raise ConfigError(
                f"plot: unknown option {name!r}{did_you_mean(name, known)} Options: {', '.join(known)}."
            )
    options = PictureOptions(variable=tuple(variables), **given)
    with _opened(data, options) as dataset:
        kind, options = _kind_and_options(dataset, Path(data), options, False)
        return kind.draw(dataset, options)


def _kind_and_options(
    dataset: xr.Dataset, base: Path, options: PictureOptions, only_movie: bool
) -> tuple[DataSetKind, PictureOptions]:
    """Return the kind of a data set, and the options for its picture. Raises ConfigError for impossible ones."""
    kind = kind_of(dataset)
    check_options(str(base), kind.description, options, kind.options)
    check_combinations(options, only_movie)
    if options.colour_map is not None:
        check_colour_map(options.colour_map)
    for name in options.variable:
        if name not in dataset.variables and (beside := series_with(base, name)) is not None:
            raise ConfigError(
                f"'{name}' is a column of the time series {beside}, and not a variable of '{base}'. Draw it "
                f"with: ridgeline plot {beside} --variable {name}"
            )
    return kind, _across_a_plane(dataset, options)


def _name(base: Path, options: PictureOptions) -> str:
    """Return the name of a picture. A series and its data set may share a name, but not their pictures."""
    if base.suffix == ".csv" or is_nek5000(base):
        return f"{base.name}.png" if options.page == 1 else f"{base.name}_page{options.page}.png"
    page = [f"page{options.page}"] if options.page > 1 else []
    return "_".join([base.stem, *(name for name in NAMED_OPTIONS if getattr(options, name)), *page]) + ".png"


def _opened(data: str, options: PictureOptions) -> AbstractContextManager[xr.Dataset]:
    """Open a data set. Fields on elements become images, with a higher resolution if only a plane is drawn."""
    not_a_plane = (options.movie, options.pdf, options.isosurface, options.volume)
    sharp = () if any(not_a_plane) else set(PLACES) - {options.slice.partition("=")[0].strip()}
    return on_grid(ridgeline.io.dataset.open(data), sharp=sharp)


def _across_a_plane(dataset: xr.Dataset, options: PictureOptions) -> PictureOptions:
    """Return options that show a data set of one plane as this plane, unless another one was given."""
    across = [dim for name in field_names(dataset)[:1] for dim in spatial_dims(dataset[name])]
    across = [dim for dim in across if dim not in long_axes(dataset)]
    return (
        replace(options, slice=f"{across[0]}=mid")
        if len(across) == 1 and "slice" not in options.given()
        else options
    )


def _draw_report(base: Path, options: PictureOptions, output: str | None) -> Path:
    """Write the picture of a report. That of a sweep has another name than its contact sheet."""
    data = str(base)
    report = read_report(data)
    if is_sweep(report):
        check_options(data, "the table of a sweep", options, ("variable", "all", "page"))
        with damage_errors(data):
            figure = plot_sweep(report, options.variable, options.all, options.page)
        picture = base.with_name(f"{base.stem}_figures.png")
    else:
        check_options(data, "a report", options, ("roofline",))
        if is_run_report(report):
            with damage_errors(data):
                figure = plot_roofline(report) if options.roofline else plot_run(report, data)
        else:
            check_options(data, "the report of a benchmark", options, ())
            with damage_errors(data):
                figure = draw_benchmark(report)
        picture = base.with_name(_name(base, options))
    picture = Path(output) if output else picture
    save_figure(figure, picture)
    return picture


@dataclass(frozen=True)
class DataSetKind:
    """A kind of data sets.

    description: for messages; matches: whether a data set is of this kind; options: names of the options that it
    supports; draw: returns the figure.
    """

    description: str
    matches: Callable[[xr.Dataset], bool]
    options: tuple[str, ...]
    draw: Callable[[xr.Dataset, PictureOptions], Figure]


def _windows(options: PictureOptions) -> WindowChoice:
    return WindowChoice(options.step if "step" in options.given() else None, options.average, options.merge)


def _convergence(dataset: xr.Dataset, name: str, options: PictureOptions) -> Figure:
    return plot_convergence(
        dataset, name, options.slice if "slice" in options.given() else "", _windows(options)
    )


def _refuse_without_convergence(options: PictureOptions, *names: str) -> None:
    for name in names:
        if name in options.given():
            raise ConfigError(f"{_flag(name)} requires --convergence for files of this kind.")


def _spectra(dataset: xr.Dataset, options: PictureOptions) -> Figure:
    if options.convergence is not None:
        return _convergence(dataset, options.convergence, options)
    _refuse_without_convergence(options, "slice", "merge")
    if options.pdf:
        return plot_densities(dataset, options.step)
    return plot_spectra(dataset, options.step, options.average, options.compensated)


def _radial(dataset: xr.Dataset, options: PictureOptions) -> Figure:
    if options.convergence is not None:
        return _convergence(dataset, options.convergence, options)
    _refuse_without_convergence(options, "slice", "merge")
    return plot_radial(dataset, options.step, options.average)


def _atoms(dataset: xr.Dataset, options: PictureOptions) -> Figure:
    if options.pdf:
        return plot_magnitudes(dataset, options.variable, options.step)
    return plot_atoms(dataset, options.variable, options.slice, options.step)


def _fields(dataset: xr.Dataset, options: PictureOptions) -> Figure:
    if options.pdf:
        return plot_pdf(dataset, options.variable or None, options.slice, options.step)
    if options.isosurface is not None:
        return plot_isosurface(dataset, options.isosurface, options.step, options.colour)
    if options.volume is not None:
        return plot_volume(dataset, options.volume, options.step)
    if len(long_axes(dataset)) < 2 and "slice" not in options.given():
        return plot_lines(dataset, options.variable or None, options.step)
    return plot_slices(dataset, options.variable or None, options.slice, options.step, options.colour_map)


def _averages(dataset: xr.Dataset, options: PictureOptions) -> Figure:
    if {"step", "average"} <= set(options.given()):
        raise ConfigError(
            "--step of statistics cannot be used with --average, which adds up several windows."
        )
    if options.convergence is not None:
        return _convergence(dataset, options.convergence, options)
    _refuse_without_convergence(options, "slice")
    windows = _windows(options)
    if options.budget is not None:
        return plot_budget(dataset, options.budget, windows)
    if options.wall_units:
        return plot_wall_units(dataset, windows)
    return plot_averages(dataset, options.variable, windows, options.page)


FIELDS = DataSetKind(
    "a data set of fields",
    lambda _: True,
    (
        "variable",
        "slice",
        "step",
        "colour_map",
        "pdf",
        "movie",
        "rate",
        "width",
        "isosurface",
        "colour",
        "volume",
    ),
    _fields,
)
# The first kind that matches a data set draws it.
KINDS = (
    DataSetKind(
        "a data set of a side of the domain",
        has_side,
        ("variable", "step", "page", "colour_map"),
        lambda dataset, options: plot_side(
            dataset, options.variable, options.step, options.page, options.colour_map
        ),
    ),
    DataSetKind(
        "a data set of spectra, which are drawn together",
        has_spectra,
        ("step", "average", "compensated", "pdf", "convergence", "slice", "merge"),
        _spectra,
    ),
    DataSetKind("a data set of atoms", has_atoms, ("variable", "slice", "step", "pdf"), _atoms),
    DataSetKind(
        "a data set of radial distribution functions",
        has_radial,
        ("step", "average", "convergence", "slice", "merge"),
        _radial,
    ),
    DataSetKind(
        "a data set of cosmic structure, which is drawn whole",
        has_structure,
        ("step",),
        lambda dataset, options: plot_structure(dataset, options.step),
    ),
    DataSetKind(
        "a data set of statistics, which have no probability density",
        has_averages,
        ("variable", "step", "average", "merge", "page", "wall_units", "convergence", "slice", "budget"),
        _averages,
    ),
    DataSetKind(
        "a data set of particles in space",
        has_places,
        ("slice", "step"),
        lambda dataset, options: plot_places(dataset, options.slice, options.step),
    ),
    DataSetKind(
        "a data set of particles, whose correlations along their paths are drawn",
        has_paths,
        ("variable",),
        lambda dataset, options: plot_paths(dataset, options.variable),
    ),
    FIELDS,
)


def kind_of(dataset: xr.Dataset) -> DataSetKind:
    """Return the kind of a data set that `ridgeline.open` returned."""
    return next(kind for kind in KINDS if kind.matches(dataset))


def check_has_picture(path: Path) -> None:
    """Raise ConfigError for a file or folder that has no picture, judging by its name and its content.

    A path that does not exist or cannot be read raises nothing here: opening it raises the error.
    """
    try:
        reason = _reason_for_folder(path) if path.is_dir() else _reason_for_file(path)
    except (OSError, ValueError, RecursionError):
        return
    if reason:
        raise ConfigError(f"'{path}' is {reason.format(path)}")


def _reason_for_folder(path: Path) -> str:
    if bp_files.is_data_set(path) or is_zarr(path):
        return ""
    return next((reason for name, reason in IN_FOLDERS.items() if any(path.glob(name))), "")


def _reason_for_file(path: Path) -> str:
    if path.suffix == ".csv":
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            table = file.readline(10).startswith(b"benchmark,")
        return _ROWS if table else ""
    if path.suffix == ".json":
        content = json.loads(read_regular(path).decode())
        if not isinstance(content, dict) or is_run_report(content):
            return ""
        if "benchmark" in content:
            return "" if content.get("plot") or is_sweep(content) else _TABLE
        return next((reason for key, reason in IN_REPORTS.items() if key in content), "")
    return BY_SUFFIX.get(path.suffix, "") if path.exists() else ""


def check_combinations(options: PictureOptions, movie_alone: bool) -> None:
    """Raise ConfigError for the first option that has no effect in this combination of options.

    movie_alone: whether no picture is drawn beside the movie.
    """
    given = options.given()
    for name, needed in NEEDED:
        if name in given and needed not in given:
            raise ConfigError(f"{_flag(name)} requires --{needed}.")
    for name, other in EXCLUDED + (() if "movie" in given else EXCLUDED_FROM_VIEWS):
        if name in given and other in given:
            raise ConfigError(
                f"{_flag(name)} cannot be used with {_flag(other)}. Draw one picture with each."
            )
    for name in OF_PICTURES:
        if movie_alone and name in given:
            raise ConfigError(f"--{name} has no effect on a movie. Name a picture too, with --output.")


def check_options(data: str, what: str, options: PictureOptions, supported: Iterable[str]) -> None:
    """Raise ConfigError for the first option that does not apply to the file `data`, which is `what`."""
    for name in options.given():
        if name not in supported:
            known = ", ".join(map(_flag, supported)) or "none"
            raise ConfigError(
                f"{_flag(name)} does not apply to '{data}'. This is {what}. Options that apply: {known}."
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
