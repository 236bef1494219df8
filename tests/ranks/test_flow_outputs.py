"""What a flow writes: fields on elements and images, Nek5000 files, statistics, as `ridgeline.open` shows them."""

from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from navier_stokes_tools import all_sides, kovasznay, periodic_mesh
from ridgeline.config.intervals import Interval
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.io.bp import BPWriter, image_schemas
from ridgeline.io.nek5000_read import read_field_file
from ridgeline.models.navier_stokes.flow_statistics import Statistics
from ridgeline.models.navier_stokes.problem import FlowProblem, FlowState, VelocitySide
from ridgeline.models.navier_stokes.recorders import (
    OutputFields,
    nek5000_recorder,
    output_names,
    statistics_recorder,
)
from ridgeline.models.navier_stokes.streamfunction import AXES, Streamfunction

RANKS = (1, 3)
QUICK_RANKS = (3,)
TIMEOUT = 150


def make(comm, order=5, periodic=(True, False, True)):
    mesh = BoxMesh.box((2, 3, 2), (1.0, 2.0, 3.0), periodic=periodic)
    grid = ElementGrid(mesh, order, comm.size, comm.rank)
    return grid, ElementGeometry(grid)


def flow_at(grid, t):
    """Rotation about z, w = (0, 0, 2 (1 + t)), and a scalar."""
    x, y, z = grid.coordinates
    u = (1 + t) * np.stack([-y, x, 0 * z])
    return FlowState(t, u, x * y, (z + t)[None])


def written(comm, path, fields, names, flows):
    """Write flows as the time loop does and return the open data set."""
    variables = fields.layout(names)
    attributes = {}
    if fields.image_fields():
        attributes = image_schemas(variables[0].shape_global, names, *fields.image_geometry())
    with BPWriter(path, comm, variables, attributes) as out:
        for step, flow in enumerate(flows):
            arrays = fields.compute(names, flow.velocity, flow.pressure, flow.scalars)
            out.write(step, flow.time, {name: array.local for name, array in arrays.items()})
    comm.Barrier()
    return ridgeline.open(path)


def test_fields_on_elements(comm, folder):
    grid, geometry = make(comm, periodic=(True, False, False))
    gather, problem = GatherScatter(comm, grid.ids), FlowProblem(1.0, 1.0, all_sides("inflow"))
    planes = {name: Streamfunction(comm, geometry, gather, problem, axis) for name, axis in AXES.items()}
    fields = OutputFields(comm, grid, geometry, gather, 1, None, planes)
    flows = [flow_at(grid, t) for t in (0.0, 0.5)]
    names = output_names(1)
    with written(comm, folder / "u.bp", fields, names, flows) as data:
        whole, _ = make(comm.Split(comm.rank), periodic=(True, False, False))
        x, y, z = whole.coordinates
        assert data.velocity_x.dims == ("step", "element", "t", "s", "r")
        np.testing.assert_array_equal(data.x, x)
        np.testing.assert_array_equal(data.velocity_y.isel(step=1), 1.5 * x)
        np.testing.assert_array_equal(data.pressure.isel(step=0), x * y)
        np.testing.assert_array_equal(data.scalar_0.isel(step=1), z + 0.5)
        for axis, expected in (("x", 0.0), ("y", 0.0), ("z", 3.0)):
            np.testing.assert_allclose(data[f"vorticity_{axis}"].isel(step=1), expected, atol=1e-11)
        np.testing.assert_allclose(data.vorticity_magnitude.isel(step=1), 3.0, rtol=1e-11)
        np.testing.assert_allclose(data.q_criterion.isel(step=0), 1.0, rtol=1e-11)
        psi = data.streamfunction.isel(step=1)
        expected = -0.75 * (x**2 + y**2)
        np.testing.assert_allclose(psi - psi[0, 0, 0, 0], expected - expected[0, 0, 0, 0], atol=1e-9)
    assert fields.image_fields() == ()


def psi_error(comm, mesh, order, problem, velocity, exact):
    """Return the largest error of a streamfunction, less that of its level."""
    grid = ElementGrid(mesh, order, comm.size, comm.rank)
    geometry = ElementGeometry(grid)
    found = Streamfunction(comm, geometry, GatherScatter(comm, grid.ids), problem)
    error = found.of(velocity(*grid.coordinates, 0.0)) - exact(*grid.coordinates)
    low, high = (
        comm.allreduce(extreme, how) for extreme, how in ((error.min(), MPI.MIN), (error.max(), MPI.MAX))
    )
    return high - low, low


def test_streamfunctions_converge_with_the_order(comm):
    """Kovasznay's flow, of which the mean flow crosses a bent box, and Taylor's vortices in a periodic one."""
    velocity, _ = kovasznay(40.0)
    k = 20.0 - np.sqrt(400.0 + 4 * np.pi**2)
    bend = lambda x, y, z: (x + 0.05 * np.sin(2 * y), y + 0.03 * np.sin(x), z)  # noqa: E731
    box = BoxMesh.box((1, 3, 2), (0.5, 1.0, 1.5), (0.0, -0.5, -0.5), mapping=bend)
    sides = all_sides("inflow", velocity) | {"x_max": VelocitySide("outflow")}
    of_kovasznay = lambda x, y, z: y - np.exp(k * x) * np.sin(2 * np.pi * y) / (2 * np.pi)  # noqa: E731
    vortices = lambda x, y, z, t: np.stack([-np.cos(x) * np.sin(y), np.sin(x) * np.cos(y), 0 * x])  # noqa: E731
    periodic = periodic_mesh((1, 2, 2), (1.0, 2 * np.pi, 2 * np.pi))
    errors = []
    for order in (4, 8):
        wake, _ = psi_error(comm, box, order, FlowProblem(0.025, 1.0, sides), velocity, of_kovasznay)
        free, level = psi_error(
            comm, periodic, order, FlowProblem(1.0, 1.0, all_sides("periodic")), vortices,
            lambda x, y, z: np.cos(x) * np.cos(y),
        )  # fmt: skip
        errors.append((wake, free))
    assert max(errors[1]) < 1e-4
    assert min(coarse / fine for coarse, fine in zip(*errors)) > 200, errors
    assert abs(level) < 1e-4  # without walls the mean is 0


def test_a_streamfunction_is_0_on_the_first_wall(comm):
    """Poiseuille's flow, of which a plane carries 4/3."""
    grid, geometry = make(comm)
    y = grid.coordinates[1]
    sides = all_sides("periodic") | {side: VelocitySide("wall") for side in ("y_min", "y_max")}
    found = Streamfunction(comm, geometry, GatherScatter(comm, grid.ids), FlowProblem(1.0, 1.0, sides))
    psi = found.of(np.stack([y * (2 - y), 0 * y, 0 * y]))
    np.testing.assert_allclose(psi, y**2 - y**3 / 3, atol=1e-10)
    assert np.isnan(found.of(np.full((3, *grid.shape), np.nan))).all()
    assert not found.of(np.zeros((3, *grid.shape))).any()


def test_streamfunctions_in_planes_of_a_flow_in_space(comm):
    """u = rot psi + grad phi in planes across each axis, with phi = 0 on the sides: psi has no part of phi.

    psi = f(a) cos(pi s) sin(pi t) and phi = g(a) sin(pi s) sin(pi t) in a box of edges 1, with the level of planes.
    """
    mesh = BoxMesh.box((2, 2, 3), (1.0, 1.0, 1.0))
    grid = ElementGrid(mesh, 8, comm.size, comm.rank)
    geometry, gather = ElementGeometry(grid), GatherScatter(comm, grid.ids)
    sin, cos, pi = np.sin, np.cos, np.pi
    for axis in range(3):
        second, third = (axis + 1) % 3, (axis + 2) % 3
        a, s, t = (grid.coordinates[i] for i in (axis, second, third))
        f, g = 1 + a, cos(3 * a)
        u = np.zeros((3, *grid.shape))
        u[second] = f * pi * cos(pi * s) * cos(pi * t) + g * pi * cos(pi * s) * sin(pi * t)
        u[third] = f * pi * sin(pi * s) * sin(pi * t) + g * pi * sin(pi * s) * cos(pi * t)
        u[axis] = s * t
        kinds = {"xyz"[second] + "_min": VelocitySide("wall"), "xyz"[axis] + "_min": VelocitySide("wall")}
        problem = FlowProblem(1.0, 1.0, all_sides("outflow") | kinds)
        psi = Streamfunction(comm, geometry, gather, problem, axis).of(u)
        expected = f * cos(pi * s) * sin(pi * t)
        # On the wall s = 0 the mean is 0, so that the level is -2 f/pi.
        np.testing.assert_allclose(psi, expected - 2 * f / pi, atol=2e-7, err_msg=f"{axis=}")


def test_derivatives_are_made_continuous(comm):
    """v = 3 max(x - 1.5, 0) has a kink between elements: there the copies agree on the mean slope."""
    grid, geometry = make(comm, periodic=(False, False, False))
    fields = OutputFields(comm, grid, geometry, GatherScatter(comm, grid.ids))
    x = grid.coordinates[0]
    u = np.zeros((3, *grid.shape))
    u[1] = np.where(grid.positions[:, 2, None, None, None] == 0, 0.0, 3.0 * (x - 1.5))
    found = fields.compute(["vorticity_magnitude"], u, x, np.empty((0, *grid.shape)))["vorticity_magnitude"]
    expected = np.where(np.isclose(x, 1.5), 1.5, np.where(x < 1.5, 0.0, 3.0))
    np.testing.assert_allclose(found.local, expected, atol=1e-11)


def test_images(comm, folder):
    grid, geometry = make(comm)
    fields = OutputFields(comm, grid, geometry, GatherScatter(comm, grid.ids), 1, (4, 5, 6))
    assert set(fields.image_fields()) == set(output_names(1))
    with written(comm, folder / "u.bp", fields, ("velocity_x", "pressure"), [flow_at(grid, 1.0)]) as data:
        assert data.velocity_x.dims == ("step", "z", "y", "x")
        np.testing.assert_allclose(data.x, 3 * (np.arange(6) + 0.5) / 6)
        np.testing.assert_allclose(data.z, (np.arange(4) + 0.5) / 4)
        np.testing.assert_allclose(data.velocity_x[0], 0 * data.z - 2 * data.y + 0 * data.x, atol=1e-12)
        np.testing.assert_allclose(data.pressure[0], 0 * data.z + data.y * data.x, atol=1e-12)


def settings(folder, **output):
    """A case as far as the recorders read it."""
    plain = {"format": "auto", "nek5000": "", "nek5000_every": 0, "nek5000_precision": "float32"}
    plain |= {"nek5000_geometry": "first"}
    plain |= {"statistics": f"{folder}/s.bp", "statistics_every": 0, "homogeneous": ()}
    plain |= {"statistics_window": 0}
    section = SimpleNamespace(**{**plain, **output})
    section.interval = lambda key: Interval(getattr(section, key))
    return SimpleNamespace(output=section)


def test_nek5000_files_of_a_run(comm, folder):
    grid, geometry = make(comm)
    now = [flow_at(grid, 0.0)]
    case = settings(folder, nek5000=f"{folder}/duct", nek5000_every=4, nek5000_precision="float64")
    (further,) = nek5000_recorder(case, comm, grid, geometry, lambda: now[0])
    assert (further.name, further.path, further.every.steps) == ("Nek5000 files", f"{folder}/duct", 4)
    recorder = further.open({}, None)
    for step, t in ((0, 0.0), (4, 0.25)):
        now[0] = flow_at(grid, t)
        recorder.write(step)
    recorder.close()
    assert recorder.count == 2
    found = read_field_file(folder / "duct0.f00002")
    assert (found.step, found.time) == (4, 0.25)
    assert found.temperature.max() == 1.25
    comm.Barrier()  # the next line deletes the file
    assert further.open({}, 1).count == 1
    assert nek5000_recorder(settings(folder), comm, grid, geometry, lambda: now[0]) == []


@pytest.mark.parametrize("homogeneous", [("x", "z"), ("x",), ()])
def test_statistics_of_a_run(comm, folder, homogeneous):
    grid, geometry = make(comm)
    statistics = Statistics(comm, grid, geometry, 1)
    now = [flow_at(grid, 0.0)]
    case = settings(folder, statistics_every=2, homogeneous=homogeneous)
    (further,) = statistics_recorder(case, comm, grid, statistics, lambda: now[0])
    recorder = further.open({"model.viscosity": 0.1}, None)
    for step, t in ((0, 0.0), (2, 1.0), (4, 2.0)):
        now[0] = flow_at(grid, t)
        recorder.write(step)
    recorder.close()
    comm.Barrier()
    with ridgeline.open(folder / "s.bp") as data:
        assert data.step.values.tolist() == [4]
        assert (data.averaging_time.item(), data.samples.item()) == (2.0, 2.0)
        assert data.attrs["model.viscosity"] == 0.1
        assert data.velocity_x.attrs["long_name"] == "mean of velocity_x"
        mean = data.velocity_x.isel(step=0)
        np.testing.assert_allclose(mean, -2.5 * data.y.broadcast_like(mean), atol=1e-12)
        np.testing.assert_allclose(data.uu.isel(step=0), 0.25 * data.y.broadcast_like(mean) ** 2, atol=1e-12)
        assert mean.dims == (tuple(a for a in "zyx" if a not in homogeneous) if homogeneous else data.x.dims)
    assert statistics_recorder(settings(folder), comm, grid, None, lambda: now[0]) == []
