"""Values between the points of a grid: of order 4 by splines, of order 2 trilinear, exact by Fourier sums."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.transform import FourierTransform, kernels_of_transforms
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.turbulence.fluid_particles.interpolation import (
    derivative,
    displacement,
    kernels_of_points,
    point_values,
    unchanged,
)
from ridgeline.runtime.regions import Regions

LENGTHS = (3.0, 2 * math.pi, 5.0)


def transform_of(shape, dtype=np.float64, dealias="none"):
    compile_kernels([*kernels_of_transforms(dtype), *kernels_of_points(dtype)])
    grid = PencilGrid(shape, dealias, (1, 1), 0)
    tuning = TransformTuning(effort="estimate")
    return FourierTransform(grid, LENGTHS, MPI.COMM_SELF, dtype, tuning)


def wave(x, y, z):
    """A smooth periodic function with derivative in x."""
    a, b, c = (2 * math.pi * m / length for m, length in zip((1, 2, 1), LENGTHS[::-1]))
    value = np.sin(a * x + 0.3) * np.cos(b * y) + np.cos(c * z - a * x)
    return value, a * np.cos(a * x + 0.3) * np.cos(b * y) + a * np.sin(c * z - a * x)


def modes_of(transform):
    shape = transform.grid.shape
    z, y, x = np.meshgrid(*(np.arange(n) * l / n for n, l in zip(shape, LENGTHS)), indexing="ij")
    return transform.to_spectral(wave(x, y, z)[0][np.newaxis].astype(transform.real))[0]


def places(n=400):
    return np.random.default_rng(1).random((3, n)) * np.array(LENGTHS[::-1])[:, np.newaxis]


def error(kind, shape, dtype=np.float64, axis=None):
    transform = transform_of(shape, dtype)
    values = point_values(kind, transform, MPI.COMM_SELF, Regions())
    factors = unchanged(transform.modes) if axis is None else derivative(transform.modes, axis)
    values.load([(modes_of(transform), factors)])
    place, out = places(), np.empty((3, 400))
    values.at(place, out)
    transform.free()
    return np.abs(out[0] - wave(*place)[axis is not None]).max()


@pytest.mark.parametrize(("kind", "order"), [("spline", 4), ("trilinear", 2)])
@pytest.mark.parametrize("axis", [None, 0])
def test_order_in_space(kind, order, axis):
    coarse, fine = (error(kind, (n, n + 4, n - 4), axis=axis) for n in (24, 48))
    assert order - 0.25 < math.log2(coarse / fine) < order + 0.45


@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, 1e-13), (np.float32, 2e-6)])
@pytest.mark.parametrize("axis", [None, 0])
def test_fourier_sums_are_exact(dtype, bound, axis):
    assert error("fourier", (8, 12, 10), dtype, axis) < bound


def test_single_precision_splines_lose_rounding_alone():
    assert error("spline", (24, 28, 20), np.float32) == pytest.approx(error("spline", (24, 28, 20)), abs=2e-6)


@pytest.mark.parametrize("kind", ["spline", "trilinear"])
def test_at_the_points_of_the_grid_are_its_values(kind):
    """The ends of the domain and the last cells too: whatever stencil reaches around."""
    transform = transform_of((6, 8, 4), dealias="two-thirds")
    rng = np.random.default_rng(2)
    field = transform.to_spectral(rng.standard_normal((1, 6, 8, 4)))
    values = point_values(kind, transform, MPI.COMM_SELF, Regions())
    values.load([(field[0], unchanged(transform.modes))])
    z, y, x = (np.arange(n) * l / n for n, l in zip((6, 8, 4), LENGTHS))
    grid = np.stack([part.ravel() for part in np.meshgrid(z, y, x, indexing="ij")])[::-1].copy()
    out = np.empty((3, grid.shape[1]))
    values.at(grid, out)
    np.testing.assert_allclose(out[0], transform.to_physical(field)[0].ravel(), atol=1e-14)
    below = np.nextafter(np.array(LENGTHS[::-1]), 0.0)[:, np.newaxis]
    corner = np.empty((3, 1))
    values.at(below, corner)
    np.testing.assert_allclose(corner[0, 0], out[0, 0], atol=1e-13)
    transform.free()


def test_a_displaced_grid_is_put_back():
    transform = transform_of((12, 12, 12), dealias="phase-shift")
    shift = np.array([0.03, 0.4, 0.11])
    field = modes_of(transform)
    forth = displacement(transform.modes, -shift).applied(field, transform.modes)
    place, found = places(50), np.empty((3, 50))
    values = point_values("fourier", transform, MPI.COMM_SELF, Regions())
    values.load([(forth, displacement(transform.modes, shift)), (forth, unchanged(transform.modes))])
    values.at(place, found)
    moved = place + shift[:, np.newaxis] * np.array(LENGTHS[::-1])[:, np.newaxis]
    np.testing.assert_allclose(found[:2], [wave(*place)[0], wave(*moved)[0]], atol=1e-13)
    transform.free()


@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize("dealias", ["phase-shift", "two-thirds"])
def test_splines_on_a_displaced_grid_give_the_points_of_the_flow(dtype, bound, dealias):
    """What a step takes in place of a transform: the same values, pair by pair; and particles meet the same flow."""
    shape = (10, 8, 12)
    transform = transform_of(shape, dtype, dealias)
    shift = np.array([0.05, 0.11, 0.03])  # x, y, z: less than a cell
    rng = np.random.default_rng(3)
    fields = transform.to_spectral(rng.standard_normal((3, *shape)).astype(dtype))
    values = point_values("spline", transform, MPI.COMM_SELF, Regions())
    values.load([(field, unchanged(transform.modes)) for field in fields], shift)
    moved = displacement(transform.modes, -shift)
    expected = transform.to_physical(
        np.stack([moved.applied(field, transform.modes) for field in fields]).astype(fields.dtype)
    )
    rows, found = values.rows(), np.full((3, *shape), np.nan)

    def keep(block, plane, first, n):
        block.target[...] = np.nan
        rows(block, plane, first, n)
        for r in range(n):
            for v in range(3):
                row = block.target[v, r // 2, r % 2 : 2 * shape[2] : 2]
                found[v, (first + r) % shape[0], plane + (first + r) // shape[0]] = row
        if n % 2:
            assert (block.target[:, n // 2, 1 : 2 * shape[2] : 2] == 0).all()

    transform.planes(keep)
    np.testing.assert_allclose(found, expected, atol=bound)
    points = np.stack(
        np.meshgrid(*((np.arange(n) / n + d) % 1.0 for n, d in zip(shape, shift[::-1])), indexing="ij")
    )
    place = np.ascontiguousarray(points.reshape(3, -1)[::-1] * np.array(LENGTHS[::-1])[:, np.newaxis])
    out = np.empty_like(place)
    values.at(place, out)
    np.testing.assert_allclose(out, expected.reshape(3, -1), atol=bound)
    transform.free()
