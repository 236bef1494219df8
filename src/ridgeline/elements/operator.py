"""The assembled Helmholtz operator h1 K + h2 B of spectral elements, K the stiffness and B the mass matrix.

    A = M Q Q^T (h1 K_L + h2 B_L) M,   M u = 0 at constrained points,

K_L and B_L work element by element (elements/helmholtz.py); Q Q^T is the gather-scatter (elements/gather_scatter.py).
Elements that share points with other ranks are computed first, and their points travel while the other elements are
computed. Points of this rank alone are summed while the elements that were just computed are in cache. The solvers of
`krylov` take the operator as it is.

Source: Deville, Fischer, Mund, "High-Order Methods for Incompressible Fluid Flow", 2002, Sec. 4.4-4.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.helmholtz import make_diagonal, make_helmholtz, make_helmholtz_cg
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.tensor import GENERATED
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.krylov.kernels import zero_points
from ridgeline.krylov.operator import Array, InnerProduct, timed
from ridgeline.parallel.communicator import compile_on_nodes

if TYPE_CHECKING:
    from ridgeline.elements.gather_scatter import GatherScatter
    from ridgeline.runtime.regions import Regions

Points = NDArray[np.int64]


class ElementOperator:
    """Apply h1 K + h2 B, that is h1 (-laplacian) + h2, to continuous fields of one component or of several.

    It is a `krylov.operator.Operator`. h1 and h2 may be set later; the caller must then compute a new diagonal and
    reset projections.

    Parameters
    ----------
    grid : ElementGrid
        The elements of this rank.
    geometry : ElementGeometry
        Their geometry.
    gather_scatter : GatherScatter
        The sums over their shared points.
    h1, h2 : float
        The factors of the stiffness and of the mass matrix.
    constrained : array or sequence of arrays
        int64, flat places in a field of this rank whose values are given (all copies of a point). One array is for
        all components; a sequence of such arrays has one per component.
    inner : InnerProduct or None
        The inner product, shared by operators on the same points; by default a new one with the assembled mass
        matrix.
    nullspace : bool or None
        Whether constants are mapped to zero; by default, if h2 = 0 and no point of any rank is constrained.
    regions : Regions or None
        The work is charged to its regions "helmholtz" and "gather-scatter".
    products : int
        GENERATED or PLAIN, the code of the small matrix products (`tensor`).

    Notes
    -----
    Collective.

    Examples
    --------
    The integral of |grad x|^2 over a box, with two ranks, started by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.elements.gather_scatter import GatherScatter
    >>> from ridgeline.elements.geometry import ElementGeometry
    >>> from ridgeline.elements.mesh import BoxMesh, ElementGrid
    >>> from ridgeline.elements.operator import ElementOperator
    >>> comm = MPI.COMM_WORLD
    >>> grid = ElementGrid(BoxMesh.box((1, 1, 2), (1.0, 1.0, 3.0)), 3, comm.size, comm.rank)
    >>> geometry, sums = ElementGeometry(grid), GatherScatter(comm, grid.ids)
    >>> operator = ElementOperator(grid, geometry, sums, h1=1.0, h2=0.0)
    >>> x, out = geometry.coordinates[0], np.empty(grid.shape)
    >>> operator.apply(x, out)
    >>> round(float(operator.inner.dot(x, out)[0]), 12)
    3.0
    """

    def __init__(
        self,
        grid: ElementGrid,
        geometry: ElementGeometry,
        gather_scatter: GatherScatter,
        h1: float,
        h2: float,
        constrained: Points | Sequence[Points] = (),
        *,
        inner: InnerProduct | None = None,
        nullspace: bool | None = None,
        regions: Regions | None = None,
        products: int = GENERATED,
    ) -> None:
        self.grid, self.geometry, self.gather_scatter, self.regions = grid, geometry, gather_scatter, regions
        self.h1, self.h2 = float(h1), float(h2)
        self.constrained = (
            [np.ascontiguousarray(constrained, np.int64)]
            if isinstance(constrained, np.ndarray)
            else [np.ascontiguousarray(points, np.int64) for points in constrained]
        )
        comm = gather_scatter.comm
        given = comm.allreduce(sum(points.size for points in self.constrained))
        self.nullspace = (self.h2 == 0.0 and given == 0) if nullspace is None else nullspace
        self._apply: Callable[..., None]
        self._direction: Callable[..., float]
        compile_on_nodes(comm, lambda: self._compile(products))
        g = geometry
        self._geometry_arrays = (g.scale, g.volume, g.factors, g.mass, g.derivative, g.weights)
        self.inner = inner or element_inner_product(geometry, gather_scatter)

    def _compile(self, products: int) -> None:
        kind = (self.grid.n, "float64", self.geometry.axis_aligned, products)
        self._apply, self._direction = make_helmholtz(*kind), make_helmholtz_cg(*kind)
        compile_kernels(specialise([zero_points]))

    def apply(self, u: Array, out: Array) -> None:
        """Set out = A u, assembled, zero at constrained points. u is not changed, and may be non-zero there.

        u, out: float64 [E, n, n, n] or [c, E, n, n, n], contiguous; u continuous. Passes: reads u (for curved
        elements 6 factors and, if h2 is not 0, the mass), writes out. One exchange with neighbours for all
        components.
        """
        fields, results = self._fields(u), self._fields(out)

        def compute(c: int, elements: Points) -> None:
            self._apply(elements, fields[c], self.h1, self.h2, *self._geometry_arrays, results[c])

        self._assemble(compute, results, 0, len(fields), 2)

    def apply_elements(self, elements: Points, u: Array, out: Array) -> None:
        """Set out = (h1 K + h2 B) u, unassembled, on some elements alone. No communication. u, out: as in `apply`."""
        for field, result in zip(self._fields(u), self._fields(out)):
            self._apply(elements, field, self.h1, self.h2, *self._geometry_arrays, result)

    def direction(
        self, r: Array, inverse_diagonal: Array, beta: Array, p: Array, w: Array, components: Sequence[int]
    ) -> Array:
        """Set p = inverse_diagonal r + beta p and w = A p; return this rank's share of p.w (`Operator.direction`).

        One pass, in which an element stays in cache: reads r, inverse_diagonal, p and the geometry as in `apply`,
        writes p and w.
        """
        residuals, directions, results = self._fields(r), self._fields(p), self._fields(w)
        diagonal, shares = self._fields(inverse_diagonal), np.zeros(len(beta))

        def compute(c: int, elements: Points) -> None:
            shares[c] += self._direction(
                elements,
                residuals[c],
                diagonal[c if len(diagonal) > 1 else 0],
                float(beta[c]),
                directions[c],
                self.h1,
                self.h2,
                *self._geometry_arrays,
                results[c],
            )

        for first, end in _runs(components):
            self._assemble(compute, results, first, end, 5)
        return shares

    def _assemble(
        self, compute: Callable[[int, Points], None], results: Array, first: int, end: int, words: int
    ) -> None:
        """Compute components first ... end - 1 of results, boundary elements first, and sum their shared points."""
        regions, count = self.regions, end - first
        # The geometry of a curved element is read once for all components.
        batch = 1 if self.geometry.axis_aligned else count

        def chunk(components: range, elements: Points) -> None:
            with timed(regions, "helmholtz"):
                for c in components:
                    compute(first + c, elements)

        if regions is not None:
            regions.count("helmholtz", *operator_work(self.geometry, self.h2 != 0.0, count, words))
        with timed(regions, "gather-scatter", *surface_work(self.grid, count)):
            self.gather_scatter.sum_computed(results[first:end], chunk, batch)
            for c in range(first, end):
                points = self._constrained(c)
                if points.size:
                    zero_points(results[c].reshape(1, -1), points)

    def _constrained(self, c: int) -> Points:
        if not self.constrained:
            return np.empty(0, np.int64)
        return self.constrained[c if len(self.constrained) > 1 else 0]

    def _fields(self, u: Array) -> Array:
        return u.reshape(-1, *self.grid.shape)

    def inverse_diagonal(self) -> Array:
        """Return 1 / diagonal of A, assembled, float64 [E, n, n, n], for all components, as if none were constrained.

        Collective: one exchange with neighbours, and a communicator that is split by nodes. The first call compiles
        the kernel, and every call allocates the diagonal: call it at set-up, or when h1 or h2 changes.
        """
        diagonal = np.empty(self.grid.shape)

        def compile_diagonal() -> None:
            make_diagonal(self.grid.n, "float64", self.geometry.axis_aligned)

        compile_on_nodes(self.gather_scatter.comm, compile_diagonal)
        kernel: Any = make_diagonal(self.grid.n, "float64", self.geometry.axis_aligned)
        kernel(np.arange(self.grid.n_elements), self.h1, self.h2, *self._geometry_arrays, diagonal)
        self.gather_scatter.sum(diagonal)
        return np.asarray(1.0 / diagonal)

    def mask(self, u: Array) -> None:
        """Set u to zero at constrained points, in place. u: one component or several."""
        for c, field in enumerate(self._fields(u)):
            zero_points(field.reshape(1, -1), self._constrained(c))


def operator_work(geometry: ElementGeometry, with_mass: bool, count: int, words: int) -> tuple[float, float]:
    """Return the least (flops, bytes) of an application to `count` components.

    words: read and written per point besides the geometry: 2, or 5 for a direction of conjugate gradients.
    """
    n, points = geometry.grid.n, geometry.grid.n_points
    if geometry.axis_aligned:
        flops, shared = 6 * n + 1, 0
    else:
        flops, shared = 12 * n + 15 + 2 * with_mass, 6 + with_mass
    is_direction = words > 2
    flops += 4 if is_direction else 0  # p = z + beta p, and p.w
    per_component = words - is_direction
    shared += is_direction  # the diagonal is read once for all components
    return float(flops * points * count), 8.0 * points * (per_component * count + shared)


def surface_work(grid: ElementGrid, count: int) -> tuple[float, float]:
    """Return the least (flops, bytes) of a gather-scatter of `count` fields, which goes over element surfaces."""
    n = grid.n
    surface = grid.n_elements * (n**3 - max(n - 2, 0) ** 3)
    return float(surface * count), 16.0 * surface * count


def element_inner_product(geometry: ElementGeometry, gather_scatter: GatherScatter) -> InnerProduct:
    """Return the inner product with the assembled mass matrix. Collective: two exchanges and an Allreduce."""
    mass = geometry.mass.copy()
    gather_scatter.sum(mass)
    return InnerProduct(gather_scatter.comm, gather_scatter.inverse_multiplicity(), mass)


def _runs(components: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield [first, end) of the runs of neighbouring numbers in an ascending sequence."""
    start = 0
    for place in range(1, len(components) + 1):
        if place == len(components) or components[place] != components[place - 1] + 1:
            yield components[start], components[place - 1] + 1
            start = place
