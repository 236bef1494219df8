"""Multigrid on one device per rank, in numba-cuda's simulator: the solutions and cycles of the host's."""

from simulator import simulate

simulate()

import numpy as np
import pytest

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.blocks.multigrid.device.cells_cuda import DeviceCellMultigrid
from ridgeline.blocks.rows_cuda import device_field
from ridgeline.parallel.allreduce import allreduce_max

RANKS = (2, 3)
ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1"}

GRIDS = {2: [(2, 1, 1), (1, 1, 2)], 3: [(1, 3, 1)]}
SHAPE, SIDES = (8, 12, 9), ("periodic", ("neumann", "dirichlet"), "periodic")


def host_copy(field):
    return BlockArray(
        field.block, field.flat.copy_to_host(), field.origin, field.row_pitch, field.plane_pitch
    )


@pytest.mark.parametrize("which", [0, 1])
def test_cells(comm, which) -> None:
    """Halo exchange on the device, and coarse levels that move onto fewer ranks on the host."""
    if which >= len(GRIDS[comm.size]):
        pytest.skip("fewer process grids")
    cartesian, block = decompose(comm, SHAPE, GRIDS[comm.size][which], (True, False, True), 1)
    widths = (1.0, 1.0, 0.9)
    host = CellMultigrid(cartesian, block, widths, SIDES)
    device = DeviceCellMultigrid(cartesian, block, widths, SIDES, device_cells=100)
    assert device.levels[-1].process_grid == (1, 1, 1)
    offset, local = block.offset_global, block.shape_local
    mine = tuple(slice(a, a + n) for a, n in zip(offset, local))
    b, x = (BlockArray.allocate(block, np.float64) for _ in range(2))
    b.owned[...] = np.random.default_rng(5).standard_normal(SHAPE)[mine]
    device_b, device_x = (device_field(block, np.float64) for _ in range(2))
    device_b.flat.copy_to_device(b.flat)
    expected, found = host.solve(b, x, 1e-2), device.solve(device_b, device_x, 1e-2)
    assert found.converged
    assert found.cycles == expected.cycles
    scale = float(allreduce_max(comm, abs(x.owned).max()))
    np.testing.assert_allclose(host_copy(device_x).ghosted, x.ghosted, rtol=0, atol=1e-12 * scale)
    for each in (host, device):
        each.free()
    cartesian.Free()
