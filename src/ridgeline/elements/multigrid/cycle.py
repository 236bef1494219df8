"""Hybrid Schwarz multigrid: the preconditioner of the pressure's Poisson problem K p = f.

The levels are polynomial orders on the same elements: p, intermediate orders, and about 1 on the coarse level. Long
thin elements keep higher orders along their long directions, so that points are as dense there as across
(semi-coarsening); without that, iterations stall on stretched boxes. The cycle is additive over the overlapping
elements of a level (`schwarz`) and multiplicative between levels on the way down. With S the Schwarz sweep of a level
and J the interpolation from the next level, it computes

    z = S r;    z += J V(J^T (r - K z));    on the coarse level V is a direct solve or a cycle of algebraic multigrid.

This operator is not symmetric: use flexible Krylov methods. Everything is float32 by default. Sources: Lottes and
Fischer, J. Sci. Comput. 24 (2005) 45; Fischer and Lottes (2005); Hadri et al. (NekBox), Sec. 2.4. Oracle:
`schwarz_reference.ReferenceMultigrid`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.coarse.algebraic import AlgebraicCoarse
from ridgeline.elements.coarse.direct import WHOLE, CoarseSolver, DirectCoarse
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.multigrid.level import PolynomialLevel, level_orders
from ridgeline.elements.multigrid.schwarz import SchwarzLevel
from ridgeline.elements.multigrid.schwarz_kernels import make_transfer
from ridgeline.elements.quadrature import gll_interpolation
from ridgeline.elements.tensor import GENERATED
from ridgeline.jit.kernel import Specialisation, compile_kernels, specialise
from ridgeline.krylov.operator import timed
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.partition import Triple

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.runtime.regions import Regions

Field = NDArray[Any]


class LevelTransfer:
    """The interpolation J from a coarse to a fine level, and J^T.

    lines: J_z, J_y, J_x [fine, coarse], and their transposes.
    """

    def __init__(
        self, fine: PolynomialLevel, coarse: PolynomialLevel, dtype: DTypeLike, products: int
    ) -> None:
        matrices = [gll_interpolation(a, b) for a, b in zip(coarse.n, fine.n)]
        # These are copies, because the kernels are compiled for arrays that can be written.
        self.lines = tuple(np.array(m, dtype, order="C") for m in (*matrices, *(m.T for m in matrices)))
        self._work = np.zeros((2, int(np.prod(fine.n))), dtype)
        self._restrict, self._prolong = make_transfer(*fine.n, *coarse.n, products)
        # An element costs products with matrices of the fine and of the coarse sizes, in either direction.
        (nz, ny, nx), (cz, cy, cx) = fine.n, coarse.n
        self.flops = 2.0 * fine.shape[0] * (cz * nz * ny * nx + cz * cy * ny * nx + cz * cy * cx * nx)

    def kernels(self) -> list[Specialisation]:
        """Return the kernels to compile."""
        return specialise([self._restrict, self._prolong], self._work.dtype)

    def restrict(self, left: Field, below: Field) -> None:
        """Set below = J^T left, unassembled."""
        self._restrict(left, self.lines, self._work, below)

    def prolong(self, below: Field, z: Field) -> None:
        """Add J below to z."""
        self._prolong(below, self.lines, self._work, z)


class SchwarzMultigrid:
    """z ~ K^-1 r for the stiffness matrix K of `geometry`: a `krylov.operator.Preconditioner`.

    Construction is collective. apply() allocates nothing.

    Parameters
    ----------
    dirichlet_sides : where z = 0; if there are none, z is determined up to a constant
    orders : triples (z, y, x) from grid.order down to the coarse level; by default `level_orders`
    coarse : "direct" (axis-aligned boxes only), "amg", or "auto": direct where it is possible and the problem is
        small
    regions : the work is charged to the regions "schwarz", "transfer" and "coarse"
    products : GENERATED or PLAIN (`tensor`)
    overlap : whether the exchanges overlap with computing (`GatherScatter`)

    Raises
    ------
    ValueError
        If the orders or the coarse solver do not fit the mesh.
    """

    def __init__(
        self,
        grid: ElementGrid,
        geometry: ElementGeometry,
        comm: MPI.Comm,
        dirichlet_sides: Sequence[str] = (),
        orders: Sequence[Triple] | None = None,
        dtype: DTypeLike = "float32",
        coarse: Literal["auto", "direct", "amg"] = "auto",
        regions: Regions | None = None,
        products: int = GENERATED,
        overlap: bool = True,
    ) -> None:
        self.dtype, self.regions = np.dtype(dtype), regions
        self.regular = grid.mesh.regular
        if orders is None:
            inverse = (1.0 / grid.mesh.extents(grid.positions)).sum(axis=0)
            total = comm.allreduce(inverse) if comm.size > 1 else inverse
            # Where the axes of neighbours differ, the short direction of an element is not a direction of the mesh.
            orders = level_orders(grid.order, tuple(1.0 / total[::-1]) if grid.mesh.regular else (1.0,) * 3)
        if len(orders) < 2 or tuple(orders[0]) != (grid.order,) * 3:
            raise ValueError(
                f"the orders of multigrid are {orders}. They must be at least two triples, the first of order "
                f"{grid.order}."
            )
        self.orders = [tuple(triple) for triple in orders]
        sides = tuple(dirichlet_sides)
        levels = [PolynomialLevel(grid.mesh, grid.positions, (z, y, x), sides) for z, y, x in orders]
        if not grid.mesh.axis_aligned:
            levels[0].factors = geometry.factors
        if coarse == "direct" and not grid.mesh.axis_aligned:
            raise ValueError('coarse = "direct" requires an axis-aligned box. Use "amg".')
        small = levels[-1].n_unique <= WHOLE
        self.coarse: CoarseSolver
        if coarse == "direct" or (coarse == "auto" and grid.mesh.axis_aligned and small):
            self.coarse = DirectCoarse(comm, levels[-2], levels[-1], self.dtype)
        else:
            self.coarse = AlgebraicCoarse(comm, levels[-2], levels[-1], self.dtype, overlap=overlap)
        self.levels = [
            SchwarzLevel(comm, level, dtype, products=products, overlap=overlap) for level in levels[:-1]
        ]
        self.transfers = [LevelTransfer(a, b, dtype, products) for a, b in pairwise(levels)]
        sizes = [int(np.prod(level.shape)) for level in levels]
        self._r = [np.zeros(size, dtype) for size in sizes]
        self._z = [np.zeros(size, dtype) for size in sizes]
        compile_on_nodes(comm, self._compile)
        self._work = [level.work() for level in self.levels]

    def _compile(self) -> None:
        compile_kernels(each for transfer in self.transfers for each in transfer.kernels())

    def apply(self, r: NDArray[np.float64], z: Field) -> None:
        """Set z = M r. r: float64 [E, n, n, n], assembled; z: of any float dtype and that shape, continuous."""
        self._r[0][:] = r.reshape(-1)
        self._down(0)
        if not self.regular:
            # Elements with different axes round the corrections of lower orders differently.
            finest = self.levels[0]
            finest.points.sum(self._z[0].reshape(finest.level.shape))
            self._z[0] *= finest.share
        np.copyto(z.reshape(-1), self._z[0])

    def _down(self, place: int) -> None:
        r, z = self._r[place], self._z[place]
        if place == len(self.levels):
            with timed(self.regions, "coarse"):
                self.coarse.solve(r, z)
            return
        level, transfer = self.levels[place], self.transfers[place]
        work = self._work[place]
        below = self._r[place + 1]
        with timed(self.regions, "schwarz", *work):
            level.smooth(r, z)
            left = level.residual(r, z)
        with timed(self.regions, "transfer", transfer.flops, below.dtype.itemsize * (left.size + below.size)):
            transfer.restrict(left, below)
            if place + 1 < len(self.levels):
                next_level = self.levels[place + 1]
                next_level.points.sum(below.reshape(next_level.level.shape))
        self._down(place + 1)
        with timed(
            self.regions, "transfer", transfer.flops, below.dtype.itemsize * (2 * left.size + below.size)
        ):
            transfer.prolong(self._z[place + 1], z)

    def describe(self) -> str:
        """Return one line that names the orders, the smoother and the coarse solver."""
        names = " -> ".join("x".join(map(str, triple)) for triple in self.orders)
        return f"Schwarz multigrid, orders (z, y, x) {names}, {self.dtype}, coarse: {self.coarse.describe()}"
