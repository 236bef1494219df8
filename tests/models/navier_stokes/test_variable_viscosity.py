"""Viscosities and diffusivities that are formulas: the reference, exact flows, stability, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import EVERYTHING, PI, all_sides, history, make_start, variable
from ridgeline.config.expressions import parse
from ridgeline.config.load import load_case
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.models import case_class, estimate
from ridgeline.models.navier_stokes.check_remarks import fastest_mode
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
from ridgeline.models.navier_stokes.reference import ReferenceSolver
from ridgeline.models.navier_stokes.side_fluxes import SideFluxes
from ridgeline.models.navier_stokes.sources import source_names
from ridgeline.models.navier_stokes.time_stepping import (
    BACKWARD,
    EXTRAPOLATION,
    FREE_RATIOS,
    diffusion_limit,
)
from ridgeline.runtime.errors import ConfigError, DivergedError

TIGHT = {
    "pressure": PressureSolver(tolerance=1e-12, projection=6),
    "velocity": HelmholtzSolver(tolerance=1e-13, projection=3),
}


def begin(grid, problem, fields, before=()):
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(fields, history=before)
    return engine


def advance(engine, steps):
    for _ in range(steps):
        engine.advance()


@pytest.mark.parametrize("base", ["channel", pytest.param("sources", marks=pytest.mark.full)])
def test_the_engine_is_the_reference(base) -> None:
    grid, problem = variable(base, **TIGHT)
    fields = make_start(grid, problem)
    reference = ReferenceSolver(grid, problem, fields[:3], fields[3:])
    engine = begin(grid, problem, fields)
    for _ in range(4):
        reference.step()
        engine.advance()
        np.testing.assert_allclose(engine.fields, reference.fields[0], atol=1e-10)
        np.testing.assert_allclose(engine.p, reference.p, atol=1e-8)
    heated = [[n for n, side in each.sides.items() if side.kind == "fixed"] for each in problem.scalars]
    walls = problem.sides_of("wall")
    fluxes = SideFluxes(MPI.COMM_SELF, engine.geometry, problem, walls, heated)
    flow = FlowState(engine.time, engine.u, engine.p, engine.fields[3:])
    traction = fluxes.traction(flow, engine.last_step())
    for name in walls:
        normal = engine.geometry.sides[name].normal_area.swapaxes(0, 1)
        pressure = engine.geometry.sides[name].take(engine.p) * normal
        force = (pressure - traction[name].value).sum(axis=(1, 2, 3))
        np.testing.assert_allclose(force, reference.side_force(name)[0], atol=1e-8)

    # One field for the viscosity of each step, one for the diffusivity, which is evaluated once.
    plain, without = EVERYTHING[base](**TIGHT)
    other = begin(plain, without, fields)
    assert engine.memory()["sources"] - other.memory()["sources"] == 2 * 8 * grid.n_points
    for _ in range(4):
        other.advance()
    assert np.abs(other.fields[:3] - engine.fields[:3]).max() > 1e-5
    assert np.abs(other.fields[4] - engine.fields[4]).max() > 1e-5


def manufactured(order, dt, time_order=3):
    """u = (2 sin x cos 2y, -cos x sin 2y) g, p = y cos x g with g = 1 + sin(t)/2, in a viscosity of x, y and t."""
    mesh = BoxMesh.box((1, 2, 2), (0.5, 1.0, 1.0), periodic=(True, False, False))
    g, rate = "(1 + sin(t)/2)", "cos(t)/2"
    nu = "0.05*(1 + 0.4*sin(3*x)*cos(2*y)*cos(t))"
    nu_x, nu_y = "(0.06*cos(3*x)*cos(2*y)*cos(t))", "(-0.04*sin(3*x)*sin(2*y)*cos(t))"
    along, shear = f"(4*cos(x)*cos(2*y)*{g})", f"(-3*sin(x)*sin(2*y)*{g})"  # 2 du/dx, du/dy + dv/dx
    source = (
        f"2*sin(x)*cos(2*y)*{rate} + 4*sin(x)*cos(x)*{g}**2 - sin(x)*y*{g}"
        f" - ({nu_x}*{along} + {nu_y}*{shear} - {nu}*10*sin(x)*cos(2*y)*{g})",
        f"-cos(x)*sin(2*y)*{rate} + 2*sin(2*y)*cos(2*y)*{g}**2 + cos(x)*{g}"
        f" - ({nu_x}*{shear} - {nu_y}*{along} + {nu}*5*cos(x)*sin(2*y)*{g})",
    )

    def velocity(x, y, z, t):
        g = 1 + np.sin(t) / 2
        return np.stack([2 * np.sin(x) * np.cos(2 * y) * g, -np.cos(x) * np.sin(2 * y) * g, 0 * x])

    sides = {
        name: VelocitySide("periodic") if name[0] == "z" else VelocitySide("inflow", velocity, False)
        for name in SIDES
    }
    problem = FlowProblem(
        0.06,
        dt,
        sides,
        time_order=time_order,
        dealias_points=-(-3 * (order + 1) // 2),
        viscosity_formula=parse(nu),
        source=(parse(source[0]), parse(source[1]), None),
        pressure=PressureSolver(tolerance=1e-12),
        velocity=HelmholtzSolver(tolerance=1e-13),
    )
    grid = ElementGrid(mesh, order)
    engine = begin(grid, problem, velocity(*grid.coordinates, 0.0), history(grid, velocity, dt))
    for _ in range(round(0.1 / dt)):
        engine.advance()
    x, y, z = grid.coordinates
    off = engine.p - np.cos(x) * y * (1 + np.sin(engine.time) / 2)
    off -= (engine.geometry.mass * off).sum() / engine.geometry.mass.sum()
    return np.abs(engine.u - velocity(x, y, z, engine.time)).max(), np.abs(off).max()


@pytest.mark.full
def test_an_exact_flow_with_the_orders_of_the_elements_and_of_the_scheme() -> None:
    """Errors fall by more than 100 from p = 4 to 6, and with dt^2 and dt^3, also those of the pressure."""
    of_order = np.array([manufactured(order, 0.005) for order in (4, 6)])
    assert (of_order[0] > 100 * of_order[1]).all(), of_order
    assert of_order[1, 0] < 1e-6
    for time_order in (2, 3):
        faults = np.array([manufactured(8, dt, time_order) for dt in (0.01, 0.005)])
        slopes = np.log2(faults[0] / faults[1])
        assert (slopes > time_order - np.array((0.6, 0.3))).all(), (time_order, faults)


def test_a_channel_with_an_outflow_keeps_its_exact_profile() -> None:
    """(nu u')' = -1/10 with nu = (1 + y)/10 has u = log(1 + y)/log 2 - y; walls take (1/log 2 - 1 - y)/10."""
    grid = ElementGrid(BoxMesh.box((1, 2, 2), (0.5, 1.0, 1.0), periodic=(True, False, False)), 8)

    def profile(x, y, z, t):
        return np.stack([np.log1p(y) / np.log(2) - y, 0 * y, 0 * y])

    sides = all_sides("periodic") | {"y_min": VelocitySide("wall"), "y_max": VelocitySide("wall")}
    sides |= {"x_min": VelocitySide("inflow", profile), "x_max": VelocitySide("outflow")}
    problem = FlowProblem(0.15, 0.01, sides, viscosity_formula=parse("0.1*(1 + y)"), **TIGHT)
    engine = begin(grid, problem, profile(*grid.coordinates, 0.0))
    for _ in range(20):
        engine.advance()
    x, y, z = grid.coordinates
    np.testing.assert_allclose(engine.u, profile(x, y, z, 0.0), atol=1e-7)
    np.testing.assert_allclose(engine.p, 0.1 * (1 - x), atol=1e-6)
    fluxes = SideFluxes(MPI.COMM_SELF, engine.geometry, problem, ["y_min", "y_max"])
    traction = fluxes.traction(FlowState(0.0, engine.u, engine.p, engine.fields[3:]), engine.last_step())
    for name, shear in (("y_min", 0.1 - 0.1 / np.log(2)), ("y_max", 0.1 / np.log(2) - 0.2)):
        assert traction[name].value[0].sum() == pytest.approx(0.5 * shear, abs=1e-6)


@pytest.mark.parametrize(
    ("formula", "exact"),
    [
        ("0.1*(1 + x)", lambda x: np.log1p(x) / np.log(2)),
        ("0.1*(1 + scalar_0)", lambda x: np.sqrt(1 + 3 * x) - 1),
    ],
    ids=["place", "scalar"],
)
@pytest.mark.parametrize("kind", [pytest.param("fixed", marks=pytest.mark.full), "flux"])
def test_heat_is_conducted_exactly(formula, exact, kind) -> None:
    """k T' is constant: the steady state stays, with T or with k dT/dn given at x = 1, and so does the flux."""
    grid = ElementGrid(BoxMesh.box((1, 1, 2), (0.5, 0.5, 1.0), periodic=(True, True, False)), 9)
    flux = 0.1 / np.log(2) if exact(1.0) == 1.0 and "x" in formula else 0.15
    value = 1.0 if kind == "fixed" else flux
    sides = {name: ScalarSide("periodic") for name in SIDES}
    sides |= {
        "x_min": ScalarSide("fixed", lambda x, y, z, t: 0.0),
        "x_max": ScalarSide(kind, lambda x, y, z, t: value),
    }
    scalar = TransportedScalar(0.2, sides, diffusivity_formula=parse(formula, source_names(1)))
    walls = all_sides("periodic") | {"x_min": VelocitySide("wall"), "x_max": VelocitySide("wall")}
    problem = FlowProblem(0.1, 0.02, walls, scalars=(scalar,), **TIGHT)
    x = grid.coordinates[0]
    start = np.stack([0 * x, 0 * x, 0 * x, exact(x) + 0.1 * x * (1 - x) * (kind == "fixed")])
    engine = begin(grid, problem, start)
    for _ in range(600 if kind == "fixed" else 40):
        engine.advance()
    np.testing.assert_allclose(engine.fields[3], exact(x), atol=2e-6)
    fluxes = SideFluxes(MPI.COMM_SELF, engine.geometry, problem, [], [["x_min"]])
    flow = FlowState(engine.time, engine.u, engine.p, engine.fields[3:])
    heat = fluxes.heat(0, flow, engine.last_step())["x_min"]
    assert heat.value.sum() == pytest.approx(-0.25 * flux, abs=1e-6)
    assert heat.by_gradients.sum() == pytest.approx(-0.25 * flux, abs=1e-4)


def test_the_limit_of_explicit_diffusion() -> None:
    """The roots of the scheme lie in the unit circle for any step within FREE_RATIOS, and up to the limit outside."""

    def largest(order, ratio, size):
        b, a = np.array(BACKWARD[order - 1]), np.array((0.0, *EXTRAPOLATION[order - 1]))
        b[0] += size
        return np.abs(np.roots(b - (1 - ratio) * size * a)).max()

    for order, (low, high) in enumerate(FREE_RATIOS, start=1):
        for ratio in np.linspace(low, high, 9):
            assert diffusion_limit(order, ratio) == np.inf
            assert max(largest(order, ratio, size) for size in np.geomspace(1e-2, 1e6, 50)) <= 1 + 1e-9
        for ratio in (high + 0.05, 3.0, 20.0) + ((0.45, 0.1) if low else ()):
            limit = diffusion_limit(order, ratio)
            assert largest(order, ratio, 0.99 * limit) <= 1 + 1e-9
            assert largest(order, ratio, 1.02 * limit) > 1, (order, ratio)


TEXT = """
[run]
model = "navier_stokes"
steps = 10
[grid]
elements = [1, 2, 2]
order = 5
lengths = [1.0, 1.0, 1.0]
periodic = [true, true, true]
[model]
viscosity = 0.1
viscosity_formula = "0.1 + 0.3*scalar_0"
dt = 0.01
[[scalar]]
diffusivity = 0.1
diffusivity_formula = "0.1 - 0.02*cos(2*pi*x)"
initial = "4*x*(1 - x)"
"""


def load(folder, old="", new=""):
    assert old in TEXT
    (folder / "case.toml").write_text(TEXT.replace(old, new, 1))
    return load_case(folder / "case.toml", case_class).case


def test_check_states_the_stable_steps(tmp_path) -> None:
    def said(*change):
        remarks = estimate(load(tmp_path, *change), 1).remarks
        return [words for words in remarks if "_formula is from" in words]

    of_flow, of_scalar = said()
    assert of_flow.startswith(
        "model.viscosity_formula is from 0.1 to 0.4 in the flow of step 0, stable for time steps up to 0.00"
    )
    assert "which model.dt exceeds. Set model.dt <= 0.00" in of_flow
    assert of_flow.endswith(
        ", or model.time_order = 2 and model.viscosity = 0.4, with which all time steps are stable"
    )
    assert of_scalar == (
        "scalar.0.diffusivity_formula is from 0.08 to 0.12 in the flow of step 0, stable for time steps up to "
        + of_scalar.split("up to ")[1]
    )
    (better, _) = said("viscosity = 0.1", "time_order = 2\nviscosity = 0.4")
    assert better.endswith("stable for all time steps with the reference 0.4")


@pytest.mark.full
def test_the_limit_of_check_is_that_of_a_run() -> None:
    """Rest with noise and a viscosity of twice the reference, in a periodic box."""
    grid = ElementGrid(BoxMesh.box((1, 2, 2), (1.0, 1.0, 1.0), periodic=(True,) * 3), 5)
    fields = 1e-6 * np.random.default_rng(1).standard_normal((3, *grid.shape))
    engine = begin(grid, FlowProblem(0.1, 0.01, all_sides("periodic")), fields)
    limit = diffusion_limit(3, 2.0) / (0.1 * fastest_mode(engine.geometry))
    for factor in (0.9, 4.0):
        problem = FlowProblem(0.1, factor * limit, all_sides("periodic"), viscosity_formula=parse("0.2"))
        engine = begin(grid, problem, fields)
        if factor > 1:
            with pytest.raises(DivergedError, match="blew up"):
                advance(engine, 60)
        else:
            advance(engine, 60)
            assert np.abs(engine.u).max() < 1e-6


REFUSED = [
    ("0.3*scalar_0", "0.3*scalar_1", r"case.toml:12: .*scalar_1 is unknown \(did you mean scalar_0\?\)"),
    ("0.3*scalar_0", "0.3*scalar_0/x", "case.toml:12: .*finite and not negative everywhere.*is nan at x = 0"),
    (
        "0.3*scalar_0",
        "-0.3*scalar_0",
        "case.toml:12: .*not negative everywhere on the mesh.*is -0\\.0761135 at x",
    ),
    ("0.02*cos", "0.2*cos", "case.toml:16: .*not negative everywhere"),
    ("steps = 10", 'steps = 10\ndevice = "cuda"', "case.toml:13: .*no GPU kernels"),
    (
        "[[scalar]]",
        '[output]\nstatistics_every = 1\nstatistics_of = "budgets"\n[[scalar]]',
        "case.toml:16: .*another value with model.viscosity_formula",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), REFUSED)
def test_refused_formulas(tmp_path, old, new, words) -> None:
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, old, new)


def test_a_viscosity_that_becomes_negative_ends_the_run() -> None:
    grid = ElementGrid(BoxMesh.box((1, 1, 1), (1.0,) * 3, periodic=(True,) * 3), 5)
    x, y, _ = grid.coordinates
    start = np.stack([np.sin(2 * PI * y), 0 * x, 0 * x])
    problem = FlowProblem(0.1, 0.01, all_sides("periodic"), viscosity_formula=parse("0.1 - 400*t"))
    engine = begin(grid, replace(problem, dealias_points=9), start)
    words = r'because model.viscosity_formula = "0.1 - 400\*t" is -3.9 at x = 0, .*, t = 0.01'
    with pytest.raises(DivergedError, match=words):
        advance(engine, 400)
