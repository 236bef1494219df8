"""Matrices for tests of HPL on any grid, given as a function of global indices, and the whole solution."""

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import distribute, grid_place
from ridgeline.bench.hpl.matrix import random_matrix


def filled_by(function):
    """What solve_system takes as `fill`: column j of [A, b] is function(rows, j), b being the last one."""

    def fill_of(place, seed):
        def fill(out, first, last):
            rows = place.rows.globals()
            for local, column in enumerate(place.columns.globals()[first:last], start=first):
                out[: rows.size, local] = function(rows, int(column))

        return fill

    return fill_of


def random_system(n, seed=100):
    """The whole of HPL's random matrix and its right-hand side, by one process."""
    place = distribute(n, 8, (1, 1), (0, 0))
    out = np.empty((n, n + 1), order="F")
    random_matrix(place, seed)(out, 0, n + 1)
    return out[:, :-1], out[:, -1]


def whole_solution(comm: MPI.Intracomm, run):
    """x of all processes, from the parts of those in the first row of the grid."""
    settings = run.settings
    row, column = grid_place(settings.p, settings.q, comm.rank, settings.order)
    axis = distribute(settings.n, settings.nb, (settings.p, settings.q), (row, column)).columns
    x = np.full(settings.n, np.nan)
    for indices, part in comm.allgather((axis.globals()[: run.solution.size], run.solution)):
        assert np.all(np.isnan(x[indices]) | (x[indices] == part)), (
            "rows of processes have different solutions"
        )
        x[indices] = part
    return x
