"""How the cells of a halo exchange get between fields and messages: the interface, and the host's way.

A *packer* knows the fields of one device. `HaloExchange` knows MPI. Between them lie message buffers.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.halo_plan import Box, HaloPlan
from ridgeline.blocks.pack import BOX_COLUMNS, copy_boxes, copy_boxes_threaded
from ridgeline.jit.kernel import Specialisation, compile_kernels, specialise
from ridgeline.parallel.partition import Triple, split
from ridgeline.runtime.aligned import aligned_zeros

Fields = Sequence[BlockArray]

# Below this, one thread has copied all before the others are awake.
THREADED_BYTES = 2 * 1024 * 1024


class Packer(Protocol):
    """Moves the cells of a plan between the fields of one device and message buffers.

    For another device, say a GPU, write one of these and hand it to `HaloExchange`:
    - Buffers are anything that mpi4py takes: host arrays (pinned, so that the device copies at full speed), or
      device arrays with `__cuda_array_interface__`. Device arrays need an MPI library that is GPU-aware. Buffers are
      asked for once per message and set, and stay where they are: the requests are persistent.
    - `pack` returns when MPI may read the send buffers: kernels done, copies to pinned memory done, stream
      synchronised. It may pack all messages by one kernel into one device buffer and stage it by one copy;
      `Message.offset` and `HaloPlan.buffer_items` lay that buffer out.
    - `unpack` is called when the receive buffers are full. It may return before the ghosts are full, as long as
      whatever is put on the same stream later sees them.
    - `copy_wraps` fills ghosts from the block itself; called in `finish`, when all owned cells are computed. The
      same rule as `unpack`.
    - None of them allocates or compiles; `compile` has done so.

    shared: True if all sets use the same buffers, and hence the same requests.
    """

    plan: HaloPlan
    n_sets: int
    shared: bool

    def send_buffer(self, set_index: int, message: int) -> Any:
        """Return what MPI sends as the message of this number (in plan.messages)."""

    def receive_buffer(self, set_index: int, message: int) -> Any:
        """Return what MPI receives the message of this number into."""

    def compile(self) -> None:
        """Compile or load every kernel that the others call. No communication."""

    def pack(self, set_index: int) -> None:
        """Fill the send buffers from the owned cells of a set of fields."""

    def unpack(self, set_index: int) -> None:
        """Fill the ghosts of a set of fields from the receive buffers."""

    def copy_wraps(self, set_index: int) -> None:
        """Fill the ghosts in periodic directions that the block holds alone."""

    def free(self) -> None:
        """Give back what the garbage collector does not know of."""


def check_field_sets(field_sets: Sequence[Fields]) -> None:
    """Raise ValueError unless all sets hold as many fields, all of one block, dtype and layout."""
    if not field_sets or not field_sets[0]:
        raise ValueError("a halo exchange needs at least one set of at least one field")
    first = field_sets[0][0]
    for fields in field_sets:
        if len(fields) != len(field_sets[0]):
            raise ValueError(f"sets of {len(field_sets[0])} and of {len(fields)} fields cannot share a plan")
        for field in fields:
            if _layout(field) != _layout(first):
                raise ValueError(
                    f"all fields of a halo exchange share one block, dtype and layout: got {_layout(field)} "
                    f"beside {_layout(first)}"
                )


def _layout(field: BlockArray) -> tuple[Any, ...]:
    return field.block, str(field.flat.dtype), field.origin, field.row_pitch, field.plane_pitch


class BoxRows:
    """One end of a copy: where a box's rows lie in a flat array."""

    def __init__(self, start: int, plane: int, row: int) -> None:
        self.start, self.plane, self.row = start, plane, row

    @classmethod
    def of_field(cls, field: BlockArray, box: Box) -> "BoxRows":
        """Return the side of a box of cells of a field."""
        z, y, x = box.start
        start = field.origin + z * field.plane_pitch + y * field.row_pitch + x
        return cls(start, field.plane_pitch, field.row_pitch)

    @classmethod
    def of_buffer(cls, offset: int, box: Box) -> "BoxRows":
        """Return the side of a box whose cells lie one after the other from `offset` on."""
        return cls(offset, box.shape[1] * box.shape[2], box.shape[2])

    def at(self, z: int, y: int) -> list[int]:
        """Columns of a box whose first row is (z, y) of this one."""
        return [self.start + z * self.plane + y * self.row, self.plane, self.row]


Copy = tuple[BoxRows, BoxRows, Triple]


def wrap_copies(plan: HaloPlan, layout: BlockArray) -> list[Copy]:
    """Return the copies of a field onto itself that fill its ghosts in the plan's wraps."""
    of = BoxRows.of_field
    return [(of(layout, w.source), of(layout, w.target), w.source.shape) for w in plan.wraps]


def message_copies(plan: HaloPlan, layout: BlockArray, field: int) -> tuple[list[Copy], list[Copy]]:
    """Return the copies that pack field number `field` into a buffer and that unpack it from one."""
    packs, unpacks = [], []
    for message in plan.messages:
        buffer = BoxRows.of_buffer(message.offset + field * message.send.cells, message.send)
        packs.append((BoxRows.of_field(layout, message.send), buffer, message.send.shape))
        unpacks.append((buffer, BoxRows.of_field(layout, message.receive), message.receive.shape))
    return packs, unpacks


def box_table(copies: Sequence[Copy], n_threads: int) -> NDArray[np.uint64]:
    """Cut every copy into a part per thread: the table of boxes, (n_threads, n_boxes, 9)."""
    table = np.zeros((n_threads, len(copies), BOX_COLUMNS), np.uint64)
    for (n, (source, target, (nz, ny, nx))), thread in product(enumerate(copies), range(n_threads)):
        z, y = 0, 0
        if nz >= n_threads:
            z, nz = split(nz, n_threads, thread)
        else:
            y, ny = split(ny, n_threads, thread)
        table[thread, n] = [*source.at(z, y), *target.at(z, y), nz, ny, nx]
    return table


Arrays = tuple[NDArray[Any], ...]


class Copies:
    """The copies between some arrays and as many others, the same every time: tables for the kernels.

    copies: per pair of arrays, its boxes; as many for each pair.
    """

    def __init__(self, copies: Sequence[Sequence[Copy]], itemsize: int, n_threads: int) -> None:
        cells = sum(nz * ny * nx for boxes in copies for _, _, (nz, ny, nx) in boxes)
        self._empty = not cells
        self._threaded = n_threads > 1 and cells * itemsize >= THREADED_BYTES
        parts = n_threads if self._threaded else 1
        self._table = np.stack([box_table(boxes, parts) for boxes in copies], axis=1)
        self._serial = list(self._table[0])

    def kernels(self, dtype: DTypeLike) -> list[Specialisation]:
        """Return the kernel that `run` calls for arrays of dtype."""
        if self._threaded:
            return specialise([copy_boxes_threaded], dtype, len(self._serial))
        return [] if self._empty else specialise([copy_boxes], dtype)

    def run(self, sources: Arrays, targets: Arrays) -> None:
        """Copy between arrays of the layouts that the tables were made for."""
        if self._threaded:
            copy_boxes_threaded(sources, targets, self._table)
        elif not self._empty:
            for source, target, boxes in zip(sources, targets, self._serial):
                copy_boxes(source, target, boxes)


class WrapCopies:
    """Periodic wraps of sets of fields onto themselves."""

    def __init__(self, plan: HaloPlan, field_sets: Sequence[Fields], n_threads: int) -> None:
        copies = [wrap_copies(plan, field) for field in field_sets[0]]
        self._copies = Copies(copies, plan.itemsize, n_threads)
        self._sets = [_flats(fields) for fields in field_sets]

    def run(self, set_index: int) -> None:
        """Fill the ghosts of a set."""
        self._copies.run(self._sets[set_index], self._sets[set_index])

    def kernels(self) -> list[Specialisation]:
        """Return the kernel that `run` calls."""
        return self._copies.kernels(self._sets[0][0].dtype)


def _flats(fields: Fields) -> Arrays:
    return tuple(field.flat for field in fields)


class HostPacker:
    """Packs fields in host memory into contiguous buffers, all fields of one neighbour in one message.

    field_sets: the sets of fields that take turns (a model's present and next state); they share buffers.
    n_threads: threads of large copies; Numba must have been given as many.
    """

    shared = True

    def __init__(self, plan: HaloPlan, field_sets: Sequence[Fields], n_threads: int = 1) -> None:
        check_field_sets(field_sets)
        self.plan = plan
        self.n_sets = len(field_sets)
        self._sets = [_flats(fields) for fields in field_sets]
        layout, dtype = field_sets[0][0], field_sets[0][0].flat.dtype
        self._send, self._receive = (aligned_zeros(plan.buffer_items, dtype) for _ in range(2))
        self._wraps = WrapCopies(plan, field_sets, n_threads)
        packs, unpacks = zip(*(message_copies(plan, layout, field) for field in range(plan.n_fields)))
        self._packs = Copies(packs, plan.itemsize, n_threads)
        self._unpacks = Copies(unpacks, plan.itemsize, n_threads)
        self._sends, self._receives = (self._send,) * plan.n_fields, (self._receive,) * plan.n_fields

    def _slice(self, buffer: NDArray[Any], message: int) -> NDArray[Any]:
        offset, items = self.plan.messages[message].offset, self.plan.messages[message].items
        return buffer[offset : offset + items]

    def send_buffer(self, set_index: int, message: int) -> NDArray[Any]:
        """Return the part of the send buffer that holds this message."""
        return self._slice(self._send, message)

    def receive_buffer(self, set_index: int, message: int) -> NDArray[Any]:
        """Return the part of the receive buffer that holds this message."""
        return self._slice(self._receive, message)

    def compile(self) -> None:
        """Compile or load the kernels."""
        dtype = self._send.dtype
        copies = (self._packs, self._unpacks)
        compile_kernels([*self._wraps.kernels(), *(k for c in copies for k in c.kernels(dtype))])

    def pack(self, set_index: int) -> None:
        """Gather the owned cells that neighbours need."""
        self._packs.run(self._sets[set_index], self._sends)

    def unpack(self, set_index: int) -> None:
        """Scatter what came into the ghosts."""
        self._unpacks.run(self._receives, self._sets[set_index])

    def copy_wraps(self, set_index: int) -> None:
        """Copy owned cells to the ghosts on the other side."""
        self._wraps.run(set_index)

    def free(self) -> None:
        """Nothing to do: buffers are arrays."""
