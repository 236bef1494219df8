"""What one rank of a large job builds and receives, counted on a communicator without other ranks."""

import sys
import tracemalloc

import numpy as np
import pytest

import ridgeline
from one_rank import OneRank
from ridgeline.bench.hpcg import hpcg_options
from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.field_summary import summarise_field
from ridgeline.elements.mesh import curve_range
from ridgeline.fourier.decomposition import PencilGrid, Truncation
from ridgeline.fourier.sizes import Share
from ridgeline.models.memory_check import refuse_what_does_not_fit
from ridgeline.parallel.allreduce import allgather_shared, broadcast_first
from ridgeline.parallel.layout import Layout, find_layout, oversubscription_warning
from ridgeline.parallel.partition import owner_of, split
from ridgeline.parallel.rank_devices import RankDevices, find_rank_devices
from ridgeline.particles.boxes import Boxes, even_boxes
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.migration import Migration
from ridgeline.particles.particles import Particles

RANKS, NODE = 20_000, 64
LAYOUT = Layout(
    tuple(rank // NODE for rank in range(RANKS)),
    tuple(rank % NODE for rank in range(RANKS)),
    tuple(f"node{node}" for node in range(-(-RANKS // NODE))),
)
OWNERS = np.arange(RANKS).reshape(20, 20, 50)
CASE = ridgeline.Case("gray_scott", 1, grid={"shape": (160, 160, 400)}).settings


def peak_of(action) -> int:
    """Return the most bytes that an action holds at once."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def of_first_of_node(mine, rank: int):
    """Say what rank `rank` says of its node: its first rank as a number, and names only if it is that rank."""
    if isinstance(mine, np.ndarray):
        return rank - rank % NODE
    return (f"node{rank // NODE}", "") if rank % NODE == 0 else None


def only_of_rank_0(mine, rank: int):
    """Say what the others say to `allgather_shared` where rank 0 was the first to say something."""
    return mine if isinstance(mine, np.ndarray) or rank == 0 else None


def layout(comm: OneRank) -> None:
    with comm.answering(of_first_of_node):
        assert find_layout(comm, ranks_per_node=NODE) == LAYOUT


def devices(comm: OneRank) -> None:
    with comm.answering(only_of_rank_0):
        found = find_rank_devices(comm, LAYOUT)
    assert len(found) == RANKS
    assert isinstance(found[-1], RankDevices)


def shared(comm: OneRank) -> None:
    with comm.answering(only_of_rank_0):
        assert set(allgather_shared(comm, "a long name " * 10)) == {"a long name " * 10}


def boxes() -> Boxes:
    return even_boxes((0, 0, 0), (1, 1, 1), OWNERS, (True, True, True))


def migration(comm: OneRank) -> None:
    particles = Particles()
    particles.add({"identity": np.arange(4), "position": np.full((3, 4), 0.5)})
    Migration(comm, boxes(), particles)


def summary(comm: OneRank) -> None:
    field = BlockArray.allocate(
        Block.of_rank((40, 40, 100), (20, 20, 50), comm.rank, (True, True, True), 0), np.float64
    )
    summarise_field(comm, field, 1)


@pytest.mark.parametrize(
    "build",
    [
        layout,
        devices,
        shared,
        migration,
        summary,
        lambda comm: IdentityRanges(comm, 10 * RANKS),
        lambda comm: boxes().coords(comm.rank),
        lambda comm: refuse_what_does_not_fit(CASE, comm),
        lambda comm: oversubscription_warning(comm, 10**6),
        lambda comm: broadcast_first(comm, "a reason that many ranks have " * 10),
    ],
)
def test_a_rank_holds_and_receives_few_bytes_for_each_rank_of_the_job(build) -> None:
    comm = OneRank(RANKS, rank=0)
    build(comm)
    assert peak_of(lambda: build(comm)) < 100 * RANKS
    comm.tally.clear()
    build(comm)
    assert comm.tally.bytes_of("allgather") <= 24 * RANKS


def test_ranks_of_all_nodes_are_found_in_one_pass() -> None:
    class Counted(tuple):
        passes = 0

        def __iter__(self):
            Counted.passes += 1
            return super().__iter__()

    layout = Layout(Counted(LAYOUT.node_of_rank), LAYOUT.local_rank, LAYOUT.hosts)
    nodes = range(layout.n_nodes)
    assert [layout.ranks_on(node) for node in nodes] == [
        list(range(NODE * node, min(NODE * node + NODE, RANKS))) for node in nodes
    ]
    assert layout.leaders == list(range(0, RANKS, NODE))
    assert Counted.passes <= 1


def test_ranks_of_nodes_that_take_turns() -> None:
    layout = Layout((0, 1, 0, 1, 1), (0, 0, 1, 1, 2), ("a", "b"))
    assert ([layout.ranks_on(node) for node in range(2)], layout.leaders) == ([[0, 2], [1, 3, 4]], [0, 1])


def test_only_grids_with_the_right_number_of_ranks_are_looked_at(monkeypatch) -> None:
    looked = []
    make = hpcg_options.make_geometry
    monkeypatch.setattr(hpcg_options, "make_geometry", lambda *given: looked.append(given) or make(*given))
    box, grid = hpcg_options.divide_box((50 * 16, 50 * 16, 40 * 16), 100_000)
    assert (box, grid) == ((16, 16, 16), (50, 50, 40))
    assert 0 < len(looked) < 1000


@pytest.mark.parametrize(("n", "parts"), [(0, 3), (1, 1), (2, 5), (7, 7), (10, 3), (12, 4), (1000, 7)])
def test_the_owner_of_a_cell_is_the_part_that_has_it(n: int, parts: int) -> None:
    sizes = [split(n, parts, part)[1] for part in range(parts)]
    assert owner_of(np.arange(n), n, parts).tolist() == np.repeat(np.arange(parts), sizes).tolist()


def test_the_lines_of_a_row_are_counted_once_and_not_for_each_rank(monkeypatch) -> None:
    looked = []
    table = Truncation.table.func
    monkeypatch.setattr(Truncation, "table", property(lambda self: looked.append(1) or table(self)))
    rows, columns = 4, 32
    share = Share.of(Truncation((32, 32, 32), "two-thirds"), (rows, columns))
    counted = len(looked)
    grids = [PencilGrid((32, 32, 32), "two-thirds", (rows, columns), rank) for rank in range(rows * columns)]
    assert [
        [grids[c * rows + r].lines.n_modes for c in range(columns)] for r in range(rows)
    ] == share.modes.tolist()
    assert counted < 4 * rows


def test_elements_of_a_mesh_are_ordered_without_a_call_for_each() -> None:
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(event) if event == "call" else None)
    try:
        places = curve_range((20, 25, 16), 0, 8000)
    finally:
        sys.setprofile(None)
    assert len(calls) < 1000
    assert len(np.unique(places, axis=0)) == 8000
    for first, count in ((0, 1), (17, 300), (7990, 10), (5, 0)):
        assert curve_range((20, 25, 16), first, count).tolist() == places[first : first + count].tolist()
