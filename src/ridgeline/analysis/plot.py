"""Pictures of slices, probability densities and time series, and the parts that all pictures share.

Figures are created without pyplot: nothing here needs a display, selects a backend or keeps global state. A notebook
shows a returned figure by itself. Slices of several fields are side by side as in Godoy et al., SC-W 2023, Fig. 9,
and the densities of a slice are those of `pdf_calc` in ADIOS2-Examples.
"""

import logging
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ridgeline.analysis.colour_scales import ColourScale, colour_scales, extent_of, finite_range
from ridgeline.analysis.pdf import bin_range, compute_pdf
from ridgeline.analysis.slices import (
    STEP,
    field_names,
    get_field,
    long_axes,
    select_step,
    take_slice,
    unit_of,
)
from ridgeline.io.output_files import GENERATOR, atomic_output, check_writable
from ridgeline.runtime.errors import ConfigError

DOTS_PER_INCH = 150
FORMATS = ("png", "svg", "pdf")  # suffixes of pictures: formats that hold the mark of our output
WIDE = 2.5  # planes with a larger ratio of width to height are drawn one above the other
PER_ROW = 3  # panels in a row
PER_PAGE = 12  # panels of a readable figure
SHORT = 2.0  # a logarithmic axis of fewer decades has too few marks at powers of ten alone
log = logging.getLogger(__name__)


def plot_slices(
    dataset: xr.Dataset,
    variables: Sequence[str] | None = None,
    slice_spec: str = "z=mid",
    step: int = -1,
    colour_map: str | None = None,
) -> Figure:
    """Draw the same plane of several fields side by side, or wide planes one above the other.

    Each field has its own colour bar. Components of a vector and fields of both signs are white at zero, and a hole
    is grey. Components share a scale; the title of one that is small beside the others says that it has narrower
    limits, or that it is zero.

    Parameters
    ----------
    dataset : xarray.Dataset
        A data set as `ridgeline.open` returns it. One plane of each field is read.
    variables : sequence of str, optional
        Names of fields; None draws all.
    slice_spec : str
        A plane, as for `take_slice`.
    step : int
        An output, as for `select_step`.
    colour_map : str, optional
        A colour map of matplotlib; None chooses one for each field.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that a notebook shows, and that `savefig` writes.

    Raises
    ------
    ConfigError
        For a field, a plane or a step that does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis.plot import plot_slices
    >>> coords = {"step": [0], "z": range(4), "y": range(6), "x": range(8)}
    >>> values = np.random.default_rng(0).random((1, 4, 6, 8))
    >>> data = xr.Dataset({"U": (("step", "z", "y", "x"), values)}, coords)
    >>> figure = plot_slices(data, ["U"], slice_spec="z=2", step=0)
    >>> figure.savefig("u.png")
    >>> figure.axes[0].get_title()
    'U'
    """
    names = _field_names(dataset, variables)
    planes = [load_plane(dataset, name, slice_spec, step) for name in names]
    ranges = {name: finite_range(plane.values) for name, plane in zip(names, planes)}
    figure, _ = planes_figure(planes, colour_scales(ranges, colour_map))
    figure.suptitle(title(planes[0]))
    return figure


def planes_figure(
    planes: Sequence[xr.DataArray], shades: Mapping[str, ColourScale]
) -> tuple[Figure, list[AxesImage]]:
    """Return a figure of planes of one shape, each with a colour bar and a title, and the images in it."""
    left, right, bottom, top = extent_of(planes[0])
    shape = (right - left) / (top - bottom)
    if shape < WIDE:
        across, bar = min(len(planes), PER_ROW if len(planes) != 4 else 2), 1.0
        tall = 2.9 / max(shape, 0.5) + 0.85
        figure = blank_figure(4.2 * across, tall * -(-len(planes) // across) + 0.3)
    else:
        across, bar, figure = 1, 0.7, blank_figure(9.6, (8.0 / shape + 1.1) * len(planes))
    images = []
    for axes, plane in zip(panels(figure, len(planes), across), planes):
        shade = shades[str(plane.name)]
        images.append(draw_plane(axes, plane, shade))
        figure.colorbar(images[-1], ax=axes, fraction=0.046, pad=0.03, shrink=bar, label=unit_of(plane))
        axes.set_title(shade.title(str(plane.name)), wrap=True)
    return figure, images


def plot_pdf(
    dataset: xr.Dataset,
    variables: Sequence[str] | None = None,
    slice_spec: str = "z=mid",
    step: int = -1,
    bins: int = 100,
) -> Figure:
    """Draw the probability density of fields in a slice, and in the whole volume for comparison.

    Parameters
    ----------
    dataset : xarray.Dataset
        A data set as `ridgeline.open` returns it. One output step of each field is read, slab by slab.
    variables : sequence of str, optional
        Names of fields; None draws all.
    slice_spec : str
        A plane, as for `take_slice`.
    step : int
        An output, as for `select_step`.
    bins : int
        Number of bins between the extremes of the volume.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that a notebook shows, and that `savefig` writes.

    Raises
    ------
    ConfigError
        For a field, a plane or a step that does not exist.
    DivergedError
        For a field that is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis.plot import plot_pdf
    >>> coords = {"step": [0], "z": range(4), "y": range(6), "x": range(8)}
    >>> values = np.random.default_rng(0).random((1, 4, 6, 8))
    >>> data = xr.Dataset({"U": (("step", "z", "y", "x"), values)}, coords)
    >>> plot_pdf(data, bins=10).axes[0].get_ylabel()
    'probability density'
    """
    names = _field_names(dataset, variables)
    across = min(len(names), PER_ROW)
    figure = blank_figure(4.8 * across, 3.8 * -(-len(names) // across))
    for axes, name in zip(panels(figure, len(names), PER_ROW), names):
        volume = select_step(get_field(dataset, name), step)
        plane = take_slice(volume, slice_spec)
        within = bin_range(volume, bins)
        edges = np.linspace(*within, bins + 1)
        plane_pdf, volume_pdf = (compute_pdf(part, bins=bins, within=within) for part in (plane, volume))
        axes.stairs(plane_pdf.values, edges, fill=True, alpha=0.5, label=_space_coordinates(plane))
        axes.stairs(volume_pdf.values, edges, color="black", linewidth=1, label="whole volume")
        # Most of the volume is near one value. On a linear axis nothing else would be visible.
        axes.set_yscale("log")
        axes.set(xlabel=axis_label(volume), ylabel="probability density")
        axes.legend()
    label_decades(figure)
    figure.suptitle(title(select_step(dataset, step)))
    return figure


def plot_lines(dataset: xr.Dataset, variables: Sequence[str] | None = None, step: int = -1) -> Figure:
    """Draw fields that extend along one axis, such as a line or a mean over planes, as curves at one output.

    Fields of a single point are drawn over time, for all outputs. variables, step: as for `plot_slices`, which also
    says what is raised.
    """
    names, along = _field_names(dataset, variables), long_axes(dataset)
    over = along[0] if along else "time" if "time" in dataset.coords else STEP
    shown = select_step(dataset, step) if along else dataset
    across = min(len(names), PER_ROW)
    figure = blank_figure(4.8 * across, 3.8 * -(-len(names) // across))
    for axes, name in zip(panels(figure, len(names), PER_ROW), names):
        values = shown[name].values.reshape(-1)
        axes.plot(
            dataset[over].values if over in dataset.coords else np.arange(len(values)), values, marker="."
        )
        label = time_name(dataset) if over == "time" else axis_label(dataset[over])
        axes.set(xlabel=label, ylabel=axis_label(dataset[name]))
    figure.suptitle(title(shown.squeeze(drop=False)) if along else "")
    return figure


def plot_series(series: xr.Dataset) -> Figure:
    """Draw the statistics of `compute_series` over time: range, mean and standard deviation.

    Parameters
    ----------
    series : xarray.Dataset
        Fields over (step, statistic), as `compute_series` returns them.

    Returns
    -------
    matplotlib.figure.Figure
        A figure with one panel for each field.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis.plot import plot_series
    >>> from ridgeline.analysis.series import compute_series
    >>> values = np.random.default_rng(0).random((3, 4, 6, 8))
    >>> data = xr.Dataset({"U": (("step", "z", "y", "x"), values)}, {"step": [0, 10, 20]})
    >>> [text.get_text() for text in plot_series(compute_series(data)).axes[0].get_legend().get_texts()]
    ['max', 'mean', 'mean ± std', 'min']
    """
    figure = blank_figure(4.8 * len(series.data_vars), 3.8)
    over = "time" if "time" in series.coords else STEP
    for axes, values in zip(panels(figure, len(series.data_vars)), series.data_vars.values()):
        x = series[over].values
        lowest, highest, mean, std = (
            values.sel(statistic=statistic).values for statistic in ("min", "max", "mean", "std")
        )
        axes.plot(x, highest, label="max", marker=".")
        axes.plot(x, mean, label="mean", marker=".")
        axes.fill_between(x, mean - std, mean + std, alpha=0.2, color="C1", label="mean ± std")
        axes.plot(x, lowest, label="min", marker=".")
        axes.set(xlabel=time_name(series) if over == "time" else over, ylabel=axis_label(values))
        axes.legend()
    return figure


def save_figure(
    figure: Figure, path: str | PathLike[str], option: str = "--output", crop: bool = False
) -> None:
    """Write a figure to `path`. An earlier picture of Ridgeline there is set aside (io/output_files.py).

    option: the option that errors tell the user to change; crop: whether white margins are cut off. Raises
    ConfigError for a suffix that is not a format, and OutputError if the file cannot be written.
    """
    suffix = _format_of(path)
    key = "Software" if suffix == "png" else "Creator"
    with atomic_output(path, option) as new:
        figure.savefig(
            new, dpi=DOTS_PER_INCH, metadata={key: GENERATOR}, bbox_inches="tight" if crop else None
        )


def check_picture(path: str | PathLike[str], option: str) -> None:
    """Raise ConfigError or OutputError as `save_figure` would, before the picture is computed."""
    _format_of(path)
    check_writable(path, option)


def _format_of(path: str | PathLike[str]) -> str:
    suffix = Path(path).suffix.removeprefix(".")
    if suffix not in FORMATS:
        raise ConfigError(
            f"cannot write a picture to '{path}', because its suffix must be .{', .'.join(FORMATS[:-1])} or "
            f".{FORMATS[-1]}."
        )
    return suffix


def load_plane(dataset: xr.Dataset, variable: str, slice_spec: str, step: int) -> xr.DataArray:
    """Return a plane of a field in memory, with its step, time and position as coordinates."""
    return take_slice(select_step(get_field(dataset, variable), step), slice_spec).load()


def draw_plane(axes: Axes, plane: xr.DataArray, shade: ColourScale) -> AxesImage:
    """Draw a two-dimensional field as an image at its coordinates, with the origin at the lower left."""
    vertical, horizontal = (str(dim) for dim in plane.dims)
    axes.set(xlabel=axis_label(plane[horizontal]), ylabel=axis_label(plane[vertical]))
    low, high = shade.limits
    return axes.imshow(
        plane.values,
        cmap=shade.colours,
        origin="lower",
        aspect="equal",
        vmin=low,
        vmax=high,
        extent=extent_of(plane),
    )


def title(data: xr.Dataset | xr.DataArray) -> str:
    """Return a title from the scalar coordinates of `data`: "step 1000, t = 2000, z = 32"."""
    parts = [f"step {int(data[STEP])}"] if STEP in data.coords else []
    if "time" in data.coords:
        parts.append(f"{_time_symbol(data)} = {float(data['time']):g}")
    return ", ".join([*parts, *filter(None, [_space_coordinates(data)])])


def mean_title(outputs: xr.Dataset) -> str:
    """Return a title for a mean over outputs: "mean of 8 outputs, t = 3 to 10"."""
    over = "time" if "time" in outputs.coords else STEP
    first, last = (float(outputs[over][place]) for place in (0, -1))
    symbol = _time_symbol(outputs) if over == "time" else STEP
    return f"mean of {outputs.sizes[STEP]} outputs, {symbol} = {first:g} to {last:g}"


def time_name(data: xr.Dataset | xr.DataArray) -> str:
    """Return the name of the coordinate time: "time", or another one of the model, such as "scale factor"."""
    return str(data["time"].attrs.get("long_name", "time")) if "time" in data.coords else "time"


def _time_symbol(data: xr.Dataset | xr.DataArray) -> str:
    """Return "t" for time, and the name of another coordinate that a model has instead."""
    name = time_name(data)
    return "t" if name == "time" else name


def _space_coordinates(data: xr.Dataset | xr.DataArray) -> str:
    """Return the scalar coordinates of `data` in space as text: "z = 32", or "" if there are none."""
    return ", ".join(
        f"{name} = {coordinate.item():g}"
        for name, coordinate in data.coords.items()
        if coordinate.ndim == 0 and coordinate.dtype.kind in "iuf" and name not in (STEP, "time")
    )


def _field_names(dataset: xr.Dataset, variables: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the fields to draw. Raises ConfigError if one does not exist, or if there are none."""
    names = field_names(dataset) if variables is None else tuple(variables)
    if not names:
        raise ConfigError("the data set has no field to draw. Name a data set that a run has written.")
    return tuple(str(get_field(dataset, name).name) for name in names)


def blank_figure(width: float, height: float) -> Figure:
    """Return an empty figure. width, height: in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def figure_of(axes: Axes) -> Figure:
    """Return the whole figure in which axes are, if they are in a part of it."""
    figure = axes.figure
    while not isinstance(figure, Figure):
        figure = figure.figure
    return figure


def panels(figure: Figure, n: int, per_row: int = 0) -> list[Axes]:
    """Return n panels of a figure, side by side, or with at most per_row in a row."""
    across = min(n, per_row or n)
    axes = figure.subplots(-(-n // across), across, squeeze=False).ravel()
    for spare in axes[n:]:
        spare.set_axis_off()
    return list(axes[:n])


def names_on_page(names: Sequence[str], page: int) -> list[str]:
    """Return the names whose panels are on a page, at most PER_PAGE. A message is logged if there are other pages.

    page: from 1. Raises ConfigError if the page does not exist.
    """
    pages = max(1, -(-len(names) // PER_PAGE))
    if page > pages:
        raise ConfigError(
            f"--page {page}: the picture has only {pages} page{'s' * (pages != 1)} with {len(names)} panels."
        )
    if pages > 1:
        log.info(
            "page %d of %d, with at most %d panels. --page draws another page, --variable draws chosen fields.",
            page,
            pages,
            PER_PAGE,
        )
    return list(names[(page - 1) * PER_PAGE : page * PER_PAGE])


def label_decades(figure: Figure) -> None:
    """Label logarithmic axes at powers of ten; those of less than SHORT decades also at 2 and 5 times these.

    Matplotlib labels all multiples on an axis of about a decade, as 2 x 10^0, so that they overlap. Call this when
    everything is drawn, because it depends on the limits of the axes.
    """
    for axes in figure.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            if axis.get_scale() != "log" or min(limits) <= 0:
                continue
            axis.set_minor_formatter(NullFormatter())
            if np.log10(max(limits) / min(limits)) < SHORT:
                axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def axis_label(places: xr.DataArray) -> str:
    """Return the label of an axis: the name of the coordinate, and its unit if it has one."""
    unit = unit_of(places)
    return f"{places.name} in {unit}" if unit else str(places.name)
