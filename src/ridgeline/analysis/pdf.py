"""Probability density functions of fields."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.analysis.slices import slabs, value_range
from ridgeline.runtime.errors import ConfigError, DivergedError


def compute_pdf(
    field: xr.DataArray,
    per: str | Sequence[str] = (),
    bins: int = 100,
    within: tuple[float, float] | None = None,
) -> xr.DataArray:
    """Compute the probability density of the values of a field, as a histogram whose integral is 1.

    Parameters
    ----------
    field : xarray.DataArray
        A field of any dimensions. It is read slab by slab, never whole, and twice if `within` is None.
    per : str or sequence of str
        Dimensions to keep: () for one density of everything, "z" for one of each slice, ("step", "z") for one of each
        slice and step. All densities share their bins, so that they can be compared.
    bins : int
        Number of bins of equal width.
    within : tuple of two floats, optional
        Lowest and highest value. Values outside are left out. None takes the range of the field.

    Returns
    -------
    xarray.DataArray
        float64 with the dimensions `(*per, value)`, in 1 / unit of the field. `value` has the centres of the bins,
        and the attribute `bin_width` their width: `pdf.sum("value") * pdf.bin_width` is 1.

    Raises
    ------
    ConfigError
        For impossible bins, range or dimensions.
    DivergedError
        If the field is not finite.

    Notes
    -----
    Local. At most 64 MiB of the field are in memory at a time.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import compute_pdf
    >>> field = xr.DataArray(np.linspace(0.0, 1.0, 96).reshape(4, 4, 6), dims=("z", "y", "x"))
    >>> density = compute_pdf(field, bins=2, within=(0.0, 1.0))
    >>> density.values, float(density.sum() * density.bin_width)
    (array([1., 1.]), 1.0)
    >>> dict(compute_pdf(field, per="z", bins=10).sizes)
    {'z': 4, 'value': 10}
    """
    kept = (per,) if isinstance(per, str) else tuple(per)
    unknown = [dim for dim in kept if dim not in field.dims]
    if unknown:
        raise ConfigError(
            f"per = '{unknown[0]}' is not a dimension of {field.name}. Its dimensions are "
            f"{', '.join(map(str, field.dims))}."
        )
    if bins < 1:
        raise ConfigError(f"bins = {bins} is not possible. Use at least 1, such as 100.")
    lowest, highest = bin_range(field, bins) if within is None else within
    if not (np.isfinite(lowest) and np.isfinite(highest) and lowest < highest):
        raise ConfigError(
            f"within = ({lowest}, {highest}) is empty. Give two finite numbers, the lower one first."
        )
    edges = np.linspace(lowest, highest, bins + 1)
    width = float(edges[-1] - edges[0]) / bins

    shape = tuple(field.sizes[dim] for dim in kept)
    density = np.empty((*shape, bins))
    for place in np.ndindex(*shape):
        counts = _count(field.isel(dict(zip(kept, place))), edges)
        # The density of a part without a value in the range is zero, not 0 / 0.
        density[place] = counts / (max(counts.sum(), 1) * width)
    coords = {name: c for name, c in field.coords.items() if set(c.dims) <= set(kept)}
    coords["value"] = xr.Variable("value", 0.5 * (edges[:-1] + edges[1:]))
    return xr.DataArray(density, coords, (*kept, "value"), name=field.name, attrs={"bin_width": width})


def bin_range(field: xr.DataArray, bins: int) -> tuple[float, float]:
    """Return the range of the values of `field`, widened to 1 if it is too narrow for `bins` bins.

    Raises DivergedError if the field is not finite everywhere.
    """
    lowest, highest = value_range(field)
    if not np.isfinite(lowest) or not np.isfinite(highest):
        raise DivergedError(
            f"{field.name} contains NaN or infinity, so it has no probability density. Choose an earlier step, or "
            "look at the time series of its extremes for the step at which it diverged."
        )
    if highest - lowest <= bins * np.spacing(max(abs(lowest), abs(highest))):
        return lowest - 0.5, highest + 0.5
    return lowest, highest


def _count(field: xr.DataArray, edges: NDArray[np.float64]) -> NDArray[np.int64]:
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    for values in slabs(field):
        # With number and range instead of edges NumPy computes the bin of a value instead of searching it.
        counts += np.histogram(values, len(edges) - 1, (edges[0], edges[-1]))[0]
    return counts
