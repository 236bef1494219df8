"""Operators on spectral elements in plain NumPy, written to be read: what the compiled kernels must equal.

u: a field [E, n, n, n] = (element, z, y, x); D: derivative matrix [n, n] of the points in one direction; metrics
[E, 9, n, n, n]: r_x, r_y, r_z, s_x, s_y, s_z, t_x, t_y, t_z; factors [E, 6, n, n, n]: G_rr, G_rs, G_rt, G_ss,
G_st, G_tt with weight and Jacobian; mass [E, n, n, n]: weight times Jacobian. Results are those of each element
alone ("unassembled"): nothing is summed over elements. Each operation is a pass of its own; only tests use them.

Source: Deville, Fischer, Mund, "High-Order Methods for Incompressible Fluid Flow", 2002, Secs. 4.3-4.5, 6.3.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Field = NDArray[Any]

PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def expand(scale: NDArray[Any], volume: NDArray[Any], weights: NDArray[Any]) -> Any:
    """Return (metrics, factors, mass) of axis-aligned elements: scale [E, 3], volume [E], weights [n]."""
    n, n_elements = len(weights), len(volume)
    cube = np.einsum("k,j,i->kji", weights, weights, weights)
    mass = volume[:, None, None, None] * cube
    metrics = np.zeros((n_elements, 9, n, n, n), mass.dtype)
    for direction in range(3):
        metrics[:, 4 * direction] = scale[:, direction, None, None, None]
    return metrics, factors_of(metrics, mass), mass


def factors_of(metrics: NDArray[Any], mass: NDArray[Any]) -> Any:
    """Return the factors of the stiffness operator: mass times the products of reference gradients."""
    rows = metrics.reshape(len(metrics), 3, 3, *metrics.shape[2:])
    return np.stack([mass * (rows[:, a] * rows[:, b]).sum(axis=1) for a, b in PAIRS], axis=1)


def tensor(u: NDArray[Any], along_z: NDArray[Any], along_y: NDArray[Any], along_x: NDArray[Any]) -> Any:
    """Apply a matrix in each direction: out[k, j, i] = sum Z[k, c] Y[j, b] X[i, a] u[c, b, a]."""
    return np.einsum("kc,jb,ia,...cba->...kji", along_z, along_y, along_x, u, optimize=True)


def reference_gradient(u: NDArray[Any], D: NDArray[Any]) -> Any:
    """Return (u_r, u_s, u_t)."""
    one = np.eye(len(D), dtype=D.dtype)
    return tensor(u, one, one, D), tensor(u, one, D, one), tensor(u, D, one, one)


def reference_divergence(f: Any, D: NDArray[Any]) -> Any:
    """Return the sum of the transposed derivatives of (f_r, f_s, f_t)."""
    one = np.eye(len(D), dtype=D.dtype)
    return tensor(f[0], one, one, D.T) + tensor(f[1], one, D.T, one) + tensor(f[2], D.T, one, one)


def helmholtz(
    u: NDArray[Any], h1: float, h2: float, factors: NDArray[Any], mass: NDArray[Any], D: NDArray[Any]
) -> Any:
    """Return h1 K u + h2 B u: (grad v, h1 grad u) + (v, h2 u)."""
    u_r, u_s, u_t = reference_gradient(u, D)
    g = factors.swapaxes(0, 1)
    flux = (
        g[0] * u_r + g[1] * u_s + g[2] * u_t,
        g[1] * u_r + g[3] * u_s + g[4] * u_t,
        g[2] * u_r + g[4] * u_s + g[5] * u_t,
    )
    return h1 * reference_divergence(flux, D) + h2 * mass * u


def helmholtz_cg(
    r: NDArray[Any],
    inverse_diagonal: NDArray[Any],
    beta: NDArray[Any],
    p: NDArray[Any],
    h1: float,
    h2: float,
    factors: NDArray[Any],
    mass: NDArray[Any],
    D: NDArray[Any],
) -> Any:
    """Return (p, w, p.w) with p = inverse_diagonal r + beta p, w = h1 K p + h2 B p, of each element alone."""
    p = inverse_diagonal * r + beta * p
    w = helmholtz(p, h1, h2, factors, mass, D)
    return p, w, float((p * w).sum())


def diagonal(h1: float, h2: float, factors: NDArray[Any], mass: NDArray[Any], D: NDArray[Any]) -> Any:
    """Return the diagonal of h1 K + h2 B of each element alone."""
    g = factors.swapaxes(0, 1)
    squares, own = D.T**2, np.diag(D)
    one = np.eye(len(D), dtype=D.dtype)
    out = tensor(g[0], one, one, squares) + tensor(g[3], one, squares, one) + tensor(g[5], squares, one, one)
    r, s, t = own[None, None, :], own[None, :, None], own[:, None, None]
    out += 2 * (g[1] * r * s + g[2] * r * t + g[4] * s * t)
    return h1 * out + h2 * mass


def gradient(u: NDArray[Any], metrics: NDArray[Any], D: NDArray[Any]) -> Any:
    """Return (du/dx, du/dy, du/dz) at the points: [3, E, n, n, n]."""
    parts = reference_gradient(u, D)
    return np.stack([sum(metrics[:, 3 * a + c] * parts[a] for a in range(3)) for c in range(3)])


def curl(u: NDArray[Any], metrics: NDArray[Any], D: NDArray[Any]) -> Any:
    """Return the curl of u [3, E, n, n, n] at the points."""
    g = [gradient(component, metrics, D) for component in u]
    return np.stack([g[2][1] - g[1][2], g[0][2] - g[2][0], g[1][0] - g[0][1]])


def fine_metrics(
    metrics: NDArray[Any],
    mass: NDArray[Any],
    weights: NDArray[Any],
    J: NDArray[Any],
    fine_weights: NDArray[Any],
) -> Any:
    """Return quadrature weight times Jacobian times metrics on the fine points: [E, 9, m, m, m].

    Jacobian times metrics, polynomials on the element, are interpolated by J [m, n] (Nek5000 does likewise).
    """
    cube = np.einsum("k,j,i->kji", weights, weights, weights)
    fine = np.einsum("k,j,i->kji", fine_weights, fine_weights, fine_weights)
    return fine * tensor(metrics * (mass / cube)[:, None], J, J, J)


def advection(
    velocity: NDArray[Any], fields: NDArray[Any], fine: NDArray[Any], D: NDArray[Any], J: NDArray[Any]
) -> Any:
    """Return (v, U . grad f) integrated on the fine points, for each of fields [c, E, n, n, n].

    fine: as `fine_metrics` returns.
    """
    u = tensor(velocity, J, J, J)
    contravariant = [sum(fine[:, 3 * a + c] * u[c] for c in range(3)) for a in range(3)]
    out = []
    for field in fields:
        parts = [tensor(part, J, J, J) for part in reference_gradient(field, D)]
        out.append(tensor(sum(c * part for c, part in zip(contravariant, parts)), J.T, J.T, J.T))
    return np.stack(out)


def advection_collocated(
    velocity: NDArray[Any], fields: NDArray[Any], metrics: NDArray[Any], mass: NDArray[Any], D: NDArray[Any]
) -> Any:
    """Return mass times (U . grad f) at the GLL points: no dealiasing."""
    return np.stack([mass * (velocity * gradient(field, metrics, D)).sum(axis=0) for field in fields])


def courant(velocity: NDArray[Any], metrics: NDArray[Any], inverse_spacing: NDArray[Any]) -> Any:
    """Return max of |U_r| / dr + |U_s| / ds + |U_t| / dt over all points: times dt, the Courant number."""
    a = inverse_spacing
    spacing = (a[None, None, :], a[None, :, None], a[:, None, None])
    speeds = [np.abs(sum(metrics[:, 3 * d + c] * velocity[c] for c in range(3))) for d in range(3)]
    return float(sum(speed * each for speed, each in zip(speeds, spacing)).max())


# The products of `elements.tensor`: the same names, and the same arguments without `products`. `product` is the
# exception: its matrices are views, made by `matrix_at`, in place of sizes, pitches and starts.


def matrix_at(array: Field, start: int, rows: int, columns: int, pitch: int) -> Field:
    """Return a view of rows x columns of the flat array, rows `pitch` apart."""
    flat = array.reshape(-1)[start:]
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (pitch * flat.itemsize, flat.itemsize))


def product(accumulate: bool, c: Field, a: Field, b: Field) -> None:
    """C[m x n] = A[m x k] B[k x n], or C += A B with `accumulate`; see `tensor.product`."""
    result = a @ b
    c[:] = c + result if accumulate else result


def along_x(
    n_to: int,
    n_from: int,
    rows: int,
    accumulate: bool,
    out: Field,
    out_start: int,
    matrix_transposed: Field,
    u: Field,
    u_start: int,
) -> None:
    """out[row, i] (+)= sum_l matrix_transposed[l, i] u[row, l]; see `tensor.along_x`."""
    product(
        accumulate,
        matrix_at(out, out_start, rows, n_to, n_to),
        matrix_at(u, u_start, rows, n_from, n_from),
        matrix_at(matrix_transposed, 0, n_from, n_to, n_to),
    )


def along_y(
    n_to: int,
    n_from: int,
    planes: int,
    n_fast: int,
    accumulate: bool,
    out: Field,
    out_start: int,
    matrix: Field,
    u: Field,
    u_start: int,
) -> None:
    """out[plane, j, i] (+)= sum_l matrix[j, l] u[plane, l, i]; see `tensor.along_y`."""
    for plane in range(planes):
        starts = out_start + plane * n_to * n_fast, u_start + plane * n_from * n_fast
        along_z(n_to, n_from, n_fast, accumulate, out, starts[0], matrix, u, starts[1])


def along_z(
    n_to: int,
    n_from: int,
    n_fast2: int,
    accumulate: bool,
    out: Field,
    out_start: int,
    matrix: Field,
    u: Field,
    u_start: int,
) -> None:
    """out[k, i] (+)= sum_l matrix[k, l] u[l, i]; see `tensor.along_z`."""
    product(
        accumulate,
        matrix_at(out, out_start, n_to, n_fast2, n_fast2),
        matrix_at(matrix, 0, n_to, n_from, n_from),
        matrix_at(u, u_start, n_from, n_fast2, n_fast2),
    )
