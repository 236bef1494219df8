"""Advection kernels against the reference in NumPy, and what dealiasing promises."""

import numpy as np
import pytest

from element_kernel_tools import ELEMENTS, make_case, sizes
from ridgeline.elements import reference
from ridgeline.elements.advection import fine_metrics, make_advection, make_advection_collocated
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_interpolation, gauss_lobatto

USUAL = [(2, 3), pytest.param(3, 5, marks=pytest.mark.full), (4, 4), (8, 12)]
SIZES = sizes(USUAL, [(6, 9), (10, 15), (16, 24)])


def fine_points(n, m, dtype="float64"):
    """Interpolation, derivative and weights of m Gauss points."""
    matrices = gauss_interpolation(n, m), derivative_matrix(gauss(m)[0]), gauss(m)[1]
    return [matrix.astype(dtype) for matrix in matrices]


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_advection_equals_reference(n, m, aligned):
    case = make_case(n, "float64", aligned)
    J, derivative, fine_weights = fine_points(n, m)
    fine = reference.fine_metrics(case.metrics, case.mass, case.weights, J, fine_weights)
    stored = np.empty((0, 9, m, m, m)) if aligned else np.ascontiguousarray(fine)
    fields = case.field(4)
    kernel = make_advection(n, m, "float64", aligned)
    for velocity in (fields[:3], case.field(3)):
        out = case.output(4)
        kernel(ELEMENTS, velocity, fields, case.scale, case.volume, stored, J, derivative, fine_weights, out)
        case.check(out, reference.advection(velocity, fields, fine, case.derivative, J), tolerance=2000)


def test_fine_metrics_equal_reference():
    case = make_case(5, "float64", False)
    J, _, fine_weights = fine_points(5, 8)
    arguments = case.metrics, case.mass, case.weights, J, fine_weights
    np.testing.assert_allclose(fine_metrics(*arguments), reference.fine_metrics(*arguments), atol=1e-12)


def test_advection_in_single_precision():
    case = make_case(6, "float32", True)
    J, derivative, fine_weights = fine_points(6, 9, "float32")
    fine = reference.fine_metrics(case.metrics, case.mass, case.weights, J, fine_weights)
    velocity, fields, out = case.field(3), case.field(1), case.output(1)
    make_advection(6, 9, "float32", True)(
        ELEMENTS,
        velocity,
        fields,
        case.scale,
        case.volume,
        case.stored_metrics[:0].reshape(0, 9, 1, 1, 1),
        J,
        derivative,
        fine_weights,
        out,
    )
    case.check(out, reference.advection(velocity, fields, fine, case.derivative, J), tolerance=2000)


def test_three_halves_rule_integrates_exactly():
    """More fine points than ceil(3 n / 2) change nothing on axis-aligned elements; fewer do."""
    n = 6
    case = make_case(n, "float64", True)
    velocity, fields = case.field(3), case.field(1)

    def run(m):
        J, derivative, fine_weights = fine_points(n, m)
        out = case.output(1)
        nothing = np.empty((0, 9, m, m, m))
        make_advection(n, m, "float64", True)(
            ELEMENTS, velocity, fields, case.scale, case.volume, nothing, J, derivative, fine_weights, out
        )
        return out[:, ELEMENTS]

    exact = run(12)
    assert np.abs(run(9) - exact).max() < 1e-11 * np.abs(exact).max()
    assert np.abs(run(6) - exact).max() > 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.full), 5, 8])
def test_collocated_advection_equals_reference(n, aligned):
    case = make_case(n, "float64", aligned)
    velocity, fields, out = case.field(3), case.field(2), case.output(2)
    scale, volume, _, mass, derivative, weights = case.geometry
    make_advection_collocated(n, "float64", aligned)(
        ELEMENTS, velocity, fields, scale, volume, case.stored_metrics, mass, derivative, weights, out
    )
    expected = reference.advection_collocated(velocity, fields, case.metrics, case.mass, derivative)
    case.check(out, expected)
    assert gauss_lobatto(n)[1].sum() == pytest.approx(2)
