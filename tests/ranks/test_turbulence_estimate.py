"""The memory that `ridgeline check` states, against what the ranks of a run allocate."""

import math

import numpy as np
import pytest

from ridgeline.fourier.decomposition import PencilGrid, Truncation
from ridgeline.fourier.sizes import Share
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.models.turbulence.engine_cpu import CpuEngine
from ridgeline.models.turbulence.estimate import memory, rank_memory
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.settings import TurbulenceCase

RANKS = (1, 2, 3, 4)
TIMEOUT = 240


def make_case(shape, grid, batch, scalars=0, precision="float64", threads=1, scheme="rk2"):
    return TurbulenceCase.model_validate(
        {
            "run": {"model": "turbulence", "steps": 1, "precision": precision, "threads": threads},
            "grid": {"shape": shape, "decomposition": "pencils", "process_grid": grid},
            "model": {
                "viscosity": 0.1, "dt": 0.1, "transpose_variables": batch, "scheme": scheme,
                "transpose": {"method": "alltoallv"},
            },
            "scalar": [{"schmidt": 1.0}] * scalars,
        }
    )  # fmt: skip


def process_grids(size):
    return [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]


@pytest.mark.parametrize("layout", ["strided", "packed"])
@pytest.mark.parametrize(
    "how", [(1, 0, "float32", 1, "rk2"), (4, 0, "float64", 1, "rk4"), (3, 2, "float32", 2, "rk2")]
)
def test_engines_hold_what_was_estimated(comm, how, layout):
    batch, scalars, precision, threads, scheme = how
    shape = (20, 18, 24)
    flow = FlowParameters(0.1, scheme, (1.0,) * scalars, ((0.0, 0.0, 0.0),) * scalars)
    for grid in process_grids(comm.size):
        case = make_case(shape, grid, batch, scalars, precision, threads, scheme)
        mine = PencilGrid(shape, "phase-shift", grid, comm.rank)
        engine = CpuEngine(
            mine, (2 * math.pi,) * 3, comm, np.dtype(precision), flow,
            TransformTuning("alltoallv", batch, threads=threads, effort="estimate", layout=layout),
        )  # fmt: skip
        held = engine.memory()
        share = Share.of(Truncation(shape, "phase-shift"), grid)
        expected = rank_memory(case, grid, comm.rank, share, layout)
        assert expected.keys() == held.keys()
        for name in ("fields", "exchange", "modes"):
            assert expected[name] == held[name], name
        tables = 64 * (shape[0] + comm.size)  # runs of lines, and where no mode is
        assert expected["work"] <= held["work"] <= expected["work"] + tables
        engine.transform.free()
        sharing = CpuEngine(
            mine, (2 * math.pi,) * 3, comm, np.dtype(precision), flow,
            TransformTuning("shared", batch, threads=threads, effort="estimate", layout=layout),
        )  # fmt: skip
        less = sharing.memory()
        sharing.transform.free()
        assert less["exchange"] <= held["exchange"]
        assert less["exchange"] + less["work"] <= held["exchange"] + held["work"]
        assert memory(case, grid)["fields"] == max(comm.allgather(held["fields"]))
