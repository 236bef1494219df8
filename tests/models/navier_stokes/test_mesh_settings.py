"""Settings of meshes from files: sides by name, periodic pairs, and what does not go with such a mesh."""

import re
from pathlib import Path

import numpy as np
import pytest

from mesh_files import BoxFile
from ridgeline.config.load import load_case
from ridgeline.models import case_class
from ridgeline.models.navier_stokes.estimate import estimate
from ridgeline.models.navier_stokes.problem_of_case import mesh_of, problem_of
from ridgeline.runtime.errors import ConfigError

TEXT = """
[run]
model = "navier_stokes"
steps = 5
[grid]
mesh = "{mesh}"
order = 3
[model]
viscosity = 0.05
dt = 0.01
[boundary.inlet]
kind = "inflow"
value = ["4*y*(2 - y)", "0", "0"]
[boundary.x_max]
kind = "outflow"
[boundary.floor]
kind = "wall"
[boundary.roof]
kind = "wall"
[boundary.back]
kind = "periodic"
partner = "front"
[boundary.front]
kind = "periodic"
[[scalar]]
diffusivity = 0.1
boundary.inlet.kind = "fixed"
boundary.inlet.value = "1"
boundary.floor.kind = "adiabatic"
boundary.roof = {{ kind = "flux", value = "2" }}
"""
NAMES = {"x_min": "inlet", "y_min": "floor", "y_max": "roof", "z_min": "back", "z_max": "front"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path: Path = tmp_path_factory.mktemp("meshes")
    box = BoxFile((2, 3, 2), (1.0, 2.0, 3.0), 1, seed=1)
    box.sides = {NAMES.get(name, name): faces for name, faces in box.sides.items()}
    box.write(path / "box.msh")
    (path / "case.toml").write_text(TEXT.format(mesh=path / "box.msh"))
    return path


def load(folder, *overrides):
    return load_case(folder / "case.toml", case_class, overrides).case


def test_what_the_settings_say_of_sides(folder):
    case = load(folder)
    mesh, problem = mesh_of(case), problem_of(case, 0.01)
    assert set(mesh.sides) == {"inlet", "x_max", "floor", "roof"} == set(problem.sides)
    assert problem.sides_of("wall") == ["floor", "roof"]
    assert problem.scalars[0].sides["x_max"].kind == "adiabatic"  # as an outflow
    assert problem.scalars[0].sides["roof"].kind == "flux"
    np.testing.assert_allclose(np.abs(mesh.translations), [[0, 0, 1]], atol=1e-12)
    assert case.flatten()["boundary.inlet.kind"] == "inflow"
    assert case.identity()["boundary.back.partner"] == "front"


def test_the_identity_of_a_run_is_that_of_the_contents_of_its_mesh(folder, tmp_path):
    whole = (folder / "box.msh").read_text()
    (tmp_path / "moved.msh").write_text(whole)
    moved = load(folder, f"grid.mesh={tmp_path}/moved.msh")
    assert moved.identity() == load(folder).identity()
    before = moved.identity()
    (tmp_path / "moved.msh").write_text(whole.replace('"fluid"', '"water"'))  # of equal size
    assert moved.identity() == before  # of a run that has begun
    changed = load(folder, f"grid.mesh={tmp_path}/moved.msh").identity()
    assert {key for key in before if before[key] != changed[key]} == {"grid.mesh"}


def test_a_mesh_is_estimated_as_the_box_is(folder, tmp_path):
    case = load(folder)
    plan = estimate(case, 2)
    assert plan.block == (6, 4, 4, 4)
    assert plan.work.points == 7 * 10 * 6
    assert plan.remarks[0] == "12 elements of order 3: 768 points stored, 420 unique"
    assert plan.remarks[1] == "smallest distance of points: about 0.138"
    assert any("Courant number of step 0: 0.0943" in remark for remark in plan.remarks)
    assert plan.work.messages > 0


def remarks(folder, *overrides):
    return "\n".join(estimate(load(folder, *overrides), 1).remarks)


def test_the_order_of_a_mesh_and_its_worst_element_are_told(folder, tmp_path):
    said = remarks(folder)
    assert (
        "the mesh has order 1, so its elements have straight edges and a curved wall becomes a polygon"
        in said
    )
    assert "worst scaled Jacobian: 1 at x=" in said
    # Of one element of order 2 alone, angles are far from right.
    bend = lambda x, y, z: (x + y * (x - 2).clip(0), y, z)  # noqa: E731
    box = BoxFile((2, 3, 2), (1.0, 2.0, 3.0), 2, bend=bend)
    box.sides = {NAMES.get(name, name): faces for name, faces in box.sides.items()}
    said = remarks(folder, f"grid.mesh={box.write(tmp_path / 'bent.msh')}")
    assert "the mesh has order 2, so the edges of its elements are polynomials of this degree" in said
    scaled = 1 / np.sqrt(2)  # at the upper x, where x_y = 1 and x_x = 1 + y
    assert f"worst scaled Jacobian: {scaled:.3g} at x=3, y=0, " in said


def test_mirror_images_in_the_file_are_told(folder, tmp_path):
    text, n = re.subn(
        r"( 5 2 99 99)((?: \d+){4})((?: \d+){4})\n", r"\1\3\2\n", (folder / "box.msh").read_text(), count=5
    )
    assert n == 5
    path = tmp_path / "mirrored.msh"
    path.write_text(text)
    assert "5 of the 12 elements of the file are left-handed" in remarks(folder, f"grid.mesh={path}")


def test_the_flow_through_each_side_is_told(folder):
    said = remarks(folder)
    flux = 4 * (2 * 2 - 8 / 3)  # of 4 y (2 - y) over 0 < y < 2, 0 < z < 1
    assert f"through each side at t = 0: inlet {-flux:.6g}, x_max {flux:.6g}, floor 0, roof 0" in said
    assert "leaves through the side inlet" not in said
    said = remarks(folder, 'boundary.inlet.value=["-t", "0", "0"]')
    assert "at t = 0: inlet 0, x_max 0, floor 0, roof 0" in said
    assert "at t = 0.05: inlet 0.1, x_max -0.1, floor 0, roof 0" in said
    assert (
        "at t = 0.05 the fluid leaves through the side inlet, which is an inflow (if it should enter" in said
    )


def test_the_size_of_a_mesh_is_its_file(folder):
    case = load(folder)
    assert case.grid.words() == f"{case.grid.mesh}, elements of order {case.grid.order}"


def test_a_box_is_as_it_was(folder):
    """Checkpoints of boxes from before there were meshes from files go on."""
    text = '[run]\nmodel = "navier_stokes"\nsteps = 1\n[grid]\nelements = [1, 1, 1]\nperiodic = [true, true, true]\n'
    (folder / "box.toml").write_text(text + "[model]\nviscosity = 1.0\ndt = 0.1\n")
    keys = load_case(folder / "box.toml", case_class).case.identity()
    assert not [key for key in keys if "partner" in key or key == "grid.mesh"]


WRONG = [
    (
        ["grid.elements=[1,2,3]"],
        r"--set: grid.elements is \[1, 2, 3\], but it must be left out with grid.mesh",
    ),
    (
        ["grid.periodic=[true,false,false]"],
        "--set: grid.periodic is .*, but it must be left out with grid.mesh",
    ),
    (
        ["boundary.flor.kind=wall"],
        r"boundary.flor.kind .* must be left out, because the mesh has no side of this name, .*did you mean floor",
    ),
    (
        ["boundary.floor.kid=wall"],
        r"unknown key 'boundary.floor.kid' in \[boundary.floor\].*mean 'kind'",
    ),
    (["boundary.floor.kind=wal"], '--set: boundary.floor.kind is "wal"'),
    (["boundary.front.kind=wall"], "boundary.back.partner .* must be another side of kind"),
    (["boundary.front.partner=roof"], "boundary.front.partner .* must be another side of kind"),
    (["boundary.back.partner=nowhere"], "boundary.back.partner .* must be another side of kind"),
    (["scalar.0.boundary.flor.kind=adiabatic"], "boundary.flor.kind is not set, but it must be"),
    (
        ["boundary.x_max.kind=symmetry"],
        "boundary.inlet.value .* must be such that as much fluid enters as leaves",
    ),
    (
        ['boundary.inlet.value=["1/x","0","0"]'],
        "boundary.inlet.value .* must be finite everywhere on the side",
    ),
    (['output.homogeneous=["z"]'], "output.homogeneous .* must be empty with grid.mesh"),
    (["initial.kind=duct"], "initial.kind .* must be another kind on a mesh from a file"),
    (
        ["model.forcing.kind=flow-rate", "model.forcing.bulk_velocity=1.0"],
        "model.forcing.direction .* must be a direction along which two sides of the mesh are periodic",
    ),
    (["grid.mesh=no.msh"], 'grid.mesh = "no.msh" cannot be read: No such file'),
]


def check_refusal(folder, overrides, match):
    with pytest.raises(ConfigError, match=match):
        load(folder, *overrides)


def test_wrong_settings(folder):
    for overrides, match in WRONG:
        check_refusal(folder, overrides, match)


def test_sides_may_be_called_as_anything_in_python_is(folder, tmp_path):
    """A Gmsh file with a surface "side" or "given" met methods of those names."""
    text = (folder / "case.toml").read_text()
    mesh = (folder / "box.msh").read_text()
    for old, new in (("floor", "side"), ("roof", "given"), ("inlet", "model_fields")):
        text, mesh = text.replace(f".{old}", f".{new}"), mesh.replace(f'"{old}"', f'"{new}"')
    (tmp_path / "box.msh").write_text(mesh)
    (tmp_path / "case.toml").write_text(text)
    loaded = load_case(tmp_path / "case.toml", case_class, [f"grid.mesh={tmp_path / 'box.msh'}"])
    assert not loaded.warnings
    assert {"side", "given", "model_fields"} <= set(loaded.case.boundary.given())
    assert set(mesh_of(loaded.case).sides) >= {"side", "given", "model_fields"}


def test_a_side_without_a_table(folder):
    text = (folder / "case.toml").read_text().replace('[boundary.roof]\nkind = "wall"\n', "")
    (folder / "short.toml").write_text(text.replace('boundary.roof = { kind = "flux", value = "2" }', ""))
    with pytest.raises(
        ConfigError, match=r"grid.mesh .*for each side of the mesh, which is missing for roof"
    ):
        load_case(folder / "short.toml", case_class)


def test_names_of_sides_belong_to_meshes_from_files(folder):
    text = '[run]\nmodel = "navier_stokes"\nsteps = 1\n[grid]\nelements = [1, 1, 1]\nperiodic = [true, true, true]\n'
    (folder / "box.toml").write_text(
        text + '[model]\nviscosity = 1.0\ndt = 0.1\n[boundary.inlet]\nkind = "wall"\n'
    )
    with pytest.raises(ConfigError, match=r"unknown key 'inlet' in \[boundary\]"):
        load_case(folder / "box.toml", case_class)


def test_neither_elements_nor_a_mesh(folder):
    text = (
        '[run]\nmodel = "navier_stokes"\nsteps = 1\n[grid]\norder = 3\n[model]\nviscosity = 1.0\ndt = 0.1\n'
    )
    (folder / "none.toml").write_text(text)
    with pytest.raises(
        ConfigError, match=r"grid.elements .*not set, but it must be three integers .*, unless grid.mesh is"
    ):
        load_case(folder / "none.toml", case_class)


def test_a_folded_element_is_found_by_check(folder):
    box = BoxFile((1, 1, 2), (1.0, 1.0, 2.0), 3)
    for plane, shift in (
        (1, 0.18),
        (2, -0.18),
    ):  # r -> 1.2 r^3 - 0.2 r: it rises at the nodes, and not between
        box.points[box.lattice[0, :, :, plane], 0] += shift
    box.sides = {NAMES.get(name, name): faces for name, faces in box.sides.items()}
    box.write(folder / "folded.msh")
    case = load(folder, f'grid.mesh="{folder}/folded.msh"', "grid.order=9")
    with pytest.raises(ConfigError, match=r"folds element 1 of .*folded.msh, where the Jacobian falls to -"):
        estimate(case, 1)
