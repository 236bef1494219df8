"""Small sparse matrices and what the passes by strips are made of, for tests of `sparse_*`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.sparse.row_strips import Strips, make_triangles
from ridgeline.sparse.wavefronts import WHOLE, number_wavefronts, order_by_wavefront


class System(NamedTuple):
    """A matrix by rows in its own order, dense too, and what is made of it."""

    indptr: NDArray
    columns: NDArray
    values: NDArray
    dense: NDArray  # [n, n], owned columns only
    block: int
    fronts: NDArray
    order: NDArray
    new_number: NDArray
    front_rows: NDArray
    lower: Strips
    upper: Strips


def system(rows: list[list[int]], seed: int = 3, block: int = WHOLE) -> System:
    """Make a matrix of random values with a dominant diagonal; columns of len(rows) and more are external."""
    rng = np.random.default_rng(seed)
    n = len(rows)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    columns = np.array([column for row in rows for column in row], np.int32)
    values = rng.uniform(-1, 1, columns.size)
    dense = np.zeros((n, n))
    for i in range(n):
        for place in range(indptr[i], indptr[i + 1]):
            if columns[place] == i:
                values[place] = 30 + rng.random()
            if columns[place] < n:
                dense[i, columns[place]] = values[place]
    fronts = number_wavefronts(indptr, columns, block)
    by_front = order_by_wavefront(fronts)
    return System(
        indptr,
        columns,
        values,
        dense,
        block,
        fronts,
        *by_front,
        *make_triangles(indptr, columns, values, *by_front),
    )


def box(nx: int, ny: int, nz: int, external: bool = False, block: int = WHOLE) -> System:
    """Make the 27-point pattern of a box, x fastest; with external columns behind its right face."""
    n = nx * ny * nz
    rows: list[list[int]] = []
    for k, j, i in np.ndindex(nz, ny, nx):
        row = [
            a + nx * (b + ny * c) if a < nx else n + b + ny * c
            for c in range(max(k - 1, 0), min(k + 2, nz))
            for b in range(max(j - 1, 0), min(j + 2, ny))
            for a in range(max(i - 1, 0), min(i + 2, nx + external))
        ]
        rows.append(row)
    return system(rows, block=block)


def scattered(n: int, per_row: int, seed: int = 5, block: int = WHOLE) -> System:
    """Make a random pattern, unsymmetric, unsorted; some rows hold nothing but the diagonal."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        others = rng.choice(2 * n, rng.integers(0, per_row + 1), replace=False)
        rows.append([int(c) for c in rng.permutation(np.unique([*others, i]))] if i % 7 else [i])
    return system(rows, seed, block)


CASES = {
    "one row": lambda: system([[0]]),
    "diagonal": lambda: system([[i] for i in range(19)]),
    "line": lambda: box(23, 1, 1),
    "plane": lambda: box(39, 21, 1),
    "box": lambda: box(7, 21, 5),
    "box with external columns": lambda: box(5, 18, 3, external=True),
    "box by planes": lambda: box(17, 15, 3, block=255),
    "box by blocks that cut planes": lambda: box(9, 11, 4, external=True, block=70),
    "random": lambda: scattered(150, 12),
    "random by blocks": lambda: scattered(150, 12, block=40),
    "dense": lambda: system([list(range(20))] * 20),
}
