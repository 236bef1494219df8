"""Time series of a run: a CSV file with a row for each recorded step, which any program can read.

    step,time,energy,dissipation
    0,0.0,0.125,0.00375
    10,0.05,0.12480993,0.0038021

Numbers are written so that they read back with the same bits. A row is passed to the operating system before the run
continues, so that a run can be watched. A crash cuts off at most a part of the last row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from ridgeline.io.output_files import set_aside
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors, require_regular

if TYPE_CHECKING:
    from mpi4py import MPI

FIRST = ("step", "time")  # the first columns of every series


class SeriesWriter:
    """Write one time series as a CSV file. Every method is collective over `comm`; rank 0 writes.

    Parameters
    ----------
    path : path
        The CSV file.
    comm : MPI.Comm
        The ranks of the run.
    columns : sequence of str
        The names after step and time, equal on all ranks, without commas and quotes.
    keep_rows : int, optional
        None starts a new file: an earlier one at `path` is set aside, and anything else there is an error
        (output_files.py). A number continues the series after its first keep_rows rows. Later rows, written after the
        checkpoint that the run continues from, are cut off, like a row that a killed writer left incomplete.
    option : str
        The setting that names the path, for errors.

    Raises
    ------
    OutputError
        On all ranks, if nothing may be written there, or if something else, other columns or fewer than keep_rows
        complete rows are there; in `write` also if the disk is full.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> from ridgeline.api import SeriesWriter
    >>> from ridgeline.io.series import read_series
    >>> with SeriesWriter("energy.csv", MPI.COMM_SELF, ("energy",)) as series:
    ...     _ = series.write(10, 0.5, {"energy": 2.0})
    >>> read_series("energy.csv")["energy"].tolist()
    [2.0]
    """

    def __init__(
        self,
        path: str | Path,
        comm: MPI.Comm,
        columns: Sequence[str],
        *,
        keep_rows: int | None = None,
        option: str = "output.series",
    ) -> None:
        # Not at the top: it imports mpi4py, which readers do not need.
        from ridgeline.parallel.allreduce import errors_on_all_ranks

        self.path = Path(path)
        self.columns = tuple(columns)
        self._option = option
        self.steps = keep_rows or 0  # number of rows in the file, one for each step
        self._comm = comm
        self._file: FileIO | None = None
        self._hash = xxhash.xxh3_64()
        self._errors_on_all_ranks = partial(errors_on_all_ranks, comm)
        if any(set(name) & set(',"\n') or not name for name in columns) or {*columns} & {*FIRST}:
            raise ValueError(
                f"Not all of these can be columns of a time series: {', '.join(map(repr, columns))}."
            )
        with errors_on_all_ranks(comm):
            if comm.rank == 0:
                self._open()

    def _open(self) -> None:
        header = (",".join((*FIRST, *self.columns)) + "\n").encode()
        where = f"set {self._option} to a place where you may write"
        with output_errors(f"write the time series {self.path}", where):
            if self.steps:
                end, self._hash = _rows_kept(self.path, header, self.steps, self._option)
                os.truncate(self.path, end)
                self._file = FileIO(self.path, "a")
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                set_aside(self.path, self._option)
                self._file = FileIO(self.path, "w")
                self._put(header)

    def write(self, step: int, time: float, values: Mapping[str, float]) -> int:
        """Append a row, and return its bytes. values: a number for each column, the same on all ranks."""
        if set(values) != set(self.columns):
            raise ValueError(f"The time series has the columns {sorted(self.columns)}, not {sorted(values)}.")
        numbers = [time, *(values[name] for name in self.columns)]
        row = (",".join([str(int(step)), *(repr(float(number)) for number in numbers)]) + "\n").encode()
        with self._errors_on_all_ranks():
            if self._comm.rank == 0:
                self._check_path()
                doing = f"write the row of step {step} to the time series {self.path}"
                where = f"free space there, or set {self._option} to another file system"
                with output_errors(doing, where):
                    self._put(row)
        self.steps += 1
        return len(row)

    def _put(self, data: bytes) -> None:
        """Write all of `data` unbuffered, or nothing: a part of a number would be read as another number."""
        assert self._file is not None, "the time series was closed"
        end, rest = self._file.tell(), data
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with suppress(OSError):
                self._file.truncate(end)
                self._file.seek(end)
            raise
        self._hash.update(data)

    def _check_path(self) -> None:
        """Raise OutputError if the open file is not at `path` any more, where its rows would be looked for."""
        assert self._file is not None, "the time series was closed"
        with suppress(OSError):
            if os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno())):
                return
        raise OutputError(
            f"the time series {self.path} was removed, renamed or replaced while the run wrote it, after "
            f"{self.steps} rows. Restore it and continue with --resume auto, or start from the beginning. Leave "
            f"outputs in place while a run writes them."
        )

    @property
    def fingerprint(self) -> str:
        """Checksum of the whole file on rank 0, which identifies the run that wrote it."""
        return str(self._hash.hexdigest())

    def close(self) -> None:
        """Close the file, if it is open. Raises OutputError if it is not at its path any more."""
        with self._errors_on_all_ranks():
            try:
                if self._file is not None:
                    self._check_path()
            finally:
                self._release()

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._release()


def read_series(path: str | os.PathLike[str]) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
    """Read the columns of a time series.

    Parameters
    ----------
    path : path
        The CSV file that a run writes (output.series).

    Returns
    -------
    dict of str to array
        Columns by name: step as int64 [rows], all others as float64 [rows], with the bits that the run wrote. An
        incomplete last row, which is being written or whose run was killed, is left out.

    Raises
    ------
    OutputError
        If `path` is not a time series, or is damaged.

    Notes
    -----
    Local: nothing is communicated, and the file is read whole.

    Examples
    --------
    >>> from ridgeline.io.series import read_series
    >>> with open("decay.csv", "w") as file:
    ...     for row in ("step,time,energy", "0,0.0,0.5", "10,0.1,0.25"):
    ...         print(row, file=file)
    >>> series = read_series("decay.csv")
    >>> series["step"], series["energy"]
    (array([ 0, 10]), array([0.5 , 0.25]))
    """
    path = Path(path)
    with output_errors(f"read the time series {path}"):
        require_regular(path)
        with path.open("rb") as file:
            names = _header(path, file).decode(errors="replace").strip().split(",")
            rows = list(_rows(path, file, len(names)))
    numbers = np.array([row[1] for row in rows], np.float64).reshape(-1, len(names) - 1)
    steps = np.array([row[0] for row in rows], np.int64)
    return {"step": steps} | {name: numbers[:, i].copy() for i, name in enumerate(names[1:])}


def _header(path: Path, file: BinaryIO) -> bytes:
    """Return the first line of a file. Raises OutputError if it is not that of a time series."""
    line = file.readline()
    if not line.endswith(b"\n") or line.rstrip().split(b",")[:2] != [name.encode() for name in FIRST]:
        raise OutputError(f"{path} is not a time series, because it does not begin with {','.join(FIRST)}.")
    return line


def _rows(path: Path, file: BinaryIO, n_columns: int) -> Iterator[tuple[int, list[float]]]:
    """Yield (step, other numbers) of each complete row after the header. Raises OutputError for a damaged row."""
    before = -1
    for number, line in enumerate(iter(file.readline, b""), start=2):
        if not line.endswith(b"\n"):
            return
        try:
            first, *others = line.decode().split(",")
            step, numbers = int(first), [float(text) for text in others]
        except ValueError:
            step, numbers = -1, []
        if len(numbers) != n_columns - 1 or step <= before:
            raise OutputError(
                f"{path}:{number}: the time series is damaged, because this line is not a row of {n_columns} numbers "
                f"with a later step. Restore it from a copy, or start from the beginning with --resume never."
            )
        before = step
        yield step, numbers


def fingerprint(path: str | os.PathLike[str], n_rows: int) -> str:
    """Return the `SeriesWriter.fingerprint` after the first n_rows >= 1 rows; "" if there are fewer."""
    try:
        with Path(path).open("rb") as file:
            header = file.readline()
        return str(_rows_kept(Path(path), header, n_rows)[1].hexdigest())
    except (OSError, OutputError):
        return ""


def _rows_kept(
    path: Path, header: bytes, n_rows: int, option: str = "output.series"
) -> tuple[int, xxhash.xxh3_64]:
    """Return the bytes of the header and the first n_rows >= 1 rows of a series, and their hash."""
    if not path.is_file():
        raise OutputError(
            f"there is no time series {path}, to which the run had written {n_rows} rows when its checkpoint was "
            f"written. Restore it, or start from the beginning with --resume never."
        )
    with path.open("rb") as file:
        columns = _header(path, file)
        if columns != header:
            raise OutputError(
                f"the time series {path} has the columns {columns.decode(errors='replace').strip()}, but this run "
                f"writes {header.decode().strip()}. Set {option} to another name, or start from the beginning with "
                f"--resume never."
            )
        complete = 0
        for complete, _ in enumerate(_rows(path, file, header.count(b",") + 1), start=1):
            if complete == n_rows:
                end = file.tell()
                file.seek(0)
                return end, xxhash.xxh3_64(file.read(end))
    raise OutputError(
        f"the time series {path} holds {complete} complete rows, but the run had written {n_rows} when its "
        f"checkpoint was written. Restore it, or start from the beginning with --resume never."
    )
