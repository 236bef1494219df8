"""A second process loads the kernels of an order from the disk cache; their counted work."""

import os
import subprocess
import sys

import pytest

from ridgeline.elements.helmholtz import make_helmholtz

PROGRAM = """
from ridgeline.elements.advection import make_advection_collocated
from ridgeline.elements.courant import make_courant
from ridgeline.elements.helmholtz import make_diagonal, make_helmholtz_cg
order = (3, "float64", True)
made = [make_helmholtz_cg(*order), make_diagonal(*order), make_advection_collocated(*order), make_courant(3, True)]
print(sum(sum(kernel.stats.cache_hits.values()) for kernel in made), len(made))
"""


@pytest.mark.full
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


def test_kernels_are_made_once():
    kernel = make_helmholtz(3, "float64", False)
    assert make_helmholtz(3, "float64", False) is kernel
    assert kernel is not make_helmholtz(3, "float64", True)
