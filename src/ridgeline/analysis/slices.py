"""Selecting output steps, planes and slabs of fields that may be larger than memory.

Fields are xarray objects with the dimensions (step, z, y, x) or a part of them, as `ridgeline.open` returns them.
Only `slabs`, `value_range` and `take_mean` read data: the other functions select a part of a lazy object.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.config.check import did_you_mean
from ridgeline.config.part_selection import index_of
from ridgeline.runtime.errors import ConfigError

Data = TypeVar("Data", xr.Dataset, xr.DataArray)

STEP = "step"
SLAB_BYTES = 64 * 2**20  # bytes read at a time: enough for full speed, and small beside any memory


def spatial_dims(data: xr.Dataset | xr.DataArray) -> tuple[str, ...]:
    """Return the names of the space dimensions, slowest first: ("z", "y", "x")."""
    return tuple(str(dim) for dim in data.dims if dim != STEP)


def field_names(dataset: xr.Dataset) -> tuple[str, ...]:
    """Return the names of the variables that are fields: those with at least two space dimensions."""
    return tuple(str(name) for name, field in dataset.data_vars.items() if len(spatial_dims(field)) >= 2)


def long_axes(dataset: xr.Dataset) -> tuple[str, ...]:
    """Return the space dimensions of the fields along which they have more than one value."""
    dims = dict.fromkeys(dim for name in field_names(dataset) for dim in spatial_dims(dataset[name]))
    return tuple(dim for dim in dims if dataset.sizes[dim] > 1)


def get_field(dataset: xr.Dataset, variable: str) -> xr.DataArray:
    """Return the field called `variable`. Raises ConfigError with the names of all fields if it does not exist."""
    names = field_names(dataset)
    if variable not in names:
        raise ConfigError(
            f"the data set has no field '{variable}'{did_you_mean(variable, names)} Its fields are "
            f"{', '.join(names) or 'none'}."
        )
    return dataset[variable]


def unit_of(data: xr.DataArray) -> str:
    """Return the unit of an array for the label of an axis; "" for a pure number, whose unit in CF is 1."""
    unit = str(data.attrs.get("units", ""))
    return "" if unit == "1" else unit


def select_step(data: Data, step: int) -> Data:
    """Select one output step, lazily, and drop the dimension `step`.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataArray
        Data with the dimension and the coordinate `step`.
    step : int
        Time step of the simulation, as in the coordinate `step`. Negative values count output steps from the end,
        with -1 for the last.

    Returns
    -------
    xarray.Dataset or xarray.DataArray
        The part of `data` at this step, without reading values.

    Raises
    ------
    ConfigError
        If there is no output of that step.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import select_step
    >>> data = xr.Dataset({"U": (("step", "z", "y", "x"), np.zeros((3, 2, 4, 4)))}, {"step": [0, 50, 100]})
    >>> int(select_step(data, 50).step), int(select_step(data, -1).step)
    (50, 100)
    """
    steps = step_numbers(data)
    if not len(steps):
        raise ConfigError("the data set has no output step yet. Wait for the first output of the run.")
    index = step + len(steps) if step < 0 else int(np.searchsorted(steps, step))
    if not 0 <= index < len(steps) or (step >= 0 and steps[index] != step):
        raise ConfigError(
            f"step {step} is not in the data set, which has {_listed(steps)}. "
            f"Name one of them, or count back from the last: -1 to -{len(steps)}."
        )
    return data.isel({STEP: index})


def take_mean(dataset: xr.Dataset, average: str) -> tuple[xr.Dataset, xr.Dataset]:
    """Return the mean of `dataset` over some of its outputs, in memory, and these outputs, lazily.

    average: "FIRST:LAST", the time steps of the first and the last output; one of them may be left out: "600:". All
    outputs have the same weight. Raises ConfigError if `average` is invalid, or no output is in its range.
    """
    part = select_range(dataset, average)
    return part.mean(STEP, keep_attrs=True).load(), part


def select_range(dataset: xr.Dataset, average: str) -> xr.Dataset:
    """Return the outputs in a range of time steps, lazily. average, errors: as for `take_mean`."""
    first, separator, last = average.partition(":")
    steps = step_numbers(dataset)
    try:
        low, high = int(first or 0), int(last or steps.max(initial=0))
    except ValueError:
        separator = ""
    if not separator:
        raise ConfigError(
            f"the average {average} is not a range of time steps. Write FIRST:LAST, such as 0:{steps.max(initial=0)}."
        )
    inside = np.flatnonzero((steps >= low) & (steps <= high))
    if not len(inside):
        raise ConfigError(f"the average {average} contains no output. The data set has {_listed(steps)}.")
    return dataset.isel({STEP: inside})


def step_numbers(data: xr.Dataset | xr.DataArray) -> NDArray[np.int64]:
    """Return the time steps of the outputs in `data`, shape (outputs,), ascending."""
    return np.asarray(data[STEP].values, dtype=np.int64)


def take_slice(data: Data, spec: str) -> Data:
    """Select a plane, lazily, and drop the dimension across it.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataArray
        Fields over (step, z, y, x), or a part of these dimensions.
    spec : str
        The plane: "z=mid" (index n // 2), "z=12", "y=0", "x=-1" (the last), or a coordinate with a decimal point,
        "x=12.5", for the nearest plane.

    Returns
    -------
    xarray.Dataset or xarray.DataArray
        The plane, without reading values. The coordinate of the plane, or its index if there is none, is kept as a
        scalar coordinate.

    Raises
    ------
    ConfigError
        If `spec` is invalid or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import take_slice
    >>> field = xr.DataArray(np.zeros((4, 6, 8)), {"x": 0.5 * np.arange(8)}, ("z", "y", "x"))
    >>> take_slice(field, "z=mid").shape, int(take_slice(field, "z=mid").z)
    ((6, 8), 2)
    >>> float(take_slice(field, "x=1.4").x)
    1.5
    """
    dims = spatial_dims(data)
    axis, separator, place = (part.strip() for part in spec.partition("="))
    if not separator or axis not in dims:
        raise ConfigError(
            f"slice '{spec}' is not a plane. Write AXIS=INDEX with one of the axes {', '.join(dims)} and an index or "
            f"mid, such as {dims[0]}=mid."
        )
    n = data.sizes[axis]
    try:
        index = index_of(place, n, data[axis].values.tolist() if axis in data.coords else None)
    except ValueError:
        raise ConfigError(
            f"slice '{spec}' has no index. Write {axis}=mid, an integer from {-n} to {n - 1}, or a place with a "
            f"decimal point, such as {axis}=0.5."
        ) from None
    if not -n <= index < n:
        raise ConfigError(
            f"slice '{spec}' is outside the grid, which has {n} cells in {axis}. "
            f"Use {axis}=mid or an index from {-n} to {n - 1}."
        )
    plane = data.isel({axis: index})
    return plane if axis in plane.coords else plane.assign_coords({axis: index % n})


def slabs(field: xr.DataArray, most_bytes: int = SLAB_BYTES) -> Iterator[NDArray[Any]]:
    """Read `field` piece by piece in order, and yield its values as new arrays of at most about `most_bytes`.

    A piece is a range of the first dimension. If one index of this is too large already, the next dimension is
    divided. A single plane is never divided.
    """
    dim = field.dims[0] if field.ndim else ""
    n = field.sizes[dim] if field.ndim else 1
    if field.ndim > 2 and field.nbytes > n * most_bytes:
        for i in range(n):
            yield from slabs(field.isel({dim: i}), most_bytes)
    elif field.nbytes <= most_bytes or field.ndim <= 2:
        yield field.values
    else:
        planes = most_bytes * n // field.nbytes
        for start in range(0, n, planes):
            yield field.isel({dim: slice(start, start + planes)}).values


def value_range(field: xr.DataArray, skip_nonfinite: bool = False) -> tuple[float, float]:
    """Return the least and greatest value of `field`, which is read slab by slab.

    A NaN makes both NaN, unless `skip_nonfinite` leaves out NaN and infinity. Without any value they are (inf, -inf).
    """
    lowest, highest = np.inf, -np.inf
    for values in slabs(field):
        counted = values[np.isfinite(values)] if skip_nonfinite else values
        lowest = np.minimum(lowest, counted.min(initial=np.inf))
        highest = np.maximum(highest, counted.max(initial=-np.inf))
    return float(lowest), float(highest)


def _listed(numbers: Sequence[int] | NDArray[np.int64]) -> str:
    """Return numbers for an error message: all of them if they are few, otherwise the first and last ones."""
    if len(numbers) <= 6:
        return "the steps " + ", ".join(str(n) for n in numbers)
    return f"{len(numbers)} steps from {numbers[0]}, {numbers[1]} to {numbers[-1]}"
