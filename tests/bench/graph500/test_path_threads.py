"""Shortest paths and validation with threads, in a separate process: Numba's threads are set before it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

SCRIPT = """
import json
import numba
import numpy as np
from mpi4py import MPI
from graph500_trees import SmallGraph
from ridgeline.bench.graph500.shortest_paths import PathGraph, PathSearch, shortest_paths
from ridgeline.bench.graph500.validation import validate_sssp

case = SmallGraph(MPI.COMM_SELF, 13, 16)
sums = []
for threads in (1, 2, 3):
    numba.set_num_threads(threads)
    parents, distances = shortest_paths(PathSearch(PathGraph(case.graph)), case.root)
    valid = validate_sssp(case.inputs, case.root, parents, distances)
    spoilt = parents.copy()
    spoilt[np.flatnonzero(parents >= 0)[-1]] = -1
    distances[spoilt < 0] = np.inf
    wrong = validate_sssp(case.inputs, case.root, spoilt, distances)
    sums.append([distances.tobytes().hex(), valid.edges, len(valid.failures), len(wrong.failures) > 0])
print(json.dumps(sums))
"""


def test_any_number_of_threads_finds_the_same_distances():
    environment = os.environ | {"NUMBA_NUM_THREADS": "3", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one, two, three = json.loads(done.stdout)
    assert one == two == three
    assert one[1] > 0
    assert one[2:] == [0, True]
