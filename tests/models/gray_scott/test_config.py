"""The stability limit against the formula itself, and what makes two runs the same."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.jit.random import GENERATORS
from ridgeline.models.gray_scott.estimate import (
    BYTES_TIMED,
    estimate,
    ghost_width,
    launch_is_timed,
    steps_per_sweep,
)
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.models.gray_scott.reference import advance
from ridgeline.models.gray_scott.settings import (
    NEWEST,
    OLDEST,
    GrayScottCase,
    largest_eigenvalue,
    round_down,
    stability_limits,
)
from ridgeline.runtime.errors import ConfigError

SMALLEST: dict[str, Any] = {"run": {"model": "gray_scott", "steps": 10}, "grid": {"shape": [16, 16, 16]}}
RATES = [(0.2, 0.1, 0.02, 0.048), (0.05, 0.3, 0.03, 0.06), (0.3, 0.3, 0.0, 0.0), (0.0, 0.5, 0.1, 0.1)]


def case(**sections: Any) -> GrayScottCase:
    return GrayScottCase.model_validate({**SMALLEST, **sections})


# Many cells, odd ones, few, and directions of one cell, which hold no wave unless ghost cells are fixed beside it.
GRIDS = [
    (4, 4, 4),
    (5, 7, 3),
    (1, 16, 16),
    (16, 1, 9),
    (8, 16, 1),
    (1, 1, 12),
    (2, 1, 2),
    (2, 2, 2),
    (1, 2, 1),
]


def highest_wave(n: int, periodic: bool) -> NDArray[np.float64]:
    """Return the wave of n cells that the Laplacian multiplies most."""
    i = np.arange(n)
    if not periodic:
        return np.sin(np.pi * n / (n + 1) * (i + 1))
    return np.cos(np.pi * (1.0 if n % 2 == 0 else 1.0 - 1.0 / n) * i)


def growth(
    dt: float, rates: tuple[float, ...], species: int, shape: tuple[int, int, int], periodic: bool
) -> float:
    """Return the factor by which 60 steps multiply the highest mode of U (0) or V (1) on the rest state."""
    z, y, x = (highest_wave(n, periodic) for n in shape)
    mode = 1e-9 * z[:, None, None] * y[:, None] * x
    u, v = 1.0 + mode * (species == 0), mode * (species == 1)
    boundary = "periodic" if periodic else "fixed"
    after = advance(u, v, coefficients(*rates, noise=0.0, dt=dt), 60, boundary)
    left = after[0] - 1.0 if species == 0 else after[1]
    return float(np.max(np.abs(left)) / np.max(np.abs(mode)))


def test_highest_mode_grows_just_above_the_limit_and_not_below() -> None:
    for boundary, shape, species in product(["periodic", "fixed"], GRIDS, [0, 1]):
        label = f"{boundary=}, {shape=}, {species=}"
        periodic = boundary == "periodic"
        for rates in RATES:
            limit = stability_limits(*rates, largest_eigenvalue(shape, periodic))[species]
            assert growth(0.99 * limit, rates, species, shape, periodic) < 0.5, f"{label}, {rates=}"
            assert growth(1.01 * limit, rates, species, shape, periodic) > 2.0, f"{label}, {rates=}"


def check_largest_time_step(shape: tuple[int, int, int], boundary: str, rates: tuple[float, ...]) -> None:
    model = dict(zip(("Du", "Dv", "F", "k"), rates))
    limit = min(stability_limits(*rates, largest_eigenvalue(shape, boundary == "periodic")))
    grid = {"shape": shape, "boundary": boundary}
    case(grid=grid, model={**model, "dt": round_down(limit)})
    case(grid=grid, model={**model, "dt": limit})
    with pytest.raises(ValueError, match=r"the linear stability limit 2/"):
        case(grid=grid, model={**model, "dt": limit * (1 + 1e-12)})


def test_largest_printed_time_step_is_allowed_and_a_larger_one_is_not() -> None:
    for shape, boundary, rates in product(GRIDS, ["periodic", "fixed"], RATES):
        check_largest_time_step(shape, boundary, rates)


def test_nothing_limits_a_model_without_rates() -> None:
    assert stability_limits(0.0, 0.0, 0.0, 0.0, 2.0) == (math.inf, math.inf)
    assert case(model={"Du": 0, "Dv": 0, "F": 0, "k": 0, "dt": 1e6}).model.dt == 1e6


def test_pearsons_run_on_a_plane_is_allowed_and_makes_a_pattern() -> None:
    # Science 261 (1993) 189: D_u = 2e-5, D_v = 1e-5 on 256^2 points of a box of 2.5, dt = 1; F and k of his pattern
    # kappa. The plane is cut smaller here, with cells of the same width.
    width = 2.5 / 256
    model = {
        "Du": 6 * 2e-5 / width**2,
        "Dv": 6 * 1e-5 / width**2,
        "F": 0.05,
        "k": 0.063,
        "noise": 0.0,
        "dt": 1.0,
    }
    assert model["Du"] == pytest.approx(1.258, abs=1e-3)
    settings = case(grid={"shape": [1, 256, 256]}, model=model).model
    with pytest.raises(ValueError, match=r"at most 0\.779"):
        case(grid={"shape": [256, 256, 256]}, model=model)
    u, v = np.ones((1, 48, 48)), np.zeros((1, 48, 48))
    u[:, 18:30, 18:30], v[:, 18:30, 18:30] = 0.5, 0.25
    c = coefficients(settings.Du, settings.Dv, settings.F, settings.k, 0.0, settings.dt)
    u, v = advance(u, v, c, 2000)
    assert np.isfinite(u).all()
    assert 0.1 < v.max() < 0.6
    assert v.std() > 0.02


def test_round_down() -> None:
    for value, rounded in ((4.76190476, 4.761), (2.0, 2.0), (0.0123456, 0.01234), (1999.99, 1999)):
        assert round_down(value) == rounded, f"{value=}"


def test_grids_smaller_than_the_box_are_legal() -> None:
    for shape in ([1, 1, 1], [8, 8, 8], [5, 40, 3]):
        assert case(grid={"shape": shape}).initial.half_width == 6, f"{shape=}"


CHANGES: dict[str, Any] = {
    "run.end_time": 3.0,
    "checkpoint.at_end": False,
    "checkpoint.every_time": 2.0,
    "checkpoint.every_wall": 60.0,
    "output.align": False,
    "output.every_time": 2.0,
    "output.every_wall": 60.0,
    "output.series_every_time": 2.0,
    "output.series_every_wall": 60.0,
    "run.steady_tolerance": 1e-3,
    "run.steps": 99,
    "run.precision": "float32",
    "run.seed": 7,
    "run.threads": 2,
    "run.device": "cuda",
    "run.walltime": 60,
    "run.check_every": 1,
    "run.check_memory": False,
    "grid.shape": [16, 16, 17],
    "grid.boundary": "fixed",
    "grid.process_grid": [1, 1, 1],
    "grid.cell_size": 2.0,
    "output.path": "x.bp",
    "output.every": 1,
    "output.initial": True,
    "output.variables": ["U"],
    "output.compression": "blosc",
    "output.viewer": "pvd",
    "output.format": "zarr",
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
    "model.random_numbers": "philox4x32-10",
    "model.dt": 0.5,
    "model.steps_per_sweep": 1,
    "initial.kind": "uniform",
    "initial.half_width": 5,
    "initial.u": 0.5,
    "initial.v": 0.25,
    "initial.noise": 0.5,
    "initial.count": 3,
    "initial.formula_u": "x",
    "initial.formula_v": "x",
    "initial.path": "x.png",
    "initial.step": 4,
}
SAME_PHYSICS = {
    "run.end_time", "run.stop_when", "run.steady_tolerance", "checkpoint.at_end", "checkpoint.every_time",
    "checkpoint.every_wall", "output.align", "output.every_time", "output.every_wall", "output.series_every_time",
    "output.series_every_wall",
    "run.steps", "run.threads", "run.device", "run.walltime", "run.check_every", "run.check_memory",
    "grid.process_grid",
    "output.path", "output.every", "output.initial", "output.variables", "output.compression",
    "output.viewer",
    "output.format",
    "output.series", "output.series_every",
    "checkpoint.path", "checkpoint.every", "checkpoint.keep", "checkpoint.ranks_per_file",
    "checkpoint.writers_at_once", "model.steps_per_sweep",
}  # fmt: skip


def test_identity_holds_what_decides_the_numbers_and_nothing_else() -> None:
    for key in CHANGES:
        section, name = key.split(".")
        changed = case(**{section: {**SMALLEST.get(section, {}), name: CHANGES[key]}})
        assert changed.flatten()[key] != case().flatten()[key], f"{key=}"
        assert (changed.identity() == case().identity()) == (key in SAME_PHYSICS), f"{key=}"


def test_checkpoints_from_before_a_setting_came_go_on() -> None:
    plain = case()
    going_on = plain.settled({})
    assert plain.LATER.items() <= going_on.flatten().items(), (
        "a default has changed, and older checkpoints mean another"
    )
    assert not plain.LATER.keys() & going_on.identity().keys()
    assert case(initial={"noise": 0.01}).identity()["initial.noise"] == 0.01


def test_random_numbers_are_those_of_the_checkpoint_or_the_newest() -> None:
    key = "model.random_numbers"
    assert tuple(GENERATORS) == (NEWEST, OLDEST)
    assert case().settled().flatten()[key] == NEWEST
    assert case().settled({key: NEWEST}).identity()[key] == NEWEST
    assert case().settled({key: "of a later version"}).identity()[key] == NEWEST  # which is then refused
    for chosen in GENERATORS:
        assert case(model={"random_numbers": chosen}).settled({}).flatten()[key] == chosen


def test_every_setting_is_in_the_table_of_changes() -> None:
    quiet, steady = (
        case(model={"noise": 0}, run={**ON_CPU, **more}) for more in ({}, {"stop_when": "steady"})
    )
    assert quiet.identity() == steady.identity()
    assert set(CHANGES) | {"run.model", "run.stop_when", "output.part", "callback", "recorder"} == set(
        case().flatten()
    )


def test_direct_construction_tells_the_broken_rule() -> None:
    with pytest.raises(ValueError, match=r"dt must be at most 4\.761"):
        case(model={"dt": 5})


ON_CPU = {"model": "gray_scott", "steps": 9}
ON_GPU = {"run": {"model": "gray_scott", "steps": 9, "device": "cuda"}}


def gpu_case(of_launch: int | str, shape: Sequence[int] = (8, 9, 10), **run: Any) -> GrayScottCase:
    """A case on GPUs with so many steps a launch."""
    settings = {"model": {"steps_per_sweep": of_launch}, "grid": {"shape": shape}}
    return case(run={**ON_GPU["run"], **run}, **settings)


def test_two_steps_a_launch_have_wider_ghosts_only_where_ranks_are_several() -> None:
    for n_ranks, grid, ghost in [(1, (1, 1, 1), 1), (2, (2, 1, 1), 2)]:
        assert ghost_width(gpu_case(1), grid) == 1
        assert ghost_width(gpu_case(2), grid) == ghost
        assert steps_per_sweep(gpu_case(2), grid) == 2
        fields = [estimate(gpu_case(steps), n_ranks).device_memory["fields"] for steps in (1, 2)]
        assert (fields[1] > fields[0]) == (n_ranks > 1)
    assert estimate(gpu_case("auto"), 2) == estimate(gpu_case(1), 2)


def test_two_steps_a_launch_send_edges_in_half_as_many_exchanges() -> None:
    """By hand, of two ranks in z: each sends so many edges along x and as many along y, if these directions wrap."""
    for boundary, edges in (("periodic", 4), ("fixed", 0)):
        grid = {"shape": [10, 9, 8], "boundary": boundary}
        one, two = (estimate(case(**ON_GPU, grid=grid, model={"steps_per_sweep": n}), 2).work for n in (1, 2))
        assert two.bytes_exchanged == one.bytes_exchanged + 2 * edges * (9 + 8) * 2 * 8 / 2, f"{boundary=}"
        assert two.messages == (one.messages + 2 * 2 * edges) / 2, f"{boundary=}"


def test_blocks_thinner_than_two_steps_are_refused_where_they_are_cut() -> None:
    with pytest.raises(
        ConfigError,
        match=r'steps_per_sweep = 2 .* must be "auto", "rule" or 1 .* the 3 cells in z into blocks of 1 cell',
    ):
        estimate(gpu_case(2, (3, 1, 1)), 2)
    assert estimate(gpu_case(2, (4, 1, 1)), 2).block == (2, 1, 1)
    assert estimate(gpu_case("auto", (3, 1, 1)), 2).block == (2, 1, 1)


def test_launches_of_long_runs_are_timed_by_what_each_gpu_moves() -> None:
    shape, grid = (100, 100, 100), (2, 1, 1)
    enough = math.ceil(BYTES_TIMED * 2 / 32e6)
    assert launch_is_timed(gpu_case("auto", shape, steps=enough), grid)
    assert ghost_width(gpu_case("auto", shape, steps=enough), grid) == 2
    assert not launch_is_timed(gpu_case("auto", shape, steps=enough - 1), grid)
    assert not launch_is_timed(gpu_case("rule", shape, steps=enough), grid)
    assert not launch_is_timed(gpu_case("auto", (3, 10**3, 10**3), steps=enough), grid), "too thin"


def test_what_textbooks_would_not_expect_is_said() -> None:
    textbook = {"Du": 0.16, "Dv": 0.08, "F": 0.035, "k": 0.065}
    said = [*case(model=textbook).remarks()]
    assert said[0].startswith(
        "diffusivities: 0.02667 and 0.01333 cells^2/time, which are model.Du/6 and model.Dv/6"
    )
    assert said[1].startswith("noise: model.noise has its default, 0.1, which")
    assert said[2].startswith("front: the width sqrt(D/(F + k)) with the diffusivity D of V is 0.37 cells")
    usual = case(grid={"shape": [1, 16, 16], "cell_size": 1.0}, model=textbook | {"noise": 0.1})
    assert [text.split(":")[0] for text in usual.remarks()] == ["front"]
    fine = case(grid={"shape": [1, 16, 16], "cell_size": 0.4}, model=textbook | {"dt": 0.1, "noise": 0.0})
    assert not [*fine.remarks()]
