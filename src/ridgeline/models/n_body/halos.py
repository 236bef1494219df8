"""Halos by friends of friends: sets of particles that are joined by links shorter than a linking length.

A rank links its particles with each other and with the ghosts within the linking length around its box. The label of
a particle is at first its identity, and falls to the least identity of each linked set. Ghosts then take the labels
of their owners, and sets the least label of their members, until no label changes. A halo may therefore span any
number of ranks. It is named after the least identity of its members.

Halos are the same, bit for bit, on any number of ranks. Distances have no rounding that depends on the rank that
computes them, and sums over members are sums of integers. The usual linking length is 0.2 of the mean separation.

Sources: Davis, Efstathiou, Frenk and White, Astrophys. J. 292 (1985) 371, Sec. III; Woodring et al., Astrophys. J.
Suppl. 195 (2011) 11 (HACC's method: overloaded boxes, then halos merged across ranks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import float64, int32, int64, types
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.counted_exchange import exchange_counted
from ridgeline.particles.boxes import Boxes
from ridgeline.particles.cells import Cells, cell_along, kernels_of_cells
from ridgeline.particles.ghosts import Ghosts, kernels_of_ghosts

if TYPE_CHECKING:
    from mpi4py import MPI

Real = NDArray[np.float64]
Integers = NDArray[np.int64]
# Ghosts and cells reach this much farther than links, so that rounding of positions omits no pair.
MARGIN = 1 + 1e-9
CELLS_PER_PARTICLE = 8  # at most: links are short, and most of such small cells would be empty


@dataclass(frozen=True, eq=False)
class Membership:
    """The halo of each particle of this rank.

    halo: int64 (n,), the least identity in the particle's halo; anchor: float64 (3, n), the position of that
    particle.
    """

    halo: Integers
    anchor: Real


@dataclass(frozen=True, eq=False)
class Halos:
    """All halos above a least size, in the order of their identities; the same on all ranks.

    Attributes
    ----------
    identity : int64 [h]
        Least identity of the members.
    size : int64 [h]
        Number of members.
    centre : float64 (3, h)
        Centre of mass, x, y, z in [0, L).
    momentum : float64 (3, h)
        Mean momentum of the members.
    """

    identity: Integers
    size: Integers
    centre: Real
    momentum: Real


@dataclass(frozen=True, eq=False)
class MassFunction:
    """Halos in bins of mass.

    Attributes
    ----------
    edges : float64 [bins + 1]
        Edges of the bins in solar masses / h.
    count : int64 [bins]
        Number of halos.
    density : float64 [bins]
        Halos per (Mpc/h)^3 and per unit of log10 of the mass.
    """

    edges: Real
    count: Integers
    density: Real


def friends_of_friends(
    comm: MPI.Comm, boxes: Boxes, positions: Real, identities: Integers, linking_length: float
) -> Membership:
    """Return the halo of each particle of this rank; a particle without links is a halo of its own. Collective.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks that share the particles.
    boxes : Boxes
        The boxes of the ranks, which fill a periodic domain that begins at 0.
    positions : float64 (3, n)
        x, y, z of the particles, which are in this rank's box.
    identities : int64 (n,)
        Not negative, and unique on all ranks.
    linking_length : float
        Particles that are closer than this are linked.

    Raises
    ------
    DecompositionError
        If a box is thinner than the linking length.

    Notes
    -----
    Exchanges with neighbours and one allreduce, repeated as often as the longest chain of ranks that a halo spans.
    The memory is 100 to 200 bytes for each particle.
    """
    n = positions.shape[1]
    ghosts = Ghosts(comm, boxes, linking_length * MARGIN)
    rows = ghosts.build(np.ascontiguousarray(positions.T), n)[: ghosts.n_all]
    anchors, labels = np.empty((ghosts.n_all, 3)), np.empty((ghosts.n_all, 1), np.int64)
    anchors[:n], labels[:n, 0] = positions.T, identities
    ghosts.forward_values(anchors)

    # Sets on this rank: the least row of the set that each row is in.
    bounds, lengths = boxes.bounds(comm.rank), _lengths(boxes)
    volume = float(np.prod([high - low for low, high in bounds]))
    coarse = (volume / (CELLS_PER_PARTICLE * max(len(rows), 1))) ** (1 / 3)
    cells = Cells(bounds, max(linking_length * MARGIN, min(coarse, *(high - low for low, high in bounds))))
    cells.fill(rows, len(rows))
    roots = np.empty(len(rows), np.int64)
    grid = cells.low, cells.per_length, cells.shape
    link_near(rows, anchors, n, grid, cells.starts, cells.order, lengths, linking_length**2, roots)

    # Sets across ranks: the least label spreads until no label changes.
    scratch = np.empty_like(roots)
    changed = 1
    while changed:
        ghosts.forward_values(labels)
        ghosts.forward_values(anchors)
        changed = comm.allreduce(lower_labels(roots, n, scratch, labels, anchors))
    return Membership(labels[:n, 0].copy(), anchors[:n].T.copy())


def halo_catalogue(
    comm: MPI.Comm,
    boxes: Boxes,
    positions: Real,
    momenta: Real,
    membership: Membership,
    n_global: int,
    least_size: int = 20,
) -> Halos:
    """Return the halos with at least least_size members, on all ranks. Collective.

    positions, momenta: float64 (3, n), of the particles of `membership`; n_global: number of particles on all ranks.

    Notes
    -----
    Positions are summed as integer multiples of n_global 2^-60 of the domain, momenta of the same fraction of the
    largest one. The centre of a halo that is wider than half the domain is meaningless. Communication: an all-to-all
    of 88 bytes for each halo of each rank, small ones included, then an allgather of the large halos.
    """
    lengths = _lengths(boxes)[:, np.newaxis]
    away = positions - membership.anchor
    away -= lengths * np.round(away / lengths)
    largest = float(allreduce_max(comm, np.abs(momenta).max(initial=0.0))) or 1.0
    # The sum of n_global integers of at most half of it has 62 bits at most.
    scale = 2.0 ** (61 - n_global.bit_length())
    units = np.concatenate([lengths / scale, np.full((3, 1), 2 * largest / scale)])
    members = np.ones((1, len(membership.halo)), np.int64)
    integers = np.rint(np.concatenate([away, momenta]) / units).astype(np.int64)

    partial = _sum_by_name(membership.halo, np.concatenate([members, integers]), membership.anchor)
    name, sums, anchor = _sum_by_name(*_send_to_home_ranks(comm, *partial))
    large = sums[0] >= least_size
    gathered = comm.allgather((name[large], sums[:, large], anchor[:, large]))
    name, sums, anchor = (np.concatenate(parts, axis=-1) for parts in zip(*gathered))
    order = np.argsort(name)
    name, sums, anchor = name[order], sums[:, order], anchor[:, order]
    means = sums[1:] * units / sums[0]
    centre = (anchor + means[:3]) % lengths
    return Halos(name, sums[0], np.where(centre < lengths, centre, 0.0), means[3:])


def mass_function(
    halos: Halos, particle_mass: float, volume: float, least_size: int = 20, bins_per_decade: int = 4
) -> MassFunction:
    """Return the number of halos in equal bins of log mass, which begin at the mass of least_size particles. Local.

    particle_mass: in solar masses / h; volume: of the domain, in (Mpc/h)^3.
    """
    most = int(halos.size.max(initial=least_size))
    bins = 1 + int(bins_per_decade * np.log10(most / least_size) * MARGIN)
    edges = least_size * 10.0 ** (np.arange(bins + 1) / bins_per_decade)
    # Sizes are integers: with edges at half-integers, rounding of an edge moves no halo to another bin.
    count, _ = np.histogram(halos.size, np.ceil(edges * (1 - 1e-12)) - 0.5)
    return MassFunction(particle_mass * edges, count, count * (bins_per_decade / volume))


def _sum_by_name(names: Integers, values: Integers, anchor: Real) -> tuple[Integers, Integers, Real]:
    """Return the distinct names in increasing order, and for each the sum of its values (m, n) and an anchor."""
    order = np.argsort(names, kind="stable")
    first = np.flatnonzero(np.diff(names[order], prepend=-1))
    return names[order[first]], np.add.reduceat(values[:, order], first, axis=1), anchor[:, order[first]]


def _send_to_home_ranks(
    comm: MPI.Comm, names: Integers, sums: Integers, anchor: Real
) -> tuple[Integers, Integers, Real]:
    """Send the parts of each halo to the rank that its name determines; return what arrives here. Collective."""
    home = names % comm.size
    order = np.argsort(home, kind="stable")
    counts = np.bincount(home, minlength=comm.size)

    def exchange(row: NDArray[np.int64]) -> NDArray[np.int64]:
        return exchange_counted(comm, row[order], counts)[0]

    bits = np.ascontiguousarray(anchor).view(np.int64)
    return (
        exchange(names),
        np.stack([exchange(row) for row in sums]),
        np.stack([exchange(row) for row in bits]).view(np.float64),
    )


def _lengths(boxes: Boxes) -> Real:
    """Return the edges of the domain, float64 [3]: x, y, z."""
    return np.asarray(np.array(boxes.high)[::-1] - np.array(boxes.low)[::-1])


def kernels_of_halos() -> list[Specialisation]:
    """Return the kernels that `friends_of_friends` calls, those of its cells and ghosts included."""
    ghosts = kernels_of_ghosts((np.float64, np.int64))
    return [*kernels_of_cells(), *ghosts, *specialise([link_near, lower_labels])]


@subroutine(inline="always")
def _root(parent, i):
    """Return the root of the tree that contains i, and halve the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@subroutine(inline="always")
def _shortest(difference, length):
    """Return the periodic difference of two coordinates in [0, length]; it is exactly odd in its argument."""
    if difference > 0.5 * length:
        return difference - length
    if difference < -0.5 * length:
        return difference + length
    return difference


@kernel(
    lambda: (
        float64[:, ::1],
        float64[:, ::1],
        int64,
        types.Tuple((float64[::1], float64[::1], int64[::1])),
        int64[::1],
        int32[::1],
        float64[::1],
        float64,
        int64[::1],
    ),
    nogil=True,
)
def link_near(rows, places, n, grid, starts, order, lengths, square, out_root):
    """Link each of the first n rows to all rows nearer than sqrt(square); set out_root to the least row of each set.

    rows : (n_all, 3) positions, shifted across periodic sides for ghosts: they select the cells; places : (n_all, 3)
    the positions without shifts, from which distances are computed; grid, starts, order : attributes of `Cells`;
    lengths : (3,) edges of the box; out_root : (n_all,). Pairs of two ghosts are left to their owners. Two ranks that
    both have a pair agree on whether it is linked.
    """
    low, per_length, shape = grid
    for i in range(out_root.shape[0]):
        out_root[i] = i
    for i in range(n):
        a = min(max(cell_along(rows[i, 0], low[0], per_length[0], shape[0]), 1), shape[0] - 2)
        b = min(max(cell_along(rows[i, 1], low[1], per_length[1], shape[1]), 1), shape[1] - 2)
        c = min(max(cell_along(rows[i, 2], low[2], per_length[2], shape[2]), 1), shape[2] - 2)
        for run in range(9):
            middle = ((c + run // 3 - 1) * shape[1] + b + run % 3 - 1) * shape[0] + a
            for k in range(starts[middle - 1], starts[middle + 2]):
                j = order[k]
                if j <= i:
                    continue
                dx = _shortest(places[i, 0] - places[j, 0], lengths[0])
                dy = _shortest(places[i, 1] - places[j, 1], lengths[1])
                dz = _shortest(places[i, 2] - places[j, 2], lengths[2])
                if (dx * dx + dy * dy) + dz * dz < square:
                    one, other = _root(out_root, i), _root(out_root, j)
                    out_root[max(one, other)] = min(one, other)
    for i in range(out_root.shape[0]):
        out_root[i] = _root(out_root, i)


@kernel(lambda: (int64[::1], int64, int64[::1], int64[:, ::1], float64[:, ::1]), nogil=True)
def lower_labels(roots, n, least, labels, anchors):
    """Give all rows of a set their least label and its anchor; return how many of the first n rows changed.

    roots : (n_all,) from `link_near`; least : (n_all,) scratch; labels : (n_all, 1); anchors : (n_all, 3).
    """
    for i in range(roots.shape[0]):
        least[i] = i
    for i in range(roots.shape[0]):
        if labels[i, 0] < labels[least[roots[i]], 0]:
            least[roots[i]] = i
    changed = 0
    for i in range(roots.shape[0]):
        source = least[roots[i]]
        if labels[source, 0] < labels[i, 0]:
            labels[i, 0] = labels[source, 0]
            for c in range(3):
                anchors[i, c] = anchors[source, c]
            changed += i < n
    return changed
