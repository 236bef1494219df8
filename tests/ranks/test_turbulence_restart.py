"""Turbulence checkpoints: the same data files from any process grid, read back to the same bits by any other."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid, Truncation
from ridgeline.fourier.modes import Modes
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.io import checkpoint
from ridgeline.io.checkpoint import CheckpointStore, load
from ridgeline.models.turbulence.engine_cpu import CpuEngine
from ridgeline.models.turbulence.forcing import EswaranPope
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.restart import SpectralState
from ridgeline.parallel.partition import DistributedArray
from spectral_toys import part, process_grids, random_fields

RANKS = (1, 2, 3, 4)
TIMEOUT = 120
SHAPE = (12, 10, 14)  # 3 and 4 ranks divide none of the lines, modes and ranges evenly
LENGTHS = (2.0, 7.0, 5.0)
IDENTITY = {"model": "toy"}


@pytest.fixture(autouse=True)
def many_rounds(monkeypatch):
    """Make chunks and rounds so small that every file takes several."""
    monkeypatch.setattr(checkpoint, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(checkpoint, "ROUND_BYTES", 1500)


def bits(array):
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
def test_arrays_are_ranges_of_the_canonical_order(comm, dtype, dealias):
    whole = random_fields(2, dtype, SHAPE, LENGTHS, dealias)
    truncation = Truncation(SHAPE, dealias)
    firsts = PencilGrid(SHAPE, dealias, (1, 1), 0).lines.start[:-1]
    for process_grid in process_grids(comm.size, SHAPE, dealias):
        grid = PencilGrid(SHAPE, dealias, process_grid, comm.rank)
        state = SpectralState(grid, LENGTHS, comm, dtype, 2)
        arrays = state.pack(part(whole, grid.lines))
        expected = {
            "velocity_x": whole[0],
            "velocity_y_ky0": whole[1, firsts],
            "velocity_z": whole[2],
            "scalar_0": whole[3],
            "scalar_1": whole[4],
        }
        assert list(arrays) == list(expected)
        for name, values in expected.items():
            array = arrays[name]
            assert array.shape_global == (len(values),)
            first, n = array.offset_global[0], array.shape_local[0]
            np.testing.assert_array_equal(array.local, values[first : first + n], strict=True)
            assert abs(n - len(values) / comm.size) < 1
        total = comm.allreduce(sum(array.local.size for array in arrays.values()))
        assert total == 4 * truncation.n_modes + truncation.n_lines


def test_goes_on_with_the_bits_that_a_resumed_run_has(comm):
    whole = random_fields(1, "complex64", SHAPE, LENGTHS)
    for process_grid in process_grids(comm.size, SHAPE):
        grid = PencilGrid(SHAPE, "phase-shift", process_grid, comm.rank)
        state = SpectralState(grid, LENGTHS, comm, "complex64", 1)
        running = part(whole, grid.lines)
        before = running.copy()
        state.pack(running)
        resumed = np.full_like(running, np.nan)
        state.unpack(resumed)
        assert bits(resumed) == bits(running)
        assert bits(running[[0, 2, 3]]) == bits(before[[0, 2, 3]])
        np.testing.assert_allclose(running[1], before[1], rtol=0, atol=3e-5)
        kz, ky, kx = Modes.of(grid, LENGTHS).expand()
        divergence = kx * running[0] + ky * running[1] + kz * running[2]
        assert np.abs(divergence[ky != 0]).max() < 1e-5
        assert bits(running[1, ky == 0]) == bits(before[1, ky == 0])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_same_files_from_any_process_grid_and_read_by_any(comm, folder, dtype):
    whole = random_fields(1, dtype, SHAPE, LENGTHS)
    written = []
    for process_grid in process_grids(comm.size, SHAPE):
        grid = PencilGrid(SHAPE, "phase-shift", process_grid, comm.rank)
        state = SpectralState(grid, LENGTHS, comm, dtype, 1)
        path = folder / "x".join(map(str, process_grid))
        with CheckpointStore(comm, path, ranks_per_file=2) as store:
            store.save(state.pack(part(whole, grid.lines)), step=1, time=0.5, identity=IDENTITY)
        files = sorted(path.glob("checkpoint_*/data_*.bin"))
        written.append([file.read_bytes() for file in files])
        assert len(files) == (comm.size + 1) // 2
    assert all(data == written[0] for data in written)

    recovered = None
    for readers in range(1, comm.size + 1):
        some = comm.Split(int(comm.rank >= readers), comm.rank)
        if comm.rank < readers:
            for process_grid in process_grids(readers, SHAPE):
                grid = PencilGrid(SHAPE, "phase-shift", process_grid, some.rank)
                state = SpectralState(grid, LENGTHS, some, dtype, 1)
                load(some, folder / f"1x{comm.size}", state.arrays(), IDENTITY)
                fields = np.full((4, grid.lines.n_modes), np.nan, dtype)
                state.unpack(fields)
                expected = part(whole, grid.lines)
                assert bits(fields[[0, 2, 3]]) == bits(expected[[0, 2, 3]])
                gathered = some.gather((grid.lines.start_global, grid.lines.start, fields[1]))
                if some.rank == 0:
                    u_y = np.full(Truncation(SHAPE, "phase-shift").n_modes, np.nan, dtype)
                    for start_global, start, mine in gathered:
                        for place, a, b in zip(start_global, start[:-1], start[1:]):
                            u_y[place : place + b - a] = mine[a:b]
                    recovered = u_y if recovered is None else recovered
                    assert bits(u_y) == bits(recovered), "u_y is the same on every process grid"
        some.Free()
        comm.Barrier()


def n_numbers(state):
    """Complex numbers that `pack` or `unpack` need beside the fields: of these, a workspace may give some."""
    arrays = sum(state._plan_of(name).redistribution.n_range for name in state._sizes)
    return arrays + state._n_scratch()


@pytest.mark.parametrize("size", ["none", "part", "all"])
def test_a_workspace_changes_no_bit_and_is_used(comm, size):
    whole = random_fields(1, "complex128", SHAPE, LENGTHS)
    for process_grid in process_grids(comm.size, SHAPE):
        grid = PencilGrid(SHAPE, "phase-shift", process_grid, comm.rank)
        plain = SpectralState(grid, LENGTHS, comm, "complex128", 1)
        expected = {name: bits(a.local) for name, a in plain.pack(part(whole, grid.lines)).items()}
        n = {"none": 0, "part": n_numbers(plain) // 2, "all": n_numbers(plain)}[size]
        space = np.full(n, np.nan, complex)
        state = SpectralState(grid, LENGTHS, comm, "complex128", 1, workspace=space)
        for _ in range(2):
            fields = part(whole, grid.lines)
            arrays = state.pack(fields)
            assert {name: bits(a.local) for name, a in arrays.items()} == expected
            if size == "all":
                assert all(np.shares_memory(a.local, space) for a in arrays.values() if a.local.size)
            again = np.empty_like(fields)
            state.unpack(again)
            assert bits(again) == bits(fields)
            state.release()
            space[:] = np.nan  # the engine uses it again


def test_memory_is_one_more_copy_of_the_fields_at_most(comm):
    shape = (32, 32, 32)
    for process_grid in process_grids(comm.size, shape):
        grid = PencilGrid(shape, "phase-shift", process_grid, comm.rank)
        state = SpectralState(grid, LENGTHS, comm, "complex64", 2)
        n_fields = 5 if process_grid[0] > 1 else 4
        line = comm.size * 2 * grid.truncation.n_lines / grid.truncation.n_modes
        assert n_numbers(state) < (n_fields + line) * grid.truncation.n_modes / comm.size + 8


def test_a_few_modes_on_many_ranks(comm):
    shape = (4, 4, 4)
    for process_grid in process_grids(comm.size, shape, "two-thirds"):
        whole = random_fields(0, "complex128", shape, LENGTHS, "two-thirds")
        grid = PencilGrid(shape, "two-thirds", process_grid, comm.rank)
        state = SpectralState(grid, LENGTHS, comm, "complex128", 0)
        fields = part(whole, grid.lines)
        state.pack(fields)
        again = np.full_like(fields, np.nan)
        state.unpack(again)
        assert bits(again) == bits(fields)


def test_wrong_use_is_refused(comm):
    grid = PencilGrid(SHAPE, "phase-shift", (1, comm.size), comm.rank)
    state = SpectralState(grid, LENGTHS, comm, "complex128", 1)
    with pytest.raises(ValueError, match="4 fields"):
        state.pack(np.zeros((3, grid.lines.n_modes), complex))
    if comm.size > 1:
        wrong = PencilGrid(SHAPE, "phase-shift", (1, comm.size), (comm.rank + 1) % comm.size)
        with pytest.raises(ValueError, match="rank"):
            SpectralState(wrong, LENGTHS, comm, "complex128", 1)
    assert comm.allreduce(1, MPI.SUM) == comm.size


FLOW = FlowParameters(0.02, "rk2", (0.7,), ((1.0, -0.5, 2.0),), seed=3)


def engine_of(comm, process_grid, whole, step=0):
    """The engine with these fields of all ranks at a step, randomly forced."""
    grid = PencilGrid(SHAPE, "phase-shift", process_grid, comm.rank)
    dtype = "float32" if whole.dtype == "complex64" else "float64"
    engine = CpuEngine(grid, LENGTHS, comm, dtype, FLOW, TransformTuning("alltoallv", effort="estimate"))
    engine.fields[...] = part(whole, grid.lines)
    engine.step_index = step
    engine.forcing = EswaranPope(engine.modes, comm, 3.0, 2.0, 0.4, 6)
    return engine


def forcing_arrays(engine, comm):
    """What the forcing keeps, which all ranks have alike, as rank 0's."""
    return {
        name: DistributedArray(name, array.shape, (0,) * array.ndim, array[: None if comm.rank == 0 else 0])
        for name, array in engine.forcing.state().items()
    }


def state_of(engine, comm):
    grid, workspace = engine.transform.grid, engine.transform.column.arena
    return SpectralState(grid, LENGTHS, comm, engine.fields.dtype, 1, workspace)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_an_engine_resumes_exactly_and_on_other_process_grids_to_rounding(comm, folder, dtype):
    """The exchange buffer as workspace: a step needs nothing in it from the step before."""
    whole = random_fields(1, dtype, SHAPE, LENGTHS)
    grids = list(process_grids(comm.size, SHAPE))
    for writer in grids:
        engine = engine_of(comm, writer, whole)
        for _ in range(2):
            engine.advance(0.01)
        state = state_of(engine, comm)
        path = folder / "x".join(map(str, writer))
        with CheckpointStore(comm, path) as store:
            arrays = state.pack(engine.fields) | forcing_arrays(engine, comm)
            store.save(arrays, step=2, time=engine.time, identity=IDENTITY)
            state.release()
        for _ in range(2):
            engine.advance(0.01)
        expected = comm.allgather((engine.modes.lines.start_global, engine.modes.lines.start, engine.fields))
        gathered = np.concatenate([np.zeros((4, 0)), *(f for _, _, f in expected)], axis=1)
        order = np.argsort(
            np.concatenate([np.arange(n[0], n[1]) for s, t, _ in expected for n in zip(s, s + np.diff(t))])
        )
        for reader in grids:
            again = engine_of(comm, reader, np.full_like(whole, np.nan), step=2)
            state = state_of(again, comm)
            arrays = state.arrays()
            shared = forcing_arrays(again, comm)
            load(comm, path, arrays | shared, IDENTITY)
            state.unpack(again.fields)
            again.forcing.restored({name: comm.bcast(array.local) for name, array in shared.items()})
            state.release()
            for _ in range(2):
                again.advance(0.01)
            if reader == writer:
                assert bits(again.fields) == bits(engine.fields)
            tolerance = 1e-13 if dtype == "complex128" else 1e-5
            wanted = part(gathered[:, order], again.modes.lines)
            np.testing.assert_allclose(again.fields, wanted, rtol=0, atol=tolerance)
