"""HPCG's optimised implementation with threads, in a separate process: Numba's threads are set before it starts."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.optimised_matrix import optimise, sharing_pays
from ridgeline.bench.hpcg.problem import generate_problem

pytestmark = pytest.mark.alone

SCRIPT = """
import json
import numpy as np
from mpi4py import MPI
from ridgeline.bench.hpcg import optimised_matrix
from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.problem import generate_problem

# Otherwise a box as small as this one gets no threads.
optimised_matrix.REGION_ROWS = optimised_matrix.BARRIER_ROWS = 0
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


def whole_fronts(edge: int) -> int:
    """Return how many wavefronts a cube has under 27 points: x + 2 y + 4 z of its last point, and 1."""
    return 7 * (edge - 1) + 1


@pytest.mark.parametrize(("edge", "pays"), [(8, False), (32, False), (48, False), (64, True), (104, True)])
def test_threads_share_grids_whose_wavefronts_are_wide(edge: int, pays: bool) -> None:
    assert sharing_pays(edge**3, whole_fronts(edge)) is pays


def test_many_rows_in_narrow_wavefronts_are_not_shared() -> None:
    assert not sharing_pays(10**6, 10**4)


def test_a_small_box_has_the_order_of_one_thread() -> None:
    level, _, _ = generate_problem(MPI.COMM_SELF, make_geometry(1, 0, 32, 32, 32), levels=2)
    one, two = optimise(level), optimise(level, 2)
    assert two.n_threads == 1
    np.testing.assert_array_equal(two.order, one.order)


def test_a_wide_box_is_ordered_by_wavefronts_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ridgeline.bench.hpcg.optimised_matrix.REGION_ROWS", 32**3 // 2 - 100 * whole_fronts(32) - 1
    )
    level, _, _ = generate_problem(MPI.COMM_SELF, make_geometry(1, 0, 32, 32, 32), levels=2)
    two = optimise(level, 2)
    assert (two.n_threads, two.coarse.n_threads) == (2, 1)
    assert two.lower.front_strips.size - 1 == whole_fronts(32)


def test_one_thread_and_several_agree_to_rounding(results: list[list[str]]) -> None:
    one, two = ([float.fromhex(number) for number in result] for result in results[:2])
    assert two == pytest.approx(one, rel=1e-9, abs=1e-13)


def test_any_number_of_several_threads_gives_the_same_bits(results: list[list[str]]) -> None:
    assert results[1] == results[2] == results[3]
