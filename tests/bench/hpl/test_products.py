"""The rate of matrix products, on one rank."""

import pytest
from mpi4py import MPI

from ridgeline.bench.hpl.measure import product_rate


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_rate_of_products_is_positive(dtype, threads):
    assert product_rate(MPI.COMM_SELF, dtype, threads, 16, 64) > 0
