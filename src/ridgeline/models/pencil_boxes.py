"""Boxes of particles on the grid of a transform: a rank owns the particles of the cells that begin at its points."""

from __future__ import annotations

import numpy as np

from ridgeline.fourier.decomposition import ProcessGrid
from ridgeline.fourier.modes import Lengths
from ridgeline.parallel.partition import Triple, split
from ridgeline.particles.boxes import Boxes, cell_edges


def boxes_of(shape: Triple, process_grid: ProcessGrid, lengths: Lengths) -> Boxes:
    """Return the boxes of all ranks, each of which has the cells that begin at the rank's points.

    shape: (N_z, N_y, N_x) of the grid; process_grid: (P_r, P_c); lengths: (L_z, L_y, L_x).
    """
    (nz, ny, nx), (rows, columns) = shape, process_grid
    z, y, x = lengths
    cuts_z = [*(split(nz, rows, r)[0] for r in range(rows)), nz]
    cuts_y = [*(split(ny, columns, c)[0] for c in range(columns)), ny]
    ranks = np.arange(rows)[:, np.newaxis] + rows * np.arange(columns)
    edges = cell_edges(z, nz, cuts_z), cell_edges(y, ny, cuts_y), cell_edges(x, nx, [0, nx])
    return Boxes(edges, ranks[:, :, np.newaxis].astype(np.int64))
