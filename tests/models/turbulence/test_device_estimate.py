"""Turbulence on GPUs before it runs: memory, places of lines in exchanges, what `ridgeline check` says of passes."""

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.device.layout import DeviceLayout
from ridgeline.models.turbulence.device.device_estimate import device_bytes, exchange_groups
from ridgeline.models.turbulence.device.kernels_diagnostics_cuda import MOST_BINS
from ridgeline.models.turbulence.estimate import estimate, paper_bound
from ridgeline.models.turbulence.gradients import BIN_EDGES
from ridgeline.models.turbulence.pressure import DEVIATIONS
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.runtime.errors import DeviceError


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
        ([64, 64, 64], "auto", 1, "in z in one pass with the packing; in x in one pass with the products"),
        ([64, 64, 64], "fused", 4, "in z in one pass with the packing; in x by cuFFT, with separate products"),
        ([64, 64, 64], "apart", 1, "in z by cuFFT, with separate packing; in x by cuFFT, with separate products"),
        ([60, 64, 64], "fused", 1, "in z by cuFFT, with separate packing; in x in one pass with the products"),
        ([60, 64, 60], "auto", 1, "in z by cuFFT, with separate packing; in x by cuFFT, with separate products"),
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
    assert said.endswith(", if an earlier run finds this to be faster") == (
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
        "if this run, which times both, finds this to be faster" in each for each in estimate(case, 1).remarks
    )


def test_check_refuses_fused_passes_that_cannot_be_had() -> None:
    case = TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 1, "device": "cuda"},
            "grid": {"shape": [60, 64, 60]},
            "model": {"viscosity": 0.1, "dt": 0.1, "fft": {"on_gpus": "fused"}},
        }
    )
    with pytest.raises(
        DeviceError, match=r'on_gpus = "fused" cannot .* neither N_z nor, with slabs, N_x is .*\. Use "auto"'
    ):
        estimate(case, 1)


@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
def test_waves_take_no_memory(scheme) -> None:
    model = {"viscosity": 0.1, "dt": 0.1, "scheme": scheme}
    common = {
        "run": {"model": "turbulence", "steps": 1, "device": "cuda"},
        "grid": {"shape": (16, 16, 16)},
        "scalar": [{"schmidt": 1.0}],
    }
    plain, waves = (
        estimate(TurbulenceCase.model_validate(common | {"model": each}), 2)
        for each in (model, model | {"rotation": [0, 0, 1], "brunt_vaisala": 2.0})
    )
    assert waves.device_memory == plain.device_memory
    assert waves.memory_per_rank == plain.memory_per_rank
    assert waves.work.flops > plain.work.flops


def test_all_bins_of_densities_fit_into_a_thread_block() -> None:
    assert max(len(BIN_EDGES) + 1, len(DEVIATIONS) + 2) <= MOST_BINS
