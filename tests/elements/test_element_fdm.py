"""Fast diagonalisation on elements against the reference, and as the inverse that it is."""

import numpy as np
import pytest
from scipy.linalg import eigh

from element_kernel_tools import ELEMENTS, N_ELEMENTS, make_case, sizes
from ridgeline.elements import reference
from ridgeline.elements.fdm import make_fdm
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", sizes((3, 4, 9, 10), (7, 18, 34)))
def test_fdm_equals_reference(n, dtype):
    case = make_case(n, dtype, True)
    vectors = np.linalg.qr(case.rng.standard_normal((3, n, n)))[0].astype(dtype)
    eigenvalues = case.rng.uniform(0.1, 2, (3, n)).astype(dtype)
    index = case.rng.integers(0, 3, (N_ELEMENTS, 3))
    r, z = case.field(), case.output()
    transposed = np.ascontiguousarray(vectors.swapaxes(1, 2))
    make_fdm(n, dtype)(ELEMENTS, r, index, vectors, transposed, eigenvalues, z)
    expected = reference.fdm(r.astype("float64"), index, vectors.astype("float64"), eigenvalues)
    case.check(z, expected)


def test_inverts_the_operator_in_place_and_leaves_out_the_constant():
    n = 6
    derivative, weights = gll_derivative(n), gauss_lobatto(n)[1]
    stiffness, mass = derivative.T @ np.diag(weights) @ derivative, np.diag(weights)
    values, vectors = eigh(stiffness, mass)
    values[0] = 0.0
    case = make_case(n, "float64", True)
    u = case.field()
    cube = np.einsum("k,j,i->kji", weights, weights, weights)
    u -= ((cube * u).sum(axis=(1, 2, 3)) / cube.sum())[:, None, None, None]
    r = (
        reference.tensor(u, mass, mass, stiffness)
        + reference.tensor(u, mass, stiffness, mass)
        + reference.tensor(u, stiffness, mass, mass)
    )
    r, vectors = np.ascontiguousarray(r), np.ascontiguousarray(vectors)
    index = np.zeros((N_ELEMENTS, 3), np.int64)
    kernel = make_fdm(n, "float64")
    kernel(np.arange(N_ELEMENTS), r, index, vectors[None], vectors.T[None].copy(), values[None], r)
    np.testing.assert_allclose(r, u, atol=1e-11)
