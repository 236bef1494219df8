"""VTK's XML files of one step, for ParaView and VisIt: images (.vti), elements and faces (.vtu), points (.vtp).

    layout = VtkLayout.image(shape, origin, spacing, fields)    # or .elements, .points
    file = layout.file(step, time)      # the text of the file, and the position of each array in it
    layout.values(field, arrays)        # the numbers of a field as the file holds them

A file is a text that describes its arrays, followed by the arrays as raw bytes: for each its length as uint64 and its
numbers, x fastest. All positions are known before any number is, so several ranks can write one file, and a large
file can be written part by part. Fields are values at points: ParaView then shows no gap between the blocks of ranks,
and draws isosurfaces without a conversion. Scalars called NAME_x, NAME_y, NAME_z become the vector NAME.

Spectral elements are VTK's Lagrange hexahedra of the full order, and their faces on a side of the domain Lagrange
quadrilaterals. The nodes of both are evenly spaced, and not Gauss-Lobatto points.
Places and fields are therefore evaluated at the nodes, which changes no polynomial. A point that elements share is
stored once for each of them. Sources: VTK file formats (docs.vtk.org), section "XML file formats"; the order of the
nodes is that of PointIndexFromIJK of vtkLagrangeHexahedron and vtkLagrangeQuadrilateral in VTK 9, which files since
version 2.1 have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.quadrature import gauss_lobatto, interpolation_matrix
from ridgeline.io.output_files import GENERATOR
from ridgeline.runtime.errors import OutputError

VERTEX, LAGRANGE_QUADRILATERAL, LAGRANGE_HEXAHEDRON = 1, 70, 72
ELEMENT_AXES = ("element", "t", "s", "r")
FACE_AXES = ("face", "s", "r")
AXES = ("z", "y", "x")
VECTOR = 3
_TYPES = {"f": "Float", "i": "Int", "u": "UInt"}
_LENGTH = 8  # bytes of the length before an array

Shape = tuple[int, ...]


@dataclass(frozen=True)
class VtkField:
    """A field at points. sources: the variable, or the three variables that are its components x, y, z."""

    name: str
    sources: tuple[str, ...]
    dtype: np.dtype[Any]  # in the file
    components: int


def vtk_fields(arrays: Mapping[str, tuple[DTypeLike, int]]) -> tuple[VtkField, ...]:
    """Return the fields of a file. arrays: (dtype, components) by name.

    float16 becomes float32, and bool uint8. Raises OutputError for a dtype that VTK does not have.
    """
    fields, used = [], set[str]()
    for name, (dtype, components) in arrays.items():
        if name in used:
            continue
        base = name.removesuffix("_x")
        parts = tuple(f"{base}_{axis}" for axis in "xyz")
        same = base != name and base not in arrays and all(arrays.get(part) == (dtype, 1) for part in parts)
        sources = parts if same and components == 1 else (name,)
        used.update(sources)
        stored = np.dtype({"e": np.float32, "?": np.uint8}.get(np.dtype(dtype).char, dtype))
        if stored.kind not in _TYPES:
            raise OutputError(f"the variable {name} is {stored}, for which VTK has no type. Leave it out.")
        own = components if len(sources) == 1 else VECTOR
        fields.append(VtkField(name if len(sources) == 1 else base, sources, stored.newbyteorder("<"), own))
    return tuple(fields)


@dataclass(frozen=True)
class VtkArray:
    """An array of a file: where its description stands, and where its first number is."""

    section: str  # "PointData", "Points", "Cells" or "Verts"
    name: str
    dtype: np.dtype[Any]
    n: int  # tuples
    components: int
    start: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of the numbers."""
        return self.n * self.components * self.dtype.itemsize


@dataclass(frozen=True)
class VtkFile:
    """The file of one step. Before each array its length stands, as uint64."""

    head: bytes
    arrays: tuple[VtkArray, ...]
    tail: bytes

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.arrays[-1].start + self.arrays[-1].bytes + len(self.tail)

    def frame(self) -> list[tuple[int, bytes]]:
        """Return (position, bytes) of everything but the numbers."""
        lengths = [(array.start - _LENGTH, array.bytes.to_bytes(_LENGTH, "little")) for array in self.arrays]
        return [(0, self.head), *lengths, (self.size - len(self.tail), self.tail)]


@dataclass(frozen=True)
class VtkLayout:
    """What the files of all steps have in common.

    suffix: ".vti", ".vtu" or ".vtp"; shape: of the fields, [z, y, x], [element, t, s, r], [face, s, r] or [point];
    fields: see `vtk_fields`; places: the field with the positions of the points, None for an image; origin, spacing:
    of an image, (z, y, x).
    """

    suffix: str
    shape: Shape
    fields: tuple[VtkField, ...]
    places: VtkField | None = None
    origin: tuple[float, ...] = ()
    spacing: tuple[float, ...] = ()

    @classmethod
    def image(
        cls, shape: Shape, origin: Sequence[float], spacing: Sequence[float], fields: tuple[VtkField, ...]
    ) -> VtkLayout:
        """Return the layout of an image whose values are at origin + index * spacing, each (z, y, x)."""
        return cls(".vti", shape, fields, None, tuple(map(float, origin)), tuple(map(float, spacing)))

    @classmethod
    def elements(cls, shape: Shape, fields: tuple[VtkField, ...]) -> VtkLayout:
        """Return the layout of elements or faces whose points have the places x, y, z."""
        return cls(".vtu", shape, fields, VtkField("Points", ("x", "y", "z"), np.dtype("<f8"), VECTOR))

    @classmethod
    def points(cls, n: int, position: str, fields: tuple[VtkField, ...]) -> VtkLayout:
        """Return the layout of n single points. position: the variable with their places."""
        return cls(".vtp", (n,), fields, VtkField("Points", (position,), np.dtype("<f8"), VECTOR))

    def file(self, step: int, time: float) -> VtkFile:
        """Return the file of one step."""
        arrays, position = [], 0
        for array in self._arrays():
            arrays.append(array)
            position += _LENGTH + array.bytes
        head = self._head(arrays, step, time)
        start, placed = len(head), []
        for array in arrays:
            start += _LENGTH
            placed.append(VtkArray(array.section, array.name, array.dtype, array.n, array.components, start))
            start += array.bytes
        return VtkFile(head, tuple(placed), b"\n</AppendedData>\n</VTKFile>\n")

    def _arrays(self) -> list[VtkArray]:
        n = prod(self.shape)
        arrays = [VtkArray("PointData", f.name, f.dtype, n, f.components) for f in self.fields]
        if self.places is not None:
            arrays.append(VtkArray("Points", "Points", self.places.dtype, n, self.places.components))
            section = "Cells" if self.suffix == ".vtu" else "Verts"
            arrays.append(VtkArray(section, "connectivity", np.dtype("<i8"), n, 1))
            arrays.append(VtkArray(section, "offsets", np.dtype("<i8"), self.shape[0], 1))
        if self.suffix == ".vtu":
            arrays.append(VtkArray("Cells", "types", np.dtype("u1"), self.shape[0], 1))
        return arrays

    def _head(self, arrays: Sequence[VtkArray], step: int, time: float) -> bytes:
        """Return the text before the arrays; "offset" counts from the first length."""
        n = prod(self.shape)
        kind, version, whole, piece = {
            ".vti": ("ImageData", "1.0", self._extent(), f"Extent={quoteattr(_extent(self.shape))}"),
            ".vtu": (
                "UnstructuredGrid",
                "2.2",
                "",
                f'NumberOfPoints="{n}" NumberOfCells="{self.shape[0]}"',
            ),
            ".vtp": (
                "PolyData",
                "1.0",
                "",
                f'NumberOfPoints="{n}" NumberOfVerts="{n}" NumberOfLines="0" NumberOfStrips="0" NumberOfPolys="0"',
            ),
        }[self.suffix]
        sections: dict[str, list[str]] = {}
        offset = 0
        for array in arrays:
            bits = 8 * array.dtype.itemsize
            sections.setdefault(array.section, []).append(
                f'<DataArray type="{_TYPES[array.dtype.kind]}{bits}" Name={quoteattr(array.name)} '
                f'NumberOfComponents="{array.components}" format="appended" offset="{offset}"/>'
            )
            offset += _LENGTH + array.bytes
        lines = [
            '<?xml version="1.0"?>',
            f"<!-- {GENERATOR} -->",
            f'<VTKFile type="{kind}" version="{version}" byte_order="LittleEndian" header_type="UInt64">',
            f"<{kind}{whole}>",
            "<FieldData>",
            f'<DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">{time!r}</DataArray>',
            f'<DataArray type="Int64" Name="step" NumberOfTuples="1" format="ascii">{step}</DataArray>',
            "</FieldData>",
            f"<Piece {piece}>",
        ]
        for section, described in sections.items():
            lines += [f"<{section}>", *described, f"</{section}>"]
        lines += ["</Piece>", f"</{kind}>", '<AppendedData encoding="raw">', "_"]
        return "\n".join(lines).encode()

    def _extent(self) -> str:
        if not self.origin:
            return ""
        origin, spacing = (
            " ".join(f"{value:.17g}" for value in reversed(triple)) for triple in (self.origin, self.spacing)
        )
        return f' WholeExtent="{_extent(self.shape)}" Origin="{origin}" Spacing="{spacing}"'

    def values(self, field: VtkField, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the numbers of a field as a file holds them, components last, from those of its sources.

        arrays: by name, a part of the fields, of whole elements. The result is contiguous, and its first axes are
        those of the part.
        """
        several = len(field.sources) > 1
        parts = [self._at_nodes(arrays[source]) for source in field.sources]
        return np.ascontiguousarray(np.stack(parts, axis=-1) if several else parts[0], field.dtype)

    def _at_nodes(self, values: NDArray[Any]) -> NDArray[Any]:
        """Evaluate values at Gauss-Lobatto points of cells at the evenly spaced nodes of Lagrange cells."""
        if self.suffix != ".vtu":
            return values
        to_nodes = _to_nodes(self.shape[-1])
        along_r = values.astype(np.float64) @ to_nodes.T
        along_s = to_nodes @ along_r
        if len(self.shape) == len(FACE_AXES):
            return np.asarray(along_s)
        return np.asarray(np.einsum("kt,etsr->eksr", to_nodes, along_s))

    @property
    def cell_type(self) -> int:
        """VTK's number of the kind of the cells; images have none."""
        return {len(ELEMENT_AXES): LAGRANGE_HEXAHEDRON, len(FACE_AXES): LAGRANGE_QUADRILATERAL}.get(
            len(self.shape), VERTEX
        )

    def cells(self, name: str, first: int, count: int) -> NDArray[Any]:
        """Return a part of "connectivity", "offsets" or "types": that of `count` cells from `first` on."""
        number = np.arange(first, first + count, dtype="<i8")
        inner = prod(self.shape[1:])
        if name == "types":
            return np.full(count, self.cell_type, np.uint8)
        if name == "offsets":
            return (number + 1) * inner
        if self.suffix == ".vtp":
            return number
        nodes = lagrange_nodes if self.cell_type == LAGRANGE_HEXAHEDRON else face_nodes
        return np.asarray(number[:, None] * inner + nodes(self.shape[-1]))


def _extent(shape: Shape) -> str:
    return " ".join(f"0 {n - 1}" for n in reversed(shape))


@cache
def _to_nodes(n: int) -> NDArray[np.float64]:
    """Return the matrix from values at n Gauss-Lobatto points to those at n evenly spaced points."""
    return interpolation_matrix(gauss_lobatto(n)[0], np.linspace(-1.0, 1.0, n))


@cache
def lagrange_nodes(n: int) -> NDArray[np.int64]:
    """Return the flat number in [t, s, r] of each node of a Lagrange hexahedron with n nodes along an edge, [n^3].

    Its nodes are the corners, the inner nodes of the edges, those of the faces, and those inside.
    """
    inner = range(1, n - 1)
    last = n - 1
    corners = [(0, 0), (last, 0), (last, last), (0, last)]  # (r, s), around a face
    nodes = [(r, s, t) for t in (0, last) for r, s in corners]
    for t in (0, last):
        nodes += [(i, 0, t) for i in inner] + [(last, i, t) for i in inner]
        nodes += [(i, last, t) for i in inner] + [(0, i, t) for i in inner]
    nodes += [(r, s, i) for r, s in corners for i in inner]
    nodes += [(r, i, j) for r in (0, last) for j in inner for i in inner]
    nodes += [(i, s, j) for s in (0, last) for j in inner for i in inner]
    nodes += [(i, j, t) for t in (0, last) for j in inner for i in inner]
    nodes += [(i, j, k) for k in inner for j in inner for i in inner]
    r, s, t = np.array(nodes, np.int64).T
    flat: NDArray[np.int64] = (t * n + s) * n + r
    flat.setflags(write=False)
    return flat


@cache
def face_nodes(n: int) -> NDArray[np.int64]:
    """Return the flat number in [s, r] of each node of a Lagrange quadrilateral with n nodes along an edge, [n^2].

    Its nodes are those of the face t = 0 of a hexahedron, in the order of the hexahedron's.
    """
    hexahedron = lagrange_nodes(n)
    face: NDArray[np.int64] = hexahedron[hexahedron < n * n]
    face.setflags(write=False)
    return face


def collection(files: Sequence[tuple[float, str]]) -> str:
    """Return the text of a .pvd file, which lists the files of all steps. files: (time, path relative to it)."""
    lines = [
        '<?xml version="1.0"?>',
        f"<!-- {GENERATOR} -->",
        '<VTKFile type="Collection" version="1.0" byte_order="LittleEndian">',
        "<Collection>",
        *(f'<DataSet timestep="{time!r}" part="0" file={quoteattr(name)}/>' for time, name in files),
        "</Collection>",
        "</VTKFile>",
    ]
    return "\n".join(lines) + "\n"


def step_name(name: str, step: int, suffix: str) -> str:
    """Return the name of the file of a step, beside or below a .pvd file called `name`."""
    return f"{name}_{step:08d}{suffix}"
