"""The Helmholtz kernels against the reference in NumPy, and what an operator must satisfy."""

import numpy as np
import pytest

from element_kernel_tools import ELEMENTS, MORE_ORDERS, ORDERS, UNTOUCHED, make_case
from ridgeline.elements import reference
from ridgeline.elements.helmholtz import make_diagonal, make_helmholtz, make_helmholtz_cg

BOTH = (True, False)  # aligned with the axes, or not
QUICK = [(p + 1, "float64", aligned) for p in ORDERS[:-1] for aligned in BOTH]
QUICK += [(10, "float32", aligned) for aligned in BOTH]
FULL = [(n, dtype, aligned) for n, dtype in ((ORDERS[-1] + 1, "float64"), (2, "float32")) for aligned in BOTH]
SLOW = [(p + 1, "float64", aligned) for p in MORE_ORDERS for aligned in BOTH]
KINDS = [QUICK, pytest.param(FULL, marks=pytest.mark.full), pytest.param(SLOW, marks=pytest.mark.slow)]
each_kind = pytest.mark.parametrize("kinds", KINDS, ids=["quick", "full", "slow"])
H1, H2 = 0.7, 1.3
each_h2 = pytest.mark.parametrize("h2", [H2, 0.0])


@each_h2
@each_kind
def test_helmholtz_equals_reference(kinds, h2):
    for n, dtype, aligned in kinds:
        case = make_case(n, dtype, aligned)
        u, w = case.field(), case.output()
        make_helmholtz(n, dtype, aligned)(ELEMENTS, u, H1, h2, *case.geometry, w)
        case.check(w, reference.helmholtz(u, H1, h2, case.factors, case.mass, case.derivative))


@each_h2
@each_kind
def test_fused_pass_equals_reference(kinds, h2):
    for n, dtype, aligned in kinds:
        label = f"{n=}, {dtype=}, {aligned=}"
        case = make_case(n, dtype, aligned)
        r, inverse_diagonal, p, w = case.field(), case.field(), case.field(), case.output()
        new, expected, _ = reference.helmholtz_cg(
            r, inverse_diagonal, 0.4, p, H1, h2, case.factors, case.mass, case.derivative
        )
        out = np.full_like(p, UNTOUCHED)
        out[ELEMENTS] = p[ELEMENTS]
        kernel = make_helmholtz_cg(n, dtype, aligned)
        total = kernel(ELEMENTS, r, inverse_diagonal, 0.4, out, H1, h2, *case.geometry, w)
        case.check(out, new)
        case.check(w, expected)
        products = (new * expected)[ELEMENTS]
        assert total == pytest.approx(
            products.sum(), abs=float(200 * np.finfo(dtype).eps * np.abs(products).sum())
        ), label


def test_diagonal_is_that_of_the_matrix():
    for n, dtype, aligned in [(2, "float64", True), (5, "float64", False), (6, "float32", True)]:
        label = f"{n=}, {dtype=}, {aligned=}"
        case = make_case(n, dtype, aligned)
        out = case.output()
        make_diagonal(n, dtype, aligned)(ELEMENTS, H1, H2, *case.geometry, out)
        case.check(out, reference.diagonal(H1, H2, case.factors, case.mass, case.derivative))
        units = np.eye(n**3).reshape(n**3, 1, n, n, n)
        e = ELEMENTS[0]
        columns = [
            reference.helmholtz(unit, H1, H2, case.factors[e : e + 1], case.mass[e : e + 1], case.derivative)
            for unit in units
        ]
        matrix = np.array(columns).reshape(n**3, n**3)
        np.testing.assert_allclose(
            out[e].ravel(), np.diag(matrix), rtol=1e-4 if dtype == "float32" else 1e-11, err_msg=label
        )


def test_no_elements_is_no_work():
    case = make_case(4, "float64", False)
    w = case.output()
    make_helmholtz(4, "float64", False)(ELEMENTS[:0], case.field(), H1, H2, *case.geometry, w)
    assert (w == UNTOUCHED).all()
