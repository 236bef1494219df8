"""Where the kernels of a test run: in numba-cuda's simulator, or with RIDGELINE_TEST_ON_GPU=1 on a real GPU.

    RIDGELINE_TEST_ON_GPU=1 python -m pytest tests/models/reaction_diffusion/simulated_reaction_cuda.py

The same comparisons with the CPU are made in both.
"""

import os

import pytest

ON_GPU = os.environ.get("RIDGELINE_TEST_ON_GPU", "0") not in ("", "0")
DEVICE = "NVIDIA" if ON_GPU else "simulator"  # in what names the device
ENVIRONMENT = {} if ON_GPU else {"NUMBA_ENABLE_CUDASIM": "1"}

only_simulated = pytest.mark.skipif(ON_GPU, reason="asks what only the simulator has")


def simulate() -> None:
    """Choose the simulator, or skip the calling file. To be called before Numba is imported."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')
    from numba.core import config

    if not (ON_GPU or config.ENABLE_CUDASIM):
        pytest.skip("Numba was imported before the simulator was asked for", allow_module_level=True)
