"""Graph500's edge list against the reference generator, compiled from a checkout of github.com/graph500/graph500.

RIDGELINE_GRAPH500_CHECKOUT=~/graph500 python -m pytest -m slow tests/bench/graph500
"""

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.graph500.generator import generate

CHECKOUT = os.environ.get("RIDGELINE_GRAPH500_CHECKOUT")
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHECKOUT, reason="RIDGELINE_GRAPH500_CHECKOUT names no checkout of graph500/graph500"
    ),
    pytest.mark.skipif(not COMPILER, reason="no C compiler on this machine"),
]

PROGRAM = """
#include "graph_generator.h"
#include "utils.h"

int main(int count, char** arguments) {
  int scale = atoi(arguments[1]);
  int64_t first = atoll(arguments[2]), edges = atoll(arguments[3]);
  uint_fast32_t seed[5];
  packed_edge* list = malloc(edges * sizeof *list);
  float* weights = malloc(edges * sizeof *weights);
  make_mrg_seed(2, 3, seed);
  generate_kronecker_range(seed, scale, first, first + edges, list, weights);
  for (int64_t i = 0; i < edges; ++i) {
    int64_t pair[2] = {get_v0_from_edge(list + i), get_v1_from_edge(list + i)};
    fwrite(pair, sizeof *pair, 2, stdout);
  }
  fwrite(weights, sizeof *weights, edges, stdout);
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generator")
    (folder / "edges.c").write_text(PROGRAM)
    source = Path(CHECKOUT, "generator")
    files = [source / name for name in ("graph_generator.c", "splittable_mrg.c", "utils.c")]
    subprocess.run(
        [COMPILER, "-O2", "-DSSSP", f"-I{source}", "edges.c", *files, "-o", "edges"], cwd=folder, check=True
    )
    return folder / "edges"


@pytest.mark.parametrize(
    ("scale", "first", "edges"), [(3, 0, 128), (18, 0, 16 << 18), (40, (16 << 40) - 999, 999)]
)
def test_edges_and_weights_are_those_of_the_reference_generator(program, scale, first, edges):
    output = subprocess.run(
        [program, *map(str, (scale, first, edges))], stdout=subprocess.PIPE, check=True
    ).stdout
    pairs = np.frombuffer(output, np.int64, 2 * edges).reshape(edges, 2)
    mine = last_edges(scale, edges) if first else generate(MPI.COMM_SELF, scale)
    assert mine.first == first
    np.testing.assert_array_equal(np.stack([mine.start, mine.end], axis=1), pairs)
    np.testing.assert_array_equal(mine.weight, np.frombuffer(output, np.float32, edges, 16 * edges))


def last_edges(scale, edges):
    """The end of a list that no machine holds."""
    total = 16 << scale
    share = generate(SimpleNamespace(size=total // edges, rank=total // edges - 1), scale)
    assert share.start.size == edges
    return share
