"""HPCG's counts and rating against the figures of a published run of the official code, and by hand."""

import math

import pytest

from ridgeline.bench.hpcg.rating import (
    Charges,
    LevelSize,
    count_flops,
    count_reads,
    count_writes,
    norms,
    number_of_sets,
)

LEVELS = [LevelSize(n**3, (3 * n - 2) ** 3) for n in (16, 8, 4, 2)]
# 16^3 on one rank, 1195 sets of 50 iterations, as the report prints it (six digits).
SETS, SECONDS, SET_UP, OPTIMISATION = 1195, 56.3567, 0.0205922, 2.38419e-07


def test_operations_of_a_published_run() -> None:
    flops = count_flops(LEVELS, SETS, 50)
    assert flops.ddot == pytest.approx(1.47821e9, rel=5e-6)
    assert flops.waxpby == pytest.approx(1.47821e9, rel=5e-6)
    assert flops.spmv == pytest.approx(1.18643e10, rel=5e-6)
    assert flops.multigrid == pytest.approx(6.51332e10, rel=5e-6)
    assert flops.total == pytest.approx(7.99539e10, rel=5e-6)


def test_bytes_of_a_published_run() -> None:
    assert count_reads(LEVELS, SETS, 50).total / SECONDS / 1e9 == pytest.approx(8.77158, rel=5e-6)
    assert count_writes(LEVELS, SETS, 50).total / SECONDS / 1e9 == pytest.approx(2.02881, rel=5e-6)


def test_operations_per_row_at_the_default_size() -> None:
    levels = [LevelSize(n**3, (3 * n - 2) ** 3) for n in (104, 52, 26, 13)]
    more = count_flops(levels, 1, 51).total - count_flops(levels, 1, 50).total
    assert more == pytest.approx(4.121e8, rel=2e-4)


def test_rating_of_a_published_run() -> None:
    flops = count_flops(LEVELS, SETS, 50).total
    charges = Charges(SETS, 50, 50, SECONDS, SET_UP, OPTIMISATION)
    assert charges.rating(flops) == pytest.approx(1.35936, rel=1e-5)
    assert charges.rating_without_set_up(flops) == pytest.approx(1.41871, rel=1e-5)


def test_more_iterations_and_preparations_are_charged() -> None:
    # 60 iterations where 50 do: 5/6 of the work counts. Two sets, each charged with a tenth of 3 s + 2 s.
    charges = Charges(2, 50, 60, seconds=9.0, set_up=3.0, optimisation=2.0)
    assert charges.charged_seconds == 10.0
    assert charges.rating(12e9) == pytest.approx(1.0)
    assert charges.rating_without_set_up(12e9) == pytest.approx(10 / 9.4)


@pytest.mark.parametrize(
    ("seconds", "worst", "sets"), [(0, 0.3, 1), (60, 7.0, 9), (60, 100.0, 1), (8, 4.0, 3)]
)
def test_number_of_sets(seconds: float, worst: float, sets: int) -> None:
    assert number_of_sets(seconds, worst) == sets


def test_norms() -> None:
    same = norms([1e-9] * 7)
    assert (same.mean, same.variance, same.passed) == (pytest.approx(1e-9), pytest.approx(0, abs=1e-30), True)
    apart = norms([0.001, 0.005])  # variance 4e-6
    assert apart.variance == pytest.approx(4e-6)
    assert not apart.passed
    assert not norms([1e-9, math.nan]).passed
