"""Counted work of the kernels on elements, in closed form: floating-point operations and least words of memory.

Words are numbers of the kernel's dtype to and from memory, counted as if an element fits into the cache and a field
does not: read once, written once, no read for ownership, small matrices free (Hutchinson et al. 2016, Sec. 3.1). A
multiply-add is two operations. All for one element of n points per direction; multiply by elements and fields.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """Work on one element: flops, and words to and from memory."""

    flops: int
    words: int

    def bytes(self, itemsize: int = 8) -> int:
        """Return the least bytes to and from memory."""
        return self.words * itemsize


def _tensor(n_from: int, n_to: int) -> int:
    """Return the operations of interpolating an element from n_from to n_to points in x, then y, then z."""
    return 2 * (n_to * n_from**3 + n_to**2 * n_from**2 + n_to**3 * n_from)


def helmholtz(n: int, axis_aligned: bool, mass: bool = True) -> Work:
    """Return the work of h1 K u + h2 B u; without `mass`, h2 = 0."""
    points = n**3
    if axis_aligned:
        return Work((6 * n + 1) * points, 2 * points)
    return Work((12 * n + 15 + 3 * mass) * points, (8 + mass) * points)


def helmholtz_cg(n: int, axis_aligned: bool, mass: bool = True) -> Work:
    """Return the work of the search direction, the operator and p.w: reads r, 1 / diagonal, p; writes p, w."""
    points, operator = n**3, helmholtz(n, axis_aligned, mass)
    return Work(operator.flops + 5 * points, operator.words + 3 * points)


def gradient(n: int, axis_aligned: bool) -> Work:
    """Return the work of the gradient of a scalar."""
    points = n**3
    return Work((6 * n + (0 if axis_aligned else 15)) * points, (4 + (0 if axis_aligned else 9)) * points)


def weak_divergence(n: int, axis_aligned: bool) -> Work:
    """Return the work of (grad v, f) of a vector f."""
    points = n**3
    flops, words = (1, 0) if axis_aligned else (18, 10)
    return Work((6 * n + flops) * points, (4 + words) * points)


def curl(n: int, axis_aligned: bool) -> Work:
    """Return the work of the curl of a vector."""
    points = n**3
    if axis_aligned:
        return Work(12 * n * points, 6 * points)
    return Work((18 * n + 33) * points, (6 + 9) * points)


def advection(n: int, m: int, n_fields: int, shared: bool, axis_aligned: bool) -> Work:
    """Return the work of dealiased advection of n_fields at once on m fine points per direction.

    shared: the first three fields are the velocity itself.
    """
    points, fine = n**3, m**3
    interpolated = n_fields if shared else n_fields + 3
    per_field = 2 * n * fine + 4 * m * fine + _tensor(m, n) + (9 if axis_aligned else 5) * fine
    flops = interpolated * _tensor(n, m) + n_fields * per_field + (0 if axis_aligned else 15 * fine)
    words = (interpolated + n_fields) * points + (0 if axis_aligned else 9 * fine)
    return Work(flops, words)


def advection_collocated(n: int, n_fields: int, shared: bool, axis_aligned: bool) -> Work:
    """Return the work of advection at the Gauss-Lobatto points."""
    points = n**3
    interpolated = n_fields if shared else n_fields + 3
    flops = n_fields * (6 * n + (9 if axis_aligned else 6)) + (0 if axis_aligned else 15)
    return Work(flops * points, (interpolated + n_fields + (0 if axis_aligned else 10)) * points)


def fdm(n: int) -> Work:
    """Return the work of fast diagonalisation; inverse sums of eigenvalues are not counted."""
    return Work((12 * n + 1) * n**3, 2 * n**3)


def interpolate(n_from: int, n_to: int, accumulate: bool = False) -> Work:
    """Return the work of interpolation or its transpose, or of a filter."""
    return Work(_tensor(n_from, n_to), n_from**3 + (2 if accumulate else 1) * n_to**3)


def courant(n: int, axis_aligned: bool) -> Work:
    """Return the work of the largest convective speed."""
    return Work((8 if axis_aligned else 20) * n**3, (3 + (0 if axis_aligned else 9)) * n**3)
