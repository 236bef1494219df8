"""The physics of the wind model on several ranks: surface, controller, turbines and profiles have the bits of one."""

import numba
import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.wind.forcing import HubHeightControl
from ridgeline.models.wind.profiles import HeightProfiles, ProfiledFlow
from ridgeline.models.wind.settings_physics import (
    DrivingSection,
    SurfaceSection,
    TemperatureSection,
    TurbineSection,
)
from ridgeline.models.wind.surface_layer import SurfaceLayer
from ridgeline.models.wind.turbines import Turbines
from ridgeline.parallel.partition import factorizations

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 120
SHAPE, WIDTHS, GHOST = (19, 13, 14), (4.0, 5.0, 6.0), 3
PERIODIC = (False, True, True)
AIR = TemperatureSection(enabled=True)
COLD = SurfaceSection(heat="temperature", temperature=299.0, distribution="moeng")
WEST = DrivingSection(kind="hub-height", target=(8.0, 0.0), height=17.0, relaxation_time=3.0)
DISCS = (
    TurbineSection(position=(40.0, 30.0, 36.0), diameter=30.0, thrust_coefficient=0.7),
    TurbineSection(
        position=(80.0, 62.0, 30.0), diameter=24.0, thrust_coefficient=0.6, yaw=20.0, kernel="top-hat"
    ),
)


def fields_on(block, dtype):
    """u, v, w, theta and nu_t on a block with ghosts, cut from the same global random numbers."""
    random = np.random.default_rng(6)
    fields = []
    for least, most in ((2, 9), (-2, 2), (-1, 1), (299, 302), (0, 1)):
        whole = np.pad(random.uniform(least, most, SHAPE), GHOST, mode="wrap").astype(dtype)
        field = BlockArray.allocate(block, dtype)
        place = tuple(slice(o, o + n + 2 * GHOST) for o, n in zip(block.offset_global, block.shape_local))
        field.ghosted[...] = whole[place]
        fields.append(field)
    return fields


def results_on(comm, process_grid, dtype):
    """Everything that depends on communication, and the rates of change put together on rank 0."""
    block = Block.of_rank(SHAPE, process_grid, comm.rank, PERIODIC, GHOST)
    u, v, w, theta, nu = fields_on(block, dtype)
    rates = [np.zeros(block.shape_local, dtype) for _ in range(3)]
    layer = SurfaceLayer(COLD, AIR, WIDTHS[0], block, comm)
    control = HubHeightControl(WEST, 1e-4, WIDTHS[0], block, comm)
    turbines = Turbines(DISCS, block, WIDTHS, PERIODIC, comm)
    profiles = HeightProfiles(comm, block, WIDTHS, ("theta",), closure=True)
    compile_kernels(
        [
            *layer.kernels(numba.typeof(u.owned[0])),
            *turbines.kernels(numba.typeof(u.owned)),
            *profiles.kernels(dtype),
        ]
    )
    state = layer.update(u.owned[0], v.owned[0], theta.owned[0], 5.0)
    layer.add(rates[0][0], rates[1][0], rates[2][0])
    force = control.force(u.owned, v.owned, 0.1)
    discs = turbines.update(u.owned, v.owned)
    turbines.add(*rates[:2])
    for step in range(2):
        flow = ProfiledFlow(step * 1.0, (u, v, w), {"theta": theta}, nu, nu, on_surface=True)
        profiles.sample(step, flow)
    numbers = [*state, *force, *control.mean, *(value for disc in discs for value in disc)]
    averages = np.array([each.values for each in profiles.averages().values()])
    parts = comm.gather((block.offset_global, rates))
    whole = np.full((3, *SHAPE), np.nan)
    for offset, part in parts or ():
        for n, rate in enumerate(part):
            place = tuple(slice(o, o + size) for o, size in zip(offset, rate.shape))
            whole[(n, *place)] = rate
    return np.array(numbers), averages, comm.bcast(whole)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_process_grid_has_the_bits_of_one_rank(comm, dtype):
    alone = results_on(MPI.COMM_SELF, (1, 1, 1), dtype)
    assert np.isfinite(alone[2]).all()
    assert alone[2][0].any()
    for process_grid in factorizations(comm.size):
        for found, expected in zip(results_on(comm, process_grid, dtype), alone):
            assert np.array_equal(found, expected), process_grid
