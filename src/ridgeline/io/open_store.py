"""Opening data sets in the store that the settings or the files ask for: BP5 or Zarr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.config.store_format import store_format
from ridgeline.io.bp import BPWriter
from ridgeline.io.bp_files import INDEX
from ridgeline.io.bp_reader import BPReader
from ridgeline.io.store import DataSetReader, DataSetWriter, Variable
from ridgeline.io.zarr_files import METADATA
from ridgeline.io.zarr_reader import ZarrReader
from ridgeline.io.zarr_writer import ZarrWriter

if TYPE_CHECKING:
    from mpi4py import MPI


def open_writer(
    path: str | Path,
    comm: MPI.Comm,
    variables: Sequence[Variable],
    attributes: Mapping[str, Any],
    *,
    store: str = "auto",
    points: str = "",
    **others: Any,
) -> DataSetWriter:
    """Return the writer of a data set. Collective.

    store: the setting `output.format`; points and others: as for `BPWriter`. Raises OutputError on all ranks.
    """
    from ridgeline.parallel.allreduce import broadcast_decision

    # Rank 0 decides for all, as the ranks may see different packages, or a file system at different times.
    if broadcast_decision(comm, lambda: store_format(store, str(path))) == "zarr":
        return ZarrWriter(path, comm, variables, attributes, **others)
    return BPWriter(path, comm, variables, attributes, points=points, **others)


def open_reader(path: str | Path, steps: int | None = None, *, isolated: bool | None = None) -> DataSetReader:
    """Return the reader of the data set at `path`. The arguments are those of `BPReader`. Raises OutputError."""
    if is_zarr(Path(path)):
        return ZarrReader(path, steps)
    return BPReader(path, steps, isolated=isolated)


def is_zarr(path: Path) -> bool:
    """Whether there is a Zarr group of version 3 at `path`, or the arrays of one, and no BP5 data set."""
    return not (path / INDEX).exists() and any(any(path.glob(place)) for place in (METADATA, f"*/{METADATA}"))
