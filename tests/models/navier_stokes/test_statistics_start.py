"""Statistics that begin at a model time that the run meets."""

import numpy as np
from mpi4py import MPI

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.flow_statistics import Statistics


def test_a_time_that_rounding_puts_after_the_start_is_no_sample():
    grid = ElementGrid(BoxMesh.box((1, 1, 1), (1.0, 1.0, 1.0)), 2)
    statistics = Statistics(MPI.COMM_SELF, grid, ElementGeometry(grid), start=0.6)
    velocity, pressure = np.ones((3, *grid.shape)), np.ones(grid.shape)
    scalars = np.ones((0, *grid.shape))
    for step, time in enumerate((0.5, 6 * 0.1, 0.7)):  # 6 * 0.1 > 0.6
        statistics.sample(step, time, velocity, pressure, scalars)
        assert statistics.clock.samples == (step == 2)
    assert np.isclose(statistics.clock.seconds, 0.1, rtol=1e-12)
