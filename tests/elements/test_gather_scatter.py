"""The gather-scatter of one rank against NumPy: any numbering, left-out points, all operations and dtypes."""

from itertools import product

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.elements.gather_scatter import OPERATIONS, GatherScatter, make_kernels

RNG = np.random.default_rng(5)
UFUNCS = {"add": (np.add, 0.0), "min": (np.minimum, np.inf), "max": (np.maximum, -np.inf)}


def combined(ids, u, operation):
    """Every copy of a point gets the combination of all its copies."""
    ufunc, neutral = UFUNCS[operation]
    unique, index = np.unique(ids, return_inverse=True)
    table = np.full(unique.size, neutral)
    ufunc.at(table, index.ravel(), u.astype(np.float64).ravel())
    return np.where(ids < 0, u, table[index.reshape(ids.shape)])


def lattice(elements, n, periodic=(False, False, False)):
    """Numbers of the GLL points of a box of elements (z, y, x)."""
    sizes = [e * (n - 1) + (not p) for e, p in zip(elements, periodic)]
    lines = [
        (np.arange(e)[:, None] * (n - 1) + np.arange(n)) % size for e, size in zip(elements, sizes)
    ]  # [element, point] per direction
    z, y, x = (line for line in lines)
    ids = (z[:, None, None, :, None, None] * sizes[1] + y[None, :, None, None, :, None]) * sizes[2]
    ids = ids + x[None, None, :, None, None, :]
    return ids.reshape(-1, n, n, n).astype(np.int64)


CASES = {
    "box": lattice((2, 3, 4), 5),
    "periodic": lattice((2, 3, 3), 4, (True, True, True)),
    "one periodic element": lattice((1, 1, 2), 3, (True, True, False)),
    "linear": lattice((3, 2, 2), 2),
    "random": RNG.integers(0, 40, (7, 9)),
    "huge": RNG.choice(np.array([0, 7, 2**62, 2**63 - 1, 12345678901]), (5, 3, 2)),
    "left out": RNG.integers(-1, 12, (6, 4)),
    "all left out": np.full((2, 3), -1),
    "alone": np.arange(24).reshape(4, 6),
    "nothing": np.zeros((0, 3, 3, 3), np.int64),
    "flat": np.array([3, 1, 3, 3, -1, 1]),
}


def test_against_numpy():
    for case, operation, dtype in product(CASES, UFUNCS, ["float64", "float32"]):
        label = f"{case}, {operation=}, {dtype=}"
        ids = CASES[case].astype(np.int64)
        gather_scatter = GatherScatter(MPI.COMM_SELF, ids)
        u = RNG.uniform(-1, 1, ids.shape).astype(dtype)
        expected = combined(ids, u, operation)
        gather_scatter.combine(u, operation)
        assert u.dtype == dtype, label
        np.testing.assert_allclose(u, expected, rtol=0, atol=40 * np.finfo(dtype).eps, err_msg=label)
        for number in np.unique(ids[ids >= 0])[:50]:  # the same bits in all copies
            assert np.unique(u[ids == number]).size == 1, label


def test_several_fields_at_once():
    ids = CASES["box"]
    gather_scatter = GatherScatter(MPI.COMM_SELF, ids, max_fields=3)
    u = RNG.uniform(-1, 1, (3, *ids.shape))
    one_by_one = u.copy()
    for field in one_by_one:
        gather_scatter.sum(field)
    gather_scatter.sum(u)
    np.testing.assert_array_equal(u, one_by_one)


def test_multiplicity():
    ids = CASES["left out"].astype(np.int64)
    gather_scatter = GatherScatter(MPI.COMM_SELF, ids)
    numbers, counts = np.unique(ids, return_counts=True)
    expected = np.where(ids < 0, 1, counts[np.searchsorted(numbers, ids)])
    np.testing.assert_array_equal(gather_scatter.multiplicity(), expected)
    np.testing.assert_array_equal(gather_scatter.inverse_multiplicity(), 1 / expected)


def test_blocks_of_elements_combine_what_they_complete():
    """Combining after every block of elements, in the order of processing, gives what one call does."""
    ids = CASES["box"]
    gather_scatter = GatherScatter(MPI.COMM_SELF, ids)
    whole = RNG.uniform(-1, 1, ids.shape)
    u = np.full_like(whole, np.nan)  # not yet computed
    local, _, _ = make_kernels(OPERATIONS["add"])
    for first in range(0, len(ids), 5):
        end = min(first + 5, len(ids))
        u[first:end] = whole[first:end]
        local(*gather_scatter.local_lists, first, end, u.reshape(1, -1))
    gather_scatter.start(u)
    gather_scatter.finish(u, local=False)
    gather_scatter.sum(whole)
    np.testing.assert_array_equal(u, whole)


def test_description():
    gather_scatter = GatherScatter(MPI.COMM_SELF, lattice((2, 2, 2), 3))
    facts = gather_scatter.describe()
    assert (facts["points"], facts["unique"]) == (8 * 27, 125)
    # Per direction 5 points, of which the middle one has two copies: so many points have 2^(number of middles).
    assert (facts["pairs"], facts["fours"], facts["eights"], facts["others"]) == (3 * 16, 3 * 4, 1, 0)
    assert (facts["shared"], facts["neighbours"], gather_scatter.bytes_sent) == (0, 0, 0)
    assert facts["memory"] == gather_scatter.memory() > 4 * (2 * 48 + 4 * 12 + 8)
    assert gather_scatter.boundary_elements.size == 0
    np.testing.assert_array_equal(gather_scatter.interior_elements, np.arange(8))


def test_misuse():
    ids = CASES["box"]
    gather_scatter = GatherScatter(MPI.COMM_SELF, ids, max_fields=2)
    with pytest.raises(ValueError, match="has the number -2"):
        GatherScatter(MPI.COMM_SELF, ids - 2)
    with pytest.raises(ValueError, match="does not match"):
        gather_scatter.sum(np.zeros(ids.shape[:-1]))
    with pytest.raises(ValueError, match="max_fields = 2"):
        gather_scatter.sum(np.zeros((3, *ids.shape)))
    with pytest.raises(ValueError, match="float64 or float32"):
        gather_scatter.sum(np.zeros(ids.shape, np.int64))
    with pytest.raises(ValueError, match="C-contiguous"):
        gather_scatter.sum(np.zeros((*ids.shape[:-1], 2 * ids.shape[-1]))[..., ::2])
    u = np.zeros(ids.shape)
    with pytest.raises(RuntimeError, match="was not started"):
        gather_scatter.finish(u)
    gather_scatter.start(u)
    with pytest.raises(RuntimeError, match="in progress"):
        gather_scatter.start(u)
    gather_scatter.finish(u)
