"""Slabs and pencils: the retained modes counted by brute force, and every one owned once, in canonical order."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from ridgeline.fourier.decomposition import PencilGrid, Truncation, check_process_grid, choose_process_grid
from ridgeline.runtime.errors import DecompositionError

SHAPES = [(8, 8, 8), (12, 8, 10), (4, 4, 4), (24, 32, 20), (6, 18, 12)]
DEALIAS = ["phase-shift", "two-thirds", "none"]
GRIDS = [(1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (4, 1), (1, 4)]


def retained(shape, dealias, jz, jy, jx) -> bool:
    """The definition, in exact arithmetic."""
    j = (jz, jy, jx)
    if any(abs(m) >= n // 2 for m, n in zip(j, shape)):
        return False  # Nyquist
    if dealias == "phase-shift":
        return sum(Fraction(m, n) ** 2 for m, n in zip(j, shape)) < Fraction(2, 9)
    return dealias == "none" or all(3 * abs(m) < n for m, n in zip(j, shape))


def order(n: int) -> list[int]:
    """0, 1, ..., -2, -1."""
    return [*range(n // 2), *range(-n // 2, 0)]


def canonical(shape, dealias) -> list[tuple[int, int, int]]:
    """All retained (jz, jy, jx), in canonical order."""
    nz, ny, nx = shape
    return [
        (jz, jy, jx)
        for jz, jx, jy in itertools.product(order(nz), range(nx // 2 + 1), order(ny))
        if retained(shape, dealias, jz, jy, jx)
    ]


def fitting(shape, dealias):
    for process_grid in GRIDS:
        try:
            check_process_grid(Truncation(shape, dealias), process_grid)
        except DecompositionError:
            continue
        yield process_grid


@pytest.mark.parametrize("dealias", DEALIAS)
@pytest.mark.parametrize("shape", SHAPES)
def test_counts_by_brute_force(shape, dealias):
    modes = canonical(shape, dealias)
    truncation = Truncation(shape, dealias)
    assert truncation.n_modes == len(modes)
    assert truncation.n_lines == len({(jz, jx) for jz, _, jx in modes})
    assert truncation.n_columns == len({jx for _, _, jx in modes})
    assert {jx for _, _, jx in modes} == set(range(truncation.n_columns))
    for place, jz in enumerate(order(shape[0])):
        for jx in range(truncation.n_columns):
            most = max((jy for z, jy, x in modes if (z, x) == (jz, jx)), default=-1)
            assert truncation.table[place, jx] == most


def test_modes_on_the_sphere_itself_are_cut():
    """|j/N|^2 = 2/9 exactly: j = (N/3, N/3, 0). Floating point must not let it in."""
    for n in (12, 24, 96, 384, 1536, 3 * 2**12):
        truncation = Truncation((n, n, n), "phase-shift")
        third = np.array([n // 3])
        assert truncation.most_y(third, third)[0] == -1
        assert truncation.most_y(third, third - 1)[0] == math.isqrt(
            (2 * n * n - (n * n + (n - 3) ** 2) - 1) // 9
        )
        assert truncation.most_y(third, np.array([0]))[0] == n // 3 - 1


@pytest.mark.parametrize("n", [1024, 8192, 32768])
def test_largest_numbers_of_large_grids_are_exact(n):
    truncation = Truncation((n, n, n), "phase-shift")
    rng = np.random.default_rng(3)
    jz, jx = rng.integers(0, n // 2, (2, 200))
    for most, z, x in zip(truncation.most_y(jz, jx), jz.tolist(), jx.tolist()):
        rest = 2 * n * n - 9 * (z * z + x * x)
        expected = math.isqrt((rest - 1) // 9) if rest > 0 else -1
        assert most == expected


@pytest.mark.parametrize("dealias", DEALIAS)
@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_tile_modes_lines_and_points(shape, dealias):
    modes = canonical(shape, dealias)
    place_of = {mode: place for place, mode in enumerate(modes)}
    grids = list(fitting(shape, dealias))
    assert (1, 1) in grids
    for process_grid in grids:
        found, points = [], np.zeros(shape[:2], int)
        n_ranks = math.prod(process_grid)
        sizes = []
        for rank in range(n_ranks):
            grid = PencilGrid(shape, dealias, process_grid, rank)
            assert grid.row + process_grid[0] * grid.column == rank
            lines = grid.lines
            mine = [tuple(map(int, mode)) for mode in zip(*lines.expand())]
            assert len(mine) == lines.n_modes
            assert mine == sorted(mine, key=place_of.__getitem__), "a rank's modes are in canonical order"
            starts = [place_of[mine[at]] for at in lines.start[:-1]]
            assert lines.start_global.tolist() == starts
            assert set(lines.jx.tolist()) <= set(grid.columns_of(grid.row).tolist())
            assert np.array_equal(np.diff(lines.start), 2 * lines.most + 1)
            found += mine
            sizes.append(lines.n_lines)
            assert grid.block == (grid.z_range[1], grid.y_range[1], shape[2])
            z, y, _ = grid.offset
            points[z : z + grid.block[0], y : y + grid.block[1]] += 1
        assert sorted(found, key=place_of.__getitem__) == modes
        assert len(found) == len(modes)
        assert np.all(points == 1)
        assert min(sizes) >= 1
        assert sum(sizes) == grid.truncation.n_lines
    assert PencilGrid(shape, dealias, (1, 1), 0).lines.start_global.tolist() == (
        PencilGrid(shape, dealias, (1, 1), 0).lines.start[:-1].tolist()
    )


def test_lines_of_a_row_are_cut_evenly():
    grid = PencilGrid((32, 32, 32), "phase-shift", (2, 3), 4)
    for row in range(2):
        sizes = [grid.line_range(row, column)[1] for column in range(3)]
        assert max(sizes) - min(sizes) <= 1
        offsets = [grid.line_range(row, column)[0] for column in range(3)]
        assert offsets == [0, sizes[0], sizes[0] + sizes[1]]
        places, columns, most = grid.lines_of(row)
        assert len(places) == len(columns) == len(most) == sum(sizes)
    of_rows = [sum(grid.line_range(row, column)[1] for column in range(3)) for row in range(2)]
    longest = (grid.truncation.table[:, 0] >= 0).sum()
    assert max(of_rows) - min(of_rows) <= longest, "long and short columns are dealt to both rows"
    assert (grid.row, grid.column) == (0, 2)


@pytest.mark.parametrize(
    ("dealias", "least", "most"), [("phase-shift", 0.29, 0.31), ("two-thirds", 0.54, 0.57), ("none", 0, 0.03)]
)
def test_saved_lines(dealias, least, most):
    grid = PencilGrid((128, 128, 128), dealias, (1, 1), 0)
    assert least < grid.saved_lines < most
    assert grid.saved_lines == pytest.approx(1 - grid.lines.n_lines / (128 * 65))


@pytest.mark.parametrize(
    ("shape", "process_grid", "words"),
    [
        ((9, 8, 8), (1, 1), "grid.shape has 9 points in z, but it must have an even number"),
        ((8, 8, 7), (1, 1), "grid.shape has 7 points in x"),
        (
            (8, 2, 8),
            (1, 1),
            "grid.shape has 2 points in y, but it must have an even number that is at least 4",
        ),
        (
            (4, 8, 64),
            (5, 1),
            r"grid.process_grid = \[5, 1\] cannot divide 4 points in z into 5 parts. At most 4 rows",
        ),
        (
            (8, 4, 8),
            (1, 5),
            r"grid.process_grid = \[1, 5\] cannot divide 4 points in y into 5 parts. At most 4 columns",
        ),
        (
            (64, 8, 8),
            (5, 1),
            r"\[5, 1\] cannot divide 4 retained wavenumbers in x over 5 rows. At most 4 rows",
        ),
        ((4, 64, 4), (2, 5), r"\[2, 5\] cannot divide [1-4] lines of modes into 5 parts. Use fewer ranks"),
    ],
)
def test_what_cannot_be_cut(shape, process_grid, words):
    with pytest.raises(DecompositionError, match=words):
        PencilGrid(shape, "phase-shift", process_grid, 0)


def test_automatic_process_grids():
    truncation = Truncation((8, 8, 8), "phase-shift")
    assert choose_process_grid(truncation, 4, "slabs", 4) == (1, 4)
    assert choose_process_grid(truncation, 4, "pencils", 4) == (1, 4)
    assert choose_process_grid(truncation, 16, "pencils", 4) == (2, 8), "8 planes: slabs do not fit"
    truncation = Truncation((16, 8, 16), "phase-shift")
    assert choose_process_grid(truncation, 24, "pencils", 4) == (4, 6)
    assert choose_process_grid(truncation, 24, "pencils", 3) == (3, 8), "a row stays within a node of 3"
    with pytest.raises(DecompositionError, match="cannot divide 8 points in y into 9 parts"):
        choose_process_grid(truncation, 9, "slabs", 4)
    with pytest.raises(
        DecompositionError, match=r"grid.shape = \[16, 8, 16\] cannot be divided over 1000 ranks"
    ):
        choose_process_grid(truncation, 1000, "pencils", 4)
