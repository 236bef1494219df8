"""Flows on meshes from files, whose elements are shuffled and turned, on any number of ranks: those of the box."""

import numpy as np
import pytest
from mpi4py import MPI

from mesh_files import BoxFile
from navier_stokes_flows import TIGHT, advance
from navier_stokes_tools import PI, channel, duct
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.meshes.hexahedra import build_mesh, scatter_mesh
from ridgeline.io.nek5000 import Nek5000Writer
from ridgeline.io.nek5000_read import read_field_file
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.sampling import Sampler, image_lattice

RANKS = (1, 2, 3)
TIMEOUT = 300


def bend(x, y, z):
    """Curve a box by quadratic polynomials, which elements of second order take up without error."""
    return x + 0.1 * y * y, y + 0.05 * x * (2 - x) * y, z


def shared_mesh(comm, box, periodic):
    """Return this rank's part of the mesh of a file, which rank 0 alone builds."""
    return scatter_mesh(comm, build_mesh(box.raw(), periodic) if comm.rank == 0 else None)


def flow(engine, places):
    """Return velocity, scalars and pressure of all ranks at places [3, m] of points, one value each, [c, m]."""
    comm, grid = engine.comm, engine.grid
    fields = np.concatenate([engine.fields, engine.p[None]]).reshape(len(engine.fields) + 1, -1)
    everyone = comm.allgather((np.round(grid.coordinates.reshape(3, -1), 8) + 0.0, fields))
    known = {}
    for points, values in everyone:
        known.update(zip(map(tuple, points.T), values.T))
    return np.array([known[tuple(place)] for place in (np.round(places, 8) + 0.0).T]).T


def start(grid, problem):
    x, y, z = grid.coordinates
    x = PI * x  # of period 2
    velocity = [np.sin(2 * x) * np.cos(y) + 0.3, -np.cos(x) * np.sin(y + z), 0.2 * np.cos(z + y)]
    return np.stack([*velocity, *(np.cos(x + i) * np.sin(y) for i in range(len(problem.scalars)))])


def run(comm, mesh, order, problem, steps):
    grid = ElementGrid(mesh, order, comm.size, comm.rank)
    engine = CpuEngine(comm, grid, problem)
    engine.start(start(grid, problem))
    advance(engine, steps)
    return engine


def test_the_flow_of_a_curved_box_with_all_kinds_of_sides(comm):
    whole, problem = channel(**TIGHT)
    box = BoxMesh.box((2, 2, 3), (1.0, 1.0, 2.0), mapping=bend)
    expected = run(MPI.COMM_SELF, box, whole.order, problem, 4)
    file = BoxFile((2, 2, 3), (1.0, 1.0, 2.0), 2, seed=3, bend=bend)
    engine = run(comm, shared_mesh(comm, file, {}), whole.order, problem, 4)
    places = expected.geometry.coordinates.reshape(3, -1)
    found, right = flow(engine, places), flow(expected, places)
    np.testing.assert_allclose(found[:-1], right[:-1], atol=1e-10)
    np.testing.assert_allclose(found[-1], right[-1], atol=1e-8)
    assert engine.last_iterations["pressure"] <= 2 * expected.last_iterations["pressure"]


def test_a_flow_rate_through_a_periodic_duct(comm):
    whole, problem = duct(**TIGHT)
    problem = type(problem)(
        **{**vars(problem), "sides": {k: v for k, v in problem.sides.items() if v.kind != "periodic"}}
    )
    box = BoxMesh.box((2, 2, 2), (2.0, 2.0, 2.0), periodic=(False, False, True))
    expected = run(MPI.COMM_SELF, box, whole.order, duct(**TIGHT)[1], 3)
    file = BoxFile((2, 2, 2), (2.0, 2.0, 2.0), 1, seed=4)
    engine = run(comm, shared_mesh(comm, file, {"x_max": "x_min"}), whole.order, problem, 3)
    places = expected.geometry.coordinates.reshape(3, -1)[
        :, expected.geometry.coordinates.reshape(3, -1)[0] < 1.99
    ]
    found, right = flow(engine, places), flow(expected, places)
    np.testing.assert_allclose(found[:-1], right[:-1], atol=1e-9)
    assert engine.flow_rate.force == pytest.approx(expected.flow_rate.force, abs=1e-7)


def test_images_of_a_turned_mesh(comm):
    """A polynomial of the elements' order is the same wherever it is sampled, on any rank."""
    file = BoxFile((2, 2, 3), (1.0, 1.0, 2.0), 2, seed=5, bend=bend)
    grid = ElementGrid(shared_mesh(comm, file, {}), 5, comm.size, comm.rank)
    sampler = Sampler(comm, grid, image_lattice(comm, grid, (4, 9, 11)))
    x, y, z = grid.coordinates
    image = sampler.sample(x * y + z * z)
    k, j, i = (sampler.lattice.z, sampler.lattice.y, sampler.lattice.x)
    first = sampler.offset_global[0]
    expected = i * j[:, None] + k[first : first + sampler.shape_local[0], None, None] ** 2
    inside = np.isfinite(image)
    assert 0.7 < inside.mean() < 1  # the box around the mesh is larger
    np.testing.assert_allclose(image[inside], expected[inside], atol=1e-9)


def test_nek5000_files_hold_every_element_once(comm, folder):
    file = BoxFile((2, 2, 3), (1.0, 1.0, 2.0), 2, seed=6, bend=bend)
    grid = ElementGrid(shared_mesh(comm, file, {}), 3, comm.size, comm.rank)
    writer = Nek5000Writer(comm, folder / "flow", grid, grid.coordinates, precision="float64")
    writer.write(0, 0.0, grid.coordinates, grid.coordinates[0])
    found = read_field_file(folder / "flow0.f00001")
    everyone = np.concatenate(comm.allgather(grid.coordinates), axis=1)
    np.testing.assert_array_equal(found.coordinates, everyone)
    np.testing.assert_array_equal(found.pressure, everyone[0])
