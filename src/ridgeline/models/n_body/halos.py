"""Halos by friends of friends: particles that are joined by links shorter than a linking length.

A rank links its particles with each other and with ghosts from the linking length around its box. Labels are the
identities at first, and fall to the least one of each linked set. Ghosts take those of their owners, in turns, until
nothing changes. So a halo may span any ranks. Its name is the least identity of its members.

Halos are the same on any ranks, bit for bit. Distances have no rounding that depends on who computes them, and sums
over members are of integers. The usual linking length is 0.2 of the mean separation. Sources: Davis, Efstathiou,
Frenk and White, Astrophys. J. 292 (1985) 371, Sec. III; Woodring et al., Astrophys. J. Suppl. 195 (2011) 11 (HACC's
way: overloaded boxes, then halos merged across ranks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.n_body.kernels_halos import link_near, lower_labels
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.counted_exchange import exchange_counted
from ridgeline.particles.boxes import Boxes
from ridgeline.particles.cells import Cells
from ridgeline.particles.ghosts import Ghosts

if TYPE_CHECKING:
    from mpi4py import MPI

Real = NDArray[np.float64]
Integers = NDArray[np.int64]

# Ghosts and cells reach this much farther than links, so that rounding of their places leaves no pair out.
MARGIN = 1 + 1e-9
CELLS_PER_PARTICLE = 8  # at most: links are short, and most cells would be empty


@dataclass(frozen=True, eq=False)
class Membership:
    """Of each particle of this rank: halo (n,) int64, the least identity in its halo; anchor (3, n), its place."""

    halo: Integers
    anchor: Real


@dataclass(frozen=True, eq=False)
class Halos:
    """All halos of some size, by increasing identity; the same on all ranks.

    identity: int64 [h], the least of the members'; size: int64 [h], members; centre: (3, h), of mass, x, y, z in
    [0, L); momentum: (3, h), mean of the members'.
    """

    identity: Integers
    size: Integers
    centre: Real
    momentum: Real


@dataclass(frozen=True, eq=False)
class MassFunction:
    """Halos in bins of mass, [bins]: lower edges have `edges` [bins + 1].

    edges: solar masses / h; count: int64, halos; density: halos per (Mpc/h)^3 and per unit of log10 of the mass.
    """

    edges: Real
    count: Integers
    density: Real


def friends_of_friends(
    comm: MPI.Comm, boxes: Boxes, positions: Real, identities: Integers, linking_length: float
) -> Membership:
    """Return which halo each particle of this rank is in; one without friends is its own. Collective.

    boxes: a periodic domain from 0 on; positions: (3, n), x, y, z of the particles in this rank's box; identities:
    int64 (n,), not negative, no two equal on all ranks; linking_length: a length, links are shorter.

    Communication: with neighbours, as often as the longest chain of ranks that a halo spans; an Allreduce each time.
    Memory: 100 to 200 bytes for each particle. Raises DecompositionError if a box is thinner than the linking length.
    """
    n = positions.shape[1]
    ghosts = Ghosts(comm, boxes, linking_length * MARGIN)
    rows = ghosts.build(np.ascontiguousarray(positions.T), n)[: ghosts.n_all]
    anchors, labels = np.empty((ghosts.n_all, 3)), np.empty((ghosts.n_all, 1), np.int64)
    anchors[:n], labels[:n, 0] = positions.T, identities
    ghosts.carry(anchors)
    roots = _linked(boxes, comm.rank, rows, anchors, n, linking_length)
    scratch = np.empty_like(roots)
    changed = 1
    while changed:
        ghosts.carry(labels)
        ghosts.carry(anchors)
        changed = comm.allreduce(lower_labels(roots, n, scratch, labels, anchors))
    return Membership(labels[:n, 0].copy(), anchors[:n].T.copy())


def _linked(boxes: Boxes, rank: int, rows: Real, places: Real, n: int, linking_length: float) -> Integers:
    """Return the least row of each row's set, int64 [n_all]; see `link_near`."""
    bounds = boxes.bounds(rank)
    volume = float(np.prod([high - low for low, high in bounds]))
    coarse = (volume / (CELLS_PER_PARTICLE * max(len(rows), 1))) ** (1 / 3)
    cells = Cells(bounds, max(linking_length * MARGIN, min(coarse, *(high - low for low, high in bounds))))
    cells.fill(rows, len(rows))
    roots = np.empty(len(rows), np.int64)
    grid = cells.low, cells.per_length, cells.shape
    link_near(rows, places, n, grid, cells.starts, cells.order, _lengths(boxes), linking_length**2, roots)
    return roots


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

    positions, momenta: (3, n) of this rank's particles, as `membership` is; n_global: particles of all ranks. A halo
    wider than half the domain has no centre worth the name. Places are summed as integers of n_global 2^-60 of the
    domain, momenta of as little of the largest one. Communication: all to all, 88 bytes for each halo of each rank,
    large or not; then all large halos to all ranks.
    """
    lengths = _lengths(boxes)[:, np.newaxis]
    away = positions - membership.anchor
    away -= lengths * np.round(away / lengths)
    largest = float(allreduce_max(comm, np.abs(momenta).max(initial=0.0))) or 1.0
    scale = 2.0 ** (
        61 - n_global.bit_length()
    )  # n_global integers of half of it have a sum of 62 bits at most
    units = np.concatenate([lengths / scale, np.full((3, 1), 2 * largest / scale)])
    members = np.ones((1, len(membership.halo)), np.int64)
    integers = np.rint(np.concatenate([away, momenta]) / units).astype(np.int64)

    mine = _summed(membership.halo, np.concatenate([members, integers]), membership.anchor)
    name, sums, anchor = _summed(*_sent_home(comm, *mine))
    large = sums[0] >= least_size
    found = comm.allgather((name[large], sums[:, large], anchor[:, large]))
    name, sums, anchor = (np.concatenate(parts, axis=-1) for parts in zip(*found))
    order = np.argsort(name)
    name, sums, anchor = name[order], sums[:, order], anchor[:, order]
    means = sums[1:] * units / sums[0]
    centre = (anchor + means[:3]) % lengths
    return Halos(name, sums[0], np.where(centre < lengths, centre, 0.0), means[3:])


def mass_function(
    halos: Halos, particle_mass: float, volume: float, least_size: int = 20, bins_per_decade: int = 4
) -> MassFunction:
    """Return how many halos there are in even bins of log mass, from that of least_size particles on.

    particle_mass: solar masses / h; volume: of the domain, (Mpc/h)^3. No communication.
    """
    most = int(halos.size.max(initial=least_size))
    bins = 1 + int(bins_per_decade * np.log10(most / least_size) * MARGIN)
    edges = least_size * 10.0 ** (np.arange(bins + 1) / bins_per_decade)
    # Sizes are integers: half of one below an edge, rounding of the edge moves no halo.
    count, _ = np.histogram(halos.size, np.ceil(edges * (1 - 1e-12)) - 0.5)
    return MassFunction(particle_mass * edges, count, count * (bins_per_decade / volume))


def _summed(names: Integers, values: Integers, anchor: Real) -> tuple[Integers, Integers, Real]:
    """Return the names (n,), each once, increasing; of each the sums of values (m, n), and an anchor of (3, n)."""
    order = np.argsort(names, kind="stable")
    first = np.flatnonzero(np.diff(names[order], prepend=-1))
    return names[order[first]], np.add.reduceat(values[:, order], first, axis=1), anchor[:, order[first]]


def _sent_home(
    comm: MPI.Comm, names: Integers, sums: Integers, anchor: Real
) -> tuple[Integers, Integers, Real]:
    """Send the parts of every halo to one rank, which its name decides; return what comes to this one. Collective."""
    home = names % comm.size
    order = np.argsort(home, kind="stable")
    counts = np.bincount(home, minlength=comm.size)

    def sent(row: NDArray[np.int64]) -> NDArray[np.int64]:
        return exchange_counted(comm, row[order], counts)[0]

    bits = np.ascontiguousarray(anchor).view(np.int64)
    return (
        sent(names),
        np.stack([sent(row) for row in sums]),
        np.stack([sent(row) for row in bits]).view(np.float64),
    )


def _lengths(boxes: Boxes) -> Real:
    """Return the lengths of the domain, x, y, z."""
    return np.asarray(np.array(boxes.high)[::-1] - np.array(boxes.low)[::-1])
