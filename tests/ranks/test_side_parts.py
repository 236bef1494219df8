"""Parts on sides of the domain on any number of ranks: exact flows, means, resumed runs, and refusals."""

import numpy as np
import pytest
import xarray as xr
from mpi4py import MPI

import ridgeline
from export_toys import assert_viewer_files_equal_an_export
from ridgeline.models import create
from ridgeline.models.navier_stokes.settings import NavierStokesCase
from ridgeline.runtime.context import Context
from ridgeline.simulation import report
from ridgeline.simulation.case_run import RunCaller, run_case
from ridgeline.simulation.run_options import RunOptions

RANKS = (1, 2, 3)
QUICK_RANKS = (2,)
TIMEOUT = 300


@pytest.fixture(autouse=True)
def no_limits(monkeypatch):
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def run(comm, case, resume="never"):
    options = RunOptions(resume=resume)
    return run_case(case, create("navier_stokes"), Context(comm), options, RunCaller(progress=False))


def written(folder, part):
    with ridgeline.open(folder / f"d_{part}.bp") as data:
        return data.load()


def settings(folder, steps, parts, **more):
    tables = {
        "run": {"model": "navier_stokes", "steps": steps},
        "output": {
            "path": f"{folder}/d.bp",
            "every": 0,
            "series": f"{folder}/s.csv",
            "part": parts,
            "viewer": "pvd",
        },
        "checkpoint": {"path": f"{folder}/c", "every": 3, "at_end": False},
    }
    return NavierStokesCase.model_validate(tables | more)


def channel(folder, steps):
    """Poiseuille's flow of bulk velocity 2 between y = -1 and 1, and conduction from T = 0 to 1: polynomials."""
    parts = [
        {"name": "floor", "side": "y_min", "every": 2, "initial": True},
        {"name": "line", "side": "y_min", "mean": ["z"], "every": 2,
         "variables": ["wall_shear_x", "cf = wall_shear_x/2 + 0*t", "there = x + 10*y", "scalar_0_flux", "normal_y",
                       "velocity_x", "scalar_0", "vorticity_z"]},
        {"name": "total", "side": "y_max", "mean": ["x", "y", "z"], "every": 2, "precision": "float32"},
    ]  # fmt: skip
    fixed = {"y_min": {"kind": "fixed", "value": 0}, "y_max": {"kind": "fixed", "value": 1}}
    return settings(
        folder,
        steps,
        parts,
        grid={"elements": [2, 2, 3], "order": 4, "lengths": [3, 2, 2], "origin": [0, -1, 0],
              "periodic": [True, False, True]},
        model={"viscosity": 0.1, "dt": 0.01, "forcing": {"kind": "force", "value": [0.6, 0, 0]}},
        boundary={"y_min": {"kind": "wall"}, "y_max": {"kind": "wall"}},
        initial={"kind": "channel", "speed": 2.0},
        scalar=[{"diffusivity": 0.2, "initial": "0.5*(1 + y)", "boundary": fixed}],
    )  # fmt: skip


def test_a_channel_at_its_walls(comm, folder):
    result = run(comm, channel(folder, 4))
    if comm.rank == 0:
        floor = written(folder, "floor")
        assert floor.attrs["part.side"] == "y_min"
        assert floor.wall_shear_x.dims == ("step", "face", "s", "r")
        assert floor.sizes == {"step": 3, "face": 6, "s": 5, "r": 5}
        np.testing.assert_allclose(floor.area.sum(), 6.0)
        np.testing.assert_allclose(floor.y, -1.0)
        # u = 3 (1 - y^2) and T = (1 + y)/2; at step 0 by gradients
        for name, exact in (("wall_shear_x", 0.6), ("wall_shear_y", 0), ("wall_shear_z", 0), ("pressure", 0),
                            ("scalar_0_flux", -0.1)):  # fmt: skip
            np.testing.assert_allclose(floor[name], exact, atol=1e-8, err_msg=name)
        assert_viewer_files_equal_an_export(folder / "d_floor.bp")
        assert not (folder / "d_line_viewer").exists()
        line = written(folder, "line")
        assert line.sizes == {"step": 2, "arc_length": 13}
        np.testing.assert_allclose(line.x, line.arc_length, atol=1e-14)
        np.testing.assert_allclose(line.cf, 0.3, atol=1e-8)
        np.testing.assert_allclose(line.there[0], line.x - 10, atol=1e-12)
        for name, exact in (("normal_y", -1), ("velocity_x", 0), ("scalar_0", 0), ("vorticity_z", -6)):
            np.testing.assert_allclose(line[name], exact, atol=1e-7, err_msg=name)
        total = written(folder, "total")
        assert total.wall_shear_x.dtype == np.float32
        np.testing.assert_allclose(total.scalar_0_flux, [[0.1], [0.1]], rtol=1e-6)
        sizes = {size.name: size for size in channel(folder, 4).part_sizes()}
        for part in ("floor", "line", "total"):
            extra = {"floor": 4 * 6 * 25, "line": 5 * 13, "total": 0}[part]  # the coordinates, written once
            size = sizes[part]
            assert result["writes"][f"part {part}"]["bytes"] == size.bytes * size.outputs + 8 * extra
    comm.Barrier()


def ring(folder, steps):
    """A cylinder that starts to turn in fluid at rest, and heats it: no exact solution, but the same on any ranks."""
    variables = [
        "wall_shear_x",
        "wall_shear_y",
        "pressure",
        "scalar_0_flux",
        "normal_x",
        "cf = 2*wall_shear_x - x",
    ]
    parts = [
        {"name": "wall", "side": "y_min", "every": 2, "variables": variables},
        {"name": "line", "side": "y_min", "mean": ["z"], "every": 2, "variables": variables},
    ]
    hot = {"y_min": {"kind": "fixed", "value": "1 + 0.2*x"}, "y_max": {"kind": "adiabatic"}}
    return settings(
        folder,
        steps,
        parts,
        grid={"elements": [2, 2, 6], "order": 4, "lengths": [1, 1, 1], "origin": [0, 1, 0],
              "periodic": [True, False, True], "mapping": "annulus"},
        model={"viscosity": 0.1, "dt": 0.01},
        boundary={"y_min": {"kind": "moving-wall", "value": ["-y", "x", 0]}, "y_max": {"kind": "wall"}},
        scalar=[{"diffusivity": 0.2, "boundary": hot}],
    )  # fmt: skip


def test_a_cylinder_on_other_ranks_and_after_a_resume(comm, folder):
    """The first run has one rank, and ends as after a kill: it has written step 4, its checkpoint is of step 3."""
    if comm.rank == 0:
        run(MPI.COMM_SELF, ring(folder / "two", 5))
        run(MPI.COMM_SELF, ring(folder / "one", 6))
    comm.Barrier()
    assert run(comm, ring(folder / "two", 6), resume="auto")["steps"] == 3
    run(comm, ring(folder / "many", 6))
    if comm.rank == 0:
        for part in ("wall", "line"):
            one, two, many = (written(folder / which, part).drop_attrs() for which in ("one", "two", "many"))
            assert two.step.values.tolist() == [2, 4, 6]
            for other in (two, many):
                xr.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-6)
        area, whole = written(folder / "one", "wall").area, written(folder / "one", "wall")
        np.testing.assert_allclose(area.sum(), 2 * np.pi, rtol=1e-5)
        assert one.arc_length[-1] == pytest.approx(2 * np.pi, rel=1e-5)
        np.testing.assert_allclose(one.normal_x[0], -one.x, atol=1e-3)  # out of the fluid, into the cylinder
        # The fluid at rest holds the wall back. Just after the start the wall's own jump is in the residual.
        along = -one.y * one.wall_shear_x + one.x * one.wall_shear_y
        across = one.x * one.wall_shear_x + one.y * one.wall_shear_y
        assert (along[:, 1:] < -0.8).all()
        np.testing.assert_allclose(across[:, 1:], 0, atol=1e-2)
        # A mean over z is that of the points of the side.
        at = np.isclose(whole.x, one.x[5]) & np.isclose(whole.y, one.y[5])
        mean = whole.pressure.where(at).mean(["face", "s", "r"])
        np.testing.assert_allclose(one.pressure[:, 5], mean, atol=1e-6)
        assert (one.scalar_0_flux > 0).all()
    comm.Barrier()
