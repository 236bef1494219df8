"""Meshes of hexahedra written to files by tests: boxes whose elements are shuffled and turned."""

from itertools import permutations, product
from pathlib import Path

import numpy as np

from ridgeline.elements.mesh import BoxMesh, face_index
from ridgeline.elements.meshes.raw_mesh import RawMesh
from ridgeline.io.gmsh import node_places

HEXAHEDRON = {1: 5, 2: 12, 3: 92, 4: 93, 8: 97}  # Gmsh's kinds of elements, by order
QUADRILATERAL = {1: 3, 2: 10, 3: 36, 4: 37, 8: 49}


def turns():
    """Return the 24 ways to turn an array [z, y, x] as a body: (axes, flips)."""
    found = []
    for axes in permutations(range(3)):
        sign = round(np.linalg.det(np.eye(3)[list(axes)]))
        found += [(axes, flips) for flips in product((1, -1), repeat=3) if sign * np.prod(flips) == 1]
    return found


TURNS = turns()


def turn(lattice, axes, flips):
    return lattice.transpose(axes)[tuple(slice(None, None, flip) for flip in flips)]


class BoxFile:
    """A box of hexahedra as a file holds it: points [N, 3], lattice [E, q, q, q] into them, corners of side faces."""

    def __init__(
        self, elements, lengths=(1.0, 1.0, 1.0), order=1, seed=None, bend=None, origin=(0.0, 0.0, 0.0)
    ):
        self._take(BoxMesh.box(elements, lengths, origin), order, seed, bend)

    @classmethod
    def of(cls, mesh, order, seed=None):
        """Return another mesh as a file of this kind holds it, by nodes of equal distance."""
        file = cls.__new__(cls)
        file._take(mesh, order, seed)
        return file

    def _take(self, mesh, order, seed=None, bend=None):
        positions = mesh.range(0, mesh.n_elements)
        places = mesh.places(positions, np.linspace(-1, 1, order + 1))
        ids = mesh.ids(positions, (order,) * 3)
        self.order = order
        self.points = np.empty((ids.max() + 1, 3))
        self.points[ids] = np.moveaxis(places, 0, -1)
        if bend is not None:
            self.points = np.stack(bend(*self.points.T), axis=1)
        self.lattice = ids
        self.sides = {}
        for name in mesh.sides:
            at = zip(*mesh.side_faces(positions, name))
            self.sides[name] = np.stack([ids[e][None][face_index(face)][0] for e, face in at])
        if seed is not None:
            rng = np.random.default_rng(seed)
            chosen = rng.permutation(len(ids))
            self.lattice = np.stack([turn(ids[e], *TURNS[rng.integers(24)]) for e in chosen])
            number = rng.permutation(len(self.points))
            moved = np.empty_like(self.points)
            moved[number] = self.points
            self.points, self.lattice = moved, number[self.lattice]
            self.sides = {name: number[faces] for name, faces in self.sides.items()}

    def write(self, path: Path) -> Path:
        """Write a .msh file of version 2.2."""
        p = self.order
        x, y, z = np.array(node_places(p)).T
        names = list(self.sides)
        lines = ["$MeshFormat", "2.2 0 8", "$EndMeshFormat", "$PhysicalNames", str(len(names) + 1)]
        lines += [f'2 {i + 1} "{name}"' for i, name in enumerate(names)] + [
            '3 99 "fluid"',
            "$EndPhysicalNames",
        ]
        lines += ["$Nodes", str(len(self.points))]
        lines += [f"{i + 1} {a!r} {b!r} {c!r}" for i, (a, b, c) in enumerate(self.points.tolist())]
        lines += ["$EndNodes", "$Elements"]
        cells = []
        for i, name in enumerate(names):
            for face in self.sides[name]:
                cells.append((QUADRILATERAL[p], i + 1, quadrilateral(face)))
        cells += [(HEXAHEDRON[p], 99, element[z, y, x]) for element in self.lattice]
        lines += [str(len(cells))]
        for n, (kind, tag, nodes) in enumerate(cells):
            lines.append(f"{n + 1} {kind} 2 {tag} {tag} {' '.join(str(node + 1) for node in nodes)}")
        path.write_text("\n".join([*lines, "$EndElements", ""]))
        return path

    def raw(self) -> RawMesh:
        """Return what a reader makes of it."""
        p = self.order
        corners = self.lattice[:, ::p, ::p, ::p].reshape(-1, 8)
        keys = {
            tuple(sorted(c[i, j] for i, j in ((0, 0), (0, -1), (-1, 0), (-1, -1)))): side
            for side, name in enumerate(self.sides)
            for c in self.sides[name]
        }
        named = []
        for e, element in enumerate(self.lattice):
            for face in range(6):
                c = element[None][face_index(face)][0]
                key = tuple(sorted(c[i, j] for i, j in ((0, 0), (0, -1), (-1, 0), (-1, -1))))
                if key in keys:
                    named.append((e, face, keys[key]))
        return RawMesh(
            source="box.msh",
            points=np.linspace(-1, 1, p + 1),
            nodes=np.moveaxis(self.points[self.lattice], -1, 0).copy(),
            corners=corners,
            sides=tuple(self.sides),
            named=np.array(named, np.int64).reshape(-1, 3),
            pairs=np.empty((0, 4), np.int64),
            numbers=np.arange(1, len(corners) + 1),
        )


def quadrilateral(face):
    """Return the nodes of a face [q, q] in Gmsh's order, as far as readers look: corners first."""
    corners = [face[0, 0], face[0, -1], face[-1, -1], face[-1, 0]]
    return corners + [node for node in face.ravel() if node not in corners]
