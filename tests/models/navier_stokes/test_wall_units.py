"""Distances of points in wall units: what is expected, from which setting, and its numbers."""

import math
import re
from typing import Any

import pytest
from pydantic import ValidationError

from ridgeline.models.navier_stokes.check_remarks import friction, wall_units
from ridgeline.models.navier_stokes.estimate import estimate
from ridgeline.models.navier_stokes.problem_of_case import mesh_of
from ridgeline.models.navier_stokes.settings import NavierStokesCase

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


def test_friction_of_an_expected_reynolds_number() -> None:
    assert friction(case(expected_re_tau=180.0)) == (180.0, pytest.approx(1.8))  # h = 1
    assert friction(case("yz", (3.0, 3.0, 6.0), expected_re_tau=150.0)) == (
        150.0,
        pytest.approx(1.0),
    )  # h = 1.5


def test_friction_that_balances_a_force() -> None:
    """In a channel u_tau^2 = F h; in a square duct F h/2."""
    assert friction(case(forcing=FORCED)) == (pytest.approx(50.0), pytest.approx(0.5))
    half = math.sqrt(0.25 / 2)
    assert friction(case("yz", (2.0, 2.0, 6.0), forcing=FORCED)) == (
        pytest.approx(100 * half),
        pytest.approx(half),
    )


def test_nothing_is_expected_without_walls_or_force() -> None:
    assert friction(case()) is None
    assert friction(case("", forcing=FORCED)) is None
    assert wall_units(case(), mesh_of(case())) == ()


def test_distances_in_wall_units() -> None:
    """Two elements of order 2 have their points a quarter of the length apart."""
    chosen = case(expected_re_tau=100.0, grid={"distribution": ["uniform", "geometric", "uniform"],
                                               "distribution_parameter": [1.0, 3.0, 1.0]})  # fmt: skip
    (words,) = wall_units(chosen, mesh_of(chosen))
    assert "Re_tau = 100, u_tau = 1:" in words
    assert "Delta x+ is 150 on average and at most 150" in words
    assert "Delta y+ is 25 at the wall and at most 75" in words
    assert "Delta z+ is 75 on average and at most 75" in words
    assert re.search(r"17\.7 .*1999", words)
    assert words in estimate(chosen, 1).remarks


def test_expected_reynolds_numbers_need_walls() -> None:
    for wrong in ({"walls": ""}, {"grid": {"mapping": "wavy"}}):
        with pytest.raises(ValidationError, match=r"model\.expected_re_tau must be left out unless"):
            case(expected_re_tau=100.0, **wrong)
