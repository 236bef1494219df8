"""A second process loads the kernels of an order from the disk cache; their counted work."""

import os
import subprocess
import sys

import pytest

from ridgeline.elements import work
from ridgeline.elements.helmholtz import make_helmholtz

PROGRAM = """
from ridgeline.elements.advection import make_advection_collocated
from ridgeline.elements.courant import make_courant
from ridgeline.elements.helmholtz import make_diagonal, make_helmholtz_cg
order = (3, "float64", True)
made = [make_helmholtz_cg(*order), make_diagonal(*order), make_advection_collocated(*order), make_courant(3, True)]
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


def test_kernels_are_made_once():
    kernel = make_helmholtz(3, "float64", False)
    assert make_helmholtz(3, "float64", False) is kernel
    assert kernel is not make_helmholtz(3, "float64", True)


def test_counted_work():
    """Nekbone's 12 n + 15 operations and 8 words per point; advection's from the sizes of its products."""
    assert work.helmholtz(8, False, mass=False) == work.Work((12 * 8 + 15) * 512, 8 * 512)
    assert work.helmholtz(8, True).bytes() == 16 * 512
    assert work.helmholtz_cg(8, False).words == 12 * 512
    assert work.interpolate(2, 3) == work.Work(2 * (3 * 8 + 9 * 4 + 27 * 2), 8 + 27)
    one, shared = work.advection(4, 6, 3, False, True), work.advection(4, 6, 3, True, True)
    assert one.flops - shared.flops == 3 * work.interpolate(4, 6).flops
    assert shared.words == 6 * 64
    assert work.advection(4, 6, 3, True, False).words == 6 * 64 + 9 * 216


@pytest.mark.parametrize("aligned", [True, False])
def test_work_grows_with_the_points(aligned):
    counts = (work.helmholtz, work.gradient, work.weak_divergence, work.curl, work.courant)
    for count in counts:
        assert count(9, aligned).flops > count(8, aligned).flops > 0
        assert count(8, False).words >= count(8, True).words
    assert (
        work.advection_collocated(8, 3, True, aligned).flops < work.advection(8, 12, 3, True, aligned).flops
    )
    assert work.fdm(8).flops == 97 * 512
