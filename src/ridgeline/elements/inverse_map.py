"""Where points of space lie in a curved element, and the values of its polynomials there.

    numbers, rst = lattice_inside(element, (z, y, x))       # which points of a lattice lie in it, and where
    values_at(u, rst)                                       # values of a field u [n, n, n] there
    places_inside(elements, places)                         # which of some single places lie in which elements

No communication. x(r, s, t) is inverted by Newton's method, from the nearest point of the element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative, interpolation_matrix

Array = NDArray[np.float64]

NEWTON_STEPS = 30
INSIDE = (
    1e-9  # distance beyond [-1, 1] at which a point still belongs to an element, for rounding at its faces
)
BEYOND = 1.5  # a point that Newton's method places farther out than this in two steps lies in another element
CLOSE = 1e-10  # distance from the point at which Newton's method has converged, in extents of the element
MARGIN = (
    0.15  # distance by which curved faces may bulge beyond the box around an element's points, in its extents
)
CHUNK = 2**15  # points inverted or evaluated at a time


def lattice_inside(element: Array, lattice: tuple[Array, Array, Array]) -> tuple[NDArray[np.int64], Array]:
    """Return which points of a lattice lie in an element, and their reference coordinates there.

    element: coordinates (x, y, z) of its points, [3, n, n, n]. lattice: places (z, y, x) of its planes, ascending.
    The first result is int64 [m], flat numbers of the points in [z, y, x]; the second is (r, s, t), [3, m].
    """
    z, y, x = lattice
    n = element.shape[-1]
    points, derivative = gauss_lobatto(n)[0], gll_derivative(n)
    near = _near(element, lattice)
    if _is_box(element, points):
        return _inside_box(element, lattice, near)
    numbers, reference = [np.empty(0, np.int64)], [np.empty((3, 0))]
    for start in range(0, len(near), CHUNK):
        some = near[start : start + CHUNK]
        targets = np.stack([x[some % len(x)], y[some // len(x) % len(y)], z[some // (len(x) * len(y))]])
        rst, inside = invert_map(element, targets, points, derivative)
        numbers.append(some[inside])
        reference.append(rst[:, inside])
    return np.concatenate(numbers), np.concatenate(reference, axis=1)


def places_inside(elements: Array, places: Array) -> Iterator[tuple[int, NDArray[np.int64], Array]]:
    """Yield (element, numbers of the places in it, their reference coordinates [3, m]) for elements with such places.

    elements: coordinates (x, y, z) of their points, [3, elements, n, n, n]. places: [m, 3] of (x, y, z). The boxes
    around the elements are compared with all places; the map of an element is inverted for those nearby.
    """
    n = elements.shape[-1]
    points, derivative = gauss_lobatto(n)[0], gll_derivative(n)
    low, high = elements.min(axis=(2, 3, 4)).T, elements.max(axis=(2, 3, 4)).T
    margin = MARGIN * (high - low).max(axis=1, keepdims=True)
    low, high = low - margin, high + margin
    for e in range(elements.shape[1]):
        near = np.flatnonzero(((places >= low[e]) & (places <= high[e])).all(axis=1))
        if len(near):
            reference, inside = invert_map(elements[:, e], places[near].T, points, derivative)
            if inside.any():
                yield e, near[inside], reference[:, inside]


def _is_box(element: Array, points: Array) -> bool:
    """Return whether r, s, t run along x, y, z at an even rate, so that no equation has to be solved."""
    low, high = element[:, 0, 0, 0], element[:, -1, -1, -1]
    along = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * points
    places = along[0], along[1][:, None], along[2][:, None, None]
    extent = np.abs(high - low)
    away = np.array([np.abs(given - at).max() for given, at in zip(element, places)])
    return bool((extent > 0).all() and (away <= CLOSE * extent).all())


def _inside_box(
    element: Array, lattice: tuple[Array, Array, Array], near: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Array]:
    """Return which of the lattice points `near` lie in an element that is a box, as `lattice_inside` does."""
    z, y, x = lattice
    low, high = element[:, 0, 0, 0], element[:, -1, -1, -1]
    targets = np.stack([x[near % len(x)], y[near // len(x) % len(y)], z[near // (len(x) * len(y))]])
    rst = (2.0 * targets - (low + high)[:, None]) / (high - low)[:, None]
    inside = (np.abs(rst) <= 1.0 + INSIDE).all(axis=0)
    return near[inside], np.clip(rst[:, inside], -1.0, 1.0)


def _near(element: Array, lattice: tuple[Array, Array, Array]) -> NDArray[np.int64]:
    """Return the flat numbers of the lattice points in the box around an element, with a margin."""
    low, high = element.reshape(3, -1).min(axis=1), element.reshape(3, -1).max(axis=1)
    margin = MARGIN * (high - low).max()
    k, j, i = (
        np.arange(*np.searchsorted(at, [low[axis] - margin, high[axis] + margin]))
        for axis, at in zip((2, 1, 0), lattice)
    )
    _, ny, nx = map(len, lattice)
    return np.asarray(((k[:, None, None] * ny + j[:, None]) * nx + i).reshape(-1))


def values_at(u: NDArray[Any], rst: Array) -> Array:
    """Return the polynomial of an element [n, n, n] at reference coordinates (r, s, t) [3, m], as float64 [m]."""
    n = len(u)
    values = np.empty(rst.shape[1])
    for start in range(0, len(values), CHUNK):
        some = slice(start, start + CHUNK)
        basis = [interpolation_matrix(gauss_lobatto(n)[0], xi) for xi in rst[:, some]]
        values[some] = at_points(u, basis)
    return values


def at_points(u: NDArray[Any], basis: Sequence[Array]) -> Array:
    """Return the polynomial of an element [n, n, n] at m points, from the basis [m, n] along r, s, t at each."""
    n = len(u)
    along_t = (basis[2] @ u.reshape(n, -1)).reshape(-1, n, n)
    along_s = np.matmul(basis[1][:, None, :], along_t)[:, 0]
    return np.asarray((basis[0] * along_s).sum(axis=1))


def _place_and_jacobian(element: Array, rst: Array, points: Array, derivative: Array) -> tuple[Array, Array]:
    """Return (x, y, z) [3, m] of reference coordinates [3, m], and d(x, y, z)/d(r, s, t) [m, 3, 3]."""
    n, m = len(points), rst.shape[1]
    basis = [interpolation_matrix(points, xi) for xi in rst]
    slopes = [b @ derivative for b in basis]
    lines = np.ascontiguousarray(element.transpose(1, 0, 2, 3)).reshape(n, -1)
    at, rising = ((b @ lines).reshape(m, 3 * n, n) for b in (basis[2], slopes[2]))

    def contract(planes: Array, along_r: Array, along_s: Array) -> Array:
        rows = (planes @ along_r[:, :, None]).reshape(m, 3, n)
        return np.asarray((rows @ along_s[:, :, None])[:, :, 0])

    jacobian = np.stack(
        [
            contract(at, slopes[0], basis[1]),
            contract(at, basis[0], slopes[1]),
            contract(rising, basis[0], basis[1]),
        ],
        axis=2,
    )
    return contract(at, basis[0], basis[1]).T, jacobian


def invert_map(
    element: Array, targets: Array, points: Array, derivative: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the reference coordinates (r, s, t) [3, m] of points in space, and which of them lie in the element.

    element: coordinates (x, y, z) of its points, [3, n, n, n]; targets: (x, y, z) [3, m]; points, derivative: of the
    Gauss-Lobatto points, [n] and [n, n]. Newton's method starts from the nearest point of the element.
    """
    n = len(points)
    nodes = element.reshape(3, -1)
    extent = float((nodes.max(axis=1) - nodes.min(axis=1)).max())
    # |x - node|^2 without the part that is the same for all nodes.
    nearest = np.argmin((nodes**2).sum(axis=0) - 2.0 * targets.T @ nodes, axis=1)
    rst = np.stack([points[nearest % n], points[nearest // n % n], points[nearest // (n * n)]])
    active = np.arange(targets.shape[1])
    converged = np.zeros(targets.shape[1], bool)
    for _ in range(NEWTON_STEPS):
        places, jacobian = _place_and_jacobian(element, rst[:, active], points, derivative)
        away = targets[:, active] - places
        done = np.sqrt((away**2).sum(axis=0)) <= CLOSE * extent
        regular = np.abs(np.linalg.det(jacobian)) > 1e-14 * extent**3
        jacobian[~regular] = np.eye(3)
        step = np.linalg.solve(jacobian, away.T[:, :, None])[:, :, 0].T
        # Converged points make the last step too, which reduces their error to rounding.
        moved = rst[:, active] + np.where(regular, step, 0.0)
        far = (np.abs(moved) > BEYOND).any(axis=0) & (np.abs(rst[:, active]) >= BEYOND).any(axis=0)
        rst[:, active] = np.clip(moved, -BEYOND, BEYOND)
        converged[active[done]] = True
        active = active[~done & regular & ~far]
        if not len(active):
            break
    inside = converged & (np.abs(rst) <= 1.0 + INSIDE).all(axis=0)
    return np.clip(rst, -1.0, 1.0), inside
