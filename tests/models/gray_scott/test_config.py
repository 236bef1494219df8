"""The stability limit against the formula itself, and what makes two runs the same."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.models.gray_scott.config import GrayScottCase, ModelSection, round_down, stability_limits
from ridgeline.models.gray_scott.physics import coefficients, point_update

SMALLEST: dict[str, Any] = {"run": {"model": "gray_scott", "steps": 10}, "grid": {"shape": [16, 16, 16]}}
RATES = [(0.2, 0.1, 0.02, 0.048), (0.05, 0.3, 0.03, 0.06), (0.3, 0.3, 0.0, 0.0), (0.0, 0.5, 0.1, 0.1)]


def case(**sections: Any) -> GrayScottCase:
    return GrayScottCase.model_validate({**SMALLEST, **sections})


def neighbours(a: NDArray[np.float64]) -> NDArray[np.float64]:
    return sum((np.roll(a, shift, axis) for axis in range(3) for shift in (-1, 1)), np.zeros_like(a))


def growth(dt: float, rates: tuple[float, float, float, float], species: int) -> float:
    """Return the factor by which 60 steps multiply a small checkerboard of U (0) or V (1) on the rest state."""
    sign = (-1.0) ** np.indices((4, 4, 4)).sum(axis=0)
    start = 1e-9
    u = 1.0 + start * sign * (species == 0)
    v = start * sign * (species == 1)
    c = coefficients(*rates, noise=0.0, dt=dt)
    update = point_update(lambda a, b, c: a * b + c)
    for _ in range(60):
        u, v = update(u, v, neighbours(u), neighbours(v), None, c)
    return float(np.max(np.abs(u - 1.0 if species == 0 else v))) / start


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("species", [0, 1])
def test_checkerboard_grows_just_above_the_limit_and_not_below(
    rates: tuple[float, float, float, float], species: int
) -> None:
    limit = stability_limits(*rates)[species]
    if math.isinf(limit):
        pytest.fail("choose rates that limit both")
    assert growth(0.99 * limit, rates, species) < 0.5
    assert growth(1.01 * limit, rates, species) > 2.0


@pytest.mark.parametrize("rates", RATES)
def test_largest_printed_time_step_is_allowed_and_a_larger_one_is_not(rates: tuple[float, ...]) -> None:
    values = dict(zip(("Du", "Dv", "F", "k"), rates))
    limit = min(stability_limits(*rates))
    ModelSection.model_validate({**values, "dt": round_down(limit)})
    ModelSection.model_validate({**values, "dt": limit})
    with pytest.raises(ValueError, match=r"the linear stability limit 2/"):
        ModelSection.model_validate({**values, "dt": limit * (1 + 1e-12)})


def test_nothing_limits_a_model_without_rates() -> None:
    assert stability_limits(0.0, 0.0, 0.0, 0.0) == (math.inf, math.inf)
    assert ModelSection(Du=0, Dv=0, F=0, k=0, dt=1e6).dt == 1e6


@pytest.mark.parametrize(
    ("value", "rounded"), [(4.76190476, 4.761), (2.0, 2.0), (0.0123456, 0.01234), (1999.99, 1999)]
)
def test_round_down(value: float, rounded: float) -> None:
    assert round_down(value) == rounded


@pytest.mark.parametrize("shape", [[1, 1, 1], [8, 8, 8], [5, 40, 3]])
def test_grids_smaller_than_the_box_are_legal(shape: list[int]) -> None:
    assert case(grid={"shape": shape}).initial.half_width == 6


CHANGES: dict[str, Any] = {
    "run.steps": 99,
    "run.precision": "float32",
    "run.seed": 7,
    "run.threads": 2,
    "run.device": "cuda",
    "run.walltime": 60,
    "run.check_every": 1,
    "grid.shape": [16, 16, 17],
    "grid.boundary": "fixed",
    "grid.process_grid": [1, 1, 1],
    "output.path": "x.bp",
    "output.every": 1,
    "output.initial": True,
    "output.variables": ["U"],
    "output.compression": "blosc",
    "output.series": "figures.csv",
    "output.series_every": 5,
    "checkpoint.path": "x",
    "checkpoint.every": 1,
    "checkpoint.keep": 1,
    "checkpoint.ranks_per_file": 1,
    "checkpoint.writers_at_once": 1,
    "model.Du": 0.21,
    "model.Dv": 0.11,
    "model.F": 0.03,
    "model.k": 0.05,
    "model.noise": 0.0,
    "model.dt": 0.5,
    "model.steps_per_sweep": 1,
    "initial.kind": "uniform",
    "initial.half_width": 5,
    "initial.u": 0.5,
    "initial.v": 0.25,
}
SAME_PHYSICS = {
    "run.steps", "run.threads", "run.device", "run.walltime", "run.check_every", "grid.process_grid",
    "output.path", "output.every", "output.initial", "output.variables", "output.compression",
    "output.series", "output.series_every",
    "checkpoint.path", "checkpoint.every", "checkpoint.keep", "checkpoint.ranks_per_file",
    "checkpoint.writers_at_once", "model.steps_per_sweep",
}  # fmt: skip


@pytest.mark.parametrize("key", CHANGES)
def test_identity_holds_what_decides_the_numbers_and_nothing_else(key: str) -> None:
    section, name = key.split(".")
    changed = case(**{section: {**SMALLEST.get(section, {}), name: CHANGES[key]}})
    assert changed.flatten()[key] != case().flatten()[key]
    assert (changed.identity() == case().identity()) == (key in SAME_PHYSICS)


def test_every_setting_is_in_the_table_of_changes() -> None:
    assert set(CHANGES) | {"run.model"} == set(case().flatten())


def test_direct_construction_tells_the_broken_rule() -> None:
    with pytest.raises(ValueError, match=r"dt: need dt <= 4\.761"):
        case(model={"dt": 5})
