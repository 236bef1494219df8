"""One step of turbulence on GPUs as slabs and as pencils, in numba-cuda's simulator: in time for `make test`."""

import os

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba.core import config

if not config.ENABLE_CUDASIM:
    pytest.skip("Numba was imported before the simulator was asked for", allow_module_level=True)

from device_flow_tools import compare_with_one_rank
from ridgeline.models.turbulence.problem import FlowParameters

RANKS = (3,)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}


def test_a_step_equals_the_cpu_on_one_rank(comm) -> None:
    flow = FlowParameters(0.02, "rk2", seed=3)
    compare_with_one_rank(comm, flow, "two-thirds", np.float64, 2, "mpi", (4, 6, 8), steps=1)
