"""The picture or data set that a run of Gray-Scott starts from, checked without MPI."""

from __future__ import annotations

from ridgeline.io.open_store import open_reader
from ridgeline.io.picture import read_darkness
from ridgeline.io.store import DataSetReader, output_index
from ridgeline.runtime.errors import OutputError

SETTING = "initial.path"


def check_start(kind: str, path: str, step: int | None, shape: tuple[int, int, int]) -> None:
    """Raise OutputError or ConfigError if the file that a run starts from cannot be used; other runs have none.

    kind, path and step are the settings of [initial]; shape is that of the grid.
    """
    if kind == "image":
        read_darkness(path, (1, 1), SETTING)
    elif kind == "file":
        open_start(path, step, shape).close()


def open_start(path: str, step: int | None, shape: tuple[int, int, int]) -> DataSetReader:
    """Open the data set that a run starts from. Raises OutputError if a run of this shape cannot start from it."""
    reader = open_reader(path)
    try:
        for name in ("U", "V"):
            array = reader.arrays.get(name)
            if array is None:
                known = ", ".join(sorted(reader.arrays))
                raise OutputError(
                    f"the data set {path} has no {name}, only {known}. It must contain U and V."
                )
            if array.shape != shape or array.dtype.kind != "f":
                raise OutputError(
                    f"{name} of the data set {path} has shape {list(array.shape)} and dtype {array.dtype}. "
                    f"It must be an array of floating-point numbers of grid.shape = {list(shape)}."
                )
        output_index(reader, step)
    except OutputError:
        reader.close()
        raise
    return reader
