"""Meshes of Gmsh: complete hexahedra of any order and named surfaces, from .msh files of versions 2.2, 4.0 and 4.1.

Files may be text or binary, in either byte order. A mesh has numbered nodes and elements. An element is in a surface
or volume, and with it in one physical group, in several, or in none. Version 2 lists an element once for each group,
and 0 stands for none (with `Mesh.SaveAll` Gmsh writes 0 for all). Version 4 lists the groups of each surface and
volume. The number of a group is negative if a surface in it is reversed. Parametric coordinates of nodes are skipped.

Physical surfaces become sides of the same names, in which every character except letters, digits, _ and - is replaced
by _. A surface without a name becomes "side_" and its number. A surface that is in no physical group becomes
"surface_" and its number in Gmsh. A face in two physical surfaces has two names, which is an error of
`elements.meshes`.

Sources: https://gmsh.info/doc/texinfo/gmsh.html#MSH-file-format, and #Node-ordering for the order of the nodes of an
element.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.hexahedron import FACE_CORNERS
from ridgeline.elements.meshes.raw_mesh import FARTHEST, RawMesh
from ridgeline.runtime.errors import ConfigError, sentence

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Fields = tuple[str, int]  # a type, and the count of its numbers
Place = tuple[int, ...]
# Gmsh's numbers of the kinds of elements, with their orders.
POINT = 15
LINES = {1: 1, 8: 2, 26: 3, 27: 4, 28: 5, 62: 6, 63: 7, 64: 8, 65: 9, 66: 10}
TRIANGLES = {2: 1, 9: 2, 21: 3, 23: 4, 25: 5, 42: 6, 43: 7, 44: 8, 45: 9, 46: 10}
QUADRILATERALS = {3: 1, 10: 2, 36: 3, 37: 4, 38: 5, 47: 6, 48: 7, 49: 8, 50: 9, 51: 10}
HEXAHEDRA = {5: 1, 12: 2, 92: 3, 93: 4, 94: 5, 95: 6, 96: 7, 97: 8, 98: 9}
N_NODES = (
    {POINT: 1}
    | {kind: p + 1 for kind, p in LINES.items()}
    | {kind: (p + 1) * (p + 2) // 2 for kind, p in TRIANGLES.items()}
    | {kind: (p + 1) ** 2 for kind, p in QUADRILATERALS.items()}
    | {kind: (p + 1) ** 3 for kind, p in HEXAHEDRA.items()}
)
NAMES_OF_OTHERS = (
    dict.fromkeys((4, 11, 29, 30, 31, 71, 72, 73, 74, 75), "tetrahedra")
    | dict.fromkeys((6, 13, 18, 90, 91), "prisms")
    | dict.fromkeys((7, 14, 19), "pyramids")
)
WITHOUT_INNER_NODES = (16, 17, 39, 41, 57, 58, 59, 61, 99)  # quadrilaterals and hexahedra
VERSIONS = ("2", "2.0", "2.1", "2.2", "4", "4.0", "4.1")
NO_GROUP = 2**32
# Edges and faces of Gmsh's hexahedron by their corners, in its order.
EDGES = ((0, 1), (0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (2, 6), (3, 7), (4, 5), (4, 7), (5, 6), (6, 7))
FACES = ((0, 3, 2, 1), (0, 1, 5, 4), (0, 4, 7, 3), (1, 2, 6, 5), (2, 3, 7, 6), (4, 5, 6, 7))
CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))  # x, y, z
_REFUSED = {
    "ParametricNodes": ("has parametric nodes", "write it with Mesh.SaveParametric = 0"),
    "PartitionedEntities": (
        "is divided into partitions",
        "write it without them (gmsh.model.mesh.unpartition())",
    ),
}


def read_gmsh(path: Path) -> RawMesh:
    """Return the mesh in a .msh file. Raises ConfigError if it is not one, or has other elements than hexahedra."""
    file = read_sections(path)
    order = _order(file)
    volumes = [block for block in file.elements if block.kind in HEXAHEDRA]
    nodes = np.concatenate([block.nodes for block in volumes])
    if len(np.unique(np.concatenate([block.group for block in volumes]))) > 1:
        # Each element once, even if it is in several groups.
        nodes = nodes[np.sort(np.unique(nodes, axis=0, return_index=True)[1])]
    x, y, z = np.array(node_places(order)).T
    lattice = np.empty((len(nodes), order + 1, order + 1, order + 1), np.int64)
    lattice[:, z, y, x] = nodes
    corners = lattice[:, ::order, ::order, ::order].reshape(-1, 8)
    sides, named = _sides(file, corners)
    if not (np.abs(file.points[lattice]) < FARTHEST).all():
        raise file.error(f"has points that are not finite, or that are {FARTHEST:g} or more away")
    return RawMesh(
        source=str(path),
        points=np.linspace(-1.0, 1.0, order + 1),
        nodes=np.ascontiguousarray(np.moveaxis(file.points[lattice], -1, 0)),
        corners=corners,
        sides=sides,
        named=named,
        pairs=np.empty((0, 4), np.int64),
        numbers=np.arange(1, len(nodes) + 1),
    )


def _order(file: GmshFile) -> int:
    """Return the order of the hexahedra."""
    orders = {HEXAHEDRA[block.kind] for block in file.elements if block.kind in HEXAHEDRA}
    if not orders:
        raise file.error(
            "has no hexahedra",
            "extrude quadrilaterals by one recombined layer of elements, and give the volume a physical name",
        )
    if len(orders) > 1:
        raise file.error("has hexahedra of several orders", "all of them must have the same order")
    return orders.pop()


def _sides(file: GmshFile, corners: Indices) -> tuple[tuple[str, ...], Indices]:
    """Return the names of physical surfaces, and the faces (element, face, side) on them, int64 [k, 3]."""
    quads, groups = [np.empty((0, 4), np.int64)], [np.empty(0, np.int64)]
    for block in file.elements:
        if block.kind in TRIANGLES and (block.group < NO_GROUP).any():
            raise file.error(
                "has triangles on its surface",
                "its volume must consist of hexahedra and its surface of quadrilaterals",
            )
        if block.kind in QUADRILATERALS:
            quads.append(block.nodes[:, :4])
            groups.append(block.group)
    surface, group = np.sort(np.concatenate(quads), axis=1), np.concatenate(groups)
    matched, face = _look_up(np.sort(corners[:, FACE_CORNERS].reshape(-1, 4), axis=1), surface)
    used, side = np.unique(group, return_inverse=True)
    sides = tuple(
        _name(file.names.get(number, f"side_{number}"))
        if number < NO_GROUP
        else f"surface_{number - NO_GROUP}"
        for number in used.tolist()
    )
    if len(set(sides)) < len(sides):
        raise file.error("has two surfaces with the same name", "give them different names")
    lost = np.flatnonzero((np.bincount(matched, minlength=len(surface)) == 0) & (group < NO_GROUP))
    if len(lost):
        raise file.error(
            f'has {len(lost)} faces of the surface "{sides[side[lost[0]]]}" that belong to no hexahedron',
            "save the volumes beside it as well, by giving them a physical name",
        )
    return sides, np.stack([face // 6, face % 6, side[matched]], axis=1)


def _name(text: str) -> str:
    """Return a name that settings can contain: letters, digits, _ and -, beginning with a letter or _."""
    text = re.sub(r"[^A-Za-z0-9_-]", "_", text)
    return text if re.match(r"[A-Za-z_]", text) else f"side_{text}"


def _look_up(keys: Indices, wanted: Indices) -> tuple[Indices, Indices]:
    """Return all pairs (i, k) with wanted[i] = keys[k], as two arrays. The rows have four numbers."""
    _, number = np.unique(np.concatenate([wanted, keys]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    wanted_number, key_number = number[: len(wanted)], number[len(wanted) :]
    order = np.argsort(wanted_number, kind="stable")
    low, high = (np.searchsorted(wanted_number[order], key_number, side) for side in ("left", "right"))
    count = high - low
    key = np.repeat(np.arange(len(keys)), count)
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return order[np.repeat(low, count) + within], key


@cache
def node_places(p: int) -> tuple[Place, ...]:
    """Return the positions (x, y, z), 0 ... p, of the nodes of a hexahedron of order p, in Gmsh's order."""
    if p < 1:
        return ((0, 0, 0),) * (p + 1)
    ends = [tuple(p * x for x in corner) for corner in CORNERS]
    places = list(ends)
    for a, b in EDGES:
        places += [_between(ends[a], ends[b], t, p) for t in range(1, p)]
    for origin, along, _, other in FACES:
        for u, v in _quadrilateral(p - 2):
            first = _between(ends[origin], ends[along], u + 1, p)
            second = _between(ends[origin], ends[other], v + 1, p)
            places.append(tuple(x + y - o for x, y, o in zip(first, second, ends[origin])))
    return tuple(places) + tuple((x + 1, y + 1, z + 1) for x, y, z in node_places(p - 2))


def _quadrilateral(p: int) -> list[Place]:
    """Return the positions (u, v), 0 ... p, of the nodes of a quadrilateral of order p, in Gmsh's order."""
    if p < 1:
        return [(0, 0)] * (p + 1)
    ends: list[Place] = [(0, 0), (p, 0), (p, p), (0, p)]
    places = list(ends)
    for a, b in ((0, 1), (1, 2), (2, 3), (3, 0)):
        places += [_between(ends[a], ends[b], t, p) for t in range(1, p)]
    return places + [(u + 1, v + 1) for u, v in _quadrilateral(p - 2)]


def _between(a: Place, b: Place, t: int, p: int) -> Place:
    return tuple(x + (y - x) * t // p for x, y in zip(a, b))


class GmshElements(NamedTuple):
    """Elements of one kind, int64.

    nodes: [m, k], rows of the points; group: [m], number of the physical group, or NO_GROUP plus the number of the
    surface or volume if it is in none.
    """

    kind: int
    nodes: Indices
    group: Indices


@dataclass
class GmshFile:
    """The content of a file: points [N, 3], elements, and the names of physical surfaces by their numbers.

    A surface element of version 4, or any element of version 2, that is in several groups occurs once for each of
    them.
    """

    path: Path
    points: Array = field(default_factory=lambda: np.empty((0, 3)))
    numbers: Indices = field(default_factory=lambda: np.empty(0, np.int64))  # of the points
    elements: list[GmshElements] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def error(self, what: str, advice: str = "write it again") -> ConfigError:
        """Return the error for a file with something wrong."""
        return ConfigError(f'grid.mesh = "{self.path}" {what}. {sentence(advice)}')


def read_sections(path: Path) -> GmshFile:
    """Return the content of a .msh file. Raises ConfigError if it is not one or incomplete, and OSError."""
    file, data = GmshFile(path), path.read_bytes()
    head = re.match(
        rb"(?:\xef\xbb\xbf)?\s*\$MeshFormat\s+(\d+\.?\d*)[ \t]+([01])[ \t]+(\d+)[ \t]*\r?\n", data
    )
    if not head:
        raise file.error("is not a mesh file of Gmsh: it does not begin with $MeshFormat")
    version, binary = head[1].decode(), head[2] == b"1"
    if version not in VERSIONS or head[3] != b"8":
        form = "of the format" if head[3] == b"8" else f"with numbers of {head[3].decode()} bytes"
        raise file.error(f"has version {version} {form}", "write it with Mesh.MshFileVersion = 4.1")
    order = ">" if binary and data[head.end() : head.end() + 4] == b"\0\0\0\1" else "<"
    groups: dict[tuple[int, int], list[int]] = {}  # groups of entities, by dimension and number
    place, seen = _end_of(file, "MeshFormat", data, head.end()), set()
    while start := re.compile(rb"\s*\$(\w+)[^\n]*\n").match(data, place):
        name, place = start[1].decode(), start.end()
        seen.add(name)
        if name in _REFUSED:
            raise file.error(*_REFUSED[name])
        if name not in ("Entities", "Nodes", "Elements"):
            first, place = place, _end_of(file, name, data, place)
            if name == "PhysicalNames":
                _read_names(file, data[first:place])
            continue
        numbers: SectionNumbers
        if binary:
            numbers = BinaryNumbers(file, name, data, place, order)
        else:
            end = _end_of(file, name, data, place)
            numbers = TextNumbers(file, name, data[place : data.rfind(b"$", place, end)])
        if name == "Entities":
            groups = _read_groups(numbers, version)
        elif name == "Nodes":
            _read_nodes(file, numbers, version)
        else:
            _read_elements(file, numbers, version, groups)
        place = _end_of(file, name, data, getattr(numbers, "place", place))
        if numbers.has_more():
            raise file.error(f"is damaged: its ${name} has more numbers than its head says")
    for name in ("Nodes", "Elements"):
        if name not in seen:
            raise file.error(f"ends before its ${name}")
    return file


def _end_of(file: GmshFile, name: str, data: bytes, place: int) -> int:
    """Return the end of the line that ends a section."""
    match = re.compile(rb"\$End%s\b" % name.encode()).search(data, place)
    if not match:
        raise file.error(f"ends in its ${name}, before $End{name}")
    return match.end()


def _read_names(file: GmshFile, text: bytes) -> None:
    """Store the names of physical surfaces only: a volume may have the same number, or the same name."""
    for match in re.finditer(rb'^\s*2\s+(-?\d+)\s+"(.*)"\s*$', text, re.MULTILINE):
        file.names[abs(int(match[1]))] = match[2].decode("utf-8", "replace")


def _read_groups(numbers: SectionNumbers, version: str) -> dict[tuple[int, int], list[int]]:
    """Return the physical groups of points, curves, surfaces and volumes, by dimension and number."""
    groups_of: dict[tuple[int, int], list[int]] = {}
    (counts,) = numbers.rows(1, ("u8", 4))
    for dimension, count in enumerate(counts[0].tolist()):
        box = 3 if dimension == 0 and version == "4.1" else 6
        for _ in range(count):
            entity, _, n_groups = numbers.rows(1, ("i4", 1), ("f8", box), ("u8", 1))
            (groups,) = numbers.rows(1, ("i4", int(n_groups[0, 0])))
            groups_of[dimension, int(entity[0, 0])] = groups[0].tolist()
            if dimension > 0:  # its boundary, which is skipped
                ((number,),) = numbers.rows(1, ("u8", 1))[0].tolist()
                numbers.rows(1, ("i4", number))
    return groups_of


def _blocks(numbers: SectionNumbers, version: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield (dimension, entity, kind of elements or whether parametric, count) of each block in version 4."""
    (counts,) = numbers.rows(1, ("u8", 4 if version == "4.1" else 2))
    for _ in range(int(counts[0, 0])):
        words, count = numbers.rows(1, ("i4", 3), ("u8", 1))
        first, second, third = words[0].tolist()
        dimension, entity = (first, second) if version == "4.1" else (second, first)
        yield dimension, entity, third, int(count[0, 0])


def _read_nodes(file: GmshFile, numbers: SectionNumbers, version: str) -> None:
    tags, places = [], [file.points]
    if version.startswith("2"):
        tag, place = numbers.rows(numbers.head(), ("i4", 1), ("f8", 3))
        tags.append(tag)
        places.append(place)
    else:
        for dimension, _, parametric, count in _blocks(numbers, version):
            width = 3 + (dimension if parametric else 0)
            if version == "4.1":
                tags += numbers.rows(count, ("u8", 1))
                (place,) = numbers.rows(count, ("f8", width))
            else:
                tag, place = numbers.rows(count, ("i4", 1), ("f8", width))
                tags.append(tag)
            places.append(place[:, :3])
    file.points, file.numbers = (
        np.concatenate(places),
        np.concatenate([*tags, np.empty((0, 1), np.int64)])[:, 0],
    )


def _read_elements(
    file: GmshFile, numbers: SectionNumbers, version: str, groups: dict[tuple[int, int], list[int]]
) -> None:
    order = np.argsort(file.numbers, kind="stable")
    known = file.numbers[order]

    def add(kind: int, nodes: Indices, group: Indices) -> None:
        at = np.minimum(np.searchsorted(known, nodes), len(known) - 1)
        if not len(known) or not (known[at] == nodes).all():
            raise file.error("is damaged: its elements name nodes that it does not have")
        file.elements.append(GmshElements(kind, order[at], group))

    if version.startswith("2"):
        left = numbers.head()
        while left:
            kind, n_tags, table = numbers.run(left)
            left -= len(table)
            group, surface = table[:, 0] * (n_tags > 0), table[:, 1] * (n_tags > 1)
            add(kind, table[:, n_tags:], np.where(group == 0, NO_GROUP + np.abs(surface), np.abs(group)))
        return
    for dimension, entity, kind, count in _blocks(numbers, version):
        (table,) = numbers.rows(count, ("u8" if version == "4.1" else "i4", 1 + _n_nodes(file, kind)))
        own = [abs(group) for group in groups.get((dimension, entity), [])] or [NO_GROUP + abs(entity)]
        for number in own if dimension == 2 else own[:1]:
            add(kind, table[:, 1:], np.full(count, number))


def _n_nodes(file: GmshFile, kind: int) -> int:
    """Return the nodes of an element of a kind. Raises ConfigError for kinds that cannot be read."""
    if kind in N_NODES:
        return N_NODES[kind]
    if kind in WITHOUT_INNER_NODES:
        raise file.error("has elements without inner nodes", "set Mesh.SecondOrderIncomplete = 0 in Gmsh")
    raise file.error(
        f"has elements of kind {NAMES_OF_OTHERS.get(kind, kind)}", "all elements must be hexahedra"
    )


class SectionNumbers(Protocol):
    """The numbers of a section, which are read from its beginning."""

    def rows(self, count: int, *fields: Fields) -> list[NDArray[Any]]:
        """Return the next `count` rows as one array [count, width] for each field."""

    def has_more(self) -> bool:
        """Whether there are numbers after those that were read."""

    def head(self) -> int:
        """Return the count at the beginning of a section of version 2."""

    def run(self, most: int) -> tuple[int, int, Indices]:
        """Return kind, number of tags and rows (tags, nodes) of the next elements of one kind, in version 2."""


class TextNumbers:
    """The numbers of a text section."""

    def __init__(self, file: GmshFile, name: str, text: bytes) -> None:
        self._file, self._name, self._place = file, name, 0
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            try:
                self._numbers = np.fromstring(text, np.float64, sep=" ")
            except (DeprecationWarning, ValueError):
                raise file.error(f"is damaged: not all of its ${name} are numbers") from None

    def rows(self, count: int, *fields: Fields) -> list[NDArray[Any]]:
        width = sum(n for _, n in fields)
        end = self._place + count * width
        if min(count, width) < 0 or end > len(self._numbers):
            raise self._file.error(f"is damaged: its ${self._name} has fewer numbers than its head says")
        table = self._numbers[self._place : end].reshape(count, width)
        self._place = end
        parts: list[NDArray[Any]] = []
        first = 0
        for dtype, n in fields:
            part: NDArray[Any] = table[:, first : first + n]
            first += n
            if dtype != "f8":
                with np.errstate(invalid="ignore"):
                    whole = part.astype(np.int64)
                if not (whole == part).all():
                    raise self._file.error(f"is damaged: a number in its ${self._name} is not an integer")
                part = whole
            parts.append(part)
        return parts

    def has_more(self) -> bool:
        return self._place < len(self._numbers)

    def head(self) -> int:
        return int(self.rows(1, ("i4", 1))[0][0, 0])

    def run(self, most: int) -> tuple[int, int, Indices]:
        (head,) = self.rows(1, ("i4", 3))
        self._place -= 3
        kind, n_tags = (int(number) for number in head[0, 1:])
        if n_tags < 0:
            raise self._file.error(f"is damaged: an element in its $Elements has {n_tags} tags")
        width = 3 + n_tags + _n_nodes(self._file, kind)
        most = min(most, (len(self._numbers) - self._place) // width)
        alike, tried = 1, 1
        while alike == tried and alike < most:  # in growing steps, so that no number is examined often
            tried = min(2 * tried, most)
            some = self._numbers[self._place : self._place + tried * width].reshape(tried, width)
            differs = (some[:, 1] != kind) | (some[:, 2] != n_tags)
            alike = int(differs.argmax()) if differs.any() else tried
        (table,) = self.rows(alike, ("i4", width))
        return kind, n_tags, table[:, 3:]


class BinaryNumbers:
    """The numbers of a binary section. place: the position in the file of the next one."""

    def __init__(self, file: GmshFile, name: str, data: bytes, place: int, order: str) -> None:
        self._file, self._name, self._data, self._order, self.place = file, name, data, order, place

    def rows(self, count: int, *fields: Fields) -> list[NDArray[Any]]:
        size = sum(n * int(kind[1:]) for kind, n in fields)
        if min(count, size) < 0 or self.place + count * size > len(self._data):
            raise self._file.error(f"ends in its ${self._name}")
        if count == 0:
            return [np.empty((0, n), np.float64 if kind == "f8" else np.int64) for kind, n in fields]
        dtype = np.dtype([(f"f{i}", f"{self._order}{kind}", (n,)) for i, (kind, n) in enumerate(fields)])
        table = np.frombuffer(self._data, dtype, count, self.place)
        self.place += count * dtype.itemsize
        return [
            table[f"f{i}"].astype(np.float64 if kind == "f8" else np.int64)
            for i, (kind, _) in enumerate(fields)
        ]

    def has_more(self) -> bool:
        return not self._data[self.place : self.place + 20].lstrip().startswith(b"$End" + self._name.encode())

    def head(self) -> int:
        end = self._data.find(b"\n", self.place, self.place + 32)
        text = self._data[self.place : max(end, self.place)].strip()
        if not text.isdigit():
            raise self._file.error(f"is damaged: its ${self._name} does not begin with a number")
        self.place = end + 1
        return int(text)

    def run(self, most: int) -> tuple[int, int, Indices]:
        kind, count, n_tags = (int(number) for number in self.rows(1, ("i4", 3))[0][0])
        if not 1 <= count <= most or n_tags < 0:
            raise self._file.error(f"is damaged: it has a block of {count} elements, {most} before its end")
        (table,) = self.rows(count, ("i4", 1 + n_tags + _n_nodes(self._file, kind)))
        return kind, n_tags, table[:, 1:]
