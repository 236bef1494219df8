"""HPCG's problem with a known spectrum: nine distinct rows and the rest equal, so that CG ends in about ten steps."""

import numpy as np


def iterations(path, level, b, preconditioned):
    """Return the result of CG on the scaled problem to 1e-12; the diagonal is put back.

    Diagonal and right side are scaled by (i + 2) 1e6 in the rows i = 0 ... 8, by 1e6 elsewhere.
    """
    rows = level.matrix.rows_global
    scale = np.where(rows < 9, rows + 2.0, 1.0) * 1e6
    path.replace_diagonal(26.0 * scale)
    result = path.cg(path.vector(scale * b), path.vector(), 500, 1e-12, preconditioned=preconditioned)
    path.replace_diagonal(np.full(path.n_rows, 26.0))
    return result
