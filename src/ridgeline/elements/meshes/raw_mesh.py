"""A mesh of hexahedra as a file has it: the points of the elements, their shared corners, and the named faces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.hexahedron import FACE_CORNERS
from ridgeline.runtime.errors import ConfigError

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
FARTHEST = 1e75  # largest coordinate of a mesh: products of four larger numbers are not finite


@dataclass(frozen=True, eq=False)
class RawMesh:
    """All elements of a file, in its order and orientation; corners, faces and points as in `elements.hexahedron`.

    source: the name of the file. points: [q], where the nodes lie in [-1, 1], the same in all directions, ends
    included. nodes: [3, E, q, q, q], their coordinates x, y, z. corners: [E, 8], numbers of vertices, equal where
    elements share a vertex. sides: names of the sides. named: int64 [k, 3], (element, face, side). pairs: int64
    [p, 4], the periodic pairs (element, face, element, face) of the file. numbers: [E], of the elements in the file.
    """

    source: str
    points: Array
    nodes: Array
    corners: Indices
    sides: tuple[str, ...]
    named: Indices
    pairs: Indices
    numbers: Indices

    @property
    def n_elements(self) -> int:
        """The number of elements."""
        return len(self.corners)

    def corner_places(self) -> Array:
        """Return the coordinates of the corners, [E, 8, 3]."""
        ends = self.nodes[:, :, :: len(self.points) - 1, :: len(self.points) - 1, :: len(self.points) - 1]
        return np.ascontiguousarray(ends.reshape(3, -1, 8).transpose(1, 2, 0))

    def name(self, element: int, face: int | None = None) -> str:
        """Return words for an element or one of its faces, with the place of its centre."""
        places = self.corner_places()[element]
        words = f"element {self.numbers[element]}"
        if face is not None:
            places = places[FACE_CORNERS[face]]
            words = f"a face of element {self.numbers[element]}"
        x, y, z = places.mean(axis=0)
        return f"{words} (about x={x:.6g}, y={y:.6g}, z={z:.6g})"

    def error(self, what: str, advice: str) -> ConfigError:
        """Return the error that says what is wrong with the file. advice: a sentence without its full stop."""
        return ConfigError(f'grid.mesh = "{self.source}": {what}. {advice}.')
