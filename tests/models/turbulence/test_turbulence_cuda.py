"""Turbulence on GPUs: what the kernels compile to, what memory is counted, and what the simulator computes."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from mpi4py import MPI
from numba import types

from cuda_tools import SIMULATOR_SECONDS, assemble, run_simulated, skip_without_device
from ridgeline.fourier.device import kernels_cuda as packing
from ridgeline.fourier.device.layout import DeviceLayout
from ridgeline.fourier.pencil import PencilGrid
from ridgeline.models.turbulence.config import TurbulenceCase
from ridgeline.models.turbulence.device import kernels_cuda as kernels
from ridgeline.models.turbulence.device.memory import device_bytes, exchange_groups
from ridgeline.models.turbulence.estimate import estimate, paper_bound
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.runtime.errors import DeviceError
from turbulence_tools import make_engine, random_start

DTYPES = [np.float64, np.float32]
INTEGER, SMALL = types.int64, types.int32
REGISTERS = 65536  # of a multiprocessor


def of(dtype):
    real = numba.from_dtype(np.dtype(dtype))
    return real, real[::1]


def common(dtype):
    """Types of sizes, of_line, x, y and z."""
    numbers = of(dtype)[1]
    return types.UniTuple(INTEGER, 5), SMALL[::1], numbers, numbers, numbers


def multiply(dtype, rated, n_scalars=0):
    real, numbers = of(dtype)
    made = kernels.make_multiply(dtype, n_scalars, rated)
    return assemble(made, (INTEGER, INTEGER, INTEGER, INTEGER, types.UniTuple(real, 3), numbers, numbers))


def advance(dtype, shifted, last, summed, n_scalars=0):
    real, numbers = of(dtype)
    made = kernels.make_advance(dtype, n_scalars, shifted, last, summed)
    phases, c = types.UniTuple(INTEGER, 2), types.UniTuple(real, 12)
    return assemble(made, (*common(dtype), phases, c, real, *[numbers] * 4))


def load_lines(dtype, shifted):
    numbers = of(dtype)[1]
    arguments = numbers, INTEGER, *common(dtype), INTEGER, numbers
    return assemble(kernels.make_load(dtype, shifted), arguments)


def packed(dtype, kernel, sources, *more):
    numbers = of(dtype)[1]
    table = INTEGER[::1], INTEGER, INTEGER, INTEGER
    return assemble(kernel, (*[numbers] * sources, *more, *table, numbers))


def pairs(found, what):
    """Loads or stores of two numbers at once; the compiler unrolls loops, so multiples of what is written."""
    return found.ptx.count(f"{what}.global.v2")


def check(found, dtype, registers):
    assert found.spilled == 0
    assert found.registers <= registers
    if dtype == np.float32:
        assert ".f64" not in found.ptx, "single precision stays single"
        assert ".ftz" not in found.ptx


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rated", [True, False])
def test_products_are_loaded_and_stored_in_pairs(dtype, rated) -> None:
    found = multiply(dtype, rated)
    check(found, dtype, REGISTERS // (kernels.PRODUCT_THREADS * 4))
    assert pairs(found, "ld") % 3 == 0
    assert pairs(found, "st") == pairs(found, "ld") // 3 * 5
    assert found.ptx.count("ld.global") == pairs(found, "ld")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shifted", "last", "summed", "n_scalars", "loads", "stores"),
    [
        (True, False, False, 0, 4 + 3, 3 + 3 + 3),  # first substep of RK2; the last three are the zeros
        (True, True, False, 0, 4 + 3, 3),  # its last
        (True, False, True, 1, 6 + 2 * 4, 3 * 4),  # RK4 with a scalar
        (False, True, True, 0, 4 + 3, 3),
    ],
)
def test_a_substep_reads_and_writes_each_mode_once(
    dtype, shifted, last, summed, n_scalars, loads, stores
) -> None:
    found = advance(dtype, shifted, last, summed, n_scalars)
    check(found, dtype, REGISTERS // (packing.LINE_THREADS * 4))
    assert (pairs(found, "ld"), pairs(found, "st")) == (loads, stores)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shifted", [True, False])
def test_loading_lines_leaves_room_for_many_threads(dtype, shifted) -> None:
    check(load_lines(dtype, shifted), dtype, REGISTERS // (packing.LINE_THREADS * 8))


@pytest.mark.parametrize("dtype", DTYPES)
def test_packing_leaves_room_for_many_threads(dtype) -> None:
    numbers = of(dtype)[1]
    for found, loads in (
        (packed(dtype, packing.spread_lines, 1), 1),
        (packed(dtype, packing.collect_lines, 1), 1),
        (packed(dtype, packing.collect_sums, 2, numbers, numbers), 2),
    ):
        check(found, dtype, REGISTERS // (packing.THREADS * packing.BLOCKS))
        assert pairs(found, "ld") == loads * pairs(found, "st")


@pytest.mark.full
def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_turbulence.py"))


@pytest.mark.parametrize(
    ("process_grid", "batch", "least"),
    [
        ((1, 1), 1, 1),  # Eq. 9 with Q = 1 for one rank, which exchanges nothing
        ((1, 3), 1, 4),  # with buffers of all variables, with Q = 4
        ((1, 8), 1, 4),
        ((1, 8), 4, 4),
        ((2, 4), 1, 4),
        ((2, 4), 4, 6),
        ((8, 1), 4, 4),
    ],
)
def test_memory_is_within_the_paper_s_bound(process_grid, batch, least) -> None:
    """least: the Q of Eq. 9 that allows what a rank holds."""
    shape = (256, 256, 256)
    n_ranks = process_grid[0] * process_grid[1]
    for rank in {0, n_ranks - 1}:
        layout = DeviceLayout.of(PencilGrid(shape, "phase-shift", process_grid, rank))
        needed = sum(device_bytes(layout, 8, 0, 1, batch).values())
        assert needed < paper_bound(shape, n_ranks, least, 16) * 1.01


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("process_grid", [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)])
def test_the_table_finds_every_line_in_the_pieces_of_the_exchange(process_grid, width) -> None:
    shape = (6, 8, 10)
    rows, columns = process_grid
    for rank in range(rows * columns):
        grid = PencilGrid(shape, "phase-shift", process_grid, rank)
        layout = DeviceLayout.of(grid)
        place, step = layout.line_table(width)
        place = place.reshape(shape[0], layout.width)
        assert step == width * layout.n_lines
        of_lines, of_planes = layout.of_columns
        assert (sum(of_lines), sum(of_planes)) == (layout.line_numbers, layout.piece_numbers)
        found = []
        for c in range(columns):
            lines = grid.lines_of_rank(grid.row, c)
            at = lines.jz % shape[0], lines.jx // rows
            np.testing.assert_array_equal(place[at], width * sum(of_planes[:c]) + np.arange(lines.n_lines))
            found += list(zip(*at))
        rest = np.ones(place.shape, bool)
        rest[tuple(np.array(found).T)] = False
        assert (place[rest] == -1).all()


def test_the_table_finds_every_column_in_the_pieces_of_the_row_exchange() -> None:
    shape, process_grid = (6, 8, 10), (3, 2)
    for rank in range(6):
        grid = PencilGrid(shape, "none", process_grid, rank)
        layout = DeviceLayout.of(grid)
        (place, step), (of_planes, of_rows) = layout.column_table(), layout.of_rows
        assert step == layout.width
        assert sum(of_rows) == layout.row_piece_numbers
        assert sum(of_planes) == shape[0] * layout.ny_local * layout.width <= layout.plane_numbers
        pieces = np.full(layout.row_piece_numbers, -1)
        for r in range(3):
            piece = pieces[sum(of_rows[:r]) : sum(of_rows[: r + 1])]
            piece = piece.reshape(layout.nz_local, layout.ny_local, layout.width)
            piece[:, 0, : len(grid.columns_of(r))] = grid.columns_of(r)
        expected = np.full((layout.nz_local, layout.pitch), -1)
        expected[:, : grid.truncation.n_columns] = np.arange(grid.truncation.n_columns)
        place = place.reshape(expected.shape)
        np.testing.assert_array_equal(np.where(place < 0, -1, pieces[place]), expected)


def test_batches_of_the_velocity_leave_the_pieces_that_scalars_need() -> None:
    for batch in (1, 2, 3, 4):
        there, back = exchange_groups(2, batch)
        assert [v for group in there for v in group.variables] == [0, 1, 2, 3, 4]
        assert [v for group in back for v in group.variables] == [4, 5, 6, 7, 0, 1, 2, 3]
        assert all(group.first >= 4 or group.first + group.width <= 4 for group in back)
        assert max(group.width for group in there + back) == batch


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_what_a_gpu_and_its_host_hold_is_counted(n_ranks) -> None:
    run = {"model": "turbulence", "steps": 1, "device": "cuda"}
    case = TurbulenceCase.model_validate(
        {"run": run, "grid": {"shape": [64, 64, 64]}, "model": {"viscosity": 0.1, "dt": 0.1, "scheme": "rk4"}}
    )
    found = estimate(case, n_ranks)
    layout = DeviceLayout.of(PencilGrid((64, 64, 64), "phase-shift", (1, n_ranks), 0))
    assert found.device_memory == device_bytes(layout, 8, 0, 2, 1)
    assert (found.device_memory["exchange"] > 0) == (n_ranks > 1)
    # The host has one copy of the fields, and of the planes of one variable.
    assert found.memory_per_rank < 0.6 * sum(found.device_memory.values())
    assert "cuFFT" in " ".join(found.remarks)


@pytest.mark.parametrize(
    ("shape", "passes", "n_ranks", "words"),
    [
        ([64, 64, 64], "auto", 1, "in z with the packing, in one pass; in x with the products, in one pass"),
        ([64, 64, 64], "fused", 4, "in z with the packing, in one pass; in x by cuFFT, products apart"),
        ([64, 64, 64], "apart", 1, "in z by cuFFT, packed apart; in x by cuFFT, products apart"),
        ([60, 64, 64], "fused", 1, "in z by cuFFT, packed apart; in x with the products, in one pass"),
        ([60, 64, 60], "auto", 1, "in z by cuFFT, packed apart; in x by cuFFT, products apart"),
    ],
)  # fmt: skip
def test_check_says_which_passes_are_fused(shape, passes, n_ranks, words) -> None:
    pencils = {"decomposition": "pencils", "process_grid": (2, 2)} if n_ranks > 1 else {}
    case = TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 1, "device": "cuda"},
            "grid": {"shape": shape, **pencils},
            "model": {"viscosity": 0.1, "dt": 0.1, "fft": {"on_gpus": passes}},
        }
    )
    said = next(
        remark for remark in estimate(case, n_ranks).remarks if remark.startswith("transforms on GPUs")
    )
    assert f"in y by cuFFT; {words}" in said
    assert said.endswith(", if an earlier run finds that faster") == (
        "one pass" in words and passes == "auto"
    )


def test_a_long_run_times_both_passes() -> None:
    case = TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 10**7, "device": "cuda"},
            "grid": {"shape": [64, 64, 64]},
            "model": {"viscosity": 0.1, "dt": 0.1},
        }
    )
    assert any(
        "if this run, which times both, finds that faster" in each for each in estimate(case, 1).remarks
    )


def test_check_refuses_fused_passes_that_cannot_be_had() -> None:
    case = TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 1, "device": "cuda"},
            "grid": {"shape": [60, 64, 60]},
            "model": {"viscosity": 0.1, "dt": 0.1, "fft": {"on_gpus": "fused"}},
        }
    )
    with pytest.raises(DeviceError, match=r'on_gpus = "fused" .*: N_z, or of slabs N_x, .*; use "auto"'):
        estimate(case, 1)


PLAIN = "[model]\n"
FUSED = '[model]\nfft.on_gpus = "fused"\n'
WAVES = """\
[[scalar]]
schmidt = 1.0
variance = 0.1
[model]
rotation = [0.4, -0.7, 1.9]
brunt_vaisala = 3.0
"""
CASE = """\
[run]
model = "turbulence"
steps = {steps}
seed = 3
[grid]
shape = {shape}
{model}viscosity = 0.05
dt = 0.02
fft.effort = "estimate"
[initial]
kind = "taylor_green"
[forcing]
kind = "eswaran-pope"
amplitude = 0.5
correlation_time = 0.5
[output]
path = "{name}.bp"
series = "{name}.csv"
[checkpoint]
path = "{name}"
every = 2
"""


def run(folder, name, steps, *options, model):
    shape = [8, 6, 8] if model == FUSED else [6, 6, 6]
    (folder / "case.toml").write_text(CASE.format(steps=steps, name=name, model=model, shape=shape))
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ridgeline", "run", "case.toml", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SIMULATOR_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.jobs
@pytest.mark.parametrize("model", [PLAIN, WAVES, FUSED], ids=["plain", "waves", "fused"])
def test_runs_go_on_from_each_other_s_checkpoints(tmp_path, model) -> None:
    """The last row of the series of a run on CPU, GPU and CPU in turn is that of a run on the CPU."""
    run(tmp_path, "whole", 6, model=model)
    run(tmp_path, "turns", 2, model=model)
    assert "on cuda" in run(tmp_path, "turns", 4, "--device", "cuda", "--resume", "auto", model=model)
    assert "at step 4" in run(tmp_path, "turns", 6, "--resume", "auto", model=model)
    whole, turns = (
        [float(n) for n in (tmp_path / f"{name}.csv").read_text().splitlines()[-1].split(",")]
        for name in ("whole", "turns")
    )
    assert len(turns) > 10
    np.testing.assert_allclose(turns, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("scheme", "dealias"), [("rk2", "phase-shift"), ("rk4", "two-thirds"), ("rk4", "none")]
)
@pytest.mark.parametrize(("passes", "shape"), [("apart", (36, 40, 54)), ("fused", (32, 40, 96))])
def test_on_a_gpu_equals_the_cpu_to_rounding(scheme, dealias, dtype, passes, shape) -> None:
    skip_without_device()
    from ridgeline.models.turbulence.device.engine_cuda import CudaEngine

    lengths = 5.0, 7.0, 4.0
    flow = FlowParameters(0.02, scheme, (0.7,), ((1.0, -0.5, 2.0),), 3)
    host = make_engine(shape, flow, random_start, dealias, lengths, dtype=dtype)
    engine = CudaEngine(PencilGrid(shape, dealias, (1, 1), 0), lengths, MPI.COMM_SELF, dtype, flow)
    engine.products.choose(passes, engine.device.name)
    assert set(engine.products.fused) == {passes == "fused"}
    engine.compile()
    engine.fields[...] = host.fields
    engine.commit()
    for _ in range(20):
        engine.advance(0.005)
        host.advance(0.005)
    difference = np.abs(engine.fields - host.fields).max(1)
    assert (difference <= (1e-12 if dtype == np.float64 else 1e-5) * np.abs(host.fields).max(1)).all()
    assert engine.last_courant_rate == pytest.approx(host.last_courant_rate, rel=1e-4)
