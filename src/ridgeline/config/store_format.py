"""The store of a data set, chosen from the setting `output.format` and from its path."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

StoreFormat = Literal["bp5", "zarr"]
SUFFIXES: dict[str, StoreFormat] = {".bp": "bp5", ".zarr": "zarr"}


def store_format(chosen: str, path: str) -> StoreFormat:
    """Return the store of the data set at a path. chosen: the setting `output.format`."""
    known: dict[str, StoreFormat] = {"bp5": "bp5", "zarr": "zarr"}
    return known.get(chosen) or SUFFIXES.get(Path(path).suffix) or preferred_format()


def preferred_format() -> StoreFormat:
    """Return the store of data sets whose path does not say it: BP5 if the package adios2 is installed."""
    return "bp5" if find_spec("adios2") else "zarr"
