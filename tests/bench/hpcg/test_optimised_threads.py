"""HPCG's optimised path with threads, in a process of its own: Numba's number of threads is set before it starts."""

import json
import os
import subprocess
import sys

import pytest

from ridgeline.bench.hpcg.optimise import threads_for

pytestmark = pytest.mark.alone

SCRIPT = """
import json
import numpy as np
from mpi4py import MPI
from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.problem import generate_problem

level, b, _ = generate_problem(MPI.COMM_SELF, make_geometry(1, 0, 32, 40, 16), levels=2)
results = []
for n_threads in (1, 2, 3, 2):
    path = OptimisedImplementation(MPI.COMM_SELF, level, n_threads)
    x, y = path.vector(np.sin(np.arange(b.size))), path.vector()
    path.spmv(x, y)
    numbers = [path.dot(x, y), *path.natural(y)[::1000]]
    path.precondition(x, y)
    assert (path.natural(x) == np.sin(np.arange(b.size))).all()
    numbers += list(path.natural(y)[::1000])
    x = path.vector()
    numbers += path.cg(path.vector(b), x, 6, 0.0).history + list(path.natural(x)[::1000])
    results.append([float(number).hex() for number in numbers])
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results() -> list[list[str]]:
    environment = os.environ | {"NUMBA_NUM_THREADS": "3", "NUMBA_THREADING_LAYER": "workqueue"}
    done = subprocess.run(
        [sys.executable, "-c", "import ridgeline\n" + SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_smallest_box_has_threads_and_compiles_what_larger_ones_need() -> None:
    assert threads_for(16**3, 3) == 3
    assert threads_for(8**3, 3) == 1


def test_one_thread_and_several_agree_to_rounding(results: list[list[str]]) -> None:
    one, two = ([float.fromhex(number) for number in result] for result in results[:2])
    assert two == pytest.approx(one, rel=1e-9, abs=1e-13)


def test_any_number_of_several_threads_gives_the_same_bits(results: list[list[str]]) -> None:
    assert results[1] == results[2] == results[3]
