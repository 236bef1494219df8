"""Exports as NetCDF 4 and as Zarr 3, which xarray opens alone: all variables, with CF's names and units.

Values pass in pieces from the data set to the new file, whose chunks are a step of a variable, or a part of one. The
attributes follow the CF conventions 1.11: `units` that UDUNITS knows, `long_name`, `axis` of x, y, z, and
`coordinates` that lead to the times and to the places of points. Units that UDUNITS does not know, such as sigma or
Mpc/h, are moved to the end of `long_name`, and `units` is 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.io.export.source import STEP, ExportSource, boxes
from ridgeline.io.output_files import GENERATOR
from ridgeline.io.vtk_format import AXES
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.extras import import_extra
from ridgeline.version import VERSION

CONVENTIONS = "CF-1.11"
# The units of data sets that UDUNITS reads, and that mean the same there.
UDUNITS = ("1", "m", "s", "kg", "K", "m/s", "km/s", "m s-1", "km s-1", "Pa", "J", "W")

# Takes the position in a variable, (step, ...), and the values there.
Put = Callable[[tuple[Any, ...], NDArray[Any]], None]
# Takes name, dims, dtype, shape, attributes and the shape of a chunk.
Create = Callable[
    [str, tuple[str, ...], np.dtype[Any], tuple[int, ...], dict[str, Any], tuple[int, ...]], Put
]


def write_netcdf(source: ExportSource, path: Path) -> None:
    """Write a NetCDF 4 file."""
    h5netcdf = import_extra("h5netcdf", "An export as NetCDF")
    with h5netcdf.File(path, "w") as file:
        file.dimensions = _sizes(source)

        def create(
            name: str,
            dims: tuple[str, ...],
            dtype: np.dtype[Any],
            shape: tuple[int, ...],
            attributes: dict[str, Any],
            chunk: tuple[int, ...],
        ) -> Put:
            if dtype.kind == "c":
                raise OutputError(
                    f"the variable {name} is {dtype}, which NetCDF does not have. Leave it out."
                )
            stored = np.dtype(np.float32) if dtype == np.float16 else dtype
            variable = file.create_variable(
                name,
                dims,
                stored,
                chunks=chunk if chunk and 0 not in chunk else None,
            )
            variable.attrs.update(attributes)

            def put(where: tuple[Any, ...], values: NDArray[Any]) -> None:
                variable[where] = values

            return put

        _copy(source, create)
        file.attrs.update(_global_attributes(source))


def write_zarr(source: ExportSource, path: Path) -> None:
    """Write a Zarr 3 group with consolidated metadata."""
    import zarr

    group = zarr.create_group(path, zarr_format=3)

    def create(
        name: str,
        dims: tuple[str, ...],
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        attributes: dict[str, Any],
        chunk: tuple[int, ...],
    ) -> Put:
        array = group.create_array(
            name,
            shape=shape,
            dtype=dtype,
            chunks=chunk or (),
            dimension_names=dims,
            attributes=_plain(attributes),
        )

        def put(where: tuple[Any, ...], values: NDArray[Any]) -> None:
            array[where] = values

        return put

    _copy(source, create)
    group.attrs.update(_plain(_global_attributes(source)))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Zarr 3 has no specification of consolidated metadata, which xarray reads
        zarr.consolidate_metadata(path)


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without NumPy's types, as JSON needs them."""
    return {
        key: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for key, value in attributes.items()
    }


def _sizes(source: ExportSource) -> dict[str, int]:
    sizes = {str(dim): int(n) for dim, n in source.dataset.sizes.items()}
    return sizes | ({source.row_axis: len(source.rows)} if source.rows is not None else {})


def _copy(source: ExportSource, create: Create) -> None:
    """Create each variable of the source, and put its values in pieces."""
    for key, variable in source.dataset.variables.items():
        name, dims = str(key), tuple(map(str, variable.dims))
        attributes = _attributes(source, name, variable)
        inner = source.shape(name)
        over_steps = STEP in dims
        shape = (source.n_steps, *inner) if over_steps else inner
        if variable.dtype == object:  # the names of axes, which have no type that both formats have
            attributes["values"] = ", ".join(map(str, variable.values))
            put = create(name, dims, np.dtype(np.int8), shape, attributes, shape)
            put((slice(None),), np.arange(shape[0], dtype=np.int8))
            continue
        first = next(boxes(inner, variable.dtype.itemsize, source.row_axis in dims), ())
        chunk = tuple(part.stop - part.start for part in first)
        put = create(
            name,
            dims,
            variable.dtype,
            shape,
            attributes,
            (1, *chunk) if over_steps and inner else chunk or shape,
        )
        if over_steps and not inner:
            put((slice(None),), np.asarray(variable.values))
            continue
        for step in range(source.n_steps if over_steps else 1):
            for box, values in source.pieces([name], step):
                put((step, *box) if over_steps else box, values[name])


def _attributes(source: ExportSource, name: str, variable: xr.Variable) -> dict[str, Any]:
    """Return the attributes of a variable as CF has them."""
    attributes = {str(key): value for key, value in variable.attrs.items()}
    unit = str(attributes.get("units", "1"))
    if unit not in UDUNITS:
        attributes["long_name"] = f"{attributes.get('long_name', name)}, in {unit}"
        unit = "1"
    if variable.dtype != object:
        attributes["units"] = unit
    attributes.setdefault("long_name", name.replace("_", " "))
    dims = set(map(str, variable.dims))
    if name in AXES and variable.dims == (name,):
        attributes["axis"] = name.upper()
    beside = [
        str(other)
        for other, coordinate in source.dataset.coords.items()
        if coordinate.dims != (other,) and other != name and dims >= set(map(str, coordinate.dims))
    ]
    if beside and name not in source.dataset.coords:
        attributes["coordinates"] = " ".join(beside)
    return attributes


def _global_attributes(source: ExportSource) -> Mapping[str, Any]:
    written = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "Conventions": CONVENTIONS,
        "source": f"Ridgeline {VERSION}",
        "history": f"{written}: ridgeline export",
        "generator": GENERATOR,
    } | {str(key): value for key, value in source.dataset.attrs.items()}
