"""The update by a panel with pivoting: rows are exchanged, a triangular solve gives U, a product is subtracted.

Each process packs the rows that it contributes to U. One Allgatherv spreads them, and one Scatterv sends rows of the
top block to the processes that gave a row away. Neither blocks, and both advance while other columns are updated.
That is the volume of HPL's "long" variant (spread and roll). If a column has one process, its rows are moved within
the update of each tile. The exchanges of a panel's pivots, one after the other, amount to one permutation. Rows of A
that become rows of U are its sources. Each row outside the top block that was given away is a target, and is replaced
by a row of the top block. Every number that moves is thus read once and written once.

The triangular solve is made of products: of blocks left of the diagonal, and of the inverses of the diagonal blocks.
BLAS products run at twice the rate of its solves.

Source: Petitet et al., "HPL", overview, "Update"; the split update is that of rocHPL (AMD).
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numba import float64, int64, types
from numpy.typing import NDArray

from ridgeline.bench.hpl.blas import gemm_assign, gemm_subtract
from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.panel import BLOCK, ColumnPanel, Reals
from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

Indices = NDArray[np.int64]
_NOTHING = np.zeros(0, np.int64)
_MATRIX, _INDICES = float64[:, ::1], int64[::1]
_PIECE = 64  # columns whose rows are exchanged and solved for at a time
_COLUMNS = 16  # columns that are copied at a time, so that more cache lines are loaded at once


class RowSwap:
    """The rows that are exchanged for one panel, as seen by one process of the column.

    Attributes
    ----------
    sources, places, targets, replacements : for a process that is alone in its column, local rows in ascending order
        and where they go; empty otherwise
    sent_rows, places_in_u : for the others, local rows that this process contributes to U, and the rows of U that
        each process contributes
    replaced_rows, top_rows : local rows that rows of the top block replace, and for each process the local rows of
        the top block that it receives
    """

    def __init__(self, panel: ColumnPanel, rows: Axis) -> None:
        width = panel.width
        sources, targets, replacements = (np.empty(width, np.int64) for _ in range(3))
        count = compose_exchanges(panel.pivots, panel.first, sources, targets, replacements)
        targets, replacements = targets[:count], replacements[:count]
        self.root = rows.owner(panel.first)  # the process with the top block
        self.alone = rows.parts == 1
        if self.alone:
            self.places = np.argsort(sources)
            order = np.argsort(targets)
            self.sources, self.targets = sources[self.places], targets[order]
            self.replacements = panel.first + replacements[order]
            return
        self.sources = self.places = self.targets = self.replacements = _NOTHING
        self.width = width
        owners, owners_of_targets = rows.owner(sources), rows.owner(targets)
        # In the order of processes: places in U of the rows that each sends, and rows of the top block that it
        # receives.
        self.places_in_u = [np.flatnonzero(owners == part) for part in range(rows.parts)]
        to_each = [np.flatnonzero(owners_of_targets == part) for part in range(rows.parts)]
        self.sent_rows = rows.local(sources[self.places_in_u[rows.part]])
        self.replaced_rows = rows.local(targets[to_each[rows.part]])
        first = rows.local(panel.first)
        self.top_rows = [first + replacements[those] for those in to_each]

    @property
    def lists(self) -> list[Indices]:
        """Four lists of at most a panel's width.

        For a process that is alone: sources, places, targets and replacements. For the others: sent_rows, places_in_u
        of all processes, replaced_rows, top_rows of all processes.
        """
        if self.alone:
            return [self.sources, self.places, self.targets, self.replacements]
        return [
            self.sent_rows,
            np.concatenate(self.places_in_u),
            self.replaced_rows,
            np.concatenate(self.top_rows),
        ]


class RowMessages:
    """The messages of one exchange at a time in a column of processes: `post`, `progress` now and then, `wait`.

    comm: the column of processes; rows: of the matrix; buffers: for rows that are sent, gathered, scattered and
    received, float64, contiguous, each for a panel's rows of all local columns. Packed rows are [rows, columns],
    column-major, those of one process after the other.
    """

    def __init__(self, comm: MPI.Comm, rows: Axis, buffers: list[Reals]) -> None:
        self._comm, self._rows, self.buffers = comm, rows, buffers
        self._requests: list[MPI.Request] = []

    @property
    def under_way(self) -> bool:
        """Whether messages were posted for which `wait` has not been called."""
        return bool(self._requests)

    def post(self, swap: RowSwap, columns: int) -> None:
        """Send the buffers "sent" and, on the process with the top block, "scattered". Does not wait."""
        sent, gathered, scattered, received = self.buffers
        counts = [places.size * columns for places in swap.places_in_u]
        mine = sent[: swap.sent_rows.size * columns]
        self._requests = [self._comm.Iallgatherv(mine, [gathered, counts])]
        part = self._rows.part
        counts = [rows.size * columns for rows in swap.top_rows]
        message = [scattered, counts] if part == swap.root else None
        self._requests.append(self._comm.Iscatterv(message, received[: counts[part]], swap.root))

    def progress(self) -> None:
        """Let the messages advance."""
        if self._requests:
            MPI.Request.Testall(self._requests)

    def wait(self) -> None:
        """Wait until the buffers "gathered" and "received" are filled."""
        MPI.Request.Waitall(self._requests)
        self._requests = []


class SwapExchange:
    """One exchange of rows at a time in host memory: `start`, `progress` now and then, `finish`.

    comm: the column of processes; rows: of the matrix; u: memory for the rows of U, float64 [nb, local columns],
    which a process that is alone does not need.
    """

    def __init__(self, comm: MPI.Comm, rows: Axis, u: Reals) -> None:
        self._rows, self._u = rows, u
        buffers = [np.full(u.size, 0.0) for _ in range(4)] if comm.size > 1 else []
        self._messages = RowMessages(comm, rows, buffers)

    def start(self, swap: RowSwap, a: Reals, start: int, stop: int) -> None:
        """Begin to exchange rows of local columns start ... stop - 1. Collective in order; it does not wait."""
        if swap.alone or stop <= start:
            return
        columns = stop - start
        self._swap, self._a, self._range = swap, a, (start, stop)
        sent, _, scattered, _ = self._messages.buffers
        _pack(a, swap.sent_rows, start, _block(sent, 0, swap.sent_rows.size, columns))
        if self._rows.part == swap.root:
            offset = 0
            for rows in swap.top_rows:
                _pack(a, rows, start, _block(scattered, offset, rows.size, columns))
                offset += rows.size * columns
        self._messages.post(swap, columns)

    def progress(self) -> None:
        """Let the exchange advance."""
        self._messages.progress()

    def finish(self) -> None:
        """Wait for the exchange, and store the rows: those of U in its buffer, others in the matrix."""
        if not self._messages.under_way:
            return
        self._messages.wait()
        swap, (start, stop) = self._swap, self._range
        _, gathered, _, received = self._messages.buffers
        offset = 0
        for places in swap.places_in_u:
            packed = _block(gathered, offset, places.size, stop - start)
            _unpack(packed, self._u, places, start)
            offset += packed.size
        packed = _block(received, 0, swap.replaced_rows.size, stop - start)
        _unpack(packed, self._a, swap.replaced_rows, start)


def _pack(a: Reals, rows: Indices, start: int, out: Reals) -> None:
    """Copy rows of a, from column `start` on, into out [rows.size, columns]."""
    copy_rows(a.T, rows, start, out.T, np.arange(rows.size), 0, out.shape[1])


def _unpack(packed: Reals, a: Reals, rows: Indices, start: int) -> None:
    """Copy packed [rows.size, columns] into rows of a, from column `start` on."""
    copy_rows(packed.T, np.arange(rows.size), 0, a.T, rows, start, packed.shape[1])


def _block(buffer: Reals, offset: int, rows: int, columns: int) -> Reals:
    return buffer[offset : offset + rows * columns].reshape((rows, columns), order="F")


@kernel(lambda: (float64[::1], int64, _INDICES, _INDICES, _INDICES), nogil=True)
def compose_exchanges(pivots, first, sources, targets, replacements):
    """Turn exchanges into a permutation; return the number of targets.

    pivots: global row that was exchanged with row first + j, in order of j, as float64 [width]. On return
    sources[j] is the global row that becomes row j of U. targets[i] is the global row, outside the top block, that
    takes row replacements[i] of the top block; int64 [width] each.
    """
    width = pivots.size
    for j in range(width):
        sources[j] = first + j
    count = 0
    for j in range(width):
        row = np.int64(pivots[j])
        if row < first + width:
            sources[j], sources[row - first] = sources[row - first], sources[j]
            continue
        at = 0
        while at < count and targets[at] != row:
            at += 1
        incoming = row
        if at == count:
            targets[at] = row
            count += 1
        else:
            incoming = first + replacements[at]
        replacements[at] = sources[j] - first  # a row of the top block: what is outside has not been here yet
        sources[j] = incoming
    return count


@subroutine
def _copy_some(source, source_rows, source_column, target, target_rows, target_column, count):
    """Copy rows of `count` columns. With a constant count the compiler unrolls the inner loop."""
    for i in range(source_rows.size):
        source_row, target_row = source_rows[i], target_rows[i]
        for column in range(count):
            target[target_row, target_column + column] = source[source_row, source_column + column]


@subroutine
def _copy_rows(source, source_rows, source_column, target, target_rows, target_column, count):
    """Copy rows of `count` columns of source, from source_column on, to rows of target, from target_column on."""
    done = 0
    while done + _COLUMNS <= count:
        _copy_some(
            source, source_rows, source_column + done, target, target_rows, target_column + done, _COLUMNS
        )
        done += _COLUMNS
    while done < count:
        _copy_some(source, source_rows, source_column + done, target, target_rows, target_column + done, 1)
        done += 1


@subroutine
def _solve(gemm, top, inverses, raw, u):
    """Compute u = L^-1 raw, block by block; raw is overwritten."""
    for row in range(0, top.shape[0], BLOCK):
        end = min(row + BLOCK, top.shape[0])
        gemm_subtract(gemm, top[row:end, :row], u[:row, :], raw[row:end, :])
        gemm_assign(gemm, inverses[row:end, : end - row], raw[row:end, :], u[row:end, :])


@kernel(
    lambda: (types.intp, *[_MATRIX] * 6, *[_INDICES] * 4, *[int64] * 4),
    nogil=True,
)
def update_tile(
    gemm, below, top, inverses, raw, u, a, sources, places, targets, replacements, rows, skip, start, stop
):
    """Update columns start ... stop - 1 of a process's part by a panel: rows of U, triangular solve, product.

    below, top, inverses: of the panel; raw: memory for rows of U before the solve, u: after it, [at least width, at
    least stop - start] each; a: [at least rows, columns]. sources, places, targets, replacements: local rows that are
    exchanged here, empty where `raw` has its rows already; skip: rows of the top block on the process that has it,
    which are copied from U, 0 elsewhere.
    """
    below, top, inverses = below.T, top.T, inverses.T
    raw, u, a = raw.T, u.T, a.T
    first, width = rows - below.shape[0], top.shape[0]
    # Pieces that stay in the second cache from the first pass over them to the last.
    for offset in range(0, stop - start, _PIECE):
        count = min(_PIECE, stop - start - offset)
        if sources.size > 0:
            _copy_rows(a, sources, start + offset, raw, places, offset, count)
            _copy_rows(a, replacements, start + offset, a, targets, start + offset, count)
        _solve(gemm, top, inverses, raw[:width, offset : offset + count], u[:width, offset : offset + count])
        for column in range(offset, offset + count):
            for j in range(skip):
                a[first + j, start + column] = u[j, column]
    gemm_subtract(gemm, below[skip:, :], u[:width, : stop - start], a[first + skip : rows, start:stop])


@kernel(lambda: (_MATRIX, _INDICES, int64, _MATRIX, _INDICES, int64, int64), nogil=True)
def copy_rows(source, source_rows, source_column, target, target_rows, target_column, count):
    """Copy rows of `count` columns of source, from source_column on, to rows of target, from target_column on."""
    source, target = source.T, target.T
    _copy_rows(source, source_rows, source_column, target, target_rows, target_column, count)


@kernel(lambda: (_MATRIX, int64, int64, _MATRIX), nogil=True)
def copy_block(a, first, start, out):
    """Copy the block of a that begins at (first, start) into out."""
    a, out = a.T, out.T
    for column in range(out.shape[1]):
        for row in range(out.shape[0]):
            out[row, column] = a[first + row, start + column]


def kernels() -> list[Specialisation]:
    """Return all kernels of this file."""
    return specialise([compose_exchanges, update_tile, copy_rows, copy_block])
