"""Statistics of fields at one output: spectra, structure functions and profiles, on any grid of equal cells.

    energy = spectrum(run)                                   # E(k) of the velocity, at the last output
    second = structure_function(run, "velocity_x", along="x")
    means = profile(run, along="y", variables="V")

The spectra that a run of turbulence writes itself (output.spectra) have more kinds, and do not read fields.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.fft
import xarray as xr
from numpy.typing import NDArray

from ridgeline.analysis.element_images import ELEMENT_DIMS, on_grid
from ridgeline.analysis.series import STATISTICS
from ridgeline.analysis.slices import field_names, get_field, select_step
from ridgeline.analysis.sources import FIELDS, Source, dataset_of
from ridgeline.fourier.modes import HALF
from ridgeline.runtime.errors import ConfigError

AXES = ("z", "y", "x")
VELOCITY = ("velocity_x", "velocity_y", "velocity_z")
CELLS = 65  # along the longest side of a domain of elements
EQUAL = 1e-6  # relative difference of cells that count as equal

Reals = NDArray[np.float64]


def spectrum(data: Source, variables: str | Sequence[str] | None = None, step: int = -1) -> xr.DataArray:
    """Compute the energy spectrum E(k) of fields in a periodic box.

    With the Fourier modes f_k of each field, E(k_n) is the sum of |f_k|^2 / 2 over the fields and over the shell of
    modes whose |k| is nearer to k_n = n dk than to other multiples of dk, divided by dk. Hence sum_n E(k_n) dk is
    half of the mean square, which for a velocity is its energy. dk is 2 pi over the longest side. Source: Pope,
    "Turbulent Flows" (2000), Sec. 6.5.

    Parameters
    ----------
    data : xarray.Dataset, path or Run
        Fields on equal cells with the axes z, y and x, periodic in each of them: a data set, its path, or a run.
    variables : str or sequence of str, optional
        Names of fields, whose spectra are added up; by default the components of the velocity, or if there are none
        all fields.
    step : int
        The number of a time step that was written, or -1 for the last one.

    Returns
    -------
    xarray.DataArray
        float64 over `k`, in the square of the unit of the fields times a length. The last shell ends at the largest
        |k| of the grid.

    Raises
    ------
    ConfigError
        For a field or a step that does not exist, and for data that are not on equal cells.

    Notes
    -----
    Local. One field after the other is read and transformed in float64.

    Examples
    --------
    A wave cos(3x) has the energy 1/4, all of it at k = 3:

    >>> import numpy as np
    >>> import ridgeline
    >>> import xarray as xr
    >>> x = 2 * np.pi * np.arange(16) / 16
    >>> wave = np.cos(3 * x) + np.zeros((1, 16, 16, 16))
    >>> data = xr.Dataset({"V": (("step", "z", "y", "x"), wave)}, {"step": [0], "z": x, "y": x, "x": x})
    >>> energy = ridgeline.analysis.spectrum(data, "V")
    >>> energy.isel(k=[2, 3, 4]).values.round(12), round(float(energy.sum() * energy.k[1]), 12)
    (array([0.  , 0.25, 0.  ]), 0.25)
    """
    dataset = select_step(_fields(data), step)
    fields = [_on_cells(get_field(dataset, name)) for name in _names(dataset, variables, VELOCITY)]
    wavenumbers = [
        2 * np.pi / (n * _cell(fields[0], str(dim))) * np.abs(np.fft.fftfreq(n, 1 / n))
        for dim, n in fields[0].sizes.items()
        if n > 1
    ]
    if not wavenumbers:
        raise ConfigError("analysis.spectrum: the fields have a single cell, so they have no wavenumbers.")
    # The last axis has half of the modes, and each of the others is counted twice.
    wavenumbers[-1] = wavenumbers[-1][: len(wavenumbers[-1]) // 2 + 1]
    width = min(float(k[1]) for k in wavenumbers)
    square = sum(k**2 for k in np.meshgrid(*wavenumbers, indexing="ij", sparse=True))
    shell = (np.sqrt(square) / width + HALF).astype(np.int64)
    last = fields[0].squeeze().shape[-1]
    twice = np.full(len(wavenumbers[-1]), 1.0)
    twice[1 : (last + 1) // 2] = 2.0
    energy = np.zeros(int(shell.max()) + 1)
    for field in fields:
        values = np.asarray(field.squeeze().values, np.float64)
        modes = scipy.fft.rfftn(values, norm="forward")
        power = (modes.real**2 + modes.imag**2) * twice
        energy += np.bincount(shell.ravel(), power.ravel(), len(energy)) / (2 * width)
    attributes = {"long_name": "energy spectrum"}
    return xr.DataArray(
        energy, _moment(dataset) | {"k": width * np.arange(len(energy))}, ("k",), attrs=attributes
    )


def structure_function(
    data: Source, variable: str, along: str = "x", order: int = 2, step: int = -1
) -> xr.DataArray:
    """Compute the moment <(f(x + r) - f(x))^p> of the differences of a field over a separation r along an axis.

    For a component of the velocity it is longitudinal along its own axis, and transverse along another one. Source:
    Pope, "Turbulent Flows" (2000), Sec. 6.2.

    Parameters
    ----------
    data : xarray.Dataset, path or Run
        Fields on equal cells with the axes z, y and x, periodic along `along`: a data set, its path, or a run.
    variable : str
        The name of a field.
    along : {"x", "y", "z"}
        The axis of the separation.
    order : int
        The power p, at least 1.
    step : int
        The number of a time step that was written, or -1 for the last one.

    Returns
    -------
    xarray.DataArray
        float64 over `separation`, from one cell to half of the box.

    Raises
    ------
    ConfigError
        For a field, a step, an axis or an order that does not exist, and for data that are not on equal cells.

    Notes
    -----
    Local. The field is read once, and passed over once for each separation.

    Examples
    --------
    <(sin(x + r) - sin(x))^2> = 1 - cos(r):

    >>> import numpy as np
    >>> import ridgeline
    >>> import xarray as xr
    >>> x = 2 * np.pi * np.arange(8) / 8
    >>> wave = np.sin(x) + np.zeros((1, 8, 8, 8))
    >>> data = xr.Dataset({"V": (("step", "z", "y", "x"), wave)}, {"step": [0], "z": x, "y": x, "x": x})
    >>> second = ridgeline.analysis.structure_function(data, "V")
    >>> np.abs(second - (1 - np.cos(second.separation))).max().item() < 1e-12
    True
    """
    if isinstance(order, bool) or not isinstance(order, int) or order < 1:
        raise ConfigError(f"analysis.structure_function: order is {order!r}, but it must be an integer >= 1.")
    dataset = select_step(_fields(data), step)
    field = _on_cells(get_field(dataset, variable))
    n = field.sizes[_axis("structure_function", along)]
    values = np.asarray(field.transpose(along, ...).values, np.float64)
    offsets = np.arange(1, n // 2 + 1)
    moments = [float(np.mean((np.roll(values, -offset, axis=0) - values) ** order)) for offset in offsets]
    coords = _moment(dataset) | {"separation": _cell(field, along) * offsets}
    attributes = {"long_name": f"structure function of order {order} of {variable} along {along}"}
    return xr.DataArray(moments, coords, ("separation",), attrs=attributes)


def profile(
    data: Source, along: str, variables: str | Sequence[str] | None = None, step: int = -1
) -> xr.Dataset:
    """Compute the minimum, maximum, mean and standard deviation of fields in the planes across an axis.

    Parameters
    ----------
    data : xarray.Dataset, path or Run
        Fields with the axes z, y and x, or on spectral elements, which are interpolated to equal cells first, 65
        along the longest side: a data set, its path, or a run.
    along : {"x", "y", "z"}
        The axis on which the profile depends.
    variables : str or sequence of str, optional
        Names of fields; by default all.
    step : int
        The number of a time step that was written, or -1 for the last one.

    Returns
    -------
    xarray.Dataset
        Each field over (`along`, statistic), float64, as `compute_series` returns it over steps: `statistic` is
        "min", "max", "mean" or "std". Cells outside all elements do not count.

    Raises
    ------
    ConfigError
        For a field, a step or an axis that does not exist.

    Notes
    -----
    Local. One field after the other is read.

    Examples
    --------
    >>> import numpy as np
    >>> import ridgeline
    >>> import xarray as xr
    >>> values = np.arange(8.0).reshape(1, 2, 2, 2)
    >>> data = xr.Dataset({"U": (("step", "z", "y", "x"), values)}, {"step": [0], "z": [0.25, 0.75]})
    >>> ridgeline.analysis.profile(data, along="z").U.sel(statistic="mean").values
    array([1.5, 5.5])
    """
    dataset = _fields(data)
    on_elements = ELEMENT_DIMS[0] in dataset.dims
    dataset = select_step(on_grid(dataset, CELLS), step)
    columns = {}
    for name in _names(dataset, variables):
        field = get_field(dataset, name)
        if _axis("profile", along) not in field.dims:
            raise ConfigError(
                f"analysis.profile: {name} has the axes {', '.join(map(str, field.dims))}, but not {along}."
            )
        values = np.asarray(field.transpose(along, ...).values, np.float64).reshape(field.sizes[along], -1)
        counted = np.isfinite(values) if on_elements else np.ones_like(values, bool)
        columns[name] = ((along, "statistic"), np.array(list(map(_statistics, values, counted))), field.attrs)
    coords = _moment(dataset) | {"statistic": list(STATISTICS)}
    if along in dataset.coords:
        coords[along] = dataset[along]
    return xr.Dataset(columns, coords, dataset.attrs)


def _statistics(values: Reals, counted: NDArray[np.bool_]) -> Reals:
    """Return (min, max, mean, std) of the values that count; NaN if none does."""
    values = values[counted]
    if not len(values):
        return np.full(len(STATISTICS), np.nan)
    return np.array([values.min(), values.max(), values.mean(), values.std()])


def _fields(data: Source) -> xr.Dataset:
    return dataset_of(data, FIELDS)


def _names(
    dataset: xr.Dataset, variables: str | Sequence[str] | None, usual: Sequence[str] = ()
) -> list[str]:
    """Return names of fields: those that are given, otherwise the usual ones that are there, otherwise all."""
    if variables is not None:
        return [variables] if isinstance(variables, str) else list(variables)
    names = field_names(dataset)
    if not names:
        raise ConfigError("the data set has no field. Give the data set of output.path.")
    return [name for name in usual if name in names] or list(names)


def _axis(function: str, along: str) -> str:
    if along not in AXES:
        raise ConfigError(f"analysis.{function}: along is {along!r}, but it must be 'x', 'y' or 'z'.")
    return along


def _on_cells(field: xr.DataArray) -> xr.DataArray:
    """Return a field with the axes z, y and x and equal cells along each. Raises ConfigError for any other."""
    if set(field.dims) != set(AXES):
        raise ConfigError(
            f"{field.name} has the axes {', '.join(map(str, field.dims))}, but it must have z, y and x."
        )
    for dim in AXES:
        cells = np.diff(np.asarray(field[dim].values, np.float64))
        if len(cells) and np.ptp(cells) > EQUAL * np.abs(cells).max():
            raise ConfigError(f"the points of {field.name} along {dim} are not evenly spaced.")
    return field.transpose(*AXES)


def _cell(field: xr.DataArray, dim: str) -> float:
    """Return the length of a cell along an axis that has several."""
    places = np.asarray(field[dim].values, np.float64)
    return float(places[-1] - places[0]) / (len(places) - 1)


def _moment(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the step and the time of a selected output as coordinates."""
    return {name: dataset[name] for name in ("step", "time") if name in dataset.coords}
