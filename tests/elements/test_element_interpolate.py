"""Interpolation of fields between point sets, its transpose, and filters in place."""

import numpy as np
import pytest

from element_kernel_tools import ELEMENTS, UNTOUCHED, make_case
from ridgeline.elements import reference
from ridgeline.elements.interpolate import make_interpolate
from ridgeline.elements.quadrature import gauss_lobatto, gll_interpolation


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("n_from", "n_to"), [(8, 5), (5, 8), (2, 4), (9, 17), (16, 9)])
def test_interpolation_equals_reference(n_from, n_to, dtype):
    case = make_case(n_from, dtype, True)
    u, out, matrix = case.field(), case.output(n=n_to), gll_interpolation(n_from, n_to).astype(dtype)
    make_interpolate(n_from, n_to, dtype)(ELEMENTS, u, matrix, out)
    case.check(out, reference.tensor(u, matrix, matrix, matrix))


def test_the_result_is_added():
    case = make_case(4, "float32", True)
    u, out, matrix = case.field(), case.output(n=6), gll_interpolation(4, 6).astype("float32")
    make_interpolate(4, 6, "float32", accumulate=True)(ELEMENTS, u, matrix, out)
    case.check(out, UNTOUCHED + reference.tensor(u, matrix, matrix, matrix))


def test_polynomials_are_interpolated_exactly():
    x, fine = gauss_lobatto(4)[0], gauss_lobatto(7)[0]

    def polynomial(x):
        return (x**3)[None, None, :] + (x**2)[None, :, None] * x[:, None, None]

    out = np.empty((1, 7, 7, 7))
    make_interpolate(4, 7, "float64")(np.array([0]), polynomial(x)[None], gll_interpolation(4, 7), out)
    np.testing.assert_allclose(out[0], polynomial(fine), atol=1e-14)


def test_filter_in_place():
    case = make_case(7, "float64", True)
    matrix = 0.9 * np.eye(7) + 0.1 * gll_interpolation(6, 7) @ gll_interpolation(7, 6)
    u = case.field()
    expected = reference.tensor(u, matrix, matrix, matrix)
    out = u.copy()
    make_interpolate(7, 7, "float64")(ELEMENTS, out, matrix, out)
    np.testing.assert_allclose(out[ELEMENTS], expected[ELEMENTS], atol=1e-13)
    assert (out[1] == u[1]).all()
