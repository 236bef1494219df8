"""Runs on a mesh from a file: resumed on the same and on other ranks; wrong files are refused in one sentence."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import ridgeline as package
from mesh_files import BoxFile

DATA = Path(__file__).parents[1] / "data"
CASE = """\
[run]
model = "navier_stokes"
steps = 6
[grid]
mesh = "duct.msh"
order = 4
[model]
viscosity = 0.02
dt = 0.005
pressure.tolerance = 1e-12
velocity.tolerance = 1e-12
[boundary.inlet]
kind = "inflow"
value = ["4*y*(1 - y)*(1 + t)", "0", "0"]
[boundary.outlet]
kind = "outflow"
[boundary.floor]
kind = "wall"
[boundary.roof]
kind = "wall"
[boundary.left]
kind = "periodic"
partner = "right"
[boundary.right]
kind = "periodic"
[output]
path = "flow.bp"
every = 6
[checkpoint]
path = "checkpoints"
every = 3
keep = 9
"""
NAMES = {
    "x_min": "inlet",
    "x_max": "outlet",
    "y_min": "floor",
    "y_max": "roof",
    "z_min": "left",
    "z_max": "right",
}


def bend(x, y, z):
    return x + 0.1 * y * y, y, z


@pytest.fixture
def case(ridgeline):
    box = BoxFile((2, 2, 3), (1.0, 1.0, 2.0), 2, seed=8, bend=bend)
    box.sides = {NAMES[name]: faces for name, faces in box.sides.items()}
    box.write(ridgeline.path / "duct.msh")
    path = ridgeline.path / "case.toml"
    path.write_text(CASE)
    return path


def fields(ridgeline):
    """Return the last fields of the data set, by name."""
    with package.open(ridgeline.path / "flow.bp") as data:
        return {name: data[name].isel(step=-1).values for name in data.data_vars}


def succeeds(done):
    assert done.returncode == 0, done.stderr


def refused(done, *words, code=2):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0], errors[0]


@pytest.mark.full
def test_resume_gives_the_same_flow_on_other_ranks_and_the_same_bits_on_these(ridgeline, case):
    middle = ridgeline.path / "middle"
    succeeds(ridgeline("run", case))
    whole = fields(ridgeline)
    shutil.move(ridgeline.path / "checkpoints" / "checkpoint_00000003", middle)
    succeeds(ridgeline("run", case, "--resume", middle))
    again = fields(ridgeline)
    succeeds(ridgeline("run", case, "-n", 2, "--resume", middle))
    on_two = fields(ridgeline)
    assert "velocity_x" in whole
    for name, values in whole.items():
        np.testing.assert_array_equal(again[name], values, err_msg=name)
        np.testing.assert_allclose(on_two[name], values, rtol=0, atol=1e-9, err_msg=name)
    text = (ridgeline.path / "duct.msh").read_text()
    (ridgeline.path / "duct.msh").write_text(text.replace('"fluid"', '"water"'))
    done = ridgeline("run", case, "--resume", middle)
    refused(
        done,
        "belongs to another case (grid.mesh: the checkpoint has 'contents",
        "Change the settings back",
        code=4,
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            '"duct.msh"',
            '"no.msh"',
            ['grid.mesh = "no.msh" cannot be read: No such file', "where the run starts"],
        ),
        ('"duct.msh"', '"duct.stl"', ["grid.mesh", "duct.stl", ".msh or .re2"]),
        ('"duct.msh"', '"folder.msh"', ['grid.mesh = "folder.msh" cannot be read: Is a directory']),
        ('"duct.msh"', '"short.msh"', ['grid.mesh = "short.msh"', "rite it again"]),
        ("boundary.roof", "boundary.rof", ["boundary.rof", "did you mean roof"]),
        ('[boundary.roof]\nkind = "wall"\n', "", ["grid.mesh", "which is missing for roof"]),
    ],
)
@pytest.mark.parametrize("command", ["check", pytest.param("run", marks=pytest.mark.full)])
def test_wrong_files_and_sides_end_with_one_sentence(ridgeline, case, command, old, new, words):
    (ridgeline.path / "folder.msh").mkdir()
    text = (ridgeline.path / "duct.msh").read_text()
    (ridgeline.path / "duct.stl").write_text(text)
    (ridgeline.path / "short.msh").write_text(text[: len(text) // 2])
    assert old in CASE
    case.write_text(CASE.replace(old, new))
    refused(ridgeline(command, case), *words)


CAVITY = """\
[run]
model = "navier_stokes"
steps = 3
[grid]
mesh = "cav8.re2"
order = 3
[model]
viscosity = 0.05
dt = 0.002
[initial]
kind = "rest"
[output]
every = 0
series = "mesh.csv"
series_every = 1
[boundary.W]
kind = "wall"
[boundary.v]
kind = "moving-wall"
value = [1, 0, 0]
"""


@pytest.mark.parametrize("ranks", [*(pytest.param(n, marks=pytest.mark.full) for n in (1, 2)), 3])
def test_a_side_with_more_faces_than_the_mesh_has_elements(ridgeline, ranks):
    """All walls of a cavity of 8 x 8 x 1 elements are one side; the numbers are those of the same flow as a box."""
    shutil.copy(DATA / "cav8.re2", ridgeline.path)
    (ridgeline.path / "cavity.toml").write_text(CAVITY)
    done = ridgeline("run", "cavity.toml", "-n", ranks)
    assert done.returncode == 0, done.stderr
    last = np.genfromtxt(ridgeline.path / "mesh.csv", delimiter=",", names=True)[-1]
    assert last["wall_shear_W"] == pytest.approx(0.12650657872, rel=1e-7)
    assert last["wall_shear"] == pytest.approx(0.27052743861, rel=1e-7)
