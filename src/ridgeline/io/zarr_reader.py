"""Reading a Zarr data set of Ridgeline: its contents, and selections of its arrays. Serial; needs no MPI."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ridgeline.io import bp_sums, zarr_files
from ridgeline.io.store import (
    STEP,
    TIME,
    Selection,
    Shape,
    StoredArray,
    StoredBlock,
    check_steps,
    damaged_from,
)
from ridgeline.io.zarr_files import has_steps
from ridgeline.io.zarr_layout import ArrayLayout
from ridgeline.runtime.errors import OutputError


class ZarrReader:
    """Reads the complete output steps of a data set, as `DataSetReader` says. Opening reads metadata only.

    steps: the number of output steps to read, for example those before a damage; None reads all. Raises OutputError
    if `path` is not a Zarr data set of Ridgeline, has no complete step, or if its metadata are damaged.
    """

    def __init__(self, path: str | Path, steps: int | None = None) -> None:
        self.path = Path(path)
        self._arguments = self.path, steps
        catalogue = zarr_files.read_catalogue(self.path)
        records, damage = zarr_files.counted_records(self.path, catalogue)
        if damage and (steps is None or damage.step < steps):
            raise damaged_from(self.path, damage.step, damage.what, steps is None)
        check_steps(self.path, len(records), steps)
        self.steps = steps or len(records)
        self.attributes = {key: _value(value) for key, value in catalogue.attributes.items()}
        for key in ("Conventions", "coordinates"):  # which xarray needs where it opens the data set itself
            self.attributes.pop(key, None)
        self.arrays: dict[str, StoredArray] = {}
        self.scalars: dict[str, NDArray[Any]] = {}
        self.array_attributes: dict[str, dict[str, Any]] = {}
        self._metadata = catalogue.at(self.steps, "").arrays
        self._zarr: dict[str, Any] = {}
        for name, metadata in self._metadata.items():
            own = {key: _value(value) for key, value in metadata["attributes"].items()}
            if "axis" in own:
                continue  # positions along an axis, which follow from the attributes
            with self._errors():
                array = self._zarr[name] = zarr_files.open_array(self.path, name, metadata)
                if name in (STEP, TIME):
                    self._require_files(name, 0, (), ())
                    self.scalars[name] = array[:]
            if name not in self.scalars:
                once = not has_steps(metadata)
                self.arrays[name] = StoredArray(name, array.dtype, array.shape if once else array.shape[1:])
                own |= {"dims": metadata["dimension_names"][not once :]} | ({"once": 1} if once else {})
            self.array_attributes[name] = own
        for step, record in enumerate(records[: self.steps]):
            for name in (STEP, TIME):
                value = bp_sums.digest(self.scalars[name][step : step + 1])
                if (record.blocks or {}).get(name) != [value]:
                    raise damaged_from(self.path, step, f"{name} is not as it was written", steps is None)

    def _errors(self) -> Any:
        return zarr_files.zarr_errors(f"read the data set {self.path}", "the data set may be damaged")

    def read(self, name: str, selections: Iterable[Selection]) -> None:
        """Read selections of the array `name` into their `out`, which must be contiguous and of the array's dtype.

        Raises OutputError if the data cannot be read.
        """
        stored = self.arrays[name]
        selections = list(selections)
        if any(not s.out.flags.c_contiguous or s.out.dtype != stored.dtype for s in selections):
            raise ValueError(f"{name} can be read into contiguous arrays of {stored.dtype} only.")
        for selection in selections:
            box = tuple(slice(s, s + n) for s, n in zip(selection.start, selection.out.shape))
            self._require_files(name, selection.step, selection.start, selection.out.shape)
            with self._errors():
                place = (selection.step, *box) if has_steps(self._metadata[name]) else box
                selection.out[...] = self._zarr[name][place]

    def _require_files(self, name: str, step: int, start: Shape, shape: Shape) -> None:
        """Raise OutputError if a file with a part of a box is missing, which Zarr would read as zeros."""
        metadata = self._metadata[name]
        grid = metadata["chunk_grid"]["configuration"]["chunk_shape"][has_steps(metadata) :]
        if not prod(shape):
            return
        low = [s // n for s, n in zip(start, grid)]
        high = [(s + m - 1) // n + 1 for s, m, n in zip(start, shape, grid)]
        for index in np.ndindex(*(b - a for a, b in zip(low, high))):
            first = tuple((a + i) * n for a, i, n in zip(low, index, grid))
            file = zarr_files.shard_file(self.path, name, metadata, step, first)
            if not file.is_file():
                raise OutputError(
                    f"the data set {self.path} is damaged: {file.relative_to(self.path)} is missing (output step "
                    f"{step} of {self.steps}). Restore it from a copy, or run again."
                )

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the shards of the array `name` at an output step, in the order of their checksums."""
        if name in self.scalars:
            return [StoredBlock((), (), bp_sums.digest(self.scalars[name][step : step + 1]))]
        stored = self.arrays[name]
        layout = ArrayLayout.of(stored.shape, stored.dtype.itemsize)
        first, end = layout.boxes()
        return [
            StoredBlock(tuple(a), tuple(n), self._digest(name, step, tuple(a), tuple(n)))
            for a, n in zip(first.tolist(), (end - first).tolist())
        ]

    def _digest(self, name: str, step: int, start: Shape, shape: Shape) -> str | None:
        values = np.empty(shape, self.arrays[name].dtype)
        try:
            self.read(name, [Selection(step, start, values)])
        except OutputError:
            return None
        return bp_sums.digest(values)

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrReader, self._arguments  # a process that receives a copy opens the data set itself


def _value(value: Any) -> Any:
    """Return an attribute as other stores give it: a list of numbers as an array."""
    return (
        np.array(value) if isinstance(value, list) and not any(isinstance(v, str) for v in value) else value
    )
