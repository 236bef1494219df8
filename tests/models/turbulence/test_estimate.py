"""The counts of `ridgeline check`, against counts that are made rank by rank and number by number."""

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ridgeline.fourier.decomposition import PencilGrid, Truncation
from ridgeline.fourier.sizes import Share, exchanged, messages
from ridgeline.models.turbulence.estimate import estimate, paper_bound, process_grid
from ridgeline.models.turbulence.restart import field_sizes
from ridgeline.models.turbulence.runge_kutta import SCHEMES
from ridgeline.models.turbulence.settings import TurbulenceCase
from ridgeline.models.turbulence.step_work import Variables, flops, least_memory_traffic, wave_flops
from ridgeline.runtime.errors import DecompositionError

GRIDS = [((24, 32, 20), (1, 1)), ((24, 32, 20), (1, 3)), ((24, 32, 20), (3, 2)), ((16, 18, 20), (4, 1))]
DEALIAS = ("phase-shift", "two-thirds", "none")


def case(shape: Any = (16, 16, 16), scalars: int = 0, **sections: Any) -> TurbulenceCase:
    document: dict[str, Any] = {
        "run": {"model": "turbulence", "steps": 10},
        "grid": {"shape": shape},
        "model": {"viscosity": 0.01, "dt": 0.1},
        "scalar": [{"schmidt": 1.0}] * scalars,
    }
    for name, values in sections.items():
        document[name] = {**document.get(name, {}), **values}
    return TurbulenceCase.model_validate(document)


@pytest.mark.parametrize("dealias", DEALIAS)
@pytest.mark.parametrize(("shape", "grid"), GRIDS)
def test_exchange_is_what_ranks_do_not_share(shape: Any, grid: Any, dealias: Any) -> None:
    ranks = [PencilGrid(shape, dealias, grid, rank) for rank in range(grid[0] * grid[1])]
    rows, columns = (sum(counts) for counts in (Variables(2).counts.of_rows, Variables(2).counts.of_columns))
    column = row = 0
    for a in ranks:
        for b in ranks:
            if a is not b and a.row == b.row:  # planes of a, lines of b
                column += a.y_range[1] * b.lines.n_lines
            if a is not b and a.column == b.column:  # z of a, wavenumbers in x of b, in each plane
                row += a.y_range[1] * a.z_range[1] * len(b.columns_of(b.row))
    found = exchanged(Share.of(Truncation(shape, dealias), grid), shape[0], rows, columns)
    assert found == (row * (5 + 5 + 6), column * (5 + 4 + 4))
    work = estimate(case(shape, 2, grid={"decomposition": "pencils", "process_grid": grid},
                         model={"dealias": dealias}, run={"precision": "float32"}), len(ranks)).work  # fmt: skip
    assert work.bytes_exchanged == 2 * 8 * sum(found)
    assert work.points == math.prod(shape)


@pytest.mark.parametrize("dealias", DEALIAS)
@pytest.mark.parametrize(("shape", "grid"), GRIDS)
def test_shares_are_those_of_the_ranks(shape: Any, grid: Any, dealias: Any) -> None:
    share = Share.of(Truncation(shape, dealias), grid)
    for rank in range(grid[0] * grid[1]):
        mine = PencilGrid(shape, dealias, grid, rank)
        assert share.lines[mine.row, mine.column] == mine.lines.n_lines
        assert share.modes[mine.row, mine.column] == mine.lines.n_modes
        assert (share.rows[mine.row], share.planes[mine.column]) == mine.block[:2]


@pytest.mark.parametrize(
    ("grid", "batch", "expected"),
    [
        ((1, 1), 1, 0),
        ((1, 3), 1, 6 * (3 + 4)),
        ((1, 3), 2, 6 * (2 + 2)),
        ((1, 3), 4, 6 * (1 + 1)),
        ((2, 3), 3, 2 * 6 * (1 + 2) + 3 * 2 * (1 + 2)),
    ],
)
def test_messages(grid: tuple[int, int], batch: int, expected: int) -> None:
    counts = Variables(0).counts
    assert messages(grid, counts.of_rows, counts.of_columns, batch) == expected


def test_last_transpose_moves_071_of_full_lines() -> None:
    """Lines without a retained mode are left out: at most 0.71 of what the paper moves, from 128^3 on."""
    for n in (128, 256):
        truncation = Truncation((n, n, n), "phase-shift")
        moved = exchanged(Share.of(truncation, (1, 4)), n, 8, 7)[1]
        full = n * (n // 2) * n * (3 + 4) * 3 / 4  # N^3/2 modes, of which a quarter stay
        assert 0.68 < moved / full <= 0.71
    thirds = Truncation((128, 128, 128), "two-thirds")
    assert exchanged(Share.of(thirds, (1, 4)), 128, 8, 7)[1] / (128**3 / 2 * 7 * 3 / 4) < 0.45


def test_flops_of_full_transforms() -> None:
    """Without truncation the count is that of 8 and 7 transforms of whole grids, and little more."""
    truncation = Truncation((64, 64, 64), "none")
    full = 8 * 2.5 * 64**3 * 6 + 8 * 5 * 64**2 * 32 * 6 + 7 * 5 * 64 * 32 * 64 * 6
    beside = 64**3 * 8 + 64 * 64 * 32 * 12 + 64 * 64 * 32 * 104
    assert flops(truncation, Variables(0)) == pytest.approx(full + beside, rel=0.02)
    assert flops(truncation, Variables(0)) < full + beside
    pruned = flops(Truncation((64, 64, 64), "two-thirds"), Variables(0))
    assert 0.5 < pruned / (full + beside) < 0.8


@pytest.mark.parametrize(("scheme", "factors", "turns", "written"), [("rk2", 1, 2, 0), ("rk4", 2, 5, 1)])
def test_waves_are_counted_where_there_are_some(scheme: str, factors: int, turns: int, written: int) -> None:
    model = {"scheme": scheme, "brunt_vaisala": 2.0}
    plain, waves = (estimate(case(scalars=1, model=m), 2).work for m in ({"scheme": scheme}, model))
    n_modes = Truncation((16, 16, 16), "phase-shift").n_modes
    assert waves.flops - plain.flops == pytest.approx(n_modes * (factors * 50 + turns * 100))
    assert waves.bytes_memory - plain.bytes_memory == pytest.approx(written * 4 * n_modes * 16)
    substeps = SCHEMES[scheme].substeps
    assert sum(bool(substep.with_factor_of_modes) for substep in substeps) == factors
    assert (
        sum(bool(substep.with_factor_of_modes) + len(substep.with_factor_of_modes) for substep in substeps)
        == turns
    )
    assert wave_flops(Truncation((16, 16, 16), "none"), scheme, 0) == 0


@pytest.mark.parametrize(("scheme", "factors", "turns", "written"), [("rk2", 1, 2, 0), ("rk4", 2, 5, 1)])
def test_damping_by_mode_is_counted(scheme: str, factors: int, turns: int, written: int) -> None:
    """Of the fields that no factor of waves damps; drag on all modes costs nothing."""
    model = {"scheme": scheme, "hyperviscosity": 1e-4}
    plain, damped = (case(scalars=1, model=m) for m in ({"scheme": scheme, "drag": 0.1}, model))
    assert estimate(plain, 2).work == estimate(case(scalars=1, model={"scheme": scheme}), 2).work
    more, work, n_modes = (
        estimate(damped, 2),
        estimate(plain, 2).work,
        Truncation((16,) * 3, "phase-shift").n_modes,
    )
    assert more.work.flops - work.flops == pytest.approx(n_modes * (factors * 16 + turns * 2 * 4))
    assert more.work.bytes_memory - work.bytes_memory == pytest.approx(written * 4 * n_modes * 16)
    k = math.sqrt(2) / 3 * 16
    words = f"hyperviscosity damps at the rate {1e-4 * k**4:.3g} and viscosity at {0.01 * k**2:.3g}"
    assert any(words in remark for remark in more.remarks)
    rotating = case(model=model | {"rotation": (0, 0, 1)})
    assert (
        estimate(rotating, 1).work == estimate(case(model={"scheme": scheme, "rotation": (0, 0, 1)}), 1).work
    )


def test_a_force_that_depends_on_time_is_counted() -> None:
    def forced(x: str) -> TurbulenceCase:
        return case(forcing={"kind": "formula", "formula": [x, "0", "0"]})

    assert forced("cos(y)").force()
    steady, unsteady = estimate(forced("cos(y)"), 1), estimate(forced("cos(y + t)"), 1)
    assert unsteady.memory_per_rank > steady.memory_per_rank
    assert any("products of its first substep twice" in remark for remark in unsteady.remarks)


def test_memory_traffic_of_two_stages_a_substep() -> None:
    truncation = Truncation((16, 16, 16), "none")
    lines, modes = 15 * 8, 15 * 15 * 8
    plane_stage = line_stage = 16 * lines * (3 + 4)
    slabs = 2 * (plane_stage + line_stage) + (1 + 2 + 2) * 3 * modes  # begin, first and second substep
    assert least_memory_traffic(truncation, False, Variables(0), "rk2") == slabs
    pencils = slabs + 2 * 2 * 16 * 16 * 8 * (3 + 5)
    assert least_memory_traffic(truncation, True, Variables(0), "rk2") == pencils
    assert (
        least_memory_traffic(truncation, False, Variables(0), "rk4")
        == 4 * (plane_stage + line_stage) + (1 + 2 + 3 + 3 + 2) * 3 * modes
    )


@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize(("n", "ranks"), [(64, 1), (64, 2), (64, 3), (256, 4), (256, 64)])
def test_memory_is_within_the_papers(n: int, ranks: int, batch: int) -> None:
    plan = estimate(
        case((n, n, n), run={"precision": "float32"}, model={"transpose_variables": batch}), ranks
    )
    assert paper_bound((n, n, n), ranks, batch, 8) == (8 + 2 * batch + 0.5) * n**3 / (2 * ranks) * 8
    assert plan.memory_per_rank <= paper_bound((n, n, n), ranks, batch, 8)


@pytest.mark.parametrize("grid", [(2, 2), (4, 1), (4, 16)])
def test_memory_of_pencils_is_within_the_papers(grid: tuple[int, int]) -> None:
    ranks = grid[0] * grid[1]
    plan = estimate(
        case((512, 512, 512), grid={"decomposition": "pencils", "process_grid": grid},
             run={"precision": "float32"}, model={"transpose_variables": 1}), ranks
    )  # fmt: skip
    assert plan.memory_per_rank <= paper_bound((512, 512, 512), ranks, 1, 8)


def test_planning_needs_no_mpi() -> None:
    """A login node has none, or does not allow it."""
    code = "import sys, ridgeline.models.turbulence.estimate; print('mpi4py' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "False\n"


def test_sizes_of_files() -> None:
    plan = estimate(case((16, 18, 20), 1, run={"steps": 100}, output={"every": 20, "initial": True,
                         "variables": ["pressure", "scalar_0"]}), 1)  # fmt: skip
    assert (plan.outputs, plan.output_bytes) == (6, 6 * 2 * 16 * 18 * 20 * 8)
    sizes = field_sizes(Truncation((16, 18, 20), "phase-shift"), 1)
    assert plan.checkpoint_bytes == 16 * sum(sizes.values())
    never = estimate(case(output={"every": 0, "initial": True}), 1)
    assert (never.outputs, never.output_bytes) == (0, 0)


def test_slabs_and_pencils_that_are_chosen() -> None:
    assert process_grid(case(), 3) == (1, 3)
    assert process_grid(case(grid={"decomposition": "pencils", "process_grid": [2, 2]}), 4) == (2, 2)
    assert process_grid(case(grid={"decomposition": "pencils"}), 32) == (2, 16)
    plan = estimate(case(grid={"decomposition": "pencils"}), 32)
    assert (plan.process_grid, plan.block) == ((2, 16), (8, 1, 16))


@pytest.mark.parametrize(
    ("section", "ranks", "match"),
    [
        ({}, 17, r"process_grid = \[1, 17\] cannot divide 16 points in y into 17 parts. At most 16 columns"),
        ({"process_grid": [1, 3]}, 4, r"\[1, 3\] requires 3 ranks, but there are 4\. Use 3 ranks or"),
        ({"decomposition": "pencils", "process_grid": [2, 3]}, 4, r"requires 6 ranks, but there are 4"),
        ({"decomposition": "pencils", "process_grid": [9, 1]}, 9, r"At most 8 rows are possible"),
        (
            {"decomposition": "pencils"},
            1000,
            r"grid.shape = \[16, 16, 16\] cannot be divided over 1000 ranks",
        ),
    ],
)
def test_decompositions_without_data_for_a_rank(section: dict[str, Any], ranks: int, match: str) -> None:
    with pytest.raises(DecompositionError, match=match):
        estimate(case(grid=section), ranks)


def test_remarks_say_what_is_saved_and_what_the_paper_allows() -> None:
    remarks = " ".join(estimate(case((64, 64, 64)), 2).remarks)
    assert "Eq. 9" in remarks
    kept = Truncation((64, 64, 64), "phase-shift").n_lines / (64 * 33)
    assert f"{100 * (1 - kept):.3g} % of the lines" in remarks
    assert "Eq. 9" not in " ".join(estimate(case((64, 64, 64), 1), 2).remarks)  # of the velocity alone
    assert np.isfinite(estimate(case((64, 64, 64), 1), 2).memory_per_rank)
