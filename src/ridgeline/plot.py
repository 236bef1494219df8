"""Pictures for notebooks and scripts: planes, spectra, time series and movies, in figures or axes of one's own.

`ridgeline plot` draws the same, and more, from files: see `Run.plot`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.analysis.colour_scales import colour_scales, finite_range
from ridgeline.analysis.element_images import PLACES, on_grid
from ridgeline.analysis.movie import save_movie
from ridgeline.analysis.plot import draw_plane, figure_of, load_plane, plot_slices, title
from ridgeline.analysis.slices import field_names, unit_of
from ridgeline.analysis.spectra import draw_spectrum, plot_spectra
from ridgeline.analysis.time_series import draw_series, plot_time_series
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["movie", "series", "slice", "spectrum"]


def slice(
    data: xr.Dataset,
    variables: str | Sequence[str] | None = None,
    plane: str = "z=mid",
    step: int = -1,
    *,
    colour_map: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a plane of fields, each with its colour bar.

    Parameters
    ----------
    data : xarray.Dataset
        Fields as `ridgeline.open` returns them, on a grid or on spectral elements. One plane of each field is read.
    variables : str or sequence of str, optional
        Names of fields; by default all of them, or the first one with `ax`.
    plane : str
        AXIS=PLACE, as "z=mid" or "x=0.5".
    step : int
        The number of a time step that was written, or -1 for the last one.
    colour_map : str, optional
        A colour map of matplotlib; by default one is chosen for each field.
    ax : matplotlib.axes.Axes, optional
        Draw one field into these axes instead of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or that of `ax`.

    Raises
    ------
    ConfigError
        For a field, a plane or a step that does not exist, or several fields with `ax`.

    Examples
    --------
    >>> import ridgeline
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)}, output={"path": "a.bp", "every": 4})
    >>> run = ridgeline.run(case, progress=False)
    >>> figure = ridgeline.plot.slice(run.data, ["U", "V"], plane="x=mid")
    >>> figure.axes[1].get_title()
    'V'
    """
    across = plane.partition("=")[0].strip()
    images = on_grid(data, sharp=set(PLACES) - {across})
    names = [variables] if isinstance(variables, str) else list(variables or field_names(images))
    if ax is None:
        return plot_slices(images, names or None, plane, step, colour_map)
    if variables is not None and len(names) != 1:
        raise ConfigError(f"plot.slice: {len(names)} fields do not fit into one ax. Name one field.")
    if not names:
        raise ConfigError("plot.slice: the data set has no field to draw.")
    values = load_plane(images, names[0], plane, step)
    shade = colour_scales({names[0]: finite_range(values.values)}, colour_map)[names[0]]
    image = draw_plane(ax, values, shade)
    ax.figure.colorbar(image, ax=ax, label=unit_of(values))
    ax.set_title(f"{shade.title(names[0])}, {title(values)}")
    return figure_of(ax)


def spectrum(
    data: xr.Dataset,
    step: int = -1,
    *,
    average: str | None = None,
    compensated: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Draw the energy spectrum of turbulence, and the spectrum compensated by its slope of -5/3.

    Parameters
    ----------
    data : xarray.Dataset
        Spectra as `Run.spectra` and `ridgeline.open` return them.
    step : int
        The number of a time step that was written, or -1 for the last one.
    average : str, optional
        A range of outputs FIRST:LAST, whose mean is drawn instead of a step.
    compensated : bool
        Draw only the compensated spectrum.
    ax : matplotlib.axes.Axes, optional
        Draw one of the two into these axes instead of a new figure: E(k), or with `compensated` the other one.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or that of `ax`.

    Raises
    ------
    ConfigError
        If the data set has no spectra, or lacks the step.

    Examples
    --------
    >>> import numpy as np
    >>> import ridgeline
    >>> import xarray as xr
    >>> k = np.arange(1.0, 9.0)
    >>> coords = {"step": [0], "time": ("step", [0.0]), "k": k}
    >>> data = xr.Dataset({"energy_spectrum": (("step", "k"), np.exp(-k)[None])}, coords)
    >>> len(ridgeline.plot.spectrum(data).axes)
    2
    """
    if ax is None:
        return plot_spectra(data, step, average, compensated)
    draw_spectrum(ax, data, step, average, compensated)
    return figure_of(ax)


def series(
    table: pd.DataFrame | Mapping[str, Any], columns: str | Sequence[str] = (), *, ax: Axes | None = None
) -> Figure:
    """Draw columns of a time series over time, one panel each, with the range that most of its values have.

    Parameters
    ----------
    table : pandas.DataFrame or mapping
        The time series, as `Run.series` is.
    columns : str or sequence of str
        Names of columns; by default the most informative ones that change.
    ax : matplotlib.axes.Axes, optional
        Draw one column into these axes instead of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or that of `ax`.

    Raises
    ------
    ConfigError
        For a column that does not exist, for a series without rows, or for several columns with `ax`.

    Examples
    --------
    >>> import numpy as np
    >>> import ridgeline
    >>> time = np.linspace(0.0, 1.0, 11)
    >>> table = {"step": np.arange(11), "time": time, "energy": np.exp(-time)}
    >>> [axes.get_title() for axes in ridgeline.plot.series(table, "energy").axes]
    ['energy']
    """
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    values = {str(name): np.asarray(table[name]) for name in table}
    if ax is None:
        return plot_time_series(values, names)
    if len(names) != 1:
        raise ConfigError(f"plot.series: {len(names)} columns do not fit into one ax. Name one column.")
    draw_series(ax, values, names[0])
    return figure_of(ax)


def movie(
    data: xr.Dataset,
    variables: str | Sequence[str],
    path: str | PathLike[str],
    plane: str = "z=mid",
    *,
    rate: float = 10.0,
    width: int | None = None,
    colour_map: str | None = None,
) -> int:
    """Write a movie of a plane of fields, with a frame for each output step.

    Parameters
    ----------
    data : xarray.Dataset
        Fields as `ridgeline.open` returns them.
    variables : str or sequence of str
        Names of fields.
    path : path
        The movie; its suffix is .gif or .mp4.
    plane : str
        AXIS=PLACE, as "z=mid" or "x=0.5".
    rate : float
        Frames per second.
    width : int, optional
        Width of a frame in pixels.
    colour_map : str, optional
        A colour map of matplotlib; by default one is chosen for each field.

    Returns
    -------
    int
        The number of frames.

    Raises
    ------
    ConfigError
        For a field, a plane or a suffix that cannot be drawn.
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> import ridgeline
    >>> output = {"path": "frames.bp", "every": 1}
    >>> run = ridgeline.run(ridgeline.Case("gray_scott", 3, grid={"shape": (8, 8, 8)}, output=output), progress=False)
    >>> ridgeline.plot.movie(run.data, "V", "v.gif", width=160)
    3
    """
    return save_movie(on_grid(data), variables, plane, path, rate, width, colour_map)
