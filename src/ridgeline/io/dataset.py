"""Opening data sets as xarray Datasets, whose arrays are read lazily: only what is indexed is read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from ridgeline.io import bp_files
from ridgeline.io.bp_attributes import COORDINATES, image_coordinates
from ridgeline.io.bp_blocks import slabs
from ridgeline.io.nek5000_read import is_nek5000, open_nek5000
from ridgeline.io.open_store import is_zarr, open_reader
from ridgeline.io.series import FIRST, read_series
from ridgeline.io.store import (
    AXES,
    IDENTITY,
    PARTICLE,
    DataSetReader,
    Selection,
    StoredArray,
    dimension_names,
)
from ridgeline.io.zarr_files import is_own_zarr
from ridgeline.runtime.extras import require_extra


def open(
    path: str | os.PathLike[str],
    steps: int | None = None,
    chunks: Mapping[str, int] | None = None,
) -> xr.Dataset:
    """Open the data set of a run lazily, or a time series (a .csv file), or Nek5000 files (.f00001, .nek5000).

    Parameters
    ----------
    path : path
        The data set. One that a run is still writing shows the output steps that were complete when it was opened.
    steps : int, optional
        Open only the first so many output steps, for example those before a damage.
    chunks : mapping of str to int, optional
        Make Dask arrays, which compute piece by piece, with this many values of a dimension in a piece: {"step": 1}.
        Dimensions that are left out are cut so that a piece has at most 64 MiB. It needs the package dask.

    Returns
    -------
    xarray.Dataset
        Dimensions step, z, y, x. Coordinates `step` (numbers of the time steps), `time` (step), and z, y, x:
        positions of the values, which are cell indices unless the run set a spacing. Spectra have axes of their own,
        such as wavenumber. Vectors of particles have the dimension axis with the coordinates x, y, z. Fields on
        spectral elements have the dimensions element, t, s, r, and the positions of their points are the coordinates
        x, y, z. Variables and coordinates have CF's attributes `units` and `long_name`. Attributes are as written,
        except that lists of text are joined by commas, which NetCDF and Zarr can store.

    Raises
    ------
    OutputError
        If `path` is none of these, has no complete step, or is damaged. Values that are missing in the files raise it
        when they are read.
    ConfigError
        If chunks are given and dask is not installed.

    Notes
    -----
    Local: a program with several ranks opens the data set on each rank that reads.

    Only what is indexed is read: `ds.U.isel(step=-1, z=64)` reads one plane. The metadata are compared with their
    checksums, the values are not; `ridgeline check` compares them. A data set without checksums, of another program
    or an older Ridgeline, is read in a child process. An array or number of such a data set with the name of a
    coordinate (x, y, z, step) becomes this coordinate if it fits; otherwise it gets another name, with a warning.

    Examples
    --------
    >>> import ridgeline
    >>> output = {"path": "spots.bp", "every": 2, "initial": True}
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (4, 6, 8)}, output=output)
    >>> report = ridgeline.Simulation(case, progress=False).run()
    >>> data = ridgeline.open("spots.bp")
    >>> data.U.dims, data.U.shape
    (('step', 'z', 'y', 'x'), (3, 4, 6, 8))
    >>> data.U.sel(step=2).isel(z=3).values.shape  # reads one plane
    (6, 8)
    """
    dataset = _open_whole(Path(path), steps)
    if chunks is None:
        return dataset
    require_extra("dask", "ridgeline.open with chunks", "leave out chunks")
    sizes = {
        dim: size
        for variable in dataset.variables.values()
        for dim, size in variable.encoding.get("preferred_chunks", {}).items()
    }
    return dataset.chunk({**sizes, **chunks})


def _open_whole(path: Path, steps: int | None) -> xr.Dataset:
    """Open what `open` opens, without Dask."""
    if path.suffix == ".csv":
        return _series(path).isel(step=slice(steps))
    if is_nek5000(path):
        return _prefer_chunks(open_nek5000(path).isel(step=slice(steps)))
    reader = open_reader(path, steps)
    own = {
        name: _storable(reader.array_attributes.get(name, {})) for name in (*reader.arrays, *reader.scalars)
    }
    named = {
        name: tuple(map(str, np.atleast_1d(attributes["dims"])))
        for name, attributes in reader.array_attributes.items()
        if "dims" in attributes
    }
    once = {name for name, attributes in own.items() if attributes.pop("once", False)}
    for attributes in own.values():
        attributes.pop("dims", None)
    arrays = {
        array.name: (array, indexing.LazilyIndexedArray(_Array(reader, array)))
        for array in reader.arrays.values()
    }
    scalars = dict(reader.scalars)
    for name in {"step", "time"} & set(arrays):
        array, data = arrays[name]
        if (
            array.shape == (1,) and name not in named
        ):  # other programs write a number as an array of one value
            scalars[name] = xr.Variable(("step", "value"), data).values[:, 0]
            del arrays[name]
    dims = dimension_names({name: array.shape for name, (array, _) in arrays.items()}, named)
    coords: dict[str, Any] = {}
    image = next((array.shape for array, _ in arrays.values() if dims[array.name] == AXES), None)
    if image is not None:
        coords = {axis: (axis, *about) for axis, about in image_coordinates(image, reader.attributes).items()}
    if any("axis" in axes for axes in dims.values()):  # vectors, such as positions of particles
        # As objects, because Zarr has no stable format for text of fixed length.
        coords["axis"] = ("axis", np.array(["x", "y", "z"], object), {"long_name": "component"})
    steps_written = scalars.pop("step", np.arange(reader.steps))
    coords["step"] = ("step", steps_written, {**COORDINATES["step"], **own.get("step", {})})
    if "time" in scalars:
        coords["time"] = ("step", scalars.pop("time"), own.get("time", {}))
    variables: dict[str, Any] = {}
    for name, (_, data) in arrays.items():
        variable = xr.Variable(("step", *dims[name]), data, own[name])
        if name == PARTICLE and dims[name] == (name,) and own[name].get("long_name") == IDENTITY:
            # All identities, in their order: 0, 1, ... need not be read, nor memory to count them.
            coords[name] = (name, pd.RangeIndex(variable.sizes[name]), own[name])
        elif dims[name] == (name,) and (name in named or _is_constant(variable)):
            coords[name] = variable.isel(step=0).load()  # positions along an axis, the same at every step
        elif name in once:
            coords[name] = variable.isel(step=0)
        else:
            variables[_free_name(path, name, coords)] = variable
    for name, values in scalars.items():
        variables[_free_name(path, name, coords)] = ("step", values, own[name])
    dataset = xr.Dataset(variables, coords, _storable(reader.attributes))
    dataset.encoding["source"] = str(path)
    dataset.set_close(reader.close)
    return _prefer_chunks(dataset)


def _storable(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with lists of text joined, so that every format of xarray can store them."""
    return {key: ", ".join(value) if isinstance(value, list) else value for key, value in attributes.items()}


def _is_constant(variable: xr.Variable) -> bool:
    """Whether the values along an axis are the same at every step."""
    values = variable.values
    return bool(
        np.array_equal(values, np.broadcast_to(values[0], values.shape), equal_nan=values.dtype.kind in "fc")
    )


def _free_name(path: Path, name: str, coords: Mapping[str, Any]) -> str:
    """Return the name of a variable, or another one if a coordinate has this name."""
    if name not in coords:
        return name
    other = f"{name}_values"
    warnings.warn(
        f"{path}: the variable {name} is opened as {other}, because a coordinate has the name {name}.",
        stacklevel=3,
    )
    return other


def _prefer_chunks(dataset: xr.Dataset) -> xr.Dataset:
    """Set the preferred chunks in the encodings: a step, or as many of its planes as fit into a slab.

    `xarray.open_dataset(..., chunks={})` uses them. An axis has equal chunks in all variables, as xarray requires.
    """
    sizes = {**dataset.sizes, "step": 1}
    for variable in dataset.variables.values():
        inner = [dim for dim in variable.dims if dim != "step"]
        shape = tuple(dataset.sizes[dim] for dim in inner)
        for _, planes in islice(slabs(shape, variable.dtype.itemsize), 1) if inner else ():
            sizes[inner[0]] = min(sizes[inner[0]], planes)
    for variable in dataset.variables.values():
        variable.encoding["preferred_chunks"] = {dim: sizes[dim] for dim in variable.dims}
    return dataset


def to_dataset(arrays: Mapping[str, tuple[Sequence[str], NDArray[Any], str, str]]) -> xr.Dataset:
    """Return copies of arrays as `open` would return them. arrays: name to (dims, values, unit, description)."""
    return xr.Dataset(
        {
            name: (dims, values.copy(), {"units": unit, "long_name": description or name.replace("_", " ")})
            for name, (dims, values, unit, description) in arrays.items()
        }
    )


def _series(path: Path) -> xr.Dataset:
    """Read a time series: a variable for each column."""
    columns = {name: ("step", values) for name, values in read_series(path).items()}
    coords = {name: (*columns.pop(name), COORDINATES[name]) for name in FIRST}
    return xr.Dataset(columns, coords)


Range = tuple[int, int]  # the first place, and the one after the last


class _Array(BackendArray):
    """One array over all steps, (step, ...), as xarray indexes it."""

    def __init__(self, reader: DataSetReader, stored: StoredArray) -> None:
        self.shape = (reader.steps, *stored.shape)
        self.dtype = stored.dtype
        self._reader = reader
        self._name = stored.name

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> NDArray[Any]:
        """Read an outer selection: an int, a slice or a 1-D array of indices for each axis.

        Steps are read one by one, as are planes of the first axis unless they are neighbours. Along the other axes
        the range from the first to the last index is read. Memory is that of what is read: an axis may have 10^9
        particles.
        """
        n_steps, n_planes, *sizes = self.shape
        steps = np.atleast_1d(np.arange(n_steps)[key[0]])
        runs, pick = _runs(key[1], n_planes)
        ranges, picks = zip(*map(_range, key[2:], sizes)) if sizes else ((), ())
        planes = sum(end - first for first, end in runs)
        box = np.empty((len(steps), planes, *(end - first for first, end in ranges)), self.dtype)
        if box.size:
            self._reader.read(self._name, self._pieces(steps, runs, ranges, box))
        return _picked(
            box, (0 if np.ndim(key[0]) == 0 and not isinstance(key[0], slice) else slice(None), pick, *picks)
        )

    def _pieces(
        self, steps: NDArray[Any], runs: Sequence[Range], ranges: Sequence[Range], box: NDArray[Any]
    ) -> Iterable[Selection]:
        rest = tuple(first for first, _ in ranges)
        for i, step in enumerate(steps):
            place = 0
            for first, end in runs:
                yield Selection(int(step), (first, *rest), box[i, place : place + end - first])
                place += end - first


def _range(key: Any, n: int) -> tuple[Range, Any]:
    """Return the range of n places that an index along an axis reaches, and the index of the same places in it."""
    if isinstance(key, slice):
        chosen = range(n)[key]
        if not chosen:
            return (0, 0), slice(None)
        first, last = sorted((chosen[0], chosen[-1]))
        return (first, last + 1), slice(None, None, chosen.step)
    if np.ndim(key) == 0:
        place = range(n)[int(key)]
        return (place, place + 1), 0
    places = np.where(key < 0, key + n, key)
    if not places.size:
        return (0, 0), places
    first = int(places.min())
    return (first, int(places.max()) + 1), places - first


def _runs(key: Any, n: int) -> tuple[list[Range], Any]:
    """Return the ranges of neighbours among the places of an index, and the index of the same places in them."""
    (first, end), pick = _range(key, n)
    if isinstance(pick, slice):
        stride = abs(pick.step or 1)
        if stride == 1:
            return [(first, end)], pick
        return [(place, place + 1) for place in range(first, end, stride)], slice(
            None, None, pick.step // stride
        )
    if np.ndim(pick) == 0:
        return [(first, end)], pick
    planes, inverse = np.unique(pick, return_inverse=True)
    neighbours = np.split(planes + first, np.flatnonzero(np.diff(planes) > 1) + 1) if planes.size else []
    return [(int(run[0]), int(run[-1]) + 1) for run in neighbours], inverse


def _picked(box: NDArray[Any], picks: Sequence[Any]) -> NDArray[Any]:
    """Return what one index for each axis selects, each on its own."""
    for axis, pick in enumerate(picks):
        if isinstance(pick, np.ndarray):
            box = box.take(pick, axis=axis)
    return box[tuple(slice(None) if isinstance(pick, np.ndarray) else pick for pick in picks)]


class RidgelineBackend(BackendEntrypoint):
    """`xarray.open_dataset(path, engine="ridgeline")`."""

    description = "Data sets written by Ridgeline (ADIOS2 BP5 or Zarr)"
    open_dataset_parameters = ("filename_or_obj", "drop_variables")

    def open_dataset(  # type: ignore[override]
        self, filename_or_obj: str | os.PathLike[str], *, drop_variables: str | Iterable[str] | None = None
    ) -> xr.Dataset:
        """Open a data set as `open` does."""
        dropped = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
        return open(filename_or_obj).drop_vars(dropped, errors="ignore")

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether it is a folder of BP files, or a Zarr data set with checksums of Ridgeline."""
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        path = Path(filename_or_obj)
        return bp_files.is_data_set(path) or (is_zarr(path) and is_own_zarr(path))
