"""`ridgeline export`: a data set, or a part of it, written in the format that the suffix of the new file names."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.io.dataset import open as open_data_set
from ridgeline.io.export.arrays import write_netcdf, write_zarr
from ridgeline.io.export.export_options import ExportOptions
from ridgeline.io.export.nek5000_fields import write_field_files
from ridgeline.io.export.source import ELEMENTS, FACES, GRID, POINTS, TABLE, ExportSource
from ridgeline.io.export.trajectories import write_extxyz, write_lammps_dump
from ridgeline.io.export.vtk_files import write_collection, write_vtk_file
from ridgeline.io.export.vtkhdf import write_vtkhdf
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.extras import require_extra
from ridgeline.runtime.files import output_errors, try_folder

PLACED = (GRID, ELEMENTS, FACES, POINTS)
ANYTHING = (*PLACED, TABLE)


@dataclass(frozen=True)
class ExportFormat:
    """A format. write: takes the source and the path of the new file."""

    name: str
    kinds: tuple[str, ...]
    write: Callable[[ExportSource, Path], None]
    single: bool = False  # whether a file holds one output step
    needs: tuple[str, ...] = ()  # modules of optional packages


FORMATS = {
    ".nc": ExportFormat("NetCDF", ANYTHING, write_netcdf, needs=("h5py", "h5netcdf")),
    ".zarr": ExportFormat("Zarr", ANYTHING, write_zarr),
    ".vtkhdf": ExportFormat("VTKHDF", PLACED, write_vtkhdf, needs=("h5py",)),
    ".pvd": ExportFormat("a ParaView collection", PLACED, write_collection),
    ".vti": ExportFormat("a VTK image", (GRID,), write_vtk_file, single=True),
    ".vtu": ExportFormat("a VTK file of elements", (ELEMENTS, FACES), write_vtk_file, single=True),
    ".vtp": ExportFormat("a VTK file of points", (POINTS,), write_vtk_file, single=True),
    ".lammpstrj": ExportFormat("a LAMMPS dump", (POINTS,), write_lammps_dump),
    ".dump": ExportFormat("a LAMMPS dump", (POINTS,), write_lammps_dump),
    ".extxyz": ExportFormat("extended XYZ", (POINTS,), write_extxyz),
    ".xyz": ExportFormat("extended XYZ", (POINTS,), write_extxyz),
    ".nek5000": ExportFormat("Nek5000 field files", (ELEMENTS,), write_field_files),
    ".f00001": ExportFormat("a Nek5000 field file", (ELEMENTS,), write_field_files, single=True),
}
_FIELD_FILE = re.compile(r".+0\.f\d{5}")


def export(data: str, out: str, options: ExportOptions) -> list[Path]:
    """Write a data set, or a part of it, in another format, and return the paths of what was written.

    Parameters
    ----------
    data : str
        What `ridgeline.open` opens.
    out : str
        The new file, whose suffix chooses the format (`FORMATS`). Nothing may be there.
    options : ExportOptions
        The part.

    Raises
    ------
    ConfigError
        For a suffix that is unknown or does not fit the data, an impossible part, or a package that is missing.
    OutputError
        If the data cannot be read, something is at `out`, or the file cannot be written.

    Notes
    -----
    Local. Values pass through memory in pieces (`source.PIECE_BYTES`), so that the data may be larger than memory. A
    file gets its name when it is complete.
    """
    path = Path(out.rstrip("/"))
    chosen = _format_of(path)
    for module in chosen.needs:
        require_extra(module, f"An export as {chosen.name}")
    with open_data_set(data) as dataset:
        source = ExportSource(dataset, options.step, options.variables, options.region)
        _check(data, path, chosen, source)
        with _new_outputs(path) as new:
            chosen.write(source, new)
            return list(_finish(new, path))


def _format_of(path: Path) -> ExportFormat:
    suffix = ".f00001" if _FIELD_FILE.fullmatch(path.name) else path.suffix
    if suffix not in FORMATS:
        known = ", ".join(f"NAME{suffix}" for suffix in FORMATS if suffix != ".f00001")
        raise ConfigError(f"'{path}' has no suffix of a format. Name the file {known} or NAME0.f00001.")
    return FORMATS[suffix]


def _check(data: str, path: Path, chosen: ExportFormat, source: ExportSource) -> None:
    """Raise an error before anything is written if the data do not fit the format, or `path` cannot be written."""
    if source.kind not in chosen.kinds:
        fitting = [suffix for suffix, other in FORMATS.items() if source.kind in other.kinds]
        raise ConfigError(
            f"'{data}' holds {source.kind}, which {chosen.name} ({path.suffix}) cannot hold. Suffixes that fit: "
            f"{', '.join(fitting)}."
        )
    if not source.n_steps:
        raise OutputError(f"'{data}' has no output step yet. Wait for the first output of the run.")
    if chosen.single and source.n_steps > 1:
        other = "NAME.nek5000" if source.kind == ELEMENTS and ".f" in path.suffix else "NAME.pvd"
        raise ConfigError(
            f"'{path}' holds one output step, but {source.n_steps} are chosen. Choose one with --step, such as "
            f"--step last, or name the file {other}, which holds all of them."
        )
    for name in _names(path):
        if name.exists() or name.is_symlink():
            raise OutputError(f"'{name}' exists already and is kept. Move it away, or choose another name.")
    with output_errors(f"write {path}", "choose another place"):
        try_folder(path.parent)


def _names(path: Path) -> list[Path]:
    """Return the files and folders that belong to an output; the one that refers to the others is the last."""
    if path.suffix == ".pvd":
        return [path.with_suffix(""), path]
    if path.suffix == ".nek5000":
        return [*sorted(path.parent.glob(f"{_escaped(path.stem)}0.f[0-9]*")), path]
    return [path]


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


@contextlib.contextmanager
def _new_outputs(path: Path) -> Iterator[Path]:
    """Yield the path of a new file in a new folder beside `path`, which is deleted at the end of the block.

    Errors of the operating system are raised as OutputError.
    """
    folder = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with output_errors(f"write {path}", "free space there, or choose another place"):
            folder.mkdir()
            yield folder / path.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _finish(new: Path, path: Path) -> Sequence[Path]:
    """Give complete outputs their names, and return them; the one that refers to the others comes last."""
    parts = sorted(new.parent.iterdir(), key=lambda part: (part.name == path.name, part.name))
    written = [part.replace(path.with_name(part.name)) for part in parts]
    return written[-1:] if len(written) > 1 else written
