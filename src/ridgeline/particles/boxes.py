"""Ownership of particles: planes at arbitrary positions cut the domain into a grid of boxes, one for each rank.

`Boxes` is plain data without a communicator. The blocks of `blocks/` and the pencils of `fourier/` can both be
described by the positions of their cuts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numba import boolean, float64, int64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

# What `find_owners` writes instead of a rank.
NOT_FINITE, OUTSIDE = -1, -2

Triple = tuple[int, int, int]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Boxes:
    """The boxes of all ranks. Triples are in the order z, y, x, like the axes of a grid.

    Parameters
    ----------
    edges : tuple of three arrays
        For each direction the positions where the domain begins, is cut and ends: increasing, float64 [p + 1]. A box
        contains its lower edges and excludes its upper ones.
    ranks : int64 [pz, py, px]
        The rank that owns each box.
    periodic : tuple of three bools
        Whether each direction is periodic.
    """

    edges: tuple[Floats, Floats, Floats]
    ranks: NDArray[np.int64]
    periodic: tuple[bool, bool, bool] = (True, True, True)

    def __post_init__(self) -> None:
        shape = tuple(len(edges) - 1 for edges in self.edges)
        if self.ranks.shape != shape or any((np.diff(edges) <= 0).any() for edges in self.edges):
            raise ValueError(
                f"Ranks of shape {self.ranks.shape} need increasing edges, but these edges form {shape} boxes or do "
                "not increase."
            )

    @property
    def low(self) -> tuple[float, float, float]:
        """The lower corner of the domain, (z, y, x)."""
        z, y, x = (float(edges[0]) for edges in self.edges)
        return z, y, x

    @property
    def high(self) -> tuple[float, float, float]:
        """The upper corner of the domain, (z, y, x)."""
        z, y, x = (float(edges[-1]) for edges in self.edges)
        return z, y, x

    @cached_property
    def _coords(self) -> dict[int, Triple]:
        """Coordinates of the ranks that were asked for, which are few of all."""
        return {}

    def coords(self, rank: int) -> Triple:
        """Return the coordinates of a rank's box in the grid of boxes, (z, y, x)."""
        if rank not in self._coords:
            z, y, x = np.argwhere(self.ranks == rank)[0].tolist()
            self._coords[rank] = z, y, x
        return self._coords[rank]

    def bounds(self, rank: int) -> tuple[tuple[float, float], ...]:
        """Return (begin, end) of a rank's box in the directions z, y, x."""
        return tuple(
            (float(edges[c]), float(edges[c + 1])) for edges, c in zip(self.edges, self.coords(rank))
        )

    def neighbours(self, rank: int) -> list[int]:
        """Return the ranks, at most 26, whose boxes touch that of `rank`, in increasing order."""
        touching = set()
        for step in product((-1, 0, 1), repeat=3):
            place = [c + s for c, s in zip(self.coords(rank), step)]
            inside = [0 <= c < n or wraps for c, n, wraps in zip(place, self.ranks.shape, self.periodic)]
            if all(inside):
                touching.add(int(self.ranks[tuple(c % n for c, n in zip(place, self.ranks.shape))]))
        return sorted(touching - {rank})

    def wrap(self, position: Floats, rank: int, image: NDArray[Any] | None = None) -> NDArray[np.int64]:
        """Wrap positions into the periodic domain, in place, and return which of them are outside a rank's box.

        Parameters
        ----------
        position : float64 [3, n]
            x, y, z; overwritten.
        rank : int
            The rank whose box the positions were in.
        image : int32 or int64 [3, n], optional
            Incremented by the number of domain lengths by which each position was wrapped: position + image * length
            is a path without jumps.

        Returns
        -------
        int64 [m]
            Increasing indices of the positions that are not in the box of `rank`. A position exactly at the end of a
            direction that is not periodic is among them.
        """
        images = np.empty((3, 0), np.int64) if image is None else image
        domain = np.array([self.low, self.high])[:, ::-1].copy()
        box = np.array(self.bounds(rank))[::-1].T.copy()
        periodic = np.array(self.periodic[::-1])
        left = np.empty(position.shape[1], np.int64)
        return left[: wrap_positions(*position, domain, box, periodic, *images, left)]

    def owners(self, position: Floats, rank: int) -> tuple[NDArray[np.int64], int]:
        """Return the owner of each position [3, n] (x, y, z), int64 [n], and how many are not owned by `rank`.

        NOT_FINITE or OUTSIDE take the place of a rank for positions that no rank owns.
        """
        out = np.empty(position.shape[1], np.int64)
        here = np.array(self.coords(rank), np.int64)
        closed = ~np.array(self.periodic)
        others = find_owners(*position, *self.edges, self.ranks, closed, here, out)
        return out, int(others)


def even_boxes(
    low: Sequence[float], high: Sequence[float], ranks: NDArray[np.int64], periodic: tuple[bool, bool, bool]
) -> Boxes:
    """Cut a domain into boxes of equal size.

    Parameters
    ----------
    low, high : sequence of three floats
        Corners of the domain, (z, y, x).
    ranks : int64 [pz, py, px]
        The rank that owns each box.
    periodic : tuple of three bools
        Whether each direction is periodic.

    Returns
    -------
    Boxes
        Plain data, the same on all ranks.

    Notes
    -----
    Local.

    Examples
    --------
    >>> import numpy as np
    >>> from ridgeline.particles.boxes import even_boxes
    >>> boxes = even_boxes((0, 0, 0), (1, 1, 1), np.arange(2).reshape(1, 1, 2), (True, True, True))
    >>> boxes.bounds(1)
    ((0.0, 1.0), (0.0, 1.0), (0.5, 1.0))
    """
    z, y, x = (np.linspace(a, b, n + 1) for a, b, n in zip(low, high, ranks.shape))
    return Boxes((z, y, x), ranks, periodic)


def cell_edges(length: float, cells: int, cuts: Sequence[int]) -> Floats:
    """Return the edges of boxes that contain whole cells of a uniform grid of `cells` cells along `length`.

    cuts: numbers of the cells at which boxes begin, increasing from 0 to `cells`. The edge for a cell is the least
    float64 x with x * (cells / length) >= cell, so that a position is in the box that owns its cell to the last bit:
    a product with a positive number is monotone. The ends of the domain are exact.
    """
    scale = cells / length
    edges = []
    for cell in cuts:
        if cell in (0, cells):
            edges.append(length if cell else 0.0)
            continue
        x = cell / scale
        while x * scale >= cell:
            x = math.nextafter(x, -math.inf)
        while x * scale < cell:
            x = math.nextafter(x, math.inf)
        edges.append(x)
    return np.array(edges)


@subroutine(inline="always")
def wrap_periodic(x, low, high):
    """Return x wrapped into the periodic interval [low, high), and by how many lengths. Not finite: unchanged."""
    if (low <= x and x < high) or not np.isfinite(x):
        return x, 0
    turns = np.floor((x - low) / (high - low))
    place = x - turns * (high - low)
    if place >= high:  # rounded up to the end, which is the beginning
        return low, int(turns) + 1
    return max(place, low), int(turns)


@kernel(
    lambda I: (*[float64[::1]] * 3, *[float64[:, ::1]] * 2, boolean[::1], *[I[::1]] * 3, int64[::1]),
    nogil=True,
)
def wrap_positions(x, y, z, domain, box, periodic, image_x, image_y, image_z, out_left):
    """Wrap positions where the domain is periodic; list those outside the box in out_left, and return their number.

    x, y, z : (n,) float64, overwritten; domain, box : (2, 3), lower and upper corners, and periodic : (3,), in the
    order x, y, z; image_x, image_y, image_z : (n,) int32 or int64, incremented by the wraps, or (0,) to count none;
    out_left : (>= n,) increasing indices.
    """
    counted = image_x.shape[0] > 0
    n = 0
    for i in range(x.shape[0]):
        if box[0, 0] <= x[i] < box[1, 0] and box[0, 1] <= y[i] < box[1, 1] and box[0, 2] <= z[i] < box[1, 2]:
            continue
        for axis, row, image in ((0, x, image_x), (1, y, image_y), (2, z, image_z)):
            if periodic[axis]:
                row[i], turns = wrap_periodic(row[i], domain[0, axis], domain[1, axis])
                if counted:
                    image[i] += turns
        out_left[n] = i
        n += not (
            box[0, 0] <= x[i] < box[1, 0] and box[0, 1] <= y[i] < box[1, 1] and box[0, 2] <= z[i] < box[1, 2]
        )
    return n


@subroutine(inline="always")
def _place(x, edges, here, closed):
    """Return the index of the box that contains x, or -1. The box `here` is tried first."""
    if edges[here] <= x and x < edges[here + 1]:
        return here
    last = edges.shape[0] - 1
    if closed and x == edges[last]:
        return last - 1
    if not (edges[0] <= x and x < edges[last]):
        return -1
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if x >= edges[middle]:
            low = middle
        else:
            high = middle
    return low


@kernel(
    lambda: (*[float64[::1]] * 6, int64[:, :, ::1], boolean[::1], int64[::1], int64[::1]),
    nogil=True,
)
def find_owners(x, y, z, edges_z, edges_y, edges_x, ranks, closed, here, out_owner):
    """Set out_owner to the rank of the box of each position; return the number of those that are not in box `here`.

    x, y, z : (n,) float64; ranks : (pz, py, px); closed : (3,) whether the last box includes the end of a direction;
    here : (3,) box that is tried first. All but x, y, z are in the order z, y, x.
    """
    mine = ranks[here[0], here[1], here[2]]
    others = 0
    for i in range(x.shape[0]):
        if not (np.isfinite(x[i]) and np.isfinite(y[i]) and np.isfinite(z[i])):
            out_owner[i] = NOT_FINITE
        else:
            a = _place(z[i], edges_z, here[0], closed[0])
            b = _place(y[i], edges_y, here[1], closed[1])
            c = _place(x[i], edges_x, here[2], closed[2])
            out_owner[i] = OUTSIDE if min(a, b, c) < 0 else ranks[a, b, c]
        others += out_owner[i] != mine
    return others


def kernels_of_boxes() -> list[Specialisation]:
    """Return the kernels that `Boxes` calls.

    Returns
    -------
    list of Specialisation
        What `compile_kernels` takes.

    Examples
    --------
    >>> from ridgeline.api import kernels_of_boxes
    >>> len(kernels_of_boxes())
    3
    """
    return [
        *specialise([find_owners]),
        *specialise([wrap_positions], np.int64),
        *specialise([wrap_positions], np.int32),
    ]
