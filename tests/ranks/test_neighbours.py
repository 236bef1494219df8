"""Ghosts, cells and lists of neighbours against all pairs of all images, on boxes of odd sizes."""

import itertools

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.parallel.partition import factorizations
from ridgeline.particles.boxes import even_boxes
from ridgeline.particles.cells import Cells
from ridgeline.particles.ghosts import PROGRESS_CALLS, Ghosts
from ridgeline.particles.neighbours import FAR, NeighbourList
from ridgeline.runtime.errors import DecompositionError

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
N = 311
LENGTHS = np.array([5.0, 4.25, 6.5])  # x, y, z; multiples of the places' quantum
GRIDS = list(factorizations(MPI.COMM_WORLD.size))
PERIODIC = [(True, True, True), (False, True, False), (False, False, False)]
REACH = 1.0


def places() -> np.ndarray:
    """Multiples of 2^-20, so that a shift by a length is exact; some on faces, edges and in corners."""
    generator = np.random.default_rng(5)
    found = generator.random((N, 3)) * LENGTHS
    found[:7] = 0.0
    found[1:4] = np.diag(LENGTHS / 2)
    found[4:7] = (LENGTHS - np.eye(3)) % LENGTHS
    return np.floor(found * 2**20) / 2**20


def owned(comm, boxes):
    every = places()
    return np.flatnonzero(boxes.owners(np.ascontiguousarray(every.T), comm.rank)[0] == comm.rank)


def images(periodic) -> list[np.ndarray]:
    """Shifts of all images that may be near, for `periodic` in z, y, x."""
    steps = [(-1, 0, 1) if wraps else (0,) for wraps in periodic[::-1]]
    return [np.array(step) * LENGTHS for step in itertools.product(*steps)]


def made(comm, grid, periodic, reach=REACH):
    """This rank's rows with ghosts, one far away, and their identities."""
    boxes = even_boxes((0.0,) * 3, LENGTHS[::-1], np.arange(comm.size).reshape(grid), periodic)
    mine = owned(comm, boxes)
    rows = np.zeros((len(mine) + 1, 4))
    rows[: len(mine), :3] = places()[mine]
    ghosts = Ghosts(comm, boxes, reach)
    rows = ghosts.build(rows, len(mine))
    rows = np.concatenate([rows[: ghosts.n_all], np.full((1, 4), FAR)])
    identities = np.zeros((ghosts.n_all + 1, 1), np.int64)
    identities[: len(mine), 0] = mine
    ghosts.forward_values(identities)
    return boxes, ghosts, rows, identities[:, 0]


@pytest.mark.parametrize("periodic", PERIODIC)
@pytest.mark.parametrize("grid", GRIDS)
def test_ghosts_are_all_images_around_a_box(comm, grid, periodic):
    boxes, ghosts, rows, identities = made(comm, grid, periodic)
    low, high = np.array(boxes.bounds(comm.rank))[::-1].T
    wanted = set()
    mine = set(identities[: ghosts.n].tolist())
    for shift in images(periodic):
        moved = places() + shift
        inside = ((moved >= low - REACH) & (moved < high + REACH)).all(1)
        itself = ((moved >= low) & (moved < high)).all(1)
        wanted |= {(i, *moved[i]) for i in np.flatnonzero(inside & ~itself).tolist()}
    found = [(int(i), *row[:3]) for i, row in zip(identities[ghosts.n : -1], rows[ghosts.n : -1])]
    assert len(set(found)) == len(found)
    strictly = {each for each in wanted if all(np.array(each[1:]) > low - REACH)}
    assert strictly <= set(found) <= wanted
    assert len(mine) == ghosts.n
    assert comm.allreduce(ghosts.n) == N


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("periodic", PERIODIC)
def test_lists_hold_each_pair_once_or_twice(comm, grid, periodic, half):
    boxes, ghosts, rows, identities = made(comm, grid, periodic)
    lists = NeighbourList(Cells(boxes.bounds(comm.rank), REACH), REACH, half, threads=2)
    lists.build(rows, ghosts.n, ghosts.n_local, ghosts.n_all)
    found = []
    for i in range(ghosts.n):
        neighbours = lists.rows[i, : lists.counts[i]]
        assert lists.counts[i] % 16 == 0
        real = neighbours[neighbours < ghosts.n_all]
        assert (neighbours[len(real) :] == ghosts.n_all).all()
        apart = rows[real, :3] - rows[i, :3]
        found += [(int(identities[i]), int(identities[j]), *d) for j, d in zip(real, apart)]
    assert len(found) == lists.pairs
    outer = ((lists.rows[: ghosts.n] >= ghosts.n_local) & (lists.rows[: ghosts.n] < ghosts.n_all)) & (
        np.arange(lists.rows.shape[1]) < lists.counts[: ghosts.n, None]
    )
    assert sorted(lists.order[: lists.inner]) == np.flatnonzero(~outer.any(1)).tolist()
    assert sorted(lists.order) == list(range(ghosts.n))
    every = [pair for rank in comm.allgather(found) for pair in rank]
    wanted = set()
    for shift in images(periodic):
        apart = places()[None] + shift - places()[:, None]
        near = (apart**2).sum(-1) < REACH**2
        if not shift.any():
            np.fill_diagonal(near, False)
        wanted |= {(int(i), int(j), *apart[i, j]) for i, j in np.argwhere(near)}
    assert len(set(every)) == len(every)
    if half:
        assert not {(j, i, -x, -y, -z) for i, j, x, y, z in every} & set(every)
        every += [(j, i, -x, -y, -z) for i, j, x, y, z in every]
    coincident = {each for each in wanted if not any(each[2:])} if half else set()
    assert set(every) == wanted - coincident


@pytest.mark.parametrize("grid", GRIDS)
def test_reverse_adds_what_ghosts_have_to_their_owners(comm, grid):
    """Each row counts one: an owner gets as many as there are ghosts of it, and its own."""
    _, ghosts, _, identities = made(comm, grid, (True, True, True))
    ones = np.ones((ghosts.n_all, 4), np.int64)
    ghosts.reverse(ones)
    copies = sum(np.bincount(each, minlength=N) for each in comm.allgather(identities[: ghosts.n_all]))
    np.testing.assert_array_equal(ones[: ghosts.n, 2], copies[identities[: ghosts.n]])


@pytest.mark.parametrize("grid", GRIDS)
def test_forward_brings_ghosts_where_their_owners_went(comm, grid):
    _, ghosts, rows, _ = made(comm, grid, (True, True, True))
    before = rows.copy()
    rows[: ghosts.n, :3] += 0.25
    ghosts.forward(rows)
    np.testing.assert_array_equal(rows[: ghosts.n_all, :3], before[: ghosts.n_all, :3] + 0.25)
    assert (ghosts.messages > 0) == (comm.size > 1)


@pytest.mark.parametrize("grid", GRIDS)
def test_rows_of_this_rank_may_be_read_while_messages_travel(comm, grid):
    """Images of own particles come first; what comes by messages is right in the end, whoever looks when."""
    _, ghosts, rows, identities = made(comm, grid, (True, True, True))
    mine = set(identities[: ghosts.n].tolist())
    copies = identities[ghosts.n : ghosts.n_all]
    assert set(copies[: ghosts.n_local - ghosts.n].tolist()) <= mine
    assert ghosts.stages == sum(n > 1 for n in grid)
    if ghosts.stages == 1:
        assert not mine & set(copies[ghosts.n_local - ghosts.n :].tolist())
    wanted = rows.copy()
    rows[ghosts.n : ghosts.n_all] = np.nan
    looks = 0
    for _ in ghosts.forward_overlapped(rows, shifted=True):
        np.testing.assert_array_equal(rows[: ghosts.n_local], wanted[: ghosts.n_local])
        looks += 1
    assert looks <= PROGRESS_CALLS * ghosts.stages
    np.testing.assert_array_equal(rows, wanted)


def test_a_box_thinner_than_the_reach_is_refused(comm):
    boxes = even_boxes((0.0,) * 3, LENGTHS[::-1], np.arange(comm.size).reshape(1, -1, 1), (True,) * 3)
    with pytest.raises(DecompositionError, match=r"less than the 4\.3"):
        Ghosts(comm, boxes, 4.3)


def test_lists_grow_where_particles_crowd():
    boxes = even_boxes((0.0,) * 3, (2.0,) * 3, np.zeros((1, 1, 1), np.int64), (False,) * 3)
    generator = np.random.default_rng(0)
    rows = np.concatenate([generator.random((300, 4)) * 0.5, np.full((1, 4), FAR)])
    lists = NeighbourList(Cells(boxes.bounds(0), 1.0), 1.0)
    lists.build(rows, 300, 300, 300)
    assert lists.pairs == 300 * 299
    assert all(len(set(lists.rows[i, :299])) == 299 for i in range(300))
