"""Sources and sponges from formulas: the reference, exact flows, stability, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import all_sides, make_start, periodic_mesh, sources
from ridgeline.config.expressions import parse
from ridgeline.config.load import load_case
from ridgeline.elements.mappings import wavy
from ridgeline.elements.mesh import ElementGrid
from ridgeline.models import case_class, estimate
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import FlowProblem, HelmholtzSolver, PressureSolver
from ridgeline.models.navier_stokes.reference import ReferenceSolver
from ridgeline.models.navier_stokes.sources import Sponge, relaxation_limit, source_names
from ridgeline.models.navier_stokes.time_stepping import BACKWARD, EXTRAPOLATION
from ridgeline.runtime.errors import ConfigError, DivergedError

TIGHT = {
    "pressure": PressureSolver(tolerance=1e-12, projection=6),
    "velocity": HelmholtzSolver(tolerance=1e-13, projection=3),
}


def begin(grid, problem, fields, before=()):
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(fields, history=before)
    return engine


@pytest.mark.parametrize(
    "mapping", [None, wavy((0.0,) * 3, (1.0, 1.0, 2.0), 0.02)], ids=["straight", "curved"]
)
def test_the_engine_is_the_reference(mapping) -> None:
    grid, problem = sources(mapping, **TIGHT)
    fields = make_start(grid, problem)
    reference = ReferenceSolver(grid, problem, fields[:3], fields[3:])
    engine = begin(grid, problem, fields)
    for _ in range(4):
        reference.step()
        engine.advance()
        np.testing.assert_allclose(engine.fields, reference.fields[0], atol=1e-9)
        np.testing.assert_allclose(engine.p, reference.p, atol=1e-7)
    assert engine.memory()["sources"] == 5 * 8 * grid.n_points
    for each in ({"source": (None,) * 3}, {"sponges": problem.sponges[:1]}, {"sponges": problem.sponges[1:]}):
        without = begin(grid, replace(problem, **each), fields)
        for _ in range(4):
            without.advance()
        assert np.abs(without.fields - engine.fields).max() > 1e-3


def box(dt, **more):
    mesh = periodic_mesh((1, 2, 1), (1.0, 2 * np.pi, 1.0))
    grid = ElementGrid(mesh, 9)
    return grid, FlowProblem(0.3, dt, all_sides("periodic"), **TIGHT, **more)


def test_a_steady_force_spins_up_kolmogorovs_flow() -> None:
    """f = sin(y)/10 along x: u = f (1 - exp(-nu t))/nu, with the order of the scheme in time."""
    faults = []
    for steps in (20, 40):
        grid, problem = box(2.0 / steps, source=(parse("sin(y)/10"), None, None))
        _, y, _ = grid.coordinates

        def exact(t, y=y):
            return np.stack([np.sin(y) * (1 - np.exp(-0.3 * t)) / 3, 0 * y, 0 * y])

        engine = begin(grid, problem, exact(0.0), [exact(-problem.dt), exact(-2 * problem.dt)])
        for _ in range(steps):
            engine.advance()
        faults.append(np.abs(engine.u - exact(2.0)).max())
    assert 2.7 < np.log2(faults[0] / faults[1]) < 3.4, faults
    assert faults[1] < 1e-6


def test_a_sponge_relaxes_exponentially() -> None:
    """u' = -s (u - U): a uniform flow, and a source of it that is the same thing, to rounding."""
    grid, problem = box(0.01, sponges=(Sponge(parse("4"), tuple(map(parse, ("2", "0", "-1")))),))
    start = np.zeros((3, *grid.shape))
    texts = ("4*(2 - u)", "-4*v", "-4*(1 + w)")
    alike = replace(problem, sponges=(), source=tuple(parse(text, source_names(0)) for text in texts))
    engine, other = begin(grid, problem, start), begin(grid, alike, start)
    for _ in range(50):
        engine.advance()
        other.advance()
    np.testing.assert_allclose(engine.u, other.u, atol=1e-11)
    left = 1 - np.exp(-4 * 0.5)
    for u, target in zip(engine.u, (2.0, 0.0, -1.0)):
        np.testing.assert_allclose(u, target * left, atol=1e-3)


def test_the_limit_of_relaxation() -> None:
    """The roots of sum_j (b_j + mu a_j) z^(k - j) lie in the unit circle below the limit and leave it there."""
    for order, (b, a) in enumerate(zip(BACKWARD, EXTRAPOLATION), start=1):
        for factor, stable in ((0.05, True), (0.5, True), (0.999, True), (1.001, False)):
            mu = factor * relaxation_limit(order)
            roots = np.roots(np.array(b) + mu * np.array((0.0, *a)))
            assert (np.abs(roots).max() < 1) == stable, (order, factor)


@pytest.mark.parametrize(
    ("source", "key"),
    [((parse("sqrt(0.031 - t)"), None, None), "model.source"), ((None, None, None), "sponge.0.strength")],
)
def test_a_formula_that_loses_its_value_ends_the_run(source, key) -> None:
    sponges = (Sponge(parse("y/(0.031 - t) if t < 0.0315 else log(0 - t)"), (), ()),)
    sponges = () if key == "model.source" else (replace(sponges[0], velocity=(parse("0"),) * 3),)
    grid, problem = box(0.01, source=source, sponges=sponges)
    engine = begin(grid, problem, np.zeros((3, *grid.shape)))
    for _ in range(4):
        engine.advance()
    words = rf'step 5 failed, because {key} = ".*" is nan at x = .*, y = .*, z = .*, t = 0\.04'
    with pytest.raises(DivergedError, match=words):
        engine.advance()


TEXT = """
[run]
model = "navier_stokes"
steps = 10
[grid]
elements = [1, 2, 2]
order = 3
lengths = [1.0, 1.0, 1.0]
periodic = [true, true, true]
[model]
viscosity = 0.1
dt = 0.1
source = ["-0.5*u", "scalar_0", "0"]
[[scalar]]
diffusivity = 0.1
source = "v*t"
[[sponge]]
strength = "12*x"
velocity = ["1", "0", "0"]
scalars = ["y"]
"""


def load(folder, old="", new=""):
    assert old in TEXT
    (folder / "case.toml").write_text(TEXT.replace(old, new, 1))
    return load_case(folder / "case.toml", case_class).case


def test_check_states_the_stable_step_of_a_sponge(tmp_path) -> None:
    remarks = estimate(load(tmp_path), 1).remarks
    (said,) = [words for words in remarks if words.startswith("sponge 0")]
    assert said == (
        "sponge 0: the largest strength is 12, stable for time steps up to 0.0794, which model.dt = 0.1 exceeds. Set "
        "model.dt <= 0.0794"
    )


REFUSED = [
    (
        "-0.5*u",
        "-0.5*velocity_x",
        "case.toml:13: .*velocity_x is unknown.*names are x, y, z, t, u, v, w, scalar_0",
    ),
    (
        '"scalar_0", "0"',
        '"scalar_1", "0"',
        r"case.toml:13: .*scalar_1 is unknown \(did you mean scalar_0\?\)",
    ),
    ("v*t", "1/t", 'case.toml:16: .*"1/t" is inf at x = 0, y = 0, z = 0, t = 0'),
    ("v*t", "1/v", 'case.toml:16: .*"1/v" is inf at x = 0, y = 0, z = 0, v = 0'),
    ("12*x", "1/x", 'case.toml:18: .*"1/x" is inf at x = 0'),
    ("12*x", "12*u", "case.toml:18: .*u is unknown"),
    ('["y"]', '["y", "z"]', "case.toml:20: .*at most as many targets as .*1"),
]


@pytest.mark.parametrize(("old", "new", "words"), REFUSED)
def test_refused_formulas(tmp_path, old, new, words) -> None:
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, old, new)
