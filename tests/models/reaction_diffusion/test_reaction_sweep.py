"""The compiled sweep of formulas: equal to NumPy bit for bit, however the work is cut."""

import numpy as np
import pytest

from reaction_diffusion_cases import (
    BRUSSELATOR,
    EVERYTHING,
    advance,
    compare_with_reference,
    make_case,
    owned,
    start,
)
from ridgeline.blocks import sweep_choice, sweep_plan
from ridgeline.config.expressions import FUNCTIONS
from ridgeline.models.reaction_diffusion.kernels import make_rule
from ridgeline.models.reaction_diffusion.reference import ReferenceSolver
from ridgeline.parallel import autotuner

SIDES = {
    "x_min": {"kind": "no-flux"},
    "x_max": {"kind": "fixed", "values": {"A": 0.5, "B": "a/2", "C": 0.1, "W": 0}},
    "z_min": {"kind": "fixed", "values": {"A": 1.5, "B": 1, "C": 0.2, "W": 0}},
    "z_max": {"kind": "no-flux"},
    "y_min": {"kind": "flux", "values": {"A": 0.3, "B": -0.1}},
    "y_max": {"kind": "no-flux"},
}
# Values and fluxes that depend on both places on the side, on one of them, on time, and on several.
VARYING = {
    "x_min": {"kind": "flux", "values": {"A": "0.1*y*z - t", "B": "t*a", "C": "0.01*x*z + 0.02*t*y"}},
    "x_max": {"kind": "fixed", "values": {"A": "0.5 + 0.1*y*t - 0.01*z", "B": "a/2", "C": "0.1*z", "W": "t"}},
    "z_min": {"kind": "fixed", "values": {"A": "x*y*0.01*t", "B": "1 + 0.1*y", "C": "0.1*x", "W": "z"}},
    "z_max": {"kind": "flux", "values": {"A": "0.01*x*z*t"}},
    "y_min": {"kind": "fixed", "values": {"A": "z*x*0.02*t", "B": "0.1*z", "C": "0.1*x", "W": "x + y"}},
    "y_max": {"kind": "no-flux"},
}


@pytest.mark.parametrize("precision", ["float64", pytest.param("float32", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "boundary",
    [{}, pytest.param(SIDES, marks=pytest.mark.full), VARYING],
    ids=["periodic", "sides", "varying"],
)
def test_everything_that_formulas_can_say_is_what_numpy_finds(precision, boundary):
    for steps_per_sweep in (1, 3):
        sections = {"run": {"precision": precision}, "model": {"steps_per_sweep": steps_per_sweep}}
        found, expected = compare_with_reference(make_case(EVERYTHING, boundary=boundary, **sections), 10)
        for name, a, b in zip("ABCW", found, expected):
            assert a.dtype == precision
            # Only the sine of A may differ, by its last bit.
            tolerance = 0 if precision == "float64" else 2e-7
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.full
def test_formulas_of_arithmetic_have_the_bits_of_numpy_in_float32():
    for a, b in zip(*compare_with_reference(make_case(run={"precision": "float32"}, model={"dt": 0.1}), 40)):
        assert a.tobytes() == b.tobytes()


def test_the_cut_of_the_work_changes_no_bit():
    base = make_case(EVERYTHING, (5, 12, 37), boundary=VARYING)
    model = start(base)
    advance(model, 9)
    for steps in (2, 3):
        case = make_case(EVERYTHING, (5, 12, 37), boundary=VARYING, model={"steps_per_sweep": steps})
        other = start(case, threads=2)
        advance(other, 9)
        for a, b in zip(owned(model), owned(other)):
            assert a.tobytes() == b.tobytes(), steps


def test_long_runs_time_variants_and_keep_the_bits(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    case = make_case(EVERYTHING, (5, 12, 37), boundary=VARYING, model={"steps_per_sweep": "rule"})
    expected = start(case, threads=2)
    assert expected.describe()["sweep_chosen"] == "by rule"
    advance(expected, 9)
    monkeypatch.setattr(sweep_plan, "CELLS_TIMED", 0)
    monkeypatch.setattr(sweep_plan, "CELL_STEPS_TIMED", 1)
    monkeypatch.setattr(sweep_choice, "CELLS_PER_CALL", 1)
    monkeypatch.setattr(sweep_choice, "busiest_share", lambda comm, since: 0.0)
    monkeypatch.setattr(autotuner, "SECONDS", 0.0)
    sources = []
    other = ({**EVERYTHING[0], "rate": "-A*B/(2 + C)"}, *EVERYTHING[1:])
    for species in (EVERYTHING, EVERYTHING, other):
        found = start(make_case(species, (5, 12, 37), boundary=VARYING), threads=2)
        facts = found.describe()
        sources.append(facts["sweep_chosen"])
        assert {name[:6] for name in facts["trials"]["one step"]["seconds"]} == {"1 step", "2 step", "3 step"}
        if species is EVERYTHING:
            advance(found, 9)
            for a, b in zip(owned(found), owned(expected)):
                assert a.tobytes() == b.tobytes()
    assert sources == ["as timed now", "as timed in an earlier run", "as timed now"]


@pytest.mark.full
def test_planes_and_lines_make_several_steps_in_a_sweep():
    """Their one cell in z or y has no neighbours, so that ghosts bound no steps there."""
    wide = {"y_min": {"kind": "flux", "values": {"A": "0.1*x - t"}}, "y_max": {"kind": "no-flux"}}
    for shape, boundary in (((1, 12, 37), {}), ((1, 12, 37), wide), ((1, 1, 40), {})):
        case = make_case(EVERYTHING, shape, boundary=boundary, model={"steps_per_sweep": 4})
        found, expected = compare_with_reference(case, 10)
        for name, a, b in zip("ABCW", found, expected):
            np.testing.assert_array_equal(a, b, err_msg=f"{name} {shape} {boundary}")


@pytest.mark.full
def test_every_function_is_that_of_numpy_at_random_points():
    """A species for each function, whose initial state is random, and whose rate is the function of it."""
    arguments = {
        "where": "S > 0, S, -2*S",
        "arctan2": "S, 0.3",
        "minimum": "S, 0.2",
        "maximum": "S, -0.2",
        "hypot": "S, 0.5",
        "heaviside": "S, 0.5",
        "log": "abs(S)",
        "log10": "abs(S)",
        "sqrt": "abs(S)",
    }
    calls = [f"{name}({arguments.get(name, 'S')})" for name in FUNCTIONS]
    operators = [
        "S**5",
        "S % 0.3",
        "-0.5 % S",
        "abs(S)**0.5",
        "S**-1",
        "(S > 0) + (S <= 0.5 and not S < -0.5)",
    ]
    operators += ["1 if -0.1 < S < 0.1 else (2 if S or 0 else 3)", "1/3 + pi*S - e"]
    names = [f"f{n}" for n in range(len(calls + operators))]
    for first in range(0, len(names), 15):
        part = list(zip(names, calls + operators))[first : first + 15]
        species = [{"name": "S", "initial": "random"}, *({"name": n, "rate": rate} for n, rate in part)]
        case = make_case(species, (2, 3, 29), model={"dt": 1.0})
        found, expected = compare_with_reference(case, 1)
        for (_, rate), a, b in zip(part, found[1:], expected[1:]):
            np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-300, err_msg=rate)
            assert np.ptp(a) > 0 or "minimum" in rate, rate


@pytest.mark.full
def test_without_rates_the_total_is_conserved():
    for diffusivity in (0.3, "0.2 + 0.1*sin(2*pi*(x + y)/8)"):
        species = [{"name": "u", "diffusivity": diffusivity, "initial": "1 + random"}]
        case = make_case(species, (4, 8, 16), model={"dt": 0.4})
        model = start(case)
        (before,) = owned(model)
        advance(model, 50)
        (after,) = owned(model)
        assert after.sum() == pytest.approx(before.sum(), rel=1e-13)
        assert np.ptp(after) < np.ptp(before) / 2


@pytest.mark.full
def test_a_flux_adds_what_it_says_and_values_at_sides_are_met():
    sides = {"x_min": {"kind": "flux", "values": {"u": 0.25}}, "x_max": {"kind": "no-flux"}}
    species = [{"name": "u", "diffusivity": 1.5, "initial": "x"}]
    case = make_case(species, (1, 2, 12), grid={"cell_size": 0.5}, model={"dt": 0.02}, boundary=sides)
    model = start(case)
    (before,) = owned(model)
    advance(model, 100)
    (after,) = owned(model)
    area, volume = 2 * 0.5 * 0.5, 0.5**3
    assert (after.sum() - before.sum()) * volume == pytest.approx(0.25 * area * 100 * 0.02, rel=1e-12)
    # Between fixed values the steady state is a straight line through them.
    ends = {"x_min": {"kind": "fixed", "values": {"u": 1}}, "x_max": {"kind": "fixed", "values": {"u": 4}}}
    model = start(make_case(species, (1, 2, 12), grid={"cell_size": 0.5}, model={"dt": 0.02}, boundary=ends))
    advance(model, 6000)
    x = (np.arange(12) + 0.5) * 0.5
    np.testing.assert_allclose(owned(model)[0][0, 0], 1 + 3 * x / 6, rtol=1e-10)


def error_of_a_manufactured_solution(n):
    """Return the largest error at t = 0.5 for u = cos(x + t) sin(2 y) + 2, with values or fluxes at all sides."""
    u, d = "cos(x + t)*sin(2*y) + 2", "(0.2 + 0.1*x)"
    slope_x, slope_y = "-sin(x + t)*sin(2*y)", "2*cos(x + t)*cos(2*y)"
    # u' - d/dx (D du/dx) - D d2u/dy2, with D = 0.2 + 0.1 x.
    rate = f"{slope_x} - 0.1*({slope_x}) + 5*{d}*(u - 2) + (u - ({u}))"
    boundary = {
        "x_min": {"kind": "fixed", "values": {"u": u}},
        "x_max": {"kind": "flux", "values": {"u": f"{d}*({slope_x})"}},
        "y_min": {"kind": "flux", "values": {"u": f"-{d}*{slope_y}"}},
        "y_max": {"kind": "fixed", "values": {"u": u}},
    }
    species = [{"name": "u", "diffusivity": d, "rate": rate, "initial": u.replace(" + t", "")}]
    dt = 0.25 / n**2
    case = make_case(
        species,
        (1, n, n),
        grid={"lengths": [1.0, 1.0, 1.5]},
        model={"dt": dt, "scheme": "rk2"},
        boundary=boundary,
    )
    model = start(case)
    advance(model, round(0.5 / dt))
    x, y = (np.arange(n) + 0.5) * 1.5 / n, (np.arange(n)[:, np.newaxis] + 0.5) / n
    return np.abs(owned(model)[0][0] - (np.cos(x + model.time(0)) * np.sin(2 * y) + 2)).max()


@pytest.mark.full
def test_values_and_fluxes_of_place_and_time_are_of_second_order():
    """u' = div(D grad u) + f with a solution that is known, and with what it has at the sides."""
    coarse, fine = (error_of_a_manufactured_solution(n) for n in (16, 32))
    assert fine < 2e-3
    assert np.log2(coarse / fine) > 1.8


@pytest.mark.full
def test_a_cell_of_other_widths_and_diffusivities_spreads_as_its_eigenvalue():
    """A product of waves is multiplied by 1 - dt sum of 4 D/h^2 sin^2(angle/2)."""
    shape, h, d = (6, 8, 10), (0.5, 0.25, 1.0), (0.1, 0.02, 0.7)
    lengths = [n * width for n, width in zip(shape, h)]
    wave = "*".join(f"cos(2*pi*{axis}/{length})" for axis, length in zip("zyx", lengths))
    species = [{"name": "u", "diffusivity": [d[2], d[1], d[0]], "initial": wave}]
    model = start(make_case(species, shape, grid={"lengths": lengths}, model={"dt": 0.05}))
    (before,) = owned(model)
    advance(model, 20)
    rate = sum(4 * c / w**2 * np.sin(np.pi / n) ** 2 for c, w, n in zip(d, h, shape))
    np.testing.assert_allclose(owned(model)[0], before * (1 - 0.05 * rate) ** 20, atol=1e-13)


@pytest.mark.full
def test_parameters_are_not_in_the_code():
    """A sweep over parameters compiles once."""
    first, second = (start(make_case(model={"parameters": {"a": a, "b": 3.0}})) for a in (1.0, 1.5))
    assert first._engine._sweeps == second._engine._sweeps
    assert make_rule.cache_info().hits > 0
    other = make_case([{**BRUSSELATOR[0], "rate": "a - (b + 1)*X + X**2*Y + 0"}, BRUSSELATOR[1]])
    assert start(other)._engine._sweeps != first._engine._sweeps


def test_the_reference_sees_a_wrong_neighbour():
    case = make_case(run={"precision": "float32"})
    model = start(case)
    reference = ReferenceSolver(case, owned(model))
    reference.fields[0][2, 3, 4] *= 1.001
    advance(model, 1)
    reference.advance(1)
    assert np.count_nonzero(owned(model)[0] != reference.fields[0]) == 7
