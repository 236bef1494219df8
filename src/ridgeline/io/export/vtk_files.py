"""Exports as VTK's XML files: one step, or a .pvd file that lists a file for each step."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from ridgeline.io.export.source import GRID, POINTS, POSITION, ExportSource, rows_at_once, uniform_grid
from ridgeline.io.vtk_format import VtkField, VtkLayout, collection, step_name, vtk_fields


def vtk_layout(source: ExportSource) -> VtkLayout:
    """Return how VTK's files hold the fields of a data set."""
    fields = vtk_fields(
        {name: (field.dtype, source.components(name)) for name, field in source.fields().items()}
    )
    if source.kind == GRID:
        grid = uniform_grid(source.dataset)
        return VtkLayout.image(grid.shape, grid.origin or (), grid.spacing, fields)
    if source.kind == POINTS:
        return VtkLayout.points(source.shape(POSITION)[0], POSITION, fields)
    return VtkLayout.elements(source.shape("x"), fields)


def write_vtk_file(source: ExportSource, path: Path) -> None:
    """Write the only step of a source as one file."""
    _write_step(source, vtk_layout(source), 0, path)


def write_collection(source: ExportSource, path: Path) -> None:
    """Write a file for each step into a folder beside `path`, which lists them."""
    layout = vtk_layout(source)
    folder = path.with_suffix("")
    folder.mkdir()
    listed = []
    for index, (step, time) in enumerate(source.steps):
        file = folder / step_name(path.stem, step, layout.suffix)
        _write_step(source, layout, index, file)
        listed.append((time, f"{folder.name}/{file.name}"))
    path.write_text(collection(listed))


def _write_step(source: ExportSource, layout: VtkLayout, index: int, path: Path) -> None:
    file = layout.file(*source.steps[index])
    by_name = {field.name: field for field in layout.fields}
    with path.open("wb") as out:
        for position, text in file.frame():
            out.seek(position)
            out.write(text)
        for array in file.arrays:
            out.seek(array.start)
            if array.section == "PointData":
                _write_field(source, layout, by_name[array.name], index, out)
            elif array.section == "Points" and layout.places is not None:
                _write_field(source, layout, layout.places, index, out)
            else:
                at_once = rows_at_once(array.bytes // layout.shape[0])
                for first in range(0, layout.shape[0], at_once):
                    out.write(layout.cells(array.name, first, min(at_once, layout.shape[0] - first)).data)


def _write_field(source: ExportSource, layout: VtkLayout, field: VtkField, index: int, out: BinaryIO) -> None:
    for _, values in source.pieces(field.sources, index):
        out.write(layout.values(field, values).data)
