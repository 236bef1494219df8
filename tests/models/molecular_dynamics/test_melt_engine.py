"""Errors of the engine and of its settings, and its two ways to sum forces."""

import numpy as np
import pytest
from mpi4py import MPI
from pydantic import ValidationError

from ridgeline.models import case_class, create, estimate
from ridgeline.models.molecular_dynamics.kernels import quantum_of
from ridgeline.models.molecular_dynamics.kernels_pairs import CLOSEST, FORCE_BITS, FORCE_UNIT
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import DecompositionError, ParticleError


def case_of(**sections):
    document = {"grid": {"cells": [3, 3, 3]}, **sections}
    document["run"] = {"model": "molecular_dynamics", "steps": 10, **sections.get("run", {})}
    return case_class("molecular_dynamics").model_validate(document)


def started(case):
    model = create("molecular_dynamics")
    model.setup(case, Context(MPI.COMM_SELF))
    model.compile()
    model.initialize()
    return model


def forces(model) -> np.ndarray:
    (array,) = model.outputs(["force"]).values()
    return array.local.T


@pytest.mark.full
def test_full_and_half_lists_give_forces_with_the_same_bits() -> None:
    """A box of 3 cells is shorter than twice the reach: an atom meets several images of another."""
    full, half = (started(case_of(neighbour={"newton": newton})) for newton in (False, True))
    for _ in range(7):
        full.step(1), half.step(1)
    assert np.abs(forces(full)).max() > 10
    np.testing.assert_array_equal(forces(half), forces(full))
    assert half.series()["E_pair"] == pytest.approx(full.series()["E_pair"], rel=1e-12)
    total = full._engine.forces[: full._engine.particles.n, :3].sum(0)
    assert not total.any(), "integer forces of all atoms add up to exactly nothing"


def test_lists_that_are_kept_while_atoms_stay_near_miss_no_pair() -> None:
    box = {"cells": [4, 4, 4]}
    kept, anew = (
        started(case_of(grid=box, neighbour={"every": 1, "check": check})) for check in (True, False)
    )
    rebuilt = 0
    for step in range(40):
        held = kept._engine.particles["held"].copy()
        kept.step(1), anew.step(1)
        rebuilt += not np.array_equal(held, kept._engine.particles["held"])
        # A pair at the cut-off that is missed changes a force by 0.04.
        np.testing.assert_allclose(forces(kept), forces(anew), rtol=0, atol=1e-9, err_msg=f"step {step + 1}")
    assert 1 < rebuilt < 20


def test_mixed_precision_gives_forces_to_float32() -> None:
    box = {"cells": [4, 4, 5]}
    double, mixed = (started(case_of(run={"precision": p}, grid=box)) for p in ("float64", "float32"))
    for model in (double, mixed):
        for _ in range(25):
            model.step(1)
    wanted = forces(double)
    assert 1e-9 < np.abs(forces(mixed) - wanted).max() < 3e-6 * np.abs(wanted).max()
    assert mixed.series() == pytest.approx(double.series(), rel=1e-5)
    total = mixed._engine.forces[: mixed._engine.particles.n, :3].sum(0)
    assert not total.any()


def test_the_quantum_of_positions_is_below_rounding_of_lengths() -> None:
    for extent in (7.0, 39.2, 1000.0):
        quantum = quantum_of(extent)
        assert np.log2(quantum).is_integer()
        assert quantum <= 8 * np.spacing(extent)
        assert extent / quantum < 2**52, "differences and shifts stay exact"


def test_the_largest_force_fits_its_integers() -> None:
    largest = 48 * CLOSEST**-13 - 24 * CLOSEST**-7
    assert 0.8 * 2.0 ** (51 - FORCE_BITS) < largest < 2.0 ** (51 - FORCE_BITS)
    assert FORCE_UNIT == 2.0**-FORCE_BITS


def test_atoms_that_overlap_are_named_with_place_and_step() -> None:
    model = started(case_of())
    particles = model._engine.particles
    one, other = (int(np.flatnonzero(particles.identity == i)[0]) for i in (0, 1))
    apart = particles.position[:, other] - particles.position[:, one]
    particles["velocity"][:, one] = 0.6 * apart / model._case.model.dt
    with pytest.raises(
        ParticleError, match=r"atoms \d+ and \d+ overlap in step 1\. .* apart at x = .*model\.dt"
    ):
        model.step(1)


def test_an_atom_that_outruns_its_list_is_named() -> None:
    model = started(case_of(neighbour={"every": 2}, model={"density": 1e-3}))
    particles = model._engine.particles
    particles["velocity"][2, particles.identity == 5] = 2 / model._case.model.dt
    model.step(1)
    with pytest.raises(
        ParticleError, match=r"atom 5 moved by 4 sigma in the last 2 steps or fewer before step 2"
    ):
        model.step(1)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"grid": {"cells": [3, 1, 3]}}, "at least 2 cells in each direction"),
        ({"model": {"cutoff": 6.0}}, "at least 4 cells in each direction"),
        ({"neighbour": {"every": 0}}, "every"),
        ({"run": {"precision": "float32"}}, "at least 4 cells in each direction with run.precision"),
        ({"run": {"precision": "float32"}, "neighbour": {"newton": True}}, "newton must be false"),
        ({"initial": {"seed": 0}}, "seed"),
        ({"output": {"variables": ["image", "image"]}}, "at most once"),
    ],
)
def test_settings_that_cannot_run_say_what_is_allowed(sections, words) -> None:
    with pytest.raises(ValidationError, match=words):
        case_of(**sections)


def test_boxes_too_thin_for_the_cutoff_are_refused_before_the_run() -> None:
    with pytest.raises(
        DecompositionError, match=r"2 boxes in z are 2\.519 thick, which is less than the 2\.8"
    ):
        estimate(case_of(grid={"cells": [3, 3, 3], "process_grid": [2, 1, 1]}), 2)


def test_auto_takes_boxes_with_few_ghosts_that_are_thick_enough() -> None:
    flat = case_of(grid={"cells": [2, 3, 40]})
    assert estimate(flat, 8).process_grid == (1, 1, 8)
    assert estimate(case_of(grid={"cells": [8, 8, 8]}), 8).process_grid == (2, 2, 2)
    with pytest.raises(DecompositionError, match=r"into 48 boxes .* Use \d+ ranks, the next lower"):
        estimate(flat, 48)


def test_memory_is_estimated() -> None:
    case = case_of(grid={"cells": [6, 6, 6]})
    model = started(case)
    need = estimate(case, 1).memory_per_rank
    assert 0.5 < model.describe()["field_bytes_per_rank"] / need < 1.0
