"""What a run will need, before it runs: decomposition, neighbours, spacing, the first Courant number."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.config.load import load_case
from ridgeline.elements.mesh import ElementGrid
from ridgeline.models import case_class, estimate
from ridgeline.models.navier_stokes.check_remarks import first_courant_rate
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.estimate import shared_faces, spacings, words_per_point
from ridgeline.models.navier_stokes.problem_of_case import mesh_of, problem_of
from ridgeline.runtime.errors import ConfigError, DecompositionError, DivergedError

TEXT = """\
[run]
model = "navier_stokes"
steps = 100
[grid]
elements = [2, 3, 4]
order = 4
lengths = [1.0, 3.0, 2.0]
periodic = [true, true, true]
[model]
viscosity = 0.1
dt = 0.01
[initial]
kind = "uniform"
velocity = [1, -2, 0.5]
[output]
every = 50
"""


def load(folder: Path, *overrides: str, text: str = TEXT) -> Any:
    (folder / "case.toml").write_text(text)
    return load_case(folder / "case.toml", case_class, overrides).case


def test_figures(tmp_path: Path) -> None:
    case = load(tmp_path)
    found = estimate(case, 5)
    assert (found.process_grid, found.block) == ((5,), (5, 5, 5, 5))
    assert (found.outputs, found.output_bytes) == (2, 2 * 4 * 24 * 125 * 8)
    assert found.work.points == 24 * 64
    assert found.remarks[0] == "24 elements of order 4: 3000 points stored, 1536 unique"
    gap = (1 - np.sqrt(3 / 7)) / 2
    assert spacings(case, mesh_of(case)) == pytest.approx((gap / 2, gap, gap / 2))
    # Whatever the direction of the wind, distances are those beside the ends of an element.
    rate = 1 / (gap / 2) + 2 / gap + 0.5 / (gap / 2)
    assert first_courant_rate(case, mesh_of(case))[0] == pytest.approx(rate)
    assert f"Courant number of step 0: {rate * 0.01:.3g}" in found.remarks
    # A map that leaves everything in its place changes nothing.
    (tmp_path / "same.py").write_text("def same(x, y, z):\n    return x, y, z\n")
    mapped = load(tmp_path, f"grid.mapping={tmp_path}/same.py:same")
    assert first_courant_rate(mapped, mesh_of(mapped))[0] == pytest.approx(rate)
    assert estimate(mapped, 5).work.bytes_memory > found.work.bytes_memory
    assert any("worst scaled Jacobian: 1 at x=" in remark for remark in estimate(mapped, 1).remarks)
    assert not any("Jacobian" in remark or "leaves" in remark for remark in found.remarks)


def test_a_time_step_that_is_too_long_is_told(tmp_path: Path) -> None:
    (refusal,) = estimate(load(tmp_path, "model.dt=1.0"), 1).refusals
    assert "above the stability limit (1), so a run ends at once. Set model.dt <= 0.0" in refusal
    remarks = estimate(load(tmp_path, "model.dt=0.03"), 1).remarks
    assert any(
        "above the limit that is safe for most flows (0.5). Try model.dt <= 0.0172." in remark
        for remark in remarks
    )
    case = load(tmp_path, "initial.kind=taylor_green")
    assert not any("model.dt" in remark for remark in estimate(case, 1).remarks)


def test_steps_by_the_courant_number_are_told(tmp_path: Path) -> None:
    text = TEXT.replace("dt = 0.01", "courant = 0.4")
    remarks = estimate(load(tmp_path, text=text), 1).remarks
    assert "time step of step 0: 0.0138, with the Courant number 0.4" in remarks
    (refusal,) = estimate(load(tmp_path, "initial.kind=rest", text=text), 1).refusals
    assert "none, because the fluid is at rest, so a run ends at once. Set model.dt_max." in refusal


SIDES = ("grid.periodic=[true,false,false]", "initial.kind=rest", "boundary.y_min.kind=wall")
LID = (*SIDES, "boundary.x_min.kind=wall", "boundary.x_max.kind=wall", "boundary.y_max.kind=moving-wall",
       "boundary.y_max.value=[1,0,0]")  # fmt: skip
INLET = (*SIDES, "boundary.x_min.kind=inflow", 'boundary.x_min.value=["y*(3 - y)",0,0]',
         "boundary.x_max.kind=outflow", "boundary.y_max.kind=wall")  # fmt: skip
PUMP = ("initial.kind=rest", "model.forcing.kind=flow-rate", "model.forcing.bulk_velocity=-2")


@pytest.mark.full
@pytest.mark.parametrize("mapping", ["none", "wavy"])
@pytest.mark.parametrize("overrides", [LID, INLET, PUMP])
def test_from_rest_it_is_that_of_what_moves_the_flow_as_the_engine_has_it(
    tmp_path: Path, overrides: tuple[str, ...], mapping: str
) -> None:
    case = load(tmp_path, *overrides, f"grid.mapping={mapping}", "model.dt=1")
    rate, _ = first_courant_rate(case, mesh_of(case))
    grid = ElementGrid(mesh_of(case), case.grid.order)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem_of(case, 1.0))
    engine.start(np.zeros((3, *grid.shape)))
    with pytest.raises(DivergedError, match=re.escape(f"gives the Courant number {rate:.3g} at step 0")):
        engine.advance()
    # A larger mesh is not looked at whole, but at its sides all the same.
    large = load(tmp_path, *overrides, "grid.elements=[9,9,16]")
    gap = (1 - np.sqrt(3 / 7)) / 2
    found = first_courant_rate(large, mesh_of(large))[0] * gap / 8
    assert found == pytest.approx({LID: 1, INLET: 9 / 4, PUMP: 2}[overrides], rel=0.03)


def test_images_and_nek5000_files_count(tmp_path: Path) -> None:
    asked = ("output.uniform=[10,10,10]", "output.nek5000=duct", "output.nek5000_every=10")
    for geometry, with_places in (("first", 1), ("every", 11)):
        case = load(tmp_path, *asked, f"output.nek5000_geometry={geometry}")
        assert estimate(case, 1).output_bytes == 2 * 4 * 1000 * 8 + (11 * 4 + with_places * 3) * 3000 * 4


def test_statistics_of_budgets_take_25_more_words_for_each_point(tmp_path: Path) -> None:
    counts = []
    for kind in ("moments", "budgets"):
        case = load(tmp_path, "output.statistics_every=1", f"output.statistics_of={kind}")
        counts.append(words_per_point(case)["statistics"])
    assert counts[1] - counts[0] == 25


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        (("output.homogeneous=['x','z']",), "10 windows of 0.001091 MiB (11 averages at 13 points)"),
        (("output.homogeneous=['x']", "output.statistics_of=budgets"),
         "10 windows of 0.04017 MiB (45 averages at 117 points)"),
        ((), "10 windows of 0.2518 MiB (11 averages at 3000 points)"),
    ],
)  # fmt: skip
def test_the_bytes_of_windows_are_told(tmp_path: Path, settings: tuple[str, ...], size: str) -> None:
    windows = ("output.statistics_every=1", "output.statistics_window_time=0.1")
    assert f"statistics: {size}" in estimate(load(tmp_path, *windows, *settings), 1).remarks
    assert not any("statistics:" in remark for remark in estimate(load(tmp_path), 1).remarks)


def test_places_of_probes_are_counted_and_those_outside_refused(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("0.1,0.1,0.1\n0.1,0.2,0.1\n")
    case = load(tmp_path, f"output.probes.file={tmp_path}/places.csv")
    assert "probes: 2, in 101 rows" in estimate(case, 1).remarks
    (tmp_path / "places.csv").write_text("0.1,0.1,0.1\n0.1,0.2,-99\n")
    with pytest.raises(ConfigError, match=r"of 2 probes, probe 1 at \(0\.1, 0\.2, -99\.0\) lie outside"):
        estimate(case, 1)
    (tmp_path / "shear.py").write_text("def shear(x, y, z):\n    return x + 0.3 * y, y, z\n")
    (tmp_path / "places.csv").write_text("0.3,0.9,0.1\n0.2,0.9,0.1\n")
    case = load(
        tmp_path, f"output.probes.file={tmp_path}/places.csv", f"grid.mapping={tmp_path}/shear.py:shear"
    )
    with pytest.raises(ConfigError, match=r"of 2 probes, probe 1 at \(0\.2, 0\.9, 0\.1\) lie outside"):
        estimate(case, 1)
    (tmp_path / "places.csv").write_text("x,y,z\n")
    with pytest.raises(ConfigError, match=r"places\.csv\" contains no position"):
        estimate(case, 1)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 24])
def test_faces_between_parts(tmp_path: Path, n_ranks: int) -> None:
    case = load(tmp_path, "grid.periodic=[true,false,false]", *(
        f"boundary.{side}.kind=wall" for side in ("x_min", "x_max", "y_min", "y_max")
    ), "initial.kind=rest")  # fmt: skip
    mesh = mesh_of(case)
    owner = {}
    for rank in range(n_ranks):
        for place in ElementGrid(mesh, 4, n_ranks, rank).positions:
            owner[tuple(map(int, place))] = rank
    faces, pairs = 0, set()
    for z, y, x in owner:
        for other in (((z + 1) % 2, y, x), (z, y + 1, x), (z, y, x + 1)):
            if other in owner and owner[other] != owner[z, y, x]:
                faces += 1
                pairs.add(frozenset((owner[other], owner[z, y, x])))
    assert shared_faces(mesh, n_ranks) == (faces, len(pairs))


def test_what_cannot_be_cut_or_folds(tmp_path: Path) -> None:
    with pytest.raises(
        DecompositionError,
        match=r"25 ranks cannot share 24 elements, .* Use 24 ranks or fewer, or more elements",
    ):
        estimate(load(tmp_path), 25)
    (tmp_path / "fold.py").write_text("def fold(x, y, z):\n    return x - 0.9 * x * x, y, z\n")
    folded = load(
        tmp_path, f"grid.mapping={tmp_path}/fold.py:fold", "grid.periodic=[true,true,false]",
        "boundary.x_min.kind=wall", "boundary.x_max.kind=wall",
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"folds element \(z=\d, y=\d, x=\d\)"):
        estimate(folded, 1)
