"""Gather-scatter over ranks: what one rank computes for all elements, equal bits in all copies."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.elements import gather_scatter as module
from ridgeline.elements.gather_scatter import GatherScatter

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 120
OPERATIONS = ("add", "min", "max")


def box(elements, n, periodic):
    """Numbers of the points of a box of elements, [element, z, y, x]."""
    sizes = [e * (n - 1) + (not p) for e, p in zip(elements, periodic)]
    z, y, x = ((np.arange(e)[:, None] * (n - 1) + np.arange(n)) % s for e, s in zip(elements, sizes))
    ids = (z[:, None, None, :, None, None] * sizes[1] + y[None, :, None, None, :, None]) * sizes[2]
    return (ids + x[None, None, :, None, None, :]).reshape(-1, n, n, n)


def weird():
    """Random numbers with many copies, far apart, some left out."""
    rng = np.random.default_rng(3)
    return rng.choice(np.append(rng.integers(0, 2**63 - 1, 20), [-1, 0]), (11, 5))


MESHES = {
    "box": box((3, 2, 3), 4, (False, False, False)),
    "periodic": box((2, 2, 3), 3, (True, True, True)),
    "weird": weird(),
    "two elements": box((1, 1, 2), 3, (False, False, False)),
}


def parts(name, n_elements, size):
    """Element ranges of the ranks: blocks that do not divide, or all on the last rank."""
    if name == "blocks":
        return np.arange(size + 1) * n_elements // size
    return np.array([0] * size + [n_elements])


def cut(comm, mesh, name):
    ids = MESHES[mesh]
    first, end = parts(name, len(ids), comm.size)[comm.rank : comm.rank + 2]
    return ids, slice(first, end)


@pytest.mark.parametrize("name", ["blocks", "all on one"])
@pytest.mark.parametrize("mesh", list(MESHES))
def test_as_on_one_rank(comm, mesh, name):
    ids, mine = cut(comm, mesh, name)
    ours = GatherScatter(comm, ids[mine], max_fields=3)
    whole = GatherScatter(MPI.COMM_SELF, ids, max_fields=3)
    rng = np.random.default_rng(7)
    for operation in OPERATIONS:
        for dtype in ("float64", "float32"):
            for fields in ((), (3,), (1,)):
                expected = rng.uniform(-1, 1, (*fields, *ids.shape)).astype(dtype)
                u = expected[..., mine, :].copy() if ids.ndim == 2 else expected[..., mine, :, :, :].copy()
                whole.combine(expected, operation)
                ours.combine(u, operation)
                all_parts = comm.allgather(u)
                got = np.concatenate(all_parts, axis=len(fields))
                if operation == "add":
                    np.testing.assert_allclose(got, expected, rtol=0, atol=60 * np.finfo(dtype).eps)
                else:
                    np.testing.assert_array_equal(got, expected)
                for field in got.reshape(-1, *ids.shape):  # the same bits on all ranks
                    for number in np.unique(ids[ids >= 0]):
                        assert np.unique(field[ids == number]).size == 1
    multiplicity = np.concatenate(comm.allgather(ours.multiplicity()))
    np.testing.assert_array_equal(multiplicity, whole.multiplicity())
    assert comm.allreduce(ours.bytes_sent) % 8 == 0
    ours.free()


def test_interior_is_computed_while_messages_travel(comm):
    ids, mine = cut(comm, "box", "blocks")
    ours = GatherScatter(comm, ids[mine])
    whole = GatherScatter(MPI.COMM_SELF, ids)
    expected = np.random.default_rng(1).uniform(-1, 1, ids.shape)
    values = expected[mine].copy()
    whole.sum(expected)
    both = np.sort(np.concatenate([ours.boundary_elements, ours.interior_elements]))
    np.testing.assert_array_equal(both, np.arange(len(values)))
    for _ in range(3):  # requests are persistent
        u = np.full_like(values, np.nan)
        u[ours.boundary_elements] = values[ours.boundary_elements]
        ours.start(u)
        u[ours.interior_elements] = values[ours.interior_elements]
        ours.finish(u)
        np.testing.assert_allclose(u, expected[mine], rtol=0, atol=1e-14)
    ours.free()


@pytest.mark.parametrize("mesh", list(MESHES))
@pytest.mark.parametrize(("together", "chunk"), [(1, 1), (3, 1000), (1, 10**6)])
def test_elements_that_are_summed_as_they_are_computed(comm, monkeypatch, mesh, together, chunk):
    """In parts of one element, of some, of all; one field at a time and all of them. The bits are those of `sum`."""
    ids, mine = cut(comm, mesh, "blocks")
    ours = GatherScatter(comm, ids[mine])
    values = np.random.default_rng(1).uniform(-1, 1, (3, *ids.shape))[:, mine]
    u, expected, seen = np.full_like(values, np.nan), values.copy(), []

    def compute(fields, elements):
        for field in fields:
            u[field, elements] = values[field, elements]
            seen.extend((field, int(e)) for e in elements)

    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    ours.sum_computed(u, compute, together)
    ours.sum(expected)
    np.testing.assert_array_equal(u, expected)
    assert sorted(seen) == [(field, e) for field in range(3) for e in range(values.shape[1])]
    ours.free()


@pytest.mark.parametrize("overlap", [True, False])
def test_who_waits_for_the_messages(comm, monkeypatch, overlap):
    ids, mine = cut(comm, "box", "blocks")
    u = np.random.default_rng(1).uniform(-1, 1, ids.shape)[mine]
    expected = u.copy()
    GatherScatter(comm, ids[mine]).sum(expected)
    ours = GatherScatter(comm, ids[mine], overlap=overlap)
    waits = []

    class WatchedMPI:
        Prequest = MPI.Prequest

        class Request:
            @staticmethod
            def Waitall(requests):
                waits.append(len(requests))
                MPI.Request.Waitall(requests)

    monkeypatch.setattr(module, "MPI", WatchedMPI)
    ours.start(u)
    assert sum(waits) == (0 if overlap else 2 * ours.messages)
    ours.finish(u)
    np.testing.assert_array_equal(u, expected)
    ours.free()


def test_boundary_elements_are_those_with_points_of_others(comm):
    ids, mine = cut(comm, "box", "blocks")
    ours = GatherScatter(comm, ids[mine])
    others = np.concatenate([ids[: mine.start], ids[mine.stop :]])
    sharing = np.isin(ids[mine], others)
    np.testing.assert_array_equal(ours.boundary_elements, np.flatnonzero(sharing.any(axis=(1, 2, 3))))
    shared = np.unique(ids[mine][sharing])
    sent = sum(
        np.isin(shared, part).sum()
        for rank, part in enumerate(comm.allgather(ids[mine]))
        if rank != comm.rank
    )
    assert ours.bytes_sent == 8 * sent  # each shared point once per rank that has it
    assert ours.describe()["shared"] == shared.size
    ours.free()


def test_several_exchanges_at_once(comm):
    ids, mine = cut(comm, "periodic", "blocks")
    first, second = GatherScatter(comm, ids[mine]), GatherScatter(comm, ids[mine])
    u = np.full(ids[mine].shape, 1.0)
    v = np.full(ids[mine].shape, 10.0)
    first.start(u)
    second.start(v)
    second.finish(v)
    first.finish(u)
    np.testing.assert_array_equal(10 * u, v)
    np.testing.assert_array_equal(u, first.multiplicity())


def test_numbers_are_refused_on_all_ranks(comm):
    ids = np.zeros((2, 3), np.int64)
    ids[1, 1] = -5 if comm.rank == comm.size - 1 else 1
    with pytest.raises(ValueError, match="has the number -5"):
        GatherScatter(comm, ids)
