"""What the functions of analysis take: a data set, the path of one, or a run, whose output they open."""

from __future__ import annotations

from os import PathLike
from typing import Protocol

import xarray as xr

import ridgeline.io.dataset
from ridgeline.runtime.errors import ConfigError

FIELDS, STATISTICS, SPECTRA = (
    "data set",
    "statistics",
    "spectra",
)  # outputs of a run, as its report names them


class HasOutputs(Protocol):
    """A run that has ended, as `ridgeline.run` and `ridgeline.load_run` return it."""

    def open(self, kind: str) -> xr.Dataset:
        """Open the output of this kind; raises ConfigError if the run wrote none."""
        ...


Source = xr.Dataset | str | PathLike[str] | HasOutputs


def dataset_of(source: Source, kind: str) -> xr.Dataset:
    """Return the data set of a source, lazily. kind: the output that is opened of a run.

    Raises OutputError if it cannot be opened, and ConfigError for anything that is not a source.
    """
    if isinstance(source, xr.Dataset):
        return source
    if isinstance(source, str | PathLike):
        return ridgeline.io.dataset.open(source)
    if not hasattr(source, "open"):
        raise ConfigError(
            f"{type(source).__name__} is not data that can be analysed. Give an xarray.Dataset, the path of a data "
            "set, or what ridgeline.run or ridgeline.load_run returned."
        )
    return source.open(kind)
