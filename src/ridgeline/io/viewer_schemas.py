"""Attributes that tell ParaView how to show a data set: images on a uniform grid (Fides and VTX), or points (VTX).

A value U[k, j, i] belongs to the place origin + (k, j, i) * spacing. Fides is given these places as points.
VTX gets cells that have them as centres. So its image begins half a cell before `origin` and both readers show a
value at the same place. ParaView's readers: Fides ("ADIOS2 Fides") and VTX ("ADIOS2VTXReader").

Order of axes: Fides and VTK take origin and spacing as x, y, z. VTX takes extents in the order of the ADIOS2
variable's shape, here z, y, x, and turns them round itself. Source: VTK, IO/ADIOS2/VTX/schema/vtk/VTXvtkVTI.cxx,
where the selection of a variable is the extents' differences, in their order.

Points are an unstructured grid of vertices. VTX takes its arrays only as ADIOS2's *local arrays*. These are blocks
without a place in a whole: the blocks in their order are the array. Cells are two local arrays of one block each:
`connectivity`, int64 [N, 2] with rows (number of vertices = 1, point), and `types`, uint32 [1], the VTK type of all
cells. VTX adds the points of the blocks before to the numbers of a block of connectivity, so that of one block may
count all points. Both are written in every output step: VTX of ParaView 5.13 reads them at the step that it shows,
and finds no cells, or ends with a crash, where a step lacks them. Source: VTXvtkVTU.cxx and VTXHelper.cxx there.
Fides has points too, but its predefined model of them takes their places for fixed (PredefinedDataModel.cxx).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

VTK_VERTEX = 1
BYTES_OF_VERTEX = 2 * 8  # of a point in the connectivity, in every output step
CELLS = "connectivity", "types"  # the names that VTX looks for


def image_schemas(
    shape: Sequence[int],
    variables: Sequence[str],
    origin: Sequence[float] = (0.0, 0.0, 0.0),
    spacing: Sequence[float] = (1.0, 1.0, 1.0),
) -> dict[str, Any]:
    """Return the attributes for scalar variables of one shape on a uniform grid.

    shape: global shape (nz, ny, nx); variables: names, at least one; origin: place of value [0, 0, 0];
    spacing: distance of values; both (z, y, x), in the unit of length of the model.
    """
    if len(shape) != 3 or len(origin) != 3 or len(spacing) != 3 or not variables:
        raise ValueError("image schemas need three axes (z, y, x) and at least one variable")
    names = list(variables)
    corner = [o - 0.5 * h for o, h in zip(origin, spacing)]
    extent = " ".join(f"0 {n}" for n in shape)
    arrays = "".join(f"<DataArray Name={quoteattr(name)} />" for name in names)
    return {
        "Fides_Data_Model": "uniform",
        "Fides_Origin": [float(o) for o in reversed(origin)],
        "Fides_Spacing": [float(h) for h in reversed(spacing)],
        "Fides_Dimension_Variable": names[0],
        "Fides_Variable_List": names,
        "Fides_Variable_Associations": ["points"] * len(names),
        "Fides_Time_Variable": "time",
        "vtk.xml": (
            '<?xml version="1.0"?>'
            '<VTKFile type="ImageData" version="0.1" byte_order="LittleEndian">'
            f'<ImageData WholeExtent="{extent}" Origin="{_xyz(corner)}" Spacing="{_xyz(spacing)}">'
            f'<Piece Extent="{extent}"><CellData Scalars={quoteattr(names[0])}>'
            f'{arrays}<DataArray Name="TIME">time</DataArray>'
            "</CellData></Piece></ImageData></VTKFile>"
        ),
    }


def point_schemas(n: int, places: str, variables: Sequence[str]) -> dict[str, Any]:
    """Return the attributes for n points. places: name of the array of their places, local blocks [n, 3];

    variables: names of further arrays of points, local blocks [n] or [n, components].
    """
    arrays = "".join(f"<DataArray Name={quoteattr(name)} />" for name in variables)
    cells = "".join(f'<DataArray Name="{name}" />' for name in CELLS)
    return {
        "vtk.xml": (
            '<?xml version="1.0"?>'
            '<VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian">'
            f'<UnstructuredGrid><Piece NumberOfPoints="{n}" NumberOfCells="{n}">'
            f"<Points><DataArray Name={quoteattr(places)} /></Points><Cells>{cells}</Cells>"
            f'<PointData>{arrays}<DataArray Name="TIME">time</DataArray>'
            "</PointData></Piece></UnstructuredGrid></VTKFile>"
        ),
    }


def vertices(n: int) -> dict[str, NDArray[Any]]:
    """Return the cells of n points, a vertex each, by the names of `CELLS`."""
    connectivity = np.ones((n, 2), np.int64)
    connectivity[:, 1] = np.arange(n)
    return dict(zip(CELLS, (connectivity, np.array([VTK_VERTEX], np.uint32)), strict=True))


def _xyz(zyx: Sequence[float]) -> str:
    """Write a (z, y, x) triple as VTK's "x y z"."""
    return " ".join(f"{float(value):.17g}" for value in reversed(zyx))
