"""The Courant kernel against the reference, and that it tells of broken velocities."""

import numpy as np
import pytest

from element_kernel_tools import ELEMENTS, make_case
from ridgeline.elements import reference
from ridgeline.elements.courant import inverse_spacing, make_courant
from ridgeline.elements.quadrature import gauss_lobatto


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("n", [2, 3, 8, 10])
def test_courant_equals_reference(n, aligned):
    case = make_case(n, "float64", aligned)
    velocity, spacing = case.field(3), inverse_spacing(gauss_lobatto(n)[0])
    found = make_courant(n, aligned)(ELEMENTS, velocity, case.scale, case.stored_metrics, spacing)
    expected = reference.courant(velocity[:, ELEMENTS], case.metrics[ELEMENTS], spacing)
    assert found == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("value", "expected"), [(np.nan, np.nan), (-np.nan, np.nan), (-np.inf, np.inf)])
def test_broken_velocities_show(value, expected):
    case = make_case(5, "float64", True)
    velocity, spacing = case.field(3), inverse_spacing(gauss_lobatto(5)[0])
    velocity[1, ELEMENTS[0], 2, 3, 4] = value
    found = make_courant(5, True)(ELEMENTS, velocity, case.scale, case.stored_metrics, spacing)
    np.testing.assert_equal(found, expected)
    none = np.array([], np.int64)
    assert make_courant(5, True)(none, velocity, case.scale, case.stored_metrics, spacing) == 0


def test_spacing_is_half_the_distance_of_the_neighbours():
    np.testing.assert_allclose(
        1 / inverse_spacing(np.array([-1.0, -0.5, 0.75, 1.0])), [0.5, 0.875, 0.75, 0.25]
    )
    np.testing.assert_allclose(1 / inverse_spacing(np.array([-1.0, 1.0])), [2, 2])
