"""Time series of field statistics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.analysis.slices import STEP, field_names, get_field, slabs

STATISTICS = ("min", "max", "mean", "std")


def compute_series(dataset: xr.Dataset, variables: Sequence[str] | None = None) -> xr.Dataset:
    """Return minimum, maximum, mean and standard deviation of fields at every output step.

    dataset : fields over (step, z, y, x); read slab by slab, never whole.
    variables : names of fields; None takes all.

    The result holds each variable over (step, statistic), float64, in the unit of the field; `statistic` is
    one of "min", "max", "mean", "std": `series.U.sel(statistic="max")`. The coordinates and attributes of
    `dataset` stay. A NaN in a field makes its statistics NaN.

    The standard deviation is that of the population (divided by the number of cells). Mean and variance are merged
    over slabs in float64 by a pairwise update, and so do not cancel. Source: Chan, Golub & LeVeque, "Updating
    formulae and a pairwise algorithm for computing sample variances", COMPSTAT 1982, Eq. 2.1. Raises ConfigError if a
    variable is not in the data set.
    """
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
    """Return (min, max, mean, std) of a field, shape (4,), float64; read slab by slab."""
    count, mean, squares = 0, 0.0, 0.0  # of the cells so far; squares: sum of squared differences to the mean
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
    """Return the number of values, their mean and the sum of their squared differences to it."""
    mean = float(values.mean(dtype=np.float64))
    difference = np.subtract(values, mean, dtype=np.float64).ravel()
    return values.size, mean, float(np.dot(difference, difference))
