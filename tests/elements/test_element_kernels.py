"""The kernels of one order are complete, and a second process loads them from the disk cache."""

import os
import subprocess
import sys

from ridgeline.elements.kernel_set import make_kernel_set

PROGRAM = """
from ridgeline.elements.kernel_set import make_kernel_set
kernels = make_kernel_set(3, 0, True)
made = [kernels.helmholtz_cg, kernels.gradient, kernels.advection, kernels.courant]
print(sum(sum(kernel.stats.cache_hits.values()) for kernel in made), len(made))
"""


def test_second_process_loads_what_the_first_compiled(tmp_path):
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(tmp_path))
    found = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert found == [["0", "4"], ["4", "4"]]


def test_sets_are_made_once():
    kernels = make_kernel_set(3, 5, False)
    assert make_kernel_set(3, 5, False) is kernels
    assert kernels.helmholtz is not make_kernel_set(3, 0, True).helmholtz
