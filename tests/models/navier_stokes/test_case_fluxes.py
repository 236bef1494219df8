"""What balances at the sides of a case, and what does not: found before a run, as the run finds it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.config.load import load_case
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.models import case_class
from ridgeline.models.navier_stokes.boundary_terms import Boundaries
from ridgeline.models.navier_stokes.mesh_rules import Faces, Flux
from ridgeline.models.navier_stokes.problem_of_case import mesh_of, problem_of
from ridgeline.runtime.errors import ConfigError

TEXT = """\
[run]
model = "navier_stokes"
steps = 10
[grid]
elements = [1, 2, 3]
order = 5
lengths = [1.0, 2.0, 3.0]
periodic = [true, false, false]
[model]
viscosity = 0.1
dt = 0.1
[boundary]
"""
WALL = {"kind": '"wall"'}


def side(kind: str, value: str) -> dict[str, str]:
    return {"kind": f'"{kind}"', "value": value}


def load(folder: Path, *overrides: str, **sides: dict[str, str]) -> Any:
    """Return a case with these sides, walls elsewhere."""
    text = TEXT
    for name in ("x_min", "x_max", "y_min", "y_max"):
        text += "".join(f"{name}.{key} = {value}\n" for key, value in sides.get(name, WALL).items())
    (folder / "case.toml").write_text(text)
    return load_case(folder / "case.toml", case_class, overrides).case


def refused(folder: Path, *overrides: str, **sides: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, *overrides, **sides)
    return str(caught.value)


LID = side("moving-wall", "[1, 0, 0]")


@pytest.mark.parametrize("overrides", [(), ("grid.mapping=wavy", "grid.mapping_amplitude=0")])
def test_walls_that_move_along_themselves_balance(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    load(tmp_path, *overrides, y_max=LID)
    load(tmp_path, *overrides, y_max=LID, y_min=side("moving-wall", "[-3, 0, 0.5]"))


def test_an_inflow_along_its_side_balances(tmp_path: Path) -> None:
    load(tmp_path, x_min=side("inflow", "[0, 1, 0]"))
    told = refused(tmp_path, x_min=side("inflow", "[1e-3, 1, 0]"))
    assert "case.toml:14: boundary.x_min.value is " in told
    assert "as much fluid enters as leaves through all sides" in told


def test_a_thin_jet_is_found_among_large_sides(tmp_path: Path) -> None:
    jet = side("inflow", '["1 if abs(y - 1) < 0.05 else 0", 0, 0]')
    assert "0.0" in refused(tmp_path, "grid.elements=[1, 40, 3]", x_min=jet)


def test_what_balances_but_not_at_the_points_of_the_mesh_is_refused_before_the_run(tmp_path: Path) -> None:
    plug, profile = side("inflow", "[1, 0, 0]"), side("inflow", '["1.5*y*(2 - y)", 0, 0]')
    told = refused(tmp_path, x_min=plug, x_max=profile)
    assert "boundary.x_max.value" in told
    assert "also at the points of the mesh" in told
    load(tmp_path, x_min=plug, x_max=plug)
    load(tmp_path, x_min=plug, x_max={"kind": '"outflow"'})


def test_an_imbalance_that_comes_with_time_is_refused(tmp_path: Path) -> None:
    ramp = side("inflow", '["1 - exp(-t)", 0, 0]')
    told = refused(tmp_path, x_min=ramp, x_max=side("inflow", "[0, 0, 0]"))
    assert "At t = 0.25 the net inflow is " in told
    load(tmp_path, x_min=ramp, x_max=ramp)


def test_a_law_of_the_wall_has_no_value_where_the_wall_has_one(tmp_path: Path) -> None:
    load(tmp_path, x_min=side("inflow", '["1 + log(y)", 0, 0]'), x_max={"kind": '"outflow"'})
    told = refused(tmp_path, x_min=side("inflow", '["log(y - 1)", 0, 0]'), x_max={"kind": '"outflow"'})
    assert "finite everywhere on the side at t = 0" in told


@pytest.mark.parametrize("mapping", ["none", "periodic-hill"])
def test_the_flux_is_that_of_the_engine(tmp_path: Path, mapping: str) -> None:
    case = load(
        tmp_path, f"grid.mapping={mapping}", x_min=side("inflow", '["1 + y", "x", 0]'),
        x_max={"kind": '"outflow"'}, y_min=side("inflow", "[0.5, 2, 0]"), y_max=LID,
    )  # fmt: skip
    mesh, problem = mesh_of(case), problem_of(case, 0.1)
    grid = ElementGrid(mesh, case.grid.order)
    engine = Boundaries(MPI.COMM_SELF, grid, ElementGeometry(grid), problem)
    engine.update(0.0)
    nodes = gauss_lobatto(grid.n)
    found = np.zeros(3)
    for name in ("x_min", "y_min", "y_max"):
        faces = Faces.of(mesh, name, nodes)
        found += Flux.of(faces, faces.dirichlet_velocity(problem.sides, 0.0, edges=True))
    assert engine.flux() == pytest.approx((found[0], found[2]), rel=1e-12)
