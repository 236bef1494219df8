"""Pictures of particles: correlations in time along their paths, or their positions.

With q of a particle at output i, and q' = q - <q> about the mean over all particles of that output,

    rho(l) = sum_i <q'_i . q'_(i+l)> / sqrt(sum_i <q'_i . q'_i> sum_i <q'_(i+l) . q'_(i+l)>).

The sums are over all pairs of outputs with the distance l, so that every output is an origin of time. The
correlations in the time series, in contrast, are with step 0. Source: Yeung and Pope, J. Fluid Mech. 207 (1989) 531.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.fft
import xarray as xr
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ridgeline.analysis.plot import blank_figure, panels, title
from ridgeline.analysis.slices import select_step, unit_of
from ridgeline.config.check import did_you_mean
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import counted

NOT_CORRELATED = ("position", "image", "velocity_gradient")
MOST = 20_000  # number of particles that are read, evenly spread over all


def has_paths(dataset: xr.Dataset) -> bool:
    """Whether it is a data set of particles or atoms with velocities."""
    return "velocity" in dataset and dataset["velocity"].dims[2:] == ("axis",)


def autocorrelation(dataset: xr.Dataset, name: str, most: int = MOST) -> xr.DataArray:
    """Compute the autocorrelation rho of an array along the paths of particles.

    With q of a particle at output i, and q' = q - <q> about the mean over all particles of that output,
    rho(l) = sum_i <q'_i . q'_(i+l)> / sqrt(sum_i <q'_i . q'_i> sum_i <q'_(i+l) . q'_(i+l)>), where the sums are over
    all pairs of outputs with the distance l. Source: Yeung and Pope, J. Fluid Mech. 207 (1989) 531.

    Parameters
    ----------
    dataset : xarray.Dataset
        A data set of particles or atoms, as `ridgeline.open` returns it.
    name : str
        Name of the array q.
    most : int
        Largest number of particles that are read.

    Returns
    -------
    xarray.DataArray
        float64 over `lag`, from 0 to half of the outputs; a lag is the mean time between the outputs of its pairs.
        rho is 0 where q has no variance.

    Raises
    ------
    ConfigError
        For an array that does not exist, or if there are fewer than two outputs.

    Notes
    -----
    Local. The array is read once, for at most `most` particles, and correlated by one FFT over the outputs.

    Examples
    --------
    Particles that turn around at every output:

    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import autocorrelation
    >>> first = np.random.default_rng(0).normal(size=(50, 3))
    >>> velocity = np.array([first, -first, first, -first])
    >>> time = ("step", [0.0, 0.1, 0.2, 0.3])
    >>> data = xr.Dataset({"velocity": (("step", "particle", "axis"), velocity)}, {"time": time})
    >>> rho = autocorrelation(data, "velocity")
    >>> rho.lag.values.round(3), rho.values.round(3)
    (array([0. , 0.1, 0.2]), array([ 1., -1.,  1.]))
    """
    known = _known(dataset)
    if name not in known:
        raise ConfigError(
            f"'{name}' cannot be correlated along paths{did_you_mean(name, known)} Arrays that can: "
            f"{', '.join(known)}."
        )
    n_steps, n = dataset[name].shape[:2]
    if n_steps < 2:
        raise ConfigError(
            f"the data set has {counted(n_steps, 'output')}, but a correlation in time requires at least two."
        )
    chosen = slice(None, None, -(-n // most))
    values = dataset[name][:, chosen].values.astype(np.float64)
    values -= values.mean(axis=1, keepdims=True)
    both = _products(values.reshape(n_steps, -1))
    square = np.concatenate([[0.0], np.cumsum((values**2).reshape(n_steps, -1).sum(axis=1))])
    lags = np.arange(n_steps // 2 + 1)
    earlier, later = square[n_steps - lags], square[n_steps] - square[lags]
    scale = np.sqrt(earlier * later)
    time = dataset["time"].values
    apart = [float((time[lag:] - time[: n_steps - lag]).mean()) for lag in lags]
    rho = np.divide(both[lags], scale, out=np.zeros(len(lags)), where=scale > 0)
    return xr.DataArray(rho, {"lag": ("lag", apart)}, ("lag",), name)


def _products(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum over i and j of values[i, j] values[i + l, j] for all lags l. values: [steps, numbers]."""
    n_steps = len(values)
    modes = scipy.fft.rfft(values, scipy.fft.next_fast_len(2 * n_steps, real=True), axis=0)
    power = (modes.real**2 + modes.imag**2).sum(axis=1)
    return np.asarray(scipy.fft.irfft(power, scipy.fft.next_fast_len(2 * n_steps, real=True))[:n_steps])


def _known(dataset: xr.Dataset) -> list[str]:
    """Return the arrays of particles that can be correlated."""
    axis = dataset["velocity"].dims[1]
    return [
        str(name)
        for name, array in dataset.data_vars.items()
        if array.dims[:2] == ("step", axis) and name not in NOT_CORRELATED
    ]


def has_places(dataset: xr.Dataset) -> bool:
    """Whether positions of particles are drawn instead of paths: there is one output, or it is cosmic structure."""
    if "position" not in dataset or dataset["position"].dims[1:] != ("particle", "axis"):
        return False
    expands = any(str(name).startswith("cosmology.") for name in dataset.attrs)  # an attribute of N-body runs
    return expands or dataset.sizes["step"] < 2


def plot_places(dataset: xr.Dataset, slice_spec: str = "z=mid", step: int = -1) -> Figure:
    """Draw the number of particles along each line through the box over its mean, on a logarithmic colour scale.

    slice_spec: its axis is the direction of the lines, and all particles count; step: as for `select_step`.
    """
    now = select_step(dataset, step)
    along = "xyz".find(slice_spec.partition("=")[0].strip() or "?")
    if along < 0:
        raise ConfigError(
            f"slice '{slice_spec}' has no axis to look along. Write one of x, y and z, such as z=mid."
        )
    horizontal, vertical = (axis for axis in range(3) if axis != along)
    places = now["position"].values
    n = int(np.clip(np.sqrt(len(places)) / 2, 8, 512))
    counts, across, up = np.histogram2d(places[:, horizontal], places[:, vertical], n)
    figure = blank_figure(6.2, 5.2)
    (axes,) = panels(figure, 1)
    over = np.maximum(counts.T / counts.mean(), 0.1)
    image = axes.imshow(
        over,
        origin="lower",
        cmap="inferno",
        norm=LogNorm(0.1, max(float(over.max()), 1.0)),
        extent=(across[0], across[-1], up[0], up[-1]),
    )
    figure.colorbar(image, ax=axes, label="particles relative to the mean")
    unit = unit_of(now["position"])
    names = [f"{'xyz'[axis]} in {unit}" if unit else "xyz"[axis] for axis in (horizontal, vertical)]
    axes.set(xlabel=names[0], ylabel=names[1])
    figure.suptitle(f"{title(now)}, along {'xyz'[along]}")
    return figure


def plot_paths(dataset: xr.Dataset, variables: Sequence[str] = ()) -> Figure:
    """Draw the autocorrelations along paths over the lag in one panel.

    Parameters
    ----------
    dataset : xarray.Dataset
        As for `autocorrelation`.
    variables : sequence of str
        Names of arrays; by default all that can be correlated.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that a notebook shows, and that `savefig` writes.

    Raises
    ------
    ConfigError
        For an array that does not exist, or if there are fewer than two outputs.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis.paths import plot_paths
    >>> velocity = np.random.default_rng(0).normal(size=(4, 50, 3))
    >>> time = ("step", [0.0, 0.1, 0.2, 0.3])
    >>> data = xr.Dataset({"velocity": (("step", "particle", "axis"), velocity)}, {"time": time})
    >>> plot_paths(data).axes[0].get_ylabel()
    'correlation along paths'
    """
    curves = [autocorrelation(dataset, name) for name in variables or _known(dataset)]
    figure = blank_figure(5.6, 4.2)
    (axes,) = panels(figure, 1)
    axes.axhline(0.0, color="0.7", linewidth=0.8)
    for curve in curves:
        axes.plot(curve["lag"].values, curve.values, label=str(curve.name))
    axes.set(xlabel="lag", ylabel="correlation along paths")
    axes.legend()
    return figure
