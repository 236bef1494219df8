"""Projections of velocities on blocks: face velocities exactly, cell-centred velocities approximately.

`MacProjection` makes velocities at faces free of divergence: it solves D G phi = D u at cells, where G is the
difference of two cells and D the difference of two faces, so that the new divergence is the residual of the solver.
`NodalProjection` makes velocities at cell centres approximately free of divergence: phi lies at nodes, and solves

    sum over cells of the integral of (u - grad phi) . grad w_n = 0   for the trilinear function w_n of each node n,

and u -= G phi, the mean of grad phi over each cell. The operator on phi is the stencil of 27 points of finite
elements and not D G, whose stencil has modes that oscillate from node to node and that a velocity does not see.
What remains of the divergence is of second order in the widths for smooth velocities, and does not accumulate: a
second projection reduces it again.

Velocities are given along (z, y, x), as all triples of the package. docs/theory-projection.md derives both. Sources:
Chorin, Mathematics of Computation 22 (1968) 745; Harlow and Welch, Physics of Fluids 8 (1965) 2182, for velocities at
faces; Bell, Colella and Glaz, J. Comput. Phys. 85 (1989) 257; Almgren, Bell and Szymczak, SIAM J. Sci. Comput. 17
(1996) 358, for the approximate nodal projection; Almgren, Bell, Colella, Howell and Welcome, J. Comput. Phys. 142
(1998) 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.multigrid.axis_tables import AxisSides, Condition
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.blocks.multigrid.levels import axis_widths
from ridgeline.blocks.multigrid.nodal_levels import layout_of
from ridgeline.blocks.multigrid.nodes import NodalMultigrid
from ridgeline.blocks.multigrid.result import MultigridResult
from ridgeline.blocks.projection_kernels import (
    HALF_LEFT,
    HALF_RIGHT,
    PER_DISTANCE,
    PER_WIDTH,
    SLOPE_LEFT,
    SLOPE_RIGHT,
    add_cell_gradient,
    set_face_divergence,
    set_nodal_divergence,
    subtract_face_gradient,
)
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.communicator import compile_on_nodes

FlowSide = Literal["wall", "slip", "inflow", "outflow"]
FlowSides = Literal["periodic"] | tuple[FlowSide, FlowSide]
Velocity = Sequence[BlockArray]
WORK_ROWS = 3


class CellSolver(Protocol):
    """What solves -div grad phi = b at cells for `MacProjection`: `CellMultigrid`, or a direct solver in tests.

    phi is zero at outflow and has no gradient at the other sides.
    """

    def solve(
        self, b: BlockArray, x: BlockArray, tolerance: float, max_cycles: int, *, absolute: float
    ) -> Any:
        """Solve from the guess in x to max |b - A x| <= max(tolerance max |b|, absolute).

        One layer of ghosts of x is filled, beyond sides by mirror images, at outflow by their negative. Collective.
        """


def multigrid_sides(sides: Sequence[FlowSides]) -> list[AxisSides]:
    """Return the sides of phi for sides of a flow: phi = 0 at outflow, and no gradient where the velocity is given.

    Raises
    ------
    ValueError
        For a side that does not exist.
    """
    found: list[AxisSides] = []
    for pair, axis in zip(sides, "zyx", strict=True):
        if pair == "periodic":
            found.append("periodic")
            continue
        if len(pair) != 2 or any(side not in ("wall", "slip", "inflow", "outflow") for side in pair):
            raise ValueError(
                f'sides of {axis}: {pair!r} is not "periodic" or a pair of "wall", "slip", "inflow" and "outflow", '
                f"lower side first."
            )
        kinds: list[Condition] = ["dirichlet" if side == "outflow" else "neumann" for side in pair]
        found.append((kinds[0], kinds[1]))
    return found


class NodalProjection:
    """Make a cell-centred velocity approximately free of divergence.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks of the blocks (`blocks.cartesian.decompose`).
    block : Block
        The cells of this rank, with at least one layer of ghosts.
    widths : sequence of three floats or arrays
        Widths of the cells of the whole grid along (z, y, x).
    sides : sequence of three
        For each axis "periodic" or the pair of its lower and upper side: "wall" or "slip" (nothing flows through),
        "inflow" (the velocity beyond the side flows through) or "outflow" (phi = 0).
    dtype : dtype
        Of the velocity and phi, float64 or float32.

    Attributes
    ----------
    solver : NodalMultigrid
        The solver of phi.
    phi : BlockArray
        The potential at the nodes, with one layer of ghosts.

    Raises
    ------
    ValueError
        For sides or widths that do not fit the block.

    Notes
    -----
    Collective. Besides the solver, a projection reads and writes 3 + 1 words for the divergence and 4 + 3 for the
    correction, a cell. The results have the same bits on any ranks.

    The mean of the velocity over a periodic box does not change, up to rounding: the gradients sum to zero.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`, a gradient is taken out of a velocity:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import BlockArray, HaloExchange, NodalProjection, decompose
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (32, 32, 32))
    >>> velocity = [BlockArray.allocate(block, "float64") for _ in range(3)]
    >>> velocity[2].owned[...] = np.cos(2 * np.pi * (np.arange(32) + 0.5) / 32)
    >>> halo = HaloExchange.of_fields(cartesian, [velocity], corners=True, method="pack")
    >>> halo.exchange()
    >>> projection = NodalProjection(cartesian, block, (1 / 32,) * 3, ("periodic",) * 3)
    >>> projection.project(velocity).converged, float(abs(velocity[2].owned).max()) < 0.005
    (True, True)
    >>> projection.free(), halo.free(), cartesian.Free()
    (None, None, None)
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Sequence[float | NDArray[Any]],
        sides: Sequence[FlowSides],
        *,
        dtype: DTypeLike = "float64",
    ) -> None:
        self.solver = self._make_solver(comm, block, widths, sides, dtype)
        kind = self.solver.dtype
        kernels = specialise([set_nodal_divergence, add_cell_gradient], kind)
        compile_on_nodes(comm, lambda: compile_kernels(kernels))
        self.phi = self.solver.x
        nodes = self.solver.block
        self._nodes = np.array(nodes.shape_local, np.int64)
        self._cells = np.array(block.shape_local, np.int64)
        self._shape = block.shape_local
        self._at_nodes, self._at_cells = [], []
        for axis, side in enumerate(sides):
            all_widths = axis_widths(widths[axis], block.shape_global[axis], "zyx"[axis])
            first, n = nodes.offset_global[axis], nodes.shape_local[axis]
            self._at_nodes.append(node_table(all_widths, side, first, n).astype(kind))
            self._at_cells.append(cell_table(all_widths, side, first, block.shape_local[axis]).astype(kind))
        self._work = np.zeros((WORK_ROWS, nodes.shape_local[2] + 2), kind)

    def _make_solver(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Sequence[float | NDArray[Any]],
        sides: Sequence[FlowSides],
        dtype: DTypeLike,
    ) -> NodalMultigrid:
        return NodalMultigrid(comm, block, widths, multigrid_sides(sides), dtype=dtype)

    def set_divergence(self, velocity: Velocity) -> None:
        """Set `solver.b` to minus the divergence of a velocity, integrated with the function of each node.

        Parameters
        ----------
        velocity : sequence of three BlockArrays
            Along (z, y, x), on the block of cells, with one layer of ghosts filled, edges and corners included.
            Beyond an inflow side the ghost of the component across it holds the given velocity; other ghosts beyond
            sides must be finite and do not count.
        """
        check_fields(velocity, self._shape)
        z, y, x = velocity
        b = self.solver.b
        set_nodal_divergence(
            (z.flat, y.flat, x.flat), layout_of(z), tuple(self._at_nodes), self._nodes, b.flat, layout_of(b),
            self._work
        )  # fmt: skip

    def add_gradient(self, phi: BlockArray, factor: float, fields: Velocity) -> None:
        """Add factor times the mean of grad phi over each cell to three fields of cells, along (z, y, x).

        phi lies at the nodes of `solver.block`, with one layer of ghosts filled.
        """
        check_fields(fields, self._shape)
        z, y, x = fields
        kind: Any = self.solver.dtype.type
        add_cell_gradient(
            phi.flat, layout_of(phi), tuple(self._at_cells), self._cells, kind(factor), (z.flat, y.flat, x.flat),
            layout_of(z), self._work,
        )  # fmt: skip

    def project(
        self,
        velocity: Velocity,
        tolerance: float = 1e-8,
        max_cycles: int = 50,
        *,
        absolute: float = 0.0,
        keep_guess: bool = False,
    ) -> MultigridResult:
        """Solve for phi, and subtract its gradient from the owned cells of a velocity.

        Parameters
        ----------
        velocity : sequence of three BlockArrays
            As for `set_divergence`. The ghosts are not changed, and thus old afterwards.
        tolerance, max_cycles, absolute
            As for `NodalMultigrid.solve`.
        keep_guess : bool
            Begin with the phi that is there, instead of zero.

        Returns
        -------
        MultigridResult
            How the solve ended. The velocity is corrected in any case.

        Notes
        -----
        Collective. Sides without outflow must let in as much as they let out, otherwise no phi exists
        and the residual stays at the excess.
        """
        self.set_divergence(velocity)
        if not keep_guess:
            self._clear(self.phi)
        result = self.solver.solve(None, None, tolerance, max_cycles, absolute=absolute)
        self.add_gradient(self.phi, -1.0, velocity)
        return result

    def _clear(self, field: BlockArray) -> None:
        field.flat[:] = 0

    def free(self) -> None:
        """Free the solver. Collective."""
        self.solver.free()


class MacProjection:
    """Make velocities at faces free of divergence.

    The velocities are three fields of the block of cells, along (z, y, x): face i lies at the low side of cell i, and
    the last face of an axis in the first ghost at the upper end.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks of the blocks.
    block : Block
        The cells of this rank, with at least one layer of ghosts.
    widths, sides
        As for `NodalProjection`. The velocities through walls, slip walls and inflow sides are given, and not
        changed.
    solver : CellSolver or None
        Solves for phi, with the sides of `multigrid_sides`; by default a `CellMultigrid`, which `free` frees.
    dtype : dtype
        float64 or float32.

    Attributes
    ----------
    phi, b : BlockArray
        The potential at the cells, with one layer of ghosts, and minus the divergence.

    Raises
    ------
    ValueError
        For sides or widths that do not fit the block.

    Notes
    -----
    Collective. Besides the solver, a projection reads and writes 3 + 1 words for the divergence and 4 +
    3 for the correction, a cell. The last faces are corrected by both neighbours alike, so that the divergence of
    the owned cells needs no exchange afterwards.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`, random velocities:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import BlockArray, HaloExchange, MacProjection, decompose
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (16, 16, 16))
    >>> faces = [BlockArray.allocate(block, "float64") for _ in range(3)]
    >>> for field in faces:
    ...     field.owned[...] = np.random.default_rng(cartesian.rank).standard_normal(block.shape_local)
    >>> halo = HaloExchange.of_fields(cartesian, [faces], method="pack")
    >>> halo.exchange()
    >>> mac = MacProjection(cartesian, block, (1.0, 1.0, 1.0), ("periodic",) * 3)
    >>> mac.project(faces).converged
    True
    >>> mac.set_divergence(faces, mac.b)
    >>> float(abs(mac.b.owned).max()) < 1e-8
    True
    >>> mac.free(), halo.free(), cartesian.Free()
    (None, None, None)
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Sequence[float | NDArray[Any]],
        sides: Sequence[FlowSides],
        solver: CellSolver | None = None,
        *,
        dtype: DTypeLike = "float64",
    ) -> None:
        z, y, x = multigrid_sides(sides)
        kind = np.dtype(dtype)
        self._own = None if solver else CellMultigrid(comm, block, widths, (z, y, x), dtype=kind)
        kernels = specialise([set_face_divergence, subtract_face_gradient], kind)
        compile_on_nodes(comm, lambda: compile_kernels(kernels))
        chosen = solver or self._own
        assert chosen is not None
        self.solver: CellSolver = chosen
        self._kind = kind
        self.phi, self.b = (BlockArray.allocate(block, kind) for _ in range(2))
        self._shape, self._cells = block.shape_local, np.array(block.shape_local, np.int64)
        self._tables = tuple(
            cell_table(
                axis_widths(widths[axis], block.shape_global[axis], "zyx"[axis]),
                sides[axis],
                block.offset_global[axis],
                block.shape_local[axis],
            ).astype(kind)
            for axis in range(3)
        )

    def set_divergence(self, faces: Velocity, out: BlockArray, factor: float = 1.0) -> None:
        """Set the owned cells of `out` to factor times the divergence of velocities at faces."""
        check_fields(faces, self._shape)
        z, y, x = faces
        kind: Any = self._kind.type
        set_face_divergence(
            (z.flat, y.flat, x.flat), layout_of(z), self._tables, self._cells, kind(factor), out.flat,
            layout_of(out),
        )  # fmt: skip

    def project(
        self,
        faces: Velocity,
        tolerance: float = 1e-10,
        max_cycles: int = 50,
        *,
        absolute: float = 0.0,
        keep_guess: bool = False,
    ) -> Any:
        """Solve for phi, and subtract its gradient from the faces of the owned cells, the last ones included.

        Parameters
        ----------
        faces : sequence of three BlockArrays
            The velocities; those of the owned cells and of the first ghosts at the upper ends must be there.
        tolerance, max_cycles, absolute
            As the solver takes them.
        keep_guess : bool
            Begin with the phi that is there, instead of zero.

        Returns
        -------
        object
            What the solver returns.

        Notes
        -----
        Collective.
        """
        self.set_divergence(faces, self.b, -1.0)
        if not keep_guess:
            self._clear(self.phi)
        result = self.solver.solve(self.b, self.phi, tolerance, max_cycles, absolute=absolute)
        self.subtract_gradient(faces)
        return result

    def subtract_gradient(self, faces: Velocity) -> None:
        """Subtract the gradient of phi, whose first ghosts are filled, from the faces of the owned cells."""
        z, y, x = faces
        subtract_face_gradient(
            self.phi.flat, layout_of(self.phi), self._tables, self._cells, (z.flat, y.flat, x.flat), layout_of(z)
        )  # fmt: skip

    def _clear(self, field: BlockArray) -> None:
        field.flat[:] = 0

    def free(self) -> None:
        """Free the solver, unless it was given. Collective."""
        if self._own is not None:
            self._own.free()


def node_table(widths: NDArray[Any], sides: FlowSides, first: int, n: int) -> NDArray[np.float64]:
    """Return the table of the nodes of an axis for `set_nodal_divergence`, [4, n], from global node `first` on."""
    cells, table = len(widths), np.zeros((4, n))
    for place in range(n):
        node = first + place
        has_left, has_right = (True, True) if sides == "periodic" else (node > 0, node < cells)
        # Beyond an inflow side there is no volume, but the velocity there flows through the side.
        table[SLOPE_LEFT, place] = has_left or sides[0] == "inflow"
        table[SLOPE_RIGHT, place] = has_right or sides[1] == "inflow"
        table[HALF_LEFT, place] = widths[node - 1] / 2 if has_left else 0.0
        table[HALF_RIGHT, place] = widths[node % cells] / 2 if has_right else 0.0
    return table


def cell_table(widths: NDArray[Any], sides: FlowSides, first: int, n: int) -> NDArray[np.float64]:
    """Return the table of the cells of an axis, [2, n + 1]: 1 / width, and 1 / distance of centres at lower faces.

    The second is zero at sides where the velocity is given. At outflow, phi is mirrored with the opposite sign, and
    the distance is a whole width.
    """
    cells, table = len(widths), np.zeros((2, n + 1))
    table[PER_WIDTH, :n] = 1 / widths[first : first + n]
    for place in range(n + 1):
        face = first + place
        if sides == "periodic" or 0 < face < cells:
            table[PER_DISTANCE, place] = 2 / (widths[face - 1] + widths[face % cells])
        elif sides[0 if face == 0 else 1] == "outflow":
            table[PER_DISTANCE, place] = 1 / widths[0 if face == 0 else -1]
    return table


def check_fields(fields: Velocity, shape: tuple[int, int, int]) -> None:
    """Raise ValueError unless three fields lie on the block, in one layout, with at least one layer of ghosts."""
    if len(fields) != 3:
        raise ValueError(f"A velocity has three fields, along z, y and x, but {len(fields)} are given.")
    for field in fields:
        if field.block.shape_local != shape or field.block.ghost < 1 or field.origin != fields[0].origin:
            raise ValueError(
                f"A field of the velocity has {field.block.shape_local} cells and {field.block.ghost} layers of "
                f"ghosts, but {shape} cells and the same ghosts for all three, at least one layer, are needed."
            )
