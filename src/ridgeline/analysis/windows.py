"""Averages of a run in windows: added up, with standard errors from batch means, and as running means.

    total = add_windows(ridgeline.open("statistics.bp"))    # total.uu, total.uu_error
    total = add_windows([first, second], begin=100.0)       # of several files
    running = running_windows(data, "uu", "y=0.5")          # after 1, 2, ... windows
    windows = windows_between_outputs(spectra)              # of a data set of instantaneous profiles

A window is an output step with `averaging_time`, the model time over which its averages extend. It ends at the time
of the step. A moment of deviations, such as uu, is about the means of its window. About those of all windows it is

    <(a - A)(b - B)> = <a'b'> + (a_i - A)(b_i - B)    with the means a_i, b_i of the window and A, B of all,

and accordingly for three factors. The average over all windows, weighted by their lengths, is then the moment that a
single long window has, and the scatter of these values between windows gives its standard error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.analysis.slices import SLAB_BYTES, STEP, take_slice
from ridgeline.analysis.sources import STATISTICS, Source, dataset_of
from ridgeline.config.check import did_you_mean
from ridgeline.runtime.errors import ConfigError

TIME, SAMPLES, WINDOWS = "averaging_time", "samples", "windows"
ERROR = "_error"  # ending of the names of standard errors
PLACES = ("x", "y", "z")
OF_LETTERS = {"u": "velocity_x", "v": "velocity_y", "w": "velocity_z", "p": "pressure"}
IN_HEIGHT = (
    "u"  # mean velocity of profiles in height, whose moments are about the means of the plane of each sample
)
BETWEEN = "windows.between_outputs"  # attribute of windows whose averages are all means
TOLERANCE = 1e-9  # of model times that bound a range, relative
MOST_POINTS = 100  # of a curve of running means

Reals = NDArray[np.float64]
Windows = xr.Dataset | Sequence[xr.Dataset]


def has_windows(dataset: xr.Dataset) -> bool:
    """Whether the output steps of a data set are averages over windows."""
    return TIME in dataset and STEP in dataset.dims


def average(data: Source, begin: float | None = None, end: float | None = None, merge: int = 1) -> xr.Dataset:
    """Average over time, with standard errors: statistics of a run, or any outputs by the trapezoidal rule.

    Parameters
    ----------
    data : xarray.Dataset, path or Run
        Statistics of windows, as output.statistics writes them, or instantaneous outputs such as spectra, profiles
        and fields, of which all values are read into memory: a data set, its path, or a run, whose statistics are
        taken. `run.spectra` and `run.data` are its other outputs.
    begin, end : float, optional
        Model times. Only windows between them count.
    merge : int
        Windows that follow each other and form one batch of the standard errors.

    Returns
    -------
    xarray.Dataset
        As `add_windows` returns it.

    Raises
    ------
    ConfigError
        If there are no windows, fewer than two outputs, or none in the range; for a run without statistics.

    Examples
    --------
    >>> import ridgeline
    >>> import xarray as xr
    >>> coords = {"step": [0, 1, 3], "time": ("step", [0.0, 1.0, 4.0])}
    >>> data = xr.Dataset({"energy": ("step", [1.0, 3.0, 5.0])}, coords)
    >>> float(ridgeline.analysis.average(data).energy)  # (1 x 2 + 3 x 4) / 4
    3.5
    """
    dataset = dataset_of(data, STATISTICS)
    return add_windows(
        dataset if has_windows(dataset) else windows_between_outputs(dataset), begin, end, merge
    )


def add_windows(
    data: Windows, begin: float | None = None, end: float | None = None, merge: int = 1
) -> xr.Dataset:
    """Add up windows to averages over all of them, with standard errors.

    The standard error of an average is the square root of sum_i w_i (x_i - x)^2 / ((n - 1) sum_i w_i), with the
    values x_i of n batches of the lengths w_i, and their average x. These are batch means: see Flegal and Jones, Ann.
    Statist. 38 (2010) 1034.

    Parameters
    ----------
    data : xarray.Dataset or sequence of xarray.Dataset
        Windows, as `ridgeline.open` returns the data set of output.statistics, or as `windows_between_outputs` does.
        Several data sets, of one run or of several, must be of the same flow on the same mesh.
    begin, end : float, optional
        Model times. Only windows between them count.
    merge : int
        Windows that follow each other and form one batch.

    Returns
    -------
    xarray.Dataset
        The averages without the dimension `step`, and for each NAME its standard error, NAME_error, which is NaN for
        a single batch. With them are averaging_time, samples, and the number of windows. The coordinates step and
        time are those of the end of the last window.

    Raises
    ------
    ConfigError
        If the data have no windows, or none in the range; if they are not of the same flow, or the same window occurs
        twice.
    OutputError
        If values cannot be read.

    Notes
    -----
    Each window is read twice, and one of them, or some of at most 64 MiB together, are in memory. The sums are
    float64.

    Standard errors are right if batches are independent, that is, much longer than the correlation time of the flow.
    Shorter batches give errors that are too small. Increase `merge` until they stop growing; with fewer than about 10
    batches they are themselves uncertain by 1/sqrt(2 (n - 1)), relatively.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import add_windows
    >>> means = {"velocity_x": ("step", [1.0, 3.0]), "uu": ("step", [0.5, 0.5])}
    >>> lengths = {"averaging_time": ("step", [2.0, 2.0]), "samples": ("step", [20.0, 20.0])}
    >>> data = xr.Dataset({**means, **lengths}, {"step": [20, 40], "time": ("step", [2.0, 4.0])})
    >>> total = add_windows(data)
    >>> float(total.velocity_x), float(total.velocity_x_error)
    (2.0, 1.0)
    >>> float(total.uu)  # 0.5, and 1 because the means of the windows differ by 1 from that of both
    1.5
    """
    if merge < 1:
        raise ConfigError(f"merge is {merge}, but it must be an integer >= 1.")
    files = [data] if isinstance(data, xr.Dataset) else list(data)
    chosen = [part for file in files if (part := _within(file, begin, end)).sizes[STEP]]
    if not chosen:
        if begin is None and end is None:
            raise ConfigError(
                "the statistics have no samples, because the run ended before output.statistics_start or before the "
                "second sample."
            )
        raise ConfigError(
            "no window lies between these times and has samples. Choose an earlier begin or a later end."
        )
    _refuse_others(chosen)
    total = _combined(chosen, merge)
    last = max(chosen, key=lambda file: float(file.time[-1]))
    return _as_dataset(total, last, sum(file.sizes[STEP] for file in chosen))


def running_windows(data: Source, name: str, place: str = "", merge: int = 1) -> xr.Dataset:
    """Average over the first 1, 2, ... windows, with standard errors, at one point.

    Parameters
    ----------
    data : xarray.Dataset, path or Run
        Windows, as for `add_windows`: a data set, its path, or a run, whose statistics are taken.
    name : str
        The average that is followed.
    place : str
        A plane, as for `take_slice`; "" chooses none. On it, or in all averages, the point is that of the largest
        magnitude.
    merge : int
        Windows of a batch, as for `add_windows`.

    Returns
    -------
    xarray.Dataset
        `name` and its standard error over `step`, with the coordinate `time` and the coordinates of the point. There
        are at most 100 steps, evenly spread.

    Raises
    ------
    ConfigError
        As `add_windows` does, and for a name or a plane that does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import running_windows
    >>> values = {"theta": ("step", [1.0, 3.0, 2.0]), "averaging_time": ("step", [1.0, 1.0, 1.0])}
    >>> coords = {"step": [9, 18, 27], "time": ("step", [1.0, 2.0, 3.0])}
    >>> data = xr.Dataset({**values, "samples": ("step", [9, 9, 9])}, coords)
    >>> running_windows(data, "theta").theta.values.tolist()
    [1.0, 2.0, 2.0]
    """
    data = dataset_of(data, STATISTICS)
    _refuse_no_windows(data)
    names = averages_of(data)
    if name not in names:
        raise ConfigError(
            f"the windows have no '{name}'{did_you_mean(name, names)} They have {', '.join(names)}."
        )
    pairs = ["".join(pair) for pair in combinations(name, 2)] if len(name) == 3 else []
    with_it = [each for each in dict.fromkeys((name, *factors_of(name), *pairs)) if each in names]
    needed = data[[*with_it, TIME, SAMPLES]].load()
    if (
        "point" in needed.dims
    ):  # the only one of an average over all directions, and of the numbers of a window
        needed = needed.isel(point=0)
    if place:
        needed = take_slice(needed, place)
    size = abs(add_windows(needed, merge=merge)[name])
    if size.ndim:
        needed = needed.isel({dim: int(index) for dim, index in size.fillna(-1.0).argmax(...).items()})
    n = needed.sizes[STEP]
    counts = np.unique(np.linspace(min(merge, n), n, min(n, MOST_POINTS)).round().astype(int))
    found = [add_windows(needed.isel({STEP: slice(count)}), merge=merge) for count in counts]
    return xr.concat(
        [each[[name, name + ERROR]] for each in found], STEP, coords="different", compat="equals"
    ).assign_attrs(data.attrs)


def windows_between_outputs(data: xr.Dataset) -> xr.Dataset:
    """Turn outputs of instantaneous profiles, such as spectra, into the windows between them.

    The average over a window is the mean of the outputs at its two ends, so that adding up windows is the trapezoidal
    rule over time.

    Parameters
    ----------
    data : xarray.Dataset
        Outputs at increasing times, such as the data set of output.spectra or of a part of the fields. Averages over
        time among them, mean_NAME, are left out. All is read into memory.

    Returns
    -------
    xarray.Dataset
        One step fewer, as `add_windows` takes it.

    Raises
    ------
    ConfigError
        If there are fewer than two outputs.

    Examples
    --------
    >>> import xarray as xr
    >>> from ridgeline.analysis import add_windows, windows_between_outputs
    >>> coords = {"step": [0, 1, 3], "time": ("step", [0.0, 1.0, 4.0])}
    >>> data = xr.Dataset({"energy": ("step", [1.0, 3.0, 5.0])}, coords)
    >>> float(add_windows(windows_between_outputs(data)).energy)  # (1 x 2 + 3 x 4) / 4
    3.5
    """
    if data.sizes.get(STEP, 0) < 2:
        raise ConfigError("there are fewer than two outputs, so there is no window between outputs.")
    numbers = {
        str(name): values.load()
        for name, values in data.data_vars.items()
        if STEP in values.dims and not str(name).startswith("mean_") and name != "averaged_time"
    }
    before, after = slice(None, -1), slice(1, None)
    ends = data.isel({STEP: after})
    averages = {
        name: (values.isel({STEP: before}).drop_vars(STEP) + values.isel({STEP: after}).drop_vars(STEP)) / 2
        for name, values in numbers.items()
    }
    lengths = np.diff(np.asarray(data.time.values, np.float64))
    windows = {name: (values.dims, values.values, numbers[name].attrs) for name, values in averages.items()}
    counts = {TIME: (STEP, lengths), SAMPLES: (STEP, np.ones(len(lengths)))}
    return xr.Dataset({**windows, **counts}, ends.coords, {**data.attrs, BETWEEN: 1})


def averages_of(data: xr.Dataset) -> list[str]:
    """Return the names of the averages among the variables."""
    others = {TIME, SAMPLES, WINDOWS, *PLACES}
    return [str(name) for name in data.data_vars if name not in others and not str(name).endswith(ERROR)]


def factors_of(name: str) -> tuple[str, ...]:
    """Return the names of the means on which the value of a moment of deviations depends; none for other averages.

    For the terms of budgets they are the mean pressure and the gradients of mean velocity.
    """
    if re.fullmatch("[uvwp]{2,3}", name):
        return tuple(OF_LETTERS[letter] for letter in name)
    if scalars := re.fullmatch(r"([uvw]|scalar_\d+)_(scalar_\d+)", name):
        return OF_LETTERS.get(scalars[1], scalars[1]), scalars[2]
    if strain := re.fullmatch("pressure_strain_([xyz])([xyz])", name):
        return "pressure", _gradient(strain[1], strain[2]), _gradient(strain[2], strain[1])
    if loss := re.fullmatch("dissipation_([xyz])([xyz])", name):
        return tuple(_gradient(of, axis) for of in loss.groups() for axis in PLACES)
    return ()


def _gradient(of: str, along: str) -> str:
    return f"mean_gradient_{of}{along}"


def _shift(name: str, off: Sequence[Reals], values: Mapping[str, Reals], viscosity: float) -> Reals:
    """Return what is added to a moment of a window, so that it is about other means.

    off: means of the window less the other means, in the order of `factors_of`; values: all averages of the window.
    """
    if name.startswith("pressure_strain"):
        return np.asarray(off[0] * (off[1] + off[2]) / 2)
    if name.startswith("dissipation"):
        return np.asarray(2.0 * viscosity * sum(a * b for a, b in zip(off[:3], off[3:])))
    if len(off) == 2:
        return off[0] * off[1]
    pairs = zip(off, (name[1] + name[2], name[0] + name[2], name[0] + name[1]))
    return np.asarray(off[0] * off[1] * off[2] + sum(a * values[pair] for a, pair in pairs))


@dataclass(frozen=True)
class _Averages:
    """Averages over a window or several: their length, number of samples, values, and standard errors by name."""

    seconds: float
    samples: float
    values: Mapping[str, Reals]
    errors: Mapping[str, Reals] = field(default_factory=dict)


def _windows_of(files: Sequence[xr.Dataset], merge: int) -> Iterator[tuple[_Averages, bool]]:
    """Read windows one after the other, as many at once as fit into a slab; with each, whether it ends a batch."""
    for file in files:
        n = file.sizes[STEP]
        names = [*averages_of(file), *(name for name in PLACES if name in file.data_vars), TIME, SAMPLES]
        at_once = max(1, SLAB_BYTES * n // sum(file[name].nbytes for name in names))
        for first in range(0, n, at_once):
            part = file.isel({STEP: slice(first, first + at_once)})
            read = {name: np.asarray(part[name].transpose(STEP, ...).values, np.float64) for name in names}
            seconds, samples = (read.pop(name).reshape(len(part[STEP])) for name in (TIME, SAMPLES))
            for i in range(len(seconds)):
                k, values = first + i, {name: array[i] for name, array in read.items()}
                yield (
                    _Averages(float(seconds[i]), float(samples[i]), values),
                    (k + 1) % merge == 0 or k == n - 1,
                )


def _combined(files: Sequence[xr.Dataset], merge: int) -> _Averages:
    """Return the averages over windows, with the standard errors that follow from the scatter of their batches.

    First the means are added up, then the moments about them.
    """
    moments = {}
    all_means = BETWEEN in files[0].attrs or IN_HEIGHT in files[0]
    if not all_means and sum(file.sizes[STEP] for file in files) > 1:
        moments = {name: factors for name in averages_of(files[0]) if (factors := factors_of(name))}
    _refuse_lacking(moments, files[0])
    viscosity = float(files[0].attrs.get("model.viscosity", 0.0))
    means: dict[str, Reals] = {}
    seconds = samples = 0.0
    n = 0  # batches
    for now, ends in _windows_of(files, merge):
        seconds, samples, n = seconds + now.seconds, samples + now.samples, n + ends
        for name in {factor for factors in moments.values() for factor in factors}:
            means[name] = _updated(means.get(name, 0.0), now.values[name], now.seconds / seconds)
    done = length = 0.0
    values: dict[str, Reals] = {}
    scatter: dict[str, Reals] = {}
    batch: dict[str, Reals] = {}
    for now, ends in _windows_of(files, merge):
        length += now.seconds
        for name, x in now.values.items():
            off = [now.values[factor] - means[factor] for factor in moments.get(name, ())]
            about = x + _shift(name, off, now.values, viscosity) if off else x
            batch[name] = _updated(batch.get(name, 0.0), about, now.seconds / length)
        if not ends:
            continue
        done += length
        for name, x in batch.items():
            before = values.get(name, 0.0)
            values[name] = _updated(before, x, length / done)
            scatter[name] = scatter.get(name, 0.0) + length * (x - before) * (x - values[name])
        length, batch = 0.0, {}
    spare = (n - 1) * seconds or np.nan
    return _Averages(
        seconds, samples, values, {name: np.sqrt(each / spare) for name, each in scatter.items()}
    )


def _updated(mean: Reals | float, value: Reals, weight: float) -> Reals:
    """Return a mean to which a value is added that has a share of the weights so far."""
    return np.asarray(mean + weight * (value - mean))


def _as_dataset(total: _Averages, last: xr.Dataset, windows: int) -> xr.Dataset:
    """Return averages as a data set. last: the data set of the last window."""
    end = last.isel({STEP: -1})
    variables: dict[str, Any] = {}
    for name, values in total.values.items():
        like = end[name]
        variables[name] = (like.dims, values, like.attrs)
        if name not in PLACES:
            own = {"units": like.attrs.get("units", "1"), "long_name": f"standard error of {name}"}
            variables[name + ERROR] = (like.dims, total.errors[name], own)
    for name, number, unit, words in (
        (TIME, total.seconds, "1", "model time over which the averages extend"),
        (SAMPLES, total.samples, "1", "samples in the averages"),
        (WINDOWS, windows, "1", "windows in the averages"),
    ):
        variables[name] = ((), number, {"units": unit, "long_name": words})
    return xr.Dataset(variables, end.coords, last.attrs)


def _within(file: xr.Dataset, begin: float | None, end: float | None) -> xr.Dataset:
    """Return the windows of a data set that have samples and lie between two times."""
    _refuse_no_windows(file)
    first, last = _spans(file)
    inside = first < last
    if begin is not None:
        inside &= first >= begin - TOLERANCE * abs(begin)
    if end is not None:
        inside &= last <= end + TOLERANCE * abs(end)
    return file.isel({STEP: np.flatnonzero(inside)})


def _spans(file: xr.Dataset) -> tuple[Reals, Reals]:
    """Return the times at which the windows of a data set begin and end."""
    ends = np.asarray(file["time"].values, np.float64)
    return ends - file[TIME].values.reshape(len(ends)), ends


def _refuse_no_windows(data: xr.Dataset) -> None:
    if not has_windows(data):
        raise ConfigError(
            f"the data set has no windows, because it has no {TIME}. Name the data set of output.statistics, or form "
            "windows with windows_between_outputs."
        )


def _refuse_lacking(moments: Mapping[str, Sequence[str]], data: xr.Dataset) -> None:
    for name, factors in moments.items():
        pairs = ["".join(pair) for pair in combinations(name, 2)] if len(name) == 3 else []
        for needed in (*factors, *pairs):
            if needed not in data:
                raise ConfigError(
                    f"the windows have no {needed}, without which {name} cannot be added up. Windows of newer "
                    f'versions of Ridgeline have it. Otherwise leave {name} out, by data.drop_vars("{name}").'
                )


def _refuse_others(files: Sequence[xr.Dataset]) -> None:
    """Raise ConfigError if data sets do not belong together, or hold the same time of the same run."""
    first = files[0]
    shapes = _shapes(first)
    for number, other in enumerate(files[1:], 2):
        if _shapes(other).keys() != shapes.keys():
            raise ConfigError(
                f"the windows of data set {number} have other averages than those of the first."
            )
        places = [name for name in PLACES if name in first.coords]
        if _shapes(other) != shapes or not all(np.allclose(first[name], other[name]) for name in places):
            raise ConfigError(
                f"the windows of data set {number} are on another mesh than those of the first."
            )
        here, there = (float(each.attrs.get("model.viscosity", 0.0)) for each in (first, other))
        if here != there:
            raise ConfigError(
                f"the viscosity of data set {number} is {there:g}, but that of the first is {here:g}."
            )
    for (i, one), (j, two) in combinations(enumerate(files, 1), 2):
        if _flow(one) == _flow(two):
            _refuse_overlap(i, one, j, two)


def _shapes(file: xr.Dataset) -> dict[str, tuple[int, ...]]:
    """Return the shapes of averages in one window."""
    return {name: file[name].isel({STEP: 0}).shape for name in averages_of(file)}


def _flow(file: xr.Dataset) -> dict[str, str]:
    """Return the settings that determine a flow. The same settings give the same flow."""
    flow = ("run.seed", "run.precision", "grid.", "model.", "initial.", "boundary.", "scalar.")
    return {str(key): repr(value) for key, value in file.attrs.items() if str(key).startswith(flow)}


def _refuse_overlap(i: int, one: xr.Dataset, j: int, two: xr.Dataset) -> None:
    begins, ends = _spans(one)
    for begin, end in zip(*_spans(two)):
        common = np.minimum(ends, end) - np.maximum(begins, begin)
        k = int(common.argmax())
        if common[k] > TOLERANCE * abs(end):
            raise ConfigError(
                f"the windows from {begins[k]:g} to {ends[k]:g} of data set {i} and from {begin:g} to {end:g} of "
                f"data set {j} are of the same flow and overlap. Give each file once, or leave out the last window "
                "of a run that was continued, as by data.isel(step=slice(-1))."
            )
