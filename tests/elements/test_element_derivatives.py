"""Gradient, weak divergence and curl of elements against the reference in NumPy."""

import numpy as np
import pytest

from element_kernel_tools import ELEMENTS, MORE_ORDERS, ORDERS, make_case, sizes
from ridgeline.elements import reference
from ridgeline.elements.derivatives import make_curl, make_gradient, make_weak_divergence

USUAL = [(p + 1, "float64", aligned) for p in ORDERS for aligned in (True, False)]
CASES = sizes(
    [*USUAL, (9, "float32", False)],
    [(p + 1, "float64", aligned) for p in MORE_ORDERS for aligned in (True, False)],
)


@pytest.mark.parametrize(("n", "dtype", "aligned"), CASES)
def test_gradient_equals_reference(n, dtype, aligned):
    case = make_case(n, dtype, aligned)
    u, out = case.field(), case.output(3)
    make_gradient(n, dtype, aligned)(ELEMENTS, u, case.scale, case.stored_metrics, case.derivative, out)
    case.check(out, reference.gradient(u, case.metrics, case.derivative))


@pytest.mark.parametrize(("n", "dtype", "aligned"), CASES)
def test_weak_divergence_equals_reference(n, dtype, aligned):
    case = make_case(n, dtype, aligned)
    f, out = case.field(3), case.output()
    scale, volume, _, mass, derivative, weights = case.geometry
    kernel = make_weak_divergence(n, dtype, aligned)
    kernel(ELEMENTS, f, scale, volume, case.stored_metrics, mass, derivative, weights, out)
    case.check(out, reference.weak_divergence(f, case.metrics, case.mass, case.derivative))


@pytest.mark.parametrize(("n", "dtype", "aligned"), CASES)
def test_curl_equals_reference(n, dtype, aligned):
    case = make_case(n, dtype, aligned)
    u, out = case.field(3), case.output(3)
    make_curl(n, dtype, aligned)(ELEMENTS, u, case.scale, case.stored_metrics, case.derivative, out)
    case.check(out, reference.curl(u, case.metrics, case.derivative))


@pytest.mark.parametrize("aligned", [True, False])
def test_weak_divergence_is_the_transpose_of_the_gradient(aligned):
    """(grad v, f) with the mass matrix: sum v weak_divergence(f) = sum mass f . grad v."""
    n = 6
    case = make_case(n, "float64", aligned)
    v, f = case.field(), case.field(3)
    gradient, divergence = case.output(3), case.output()
    scale, volume, _, mass, derivative, weights = case.geometry
    make_gradient(n, "float64", aligned)(ELEMENTS, v, scale, case.stored_metrics, derivative, gradient)
    kernel = make_weak_divergence(n, "float64", aligned)
    kernel(ELEMENTS, f, scale, volume, case.stored_metrics, mass, derivative, weights, divergence)
    left = (v * divergence)[ELEMENTS].sum()
    right = (case.mass * (f * gradient).sum(axis=0))[ELEMENTS].sum()
    assert left == pytest.approx(right, abs=1e-10 * np.abs(gradient).sum())
