"""Parts on elements before a run: exact planes, sizes, and one sentence for those outside the domain."""

import numpy as np
import pytest

from mesh_files import BoxFile
from re2_files import write_butterfly
from ridgeline.config.load import load_case
from ridgeline.elements.meshes.hexahedra import build_mesh
from ridgeline.io.mesh_file import read_mesh
from ridgeline.models import case_class
from ridgeline.runtime.errors import ConfigError

BOX = """
[grid]
elements = [1, 2, 3]
order = 3
lengths = [1, 2, 3]
origin = [0, -1, 0]
periodic = [true, false, false]
[boundary]
x_min = {kind = "inflow", value = [1, 0, 0]}
x_max = {kind = "outflow"}
y_min = {kind = "wall"}
y_max = {kind = "wall"}
"""
RING = """
[grid]
elements = [1, 2, 6]
order = 4
lengths = [1, 1, 1]
origin = [0, 1, 0]
periodic = [true, false, true]
mapping = "annulus"
[boundary]
y_min = {kind = "wall"}
y_max = {kind = "wall"}
"""


def case_of(folder, grid, part, more=""):
    text = (
        '[run]\nmodel = "navier_stokes"\nsteps = 10\n[model]\nviscosity = 0.1\ndt = 0.01\n'
        f'{grid}\n{more}\n[output]\nevery = 0\n[[output.part]]\nname = "a"\nevery = 5\n{part}\n'
    )
    file = folder / "case.toml"
    file.write_text(text)
    return load_case(file, case_class).case


@pytest.mark.parametrize(
    ("plane", "axis", "shape", "place"),
    [
        ('"x=0.37"', 2, (4, 6, 1), 0.37),
        ('"y=mid"', 1, (4, 1, 8), 0.0),
        ('"y=-1.0"', 1, (4, 1, 8), -1.0),
        ('"y=0"', 1, (4, 1, 8), -1 + 1 / 6),  # an index: the first of 6 points
    ],
)
def test_a_plane_is_exactly_where_it_is_said_to_be(tmp_path, plane, axis, shape, place):
    case = case_of(tmp_path, BOX, f"plane = {plane}\npoints = [4, 6, 8]")
    part = case.output.part[0]
    assert case.part_sizes()[0].shape == shape
    grid = part.select(case.part_grid(part)).grid(case.part_grid(part))
    assert grid.places(axis) == pytest.approx([place])
    assert grid.places(0) == pytest.approx((np.arange(4) + 0.5) / 4)


def test_sizes_of_parts_on_sides(tmp_path):
    def size(part):
        (found,) = case_of(tmp_path, BOX, part).part_sizes()
        return found.shape, found.bytes, found.axes

    assert size('side = "y_min"') == ((3, 4, 4), 3 * 16 * 8 * 4, "face s r")  # three shears and the pressure
    assert size('side = "y_min"\nmean = ["z"]\nvariables = ["pressure"]') == ((10,), 80, "arc length")
    assert size('side = "x_max"\nmean = ["x", "y", "z"]\nprecision = "float32"') == ((1,), 16, "point")
    (ring,) = case_of(tmp_path, RING, 'side = "y_max"\nmean = ["z"]').part_sizes()
    assert ring.shape == (25,)


@pytest.mark.parametrize(
    ("grid", "part", "key", "words"),
    [
        (BOX, 'plane = "x=3.1"', "plane", "inside the domain, which extends from 0 to 3 in x"),
        (BOX, 'line = "x=1.0, y=1.01"', "line", "inside the domain, which extends from -1 to 1 in y"),
        (BOX, 'box = "y=1.5:2.0"', "box", "inside the domain"),
        (BOX, 'side = "z_min"', "side", "not periodic, which are x_min, x_max, y_min, y_max"),
        (BOX, 'side = "y_mn"', "side", "Did you mean 'y_min'"),
        (BOX, 'side = "y_min"\nplane = "x=mid"', "plane", "left out, because the part has a side"),
        (BOX, 'side = "y_min"\nstride = [1, 2, 1]', "stride", "left out, because the part has a side"),
        (BOX, 'side = "y_min"\npoints = [2, 2, 2]', "points", "left out, because the part has a side"),
        (BOX, 'side = "y_min"\nmean = ["x", "z"]', "mean", "one axis, or all of"),
        (BOX, 'side = "y_min"\nmean = ["y"]', "mean", "lie on straight lines"),
        (BOX, 'side = "y_min"\nvariables = ["wall_shear"]', "variables", "Did you mean 'wall_shear_"),
        (BOX, 'side = "y_min"\nvariables = ["scalar_0_flux"]', "variables", "is not a field"),
        (BOX, 'variables = ["wall_shear_x"]', "variables", "is not a field"),
        (RING, 'plane = "x=2.1"', "plane", "inside the domain, which extends from -2 to 2 in x"),
        (RING, 'line = "x=0.2, y=0.3"', "line", "inside the domain, where all are outside"),  # in the cylinder
        (RING, 'box = "x=-0.5:0.5, y=-0.5:0.5"\npoints = [1, 40, 40]', "box", "inside the domain, where all"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_are_one_sentence(tmp_path, grid, part, key, words):
    with pytest.raises(ConfigError) as error:
        case_of(tmp_path, grid, part)
    text = str(error.value)
    assert len(text.splitlines()) == 1, text
    assert f"output.part.0.{key}" in text or f" {key} " in text or f"'{key}'" in text, text
    assert words in text, text


def test_parts_on_meshes_from_files(tmp_path):
    butterfly = build_mesh(read_mesh(write_butterfly(tmp_path / "butterfly.re2")))
    file = BoxFile.of(butterfly, 4, seed=2).write(tmp_path / "b.msh")
    sides = "".join(f'"{name}" = {{kind = "wall"}}\n' for name in butterfly.sides)
    grid = f'[grid]\nmesh = "{file}"\norder = 4\n[boundary]\n{sides}'
    some = butterfly.sides[0]
    (size,) = case_of(tmp_path, grid, f'side = "{some}"').part_sizes()
    assert size.shape == (butterfly.side_size(some), 5, 5)
    with pytest.raises(ConfigError, match=r"extends from -0\.99\d* to 0\.99\d* in x"):  # of a cylinder
        case_of(tmp_path, grid, 'plane = "x=1.1"\npoints = [4, 4, 4]')
    with pytest.raises(ConfigError, match=r"output\.part\.0\.points must be|points"):
        case_of(tmp_path, grid, 'plane = "x=0.5"')
