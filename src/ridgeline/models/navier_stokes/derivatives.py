"""Derivatives in space of element fields, in plain NumPy: for diagnostics and outputs, not for time steps.

    physical_gradient(geometry, field, elements) -> [3, e, n, n, n]
    velocity_gradient(geometry, velocity, elements) -> [3 of u, 3 of x, e, n, n, n]
    weak_divergence(geometry, vector, elements) -> [e, n, n, n]

Derivatives of continuous fields jump between elements: the copies of a point have different values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry, reference_gradient

Array = NDArray[np.float64]
CACHE_NUMBERS = 2**16  # numbers of one field that are worked on at a time, so that they stay in the caches


def element_chunks(n_elements: int, points: int) -> Iterator[slice]:
    """Cut this rank's elements into ranges whose fields and derivatives stay in the caches."""
    step = max(1, CACHE_NUMBERS // points)
    for start in range(0, n_elements, step):
        yield slice(start, min(start + step, n_elements))


def physical_gradient(geometry: ElementGeometry, field: Array, elements: slice | NDArray[np.int64]) -> Array:
    """Return (d/dx, d/dy, d/dz) of a field on some elements, float64 [3, e, n, n, n].

    field: [n_elements, n, n, n], on all of this rank's elements; elements: those of the result. No communication.
    """
    along = reference_gradient(field[elements], geometry.derivative)
    if geometry.axis_aligned:
        scale = geometry.scale[elements]
        return np.stack([scale[:, axis, None, None, None] * along[axis] for axis in range(3)])
    metrics = geometry.metrics[elements]
    return np.stack([sum_of_products(metrics, axis, along) for axis in range(3)])


def sum_of_products(metrics: Array, axis: int, along: tuple[Array, Array, Array]) -> Array:
    """Return dr/dx_axis u_r + ds/dx_axis u_s + dt/dx_axis u_t; metrics: [e, 9, n, n, n]."""
    return np.asarray(
        metrics[:, axis] * along[0] + metrics[:, 3 + axis] * along[1] + metrics[:, 6 + axis] * along[2]
    )


def weak_divergence(geometry: ElementGeometry, vector: Array, elements: slice | NDArray[np.int64]) -> Array:
    """Return (grad q, v) for the basis function q of each point on some elements, unassembled, float64 [e, n, n, n].

    vector: v times the mass of its points, [3, e, n, n, n], on these elements. The transpose of `physical_gradient`.
    """
    if geometry.axis_aligned:
        scale = geometry.scale[elements]
        along = [scale[:, axis, None, None, None] * vector[axis] for axis in range(3)]
    else:
        metrics = geometry.metrics[elements].reshape(-1, 3, 3, *vector.shape[2:])
        along = [(metrics[:, row] * vector.swapaxes(0, 1)).sum(axis=1) for row in range(3)]
    d, (e, n, *_) = geometry.derivative, along[2].shape
    along_t = (d.T @ along[2].reshape(e, n, n * n)).reshape(along[2].shape)
    return np.asarray(along[0] @ d + d.T @ along[1] + along_t)


def velocity_gradient(
    geometry: ElementGeometry, velocity: Array, elements: slice | NDArray[np.int64]
) -> Array:
    """Return du_i/dx_j on some elements, float64 [3 of i, 3 of j, e, n, n, n]; velocity: [3, n_elements, n, n, n]."""
    return np.stack([physical_gradient(geometry, u, elements) for u in velocity])


def vorticity(gradient: Array) -> Array:
    """Return curl u [3, ...] from du_i/dx_j [3, 3, ...]."""
    return np.stack(
        [gradient[2, 1] - gradient[1, 2], gradient[0, 2] - gradient[2, 0], gradient[1, 0] - gradient[0, 1]]
    )
