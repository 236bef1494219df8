"""A flow on GPUs, before it runs: what is refused, what it takes there. No device is needed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.config.expressions import parse
from ridgeline.config.load import load_case
from ridgeline.models import case_class, estimate
from ridgeline.models.navier_stokes.device_memory import DeviceParts, device_bytes, elements_at_sides
from ridgeline.models.navier_stokes.problem_of_case import mesh_of, problem_of

TEXT = """\
[run]
model = "navier_stokes"
steps = 10
device = "cuda"
[grid]
elements = [3, 4, 5]
order = 4
periodic = [true, false, true]
[model]
viscosity = 0.1
dt = 0.01
[model.pressure]
preconditioner = "jacobi"
[boundary.y_min]
kind = "wall"
[boundary.y_max]
kind = "wall"
[[scalar]]
diffusivity = 0.1
[scalar.boundary.y_min]
kind = "adiabatic"
[scalar.boundary.y_max]
kind = "fixed"
value = 1
"""


def load(folder: Path, *overrides: str) -> Any:
    (folder / "case.toml").write_text(TEXT)
    return load_case(folder / "case.toml", case_class, overrides).case


@pytest.mark.parametrize(("source", "axes"), [("0", 0), ("t", 0), ("x*z + t", 2), ("y if z > x else 1", 1)])
def test_sources_take_the_coordinates_that_they_have_or_their_values(
    tmp_path: Path, source: str, axes: int
) -> None:
    case = load(tmp_path, f"scalar.0.source={source}")
    assert estimate(case, 1).device_memory["sources"] == 8 * axes * 60 * 5**3


def test_fields_are_on_the_gpu_and_copies_of_them_on_the_host(tmp_path: Path) -> None:
    case = load(tmp_path)
    points = 60 * 5**3
    plan, on_cpus = estimate(case, 1), estimate(load(tmp_path, "run.device=cpu"), 1)
    assert not on_cpus.device_memory
    assert plan.memory_per_rank < on_cpus.memory_per_rank
    # BDF3 of four fields: their levels and rates, the right-hand sides of all and of three, pressure and its own.
    assert plan.device_memory["fields"] == 8 * points * (2 * 3 * 4 + 4 + 3 + 3)
    halves = estimate(case, 2).device_memory
    assert halves["fields"] == plan.device_memory["fields"] / 2
    assert halves["gather-scatter"] > plan.device_memory["gather-scatter"] / 2


@pytest.mark.parametrize("source", ["2*t", "x*sin(3*z) + u*t"])
def test_the_kernel_of_a_source_is_made_without_a_gpu(source: str) -> None:
    """It gets its key in the kernel cache, which the simulator has not. Nothing is compiled."""
    pytest.importorskip("numba_cuda")
    from ridgeline.models.navier_stokes.device.sources_cuda import make_source
    from ridgeline.models.navier_stokes.sources import SourceTerm, source_names

    assert make_source(5, True, SourceTerm("", 3, parse(source, source_names(0)))).targetoptions[
        "launch_bounds"
    ]


def test_elements_at_sides_are_those_of_the_part_that_has_most(tmp_path: Path) -> None:
    mesh = mesh_of(load(tmp_path))
    assert elements_at_sides(mesh, 1) == 3 * 5 * 2
    assert 15 <= elements_at_sides(mesh, 2) <= 30
    assert elements_at_sides(mesh, 60) == 1


def test_each_choice_takes_its_own_memory(tmp_path: Path) -> None:
    problem = problem_of(load(tmp_path), 0.01)
    parts = DeviceParts(
        n=5, elements=8, axis_aligned=True, at_sides=0, lifted=0, given=0, free_pressure=0, gather=0
    )
    words = {name: size / 8000 for name, size in device_bytes(parts, problem).items()}
    assert words["projection"] == 22 + 4 * 10
    assert words["Krylov vectors"] == 15 + 3 + 31 + 30
    assert (words["geometry"], words["diagonals"], words["sides"]) == (pytest.approx(2.032), 3, 0)
    multigrid = replace(problem, pressure=replace(problem.pressure, preconditioner="schwarz"))
    assert device_bytes(replace(parts, multigrid=7), multigrid)["multigrid"] == 7
    assert device_bytes(parts, multigrid)["Krylov vectors"] == 8000 * (15 + 3 + 31 + 15 + 1)
    changed = replace(
        problem,
        pressure=replace(problem.pressure, projection=0, preconditioner="none"),
        velocity=replace(problem.velocity, projection=0),
    )
    found = device_bytes(replace(parts, axis_aligned=False, at_sides=2, lifted=3, given=9), changed)
    words = {name: size / 8000 for name, size in found.items()}
    assert words["Krylov vectors"] == 9 + 31
    assert (words["geometry"], words["diagonals"]) == (18, 2)
    assert found["sides"] == 8 * ((4 * 2 + 3) * 125 + 3 * 9)
    assert np.isfinite(list(found.values())).all()
