"""Writing Nek5000 field files by all ranks, and the `.nek5000` index that ParaView and VisIt open.

Every rank writes its elements, a contiguous range of the curve order (`elements.mesh`), by MPI-IO. The files have the
same bytes on any number of ranks. A file gets its name when it is complete. nek5000_format.py describes the files,
and nek5000_read.py reads them. Tags: velocity U, pressure P, the first scalar T, the others S01, S02, ...
"""

from __future__ import annotations

import glob
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mpi4py import MPI as mpi
from numpy.typing import NDArray

from ridgeline.elements.mesh import ElementGrid
from ridgeline.io.file_errors import error_reason, on_rank_0
from ridgeline.io.nek5000_format import ENDIAN_TAG, MOST_SCALARS, FileSection, Header
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.runtime.errors import ConfigError, OutputError, RidgelineError, full_stop

if TYPE_CHECKING:
    from mpi4py import MPI

log = logging.getLogger(__name__)

WORDS = {"float32": 4, "float64": 8}
ROUND_BYTES = 32 << 20  # what a rank converts and passes to one collective write
PARTIAL = ".partial"
Array = NDArray[np.floating[Any]]


class Nek5000Writer:
    """Writes the field files `prefix0.f00001`, ... and `prefix.nek5000`. Every method is collective over `comm`.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks that share the elements.
    prefix : path
        Path of the files without their number.
    grid : ElementGrid
        The elements of this rank.
    coordinates : float64 [3, n_elements, n, n, n]
        x, y, z of the points. A reference is kept.
    precision : str
        "float32" or "float64", of the numbers in the files.
    mesh : str
        "first" writes the coordinates only into the first file, as Nek5000 does, "every" into each one.
    keep_files : int, optional
        None starts a new series: earlier field files get another prefix, which ends in `_previous`. A number
        continues after so many files, and deletes later ones.
    setting : str
        The key that errors tell the user to change.

    Raises
    ------
    ConfigError
        For a prefix that readers cannot use.
    OutputError
        If nothing may be written there, or if other files than field files are there.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        prefix: str | os.PathLike[str],
        grid: ElementGrid,
        coordinates: Array,
        *,
        precision: str = "float32",
        mesh: str = "first",
        keep_files: int | None = None,
        setting: str = "output.nek5000",
    ) -> None:
        if precision not in WORDS or mesh not in ("first", "every"):
            raise ValueError(f"The precision {precision!r} or the mesh {mesh!r} is unknown.")
        self.prefix = Path(prefix)
        self.files = keep_files or 0
        self._comm, self._grid, self._coordinates = comm, grid, coordinates
        self._word, self._mesh, self._setting = WORDS[precision], mesh, setting
        self._most = max(grid.counts())
        if not self.prefix.name or re.search(r"[\s%]", self.prefix.name):
            raise ConfigError(
                f'{setting} = "{prefix}" has no name, or a name with a blank or %, which ParaView and VisIt cannot '
                f"read. Use letters, digits and _."
            )
        self._on_rank_0(self._prepare)

    def name(self, number: int) -> Path:
        """Return the path of the file with a number, which begins with 1."""
        return self.prefix.with_name(f"{self.prefix.name}0.f{number:05d}")

    def _on_rank_0(self, work: Callable[[], None]) -> None:
        on_rank_0(self._comm, work, self._failed)

    def _failed(self, why: str) -> OutputError:
        return OutputError(
            f"cannot write Nek5000 files {self.prefix}0.f*: {full_stop(why)} Free space there, or set "
            f"{self._setting} to another place."
        )

    def _prepare(self) -> None:
        """Check that the kept files exist, and delete or set aside later ones."""
        self.prefix.parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, self.files + 1):
            if not self.name(number).is_file():
                raise OutputError(
                    f"there is no {self.name(number)}, which the run had written when its checkpoint was written. "
                    f"Restore it, or start from the beginning with --resume never."
                )
        later = self._later_files()
        if self.files:
            for path in later:
                path.unlink()
            self._write_index()
        elif later or self._index.exists():
            self._set_aside(later)

    def _later_files(self) -> list[Path]:
        """Delete incomplete field files, and return those after the kept ones."""
        pattern = re.compile(re.escape(self.prefix.name) + r"0\.f(\d{5,})(" + re.escape(PARTIAL) + ")?")
        later = []
        for path in sorted(self.prefix.parent.iterdir()):
            match = pattern.fullmatch(path.name)
            if match is None or (int(match[1]) <= self.files and not match[2]):
                continue
            self._check_replaceable(path, b"#std")
            if match[2]:
                path.unlink()
            else:
                later.append(path)
        if self._index.exists():
            self._check_replaceable(self._index, b"filetemplate")
        return later

    def _check_replaceable(self, path: Path, start: bytes) -> None:
        with path.open("rb") as file:
            if file.read(len(start)) not in (b"", start):
                raise OutputError(
                    f"{path} is not a Nek5000 file and would be replaced. Move it away, or set {self._setting} to "
                    f"another name."
                )

    def _set_aside(self, files: list[Path]) -> None:
        """Rename the files of an earlier run to the first unused prefix that ends in `_previous`."""
        number, prefix = 1, self.prefix
        while prefix == self.prefix or next(prefix.parent.glob(f"{glob.escape(prefix.name)}[0.]*"), None):
            count = str(number) if number > 1 else ""
            prefix = self.prefix.with_name(f"{self.prefix.name}_previous{count}")
            number += 1
        for path in files:
            path.rename(prefix.with_name(prefix.name + path.name.removeprefix(self.prefix.name)))
        self._index.unlink(missing_ok=True)
        if files:
            write_index(prefix, len(files))
            log.warning(
                "the Nek5000 files of an earlier run at %s were renamed to %s0.f*.", self.prefix, prefix
            )

    @property
    def _index(self) -> Path:
        return _index_of(self.prefix)

    def _write_index(self) -> None:
        write_index(self.prefix, self.files)

    def write(
        self, step: int, time: float, velocity: Array, pressure: Array, scalars: Array | None = None
    ) -> int:
        """Append a file, and return its bytes.

        Parameters
        ----------
        step, time : int, float
            Number of the time step, and model time.
        velocity : float32 or float64 [3, n_elements, n, n, n]
            Components x, y, z.
        pressure : float32 or float64 [n_elements, n, n, n]
            Pressure.
        scalars : float32 or float64 [s, n_elements, n, n, n], optional
            Up to 100 scalars: T, S01, ...

        Raises
        ------
        OutputError
            On all ranks, if the disk is full or a rank cannot write. Earlier files are intact.

        Notes
        -----
        One pass over each field, with a buffer of at most ROUND_BYTES, or of one element.
        """
        fields = {"U": velocity, "P": pressure[None]}
        shape = self._grid.shape
        several = () if scalars is None else tuple(scalars)
        for array in (*velocity, pressure, *several):
            if array.shape != shape:
                raise ValueError(
                    f"A field has the shape {array.shape}, which does not fit the shape {shape} of the grid."
                )
        if len(several) > MOST_SCALARS + 1:
            raise ValueError(f"A Nek5000 file holds at most {MOST_SCALARS + 1} scalars, not {len(several)}.")
        fields |= {("T" if i == 0 else f"S{i:02d}"): s[None] for i, s in enumerate(several)}
        with_mesh = self._mesh == "every" or self.files == 0
        if with_mesh:
            fields["X"] = self._coordinates
        header = Header(
            word=self._word,
            n=self._grid.n,
            n_elements=self._grid.n_elements_global,
            time=time,
            step=step,
            coordinates=with_mesh,
            velocity=True,
            pressure=True,
            temperature=bool(several),
            scalars=max(len(several) - 1, 0),
        )
        final = self.name(self.files + 1)
        unfinished = final.with_name(final.name + PARTIAL)
        self._on_rank_0(lambda: self._check_space(header.size, unfinished))
        self._write_file(unfinished, header, fields)

        def finish() -> None:
            if unfinished.stat().st_size != header.size:
                raise self._failed(f"{unfinished} has {unfinished.stat().st_size} bytes, not {header.size}")
            unfinished.replace(final)
            self._write_index()

        self.files += 1
        try:
            self._on_rank_0(finish)
        except RidgelineError:
            self.files -= 1
            raise
        return header.size

    def _check_space(self, need: int, path: Path) -> None:
        path.unlink(missing_ok=True)
        free = shutil.disk_usage(path.parent).free
        if need > free:
            raise self._failed(f"{need / 2**20:.1f} MiB are needed, but {free / 2**20:.1f} MiB are free")

    def _write_file(self, path: Path, header: Header, fields: dict[str, Array]) -> None:
        """Write a whole file by collective MPI-IO."""
        problem: RidgelineError | None = None
        file: mpi.File | None = None
        try:
            file = mpi.File.Open(
                cast(mpi.Intracomm, self._comm), os.fspath(path), mpi.MODE_CREATE | mpi.MODE_WRONLY
            )
        except mpi.Exception as error:
            problem = self._failed(error_reason(error))
        raise_on_all_ranks(self._comm, problem)
        assert file is not None
        try:
            for position, block in self._blocks(header, fields):
                try:
                    file.Write_at_all(position, block)
                except mpi.Exception as error:
                    problem = problem or self._failed(error_reason(error))
        finally:
            file.Close()
        if problem is not None and self._comm.rank == 0:
            path.unlink(missing_ok=True)
        raise_on_all_ranks(self._comm, problem)

    def _blocks(self, header: Header, fields: dict[str, Array]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (position, numbers) of this rank's writes: equally many on all ranks, so that some may be empty."""
        grid = self._grid
        lead = header.encode() + np.array([ENDIAN_TAG], "<f4").tobytes()
        yield 0, np.frombuffer(lead if self._comm.rank == 0 else b"", np.uint8)
        yield len(lead) + 4 * grid.first, (grid.number + 1).astype("<i4")
        for section in header.sections:
            yield from self._rounds(header, section, fields[section.tag])
        for section in header.sections:
            field = fields[section.tag]
            extremes = np.empty((grid.n_elements, section.components, 2), "<f4")
            extremes[:, :, 0] = field.min(axis=(2, 3, 4)).T
            extremes[:, :, 1] = field.max(axis=(2, 3, 4)).T
            yield section.extremes + grid.first * section.components * 8, extremes

    def _rounds(
        self, header: Header, section: FileSection, field: Array
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the writes of a field [component, element, z, y, x]; in the file elements come first."""
        grid = self._grid
        per_element = section.components * header.points * self._word
        at_once = max(ROUND_BYTES // per_element, 1)
        for low in range(0, self._most, at_once):
            here = slice(min(low, grid.n_elements), min(low + at_once, grid.n_elements))
            block = np.ascontiguousarray(field[:, here].swapaxes(0, 1), f"<f{self._word}")
            yield section.start + (grid.first + here.start) * per_element, block


def _index_of(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".nek5000")


def write_index(prefix: Path, n_files: int) -> None:
    """Write the index of the field files. Readers see either the old one or the new one, complete."""
    index = _index_of(prefix)
    unfinished = index.with_name(index.name + PARTIAL)
    unfinished.write_text(
        f"filetemplate: {prefix.name}%01d.f%05d\nfirsttimestep: 1\nnumtimesteps: {n_files}\n"
    )
    unfinished.replace(index)
