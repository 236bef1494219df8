"""Reading a BP5 data set: what is in it, and pieces of its arrays. Serial; needs no MPI."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

from ridgeline.io import bp_files
from ridgeline.io.bp_engine import BPEngine, Selection, StoredArray, StoredBlock
from ridgeline.io.bp_isolated import IsolatedEngine
from ridgeline.runtime.errors import OutputError

_MOST_COMPRESSED = 100_000  # to one, of a field that is the same everywhere

__all__ = ["BPReader", "Selection", "StoredArray"]


class BPReader:
    """Reads the output steps that are whole, also while a run is writing the data set at `path`.

    arrays: global arrays by name; scalars: values per step by name (`step`, `time`); attributes: as written,
    those of one array (units) under its name in `array_attributes`; attribute_types: dtypes of all under their
    full names, str for text. Opening reads metadata only.

    steps: read the first so many output steps, such as those before a damage; None: all.

    isolated: whether ADIOS2 reads in a child process, which it may end on damaged metadata. None: if the data set
    has no checksums, so that nothing tells whether its metadata are as they were written.

    Raises OutputError if `path` is not a BP5 data set, holds no whole step, or is damaged.
    """

    def __init__(self, path: str | Path, steps: int | None = None, *, isolated: bool | None = None) -> None:
        self.path = Path(path)
        self._reopened = self.path, steps
        files = bp_files.readable(self.path, steps)
        self.steps = files.steps
        if isolated is None:
            isolated = not files.verified
        self._files = files  # its folder may be a copy, which is deleted with it
        self._engine = (IsolatedEngine if isolated else BPEngine)(self.path, files.folder, files.steps)
        found = self._engine.contents
        self.arrays, self.scalars = found.arrays, found.scalars
        self.attributes, self.array_attributes = found.attributes, found.array_attributes
        self.attribute_types = found.attribute_types
        if not files.verified:
            self._refuse_the_impossible()
        for name in found.left_out:
            warnings.warn(
                f"{self.path}: {name} is left out, it is not a number or array of every step", stacklevel=3
            )

    def _refuse_the_impossible(self) -> None:
        """Raise OutputError for an array so large that the files cannot hold it, before memory is asked for it."""
        held = sum(file.stat().st_size for file in self.path.glob("data.*"))
        for array in self.arrays.values():
            size = prod(array.shape) * array.dtype.itemsize
            if size > _MOST_COMPRESSED * max(held, 1):
                raise OutputError(
                    f"the data set {self.path} is damaged: {array.name} has the shape {list(array.shape)}, but all "
                    f"data files together hold {held} bytes; restore it from a copy, or run again"
                )

    def read(self, name: str, pieces: Iterable[Selection]) -> None:
        """Fill the pieces of array `name`.

        Raises OutputError if the data cannot be read.
        """
        wanted = list(pieces)
        stored = self.arrays[name]
        if any(not piece.out.flags.c_contiguous or piece.out.dtype != stored.dtype for piece in wanted):
            raise ValueError(f"{name} can be read into contiguous arrays of {stored.dtype} only")
        self._engine.read(name, wanted)

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the blocks of array `name` at an output step, with the checksums of their values."""
        return self._engine.blocks(name, step)

    def close(self) -> None:
        """Release the files; a later `read` opens them again."""
        self._engine.close()

    def __enter__(self) -> BPReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return BPReader, self._reopened  # a process that gets a copy opens the data set itself
