"""Matrices go from row owners to column owners and back, by every method, whatever the counts."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from ridgeline.comm.transpose import Direction, Transpose

TIMEOUT = 300


def entry(direction: int, variable: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A number that names its place: distinct for every (direction, variable, row, column)."""
    rows, columns = np.meshgrid(rows, columns, indexing="ij")
    return (direction * 10 + variable + 1) * 1000.0 + rows + 1j * (columns + 1)


def first(counts: Sequence[int], rank: int) -> int:
    return sum(counts[:rank])


def row_views(transpose: Transpose, table: Direction, variable: int, row: int):
    """(columns, view into the arena) of each segment of one of my rows."""
    cuts = table.segment_columns
    for s, (begin, end) in enumerate(pairwise(cuts)):
        at = table.row_start[variable, row, s]
        yield np.arange(begin, end), transpose.arena[at : at + end - begin]


def column_views(transpose: Transpose, table: Direction, variable: int, row: int):
    """(my columns, view into the arena) of each group of any row."""
    cuts = table.group_columns
    for g, (begin, end) in enumerate(pairwise(cuts)):
        at = table.column_start[variable, row, g]
        yield np.arange(begin, end), transpose.arena[at : at + end - begin]


def there_and_back(
    comm, rows: Sequence[int], columns: Sequence[int], n_forward: int, n_inverse: int, **kwargs
) -> None:
    dtype = kwargs.pop("dtype", np.complex128)
    transpose = Transpose(comm, rows, columns, n_forward, n_inverse, dtype, **kwargs)
    my_row, my_column = first(rows, comm.rank), first(columns, comm.rank)
    for turn in range(2):  # twice: the second finds the first's numbers in every region
        forward, inverse = transpose.forward, transpose.inverse
        for chunk, (begin, end) in enumerate(zip(forward.chunks[:-1], forward.chunks[1:])):
            for row in range(begin, end):
                for v in range(n_forward):
                    for cs, view in row_views(transpose, forward, v, row):
                        if turn and v < n_inverse:  # what came is there until its row is overwritten
                            np.testing.assert_array_equal(view, entry(1, v, [my_row + row], cs)[0])
                        view[:] = entry(0, v, [my_row + row], cs)[0]
            forward.start(chunk)
            forward.progress()
        forward.finish()
        for chunk, (begin, end) in enumerate(zip(inverse.chunks[:-1], inverse.chunks[1:])):
            for row in range(sum(rows)):
                for v in range(max(n_forward, n_inverse)):
                    table = forward if v < n_forward else inverse
                    for cs, view in column_views(transpose, table, v, row):
                        inside = (cs >= begin) & (cs < end)
                        if v < n_forward:
                            expected = entry(0, v, [row], my_column + cs)[0]
                            np.testing.assert_array_equal(view[inside], expected[inside])
                        if v < n_inverse:
                            view[inside] = entry(1, v, [row], my_column + cs)[0][inside]
            inverse.start(chunk)
            inverse.progress()
        inverse.finish()
    for row in range(rows[comm.rank]):
        for v in range(n_inverse):
            for cs, view in row_views(transpose, inverse, v, row):
                np.testing.assert_array_equal(view, entry(1, v, [my_row + row], cs)[0])


UNEVEN = ((5, 4, 3, 7), (9, 2, 6, 5))


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
@pytest.mark.parametrize(("n_forward", "n_inverse"), [(4, 3), (3, 5), (1, 1)])
def test_there_and_back(comm, batch: int, n_forward: int, n_inverse: int) -> None:
    rows, columns = (counts[: comm.size] for counts in UNEVEN)
    there_and_back(comm, rows, columns, n_forward, n_inverse, batch=batch, method="alltoallv")
