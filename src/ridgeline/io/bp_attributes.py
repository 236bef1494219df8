"""Attributes of a data set: values that ADIOS2 can store, and descriptions by which ParaView shows the data.

ParaView has two readers: Fides ("ADIOS2 Fides") and VTX ("ADIOS2VTXReader"). Images on a uniform grid are described
for both, points for VTX.

Images: a value U[k, j, i] belongs to the position origin + (k, j, i) * spacing. Fides is given these positions as
points. VTX is given cells that have them as centres: its image begins half a cell before `origin`, so that both
readers show a value at the same position. Fides and VTK take origin and spacing as x, y, z. VTX takes extents in the
order of the ADIOS2 variable's shape, which here is z, y, x, and reverses them itself. Source: VTK,
IO/ADIOS2/VTX/schema/vtk/VTXvtkVTI.cxx, where the selection of a variable is the extents' differences, in their order.

Points are an unstructured grid of vertices. VTX takes its arrays only as ADIOS2's *local arrays*: blocks without a
position in a global array, which in their order are the array. Cells are two local arrays of one block each:
`connectivity`, int64 [N, 2] with rows (number of vertices = 1, point), and `types`, uint32 [1], the VTK type of all
cells. VTX adds the number of points in earlier blocks to the numbers in a block of connectivity, so that a single
block can number all points. Both arrays are written in every output step: VTX of ParaView 5.13 reads them at the step
that it shows, and finds no cells, or crashes, where a step lacks them. Source: VTXvtkVTU.cxx and VTXHelper.cxx there.
Fides has points too, but its predefined model of them takes their positions to be constant (PredefinedDataModel.cxx).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.store import AXES

# CF attributes of the coordinates that every data set has. A model may give time another unit or meaning.
COORDINATES = {
    "step": {"units": "1", "long_name": "number of the time step"},
    "time": {"units": "1", "long_name": "model time"},
}
VTK_VERTEX = 1
BYTES_OF_VERTEX = 2 * 8  # of a point in the connectivity, in every output step
CELLS = "connectivity", "types"  # the names that VTX requires


def to_attribute(key: str, value: Any) -> Any:
    """Return an attribute as ADIOS2 stores it: str, list of str, or a NumPy array. None and empty lists give None."""
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return list(value)
    array = np.asarray(value)
    if array.dtype == bool:
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iuf" or array.ndim > 1:
        raise TypeError(
            f"The attribute {key} = {value!r} is neither text, numbers nor a list of one of them."
        )
    return np.ascontiguousarray(array) if array.ndim else array


def convert_types(attributes: Mapping[str, Any], types: Mapping[str, np.dtype[Any]]) -> dict[str, Any]:
    """Return attributes of `to_attribute`, converted to the dtypes that a data set has for them already (str: text).

    The type of an attribute never changes, because ADIOS2 cannot read one that does. A setting may be a word in one
    run and a number in the next: a number after a word becomes text, and a word after a number is left out.
    """
    fitting: dict[str, Any] = {}
    for key, value in attributes.items():
        stored = types.get(key)
        if value is None or stored is None or stored == getattr(value, "dtype", np.dtype(str)):
            fitting[key] = value
        elif stored == np.dtype(str):
            fitting[key] = str(value.tolist())
        elif isinstance(value, np.ndarray) and (value.astype(stored) == value).all():
            fitting[key] = value.astype(stored)
    return fitting


def periodic_box(lengths: Sequence[float]) -> dict[str, Any]:
    """Return attributes with the bounds of a periodic box that begins at the origin, under LAMMPS' names.

    lengths: edges of the box in x, y, z. Source: LAMMPS, src/ADIOS/dump_custom_adios.cpp.
    """
    low = {f"box{axis}lo": 0.0 for axis in "xyz"}
    return (
        low
        | {f"box{axis}hi": float(length) for axis, length in zip("xyz", lengths)}
        | {"boundarystr": "pp pp pp"}
    )


def image_schemas(
    shape: Sequence[int],
    variables: Sequence[str],
    origin: Sequence[float] = (0.0, 0.0, 0.0),
    spacing: Sequence[float] = (1.0, 1.0, 1.0),
) -> dict[str, Any]:
    """Return the attributes that describe scalar variables of one shape on a uniform grid.

    shape: global shape (nz, ny, nx); variables: names, at least one; origin: position of value [0, 0, 0]; spacing:
    distance of values. Both are (z, y, x) in the model's unit of length.
    """
    if len(shape) != 3 or len(origin) != 3 or len(spacing) != 3 or not variables:
        raise ValueError("Image schemas need three axes (z, y, x) and at least one variable.")
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


def image_coordinates(
    shape: Sequence[int], attributes: Mapping[str, Any]
) -> dict[str, tuple[NDArray[Any], dict[str, str]]]:
    """Return the positions along z, y and x of an image with the attributes of `image_schemas`, and their attributes.

    They are integers if they are cell indices, as they are without these attributes.
    """
    origin, spacing = (
        np.asarray(attributes.get(f"Fides_{key}", default), float)[::-1]
        for key, default in (("Origin", (0, 0, 0)), ("Spacing", (1, 1, 1)))
    )
    places = {}
    for axis, n, o, h in zip(AXES, shape, origin, spacing):
        index = np.arange(n)
        if (o, h) == (0, 1):
            places[axis] = index, {"units": "1", "long_name": f"index along {axis}"}
        else:
            unit = {"units": "1"} if "run.model" in attributes else {}  # unknown for other programs
            places[axis] = o + h * index, unit | {"long_name": f"place along {axis}"}
    return places


def point_schemas(n: int, places: str, variables: Sequence[str]) -> dict[str, Any]:
    """Return the attributes that describe n points.

    places: name of the array of positions, local blocks [n, 3]; variables: names of further arrays of points, local
    blocks [n] or [n, components].
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
    """Return the cells of n points, one vertex each, under the names in `CELLS`."""
    connectivity = np.ones((n, 2), np.int64)
    connectivity[:, 1] = np.arange(n)
    return dict(zip(CELLS, (connectivity, np.array([VTK_VERTEX], np.uint32)), strict=True))


def _xyz(zyx: Sequence[float]) -> str:
    """Return a (z, y, x) triple as VTK's "x y z"."""
    return " ".join(f"{float(value):.17g}" for value in reversed(zyx))
