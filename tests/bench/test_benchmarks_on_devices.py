"""Benchmarks with `--device cuda`: the memory that is counted for a GPU, and the error where there is none."""

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from mpi4py import MPI

from bench_tools import measure
from cuda_tools import skip_without_device
from ridgeline.bench.hpl.sizes import hpl_device_parts, mxp_block, mxp_device_parts
from ridgeline.runtime.errors import DeviceError


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hpl", {"n": "100", "device": "cuda"}),
        ("hpl-mxp", {"n": "100", "device": "cuda"}),
        ("nekbone", {"memory": "cuda-staged", "points": [4], "elements": 8, "iterations": 1}),
    ],
)
def test_without_a_gpu_it_is_refused(name, options) -> None:
    """Nothing falls back to the CPU."""
    try:
        skip_without_device()
    except pytest.skip.Exception:
        with pytest.raises(DeviceError, match="--device cpu"):
            measure(name, MPI.COMM_SELF, **options)


def test_memory_of_hpl() -> None:
    """One process needs little more than the matrix; several process rows need buffers for their exchanges."""
    n, nb = 130000, 256
    parts = hpl_device_parts(n, nb, 1, 1)
    assert parts["matrix"] == 8 * 130016 * 130001
    assert sum(parts.values()) < 1.008 * 8 * n * n
    several = hpl_device_parts(n, nb, 2, 4)["rows of U"]
    assert several > 2 * hpl_device_parts(n, nb, 1, 4)["rows of U"]


def test_memory_of_hpl_mxp() -> None:
    """One process needs little more than the matrix; panels of 16 bits take half of what float32 takes."""
    n, nb = 180000, 1024
    parts = mxp_device_parts(n, nb, 1, 1, "float16")
    assert parts["matrix"] == 4 * 180000 * 180000
    assert sum(parts.values()) < 1.02 * 4 * n * n
    assert mxp_device_parts(n, nb, 1, 1, "float32")["panels"] == 2 * 4 * nb * nb
    wide, narrow = (mxp_device_parts(n, nb, 2, 2, storage)["panels"] for storage in ("float32", "bfloat16"))
    assert 0.49 < narrow / wide < 0.52


def test_blocks_of_large_systems_are_wide() -> None:
    assert mxp_block(2000, "float16", on_device=True) == mxp_block(2000)
    assert mxp_block(100000, "float32", on_device=True) < mxp_block(100000, "bfloat16", on_device=True)
