"""The compute check: chains against Python's integers, wrong bits noticed, processor time and switches."""

import numpy as np
import pytest

from ridgeline.bench.memory import compute_check
from ridgeline.bench.memory.compute_check import (
    INTEGER_INCREMENT,
    INTEGER_MULTIPLIER,
    MODULUS,
    MULTIPLIER,
    check_compute,
)
from ridgeline.runtime.errors import ConfigError


def test_closed_forms_are_step_by_step():
    x, y = 12345, 99
    for step in range(50):
        assert compute_check.multiply_exactly(12345, step) == x
        assert compute_check.congruential_exactly(99, step) == y
        x = MULTIPLIER * x % MODULUS
        y = (INTEGER_MULTIPLIER * y + INTEGER_INCREMENT) % 2**64


@pytest.mark.parametrize("steps", [0, 1, 2, 1001, 300_000])
def test_chains_are_exact(steps):
    half = MODULUS // 2
    x = np.linspace(-half, half, compute_check.float_chains()).round()
    y = np.arange(compute_check.INTEGER_CHAINS, dtype=np.uint64) * np.uint64(2**61 - 1)
    starts, seeds = [int(v) for v in x], [int(v) for v in y]
    compute_check.multiply_chains(x, steps)
    compute_check.congruential_chains(y, steps)
    assert [int(v) % MODULUS for v in x] == [compute_check.multiply_exactly(v, steps) for v in starts]
    assert [int(v) for v in y] == [compute_check.congruential_exactly(v, steps) for v in seeds]


def test_a_sound_core():
    result = check_compute(0.02)
    assert result.correct
    assert result.detail == ""
    assert result.rate > 1e6
    assert 0 < result.cpu_share <= 1


@pytest.mark.parametrize(
    ("name", "spoil", "words"),
    [
        ("multiply_chains", lambda x: np.put(x, 3, x[3] + 1), "floating-point chain 3"),
        ("multiply_chains", lambda x: np.put(x, 0, np.nan), "floating-point chain 0"),
        ("multiply_chains", lambda x: np.put(x, 1, np.inf), "floating-point chain 1"),
        ("congruential_chains", lambda y: np.put(y, 7, y[7] ^ np.uint64(1)), "integer chain 7"),
    ],
)
def test_one_wrong_bit_is_noticed(monkeypatch, name, spoil, words):
    kernel = getattr(compute_check, name)

    def run(x, steps):
        kernel(x, steps)
        spoil(x)

    monkeypatch.setattr(compute_check, name, run)
    result = check_compute(0.0)
    assert not result.correct
    assert words in result.detail


def test_negative_time_is_refused():
    with pytest.raises(ConfigError, match="must not be negative"):
        check_compute(-1.0)
