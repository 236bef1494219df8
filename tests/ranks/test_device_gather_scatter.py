"""The gather-scatter of a GPU on several ranks, in numba-cuda's simulator: the bits of the host's."""

from simulator import simulate

simulate()

import numpy as np
import pytest
from numba import cuda

from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter, device_bytes
from ridgeline.elements.gather_scatter import GatherScatter

RANKS = (1, 2, 3)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_fields(comm, dtype, staged) -> None:
    """A line of elements, each with points of the next; an array of the host stands in for what MPI takes."""
    n, mine = 3, 3
    element = comm.rank * mine + np.arange(mine)[:, None, None, None]
    z, y, x = np.indices((n, n, n))
    ids = (element * (n - 1) + x) * n * n + z * n + y
    ids[ids == 5] = -1
    host = GatherScatter(comm, ids, max_fields=3)
    device = CudaGatherScatter(comm, host.plan, not staged, fields=3, dtype=dtype)
    assert device.n_boundary == (0 if comm.size == 1 else len(host.boundary_elements))
    assert device_bytes(host.plan, 3, dtype) >= device_bytes(host.plan)
    rng = np.random.default_rng(comm.rank)
    for fields in (3, 1, 2, 3):
        u = rng.standard_normal((fields, *ids.shape)).astype(dtype)
        values = cuda.to_device(np.full_like(u, 7.0))

        def compute(first, end, u=u, values=values):
            for place in device.order.copy_to_host()[first:end]:
                for c in range(len(u)):
                    values[c, place] = u[c, place]

        device.sum_computed(values, compute)
        host.sum(u)
        np.testing.assert_array_equal(values.copy_to_host(), u)
    if comm.size > 1:
        with pytest.raises(
            ValueError, match="4 fields are too many for one call, which may have at most fields = 3"
        ):
            device.sum(cuda.to_device(np.zeros((4, *ids.shape), dtype)))
    device.free()
    host.free()
