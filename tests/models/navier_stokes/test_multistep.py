"""Coefficients of steps of any lengths: exact where they must be, of their order, and stable as long as is said."""

from itertools import pairwise

import numpy as np
import pytest

from ridgeline.models.navier_stokes.time_stepping import (
    BACKWARD,
    EXTRAPOLATION,
    MOST_CHANGE,
    StepCoefficients,
    backward,
    extrapolation,
)

ORDERS = (1, 2, 3)


@pytest.mark.parametrize("order", ORDERS)
def test_equal_steps_have_the_constants_to_the_bit(order: int) -> None:
    steps = [0.1 + 0.2] * order
    assert backward(steps) is BACKWARD[order - 1]
    assert extrapolation(steps) is EXTRAPOLATION[order - 1]
    at = StepCoefficients.of(steps)
    assert (at.order, at.shift) == (order, BACKWARD[order - 1][0] / steps[0])
    assert at.b[:order].tolist() == [b / steps[0] for b in BACKWARD[order - 1][1:]]
    assert at.a.tolist() == [*EXTRAPOLATION[order - 1], *[0.0] * (3 - order)]
    # The formula is that of the constants: steps that differ in the last digits have almost the same.
    near = [step * (1 + 1e-12 * back) for back, step in enumerate(steps)]
    np.testing.assert_allclose(backward(near), BACKWARD[order - 1], atol=1e-9)
    np.testing.assert_allclose(extrapolation(near), EXTRAPOLATION[order - 1], atol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_polynomials_of_the_order_are_exact(order: int) -> None:
    rng = np.random.default_rng(order)
    for _ in range(20):
        steps = rng.uniform(0.2, 1.0, order)
        times = np.concatenate([[0.0], -np.cumsum(steps)])  # of the new level and those before
        for degree in range(order + 1):
            powers = times**degree
            derivative = 1.0 if degree == 1 else 0.0
            assert np.dot(backward(steps), powers) / steps[0] == pytest.approx(derivative, abs=1e-10)
            if degree < order:
                assert np.dot(extrapolation(steps), powers[1:]) == pytest.approx(powers[0], abs=1e-10)


def error(order: int, n: int, waves: float) -> float:
    """Return the largest error to t = 2 of u' = -u + cos(t) u in n varying steps; cos(t) u is extrapolated."""
    phase = np.linspace(0, 1, n + 1)
    times = 2 * (phase + 0.4 * np.sin(2 * np.pi * waves * phase) / (2 * np.pi * waves))
    times[2:-1:2] += 0.2 * np.diff(times)[1:-1:2] * (waves > 1)  # long and short in turn, too

    def exact(t: float) -> float:
        return float(np.exp(np.sin(t) - t))

    start = [0.0, -(times[1] - times[0]), -2 * (times[1] - times[0])][:order]
    levels, steps = [exact(t) for t in start], [times[1] - times[0]] * (order - 1)
    rates = [np.cos(t) * u for t, u in zip(start, levels)]
    largest = 0.0
    for old, new in pairwise(times):
        lengths = [new - old, *steps][:order]
        b, a = backward(lengths), extrapolation(lengths)
        known = sum(c * rate for c, rate in zip(a, rates))
        known -= sum(c * u for c, u in zip(b[1:], levels)) / lengths[0]
        u = known / (b[0] / lengths[0] + 1.0)
        levels, rates, steps = [u, *levels[:-1]], [np.cos(new) * u, *rates[:-1]], lengths[: order - 1]
        largest = max(largest, abs(u - exact(new)))
    return largest


@pytest.mark.parametrize("waves", [1.0, 8.0])
@pytest.mark.parametrize("order", ORDERS)
def test_varying_steps_have_the_order(order: int, waves: float) -> None:
    orders = np.log2(error(order, 160, waves) / error(order, 320, waves))
    assert orders == pytest.approx(order, abs=0.15)


def growth(order: int, ratio: float) -> float:
    """Return the largest size of what a perturbation becomes when every step is longer by a ratio."""
    b = np.array(backward([ratio**-back for back in range(order)]))
    roots = np.sort(np.abs(np.roots(b)))
    return float(roots[-2]) if order > 1 else 0.0


def test_growing_steps_are_stable_up_to_the_ratios_that_are_said() -> None:
    for order, most in ((2, 1 + 2**0.5), (3, (1 + 5**0.5) / 2)):
        assert growth(order, most - 1e-3) < 1 < growth(order, most + 1e-3)
        assert most > MOST_CHANGE


def test_steps_that_grow_and_shrink_at_random_are_stable() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        steps = np.exp(np.cumsum(np.log(MOST_CHANGE) * rng.choice([-1, 1], 60)))
        product = np.eye(3)
        for new in range(2, 60):
            b = np.array(backward(steps[new - 2 : new + 1][::-1]))
            product = np.vstack([-b[1:] / b[0], np.eye(3)[:2]]) @ product
            assert np.abs(product).max() < 20
