"""The memory that `ridgeline check` states, against what the ranks of a run allocate."""

import math

import numpy as np
import pytest

from ridgeline.comm.fourier import FourierTransform
from ridgeline.grid.pencil import PencilGrid, Truncation
from ridgeline.models.turbulence.config import TurbulenceCase
from ridgeline.models.turbulence.estimate import Share, Variables, memory, rank_memory

RANKS = (1, 2, 3, 4)
TIMEOUT = 240


def make_case(shape, grid, batch, scalars=0, precision="float64", threads=1, dealias="phase-shift"):
    return TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 1, "precision": precision, "threads": threads},
            "grid": {"shape": shape, "decomposition": "pencils", "process_grid": grid},
            "model": {
                "viscosity": 0.1, "dt": 0.1, "transpose_variables": batch, "dealias": dealias,
                "transpose": {"method": "alltoallv"},
            },
            "scalar": [{"schmidt": 1.0}] * scalars,
        }
    )  # fmt: skip


def process_grids(size):
    return [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]


@pytest.mark.parametrize("layout", ["strided", "packed"])
@pytest.mark.parametrize("how", [(1, 0, "float32", 1), (4, 0, "float64", 1), (3, 2, "float32", 2)])
def test_transforms_hold_what_was_estimated(comm, how, layout):
    batch, scalars, precision, threads = how
    variables = Variables(scalars)
    for grid in process_grids(comm.size):
        shape = (20, 18, 24)
        case = make_case(shape, grid, batch, scalars, precision, threads)
        mine = PencilGrid(shape, "phase-shift", grid, comm.rank)
        transform = FourierTransform(
            mine, (2 * math.pi,) * 3, comm, np.dtype(precision), n_in=variables.fields, n_mid=variables.products,
            n_out=variables.combined, batch=batch, method="alltoallv", threads=threads, effort="estimate",
            layout=layout,
        )  # fmt: skip
        held = transform.memory()
        share = Share.of(Truncation(shape, "phase-shift"), grid)
        expected = rank_memory(case, grid, comm.rank, share, layout)
        assert expected["exchange"] == held["exchange"]
        tables = 64 * (shape[0] + comm.size)  # runs of lines, and where no mode is
        assert expected["work"] <= held["work"] <= expected["work"] + tables
        fields = variables.fields * mine.lines.n_modes * 2 * np.dtype(precision).itemsize
        assert expected["fields"] == fields
        most = max(comm.allgather(fields))
        assert memory(case, grid)["fields"] == most
