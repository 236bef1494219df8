"""Cell-centred multigrid for the conjugate gradients of `krylov`: the operator, and one V-cycle as preconditioner.

Where cells differ in width, the equation divided by the cells' volumes is not symmetric. The operator here is the
equation times the volumes, which is, and its vectors are *weak*: right-hand sides and residuals are integrals over
cells. `CellOperator.integrate` turns b into one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.krylov.operator import InnerProduct, VectorPasses, unfused_direction

Array = NDArray[Any]


class CellOperator:
    """Apply the equation of a `CellMultigrid` times the cells' volumes, as an `Operator` of `krylov`.

    Parameters
    ----------
    multigrid : CellMultigrid
        A solver in float64, whose coefficients are set before.

    Notes
    -----
    Collective. Vectors are contiguous float64 arrays [nz, ny, nx] of this rank's cells.

    Examples
    --------
    With one rank, or with two ranks by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import CellMultigrid, CellOperator, decompose
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (8, 8, 8))
    >>> multigrid = CellMultigrid(cartesian, block, (0.5, 0.5, 0.5), ("periodic", "periodic", "periodic"))
    >>> operator = CellOperator(multigrid)
    >>> out = np.empty(block.shape_local)
    >>> operator.apply(np.ones(block.shape_local), out)
    >>> operator.nullspace, float(abs(out).max()), float(operator.volumes.max())
    (True, 0.0, 0.125)
    >>> multigrid.free()
    >>> cartesian.Free()
    """

    def __init__(self, multigrid: CellMultigrid) -> None:
        if multigrid.dtype != np.float64:
            raise ValueError("Conjugate gradients need a multigrid in float64.")
        self._multigrid = multigrid
        self.volumes = multigrid.volumes()
        self.nullspace = multigrid.singular
        self._inner = InnerProduct(multigrid.comm, np.ones_like(self.volumes), self.volumes)

    @property
    def inner(self) -> VectorPasses:
        """The inner product of vectors at cells."""
        return self._inner

    def integrate(self, b: Array) -> Array:
        """Return a right-hand side times the volumes."""
        return np.ascontiguousarray(b * self.volumes)

    def apply(self, u: Array, out: Array) -> None:
        """Set out = A u times the volumes. Collective: ghosts are exchanged."""
        self._multigrid.apply_operator(u, out)
        out *= self.volumes

    def direction(
        self, r: Array, inverse_diagonal: Array, beta: Array, p: Array, w: Array, components: Sequence[int]
    ) -> Array:
        return unfused_direction(self, r, inverse_diagonal, beta, p, w, components)


class CellPreconditioner:
    """Apply one V-cycle from zero, as a `Preconditioner` of `flexible_cg`.

    Parameters
    ----------
    multigrid : CellMultigrid
        The solver; in float32 it moves half the bytes, and conjugate gradients remain in float64.
    volumes : array [nz, ny, nx]
        Volumes of this rank's cells, by which residuals were multiplied: `CellOperator.volumes`.

    Notes
    -----
    Collective.

    Examples
    --------
    With one rank, or with two ranks by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import CellMultigrid, CellOperator, CellPreconditioner, decompose, flexible_cg
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (24, 24, 24))
    >>> multigrid = CellMultigrid(cartesian, block, (1.0, 1.0, 1.0), ("periodic", "periodic", "periodic"))
    >>> multigrid.set_coefficients(beta=np.random.default_rng(0).uniform(0.01, 1.0, block.shape_local))
    >>> operator = CellOperator(multigrid)
    >>> b = operator.integrate(np.random.default_rng(1).standard_normal(block.shape_local))
    >>> x = np.zeros(block.shape_local)
    >>> preconditioner = CellPreconditioner(multigrid, operator.volumes)
    >>> result = flexible_cg(operator, b, x, preconditioner, 0, 1e-8, 50, zero_guess=True)
    >>> result.converged
    True
    >>> multigrid.free()
    >>> cartesian.Free()
    """

    def __init__(self, multigrid: CellMultigrid, volumes: Array) -> None:
        self._multigrid, self._inverse_volumes = multigrid, 1.0 / volumes
        self.dtype = multigrid.dtype

    def apply(self, r: Array, z: Array) -> None:
        """Set z to about A^-1 r. Collective: one V-cycle."""
        self._multigrid.cycle(r * self._inverse_volumes, z)
