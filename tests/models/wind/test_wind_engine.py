"""The compiled engine of the wind model against plain NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI
from tests.wind_flows import FLOWS, advance_engine, start_of

from ridgeline.models.wind.reference import ReferenceSolver


@pytest.mark.parametrize("name", FLOWS)
def test_a_step_is_that_of_the_reference(name):
    problem = FLOWS[name]
    reference = ReferenceSolver(problem, start_of(problem))
    reference.start()
    reference.guess_pressure(0.02)
    for _ in range(3):
        reference.advance(0.02)
    found, engine = advance_engine(MPI.COMM_SELF, problem, "auto", True)
    assert np.abs(found - np.array(reference.fields)).max() < 1e-13
    nodes = tuple(slice(n) for n in engine.pressure.block.shape_local)
    assert np.abs(engine.pressure.owned - reference.pressure[nodes]).max() < 1e-12


@pytest.mark.parametrize("name", ["periodic", "through"])
def test_multigrid_leaves_no_more_divergence_than_its_tolerance(name):
    found, engine = advance_engine(MPI.COMM_SELF, FLOWS[name], "auto", False)
    direct, _ = advance_engine(MPI.COMM_SELF, FLOWS[name], "auto", True)
    assert engine.largest_divergence() <= 1e-12 * engine.rate * 1.001 + 1e-13
    assert np.abs(found - direct).max() < 1e-10
    assert engine.solves["mac"].most < 20


@pytest.mark.parametrize("name", ["periodic", "lines"])
def test_a_fluid_at_rest_is_set_in_motion_by_buoyancy(name):
    problem = replace(FLOWS[name], forces=(0.0, 0.0, 0.0, 0.0, 0.0, 0.8))
    found, _ = advance_engine(MPI.COMM_SELF, problem, "auto", False, at_rest=True)
    direct, _ = advance_engine(MPI.COMM_SELF, problem, "auto", True, at_rest=True)
    assert np.abs(direct[2]).max() > 0.01
    assert np.abs(found - direct).max() < 1e-11
