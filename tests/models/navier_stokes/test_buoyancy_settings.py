"""Gravity and expansions in the settings: what arrives, what is refused, what a check says, what identifies a run."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.config.load import load_case
from ridgeline.elements.mesh import ElementGrid
from ridgeline.models import case_class, estimate
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.estimate import Counts
from ridgeline.models.navier_stokes.problem_of_case import mesh_of, problem_of
from ridgeline.runtime.errors import ConfigError

TEXT = """\
[run]
model = "navier_stokes"
steps = 10
[grid]
elements = [1, 2, 2]
order = 4
lengths = [0.5, 2.0, 1.0]
periodic = [true, false, false]
[model]
viscosity = 0.01
dt = 0.1
gravity = [0, -10, 0]
[boundary.x_min]
kind = "wall"
[boundary.x_max]
kind = "wall"
[boundary.y_min]
kind = "wall"
[boundary.y_max]
kind = "wall"
[[scalar]]
diffusivity = 0.02
expansion = 0.5
reference = 20
[scalar.boundary.x_min]
kind = "adiabatic"
[scalar.boundary.x_max]
kind = "adiabatic"
[scalar.boundary.y_min]
kind = "fixed"
value = 21
[scalar.boundary.y_max]
kind = "fixed"
value = 19
"""


def load(folder: Path, *overrides: str) -> Any:
    path = folder / "case.toml"
    path.write_text(TEXT)
    return load_case(path, case_class, overrides).case


def test_gravity_and_expansions_arrive(tmp_path: Path) -> None:
    problem = problem_of(load(tmp_path), 0.1)
    assert problem.gravity == (0.0, -10.0, 0.0)
    assert (problem.scalars[0].expansion, problem.scalars[0].reference) == (0.5, 20.0)
    assert problem.buoyant


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["scalar.0.mean_gradient=[0.1,1,0]"],
         "scalar.0.mean_gradient is [0.1, 1, 0], but it must be parallel to model.gravity if the scalar has an "
         "expansion, because no pressure can balance the buoyancy of any other gradient."),
        (["model.gravity=[0,-10]"],
         "model.gravity is [0, -10], but it must be three numbers as [g_x, g_y, g_z]."),
        (["model.gravity=[0,-10,inf]"],
         "model.gravity is [0, -10, inf], but it must be three numbers as [g_x, g_y, g_z]."),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(tmp_path: Path, overrides: list[str], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, *overrides)
    (told,) = str(caught.value).split("\n")
    assert re.sub(r"^(--set|\S+case\.toml(:\d+)?): ", "", told, count=1) == expected


def test_a_leaning_gravity_takes_a_gradient_along_it(tmp_path: Path) -> None:
    case = load(tmp_path, "model.gravity=[0.1,-0.3,0.7]", "scalar.0.mean_gradient=[-0.01,0.03,-0.07]")
    assert case.scalar[0].mean_gradient == (-0.01, 0.03, -0.07)


def test_a_checkpoint_of_before_goes_on(tmp_path: Path) -> None:
    off = ("model.gravity=[0,0,0]", "scalar.0.expansion=0", "scalar.0.reference=0")
    passive = load(tmp_path, *off).identity()
    assert not any("gravity" in key or "expansion" in key or "reference" in key for key in passive)
    active = load(tmp_path).identity()
    assert {key: active[key] for key in active.keys() - passive.keys()} == {
        "model.gravity": [0.0, -10.0, 0.0],
        "scalar.0.expansion": 0.5,
        "scalar.0.reference": 20.0,
    }


def test_a_check_tells_the_rayleigh_number(tmp_path: Path) -> None:
    """g beta dT = 10, L = 2, nu k = 2e-4: Ra = 4e5; the free-fall time is sqrt(1/5)."""
    found = estimate(load(tmp_path), 1).remarks
    expected = (
        "scalar 0 between y_min and y_max: Rayleigh number 400000, Prandtl number 0.5, free-fall time 0.447 "
        "(4.47 steps)"
    )
    assert expected in found
    quiet = estimate(load(tmp_path, "scalar.0.boundary.y_max.value=21"), 1).remarks
    assert not any("Rayleigh" in remark for remark in quiet)


def test_conduction_is_between_two_fixed_sides_of_a_box(tmp_path: Path) -> None:
    assert load(tmp_path).conduction_axes(0) == (1,)
    assert load(tmp_path, "grid.mapping=wavy").conduction_axes(0) == ()
    assert load(tmp_path, "scalar.0.boundary.y_max.kind=flux").conduction_axes(0) == ()
    both = ("scalar.0.boundary.x_min.kind=fixed", "scalar.0.boundary.x_max.kind=fixed")
    assert load(tmp_path, *both, "scalar.0.boundary.x_max.value=1").conduction_axes(0) == (0, 1)


def test_the_work_of_buoyancy_is_counted_once(tmp_path: Path) -> None:
    """What `check` and predictions count beside a passive scalar is what the engine charges."""
    case = load(tmp_path)
    passive = load(tmp_path, "model.gravity=[0,0,0]", "scalar.0.expansion=0", "scalar.0.reference=0")
    grid = ElementGrid(mesh_of(case), case.grid.order)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem_of(case, 0.1))
    per_point = np.array(engine.counted.buoyancy()) / grid.n_points
    assert per_point == pytest.approx(np.subtract(Counts.of(case).step(), Counts.of(passive).step()))
    assert per_point.tolist() == [4.0, 24.0]
