"""Exports as VTKHDF, VTK's format of one HDF5 file for all steps.

An image is one array [step, z, y, x] for each field. Elements, faces and particles are an unstructured grid: the
arrays of all steps follow each other, and offsets say where each step begins. The mesh of elements, and the cells of
particles, are stored once. A file of one step has no steps, so that older versions of VTK read it. Source: VTK file
formats (docs.vtk.org), section "VTKHDF".
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.io.export.source import GRID, POINTS, ExportSource, rows_at_once
from ridgeline.io.export.vtk_files import vtk_layout
from ridgeline.io.vtk_format import VtkField, VtkLayout
from ridgeline.runtime.extras import import_extra

OF_ONE_STEP, OF_STEPS = (1, 0), (2, 0)  # versions of the format


def write_vtkhdf(source: ExportSource, path: Path) -> None:
    """Write all steps as one VTKHDF file."""
    h5py = import_extra("h5py", "An export as VTKHDF")
    layout = vtk_layout(source)
    with h5py.File(path, "w") as file:
        root = file.create_group("VTKHDF")
        root.attrs["Version"] = OF_STEPS if source.n_steps > 1 else OF_ONE_STEP
        kind = b"ImageData" if source.kind == GRID else b"UnstructuredGrid"
        root.attrs.create("Type", kind, dtype=h5py.string_dtype("ascii", len(kind)))
        if source.n_steps > 1:
            steps = root.create_group("Steps")
            steps.attrs["NSteps"] = source.n_steps
            steps["Values"] = np.array([time for _, time in source.steps])
        if source.kind == GRID:
            _write_image(source, layout, root)
        else:
            _write_mesh(source, layout, root)


def _write_image(source: ExportSource, layout: VtkLayout, root: Any) -> None:
    root.attrs["WholeExtent"] = [end for n in reversed(layout.shape) for end in (0, n - 1)]
    root.attrs["Origin"], root.attrs["Spacing"] = layout.origin[::-1], layout.spacing[::-1]
    root.attrs["Direction"] = np.eye(3).reshape(-1)
    several = source.n_steps > 1
    for field in layout.fields:
        shape = (*layout.shape, *((field.components,) if field.components > 1 else ()))
        array = root.create_dataset(
            f"PointData/{field.name}", ((source.n_steps,) if several else ()) + shape, field.dtype
        )
        for index in range(source.n_steps):
            for box, values in source.pieces(field.sources, index):
                array[(index, *box) if several else box] = layout.values(field, values)


def _write_mesh(source: ExportSource, layout: VtkLayout, root: Any) -> None:
    n_cells, n_points, n_steps = layout.shape[0], prod(layout.shape), source.n_steps
    moving = source.kind == POINTS
    assert layout.places is not None
    meshes = n_steps if moving else 1
    _write_rows(
        source, layout, layout.places, meshes, root.create_dataset("Points", (meshes * n_points, 3), "<f8")
    )
    for name, count in (
        ("NumberOfPoints", n_points),
        ("NumberOfCells", n_cells),
        ("NumberOfConnectivityIds", n_points),
    ):
        root[name] = np.array([count], np.int64)
    connectivity = root.create_dataset("Connectivity", (n_points,), "<i8")
    offsets = root.create_dataset("Offsets", (n_cells + 1,), "<i8")
    types = root.create_dataset("Types", (n_cells,), "u1")
    inner = n_points // max(n_cells, 1)
    at_once = rows_at_once(8 * inner)
    offsets[0] = 0
    for first in range(0, n_cells, at_once):
        count = min(at_once, n_cells - first)
        connectivity[first * inner : (first + count) * inner] = layout.cells(
            "connectivity", first, count
        ).reshape(-1)
        offsets[first + 1 : first + count + 1] = layout.cells("offsets", first, count)
        types[first : first + count] = layout.cell_type
    for field in layout.fields:
        shape = (n_steps * n_points, *((field.components,) if field.components > 1 else ()))
        array = root.create_dataset(f"PointData/{field.name}", shape, field.dtype)
        _write_rows(source, layout, field, n_steps, array)
    if n_steps > 1:
        each = np.arange(n_steps, dtype=np.int64)
        none = np.zeros_like(each)
        root["Steps/PartOffsets"] = none  # all steps have the same numbers of points and cells
        root["Steps/NumberOfParts"] = none + 1
        root["Steps/PointOffsets"] = each * n_points if moving else none
        root["Steps/CellOffsets"] = root["Steps/ConnectivityIdOffsets"] = none[:, None]
        for field in layout.fields:
            root[f"Steps/PointDataOffsets/{field.name}"] = each * n_points


def _write_rows(source: ExportSource, layout: VtkLayout, field: VtkField, n_steps: int, array: Any) -> None:
    """Write a field of n_steps steps, one after the other."""
    start = 0
    for index in range(n_steps):
        for _, values in source.pieces(field.sources, index):
            rows = layout.values(field, values)
            rows = rows.reshape(-1, *rows.shape[len(layout.shape) :])
            array[start : start + len(rows)] = rows
            start += len(rows)
