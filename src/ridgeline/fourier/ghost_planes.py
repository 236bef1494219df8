"""Ghost planes around a rank's points in physical space: copies of neighbours' points, for stencils.

A *padded block* is [n_z + w, n_y + w, n_x + w, components] with w = below + above. The point (z, y, x) of a rank's
block is at (below + z, below + y, below + x). Everything is periodic. x is never cut, so that code which writes rows
also writes their ghosts, or leaves them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.parallel.partition import Triple, split

if TYPE_CHECKING:
    from mpi4py import MPI

# Cells around the rank's own: a position may have just left them, and the grid may be displaced by less than a cell.
BEHIND, BEYOND = 2, 1
# Ghost planes, as far as a stencil of four points around such a cell reaches.
BELOW, ABOVE = 1 + BEHIND, 2 + BEYOND
PADDING = BELOW + ABOVE

Width = tuple[int, int]  # ghost planes below and above
STENCIL: Width = (BELOW, ABOVE)
CORNERS: Width = (0, 1)  # as far as the corners of a cell reach


def padded_shape(block: Triple, width: Width = STENCIL) -> Triple:
    """Return the shape of a padded block, without components."""
    z, y, x = (n + sum(width) for n in block)
    return z, y, x


def buffer_shape(grid: PencilGrid, width: Width = STENCIL) -> tuple[int, int, int]:
    """Return the shape of the buffers for the ghosts of a component: [received and sent, partners, numbers]."""
    z, y, x = padded_shape(grid.block, width)
    axes = _axes(grid, width)
    both = [parts for each in axes for parts in (each.receive, each.send)]
    largest = max((len(planes.mine) for parts in both for planes in parts), default=0)
    partners = max(len(parts) for parts in both)
    return 2, partners, largest * max(z, y) * x


@dataclass(frozen=True)
class _Planes:
    """Planes of one axis that this rank exchanges with another, and their places in this rank's padded block."""

    rank: int
    mine: list[int]


class _Axis(NamedTuple):
    """The planes that are received and sent along one axis of a padded block, and (source, target) of own planes."""

    axis: int
    receive: list[_Planes]
    send: list[_Planes]
    own: tuple[list[int], list[int]]


class GhostPlanes:
    """Fills the ghosts of padded blocks in y and z, or adds their contents to the points that they are copies of.

    Any decomposition is possible, including planes of one point. Made without communication.

    Parameters
    ----------
    grid, comm : this rank's share; all ranks, numbered as grid.rank is
    n_components, dtype : of the blocks
    width : of the ghosts
    """

    def __init__(
        self,
        grid: PencilGrid,
        comm: MPI.Comm,
        n_components: int,
        dtype: DTypeLike,
        width: Width = STENCIL,
    ) -> None:
        self._comm = comm
        self._axes = _axes(grid, width)
        partners, numbers = buffer_shape(grid, width)[1:]
        self._buffers = np.empty((2, partners, n_components * numbers), dtype)

    @property
    def n_bytes(self) -> int:
        """Bytes of the buffers."""
        return self._buffers.nbytes

    def fill(self, block: NDArray[Any]) -> None:
        """Fill the ghosts in y and z of a padded block. Collective, with neighbours."""
        for axis, receive, send, (source, target) in self._axes:
            planes = np.moveaxis(block, axis, 0)
            requests, buffers = self._exchange(planes, receive, send)
            planes[target] = planes[source]
            for request in requests:
                request.Wait()
            for part, arrived in zip(receive, buffers):
                planes[part.mine] = arrived

    def add(self, block: NDArray[Any]) -> None:
        """Add ghosts in y and z to the points that they are copies of. Collective, with neighbours.

        It is the reverse of `fill`; the ghosts are not changed. Sums of integers are the same on any process grid,
        sums of floats only on the same one.
        """
        for axis, receive, send, (source, target) in reversed(self._axes):
            planes = np.moveaxis(block, axis, 0)
            requests, buffers = self._exchange(planes, send, receive)
            for request in requests:
                request.Wait()
            for plane, ghost in zip(source, target):
                planes[plane] += planes[ghost]
            for part, arrived in zip(send, buffers):
                for plane, more in zip(part.mine, arrived):
                    planes[plane] += more

    def _exchange(
        self, planes: NDArray[Any], receive: list[_Planes], send: list[_Planes]
    ) -> tuple[list[MPI.Request], list[NDArray[Any]]]:
        """Begin to send some planes and to receive others; return the requests, and buffers of what is received."""
        received, requests = [], []
        for part, buffer in zip(receive, self._buffers[0]):
            received.append(_part(buffer, planes, part))
            requests.append(self._comm.Irecv(received[-1], part.rank))
        for part, buffer in zip(send, self._buffers[1]):
            sent = _part(buffer, planes, part)
            sent[...] = planes[part.mine]
            requests.append(self._comm.Isend(sent, part.rank))
        return requests, received


def _axes(grid: PencilGrid, width: Width) -> list[_Axis]:
    """Return the exchanges along both axes: ghosts in y first, so that those in z include the edges."""
    rows, columns = grid.process_grid
    of_row = [r + rows * grid.column for r in range(rows)]
    of_column = [grid.row + rows * c for c in range(columns)]
    return [
        _Axis(1, *_plan(grid.shape[1], of_column, grid.column, width)),
        _Axis(0, *_plan(grid.shape[0], of_row, grid.row, width)),
    ]


def _part(buffer: NDArray[Any], planes: NDArray[Any], part: _Planes) -> NDArray[Any]:
    shape = (len(part.mine), *planes.shape[1:])
    return buffer[: int(np.prod(shape))].reshape(shape)


def _ghosts(n: int, parts: int, index: int, width: Width) -> list[tuple[int, int]]:
    """Return (place in the padded block, global plane) of the ghosts of part `index` of n points."""
    first, size = split(n, parts, index)
    below, above = width
    places = [*range(below), *range(below + size, below + size + above)]
    return [(place, (first + place - below) % n) for place in places]


def _firsts(n: int, parts: int) -> list[int]:
    return [split(n, parts, part)[0] for part in range(parts)]


def _owner(firsts: list[int], plane: int) -> int:
    """Return the part of an axis that a plane is in. firsts: first planes of all parts."""
    return bisect_right(firsts, plane) - 1


def ghosts_of_others(n: int, parts: int, width: Width = STENCIL) -> tuple[int, int]:
    """Return how many ghost planes belong to other parts, and in how many messages they arrive, over all parts.

    An axis of n points is cut into `parts` parts. A part with few neighbours owns some of its ghosts itself, because
    the domain is periodic.
    """
    firsts = _firsts(n, parts)
    planes = messages = 0
    for index in range(parts):
        owners = [_owner(firsts, plane) for _, plane in _ghosts(n, parts, index, width)]
        planes += sum(owner != index for owner in owners)
        messages += len({*owners} - {index})
    return planes, messages


def _plan(
    n: int, ranks: list[int], index: int, width: Width
) -> tuple[list[_Planes], list[_Planes], tuple[list[int], list[int]]]:
    """Return the planes received from and sent to `ranks`, which own n planes in order, and the part's own planes."""
    firsts = _firsts(n, len(ranks))
    receive, send = defaultdict(list), defaultdict(list)
    for place, plane in _ghosts(n, len(ranks), index, width):
        receive[_owner(firsts, plane)].append(place)
    for other in range(len(ranks)):
        for _, plane in _ghosts(n, len(ranks), other, width):
            if _owner(firsts, plane) == index:
                send[other].append(width[0] + plane - firsts[index])
    own = send.pop(index, []), receive.pop(index, [])
    received, sent = (
        [_Planes(ranks[part], mine) for part, mine in planes.items()] for planes in (receive, send)
    )
    return received, sent, own
