"""Fluxes of scalars that depend on the flow at their side, and sponges that leave some scalars alone."""

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import all_sides
from ridgeline.config.expressions import parse
from ridgeline.config.load import load_case
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.models import case_class, estimate
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import (
    FlowProblem,
    FlowState,
    HelmholtzSolver,
    PressureSolver,
    ScalarSide,
    TransportedScalar,
    VelocitySide,
)
from ridgeline.models.navier_stokes.problem_of_case import problem_of
from ridgeline.models.navier_stokes.side_fluxes import SideFluxes
from ridgeline.models.navier_stokes.sources import Sponge, source_names
from ridgeline.runtime.errors import ConfigError


def conduct(flux, at_min, dt, steps, exact, diffusivity=0.2):
    """Return the engine after steps from exact(x, t), with k dT/dn = flux at x = 1."""
    grid = ElementGrid(BoxMesh.box((1, 1, 1), (1.0,) * 3, periodic=(True, True, False)), 9)
    sides = {name: ScalarSide("periodic") for name in SIDES}
    sides |= {"x_min": at_min, "x_max": ScalarSide("flux", parse(flux, source_names(1)), True)}
    walls = all_sides("periodic") | {"x_min": VelocitySide("wall"), "x_max": VelocitySide("wall")}
    problem = FlowProblem(
        0.1,
        dt,
        walls,
        scalars=(TransportedScalar(diffusivity, sides),),
        pressure=PressureSolver(tolerance=1e-12),
        velocity=HelmholtzSolver(tolerance=1e-13),
    )
    x = grid.coordinates[0]
    states = [np.stack([0 * x, 0 * x, 0 * x, exact(x, -back * dt)]) for back in range(3)]
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(states[0], history=states[1:])
    for _ in range(steps):
        engine.advance()
    return engine


@pytest.mark.parametrize(
    "flux",
    ["-0.2*(scalar_0 - 0)", "-0.1/(0.5**4 - 0.3**4)*(scalar_0**4 - 0.3**4)"],
    ids=["Robin", "radiating"],
)
def test_a_steady_state_gives_off_its_heat(flux) -> None:
    """T = 1 - x/2 with k = 0.2: the heat 0.1 that leaves at x = 1, where T = 1/2, is that of the formula."""
    one = ScalarSide("fixed", lambda x, y, z, t: 1.0)
    engine = conduct(flux, one, 0.02, 1200, lambda x, t: 1 - 0.4 * x)
    np.testing.assert_allclose(engine.fields[3], 1 - engine.grid.coordinates[0] / 2, atol=1e-6)
    fluxes = SideFluxes(MPI.COMM_SELF, engine.geometry, engine.problem, [], [["x_min", "x_max"]])
    flow = FlowState(engine.time, engine.u, engine.p, engine.fields[3:])
    heat = fluxes.heat(0, flow, engine.last_step())
    assert heat["x_max"].value.sum() == pytest.approx(-0.1, abs=1e-6)
    assert heat["x_min"].value.sum() == pytest.approx(0.1, abs=1e-6)


def test_a_flux_keeps_the_order_in_time() -> None:
    """T = cos x exp(-k t) has k dT/dx = -k tan(1) T at x = 1."""
    faults = []
    for dt in (0.1, 0.05):
        engine = conduct(
            "-0.2*sin(1)/cos(1)*scalar_0",
            ScalarSide("adiabatic"),
            dt,
            round(2 / dt),
            lambda x, t: np.cos(x) * np.exp(-0.2 * t),
        )
        faults.append(np.abs(engine.fields[3] - np.cos(engine.grid.coordinates[0]) * np.exp(-0.4)).max())
    assert 2.7 < np.log2(faults[0] / faults[1]) < 3.4, faults


def test_a_sponge_leaves_scalars_alone() -> None:
    grid = ElementGrid(BoxMesh.box((1, 1, 1), (1.0,) * 3, periodic=(True,) * 3), 3)
    scalar = TransportedScalar(0.1, {name: ScalarSide("periodic") for name in SIDES})
    sponge = Sponge(parse("2"), (), (None, parse("3")))
    problem = FlowProblem(0.1, 0.01, all_sides("periodic"), scalars=(scalar,) * 3, sponges=(sponge,))
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(np.zeros((6, *grid.shape)))
    for _ in range(50):
        engine.advance()
    assert np.abs(engine.fields[[3, 5]]).max() == 0.0
    np.testing.assert_allclose(engine.fields[4], 3 * (1 - np.exp(-1.0)), atol=1e-3)


TEXT = """
[run]
model = "navier_stokes"
steps = 10
[grid]
elements = [1, 2, 2]
order = 3
lengths = [1.0, 1.0, 1.0]
periodic = [true, true, false]
[model]
viscosity = 0.1
dt = 0.1
[boundary]
x_min = { kind = "wall" }
x_max = { kind = "wall" }
[[scalar]]
diffusivity = 0.1
[scalar.boundary]
x_min = { kind = "fixed", value = "y" }
x_max = { kind = "flux", value = "-2*(scalar_0 - scalar_1)" }
[[scalar]]
diffusivity = 0.1
boundary = { x_min = { kind = "adiabatic" }, x_max = { kind = "adiabatic" } }
[[sponge]]
strength = "1"
scalars = ["none", "y"]
"""


def load(folder, old="", new=""):
    assert old in TEXT
    (folder / "case.toml").write_text(TEXT.replace(old, new, 1))
    return load_case(folder / "case.toml", case_class).case


def test_a_case_with_both(tmp_path) -> None:
    case = load(tmp_path)
    (term,) = problem_of(case, 0.1).source_terms
    assert (term.key, term.field, term.formula.text) == ("sponge.0", 4, "y")
    (said,) = [words for words in estimate(case, 1).remarks if "its flux" in words]
    # 20/21 over 2 times the area per volume of the last of four points: 1/(0.5/12)
    assert said == (
        "scalar 0 at x_max: its flux is surely stable for time steps up to 0.0198, which model.dt = 0.1 exceeds; "
        "diffusion may make longer ones stable"
    )


REFUSED = [
    ("- scalar_1)", "- scalar_2)", r"case.toml:20: .*scalar_2 is unknown \(did you mean scalar_1\?\)"),
    ('"fixed", value = "y"', '"fixed", value = "scalar_1"', "case.toml:19: .*scalar_1 is unknown"),
    (
        "scalar_1)",
        "1/scalar_1)",
        "case.toml:20: .*is -?inf at x = 1, y = 0, z = 0, scalar_0 = 0, scalar_1 = 0",
    ),
    ('"none", "y"', '"nothing", "y"', "case.toml:26: .*nothing is unknown"),
    ('"none", "y"', '"none"', "case.toml:24: .*sponge.N.scalars instead"),
]


@pytest.mark.parametrize(("old", "new", "words"), REFUSED)
def test_refused(tmp_path, old, new, words) -> None:
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, old, new)
