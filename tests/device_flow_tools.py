"""Turbulence on GPUs on several ranks beside the CPU on one rank, in numba-cuda's simulator."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes
from ridgeline.models.turbulence.device.engine_cuda import CudaEngine
from ridgeline.models.turbulence.forcing import EswaranPope
from turbulence_tools import make_engine, random_start

SHAPE = (6, 8, 10)
LENGTHS = (5.0, 7.0, 4.0)
WORDS = {
    "auto": "pinned host memory",
    "host": "pinned host memory",
    "mpi": "GPU-aware MPI",
    "nccl": "NCCL",
}
TOLERANCE = {np.float64: 1e-13, np.float32: 2e-6}


def places(modes, whole):
    """Where this rank's modes are among those of one rank: start_global numbers the canonical order of all."""
    first = modes.lines.start_global
    counts = np.diff(modes.lines.start)
    assert whole.lines.n_modes == whole.truncation.n_modes
    return np.concatenate([np.arange(f, f + n) for f, n in zip(first, counts)])


def process_grids(size):
    return [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]


def compare_with_one_rank(
    comm, flow, dealias, dtype, batch, way, shape=SHAPE, fused=(False, False), steps=2
) -> None:
    """Some steps with a forcing on every process grid, and the way to points and back.

    fused: in z, and in x of slabs: pencils never do the latter.
    """
    host = make_engine(
        shape,
        flow,
        random_start,
        dealias,
        LENGTHS,
        lambda m: EswaranPope(m, MPI.COMM_SELF, 3.0, 2.0, 0.4, 6),
        dtype,
    )
    start = host.fields.copy()
    expected = []
    for _ in range(steps):
        host.advance(0.02)
        expected.append((host.last_courant_rate, host.fields.copy()))
    values = host.transform.to_physical(host.fields[:1])
    for process_grid in process_grids(comm.size):
        grid = PencilGrid(shape, dealias, process_grid, comm.rank)
        engine = CudaEngine(grid, LENGTHS, comm, dtype, flow, batch, way)
        expected_passes = fused[0], fused[1] and process_grid[0] == 1
        if any(expected_passes):
            engine.products.choose("fused", "a simulated device")
        assert engine.products.fused == expected_passes
        engine.compile()
        engine.forcing = EswaranPope(engine.modes, comm, 3.0, 2.0, 0.4, 6)
        mine = places(engine.modes, Modes.of(PencilGrid(shape, dealias, (1, 1), 0), LENGTHS))
        engine.fields[...] = start[:, mine]
        engine.commit()
        for rate, fields in expected:
            engine.advance(0.02)
            assert engine.last_courant_rate == pytest.approx(rate, rel=TOLERANCE[dtype])
            difference = np.abs(engine.fields - fields[:, mine]).max(1)
            assert (difference <= TOLERANCE[dtype] * np.abs(fields).max(1)).all()
        physical = engine.transform.to_physical(engine.fields[:1])
        (z, nz), (y, ny) = grid.z_range, grid.y_range
        here = values[:, z : z + nz, y : y + ny]
        np.testing.assert_allclose(physical, here, rtol=0, atol=50 * TOLERANCE[dtype])
        back = engine.transform.to_spectral(physical)
        np.testing.assert_allclose(back, engine.fields[:1], rtol=0, atol=50 * TOLERANCE[dtype])
        check_what_it_says(engine, process_grid, batch, way)
        engine.transform.free()


def check_what_it_says(engine, process_grid, batch, way) -> None:
    """Memory as counted, messages as sent."""
    slabs, found, said = engine.slabs, engine.memory(), engine.describe()
    arrays = {id(each): each for each in (slabs._messages, slabs._pieces, slabs._row_pieces)}
    held = sum(each.nbytes for each in arrays.values() if each is not None and each is not slabs.all_lines)
    assert found["exchange"] == held
    assert found["planes"] == slabs.all_planes.nbytes
    for name, n in zip(("row", "column"), process_grid):
        assert (WORDS[way] in said.get(f"{name} exchange", "")) == (n > 1)
        assert (engine.seconds[f"{name} all-to-all"] > 0) == (
            n > 1 and way != "nccl"
        )  # of the simulator no time
        handed, message = engine.exchanged()[name]
        assert (handed > 0) == (message > 0) == (n > 1)
    assert (f"Q = {batch}" in said["column exchange"]) == (process_grid[1] > 1)
