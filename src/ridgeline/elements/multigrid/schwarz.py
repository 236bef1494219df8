"""Overlapping additive Schwarz on one level of multigrid: local solves by fast diagonalisation, compiled.

    S r = W sum_e R_e^T K_e^-1 R_e r

R_e selects the points of element e and one layer of each face neighbour (the *extended* element). K_e is the
Laplacian of the box with the element's mean lengths, zero one point further out. W is damping over the number of
overlaps at a point. Neighbours on this rank are read in place. Faces between ranks, and all faces of meshes that are
not regular, travel in two exchanges: layers before the local solves, corrections after them. One gather-scatter adds
up shared points. Sources: Lottes and Fischer, J. Sci. Comput. 24 (2005) 45; Fischer and Lottes (2005). Oracle:
`schwarz_reference.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.mesh_protocol import Indices
from ridgeline.elements.multigrid.fast_diagonalisation import extended_eigenpairs, line_problems
from ridgeline.elements.multigrid.level import PolynomialLevel
from ridgeline.elements.multigrid.schwarz_kernels import make_residual, make_sweep
from ridgeline.elements.tensor import GENERATED
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import compile_on_nodes

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
Field = NDArray[Any]


def _contiguous(array: NDArray[Any], dtype: DTypeLike) -> Field:
    return np.ascontiguousarray(array, dtype)


class Eigenpairs:
    """The one-dimensional eigenvectors and eigenvalues of all elements of a level, stored once per distinct line.

    index: int64 [E, 6], where the matrices of an element begin along x, y, z in the flat `vectors` and `transposed`,
    and its eigenvalues in `values`.
    """

    def __init__(self, level: PolynomialLevel, dtype: DTypeLike) -> None:
        lengths, kinds = line_problems(level.mesh, level.positions, level.dirichlet_sides)
        self.index = np.empty((level.shape[0], 6), np.int64)
        vectors: list[Array] = []
        transposed: list[Array] = []
        values: list[Array] = []
        matrix_start = value_start = 0
        for n in sorted(set(level.n)):
            directions = np.array([a for a in range(3) if level.n[2 - a] == n])
            s, l, index = extended_eigenpairs(n, lengths[:, directions], kinds[:, directions])
            self.index[:, directions] = matrix_start + index * (n + 2) ** 2
            self.index[:, 3 + directions] = value_start + index * (n + 2)
            vectors.append(s.reshape(-1))
            transposed.append(s.transpose(0, 2, 1).reshape(-1))
            values.append(l.reshape(-1))
            matrix_start += s.size
            value_start += l.size
        self.vectors = _contiguous(np.concatenate(vectors), dtype)
        self.transposed = _contiguous(np.concatenate(transposed), dtype)
        self.values = _contiguous(np.concatenate(values), dtype)


class SchwarzLevel:
    """One level with its smoother. Construction is collective.

    z and r are flat arrays of `dtype` of the points of this rank's elements. Memory: 5 words a point besides the
    level's fields and factors.

    Parameters
    ----------
    damping : of W; by default 1 for boxes, and estimated for curved elements
    products : GENERATED or PLAIN (`tensor`)
    overlap : whether the exchanges overlap with computing (`GatherScatter`)

    Attributes
    ----------
    points : the gather-scatter of the level
    neighbours, faces : as in `schwarz_kernels`
    across : the gather-scatter of the slots of faces, or None
    share : the inverse multiplicity
    weight : W
    factors, lines : as in `make_residual`
    left : what `residual` returns, float [E n^3]
    """

    def __init__(
        self,
        comm: MPI.Comm,
        level: PolynomialLevel,
        dtype: DTypeLike,
        damping: float | None = None,
        *,
        products: int = GENERATED,
        overlap: bool = True,
    ) -> None:
        self.level, self.dtype = level, np.dtype(dtype)
        self.points = GatherScatter(comm, level.ids, overlap=overlap)
        self.points.compile(dtypes=(dtype,))
        self._find_neighbours(comm, overlap)
        self.eigenpairs = Eigenpairs(level, dtype)
        size, (nz, ny, nx) = int(np.prod(level.shape)), level.n
        face = max(nz * ny, nz * nx, ny * nx)
        slots = len(self.faces)
        self._mine, self._total = (np.zeros((slots, face), dtype) for _ in range(2))
        self._ghosts = np.zeros(level.shape[0] * 6 * face, dtype)
        self._work = np.zeros((4, (nz + 2) * (ny + 2) * (nx + 2)), dtype)
        self.share = _contiguous(self.points.inverse_multiplicity().reshape(-1), dtype)
        self._pack_layers, self._sweep, self._pack_ghosts, self._collect = make_sweep(nz, ny, nx, products)
        self._residual = make_residual(nz, ny, nx, level.mesh.axis_aligned, products)
        self._set_operator_arrays()
        compile_on_nodes(comm, self._compile)
        self._unweighted: Field = np.zeros(0, dtype)
        self.left = np.zeros(size, dtype)

        # The weight is the inverse of the number of extended elements that contain a point.
        ones = np.ones(size, dtype)
        self._ghosts[:] = 1.0
        self._exchange_ghosts()
        self._collect(self.neighbours, self._ghosts, self._mine, self._total, ones)
        self.points.sum(ones.reshape(level.shape))
        self.weight = np.ones(size, dtype)
        np.divide(1.0, ones, out=self.weight)
        if damping is None:
            damping = 1.0 if level.mesh.axis_aligned else self._find_damping(comm)
        self.damping = damping
        self.weight *= damping

    def _compile(self) -> None:
        """Compile the kernels, or load them from the cache."""
        kernels = [self._sweep, self._collect, self._residual]
        if self.across is not None:
            kernels += [self._pack_layers, self._pack_ghosts]
        compile_kernels(specialise(kernels, self.dtype))

    def _find_neighbours(self, comm: MPI.Comm, overlap: bool) -> None:
        """Find which element lies across each face, and plan the exchange of faces with other ranks."""
        level = self.level
        numbers = level.mesh.neighbours(level.positions)
        own = level.mesh.numbers(level.positions)
        order = np.argsort(own)
        local = order[np.minimum(np.searchsorted(own, numbers, sorter=order), len(own) - 1)]
        here = (own[local] == numbers) & level.mesh.regular
        self.neighbours = np.where(here, local, -1)
        # Where axes differ, faces of this rank travel through the exchange too, whose numbers match their points.
        remote = np.argwhere((numbers >= 0) & ~here)
        self.faces: Indices = np.ascontiguousarray(remote, np.int64)
        self.neighbours[remote[:, 0], remote[:, 1]] = -2 - np.arange(len(remote))
        ids = level.mesh.face_ids(level.positions[remote[:, 0]], remote[:, 1], level.n)
        needed = comm.size > 1 or not level.mesh.regular
        self.across = GatherScatter(comm, ids, overlap=overlap) if needed else None
        if self.across is not None:
            self.across.compile(dtypes=(self.dtype,))

    def _set_operator_arrays(self) -> None:
        """Set the matrices and factors for `make_residual`."""
        level, dtype = self.level, self.dtype
        matrices = level.derivatives
        if level.mesh.axis_aligned:
            matrices = tuple(d.T @ (w[:, None] * d) for d, w in zip(matrices, level.weights))  # type: ignore[assignment]
            wz, wy, wx = (w.reshape(s) for w, s in zip(level.weights, ((-1, 1, 1), (1, -1, 1), (1, 1, -1))))
            one = np.ones(level.n)
            self._cube = _contiguous(
                np.stack([c * one for c in (wz * wy, wz * wx, wy * wx)]).reshape(3, -1), dtype
            )
            self.factors = _contiguous(level.diagonal_factors, dtype)
        else:
            self._cube = np.zeros((3, 1), dtype)
            self.factors = _contiguous(level.factors.reshape(*level.factors.shape[:2], -1), dtype)
            # The factors are kept in `dtype` only.
            del level.__dict__["factors"]
        self.lines = tuple(_contiguous(m, dtype) for m in (*matrices, *(m.T for m in matrices)))

    def _exchange_ghosts(self) -> None:
        if self.across is not None:
            self._pack_ghosts(self._ghosts, self.faces, self._mine, self._total)
            self.across.sum(self._total)

    def _find_damping(self, comm: MPI.Comm, steps: int = 12) -> float:
        """Return min(1, 1.6 / largest eigenvalue of S K), estimated by the power method: S must not overshoot.

        On boxes the eigenvalue is known to be below 2, and nothing is damped. On skewed elements it is larger, and
        without damping the number of iterations doubles. A rough estimate is enough: between half the damping and all
        of it the numbers of iterations differ by 1.
        """
        place = self.level.ids.astype(np.float64)
        # The same vector on any number of ranks.
        u = np.sin(1.0 + 12.9898 * place).astype(self.dtype).reshape(-1)
        u[self.level.constrained.reshape(-1)] = 0
        z, zero = u, np.zeros_like(u)
        growth = 1.0
        for _ in range(steps):
            self.defect(zero, z)
            self.points.sum(self.left.reshape(self.level.shape))
            new = np.empty_like(u)
            self.smooth(self.left, new)
            new *= self.weight
            sums = np.array([(self.share * new * new).sum(), (self.share * z * z).sum()], np.float64)
            both = comm.allreduce(sums) if comm.size > 1 else sums
            growth = float(np.sqrt(both[0] / both[1])) if both[1] > 0 else 1.0
            if both[0] <= 0:
                break
            z = np.asarray(new / np.sqrt(both[0]), self.dtype)
        return min(1.0, 1.6 / growth) if growth > 0 else 1.0

    def smooth(self, r: Field, z: Field) -> None:
        """Set z = sum_e R_e^T K_e^-1 R_e r, assembled, not yet weighted. Reads r, writes and re-reads z."""
        if self.across is not None:
            self._pack_layers(r, self.faces, self._mine, self._total)
            self.across.sum(self._total)
        pairs = self.eigenpairs
        self._sweep(
            r,
            self.neighbours,
            self._mine,
            self._total,
            pairs.index,
            pairs.vectors,
            pairs.transposed,
            pairs.values,
            self._work,
            z,
            self._ghosts,
        )
        self._exchange_ghosts()
        self._collect(self.neighbours, self._ghosts, self._mine, self._total, z)
        self.points.sum(z.reshape(self.level.shape))

    def residual(self, r: Field, z: Field) -> Field:
        """Weight z in place and return the unassembled r / multiplicity - K z, overwritten by the next call."""
        self._residual(
            r, self.weight, self.share, self.factors, self._cube, self.lines, z, self._work, self.left
        )
        return self.left

    def defect(self, r: Field, z: Field) -> Field:
        """Return the unassembled r / multiplicity - K z of a z that is final, overwritten by the next call."""
        self._residual(
            r, self._unweighted, self.share, self.factors, self._cube, self.lines, z, self._work, self.left
        )
        return self.left

    def work(self) -> tuple[float, float]:
        """Return the least (flops, bytes) of one sweep and one residual.

        A sweep reads r and writes z, and adds up shared points (faces: 6 of n layers, both ways). A residual reads r,
        z, share and weight, and the factors of mapped elements, and writes z and the result.
        """
        elements, (nz, ny, nx) = self.level.shape[0], self.level.n
        points = nz * ny * nx
        wide = (nz + 2) * (ny + 2) * (nx + 2)
        mapped = not self.level.mesh.axis_aligned
        sweep = wide * (4.0 * (nz + ny + nx + 6) + 3.0)
        operator = points * ((4.0 if mapped else 2.0) * (nz + ny + nx) + (17.0 if mapped else 11.0))
        words = 2.0 + 6.0 + (6.0 if mapped else 0.0)
        return elements * (sweep + operator), elements * points * words * self.dtype.itemsize
