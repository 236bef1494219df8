"""Time series of statistics of fields: minimum, maximum, mean and standard deviation of each output."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.analysis.slices import STEP, field_names, get_field, slabs
from ridgeline.analysis.sources import FIELDS, Source, dataset_of

STATISTICS = ("min", "max", "mean", "std")


def compute_series(data: Source, variables: Sequence[str] | None = None) -> xr.Dataset:
    """Compute the minimum, maximum, mean and standard deviation of fields at every output step.

    Parameters
    ----------
    data : xarray.Dataset, path or Run
        Fields over (step, z, y, x): a data set, its path, or a run. They are read slab by slab, never whole.
    variables : sequence of str, optional
        Names of fields; None takes all.

    Returns
    -------
    xarray.Dataset
        Each variable over (step, statistic), float64, in the unit of the field. `statistic` is one of "min", "max",
        "mean", "std": `series.U.sel(statistic="max")`. The coordinates and attributes of the data set are kept. A NaN
        in a field makes its statistics NaN.

    Raises
    ------
    ConfigError
        If a variable is not in the data set.

    Notes
    -----
    Local. Every value of the fields is read once, at most 64 MiB at a time.

    The standard deviation is that of the population (divided by the number of cells). Means and variances of slabs
    are merged in float64 by a pairwise update, which avoids cancellation. Source: Chan, Golub & LeVeque, "Updating
    formulae and a pairwise algorithm for computing sample variances", COMPSTAT 1982, Eq. 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import compute_series
    >>> values = np.arange(8.0).reshape(1, 2, 2, 2)
    >>> data = xr.Dataset({"U": (("step", "z", "y", "x"), values)}, {"step": [0]})
    >>> compute_series(data).U.sel(step=0).values.round(2)
    array([0.  , 7.  , 3.5 , 2.29])
    """
    dataset = dataset_of(data, FIELDS)
    fields = [get_field(dataset, name) for name in (field_names(dataset) if variables is None else variables)]
    columns = {
        str(field.name): (
            (STEP, "statistic"),
            np.array([compute_statistics(field.isel({STEP: i})) for i in range(field.sizes[STEP])]).reshape(
                field.sizes[STEP], len(STATISTICS)
            ),
        )
        for field in fields
    }
    coords = {name: c for name, c in dataset.coords.items() if c.dims == (STEP,)}
    return xr.Dataset(columns, {**coords, "statistic": list(STATISTICS)}, dataset.attrs)


def compute_statistics(field: xr.DataArray) -> NDArray[np.float64]:
    """Return (min, max, mean, std) of a field, float64 (4,). It is read slab by slab."""
    # Of the cells so far; squares is the sum of squared differences from the mean.
    count, mean, squares = 0, 0.0, 0.0
    lowest, highest = np.inf, -np.inf
    for values in slabs(field):
        lowest = np.minimum(lowest, values.min())
        highest = np.maximum(highest, values.max())
        count_slab, mean_slab, squares_slab = _moments(values)
        total = count + count_slab
        shift = mean_slab - mean
        squares += squares_slab + shift * shift * (count * count_slab / total)
        mean += shift * (count_slab / total)
        count = total
    return np.array([lowest, highest, mean, np.sqrt(squares / count)])


def _moments(values: NDArray[Any]) -> tuple[int, float, float]:
    """Return the number of values, their mean and the sum of their squared differences from it."""
    mean = float(values.mean(dtype=np.float64))
    difference = np.subtract(values, mean, dtype=np.float64).ravel()
    return values.size, mean, float(np.dot(difference, difference))
