"""What a run writes for viewers without ADIOS2 (output.viewer): a .pvd file that lists a VTK file for each output.

    gray_scott_viewer/gray_scott.pvd                # what people open in ParaView
    gray_scott_viewer/gray_scott_00000100.vti       # .vtu for elements and sides, .vtp for particles and atoms

All ranks write into one file for each step, by MPI-IO. There are no pieces whose seams could show, and the files have
the same bytes on any number of ranks. A file gets its name when it is complete, and only then does the .pvd list it.
A killed run therefore leaves a .pvd that can be read, with all of its files. vtk_format.py describes the files.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mpi4py import MPI as mpi
from numpy.typing import NDArray

from ridgeline.io.file_errors import error_reason, on_rank_0
from ridgeline.io.output_files import MARK, free_previous_name
from ridgeline.io.store import Variable
from ridgeline.io.vtk_format import (
    ELEMENT_AXES,
    FACE_AXES,
    VtkArray,
    VtkFile,
    VtkLayout,
    collection,
    step_name,
    vtk_fields,
)
from ridgeline.parallel.allreduce import allreduce_max, raise_on_all_ranks
from ridgeline.runtime.errors import ConfigError, OutputError, RidgelineError, full_stop

if TYPE_CHECKING:
    from mpi4py import MPI

log = logging.getLogger(__name__)

PARTIAL = ".partial"
ROUND_BYTES = 32 << 20  # of an array in a file, that a rank passes to one collective write
SETTING = "output.viewer"
_LISTED = re.compile(r'timestep="([^"]+)" part="0" file="([^"]+)"')


def viewer_folder(path: str) -> Path:
    """Return the folder of the files for viewers, beside the data set `path`."""
    data_set = Path(path.rstrip("/"))
    return data_set.with_name(f"{data_set.stem}_viewer")


def viewer_layout(
    variables: Sequence[Variable], origin: Sequence[float], spacing: Sequence[float], position: str
) -> VtkLayout:
    """Return how VTK's files hold the outputs of a model.

    variables: what the data set holds. origin, spacing: of images, (z, y, x). position: the variable with the places
    of points, [N, 3]; "" if the outputs are fields. Raises ConfigError if VTK has no such files.
    """
    by_name = {variable.name: variable for variable in variables if not variable.once}
    first = next(iter(by_name.values()))
    if position:
        if position not in by_name:
            raise ConfigError(
                f'{SETTING} = "pvd" requires the places of the points: add "{position}" to output.variables.'
            )
        n = by_name[position].shape_global[0]
        others = {name: variable for name, variable in by_name.items() if name != position}
        return VtkLayout.points(n, position, vtk_fields(_arrays(others, 1)))
    fields = vtk_fields(_arrays(by_name, len(first.shape_global)))
    if first.dims in (ELEMENT_AXES, FACE_AXES):
        return VtkLayout.elements(first.shape_global, fields)
    if len(first.shape_global) == 3 and not first.dims:
        return VtkLayout.image(first.shape_global, origin, spacing, fields)
    raise ConfigError(
        f'{SETTING} = "pvd" requires fields on a grid, on spectral elements or of particles, but this model writes '
        f"others."
    )


def _arrays(variables: Mapping[str, Variable], n_axes: int) -> dict[str, tuple[Any, int]]:
    return {
        name: (variable.dtype, prod(variable.shape_global[n_axes:])) for name, variable in variables.items()
    }


class ViewerWriter:
    """Writes the files of a run, a step at a time. Every method is collective over `comm`.

    Parameters
    ----------
    folder : path
        The folder of the files.
    name : str
        Of the .pvd file, without the suffix.
    comm : MPI.Comm
        The ranks that write.
    layout : VtkLayout
        What the files hold.
    block : Variable
        One of the outputs, whose block on this rank is that of all.
    keep_steps : int, optional
        None starts anew: files of an earlier run are set aside with their folder. A number continues after the first
        keep_steps files, and deletes later ones.

    Raises
    ------
    OutputError
        On all ranks, if nothing may be written there, if other files are there, or if fewer than keep_steps files
        are; in `write` also if the disk is full.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        comm: MPI.Comm,
        layout: VtkLayout,
        block: Variable,
        *,
        keep_steps: int | None = None,
    ) -> None:
        self._folder, self._name, self._comm, self._layout = folder, name, comm, layout
        self._block = block
        self._files: list[tuple[float, str]] = []
        self._keep = keep_steps or 0
        here = block.shape_local[0], prod(block.shape_local[1 : len(layout.shape)])
        self._most_rows, self._most_points = (int(n) for n in allreduce_max(comm, here))
        self._on_rank_0(self._prepare)
        self.steps = self._keep  # number of files that the .pvd lists

    fingerprint = ""  # the data set beside it has one

    @property
    def _list(self) -> Path:
        return self._folder / f"{self._name}.pvd"

    def _on_rank_0(self, work: Callable[[], None]) -> None:
        on_rank_0(self._comm, work, self._failed)

    def _failed(self, why: str) -> OutputError:
        return OutputError(
            f"cannot write files for viewers into {self._folder}: {full_stop(why)} Free space there, set output.path "
            f'to another place, or set {SETTING} = "none".'
        )

    def _prepare(self) -> None:
        """Delete what is not kept, or set an earlier folder aside."""
        found = self._own_files()
        if not self._keep:
            if found:
                aside = free_previous_name(self._folder)
                self._folder.rename(aside)
                log.warning("the files for viewers of an earlier run were renamed to %s.", aside)
            self._folder.mkdir(parents=True, exist_ok=True)
            return
        listed = [(float(time), name) for time, name in _LISTED.findall(self._text())]
        self._files = listed[: self._keep]
        kept = {name for _, name in self._files}
        missing = self._keep - len(self._files) or not kept <= {path.name for path in found}
        if missing:
            raise OutputError(
                f"{self._list} does not list {self._keep} files that exist, which the run had written when its "
                f'checkpoint was written. Restore them, set {SETTING} = "none", or start from the beginning with '
                f"--resume never."
            )
        for path in found:
            if path.name not in kept and path != self._list:
                path.unlink()
        self._write_list()

    def _own_files(self) -> list[Path]:
        """Return what is in the folder. Raises OutputError for anything that a run has not written there."""
        pattern = re.compile(rf"{re.escape(self._name)}(_\d{{8,}}\.vt[iup]|\.pvd)({re.escape(PARTIAL)})?")
        if not self._folder.exists() and not self._folder.is_symlink():
            return []
        found = sorted(self._folder.iterdir())
        for path in found:
            if not pattern.fullmatch(path.name) or (path == self._list and MARK not in self._text()):
                raise OutputError(
                    f"{path} was not written by a run for viewers, and would be moved. Move it away, or choose "
                    f"another output.path."
                )
        return found

    def _text(self) -> str:
        return self._list.read_text(errors="replace") if self._list.is_file() else ""

    def write(self, step: int, time: float, values: Mapping[str, NDArray[Any]]) -> int:
        """Append the file of a step, and return its bytes. values: this rank's block of each output, by name.

        The numbers pass through some buffers of ROUND_BYTES, or of one plane or element.
        """
        file = self._layout.file(step, time)
        final = self._folder / step_name(self._name, step, self._layout.suffix)
        unfinished = final.with_name(final.name + PARTIAL)

        def begin() -> None:
            free = shutil.disk_usage(self._folder).free
            if file.size > free:
                raise self._failed(
                    f"{file.size / 2**20:.1f} MiB are needed, but {free / 2**20:.1f} MiB are free"
                )
            with unfinished.open("wb") as out:
                for position, text in file.frame():
                    out.seek(position)
                    out.write(text)

        def finish() -> None:
            unfinished.replace(final)
            self._files.append((time, final.name))
            self._write_list()

        self._on_rank_0(begin)
        self._write_arrays(unfinished, file, values)
        self._on_rank_0(finish)
        self.steps += 1
        return file.size

    def _write_list(self) -> None:
        """Replace the .pvd file, so that readers see either the old or the new one."""
        unfinished = self._list.with_name(self._list.name + PARTIAL)
        unfinished.write_text(collection(self._files))
        unfinished.replace(self._list)

    def _write_arrays(self, path: Path, file: VtkFile, values: Mapping[str, NDArray[Any]]) -> None:
        """Write this rank's blocks of all arrays by collective MPI-IO."""
        problem: RidgelineError | None = None
        out: mpi.File | None = None
        try:
            out = mpi.File.Open(cast(mpi.Intracomm, self._comm), os.fspath(path), mpi.MODE_WRONLY)
        except mpi.Exception as error:
            problem = self._failed(error_reason(error))
        raise_on_all_ranks(self._comm, problem)
        assert out is not None
        try:
            for array in file.arrays:
                for shape, offset, numbers in self._rounds(array, values):
                    try:
                        if self._comm.size == 1:  # rows of whole arrays, which need no MPI library
                            out.Write_at(array.start + offset[0] * prod(shape[1:]), _raw(numbers))
                        else:
                            _write_block(out, array.start, shape, offset, numbers)
                    except mpi.Exception as error:
                        problem = problem or self._failed(error_reason(error))
        finally:
            out.Close()
        if problem is not None and self._comm.rank == 0:
            path.unlink(missing_ok=True)
        raise_on_all_ranks(self._comm, problem)

    def _rounds(
        self, array: VtkArray, values: Mapping[str, NDArray[Any]]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], NDArray[Any]]]:
        """Yield the parts of this rank's block of an array: equally many on all ranks, so that some may be empty.

        They are (shape of the array, offset in it, numbers), and the last axis of shape and offset counts bytes.
        """
        layout = self._layout
        fields = {field.name: field for field in layout.fields}
        field = {"PointData": fields.get(array.name), "Points": layout.places}.get(array.section)
        n_axes = 1 if field is None else len(layout.shape)
        bytes_inner = array.bytes // prod(layout.shape[:n_axes])
        shape = (*layout.shape[:n_axes], bytes_inner)
        first, *others = self._block.offset_global[:n_axes]
        n_rows = self._block.shape_local[0]
        at_once = max(1, ROUND_BYTES // (bytes_inner * (self._most_points if n_axes > 1 else 1)))
        for low in range(0, self._most_rows, at_once):
            rows = slice(min(low, n_rows), min(low + at_once, n_rows))
            if field is None:
                numbers = layout.cells(array.name, first + rows.start, rows.stop - rows.start)
            else:
                numbers = layout.values(field, {name: values[name][rows] for name in field.sources})
            yield shape, (first + rows.start, *others, 0), numbers

    def close(self) -> None:
        """Do nothing, because every file is complete."""


def _write_block(
    file: mpi.File, start: int, shape: tuple[int, ...], offset: tuple[int, ...], numbers: NDArray[Any]
) -> None:
    """Write a block of an array that begins at `start`. shape: of the array, its last axis in bytes. Collective."""
    raw = _raw(numbers)
    if not raw.size:
        file.Set_view(start, mpi.BYTE, mpi.BYTE)
        file.Write_all(raw)
        return
    here = (*numbers.shape[: len(shape) - 1], shape[-1])
    kind = mpi.BYTE.Create_subarray(shape, here, offset).Commit()
    try:
        file.Set_view(start, mpi.BYTE, kind)
        # Counted in points, because a count of bytes above 2^31 does not fit.
        point = mpi.BYTE.Create_contiguous(shape[-1]).Commit()
        try:
            file.Write_all([raw, raw.size // shape[-1], point])
        finally:
            point.Free()
    finally:
        kind.Free()


def _raw(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(numbers).reshape(-1).view(np.uint8)
