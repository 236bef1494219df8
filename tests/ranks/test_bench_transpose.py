"""The exchanges alone: real counts, all process grids, the paper's bytes and bandwidth."""

import numpy as np
import pytest
from rich.console import Console

from ridgeline.bench.result import make_table
from ridgeline.bench.transpose.transpose_options import TransposeOptions
from ridgeline.bench.transpose.transpose_result import to_result
from ridgeline.bench.transpose.transpose_timing import (
    COLUMN_FORWARD,
    INVERSE,
    ROW_FORWARD,
    counts_of,
    fitting_grids,
    time_exchanges,
)
from ridgeline.fourier.decomposition import PencilGrid, Truncation
from ridgeline.fourier.exchanges.tuned_transpose import Transpose
from ridgeline.fourier.tuning import TransposeTuning
from ridgeline.runtime.errors import ConfigError, DecompositionError


def column_transpose(
    comm, pattern: TransposeOptions, process_grid: tuple[int, int]
) -> tuple[object, Transpose]:
    p_r = process_grid[0]
    column_comm = comm.Split(comm.rank % p_r, comm.rank // p_r)
    _, _, planes, lines = counts_of(pattern, process_grid, comm.rank)
    transpose = Transpose(
        column_comm, planes, lines, COLUMN_FORWARD, INVERSE, pattern.dtype, TransposeTuning("alltoallv")
    )
    return column_comm, transpose


@pytest.mark.parametrize("n", [128, 144, 192])
@pytest.mark.parametrize(("dealias", "most"), [("phase-shift", 0.71), ("two-thirds", 0.45)])
def test_bytes_through_the_last_transpose(comm, n: int, dealias: str, most: float) -> None:
    """At most 0.71 of the paper's: 4 variables forward and 3 inverse over N planes of N (N/2) full lines.

    bytes_held is P2P x R of all ranks, own blocks included, as in the paper's Eq. 13; of what leaves the ranks,
    the paper's share is (P_c - 1)/P_c of it.
    """
    pattern = TransposeOptions((n, n, n), dealias)
    for process_grid in fitting_grids(pattern, comm.size):
        column_comm, transpose = column_transpose(comm, pattern, process_grid)
        directions = transpose.forward, transpose.inverse
        held = comm.allreduce(sum(d.bytes_held() for d in directions))
        sent = comm.allreduce(sum(d.bytes_sent() for d in directions))
        paper = (4 + 3) * n * (n * (n // 2)) * 8
        assert held == (4 + 3) * n * Truncation((n, n, n), dealias).n_lines * 8
        assert held <= most * paper
        assert sent <= most * paper * (process_grid[1] - 1) / process_grid[1] * 1.001  # ragged shares
        assert (sent > 0) == (process_grid[1] > 1)
        transpose.free()
        column_comm.Free()


@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds", "none"])
def test_counts_are_those_of_the_ranks(comm, dealias: str) -> None:
    shape = (12, 10, 16)
    pattern = TransposeOptions(shape, dealias)
    for process_grid in fitting_grids(pattern, comm.size):
        grid = PencilGrid(shape, dealias, process_grid, comm.rank)
        row_rows, row_columns, planes, lines = counts_of(pattern, process_grid, comm.rank)
        assert row_rows[grid.row] == grid.block[0] * grid.block[1]
        assert row_columns[grid.row] == len(grid.columns_of(grid.row))
        assert planes[grid.column] == grid.block[1]
        assert lines[grid.column] == grid.lines.n_lines
        assert sum(row_rows) == shape[0] * grid.block[1]
        assert sum(row_columns) == grid.truncation.n_columns
        assert sum(planes) == shape[1]
        of_all = comm.allgather((grid.row, lines[grid.column]))
        assert sum(lines) == sum(mine for row, mine in of_all if row == grid.row)
        assert sum(mine for _, mine in of_all) == grid.truncation.n_lines


def test_full_lines_have_the_counts_of_the_paper(comm) -> None:
    pattern = TransposeOptions((12, 24, 24), lines="full")
    for process_grid in fitting_grids(pattern, comm.size):
        row_rows, row_columns, planes, lines = counts_of(pattern, process_grid, comm.rank)
        p_r, p_c = process_grid
        assert row_rows == [(24 // p_c) * (12 // p_r)] * p_r
        assert row_columns == [12 // p_r] * p_r
        assert planes == [24 // p_c] * p_c
        assert lines == [12 * 12 // (p_r * p_c)] * p_c


def test_every_process_grid_and_q_on_every_rank(comm) -> None:
    pattern = TransposeOptions((16, 16, 16), method="alltoallv", cycles=2, batches=(1, 4))
    figures = time_exchanges(comm, pattern)
    expected = [(d, comm.size // d) for d in range(1, comm.size + 1) if comm.size % d == 0]
    assert [(f.process_grid, f.batch) for f in figures] == [(g, q) for g in expected for q in (1, 4)]
    for figure in figures:
        seconds = comm.allgather((figure.seconds, figure.row.seconds, figure.column.seconds))
        assert len(set(seconds)) == 1
        p_r, p_c = figure.process_grid
        for exchange, size, forward in ((figure.row, p_r, ROW_FORWARD), (figure.column, p_c, COLUMN_FORWARD)):
            assert exchange.ranks == size
            assert exchange.messages == (size - 1) * (
                -(-forward // figure.batch) + -(-INVERSE // figure.batch)
            )
            if size == 1:
                assert exchange.bandwidth is None
                assert exchange.bytes_sent == 0
            else:  # Eq. 13, all variables of a substep at once
                held = exchange.message / min(figure.batch, forward) * (forward + INVERSE) * size
                np.testing.assert_allclose(exchange.bandwidth, held / exchange.seconds, rtol=1e-12)


def test_full_messages_of_q_variables(comm) -> None:
    pattern = TransposeOptions((24, 24, 24), lines="full", method="alltoallv", cycles=1, batches=(2,))
    for figure in time_exchanges(comm, pattern):
        p_r, p_c = figure.process_grid
        block = 12 * 24 * 24 // comm.size
        assert figure.row.message == pytest.approx(2 * 8 * block / p_r)
        assert figure.column.message == pytest.approx(2 * 8 * block / p_c)
        assert figure.column.bytes_sent == 7 * 8 * block * (p_c - 1) * p_r


def test_table_and_json_have_every_case(comm) -> None:
    pattern = TransposeOptions((16, 16, 16), method="auto", cycles=1, batches=(3,))
    figures = time_exchanges(comm, pattern)
    result = to_result(comm.size, pattern, figures)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(make_table(result))
    assert capture.get().count("\n    ") == len(figures) == len(result.rows)
    facts = result.settings
    assert facts["lines_of_the_paper"] == 128
    assert facts["lines_sent"] == PencilGrid((16, 16, 16), "phase-shift", (1, 1), 0).lines.n_lines
    assert [row["process_grid"] for row in result.rows] == [
        "{} x {}".format(*f.process_grid) for f in figures
    ]


def test_what_does_not_fit(comm) -> None:
    with pytest.raises(
        DecompositionError, match=r"--process-grid 5 7: this grid requires 35 ranks, but the job has \d"
    ):
        time_exchanges(comm, TransposeOptions((16, 16, 16), process_grid=(5, 7)))
    with pytest.raises(DecompositionError, match="15 points in y"):
        time_exchanges(comm, TransposeOptions((16, 15, 16)))
    with pytest.raises(ConfigError, match="GiB on a node, which is more than is free"):
        time_exchanges(comm, TransposeOptions((2**17, 2**17, 16), lines="full", process_grid=(1, comm.size)))
