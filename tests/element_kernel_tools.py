"""Small random elements for the tests of element kernels: any metrics, without a mesh behind them."""

from dataclasses import dataclass

import numpy as np
import pytest

from ridgeline.elements import reference
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative

N_ELEMENTS = 4
ELEMENTS = np.array([2, 0, 3])  # not all, not in order
UNTOUCHED = 7.0
ORDERS = (1, 2, 7, 9)
MORE_ORDERS = (5, 8, 15)  # each costs seconds of compiling: -m slow


def sizes(usual, more):
    """Return parameters of a test: those of `more` are run with the slow tests."""
    return [
        *usual,
        *(pytest.param(*((p,) if isinstance(p, int) else p), marks=pytest.mark.slow) for p in more),
    ]


@dataclass(frozen=True)
class Case:
    """Elements of one order: what `ElementGeometry` holds, and the metrics written out for the reference."""

    n: int
    dtype: str
    axis_aligned: bool
    scale: np.ndarray
    volume: np.ndarray
    stored_metrics: np.ndarray
    stored_factors: np.ndarray
    metrics: np.ndarray
    factors: np.ndarray
    mass: np.ndarray
    derivative: np.ndarray
    weights: np.ndarray
    rng: np.random.Generator

    @property
    def geometry(self):
        """Arguments of the Helmholtz kernels, the mass of axis-aligned elements left out to show it is not read."""
        mass = np.full_like(self.mass, np.nan) if self.axis_aligned else self.mass
        return self.scale, self.volume, self.stored_factors, mass, self.derivative, self.weights

    def field(self, *leading):
        """Return random values [*leading, E, n, n, n]."""
        n = self.n
        return self.rng.standard_normal((*leading, N_ELEMENTS, n, n, n)).astype(self.dtype)

    def output(self, *leading, n=None):
        """Return an array that shows which elements were written."""
        n = self.n if n is None else n
        return np.full((*leading, N_ELEMENTS, n, n, n), UNTOUCHED, self.dtype)

    def check(self, out, expected, tolerance=200.0):
        """Compare elements worked on with the reference, and the rest with what was there."""
        scale = np.abs(expected).max()
        atol = tolerance * np.finfo(self.dtype).eps * scale
        np.testing.assert_allclose(
            out[..., ELEMENTS, :, :, :], expected[..., ELEMENTS, :, :, :], atol=atol, rtol=0
        )
        others = np.setdiff1d(np.arange(N_ELEMENTS), ELEMENTS)
        assert (out[..., others, :, :, :] == UNTOUCHED).all()


def make_case(n, dtype, axis_aligned):
    """Return random elements; the reference works on the same numbers as the kernels, in float64."""
    rng = np.random.default_rng(n)
    derivative, weights = gll_derivative(n).astype(dtype), gauss_lobatto(n)[1].astype(dtype)
    for array in (derivative, weights):
        array.setflags(write=False)
    shape = (N_ELEMENTS, n, n, n)
    scale = rng.uniform(0.5, 2, (N_ELEMENTS, 3)).astype(dtype)
    volume = rng.uniform(0.5, 2, N_ELEMENTS).astype(dtype)
    if axis_aligned:
        numbers = (array.astype(np.float64) for array in (scale, volume, weights))
        metrics, factors, mass = reference.expand(*numbers)
        stored_metrics, stored_factors = np.empty((0, 9, n, n, n), dtype), np.empty((0, 6, n, n, n), dtype)
    else:
        cube = np.einsum("k,j,i->kji", weights, weights, weights)
        mass = (rng.uniform(0.5, 2, shape) * cube).astype(dtype)
        metrics = rng.standard_normal((N_ELEMENTS, 9, n, n, n)).astype(dtype)
        factors = reference.factors_of(metrics, mass)
        scale, volume = np.empty((0, 3), dtype), np.empty(0, dtype)
        stored_metrics, stored_factors = metrics, factors
    mass = mass.astype(dtype)
    return Case(
        n, dtype, axis_aligned, scale, volume, stored_metrics, stored_factors, metrics, factors, mass,
        derivative, weights, rng,
    )  # fmt: skip
