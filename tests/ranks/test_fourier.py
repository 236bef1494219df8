"""Distributed transforms against np.fft on whole arrays: every process grid, layout, method and number of threads."""

import itertools

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.transform import FourierTransform
from ridgeline.fourier.tuning import METHODS, TransformTuning

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 240

SHAPE, LENGTHS = (10, 12, 14), (1.0, 2.0, 3.0)


def process_grids(size):
    return [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]


def make(comm, process_grid, dealias="phase-shift", shape=SHAPE, dtype=np.float64, **options):
    grid = PencilGrid(shape, dealias, process_grid, comm.rank)
    return FourierTransform(grid, LENGTHS, comm, dtype, TransformTuning(effort="estimate", **options))


def whole_fields(grid, n=2):
    """Random values with all modes, this rank's part of them, and of the same truncated."""
    values = np.random.default_rng(1).standard_normal((n, *grid.shape))
    modes = np.fft.fftn(values, axes=(1, 2, 3)) / values[0].size
    j = np.meshgrid(*(np.fft.fftfreq(m, 1 / m).round().astype(int) for m in grid.shape), indexing="ij")
    keep = np.abs(j[1]) <= grid.truncation.most_y(j[0], j[2])
    truncated = np.fft.ifftn(modes * keep, axes=(1, 2, 3)).real * values[0].size
    here = (slice(None), *(slice(o, o + s) for o, s in zip(grid.offset, grid.block)))
    return values[here].copy(), modes, truncated[here]


def check(transform, tolerance=1e-13):
    values, modes, truncated = whole_fields(transform.grid)
    real = transform.real
    jz, jy, jx = transform.modes.lines.expand()
    found = transform.to_spectral(values.astype(real))
    assert found.dtype == transform.complex
    np.testing.assert_allclose(found, modes[:, jz, jy, jx], atol=tolerance)
    np.testing.assert_allclose(transform.to_physical(found), truncated, atol=100 * tolerance)
    return found


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
def test_transforms_are_those_of_numpy(comm, dealias):
    """On every process grid, of which most have uneven shares; planes strided and packed."""
    for process_grid, layout in itertools.product(process_grids(comm.size), ("strided", "packed")):
        check(make(comm, process_grid, dealias, layout=layout))


def test_single_precision(comm):
    check(make(comm, (1, comm.size), dtype=np.float32), 1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("layout", ["strided", "packed"])
def test_exchanges_change_no_bit(comm, method, layout):
    """Whatever the method and Q, and however many threads work."""
    for process_grid in process_grids(comm.size):
        if method == "node" and comm.size in (1, 3):
            continue  # nodes of one rank, or of unequal numbers
        expected = check(make(comm, process_grid, method="alltoallv", layout=layout))
        nodes = {"ranks_per_node": 1} if method == "node" and comm.size > 1 else {}
        for batch, threads in ((1, 1), (3, 2)):
            options = {"batch": batch, "threads": threads, "layout": layout, **nodes}
            transform = make(comm, process_grid, method=method, **options)
            np.testing.assert_array_equal(check(transform), expected)
            transform.free()


def test_layout_is_chosen_alike_on_all_ranks(comm):
    transform = make(comm, (1, comm.size))
    assert comm.allgather(transform.layout) == [transform.layout] * comm.size
    trial = transform.trials()["transforms in z"]
    assert trial.taken == transform.layout
    assert set(trial.seconds) == {"strided", "packed"}
    for parts in trial.seconds.values():
        assert set(parts) == {"total", "unpack", "fft", "pack"}
        assert 0 < min(parts.values()) <= max(parts.values()) == parts["total"]
    assert transform.describe()["transforms in z"] == trial.words()
    check(transform)


def test_what_was_not_chosen_was_not_timed(comm):
    transform = make(comm, (1, comm.size), method="alltoallv", layout="packed")
    assert transform.trials() == {}
    assert transform.describe()["transforms in z"] == "packed"


def test_real_part_of_modes_that_are_not_conjugate(comm):
    """A field that is not conjugate symmetric at j_x = 0 gives the real part, as a complex-to-real transform does."""
    transform = make(comm, (1, comm.size), "none")
    modes = np.zeros((1, transform.modes.n_modes), complex)
    jz, jy, jx = transform.modes.lines.expand()
    modes[0, (jz == 1) & (jy == 2) & (jx == 0)] = 1.0
    (found,) = transform.to_physical(modes)
    z, y, _ = np.ogrid[tuple(slice(o, o + s) for o, s in zip(transform.grid.offset, transform.grid.block))]
    expected = np.cos(2 * np.pi * (z / SHAPE[0] + 2 * y / SHAPE[1])) + np.zeros(SHAPE[2])
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_exchanges_are_timed_and_memory_counted(comm):
    transform = make(comm, (1, comm.size), method="alltoallv")
    assert sum(transform.timings.values()) == 0.0
    check(transform)
    timings = transform.timings
    assert min(timings["fft"], timings["pack"], timings["column all-to-all"]) > 0.0
    assert timings["row all-to-all"] == 0.0
    transform.reset_timings()
    assert sum(transform.timings.values()) == 0.0
    assert transform.memory()["exchange"] >= transform.column.arena.nbytes
    assert transform.memory()["work"] > 0


@pytest.mark.parametrize("method", ["alltoallv", "shared"])
def test_pencils_exchange_rows(comm, method):
    transform = make(comm, (comm.size, 1), method=method)
    assert (transform.row is None) == (comm.size == 1)
    check(transform)
    assert (transform.timings["row all-to-all"] > 0.0) == (comm.size > 1)
    assert ("row exchange" in transform.describe()) == (comm.size > 1)
    assert comm.allreduce(transform.column.forward.bytes_sent(), MPI.MAX) == 0
