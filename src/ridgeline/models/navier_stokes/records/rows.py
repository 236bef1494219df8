"""A CSV file of figures of the flow, as the time loop writes what a model adds to its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ridgeline.io.series import SeriesWriter
from ridgeline.models.navier_stokes.outputs_files import FlowState

if TYPE_CHECKING:
    from mpi4py import MPI


class RowRecorder:
    """Writes a row of figures of the present flow each time. row: returns it, collectively."""

    def __init__(
        self,
        comm: MPI.Comm,
        path: str,
        option: str,
        columns: tuple[str, ...],
        keep: int | None,
        row: Callable[[], Mapping[str, float]],
        flow: Callable[[], FlowState],
    ) -> None:
        self.path = path
        self._writer = SeriesWriter(path, comm, columns, keep_rows=keep, option=option)
        self._row, self._flow = row, flow

    @property
    def count(self) -> int:
        """Rows in the file."""
        return self._writer.rows

    @property
    def fingerprint(self) -> str:
        """What tells these rows from others."""
        return self._writer.fingerprint

    def write(self, step: int) -> int:
        """Append the present row and return its bytes."""
        return self._writer.write(step, self._flow().time, self._row())

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
