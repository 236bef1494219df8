"""Meshes of Gmsh: complete hexahedra of any order, and named surfaces. Read by meshio.

Order of the nodes of an element: https://gmsh.info/doc/texinfo/gmsh.html#Node-ordering. Physical surfaces become
sides of the same names, where every character but letters, digits, _ and - is replaced by _. A surface without a name
becomes "side_" and its number. A negative number is that of a surface turned round. A face in two surfaces has two
names, which `elements.meshes` refuses.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.hexahedron import FACE_CORNERS
from ridgeline.elements.meshes.raw import FARTHEST, RawMesh
from ridgeline.runtime.errors import ConfigError

Indices = NDArray[np.int64]
Place = tuple[int, ...]

HEXAHEDRA = {"hexahedron": 1, "hexahedron27": 2} | {f"hexahedron{(p + 1) ** 3}": p for p in range(3, 10)}
QUADRILATERALS = ("quad", "quad9", *(f"quad{(p + 1) ** 2}" for p in range(3, 10)))
IGNORED = ("vertex", "line")  # of names: points and lines have no volume and no face
# Edges and faces of Gmsh's hexahedron by its corners, in its order.
EDGES = ((0, 1), (0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (2, 6), (3, 7), (4, 5), (4, 7), (5, 6), (6, 7))
FACES = ((0, 3, 2, 1), (0, 1, 5, 4), (0, 4, 7, 3), (1, 2, 6, 5), (2, 3, 7, 6), (4, 5, 6, 7))
CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))  # x, y, z
# Where meshio puts the nodes 8 ... 26 of the second order, in VTK's order: the numbers that Gmsh gives them.
VTK_27 = (8, 11, 13, 9, 16, 18, 19, 17, 10, 12, 14, 15, 22, 23, 21, 24, 20, 25, 26)

ADVICE = {  # by how meshio's words begin
    "parametric nodes": "write it with Mesh.SaveParametric = 0",
    "Incompatible cell data 'gmsh:physical'": "write it with Mesh.SaveAll = 0, so that it holds no points, lines, "
    "surfaces and volumes that are in no physical group",
}


def _quadrilateral(p: int) -> list[Place]:
    """Return the places (u, v) of the nodes of a quadrilateral of order p, 0 ... p, in Gmsh's order."""
    if p < 1:
        return [(0, 0)] * (p + 1)
    ends: list[Place] = [(0, 0), (p, 0), (p, p), (0, p)]
    found = list(ends)
    for a, b in ((0, 1), (1, 2), (2, 3), (3, 0)):
        found += [_between(ends[a], ends[b], t, p) for t in range(1, p)]
    return found + [(u + 1, v + 1) for u, v in _quadrilateral(p - 2)]


def _between(a: Place, b: Place, t: int, p: int) -> Place:
    return tuple(x + (y - x) * t // p for x, y in zip(a, b))


@cache
def node_places(p: int) -> tuple[Place, ...]:
    """Return the places (x, y, z) in the lattice 0 ... p of the nodes of a hexahedron of order p, in Gmsh's order."""
    if p < 1:
        return ((0, 0, 0),) * (p + 1)
    ends = [tuple(p * x for x in corner) for corner in CORNERS]
    found = list(ends)
    for a, b in EDGES:
        found += [_between(ends[a], ends[b], t, p) for t in range(1, p)]
    for origin, along, _, other in FACES:
        for u, v in _quadrilateral(p - 2):
            first = _between(ends[origin], ends[along], u + 1, p)
            second = _between(ends[origin], ends[other], v + 1, p)
            found.append(tuple(x + y - o for x, y, o in zip(first, second, ends[origin])))
    return tuple(found) + tuple((x + 1, y + 1, z + 1) for x, y, z in node_places(p - 2))


def read_gmsh(path: Path) -> RawMesh:
    """Return the mesh of a .msh file. Raises ConfigError for what is no such file, or has other elements."""
    mesh = _read(path)
    none = [None] * len(mesh.cells)
    of_block = (mesh.cell_data.get(f"gmsh:{kind}", none) for kind in ("physical", "geometrical"))
    blocks = list(zip(mesh.cells, *of_block))
    groups = _groups_of_surfaces(path)
    cells = [
        (block.type, block.data, tags) for block, tags, _ in blocks if not block.type.startswith(IGNORED)
    ]
    for block, _, surface in blocks:
        if block.type.startswith("quad") and surface is not None and len(surface):
            for group in groups.get(int(surface[0]), ())[1:]:  # the first is among the tags
                cells.append((block.type, block.data, np.full(len(block.data), group)))
    volumes = [(kind, data) for kind, data, _ in cells if not kind.startswith(("quad", "triangle"))]
    order = _order(path, {kind for kind, _ in volumes})
    if any(
        data.shape[1] != (order + 1) ** 3 for _, data in volumes
    ):  # where the file ends in the last element
        raise _error(path, f"is damaged: not all hexahedra have {(order + 1) ** 3} nodes", "write it again")
    nodes = np.concatenate([data for _, data in volumes]).astype(np.int64)
    places = list(node_places(order))
    if order == 2:
        places[8:] = [places[number] for number in VTK_27]
    x, y, z = np.array(places).T
    lattice = np.empty((len(nodes), order + 1, order + 1, order + 1), np.int64)
    lattice[:, z, y, x] = nodes
    corners = lattice[:, ::order, ::order, ::order].reshape(-1, 8)
    sides, named = _sides(path, cells, corners)
    points = np.asarray(mesh.points, np.float64)
    known = lattice.min() >= 0 and lattice.max() < len(points)
    if not known or not (np.abs(points[lattice]) < FARTHEST).all():
        what = f"names points that it does not have, or that are not finite, or {FARTHEST:g} away and more"
        raise _error(path, what, "write it again")
    return RawMesh(
        source=str(path),
        points=np.linspace(-1.0, 1.0, order + 1),
        nodes=np.ascontiguousarray(np.moveaxis(points[lattice], -1, 0)),
        corners=corners,
        sides=sides,
        named=named,
        pairs=np.empty((0, 4), np.int64),
        numbers=np.arange(1, len(nodes) + 1),
    )


def _error(path: Path, what: str, advice: str) -> ConfigError:
    return ConfigError(f'grid.mesh = "{path}" {what}; {advice}')


def _read(path: Path) -> Any:
    """Return meshio's mesh; ConfigError for what it cannot read."""
    import meshio

    said = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(),
        ):
            # NumPy's word for a list of numbers that ends before it should, which meshio goes on with.
            warnings.simplefilter("error", DeprecationWarning)
            return meshio.gmsh.read(path)
    except (OSError, MemoryError):
        raise
    except (
        BaseException
    ) as problem:  # of a damaged file meshio raises whatever it meets first, SystemExit too
        if isinstance(problem, KeyboardInterrupt):
            raise
        why = re.sub(r"\s+", " ", str(problem)).strip() or type(problem).__name__
        advice = next((words for start, words in ADVICE.items() if why.startswith(start)), "write it again")
        raise _error(path, f"cannot be read as a mesh of Gmsh ({why[:120]})", advice) from None


def _names_of_surfaces(path: Path) -> dict[int, str]:
    """Return the names of physical surfaces by their numbers: meshio loses one that a volume has too."""
    with path.open("rb") as file:
        before = itertools.takewhile(
            lambda line: not line.startswith((b"$Nodes", b"$EndPhysicalNames")), file
        )
        found = [re.fullmatch(rb'\s*2\s+(-?\d+)\s+"(.*)"\s*', line) for line in before]
    return {abs(int(match[1])): match[2].decode("utf-8", "replace") for match in found if match}


def _groups_of_surfaces(path: Path) -> dict[int, list[int]]:
    """Return the physical groups of each surface by its number: meshio tells the first alone.

    Empty for versions of the format before 4, which list an element once for each group.
    """
    found: dict[int, list[int]] = {}
    with path.open("rb") as file:
        lines = iter(file.readline, b"")
        version, binary, size = next(line for line in lines if line[:1].isdigit()).split()[:3]
        if not version.startswith(b"4") or not any(line.strip() == b"$Entities" for line in lines):
            return found

        def take(dtype: str, count: int) -> NDArray[Any]:
            return np.fromfile(file, dtype, count, sep="" if int(binary) else " ")

        counts = take(f"u{int(size)}", 4)
        for dimension, number_of_entities in enumerate(counts):
            box = 3 if dimension == 0 and version == b"4.1" else 6
            for _ in range(int(number_of_entities)):
                number = int(take("i4", 1)[0])
                take("f8", box)
                groups = take("i4", int(take(f"u{int(size)}", 1)[0]))
                if dimension > 0:
                    take("i4", int(take(f"u{int(size)}", 1)[0]))  # what bounds it
                if dimension == 2:
                    found[number] = groups.tolist()
    return found


def _order(path: Path, kinds: set[str]) -> int:
    """Return the order of the hexahedra."""
    if not kinds:
        raise _error(
            path,
            "has no hexahedra",
            "extrude quadrilaterals by one layer of elements, recombined, and give the volume a physical name",
        )
    others = sorted(kinds - set(HEXAHEDRA))
    if "hexahedron20" in others:
        raise _error(path, "has hexahedra without inner nodes", "set Mesh.SecondOrderIncomplete = 0 in Gmsh")
    if others:
        raise _error(path, f"has elements of kind {', '.join(others)}", "need hexahedra alone")
    if len(kinds) > 1:
        raise _error(path, "has hexahedra of several orders", "need one order")
    return HEXAHEDRA[kinds.pop()]


def _sides(
    path: Path, cells: list[tuple[str, Any, Any]], corners: Indices
) -> tuple[tuple[str, ...], Indices]:
    """Return the names of physical surfaces, and the faces (element, face, side) on them, int64 [k, 3]."""
    names = _names_of_surfaces(path)
    quads, tags = [np.empty((0, 4), np.int64)], [np.empty(0, np.int64)]
    for kind, data, numbers in cells:
        if kind.startswith("triangle"):
            raise _error(path, "has triangles on its surface", "need hexahedra alone, and quadrilaterals")
        if kind.startswith("quad"):
            if kind not in QUADRILATERALS or numbers is None:
                raise _error(
                    path, f"has surface elements of kind {kind} without name", "give physical names to them"
                )
            quads.append(np.asarray(data[:, :4], np.int64))
            tags.append(np.asarray(numbers, np.int64))
    surface, tag = np.sort(np.concatenate(quads), axis=1), np.abs(np.concatenate(tags))
    used, side = np.unique(tag, return_inverse=True)
    found, face = _look_up(np.sort(corners[:, FACE_CORNERS].reshape(-1, 4), axis=1), surface)
    sides = tuple(_name(names.get(int(number), f"side_{number}")) for number in used)
    if len(set(sides)) < len(sides):
        raise _error(path, "has two surfaces of one name", "call them differently")
    lost = np.flatnonzero(np.bincount(found, minlength=len(surface)) == 0)
    if len(lost):
        raise _error(
            path,
            f'has {len(lost)} faces of the surface "{sides[side[lost[0]]]}" that no hexahedron has',
            "save the volumes beside it, too: give them a physical name",
        )
    return sides, np.stack([face // 6, face % 6, side[found]], axis=1)


def _name(text: str) -> str:
    """Return a name as settings can hold it: letters, digits, _ and -, a letter or _ first."""
    text = re.sub(r"[^A-Za-z0-9_-]", "_", text)
    return text if re.match(r"[A-Za-z_]", text) else f"side_{text}"


def _look_up(keys: Indices, wanted: Indices) -> tuple[Indices, Indices]:
    """Return (i, k) of all wanted[i] = keys[k]; rows of four numbers."""
    together = np.concatenate([wanted, keys])
    _, number = np.unique(together, axis=0, return_inverse=True)
    number = number.reshape(-1)
    mine, theirs = number[: len(wanted)], number[len(wanted) :]
    order = np.argsort(mine, kind="stable")
    low, high = (np.searchsorted(mine[order], theirs, side) for side in ("left", "right"))
    many = high - low
    key = np.repeat(np.arange(len(keys)), many)
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    return order[np.repeat(low, many) + within], key
