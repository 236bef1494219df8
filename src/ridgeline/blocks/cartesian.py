"""The ranks of a run laid out over a [z, y, x] grid: one Cartesian communicator, one block per rank."""

from typing import Literal

from mpi4py import MPI

from ridgeline.blocks.block import Block, check_process_grid, choose_process_grid
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.errors import DecompositionError


def decompose(
    comm: MPI.Comm,
    shape_global: Triple,
    process_grid: Literal["auto"] | Triple = "auto",
    periodic: tuple[bool, bool, bool] = (True, True, True),
    ghost: int = 1,
) -> tuple[MPI.Cartcomm, Block]:
    """Lay the ranks of a communicator over a grid.

    Ranks are not reordered: the rank in the returned communicator is the rank in `comm`, x fastest. A launcher that
    fills nodes one after the other therefore keeps neighbours in x on one node.

    Parameters
    ----------
    comm : MPI.Intracomm
        The ranks.
    shape_global : tuple of three ints
        Cells of the whole grid, (z, y, x).
    process_grid : tuple of three ints, or "auto"
        Blocks in each direction. "auto" chooses the cheapest of all factorizations of the number of ranks
        (`choose_process_grid`).
    periodic : tuple of three bools
        Whether each direction is periodic.
    ghost : int
        Layers of ghost cells.

    Returns
    -------
    cartesian : MPI.Cartcomm
        The Cartesian communicator. The caller frees it.
    block : Block
        The block of this rank.

    Raises
    ------
    DecompositionError
        On all ranks, if the process grid does not fit the ranks, the grid or the ghost layers.
    TypeError
        For an inter-communicator.

    Notes
    -----
    Collective over comm: every rank passes the same arguments. It creates one communicator.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`:

    >>> from mpi4py import MPI
    >>> from ridgeline.blocks.cartesian import decompose
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (9, 8, 8))
    >>> cartesian.allgather((block.offset_global, block.shape_local))
    [((0, 0, 0), (5, 8, 8)), ((5, 0, 0), (4, 8, 8))]
    >>> cartesian.Free()
    """
    if not isinstance(comm, MPI.Intracomm):
        raise TypeError(
            "comm is an inter-communicator with two groups of ranks, but the grid needs one group."
        )
    if process_grid == "auto":
        process_grid = choose_process_grid(shape_global, comm.size, ghost)
    check_process_grid(shape_global, process_grid, comm.size)
    check_ghost(shape_global, process_grid, periodic, ghost)
    cartesian = comm.Create_cart(list(process_grid), periods=list(periodic), reorder=False)
    return cartesian, Block.of_rank(shape_global, process_grid, cartesian.rank, periodic, ghost)


def check_ghost(
    shape_global: Triple, process_grid: Triple, periodic: tuple[bool, bool, bool], ghost: int
) -> None:
    """Raise DecompositionError if a block is thinner than the ghost layers that its neighbours need from it.

    The exchange fills ghosts from direct neighbours only, and thus from the block itself where a periodic direction
    is not cut.
    """
    for axis, n, p, wraps in zip("zyx", shape_global, process_grid, periodic):
        thinnest = n // p
        if (p > 1 or wraps) and ghost > thinnest:
            most = max((cuts for cuts in range(1, p) if n // cuts >= ghost), default=0)
            advice = f"Divide {axis} into at most {most} blocks" if most else "Use fewer ghost layers"
            raise DecompositionError(
                f"grid.process_grid = {list(process_grid)} leaves blocks of {thinnest} cells in {axis} "
                f"(of {n}), which are thinner than the {ghost} ghost layers that a neighbour needs. {advice}, or use "
                f"a larger grid.shape."
            )
