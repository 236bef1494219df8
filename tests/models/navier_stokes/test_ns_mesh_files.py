"""Exact flows in meshes from files: an uneven cylinder with arcs, of Nek5000 and written again for Gmsh."""

import numpy as np
import pytest
from mpi4py import MPI

from mesh_files import BoxFile
from navier_stokes_flows import TIGHT, advance
from navier_stokes_tools import ethier_steinman, history
from re2_files import write_butterfly
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.meshes.hexahedra import build_mesh
from ridgeline.io.mesh_file import read_mesh
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import FlowProblem, VelocitySide

VISCOSITY, STEPS = 0.1, 8
VELOCITY, PRESSURE = ethier_steinman(VISCOSITY)
ORDER_OF_ARCS = 8  # of the polynomials that the reader of .re2 makes of arcs


def run(mesh, order, **solvers):
    """Return an engine some steps after the exact flow of Ethier and Steinman, exact at all sides."""
    sides = {name: VelocitySide("inflow", VELOCITY, False) for name in mesh.sides}
    grid, dt = ElementGrid(mesh, order), 5e-4
    problem = FlowProblem(VISCOSITY, dt, sides, dealias_points=order + 2, **solvers)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(VELOCITY(*grid.coordinates, 0.0), history=history(grid, VELOCITY, dt))
    advance(engine, STEPS)
    return engine


def error_norms(engine):
    """Return the integral norms of the errors of the velocity and of the pressure but for its mean."""
    at, mass = engine.geometry.coordinates, engine.geometry.mass
    exact = PRESSURE(*at, engine.time)
    off = engine.p - exact
    off = off - (off * mass).sum() / mass.sum()
    velocity = engine.u - VELOCITY(*at, engine.time)
    return np.sqrt([(mass * velocity**2).sum(), (mass * off**2).sum()])


@pytest.fixture(scope="module")
def butterfly(tmp_path_factory):
    return build_mesh(read_mesh(write_butterfly(tmp_path_factory.mktemp("re2") / "butterfly.re2")))


@pytest.mark.full  # three orders, each compiled
def test_errors_fall_exponentially_on_an_uneven_curved_mesh(butterfly):
    found = np.array([error_norms(run(butterfly, order, **TIGHT)) for order in (3, 5, 7)])
    assert (found[1:] < 0.04 * found[:-1]).all(), found  # observed: at most 0.0173


def test_the_flow_is_that_of_the_same_mesh_in_a_file_of_gmsh(butterfly, tmp_path):
    """The nodes of a .msh file of order 8 hold the polynomials of the arcs; its elements are shuffled and turned."""
    file = BoxFile.of(butterfly, ORDER_OF_ARCS, seed=9).write(tmp_path / "butterfly.msh")
    twin = build_mesh(read_mesh(file))
    assert sorted(twin.sides) == sorted(butterfly.sides)
    engines = [run(mesh, 4, **TIGHT) for mesh in (butterfly, twin)]
    values = []
    for engine in engines:
        places = np.round(engine.geometry.coordinates.reshape(3, -1), 9) + 0.0
        fields = np.concatenate([engine.u, engine.p[None]]).reshape(4, -1)
        values.append(np.concatenate([places, fields])[:, np.lexsort(places)])
    for here, there in zip(*values):
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-9 * np.abs(here).max())
