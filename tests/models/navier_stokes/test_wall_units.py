"""Distances of points in wall units: what is expected, from which setting, its numbers, and the rules they meet."""

import math
import re
from typing import Any

import pytest
from pydantic import ValidationError

from ridgeline.models.navier_stokes.estimate import estimate
from ridgeline.models.navier_stokes.problem_of_case import mesh_of
from ridgeline.models.navier_stokes.settings import NavierStokesCase
from ridgeline.models.navier_stokes.wall_resolution import friction, smooth_friction, wall_units

FORCED = {"kind": "force", "value": [0.25, 0.0, 0.0]}


def case(walls: str = "y", lengths: Any = (3.0, 2.0, 6.0), grid: Any = None, **model: Any) -> Any:
    return NavierStokesCase.model_validate(
        {
            "run": {"model": "navier_stokes", "steps": 1},
            "grid": {
                "elements": [2, 2, 2], "order": 2, "lengths": lengths,
                "periodic": [axis not in walls for axis in "zyx"], **(grid or {}),
            },
            "model": {"viscosity": 0.01, "dt": 0.01, **model},
            "boundary": {f"{axis}_{end}": {"kind": "wall"} for axis in walls for end in ("min", "max")},
        }
    )  # fmt: skip


def expected(*arguments: Any, **model: Any) -> tuple[float, float]:
    found = friction(case(*arguments, **model))
    assert found is not None
    return found.re_tau, found.speed


def test_friction_of_an_expected_reynolds_number() -> None:
    assert expected(expected_re_tau=180.0) == (180.0, pytest.approx(1.8))  # h = 1
    assert expected("yz", (3.0, 3.0, 6.0), expected_re_tau=150.0) == (150.0, pytest.approx(1.0))  # h = 1.5


def test_friction_that_balances_a_force() -> None:
    """In a channel u_tau^2 = F h; in a square duct F h/2."""
    assert expected(forcing=FORCED) == (pytest.approx(50.0), pytest.approx(0.5))
    half = math.sqrt(0.25 / 2)
    assert expected("yz", (2.0, 2.0, 6.0), forcing=FORCED) == (pytest.approx(100 * half), pytest.approx(half))


def test_friction_of_a_flow_rate() -> None:
    """Published Re_tau of simulations: within 4 % of the correlation, in channels, half channels and square ducts."""
    assert smooth_friction(1e5) == pytest.approx(0.01799, abs=1e-5)  # Prandtl's law, as tabulated
    rate = {"kind": "flow-rate", "direction": "x", "bulk_velocity": -1.0}
    for walls, lengths, reynolds, published in (
        ("y", (3.0, 2.0, 6.0), 2800, 178.1),  # Moser, Kim and Mansour 1999, u_b h/nu
        ("y", (3.0, 2.0, 6.0), 43_650, 2003.0),  # Hoyas and Jimenez 2006
        ("yz", (2.0, 2.0, 6.0), 2205, 150.0),  # Gavrilakis 1992
        ("yz", (2.0, 2.0, 6.0), 20_000, 1055.0),  # Pirozzoli, Modesti, Orlandi and Grasso 2018
    ):
        re_tau, speed = expected(walls, lengths, viscosity=1 / reynolds, forcing=rate)
        assert re_tau == pytest.approx(published, rel=0.04), published
        assert re_tau == pytest.approx(speed * reynolds), published
    # Of a duct twice as wide: Jones' factor is near 64/(f Re) of laminar flow, 62.19 by Shah and London 1978.
    re_tau, speed = expected("yz", (4.0, 2.0, 6.0), viscosity=1e-4, forcing=rate)
    diameter = 4 * 8 / 12
    assert 8 * speed**2 == pytest.approx(smooth_friction(64 / 62.19 * diameter / 1e-4), rel=0.01)
    half = case("y", (3.0, 1.0, 6.0), viscosity=1 / 2800, forcing=rate).model_dump()
    half["boundary"]["y_max"] = {"kind": "symmetry"}
    whole = expected("y", (3.0, 2.0, 6.0), viscosity=1 / 2800, forcing=rate)
    assert friction(NavierStokesCase.model_validate(half))[:2] == pytest.approx(whole)
    assert friction(case(viscosity=1 / 500, forcing=rate)) is None  # laminar


def test_nothing_is_expected_without_walls_or_force() -> None:
    assert friction(case()) is None
    assert friction(case("", forcing=FORCED)) is None
    assert wall_units(case(), mesh_of(case())) == ()


def test_distances_in_wall_units() -> None:
    """Two elements of order 2 have their points a quarter of the length apart."""
    chosen = case(expected_re_tau=100.0, grid={"distribution": ["uniform", "geometric", "uniform"],
                                               "distribution_parameter": [1.0, 3.0, 1.0]})  # fmt: skip
    words, *rules = wall_units(chosen, mesh_of(chosen))
    assert "Re_tau = 100, u_tau = 1 (from model.expected_re_tau):" in words
    assert "Delta x+ is 150 on average and at most 150" in words
    assert "Delta y+ is 25 at the wall and at most 75" in words
    assert "Delta z+ is 75 on average and at most 75" in words
    assert re.search(r"17\.7 .*1999", words)
    assert len(rules) == 4
    assert {words, *rules} <= set(estimate(chosen, 1).remarks)


def test_the_rules_of_the_paper_on_its_own_meshes() -> None:
    """Hadri et al., Sec. 2.2 and Table 1. What misses a limit is the mesh of order 15, by a few per cent at walls."""
    judged = {15: [(1.03, "not met"), (6.42, "not met"), (4.38, "met"), (9.5, "met")],
              31: [(0.773, "met"), (5.92, "met"), (4.03, "met"), (9.35, "met")]}  # fmt: skip
    for order, elements, alpha in ((15, [128, 128, 1024], 0.22), (31, [64, 64, 512], 0.36)):
        grid = {"elements": elements, "order": order, "distribution": ["offset-sine", "offset-sine", "uniform"],
                "distribution_parameter": [alpha, alpha, 1.0]}  # fmt: skip
        rate = {"kind": "flow-rate", "direction": "x", "bulk_velocity": 1.0}
        paper = case("yz", (2.0, 2.0, 48.0), grid, viscosity=2e-5, expected_re_tau=2000.0, forcing=rate)
        _, *rules = wall_units(paper, mesh_of(paper))
        found = [re.search(r" is ([\d.]+) wall units .* and is (met|not met)$", rule) for rule in rules]
        assert [(float(m[1]), m[2]) for m in found if m] == judged[order], rules


def test_a_rule_takes_the_worse_wall_and_the_direction_of_the_flow() -> None:
    """A channel along z whose points are closer at y_min than at y_max."""
    grid = {"elements": [2, 4, 2], "order": 4, "distribution": ["uniform", "geometric", "uniform"],
            "distribution_parameter": [1.0, 1.5, 1.0]}  # fmt: skip
    forcing = {"kind": "force", "value": [0.0, 0.0, -0.25]}
    chosen = case(
        "y", (40.0, 2.0, 6.0), grid, viscosity=0.5, forcing=forcing
    )  # u_tau = 0.5: a wall unit is 1
    _, *rules = wall_units(chosen, mesh_of(chosen))
    last = 2.0 * 1.5**3 / (1 + 1.5 + 1.5**2 + 1.5**3)  # length of the element at y_max
    fourth, largest = last * (1 + math.sqrt(3 / 7)) / 2, last * math.sqrt(3 / 7) / 2
    assert f"is {fourth:.3g} wall units away" in rules[0]
    assert f"across the flow is {3 * math.sqrt(3 / 7) / 2:.3g} " in rules[2]
    assert largest < 3 * math.sqrt(3 / 7) / 2
    assert f"along the flow is {20 * math.sqrt(3 / 7) / 2:.3g} " in rules[3]


def test_expected_reynolds_numbers_need_walls() -> None:
    for wrong in ({"walls": ""}, {"grid": {"mapping": "wavy"}}):
        with pytest.raises(ValidationError, match=r"model\.expected_re_tau must be left out unless"):
            case(expected_re_tau=100.0, **wrong)
