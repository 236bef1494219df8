"""Meshes of Nek5000: .re2 files of version #v001 (numbers of 4 bytes) or #v002 to #v004 (8), in either byte order.

    80 bytes of text: version, elements, dimensions, fluid elements; 6.54321 in 4 bytes, which tells the byte order
    for each element: a group, then x, y and z of its 8 corners
    a count, and for each curved edge: element, edge, five numbers, a letter
    a count, and for each face of the surface: element, face, five numbers, three letters; then the same for scalars

A count is an integer in #v001, and a float in other versions. Corners go around the lower face, then around the upper
one. Edges and faces have the numbers of Nek5000's preprocessor. Kinds of edges: "C", an arc of a circle in a plane of
equal z, whose radius is positive if the element bulges; "m", the point in the middle. The name of a side is its three
letters without blanks; "E" is inside the mesh, and "P" is periodic with another face. Converters (gmsh2nek, exo2nek)
write no conditions but "MSH" or "EXO", and as the fifth number that of the surface in the mesh that they read: the
sides become "MSH_1", "MSH_2". Source: https://nek5000.github.io/NekDoc (mesh file formats); the reader of Nek5000
itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ridgeline.elements.hexahedron import EDGE_CORNERS
from ridgeline.elements.meshes.raw_mesh import FARTHEST, RawMesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.io.nek5000_format import ENDIAN_TAG
from ridgeline.runtime.errors import ConfigError, sentence

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

HEADER, TAG_BYTES = 80, 4
WORDS = {"#v001": 4, "#v002": 8, "#v003": 8, "#v004": 8}
CORNERS = (0, 1, 3, 2, 4, 5, 7, 6)  # of the file, by our numbers
FACES = np.array([2, 1, 3, 0, 4, 5])  # of the file, 1 ... 6, by our numbers
# Edges of the file, 1 ... 12, by their first and second corner.
AROUND = ((0, 1), (1, 3), (3, 2), (2, 0))
EDGES = (*AROUND, *((a + 4, b + 4) for a, b in AROUND), (0, 4), (1, 5), (3, 7), (2, 6))
ARC_POINTS = 9  # along an element of a mesh with arcs: an eighth of a circle is accurate to rounding
ROUNDING = 1e-15  # of the largest coordinate: shorter edges count as having no length
NEAR = 0.02  # of the shortest edge: closer corners are the same vertex
NUMBERED = ("MSH", "EXO")  # not conditions: the fifth number distinguishes the surfaces
MOST_NUMBER_IN_FLOAT = 10**6  # elements from which Nek5000 writes numbers of partners as integers


@dataclass
class _Reader:
    """Reads the bytes of a file from its beginning."""

    path: Path
    data: bytes
    place: int = 0

    def error(self, what: str, advice: str = "write it again") -> ConfigError:
        return ConfigError(f'grid.mesh = "{self.path}" {what}. {sentence(advice)}')

    def take(self, dtype: np.dtype[Any], count: int, what: str) -> NDArray[Any]:
        size = dtype.itemsize * count
        if count < 0 or self.place + size > len(self.data):
            raise self.error(
                f"ends in its {what}: it has {len(self.data)} bytes, but they need {self.place + max(size, 0)}"
            )
        values = np.frombuffer(self.data, dtype, count, self.place)
        self.place += size
        return values


def read_re2(path: Path) -> RawMesh:
    """Return the mesh in a .re2 file. Raises ConfigError if it is not one, or has features that are not supported."""
    reader = _Reader(path, path.read_bytes())
    n, order, words = _header(reader)
    number = f"{order}f{words}"
    elements = reader.take(np.dtype([("group", number), ("places", number, (3, 8))]), n, "elements")
    places = np.ascontiguousarray(elements["places"][:, :, CORNERS].transpose(0, 2, 1), np.float64)
    if not (np.abs(places) < FARTHEST).all():
        raise reader.error(
            f"is damaged: it has corners that are not finite, or that are {FARTHEST:g} or more away"
        )
    corners = _join(reader, places)
    curves = _records(reader, order, words, n, 12, "curved edges")
    points, nodes = _curved(reader, places, curves)
    faces = _records(reader, order, words, n, 6, "faces of the surface")
    while reader.place < len(reader.data):  # not used here, but checked
        _records(reader, order, words, n, 6, "faces of a scalar")
    sides, named, pairs = _surface(reader, faces, n, order, words)
    return RawMesh(str(path), points, nodes, corners, sides, named, pairs, np.arange(1, n + 1))


def _header(reader: _Reader) -> tuple[int, str, int]:
    """Return the number of elements, the byte order and the bytes of a number."""
    text = reader.data[:HEADER].decode("ascii", "replace")
    version, counts = text[:5], re.findall(r"-?\d+", text[5:HEADER])
    if version not in WORDS or len(counts) < 2 or len(reader.data) < HEADER + TAG_BYTES:
        raise reader.error(
            "is not a .re2 file of Nek5000",
            f"it must have one of the versions {', '.join(WORDS)}, but begins with {version!r}",
        )
    if counts[1] != "3":
        raise reader.error(
            f"has {counts[1]} dimensions, but it must have three", "extrude it by one layer with n2to3"
        )
    tag = reader.data[HEADER : HEADER + TAG_BYTES]
    orders = [o for o in "<>" if abs(np.frombuffer(tag, f"{o}f4")[0] - ENDIAN_TAG) < 1e-4]
    if not orders:
        raise reader.error("is damaged: it has no number that shows its byte order")
    reader.place = HEADER + TAG_BYTES
    if int(counts[0]) < 1:
        raise reader.error("has no elements", "it must have at least one")
    fluid = int(counts[2]) if len(counts) > 2 else int(counts[0])
    if fluid < int(counts[0]):
        raise reader.error(
            f"has {counts[0]} elements, of which {fluid} are fluid and the others solid",
            "solids are not computed, so write a mesh of the fluid only, with a condition on each of its outer faces",
        )
    return int(counts[0]), orders[0], WORDS[version]


def _records(reader: _Reader, order: str, words: int, n: int, most: int, what: str) -> NDArray[Any]:
    """Return the records after a count: element and part, numbered from 1, values [5] and letters."""
    count = reader.take(np.dtype(f"{order}{'i4' if words == 4 else 'f8'}"), 1, f"count of {what}")[0]
    if not 0 <= count <= most * n or count != int(count):
        raise reader.error(f"is damaged: it has {count} {what} for {n} elements")
    whole = f"{order}{'i4' if words == 4 else 'f8'}"
    form = [("element", whole), ("part", whole), ("values", f"{order}f{words}", 5), ("letters", f"S{words}")]
    records = reader.take(np.dtype(form), int(count), what)
    for name, high in (("element", n), ("part", most)):
        bad = records[name][~((records[name] >= 1) & (records[name] <= high))]
        if len(bad):
            raise reader.error(
                f"is damaged: one of its {what} has the {name} number {bad[0]:g}, but there are {high}"
            )
    return records


def _join(reader: _Reader, places: Array) -> Indices:
    """Return the numbers of vertices [E, 8], and move corners that are the same vertex to their mean, in place."""
    edges = places[:, EDGE_CORNERS[:, 1]] - places[:, EDGE_CORNERS[:, 0]]
    lengths = np.sqrt((edges**2).sum(axis=2))
    bad = np.flatnonzero((lengths <= ROUNDING * np.abs(places).max()).any(axis=1))
    if len(bad):
        x, y, z = places[bad[0]].mean(axis=0)
        raise reader.error(
            f"has an element {bad[0] + 1} (about x={x:.6g}, y={y:.6g}, z={z:.6g}) with two corners at the same place",
            "every element must have eight different corners, so write it again",
        )
    flat = places.reshape(-1, 3)
    distance = NEAR * float(lengths.min())
    # All corners in a cube of half that size are near each other, so that one of them represents all. A damaged file
    # may have very many corners at one position, and all their pairs would not fit into memory.
    _, representative, cube = np.unique(
        np.round(flat / (distance / 2)), axis=0, return_index=True, return_inverse=True
    )
    near = cKDTree(flat[representative]).query_pairs(distance, output_type="ndarray")
    a, b = np.asarray(near, np.int64).reshape(-1, 2).T
    links = coo_matrix((np.ones(len(a)), (a, b)), shape=(len(representative), len(representative)))
    number = connected_components(links, directed=False)[1][cube.reshape(-1)]
    count = np.bincount(number)
    for axis in range(3):
        flat[:, axis] = (np.bincount(number, flat[:, axis]) / count)[number]
    return np.asarray(number.reshape(-1, 8), np.int64)


def _curved(reader: _Reader, places: Array, curves: NDArray[Any]) -> tuple[Array, Array]:
    """Return the points along an element, [q], and its nodes [3, E, q, q, q], with curved edges.

    The distance of an edge from its chord is added to the trilinear element, and decreases towards the edges beside
    it. Source: Gordon and Hall, Int. J. Numer. Meth. Eng. 7 (1973) 461.
    """
    letters = np.char.strip(np.char.decode(curves["letters"], "latin-1"))
    letters = np.array([text.strip("\0 ")[:1] for text in letters])
    kinds = set(letters.tolist()) - {""}
    if kinds - {"C", "m"}:
        raise reader.error(
            f"has curved edges of kind {', '.join(sorted(kinds - {'C', 'm'}))!r}",
            'they must be of kind "C" (arcs of circles) or "m" (points in the middle)',
        )
    if not (np.abs(curves["values"].astype(np.float64)) < FARTHEST).all():
        raise reader.error(
            f"is damaged: values of its curved edges are not finite, or are {FARTHEST:g} or more"
        )
    points = gauss_lobatto(ARC_POINTS if "C" in kinds else 3 if kinds else 2)[0]
    q = len(points)
    upper = (1 + points) / 2
    blend = np.stack([1 - upper, upper])  # [end, q]
    cube = np.einsum("ak,bj,ci->abckji", blend, blend, blend).reshape(8, q, q, q)
    nodes = np.einsum("ced,ckji->dekji", places.transpose(1, 0, 2), cube)
    for edge, (first, second) in enumerate(EDGES):
        for letter in sorted(kinds):
            rows = np.flatnonzero((curves["part"] == edge + 1) & (letters == letter))
            if not len(rows):
                continue
            element = curves["element"][rows].astype(np.int64) - 1
            a, b, values = places[element, first], places[element, second], curves["values"][rows]
            away = (
                _middle(a, b, values, upper) if letter == "m" else _arc(reader, element, a, b, values, upper)
            )
            nodes[:, element] += _spread(away, first, second, blend)
    return points, nodes


def _spread(away: Array, first: int, second: int, blend: Array) -> Array:
    """Spread the displacements of an edge, [m, q, 3] from its first corner on, over elements [3, m, q, q, q]."""
    along = abs(second - first)
    if second < first:
        away = away[:, ::-1]
    lines: list[Array] = []
    for bit in (4, 2, 1):
        lines.append(np.ones(blend.shape[1]) if along == bit else blend[int(bool(first & bit))])
    axis = "kji"[(4, 2, 1).index(along)]
    return np.asarray(np.einsum(f"m{axis}d,k,j,i->dmkji", away, *lines))


def _middle(a: Array, b: Array, values: NDArray[Any], upper: Array) -> Array:
    """Return the displacement from the chord of a parabola through a point in the middle, [m, q, 3]."""
    away = values[:, :3].astype(np.float64) - (a + b) / 2
    return away[:, None] * (4 * upper * (1 - upper))[:, None]


def _arc(reader: _Reader, element: Indices, a: Array, b: Array, values: NDArray[Any], upper: Array) -> Array:
    """Return the displacement from the chord of an arc from a to b, in equal steps of its angle, [m, q, 3]."""
    radius = values[:, 0].astype(np.float64)
    chord = (b - a)[:, :2]
    length = np.sqrt((chord**2).sum(axis=1))
    bad = np.flatnonzero(~(np.abs(radius) >= length / 2 * (1 - 1e-5)) | (length == 0))
    if len(bad):
        raise reader.error(
            f"has an arc of radius {radius[bad[0]]:g} at element {element[bad[0]] + 1}, whose chord has the length "
            f"{length[bad[0]]:g}",
            "a radius must be at least half of the chord",
        )
    half = np.arcsin(np.minimum(length / 2 / np.abs(radius), 1.0))  # half of the angle
    angle = half[:, None] * (2 * upper - 1)
    r, sign = np.abs(radius)[:, None], np.sign(radius)[:, None]
    # Along the chord, and to the right of it, out of the element.
    forward = r * (np.sin(angle) + np.sin(half)[:, None])
    outward = sign * r * (np.cos(angle) - np.cos(half)[:, None])
    along = chord / length[:, None]
    right = np.stack([along[:, 1], -along[:, 0]], axis=1)
    displacement = np.zeros((len(a), len(upper), 3))
    step = forward - upper * length[:, None]
    displacement[:, :, :2] = step[:, :, None] * along[:, None] + outward[:, :, None] * right[:, None]
    return displacement


def _surface(
    reader: _Reader, faces: NDArray[Any], n: int, order: str, words: int
) -> tuple[tuple[str, ...], Indices, Indices]:
    """Return the names of sides, the faces on them (element, face, side), and the periodic pairs of faces."""
    letters = np.array([text.decode("latin-1")[:3].strip("\0 ") for text in faces["letters"]], "U3")
    element, face = faces["element"].astype(np.int64) - 1, FACES[faces["part"].astype(np.int64) - 1]
    hanging = sorted({text for text in letters.tolist() if text in ("J", "SP")})
    if hanging:
        at = int(np.argmax(np.isin(letters, hanging)))
        raise reader.error(
            f"has hanging faces (kind {hanging[0]}), such as one of element {element[at] + 1}",
            "faces of neighbours must have the same corners",
        )
    periodic = letters == "P"
    values = faces["values"][periodic]
    partner = values[:, 0]
    if words == 4 and n >= MOST_NUMBER_IN_FLOAT:
        partner = np.ascontiguousarray(partner).view(f"{order}i4")
    pairs = _pairs(reader, element[periodic], face[periodic], partner, values[:, 1], n)
    side = ~periodic & ~np.isin(letters, ("E", ""))
    names, number = np.unique(_numbered(reader, letters, faces)[side], return_inverse=True)
    sides = tuple(re.sub(r"[^A-Za-z0-9_-]", "_", str(name)) for name in names)
    return sides, np.stack([element[side], face[side], number.reshape(-1)], axis=1), pairs


def _numbered(reader: _Reader, letters: NDArray[Any], faces: NDArray[Any]) -> NDArray[Any]:
    """Return the names of sides: their letters, with the number of the surface if these are not a condition."""
    names = letters.astype("U32")
    for at in np.flatnonzero(np.isin(letters, NUMBERED)):
        number = float(faces["values"][at, 4])
        if not number.is_integer():
            raise reader.error(f"is damaged: a face marked {letters[at]} has the surface number {number:g}")
        names[at] = f"{letters[at]}_{number:.0f}"
    return names


def _pairs(
    reader: _Reader, element: Indices, face: Indices, partner: NDArray[Any], part: NDArray[Any], n: int
) -> Indices:
    """Return periodic pairs (element, face, element, face), each once."""
    good = (partner >= 1) & (partner <= n) & (part >= 1) & (part <= 6)
    if not good.all():
        at = int(np.argmin(good))
        raise reader.error(
            f"is damaged: a periodic face of element {element[at] + 1} has face {part[at]:g} of element "
            f"{partner[at]:g} as its partner"
        )
    here = 6 * element + face
    there = 6 * (partner.astype(np.int64) - 1) + FACES[part.astype(np.int64) - 1]
    order = np.argsort(here)
    back = np.searchsorted(here[order], there)
    back = np.minimum(back, len(here) - 1)
    mutual = (here[order][back] == there) & (there[order][back] == here) if len(here) else np.ones(0, bool)
    if not mutual.all():
        at = int(np.argmin(mutual))
        raise reader.error(
            f"has a periodic face of element {element[at] + 1} whose partner, of element {partner[at]:g}, names "
            "another face",
            "periodic faces must name each other",
        )
    first = here < there
    return np.stack([here[first] // 6, here[first] % 6, there[first] // 6, there[first] % 6], axis=1)
