"""HPCG's operator and multigrid cycle for small boxes as dense matrices, written from the equations: the oracle."""

from dataclasses import dataclass

import numpy as np

from ridgeline.bench.hpcg.geometry import HpcgGeometry, coarsen, place


def operator(whole):
    """27 I - T x T x T, T tridiagonal with ones: 26 on the diagonal, -1 for each neighbour. whole: (x, y, z)."""
    t = [np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1) for n in whole]
    return 27 * np.eye(np.prod(whole)) - np.kron(t[2], np.kron(t[1], t[0]))


def numbers(geometry: HpcgGeometry):
    """Global numbers of a rank's points, in the order of its rows."""
    x, y, z = (start + np.arange(n) for start, n in zip(geometry.origin, geometry.local))
    return (x + geometry.gnx * (y[:, None] + geometry.gny * z[:, None, None])).reshape(-1)


@dataclass
class DenseLevel:
    """One level on all ranks at once, rows in global order. own: A without what couples two ranks."""

    a: np.ndarray
    own: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fine: np.ndarray  # of each point of the next level


def levels(geometry: HpcgGeometry, count: int) -> list[DenseLevel]:
    result = []
    for _ in range(count):
        a = operator(geometry.whole)
        rank, position = (np.empty(geometry.total_rows, int) for _ in range(2))
        grid = geometry.npx, geometry.npy, geometry.npz
        for r in range(geometry.size):
            mine = numbers(place(geometry.size, r, geometry.local, grid))
            rank[mine], position[mine] = r, np.arange(mine.size)
        own = np.where(rank[:, None] == rank, a, 0.0)
        lower = np.where(position[:, None] >= position, own, 0.0)
        upper = np.where(position[:, None] <= position, own, 0.0)
        half = [np.arange(0, n, 2) for n in geometry.whole]
        fine = half[0] + geometry.gnx * (half[1][:, None] + geometry.gny * half[2][:, None, None])
        result.append(DenseLevel(a, own, lower, upper, fine.reshape(-1)))
        if len(result) < count:
            geometry = coarsen(geometry)
    return result


def smooth(level: DenseLevel, r, x):
    """Symmetric Gauss-Seidel on each rank; what other ranks own stays as it was before both sweeps."""
    r = r - (level.a - level.own) @ x
    x = x + np.linalg.solve(level.lower, r - level.own @ x)
    return x + np.linalg.solve(level.upper, r - level.own @ x)


def cycle(dense: list[DenseLevel], r):
    """Return M^-1 r."""
    level = dense[0]
    x = smooth(level, r, np.zeros(r.size))
    if len(dense) > 1:
        x[level.fine] += cycle(dense[1:], (r - level.a @ x)[level.fine])
        x = smooth(level, r, x)
    return x
