"""Data sets as xarray Datasets whose arrays are read only where they are indexed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from ridgeline.io import bp_files
from ridgeline.io.bp_reader import BPReader, Selection, StoredArray
from ridgeline.io.series import FIRST, read_series

AXES = ("z", "y", "x")


def open(path: str | os.PathLike[str], steps: int | None = None) -> xr.Dataset:
    """Open the data set of a run, lazily; or a time series (a .csv file), with the dim step.

    Dims: step, z, y, x. Coordinates: `step` (numbers of the time steps), `time` (step), and z, y, x: places of
    the values, which are cell indices unless the run set a spacing. Spectra have axes of their own, such as
    wavenumber. Vectors of particles have the dim axis, with the coordinates x, y, z. Fields on spectral
    elements have dims element, t, s, r, and the places of their points are the coordinates x, y, z. Attributes as
    written. Only what is indexed is read: `ds.U.isel(step=-1, z=64)` reads one plane.
    A data set that a run is still writing shows the output steps that were whole when it was opened.

    steps: open the first so many output steps alone, such as those before a damage.

    The metadata are compared with their checksums, the values are not: `ridgeline check` does that. A data set
    without checksums, of another program or an older Ridgeline, is read as it is, in a child process.

    Raises OutputError if `path` is neither a BP5 data set nor a time series, holds no whole step, or is damaged.
    Values that are not in the files raise it when they are read.
    """
    if Path(path).suffix == ".csv":
        return _series(Path(path)).isel(step=slice(steps))
    reader = BPReader(Path(path), steps)
    attributes = {name: dict(reader.array_attributes.get(name, {})) for name in reader.arrays}
    named = {name: tuple(np.atleast_1d(own.pop("dims"))) for name, own in attributes.items() if "dims" in own}
    once = {name: bool(own.pop("once", False)) for name, own in attributes.items()}
    unnamed = (array for array in reader.arrays.values() if array.name not in named)
    image = next((array for array in unnamed if len(array.shape) == 3), None)
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {"step": ("step", reader.scalars.pop("step", np.arange(reader.steps)))}
    for array in reader.arrays.values():
        dims = named.get(array.name) or _dims(array, image)
        data = indexing.LazilyIndexedArray(_Array(reader, array))
        variable = xr.Variable(("step", *dims), data, attributes[array.name])
        if dims == (array.name,):  # the places along an axis, the same at every step
            coords[array.name] = variable.isel(step=0).load()
        elif once[array.name]:
            coords[array.name] = variable.isel(step=0)
        else:
            variables[array.name] = variable
    for name, values in reader.scalars.items():
        if name == "time":
            coords[name] = ("step", values, {"long_name": reader.attributes.get("time_name", "time")})
        else:
            variables[name] = ("step", values)
    if any("axis" in dims for dims in named.values()):  # of vectors, such as the places of particles
        coords["axis"] = ["x", "y", "z"]
    if image is not None:
        coords |= _places(image.shape, reader.attributes)
    dataset = xr.Dataset(variables, coords, reader.attributes)
    dataset.encoding["source"] = str(path)
    dataset.set_close(reader.close)
    return dataset


def in_memory(arrays: Mapping[str, tuple[Sequence[str], NDArray[Any], str, str]]) -> xr.Dataset:
    """Return arrays as `open` would, once they are written: name to (dims, values, unit, description). Copies."""
    return xr.Dataset(
        {
            name: (dims, values.copy(), {"units": unit, "long_name": description})
            for name, (dims, values, unit, description) in arrays.items()
        }
    )


def _series(path: Path) -> xr.Dataset:
    """Read a time series: a variable for each column."""
    columns = {name: ("step", values) for name, values in read_series(path).items()}
    coords = {name: columns.pop(name) for name in FIRST}
    return xr.Dataset(columns, coords)


def _dims(array: StoredArray, image: StoredArray | None) -> tuple[str, ...]:
    if image is not None and array.shape == image.shape:
        return AXES
    return tuple(f"{array.name}_{axis}" for axis in range(len(array.shape)))


def _places(shape: Sequence[int], attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the coordinates of a uniform grid; integers where they are the cells' indices."""
    origin, spacing = (
        np.asarray(attributes.get(f"Fides_{key}", default), float)[::-1]
        for key, default in (("Origin", (0, 0, 0)), ("Spacing", (1, 1, 1)))
    )
    places = {}
    for axis, n, o, h in zip(AXES, shape, origin, spacing):
        index = np.arange(n)
        places[axis] = (axis, index if (o, h) == (0, 1) else o + h * index)
    return places


class _Array(BackendArray):
    """One array over all steps, (step, ...), as xarray indexes it."""

    def __init__(self, reader: BPReader, stored: StoredArray) -> None:
        self.shape = (reader.steps, *stored.shape)
        self.dtype = stored.dtype
        self._reader = reader
        self._name = stored.name

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> NDArray[Any]:
        """Read an outer selection: an int, a slice or a 1-D array of indices for each axis.

        Steps and planes of the first axis are read one by one (neighbouring planes together). Of the other axes the
        range from the first to the last index is read.
        """
        wanted = [np.arange(n)[k] for n, k in zip(self.shape, key)]
        steps, *axes = (np.atleast_1d(w) for w in wanted)
        ranges = [(int(a.min()), int(a.max()) + 1) if a.size else (0, 0) for a in axes]
        planes = np.unique(axes[0])
        box = np.empty((len(steps), len(planes), *(end - start for start, end in ranges[1:])), self.dtype)
        if box.size:
            self._reader.read(self._name, self._pieces(steps, planes, ranges, box))
        inside = [np.searchsorted(planes, axes[0])]
        inside += [a - start for a, (start, _) in zip(axes[1:], ranges[1:])]
        picked = box[np.ix_(np.arange(len(steps)), *inside)]
        return picked.reshape([w.size for w in wanted if w.ndim])

    def _pieces(
        self, steps: NDArray[Any], planes: NDArray[Any], ranges: list[tuple[int, int]], box: NDArray[Any]
    ) -> Iterable[Selection]:
        runs = np.split(np.arange(len(planes)), np.flatnonzero(np.diff(planes) > 1) + 1)
        rest = tuple(start for start, _ in ranges[1:])
        for i, step in enumerate(steps):
            for run in runs:
                yield Selection(int(step), (int(planes[run[0]]), *rest), box[i, run[0] : run[-1] + 1])


class RidgelineBackend(BackendEntrypoint):
    """`xarray.open_dataset(path, engine="ridgeline")`."""

    description = "Data sets written by Ridgeline (ADIOS2 BP5)"
    open_dataset_parameters = ("filename_or_obj", "drop_variables")

    def open_dataset(  # type: ignore[override]
        self, filename_or_obj: str | os.PathLike[str], *, drop_variables: str | Iterable[str] | None = None
    ) -> xr.Dataset:
        """Open a data set as `open` does."""
        dropped = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
        return open(filename_or_obj).drop_vars(dropped, errors="ignore")

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Say whether it is a folder of BP files."""
        return isinstance(filename_or_obj, (str, os.PathLike)) and bp_files.is_data_set(Path(filename_or_obj))
