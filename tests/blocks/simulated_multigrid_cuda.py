"""Multigrid on a device in numba-cuda's simulator, against the host; test_multigrid_cuda.py runs this file."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.blocks.multigrid.device.cells_cuda import DeviceCellGrid, DeviceCellMultigrid
from ridgeline.blocks.multigrid.device.nodes_cuda import DeviceNodalLevel, DeviceNodalMultigrid
from ridgeline.blocks.multigrid.nodes import NodalMultigrid
from ridgeline.blocks.projection import MacProjection, NodalProjection
from ridgeline.blocks.projection_cuda import DeviceMacProjection, DeviceNodalProjection
from ridgeline.blocks.rows_cuda import device_field
from ridgeline.jit.cuda_device import SIMULATED
from simulator import ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

PERIODIC, OPEN, WALLS, MIXED = "periodic", ("dirichlet",) * 2, ("neumann",) * 2, ("dirichlet", "neumann")
CELLS = {
    "constant": ((7, 9, 11), (1.0, 1.0, 1.2), (MIXED, PERIODIC, WALLS), False, 2),
    "varying": ((8, 7, 9), (1.1 ** np.arange(8), 1.0, 1.0), (OPEN, PERIODIC, MIXED), True, 2),
    "singular": ((6, 7, 9), (1.0, 1.1 ** np.arange(7), 1.0), (PERIODIC, WALLS, PERIODIC), True, 2),
    "three steps": ((5, 8, 8), (1.0, 1.0, 1.0), (WALLS, PERIODIC, PERIODIC), False, 3),
}


def to_device(field: BlockArray) -> BlockArray:
    copy = device_field(field.block, field.flat.dtype)
    copy.flat.copy_to_device(field.flat)
    return copy


def to_host(field: BlockArray) -> BlockArray:
    flat = field.flat.copy_to_host()
    return BlockArray(field.block, flat, field.origin, field.row_pitch, field.plane_pitch)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CELLS)
def test_cells_are_solved_as_on_the_host(name, dtype) -> None:
    shape, widths, sides, varies, steps = CELLS[name]
    cartesian, block = decompose(
        MPI.COMM_SELF, shape, periodic=tuple(pair == PERIODIC for pair in sides), ghost=2
    )
    host = CellMultigrid(cartesian, block, widths, sides, dtype=dtype, steps=steps)
    device = DeviceCellMultigrid(
        cartesian,
        block,
        widths,
        sides,
        dtype=dtype,
        steps=steps,
        device_cells=shape[0] * shape[1] * shape[2] // 4,
    )
    assert [isinstance(grid, DeviceCellGrid) for grid in device._grids[:2]] == [True, False]
    random = np.random.default_rng(0)
    beta, a = random.uniform(0.5, 2.0, shape), random.uniform(0.0, 1.0, shape)
    for each in (host, device):
        if varies:
            each.set_coefficients(0.0 if name == "singular" else 0.3, a, beta)
        else:
            each.set_coefficients(0.1, beta=1.5)
    assert host.singular == (name == "singular")
    b, x = (BlockArray.allocate(block, dtype) for _ in range(2))
    b.owned[...], x.owned[...] = random.standard_normal(shape), random.standard_normal(shape)
    device_b, device_x = to_device(b), to_device(x)
    expected = host.solve(b, x, 0.0, 2)
    found = device.solve(device_b, device_x, 0.0, 2)
    rounding = 1e-13 if dtype == np.float64 else 1e-4
    assert found.cycles == expected.cycles == 2
    for one, other in (
        (found.initial_residual, expected.initial_residual),
        (found.mean_removed, expected.mean_removed),
        (found.residual, expected.residual),
    ):
        assert one == pytest.approx(other, rel=rounding, abs=rounding * expected.initial_residual)
    scale = abs(x.owned).max()
    np.testing.assert_allclose(to_host(device_x).ghosted, x.ghosted, rtol=0, atol=rounding * scale)


def test_levels_may_all_but_the_last_be_on_the_device() -> None:
    """A V-cycle from zero over three levels, and the operator."""
    shape, sides = (12, 12, 12), (PERIODIC, WALLS, PERIODIC)
    cartesian, block = decompose(MPI.COMM_SELF, shape, periodic=(True, False, True))
    host = CellMultigrid(cartesian, block, (1.0, 1.0, 1.0), sides)
    device = DeviceCellMultigrid(cartesian, block, (1.0, 1.0, 1.0), sides, device_cells=1)
    kinds = [isinstance(grid, DeviceCellGrid) for grid in device._grids]
    assert kinds == [True] * (len(kinds) - 1) + [False]
    b = BlockArray.allocate(block, np.float64)
    b.owned[...] = np.random.default_rng(1).standard_normal(shape)
    b.owned[...] -= b.owned.mean()
    expected, found = np.empty(shape), device_field(block, np.float64)
    host.cycle(b.owned, expected)
    device.cycle(to_device(b), found)
    np.testing.assert_allclose(to_host(found).owned, expected, rtol=0, atol=1e-13 * abs(expected).max())
    applied, product = np.empty(shape), device_field(block, np.float64)
    host.apply_operator(expected, applied)
    device.apply_operator(found, product)
    np.testing.assert_allclose(to_host(product).owned, applied, rtol=0, atol=1e-12)


def test_what_a_device_does_not_solve_is_refused() -> None:
    cartesian, block = decompose(MPI.COMM_SELF, (16, 8, 8), periodic=(False, True, True))
    sides = (WALLS, PERIODIC, PERIODIC)
    with pytest.raises(ValueError, match="relaxation by lines"):
        DeviceCellMultigrid(cartesian, block, (1.5 ** np.arange(16), 1.0, 1.0), sides, device_cells=1)
    for kind in (DeviceCellMultigrid, DeviceNodalMultigrid):
        with pytest.raises(ValueError, match="too small for a GPU"):
            kind(*decompose(MPI.COMM_SELF, (4, 4, 4)), (1.0, 1.0, 1.0), (PERIODIC,) * 3)
    solver = DeviceNodalMultigrid(cartesian, block, (1.0, 1.0, 1.0), sides, device_cells=1)
    with pytest.raises(ValueError, match="A field sigma is not possible on GPUs yet"):
        solver.set_sigma(BlockArray.allocate(block, np.float64, 1.0))


NODES = {
    "sides": ((9, 7, 10), (1.0, 1.0, 1.3), (MIXED, PERIODIC, WALLS)),
    "singular": ((8, 6, 9), (1.0, 1.05 ** np.arange(6), 1.0), (PERIODIC, WALLS, PERIODIC)),
    "one axis": ((4, 12, 8), (1.0, 0.3, 1.0), (WALLS, OPEN, PERIODIC)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NODES)
def test_nodes_are_solved_as_on_the_host(name, dtype) -> None:
    shape, widths, sides = NODES[name]
    cartesian, block = decompose(MPI.COMM_SELF, shape, periodic=tuple(pair == PERIODIC for pair in sides))
    least = 1 if name == "singular" else shape[0] * shape[1] * shape[2] // 2
    host = NodalMultigrid(cartesian, block, widths, sides, sigma=1.5, dtype=dtype)
    device = DeviceNodalMultigrid(cartesian, block, widths, sides, sigma=1.5, dtype=dtype, device_cells=least)
    kinds = [isinstance(part, DeviceNodalLevel) for part in device._parts]
    assert kinds[0]
    assert kinds[-1] is False
    random = np.random.default_rng(3)
    b, x = (BlockArray.allocate(host.block, dtype) for _ in range(2))
    b.owned[...], x.owned[...] = (random.standard_normal(host.block.shape_local) for _ in range(2))
    if name == "singular":
        b.owned[...] -= b.owned.mean()
    device_b, device_x = to_device(b), to_device(x)
    expected, found = host.solve(b, x, 0.0, 2), device.solve(device_b, device_x, 0.0, 2)
    rounding = 1e-12 if dtype == np.float64 else 1e-4
    assert found.initial_residual == pytest.approx(expected.initial_residual, rel=rounding)
    assert found.residual == pytest.approx(expected.residual, abs=rounding * expected.initial_residual)
    inner = tuple(slice(0, n) for n in host.block.shape_local)
    scale = abs(x.owned).max()
    np.testing.assert_allclose(to_host(device_x).owned[inner], x.owned, rtol=0, atol=rounding * scale)
    r = np.ascontiguousarray(b.owned)
    z, device_z = np.empty_like(r), np.empty_like(r)
    host.apply(r, z)
    device.apply(r, device_z)
    np.testing.assert_allclose(device_z, z, rtol=0, atol=rounding * abs(z).max())


FLOWS = {"periodic": (PERIODIC,) * 3, "sides": (("wall", "slip"), PERIODIC, ("inflow", "outflow"))}


@pytest.mark.parametrize("name", FLOWS)
def test_projections_are_those_of_the_host(name) -> None:
    shape, widths, sides = (6, 8, 10), (1.0, 1.1, 0.9), FLOWS[name]
    periodic = tuple(pair == PERIODIC for pair in sides)
    cartesian, block = decompose(MPI.COMM_SELF, shape, periodic=periodic, ghost=2)
    random = np.random.default_rng(4)
    flow = [BlockArray.allocate(block, np.float64) for _ in range(3)]
    for field in flow:
        field.ghosted[...] = random.standard_normal(field.ghosted.shape)
        for axis in range(3):
            if periodic[axis]:
                moved = np.moveaxis(field.ghosted, axis, 0)
                moved[:2], moved[-2:] = moved[-4:-2].copy(), moved[2:4].copy()
    for host_kind, device_kind in (
        (MacProjection, DeviceMacProjection),
        (NodalProjection, DeviceNodalProjection),
    ):
        on_device = [to_device(field) for field in flow]
        on_host = [to_host(field) for field in on_device]
        host = host_kind(cartesian, block, widths, sides)
        device = device_kind(cartesian, block, widths, sides, device_cells=1)
        expected = host.project(on_host, 0.0, 2)
        found = device.project(on_device, 0.0, 2)
        assert found.cycles == expected.cycles == 2
        for one, other in zip(on_device, on_host):
            np.testing.assert_allclose(to_host(one).ghosted, other.ghosted, rtol=0, atol=1e-12)
        assert abs(on_host[0].owned - flow[0].owned).max() > 0.01
        device.free()
