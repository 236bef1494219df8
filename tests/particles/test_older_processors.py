"""Lists of neighbours compile for processors without AVX-512, which have no instruction for what is near."""

import os
import platform
import subprocess
import sys

import pytest

COMPILE = """
from ridgeline.jit.kernel import compile_kernels
from ridgeline.particles.neighbours import kernels_of_neighbours
compile_kernels(kernels_of_neighbours())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names a processor of another architecture")
def test_lists_compile_without_avx512(tmp_path) -> None:
    """A process of its own, for LLVM ends it if it fails."""
    environment = os.environ | {"NUMBA_CPU_NAME": "haswell", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
