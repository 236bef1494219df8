"""The assembled Helmholtz operator h1 K + h2 B in GPU memory: the twin of `elements.operator.ElementOperator`.

An application launches one kernel for the elements, one for the copies of points and one for constrained points. On
several ranks, elements that share points with other ranks come first, and their points travel while the other
elements are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter, field_count
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.helmholtz_cuda import (
    THREADS,
    invert_diagonal,
    make_helmholtz,
    make_helmholtz_of_boxes,
    zero_points,
)
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.operator import operator_work, surface_work
from ridgeline.jit.cuda_device import DeviceArray, flat
from ridgeline.krylov.operator import Array, VectorPasses, timed, unfused_direction

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.runtime.regions import Regions

Points = NDArray[np.int64]


class CudaElementOperator:
    """h1 K + h2 B on continuous fields in the memory of this rank's GPU, for one component or several at once.

    Parameters
    ----------
    constrained : int64 arrays of the host, as in `ElementOperator`: flat places in a field whose values are given
    inner : the inner product of device fields (`CudaInnerProduct`), which only solvers need
    nullspace : whether constants are mapped to zero; by default, if h2 = 0 and no point of any rank is constrained
    regions : "helmholtz" and "gather-scatter" are charged as in `ElementOperator`, and "cg" with what the CPU fuses

    h1 and h2 may be set later; the caller must then compute a new diagonal and reset projections. Kernels go to the
    stream of `gather`. Construction is collective. Calls allocate nothing.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        geometry: CudaGeometry,
        gather: CudaGatherScatter,
        h1: float,
        h2: float,
        constrained: Points | Sequence[Points] = (),
        *,
        inner: VectorPasses | None = None,
        nullspace: bool | None = None,
        regions: Regions | None = None,
    ) -> None:
        self.grid, self.geometry, self.gather, self.regions = grid, geometry, gather, regions
        self._inner = inner
        self.h1, self.h2 = float(h1), float(h2)
        self.stream = gather.stream
        self._points = geometry.points
        self._for_all = isinstance(constrained, np.ndarray)
        lists = [constrained] if isinstance(constrained, np.ndarray) else list(constrained)
        given = comm.allreduce(sum(points.size for points in lists))
        self.nullspace = (self.h2 == 0.0 and given == 0) if nullspace is None else nullspace
        self._ends = np.cumsum([points.size for points in lists]).tolist()
        places = [np.asarray(points, np.int64) + c * self._points for c, points in enumerate(lists)]
        self._constrained = cuda.to_device(np.concatenate(places)) if given and self._ends[-1] else None
        self._inverse: DeviceArray | None = None
        g = geometry
        self._kernel, self._shape = (
            (make_helmholtz_of_boxes(g.n), (g.scale, g.volume, g.lines))
            if g.axis_aligned
            else (make_helmholtz(g.n), (g.factors, g.mass, g.derivative))
        )

    @property
    def inner(self) -> VectorPasses:
        """The inner product of device fields."""
        assert self._inner is not None, "this operator has no inner product"
        return self._inner

    def apply(self, u: DeviceArray, out: DeviceArray) -> None:
        """Set out = A u, assembled, zero at constrained points. u is not changed, and may be non-zero there.

        u, out: contiguous device arrays [E, n, n, n] or [c, E, n, n, n], not the same; u continuous. Passes: reads u
        (for curved elements 6 factors and, if h2 is not 0, the mass), writes out. One exchange with neighbours for
        all components; on one rank the host waits for nothing.
        """
        regions, count = self.regions, field_count(u)

        def compute(first: int, end: int) -> None:
            with timed(regions, "helmholtz"):
                self.apply_elements(self.gather.order, first, end, u, out)

        if regions is not None:
            regions.count("helmholtz", *operator_work(self.geometry.host, self.h2 != 0.0, count, 2))
        with timed(regions, "gather-scatter", *surface_work(self.grid, count)):
            self.gather.sum_computed(out, compute, self.stream)
            self.mask(out)

    def direction(
        self,
        r: DeviceArray,
        inverse_diagonal: DeviceArray,
        beta: Array,
        p: DeviceArray,
        w: DeviceArray,
        components: Sequence[int],
    ) -> Array:
        """Do what `krylov.operator.Operator.direction` says. Communication: neighbours.

        Passes besides `apply`: r and p of the given components and the diagonal are read and p is written; then p and
        w of all components are read, and the weights.
        """
        if self.regions is not None:
            given, count, n = len(components), len(beta), self._points
            self.regions.count("cg", 2.0 * n * (given + count), 8.0 * n * (3 * given + 2 * count + 2))
        return unfused_direction(self, r, inverse_diagonal, beta, p, w, components)

    def apply_elements(
        self, order: DeviceArray, first: int, end: int, u: DeviceArray, out: DeviceArray
    ) -> None:
        """Set out = (h1 K + h2 B) u, unassembled, on elements order[first:end] alone. No communication.

        order: int32 device array; u, out: as in `apply`.
        """
        if end <= first:
            return
        fields, layout, n = field_count(u), self.geometry.layout, self.geometry.n
        self._kernel[layout.blocks(end - first) * fields, (n, n, layout.elements), self.stream](
            order, first, end, fields, self._points, flat(u), self.h1, self.h2, *self._shape, flat(out)
        )

    def mask(self, u: DeviceArray) -> None:
        """Set u to zero at constrained points, in place. u: one component or several."""
        if self._constrained is None:
            return
        values, fields = flat(u), field_count(u)
        if not self._for_all:
            self._zero(self._constrained[: self._ends[fields - 1]], values)
            return
        for c in range(fields):
            self._zero(self._constrained, values[c * self._points : (c + 1) * self._points])

    def _zero(self, places: DeviceArray, values: DeviceArray) -> None:
        if places.size:
            zero_points[-(-places.size // THREADS), THREADS, self.stream](places, values)

    def inverse_diagonal(self) -> DeviceArray:
        """Return 1 / diagonal of A, assembled, device float64 [E, n, n, n], as if no point were constrained.

        It is the same array each time, computed anew from h1 and h2. The first call is collective; later calls are
        local, because the diagonals of K and B are kept.
        """
        if self._inverse is None:
            self._inverse = cuda.device_array(self._points, np.float64)
        invert_diagonal[-(-self._points // THREADS), THREADS, self.stream](
            self.h1, self.h2, self.geometry.stiffness_diagonal, self.geometry.assembled_mass, self._inverse
        )
        return self._inverse.reshape(self.grid.shape)
