"""What every mesh of hexahedra offers: a box (`elements.mesh.BoxMesh`), or a mesh from a file (`elements.meshes`).

Elements are named by *positions*: an int64 array, elements first, whose meaning only the mesh itself knows. Elements
have a curve order 0 ... n_elements - 1, and ranks own ranges of it. The faces of an element are 0 ... 5: its lower
and upper r, s and t, in the order of `elements.mesh.SIDES`. A face's points are (z, y), (z, x) or (y, x). Nothing
here communicates.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.parallel.partition import Triple

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Mesh(Protocol):
    """A mesh of hexahedra, as discretisations and models use it."""

    @property
    def n_elements(self) -> int:
        """The number of elements of the whole mesh."""

    @property
    def axis_aligned(self) -> bool:
        """Whether all elements are boxes along the axes, with the edges `box_lengths`."""

    @property
    def advice(self) -> str:
        """What a user should check if the map of an element folds, as words for an error message."""

    @property
    def regular(self) -> bool:
        """Whether the axes of neighbours agree everywhere: r of one is r of the other, in the same direction."""

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the sides; those of a box are SIDES, including periodic ones."""

    def range(self, first: int, count: int) -> Indices:
        """Return the positions of elements first ... first + count - 1 of the curve order."""

    def spread(self, most: int) -> Indices:
        """Return the positions of at most `most` elements, evenly spread over the mesh."""

    def numbers(self, positions: Indices) -> Indices:
        """Return the numbers of elements, int64 [m], by which `neighbours` names them."""

    def neighbours(self, positions: Indices) -> Indices:
        """Return the numbers of the elements across the six faces, int64 [m, 6]; -1: none."""

    def extents(self, positions: Indices) -> Array:
        """Return the mean physical lengths of elements along r, s, t, float64 [m, 3]."""

    def extents_across(self, positions: Indices) -> Array:
        """Return the mean lengths of the neighbours, across the face that they share, float64 [m, 6]; 0: none."""

    def box_lengths(self, positions: Indices) -> Array:
        """Return the edges of axis-aligned elements, float64 [m, 3] along x, y, z."""

    def places(self, positions: Indices, points: Array | tuple[Array, Array, Array]) -> Array:
        """Return the coordinates (x, y, z) of points in elements, float64 [3, m, n_z, n_y, n_x].

        points: reference coordinates in [-1, 1], the same in all directions, or (t, s, r) for z, y, x.
        """

    def n_unique(self, orders: Triple) -> int:
        """Return the distinct points of the whole mesh at orders (z, y, x), equal ones unless it is regular."""

    def ids(self, positions: Indices, orders: Triple) -> Indices:
        """Return the global numbers of points at orders (z, y, x), int64 [m, n_z, n_y, n_x]; equal where shared."""

    def face_ids(self, positions: Indices, faces: Indices, points: Triple) -> Indices:
        """Return numbers of the points of faces, int64 [f, most], equal in both elements at a face.

        positions, faces: one element and one of its faces each. points: (n_z, n_y, n_x) of an element. The rows of
        faces with fewer points than the largest are filled up with -1.
        """

    def side_faces(self, positions: Indices, side: str) -> tuple[Indices, Indices]:
        """Return which of some elements lie at a side, and by which face: int64 [f] each, sorted by face."""

    def on_side(self, positions: Indices, side: str, points: Triple) -> NDArray[np.bool_]:
        """Return which points of elements lie on a side, bool [m, n_z, n_y, n_x]; points: (n_z, n_y, n_x).

        This includes the copies in elements that touch the side with only an edge or a corner.
        """

    def side_positions(self, side: str, most: int) -> Indices:
        """Return the positions of elements at a side: all, or at most `most` evenly spread ones."""

    def side_size(self, side: str) -> int:
        """Return how many faces of elements lie at a side."""

    def name_of(self, position: Indices) -> str:
        """Return words that name an element in messages, such as "element (z=0, y=1, x=2)"."""
