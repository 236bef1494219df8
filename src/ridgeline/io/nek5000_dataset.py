"""Nek5000 field files as data sets: `ridgeline.open("duct0.f00003")`, or "duct.nek5000" for all files of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from ridgeline.io.bp_attributes import COORDINATES
from ridgeline.io.nek5000_format import HEADER_BYTES, Header, decode_header
from ridgeline.io.nek5000_read import FieldFile, read_field_file
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors, require_regular

DIMS = ("element", "t", "s", "r")
_FIELD_FILE = re.compile(r"(.*0\.f)(\d{5})")
_NUMBERS = {name: re.compile(rf"{name}:\s*(\d+)") for name in ("firsttimestep", "numtimesteps")}


def is_nek5000(path: Path) -> bool:
    """Say whether a name is that of a field file, or of the file that lists them."""
    return path.suffix == ".nek5000" or _FIELD_FILE.fullmatch(path.name) is not None


def open_nek5000(path: Path) -> xr.Dataset:
    """Return the fields of one file as a step, or of all that a .nek5000 file lists; they are read when indexed.

    Dims, coordinates and names are those of fields on elements that `output.path` holds; elements in the order of
    their numbers. Raises OutputError for a file that cannot be read, or without its mesh.
    """
    paths = _listed(path) if path.suffix == ".nek5000" else [path]
    headers = [_header(file) for file in paths]
    shape = headers[0].n_elements, *(headers[0].n,) * 3
    for file, header in zip(paths, headers):
        if (header.n_elements, *(header.n,) * 3) != shape:
            raise OutputError(f"{file} has other elements than {paths[0]}; open the files one by one")
    places = _coordinates(paths[0])
    files = _Files(paths)
    common = set.intersection(*({section.tag for section in header.sections} for header in headers))
    variables: dict[str, Any] = {}
    for name in _names(common):
        array = _Field(files, name, (len(paths), *shape))
        attributes = {"units": "1", "long_name": name.replace("_", " ")}
        variables[name] = xr.Variable(("step", *DIMS), indexing.LazilyIndexedArray(array), attributes)
    coords: dict[str, Any] = {
        "step": ("step", [header.step for header in headers], COORDINATES["step"]),
        "time": ("step", [header.time for header in headers], COORDINATES["time"]),
    }
    for name, values in zip("xyz", places):
        coords[name] = (DIMS, values, {"units": "1", "long_name": f"place along {name}"})
    dataset = xr.Dataset(variables, coords)
    dataset.encoding["source"] = str(path)
    return dataset


def _listed(path: Path) -> list[Path]:
    """Return the field files that a .nek5000 file lists, which lie beside it."""
    with output_errors(f"read {path}"):
        require_regular(path)
        text = path.read_text(errors="replace")
    first, number = (int(found[1]) if (found := wanted.search(text)) else 1 for wanted in _NUMBERS.values())
    if not number:
        raise OutputError(f"{path} lists no field file yet; wait for the first")
    return [path.with_name(f"{path.stem}0.f{first + i:05d}") for i in range(number)]


def _header(path: Path) -> Header:
    with output_errors(f"read the Nek5000 field file {path}"):
        require_regular(path)
        with path.open("rb") as file:
            return decode_header(file.read(HEADER_BYTES), path)


def _coordinates(path: Path) -> NDArray[np.float64]:
    """Return the places of the points; where a file has none, those of the first file beside it."""
    coordinates = read_field_file(path).coordinates
    if coordinates is None:
        match = _FIELD_FILE.fullmatch(path.name)
        first = path.with_name(f"{match[1]}00001") if match else path
        coordinates = read_field_file(first).coordinates
    if coordinates is None:
        raise OutputError(
            f"{path} has no mesh, nor has the first file beside it; write X with the first file"
        )
    return coordinates


def _names(tags: set[str]) -> list[str]:
    """Return the names of output.variables that are in files of these tags."""
    names = ["velocity_x", "velocity_y", "velocity_z"] if "U" in tags else []
    names += [name for tag, name in (("P", "pressure"), ("T", "scalar_0")) if tag in tags]
    return names + [f"scalar_{int(tag[1:])}" for tag in sorted(tags) if tag.startswith("S")]


class _Files:
    """Field files, of which the last that was read stays in memory: fields are often read together."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._held: tuple[int, FieldFile] | None = None

    def read(self, step: int, name: str) -> NDArray[np.float64]:
        """Return a field of one file, [E, n, n, n]."""
        held = self._held
        if held is None or held[0] != step:
            held = self._held = step, read_field_file(self._paths[step])
        file = held[1]
        found: NDArray[np.float64] | None
        if name.startswith("velocity_"):
            found = None if file.velocity is None else file.velocity["xyz".index(name[-1])]
        elif name == "pressure":
            found = file.pressure
        elif name == "scalar_0":
            found = file.temperature
        else:
            found = file.scalars[int(name.removeprefix("scalar_")) - 1]
        if found is None:
            raise OutputError(f"{self._paths[step]} no longer holds {name}; open it again")
        return found


class _Field(BackendArray):
    """One field of all files, (step, element, t, s, r), as xarray indexes it."""

    def __init__(self, files: _Files, name: str, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.dtype = np.dtype(np.float64)
        self._files, self._name = files, name

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> NDArray[Any]:
        steps = np.arange(self.shape[0])[key[0]]
        inner = tuple(np.arange(n)[k] for n, k in zip(self.shape[1:], key[1:]))
        box = np.ix_(*map(np.atleast_1d, inner))
        shape = [size for part in (steps, *inner) if part.ndim for size in part.shape]
        found = [self._files.read(int(step), self._name)[box] for step in np.atleast_1d(steps)]
        return np.array(found, self.dtype).reshape(shape)
