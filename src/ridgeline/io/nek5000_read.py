"""Reading Nek5000 field files on one rank: as arrays in memory, or lazily as a data set.

`ridgeline.open("duct0.f00003")` opens one file, and `ridgeline.open("duct.nek5000")` all files of a run.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from ridgeline.io.bp_attributes import COORDINATES
from ridgeline.io.nek5000_format import DATA_START, ENDIAN_TAG, HEADER_BYTES, Header, decode_header
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors, require_regular

Array = NDArray[np.float64]
DIMS = ("element", "t", "s", "r")
_FIELD_FILE = re.compile(r"(.*0\.f)(\d{5})")
_NUMBERS = {name: re.compile(rf"{name}:\s*(\d+)") for name in ("firsttimestep", "numtimesteps")}


@dataclass(frozen=True, eq=False)
class FieldFile:
    """A field file in memory, with its elements in the order of their numbers. Fields that it lacks are None.

    Attributes
    ----------
    header : Header
        The header of the file.
    numbers : int64 [E]
        Numbers of the elements, from 0.
    coordinates, velocity : float64 [3, E, n, n, n]
        Components x, y, z.
    pressure, temperature : float64 [E, n, n, n]
        The fields P and T.
    scalars : float64 [s, E, n, n, n]
        The fields S01, ...
    extremes : dict of str to float64 [c, E, 2]
        By tag (min, max) of each component and element; empty if the file has none.
    """

    header: Header
    numbers: NDArray[np.int64]
    coordinates: Array | None
    velocity: Array | None
    pressure: Array | None
    temperature: Array | None
    scalars: Array
    extremes: dict[str, Array]

    @property
    def time(self) -> float:
        """Model time."""
        return self.header.time

    @property
    def step(self) -> int:
        """Number of the time step."""
        return self.header.step


def read_field_file(path: str | os.PathLike[str], *, compare: bool = True) -> FieldFile:
    """Read a three-dimensional Nek5000 field file of one part, in either byte order.

    Parameters
    ----------
    path : path
        The field file.
    compare : bool
        Whether the values of each element must reach from the minimum to the maximum in the file. These extremes are
        the only checksum that the format has: they reveal most ranges that were zeroed or swapped, and a changed
        value that was or becomes an extreme. Extremes that are all 0 were not set, and are not compared; nor are
        those of several scalars S01, ..., which some programs mix up.

    Raises
    ------
    OutputError
        If the file cannot be read, is not a field file, is too short or too long, numbers its elements wrongly, or
        has values that do not match the extremes.
    """
    path = Path(path)
    with output_errors(f"read the Nek5000 field file {path}"):
        require_regular(path)
        raw = path.read_bytes()
    header = decode_header(raw[:HEADER_BYTES], path)
    if len(raw) not in (header.data_end, header.size):
        state = "cut off" if len(raw) < header.size else "damaged"
        raise OutputError(
            f"the Nek5000 field file {path} is {state}: it has {len(raw)} bytes, but its header requires "
            f"{header.size}. Write it again, or restore it from a copy."
        )
    order = _byte_order(raw, path)
    n_elements, n = header.n_elements, header.n
    numbers = np.frombuffer(raw, f"{order}i4", n_elements, DATA_START).astype(np.int64) - 1
    sorting = np.argsort(numbers, kind="stable")
    if not np.array_equal(numbers[sorting], np.arange(n_elements)):
        raise OutputError(
            f"the Nek5000 field file {path} is damaged: its elements are not numbered 1 to {n_elements}. Write it "
            f"again, or restore it from a copy."
        )
    fields, extremes = {}, {}
    for section in header.sections:
        count = n_elements * section.components
        values = np.frombuffer(raw, f"{order}f{header.word}", count * header.points, section.start)
        values = values.reshape(n_elements, section.components, n, n, n)
        fields[section.tag] = values[sorting].swapaxes(0, 1).astype(np.float64)
        if len(raw) == header.size:
            pairs = np.frombuffer(raw, f"{order}f4", 2 * count, section.extremes)
            pairs = pairs.reshape(n_elements, section.components, 2)
            extremes[section.tag] = pairs[sorting].swapaxes(0, 1).astype(np.float64)
            if compare and not (section.tag.startswith("S") and header.scalars > 1):
                _compare(fields[section.tag], extremes[section.tag], section.tag, path)
    scalars = [fields[f"S{i + 1:02d}"][0] for i in range(header.scalars)]
    return FieldFile(
        header=header,
        numbers=numbers[sorting],
        coordinates=fields.get("X"),
        velocity=fields.get("U"),
        pressure=fields["P"][0] if "P" in fields else None,
        temperature=fields["T"][0] if "T" in fields else None,
        scalars=np.stack(scalars) if scalars else np.empty((0, n_elements, n, n, n)),
        extremes=extremes,
    )


def _compare(values: Array, extremes: Array, tag: str, path: Path) -> None:
    """Raise OutputError unless the values [c, E, n, n, n] reach from minimum to maximum, extremes [c, E, 2]."""
    actual = np.stack([values.min(axis=(2, 3, 4)), values.max(axis=(2, 3, 4))], axis=-1).astype(np.float32)
    other = ~np.isclose(actual, extremes, rtol=1e-6, atol=0.0, equal_nan=True).all(axis=(0, 2))
    if extremes.any() and other.any():
        raise OutputError(
            f"the Nek5000 field file {path} is damaged: in {other.sum()} of its {other.size} elements (the first is "
            f"number {other.argmax() + 1}), {tag} does not have the minimum and the maximum that the file states. "
            f"Restore it from a copy, or read it as it is with compare=False."
        )


def _byte_order(raw: bytes, path: Path) -> str:
    for order in "<>":
        if np.frombuffer(raw, f"{order}f4", 1, HEADER_BYTES)[0] == ENDIAN_TAG:
            return order
    raise OutputError(
        f"the Nek5000 field file {path} is damaged: the number that shows its byte order is wrong. Write it again, "
        f"or restore it from a copy."
    )


def is_nek5000(path: Path) -> bool:
    """Whether a name is that of a field file, or of the index of field files."""
    return path.suffix == ".nek5000" or _FIELD_FILE.fullmatch(path.name) is not None


def open_nek5000(path: Path) -> xr.Dataset:
    """Open one field file as a data set of one step, or all files that a .nek5000 file lists, lazily.

    Dimensions, coordinates and names are those of data sets with fields on elements; elements are in the order of
    their numbers. Raises OutputError for a file that cannot be read, or if the mesh is missing.
    """
    paths = _field_files(path) if path.suffix == ".nek5000" else [path]
    headers = [_header(file) for file in paths]
    shape = headers[0].n_elements, *(headers[0].n,) * 3
    for file, header in zip(paths, headers):
        if (header.n_elements, *(header.n,) * 3) != shape:
            raise OutputError(f"{file} and {paths[0]} have different elements. Open the files one by one.")
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


def _field_files(path: Path) -> list[Path]:
    """Return the field files beside a .nek5000 file that it lists."""
    with output_errors(f"read {path}"):
        require_regular(path)
        text = path.read_text(errors="replace")
    first, number = (int(match[1]) if (match := pattern.search(text)) else 1 for pattern in _NUMBERS.values())
    if not number:
        raise OutputError(f"{path} lists no field file yet. Wait for the first one.")
    return [path.with_name(f"{path.stem}0.f{first + i:05d}") for i in range(number)]


def _header(path: Path) -> Header:
    with output_errors(f"read the Nek5000 field file {path}"):
        require_regular(path)
        with path.open("rb") as file:
            return decode_header(file.read(HEADER_BYTES), path)


def _coordinates(path: Path) -> NDArray[np.float64]:
    """Return the positions of the points, from the first file beside it if the file itself has none."""
    coordinates = read_field_file(path).coordinates
    if coordinates is None:
        match = _FIELD_FILE.fullmatch(path.name)
        first = path.with_name(f"{match[1]}00001") if match else path
        coordinates = read_field_file(first).coordinates
    if coordinates is None:
        raise OutputError(
            f"neither {path} nor the first file beside it has a mesh. Write X with the first file."
        )
    return coordinates


def _names(tags: set[str]) -> list[str]:
    """Return the names, as in output.variables, of the fields with these tags."""
    names = ["velocity_x", "velocity_y", "velocity_z"] if "U" in tags else []
    names += [name for tag, name in (("P", "pressure"), ("T", "scalar_0")) if tag in tags]
    return names + [f"scalar_{int(tag[1:])}" for tag in sorted(tags) if tag.startswith("S")]


class _Files:
    """Field files. The last one that was read stays in memory, because fields are often read together."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._cached: tuple[int, FieldFile] | None = None

    def read(self, step: int, name: str) -> NDArray[np.float64]:
        """Return a field of one file, [E, n, n, n]."""
        cached = self._cached
        if cached is None or cached[0] != step:
            cached = self._cached = step, read_field_file(self._paths[step])
        file = cached[1]
        values: NDArray[np.float64] | None
        if name.startswith("velocity_"):
            values = None if file.velocity is None else file.velocity["xyz".index(name[-1])]
        elif name == "pressure":
            values = file.pressure
        elif name == "scalar_0":
            values = file.temperature
        else:
            values = file.scalars[int(name.removeprefix("scalar_")) - 1]
        if values is None:
            raise OutputError(f"{self._paths[step]} no longer holds {name}. Open it again.")
        return values


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
        values = [self._files.read(int(step), self._name)[box] for step in np.atleast_1d(steps)]
        return np.array(values, self.dtype).reshape(shape)
