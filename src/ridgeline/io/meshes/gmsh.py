"""Meshes of Gmsh: complete hexahedra of any order, and named surfaces.

Order of the nodes of an element: https://gmsh.info/doc/texinfo/gmsh.html#Node-ordering. Physical surfaces become
sides of the same names, where every character but letters, digits, _ and - is replaced by _. A surface without a name
becomes "side_" and its number. A surface that is in no physical group becomes "surface_" and its number in Gmsh.
A face in two physical surfaces has two names, which `elements.meshes` refuses.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.hexahedron import FACE_CORNERS
from ridgeline.elements.meshes.raw_mesh import FARTHEST, RawMesh
from ridgeline.io.meshes.gmsh_format import (
    HEXAHEDRA,
    NO_GROUP,
    QUADRILATERALS,
    TRIANGLES,
    GmshFile,
    read_sections,
)

Indices = NDArray[np.int64]
Place = tuple[int, ...]

# Edges and faces of Gmsh's hexahedron by its corners, in its order.
EDGES = ((0, 1), (0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (2, 6), (3, 7), (4, 5), (4, 7), (5, 6), (6, 7))
FACES = ((0, 3, 2, 1), (0, 1, 5, 4), (0, 4, 7, 3), (1, 2, 6, 5), (2, 3, 7, 6), (4, 5, 6, 7))
CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))  # x, y, z


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
    file = read_sections(path)
    order = _order(file)
    volumes = [block for block in file.elements if block.kind in HEXAHEDRA]
    nodes = np.concatenate([block.nodes for block in volumes])
    if len(np.unique(np.concatenate([block.group for block in volumes]))) > 1:
        nodes = nodes[np.sort(np.unique(nodes, axis=0, return_index=True)[1])]  # once, whatever its groups
    x, y, z = np.array(node_places(order)).T
    lattice = np.empty((len(nodes), order + 1, order + 1, order + 1), np.int64)
    lattice[:, z, y, x] = nodes
    corners = lattice[:, ::order, ::order, ::order].reshape(-1, 8)
    sides, named = _sides(file, corners)
    if not (np.abs(file.points[lattice]) < FARTHEST).all():
        raise file.error(f"has points that are not finite, or {FARTHEST:g} away and more")
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
            "extrude quadrilaterals by one layer of elements, recombined, and give the volume a physical name",
        )
    if len(orders) > 1:
        raise file.error("has hexahedra of several orders", "need one order")
    return orders.pop()


def _sides(file: GmshFile, corners: Indices) -> tuple[tuple[str, ...], Indices]:
    """Return the names of physical surfaces, and the faces (element, face, side) on them, int64 [k, 3]."""
    quads, groups = [np.empty((0, 4), np.int64)], [np.empty(0, np.int64)]
    for block in file.elements:
        if block.kind in TRIANGLES and (block.group < NO_GROUP).any():
            raise file.error("has triangles on its surface", "need hexahedra alone, and quadrilaterals")
        if block.kind in QUADRILATERALS:
            quads.append(block.nodes[:, :4])
            groups.append(block.group)
    surface, group = np.sort(np.concatenate(quads), axis=1), np.concatenate(groups)
    found, face = _look_up(np.sort(corners[:, FACE_CORNERS].reshape(-1, 4), axis=1), surface)
    used, side = np.unique(group, return_inverse=True)
    sides = tuple(
        _name(file.names.get(number, f"side_{number}"))
        if number < NO_GROUP
        else f"surface_{number - NO_GROUP}"
        for number in used.tolist()
    )
    if len(set(sides)) < len(sides):
        raise file.error("has two surfaces of one name", "call them differently")
    lost = np.flatnonzero((np.bincount(found, minlength=len(surface)) == 0) & (group < NO_GROUP))
    if len(lost):
        raise file.error(
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
