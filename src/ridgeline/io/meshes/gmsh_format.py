"""The sections of Gmsh's .msh files: versions 2.2, 4.0 and 4.1, as text or binary, in either byte order.

A mesh has numbered nodes and elements. An element is in a surface or volume, and with it in a physical group, in
several, or in none. Version 2 lists an element once for each group, and 0 is none (with `Mesh.SaveAll` Gmsh writes 0
for all). Version 4 lists the groups of each surface and volume. The number of a group is negative where a surface in
it is reversed. Parametric coordinates of nodes are skipped.
Source: https://gmsh.info/doc/texinfo/gmsh.html#MSH-file-format.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Fields = tuple[str, int]  # a type and how many numbers of it

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
VERSIONS = ("2", "2.0", "2.1", "2.2", "4", "4.0", "4.1")
NO_GROUP = 2**32
WITHOUT_INNER_NODES = (16, 17, 39, 41, 57, 58, 59, 61, 99)  # quadrilaterals and hexahedra


class GmshElements(NamedTuple):
    """Elements of one kind, int64.

    nodes: [m, k], rows of the points. group: [m], number of the physical group; in none, NO_GROUP plus that of the
    surface or volume.
    """

    kind: int
    nodes: Indices
    group: Indices


@dataclass
class GmshFile:
    """What a file holds: points [N, 3], elements, and the names of physical surfaces by their numbers.

    An element that is in several groups is there once for each of them if it is a surface element of version 4, or
    of any kind in version 2.
    """

    path: Path
    points: Array = field(default_factory=lambda: np.empty((0, 3)))
    numbers: Indices = field(default_factory=lambda: np.empty(0, np.int64))  # of the points
    elements: list[GmshElements] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def error(self, what: str, advice: str = "write it again") -> ConfigError:
        """Return the error that says what is wrong with the file."""
        return ConfigError(f'grid.mesh = "{self.path}" {what}; {advice}')


class _Text:
    """The numbers of a section of text, taken from the front."""

    def __init__(self, file: GmshFile, name: str, text: bytes) -> None:
        self._file, self._name, self._place = file, name, 0
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            try:
                self._numbers = np.fromstring(text, np.float64, sep=" ")
            except (DeprecationWarning, ValueError):
                raise file.error(f"is damaged: not all of its ${name} are numbers") from None

    def rows(self, count: int, *fields: Fields) -> list[NDArray[Any]]:
        """Return `count` rows, as one array [count, width] for each field."""
        width = sum(n for _, n in fields)
        end = self._place + count * width
        if min(count, width) < 0 or end > len(self._numbers):
            raise self._file.error(f"is damaged: its ${self._name} has fewer numbers than it announces")
        table = self._numbers[self._place : end].reshape(count, width)
        self._place = end
        found: list[NDArray[Any]] = []
        first = 0
        for dtype, n in fields:
            part: NDArray[Any] = table[:, first : first + n]
            first += n
            if dtype != "f8":
                with np.errstate(invalid="ignore"):
                    whole = part.astype(np.int64)
                if not (whole == part).all():
                    raise self._file.error(f"is damaged: a number in its ${self._name} is not whole")
                part = whole
            found.append(part)
        return found

    def has_more(self) -> bool:
        """Say whether there are numbers behind those that were taken."""
        return self._place < len(self._numbers)

    def head(self) -> int:
        """Return the count that a section of version 2 begins with."""
        return int(self.rows(1, ("i4", 1))[0][0, 0])

    def run(self, most: int) -> tuple[int, int, Indices]:
        """Return kind, number of tags and rows (tags, nodes) of the next elements of version 2 that are alike."""
        (head,) = self.rows(1, ("i4", 3))
        self._place -= 3
        kind, n_tags = (int(number) for number in head[0, 1:])
        if n_tags < 0:
            raise self._file.error(f"is damaged: an element in its $Elements has {n_tags} tags")
        width = 3 + n_tags + _n_nodes(self._file, kind)
        most = min(most, (len(self._numbers) - self._place) // width)
        alike, tried = 1, 1
        while alike == tried and alike < most:  # ever more at once, so that no number is looked at often
            tried = min(2 * tried, most)
            some = self._numbers[self._place : self._place + tried * width].reshape(tried, width)
            differs = (some[:, 1] != kind) | (some[:, 2] != n_tags)
            alike = int(differs.argmax()) if differs.any() else tried
        (table,) = self.rows(alike, ("i4", width))
        return kind, n_tags, table[:, 3:]


class _Bytes:
    """The numbers of a binary section, taken from `place` on."""

    def __init__(self, file: GmshFile, name: str, data: bytes, place: int, order: str) -> None:
        self._file, self._name, self._data, self._order, self.place = file, name, data, order, place

    def rows(self, count: int, *fields: Fields) -> list[NDArray[Any]]:
        """Return `count` rows, as one array [count, width] for each field."""
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
        """Say whether there are bytes between those that were taken and the end of the section."""
        return not self._data[self.place : self.place + 20].lstrip().startswith(b"$End" + self._name.encode())

    def head(self) -> int:
        """Return the count that a section of version 2 begins with: a line of text."""
        end = self._data.find(b"\n", self.place, self.place + 32)
        text = self._data[self.place : max(end, self.place)].strip()
        if not text.isdigit():
            raise self._file.error(f"is damaged: its ${self._name} does not begin with a number")
        self.place = end + 1
        return int(text)

    def run(self, most: int) -> tuple[int, int, Indices]:
        """Return kind, number of tags and rows (tags, nodes) of the next block of elements of version 2."""
        kind, count, n_tags = (int(number) for number in self.rows(1, ("i4", 3))[0][0])
        if not 1 <= count <= most or n_tags < 0:
            raise self._file.error(f"is damaged: it has a block of {count} elements, {most} before its end")
        (table,) = self.rows(count, ("i4", 1 + n_tags + _n_nodes(self._file, kind)))
        return kind, n_tags, table[:, 1:]


def read_sections(path: Path) -> GmshFile:
    """Return what a .msh file holds. Raises ConfigError for what is no such file, or is not whole; OSError."""
    file, data = GmshFile(path), path.read_bytes()
    head = re.match(
        rb"(?:\xef\xbb\xbf)?\s*\$MeshFormat\s+(\d+\.?\d*)[ \t]+([01])[ \t]+(\d+)[ \t]*\r?\n", data
    )
    if not head:
        raise file.error("is not a mesh file of Gmsh: it does not begin with $MeshFormat")
    version, binary = head[1].decode(), head[2] == b"1"
    if version not in VERSIONS or head[3] != b"8":
        form = "of the format" if head[3] == b"8" else f"with numbers of {head[3].decode()} bytes"
        raise file.error(f"is of version {version} {form}", "write it with Mesh.MshFileVersion = 4.1")
    order = ">" if binary and data[head.end() : head.end() + 4] == b"\0\0\0\1" else "<"
    groups: dict[tuple[int, int], list[int]] = {}  # of entities, by dimension and number
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
        numbers: _Text | _Bytes
        if binary:
            numbers = _Bytes(file, name, data, place, order)
        else:
            end = _end_of(file, name, data, place)
            numbers = _Text(file, name, data[place : data.rfind(b"$", place, end)])
        if name == "Entities":
            groups = _read_groups(numbers, version)
        elif name == "Nodes":
            _read_nodes(file, numbers, version)
        else:
            _read_elements(file, numbers, version, groups)
        place = _end_of(file, name, data, getattr(numbers, "place", place))
        if numbers.has_more():
            raise file.error(f"is damaged: its ${name} has more numbers than it announces")
    for name in ("Nodes", "Elements"):
        if name not in seen:
            raise file.error(f"ends before its ${name}")
    return file


_REFUSED = {
    "ParametricNodes": ("has parametric nodes", "write it with Mesh.SaveParametric = 0"),
    "PartitionedEntities": ("is cut into partitions", "write it without them: gmsh.model.mesh.unpartition()"),
}


def _end_of(file: GmshFile, name: str, data: bytes, place: int) -> int:
    """Return where the line ends that ends a section."""
    found = re.compile(rb"\$End%s\b" % name.encode()).search(data, place)
    if not found:
        raise file.error(f"ends in its ${name}, before $End{name}")
    return found.end()


def _read_names(file: GmshFile, text: bytes) -> None:
    """Keep the names of physical surfaces: a volume may have the same number, or the same name."""
    for found in re.finditer(rb'^\s*2\s+(-?\d+)\s+"(.*)"\s*$', text, re.MULTILINE):
        file.names[abs(int(found[1]))] = found[2].decode("utf-8", "replace")


def _read_groups(numbers: _Text | _Bytes, version: str) -> dict[tuple[int, int], list[int]]:
    """Return the physical groups of points, curves, surfaces and volumes, by dimension and number."""
    found: dict[tuple[int, int], list[int]] = {}
    (counts,) = numbers.rows(1, ("u8", 4))
    for dimension, count in enumerate(counts[0].tolist()):
        box = 3 if dimension == 0 and version == "4.1" else 6
        for _ in range(count):
            entity, _, n_groups = numbers.rows(1, ("i4", 1), ("f8", box), ("u8", 1))
            (groups,) = numbers.rows(1, ("i4", int(n_groups[0, 0])))
            found[dimension, int(entity[0, 0])] = groups[0].tolist()
            if dimension > 0:  # what bounds it
                ((number,),) = numbers.rows(1, ("u8", 1))[0].tolist()
                numbers.rows(1, ("i4", number))
    return found


def _blocks(numbers: _Text | _Bytes, version: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield (dimension, entity, kind or whether parametric, count) of the blocks of a section of version 4."""
    (counts,) = numbers.rows(1, ("u8", 4 if version == "4.1" else 2))
    for _ in range(int(counts[0, 0])):
        words, count = numbers.rows(1, ("i4", 3), ("u8", 1))
        first, second, third = words[0].tolist()
        dimension, entity = (first, second) if version == "4.1" else (second, first)
        yield dimension, entity, third, int(count[0, 0])


def _read_nodes(file: GmshFile, numbers: _Text | _Bytes, version: str) -> None:
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
    file: GmshFile, numbers: _Text | _Bytes, version: str, groups: dict[tuple[int, int], list[int]]
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
        mine = [abs(group) for group in groups.get((dimension, entity), [])] or [NO_GROUP + abs(entity)]
        for number in mine if dimension == 2 else mine[:1]:
            add(kind, table[:, 1:], np.full(count, number))


def _n_nodes(file: GmshFile, kind: int) -> int:
    """Return the nodes of an element of a kind. Raises ConfigError for a kind that no mesh of hexahedra has."""
    if kind in N_NODES:
        return N_NODES[kind]
    if kind in WITHOUT_INNER_NODES:
        raise file.error("has elements without inner nodes", "set Mesh.SecondOrderIncomplete = 0 in Gmsh")
    raise file.error(f"has elements of kind {NAMES_OF_OTHERS.get(kind, kind)}", "need hexahedra alone")
