"""Parts of the fields on any number of ranks: equal to slices of the whole data set, also after a kill."""

import warnings

import numpy as np
import pytest
import xarray as xr
from mpi4py import MPI

import ridgeline
from export_toys import assert_viewer_files_equal_an_export
from ridgeline.config.case import AnyCase
from ridgeline.config.part_selection import UniformGrid, select
from ridgeline.models import case_class, create
from ridgeline.models.navier_stokes.settings import NavierStokesCase
from ridgeline.models.parts import mean_over
from ridgeline.parallel.partition import split
from ridgeline.runtime.context import Context
from ridgeline.simulation import report
from ridgeline.simulation.case_run import RunCaller, run_case
from ridgeline.simulation.run_options import RunOptions

RANKS = (1, 2, 3)
TIMEOUT = 300
MODELS = {
    "gray_scott": {"grid": {"shape": [11, 9, 13]}, "model": {"noise": 0.01}},
    "turbulence": {
        "grid": {"shape": [12, 10, 14]},
        "model": {"viscosity": 0.05, "dt": 0.01},
        "initial": {"kind": "spectrum", "energy": 0.8, "peak_wavenumber": 2.0},
    },
}
FIELDS = {"gray_scott": ("U", "V"), "turbulence": ("velocity_x", "vorticity_magnitude")}
OF_FORMULA = {
    "gray_scott": ("both = hypot(U, V) + 0.5*x - z*t", lambda d: np.hypot(d.U, d.V) + 0.5 * d.x - d.z * d.time),
    "turbulence": ("both = u*vorticity_magnitude + y", lambda d: d.velocity_x * d.vorticity_magnitude + d.y),
}  # fmt: skip
PARTS = {
    "last": ({"plane": "z=-1"}, {"z": slice(-1, None)}),
    "mid": ({"plane": "y=mid", "precision": "float32"}, {"y": slice(-1, None)}),
    "line": ({"line": "z=4, y=0"}, {"z": slice(4, 5), "y": slice(0, 1)}),
    "box": ({"box": "z=3:9, x=2:", "precision": "float16"}, {"z": slice(3, 9), "x": slice(2, None)}),
    "thin": ({"stride": [4, 2, 3]}, {axis: slice(None, None, n) for axis, n in (("z", 4), ("y", 2), ("x", 3))}),
    "mean": ({"mean": ["x", "y"], "stride": [2, 1, 1]}, {"z": slice(None, None, 2)}),
    "point": ({"mean": ["x", "y", "z"]}, {}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_limits(monkeypatch):
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {"best": 1e10, "best_name": "copy"})


def case_of(name, folder, steps, precision="float64"):
    output = {
        "path": f"{folder}/d.bp", "every": 2, "initial": True, "variables": list(FIELDS[name]),
        "series_every": 0, "viewer": "pvd",
        "part": [
            {"name": part, "variables": [*FIELDS[name], OF_FORMULA[name][0]], "every": 2, "initial": True, **how}
            for part, (how, _) in PARTS.items()
        ],
    }  # fmt: skip
    run = {"model": name, "steps": steps, "precision": precision}
    checkpoint = {"path": f"{folder}/c", "every": 3, "at_end": False}
    return case_class(name).model_validate(
        {"run": run, **MODELS[name], "output": output, "checkpoint": checkpoint}
    )


def run(comm, case: AnyCase, resume="never"):
    options = RunOptions(resume=resume)
    return run_case(case, create(case.run.model), Context(comm), options, RunCaller(progress=False))


def written(folder, part):
    with ridgeline.open(folder / f"d_{part}.bp") as data:
        return data.load()


@pytest.mark.adios2_mpi  # then all ranks write, of which some have nothing of a part
@pytest.mark.parametrize("name", MODELS)
def test_parts_are_slices_of_the_data_set(comm, folder, name):
    result = run(comm, case_of(name, folder, 4))
    if comm.rank == 0:
        whole = ridgeline.open(folder / "d.bp").load()
        whole = whole.assign(both=OF_FORMULA[name][1](whole).transpose(*whole[FIELDS[name][0]].dims))
        for part, (how, chosen) in PARTS.items():
            mine = written(folder, part)
            if part == "mid":
                chosen = {"y": slice(whole.sizes["y"] // 2, whole.sizes["y"] // 2 + 1)}
            expected = whole.isel(chosen)
            assert mine.step.values.tolist() == [0, 2, 4]
            for variable in (*FIELDS[name], "both"):
                values, (field, tolerance) = expected[variable], (mine[variable], 0.0)
                assert field.dtype == how.get("precision", "float64")
                if "mean" in how:
                    values, tolerance = values.mean(how["mean"], keepdims=True), 1e-13
                elif variable == "both":
                    tolerance = {"float64": 1e-15, "float32": 2e-7, "float16": 1e-3}[field.dtype.name]
                else:
                    values = values.astype(field.dtype)
                np.testing.assert_allclose(
                    field.values, values.values, rtol=tolerance, atol=tolerance, err_msg=part
                )
            for axis in "zyx":
                places = whole[axis] if axis in how.get("mean", ()) else expected[axis]
                there = [places.mean().item()] if axis in how.get("mean", ()) else places.values
                np.testing.assert_allclose(mine[axis].values, there, rtol=1e-13)
            sizes = {size.name: size for size in case_of(name, folder, 4).part_sizes()}
            assert result["writes"][f"part {part}"]["bytes"] == sizes[part].bytes * sizes[part].outputs
            assert_viewer_files_equal_an_export(folder / f"d_{part}.bp")
    comm.Barrier()


@pytest.mark.parametrize("name", MODELS)
def test_a_run_that_other_ranks_resume_continues_its_parts(comm, folder, name):
    """The first run has one rank, and ends as after a kill: it has written step 4, its checkpoint is of step 3."""
    if comm.rank == 0:
        run(MPI.COMM_SELF, case_of(name, folder / "two", 5))
        assert written(folder / "two", "mid").step.values.tolist() == [0, 2, 4]
        run(MPI.COMM_SELF, case_of(name, folder / "one", 6))
    comm.Barrier()
    resumed = run(comm, case_of(name, folder / "two", 6), resume="auto")
    assert resumed["steps"] == 3
    if comm.rank == 0:
        for part in PARTS:
            ours, theirs = (written(folder / which, part) for which in ("two", "one"))
            if name == "gray_scott":  # the same bits on any ranks, means included
                xr.testing.assert_identical(ours.drop_attrs(), theirs.drop_attrs())
            else:
                xr.testing.assert_allclose(ours.drop_attrs(), theirs.drop_attrs(), rtol=1e-3, atol=1e-9)
            assert ours.step.values.tolist() == [0, 2, 4, 6]
    comm.Barrier()


def test_means_leave_out_what_is_not_finite_and_have_the_same_bits(comm):
    grid = UniformGrid((7, 4, 5))
    whole = np.random.default_rng(1).normal(size=grid.shape) * 10.0 ** np.arange(-8, -1)[:, None, None]
    whole[3, 1] = np.nan
    whole[2, 2, 2] = np.inf
    for mean in (("x",), ("x", "z"), ("z", "y", "x")):
        selection = select(grid, mean=mean)
        first, n = split(7, comm.size, comm.rank)
        mine = mean_over(comm, whole[first : first + n].copy(), (first, 0, 0), selection)
        alone = mean_over(MPI.COMM_SELF, whole.copy(), (0, 0, 0), selection)
        if comm.rank == 0:
            np.testing.assert_array_equal(mine, alone)
            finite = np.where(np.isfinite(whole), whole, np.nan)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a mean of nothing
                expected = np.nanmean(finite, axis=tuple("zyx".index(axis) for axis in mean), keepdims=True)
            np.testing.assert_allclose(mine, expected, rtol=1e-14)
    comm.Barrier()


def flow(folder, **part):
    """u = (1 + y^2, -x y, 0) at rest of time: one tiny step, on 2 x 2 x 2 elements of a box [0,2]x[-1,1]x[0,3]."""
    walls = {f"{a}_{end}": {"kind": "wall"} for a in "y" for end in ("min", "max")}
    parts = [
        {"name": "plane", "plane": "z=1.5", "every": 1, "initial": True, "points": [5, 6, 7], **part},
        {"name": "strip", "box": "y=1:5, z=0.5:", "stride": [1, 2, 3], "points": [5, 6, 7],
         "variables": ["velocity_x"], "every": 1},
        {"name": "profile", "mean": ["x", "z"], "every": 1, "initial": True,
         "variables": ["velocity_x", "uu = u*u"]},
    ]  # fmt: skip
    return NavierStokesCase.model_validate(
        {
            "run": {"model": "navier_stokes", "steps": 1},
            "grid": {"elements": [2, 2, 2], "order": 5, "lengths": [3, 2, 2], "origin": [0, -1, 0],
                     "periodic": [True, False, True]},
            "model": {"viscosity": 0.1, "dt": 0.01, "forcing": {"kind": "force", "value": [0.6, 0, 0]}},
            "boundary": walls,
            "initial": {"kind": "channel", "speed": 2.0},
            "output": {"path": f"{folder}/d.bp", "every": 0, "series_every": 0, "part": parts},
            "checkpoint": {"path": f"{folder}/c"},
        }
    )  # fmt: skip


def test_parts_on_elements_are_the_fields_at_their_points(comm, folder):
    """Poiseuille's flow of bulk velocity 2: u = 3 (1 - y^2), a polynomial that elements hold exactly."""
    run(
        comm,
        flow(folder, variables=["velocity_x", "speed = sqrt(u*u + v*v + w*w)", "there = x + 10*y + 100*z"]),
    )
    if comm.rank == 0:
        plane, profile = written(folder, "plane"), written(folder, "profile")
        assert plane.speed.shape == (2, 1, 6, 7)
        assert plane.z.values == pytest.approx([1.5])
        np.testing.assert_allclose(plane.y, -1 + (np.arange(6) + 0.5) / 3)
        exact = np.broadcast_to(3 * (1 - plane.y.values[:, None] ** 2), (2, 1, 6, 7))
        np.testing.assert_allclose(plane.velocity_x, exact, atol=1e-8)
        np.testing.assert_allclose(plane.speed, exact, atol=1e-8)
        np.testing.assert_allclose(
            plane.there[0], (plane.x + 10 * plane.y + 100 * plane.z).transpose("z", "y", "x")
        )
        strip = written(folder, "strip")
        assert strip.velocity_x.shape == (1, 4, 2, 3)
        np.testing.assert_allclose(strip.z, np.arange(1, 5) * 0.6 + 0.3)
        exact = np.broadcast_to(3 * (1 - strip.y.values[:, None] ** 2), (1, 4, 2, 3))
        np.testing.assert_allclose(strip.velocity_x, exact, atol=1e-8)
        assert profile.sizes == {"step": 2, "z": 1, "y": 11, "x": 1}
        exact = 3 * (1 - profile.y.values**2)
        np.testing.assert_allclose(profile.velocity_x[1, 0, :, 0], exact, atol=1e-8)
        np.testing.assert_allclose(profile.uu[1, 0, :, 0], exact**2, atol=1e-7)
    comm.Barrier()


def test_a_part_outside_the_mesh_is_refused_before_a_run(comm, folder):
    with pytest.raises(
        ValueError, match=r"output\.part\.0\.plane must be inside the domain, which extends from 0"
    ):
        flow(folder, plane="z=7.5")
