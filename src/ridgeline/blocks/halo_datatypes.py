"""Halo exchange without packing: MPI derived datatypes that describe the cells in the fields' own memory.

The MPI library gathers and scatters by itself, while it moves the data where the network can do so. What that
is worth differs between libraries and faces, so `HaloExchange` measures it against packing.

Reference: MPI 4.1, Sec. 5.1 (derived datatypes), Create_hvector and Create_struct on MPI_BOTTOM.
"""

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI
from mpi4py.util import dtlib

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.halo_pack import Fields, WrapCopies, check_field_sets
from ridgeline.blocks.halo_plan import Box, HaloPlan
from ridgeline.jit.kernel import compile_kernels


def box_datatype(fields: Fields, box: Box) -> MPI.Datatype:
    """Return a committed datatype of the cells of `box` in all `fields`, by absolute addresses."""
    layout = fields[0]
    itemsize = layout.flat.itemsize
    nz, ny, nx = box.shape
    row = dtlib.from_numpy_dtype(layout.flat.dtype).Create_contiguous(nx)
    plane = row.Create_hvector(ny, 1, layout.row_pitch * itemsize)
    whole = plane.Create_hvector(nz, 1, layout.plane_pitch * itemsize)
    every = MPI.Datatype.Create_struct(
        [1] * len(fields), [_address(field, box) for field in fields], [whole] * len(fields)
    )
    for part in (row, plane, whole):
        part.Free()
    return every.Commit()


def _address(field: BlockArray, box: Box) -> int:
    z, y, x = box.start
    item = field.origin + z * field.plane_pitch + y * field.row_pitch + x
    return MPI.Get_address(field.flat) + item * field.flat.itemsize


class DatatypePacker:
    """The same interface as `HostPacker`, but MPI reads and writes the fields itself; each set has requests.

    The fields must stay where they are as long as this lives.
    """

    shared = False

    def __init__(self, plan: HaloPlan, field_sets: Sequence[Fields], n_threads: int = 1) -> None:
        check_field_sets(field_sets)
        self.plan = plan
        self.n_sets = len(field_sets)
        self._wraps = WrapCopies(plan, field_sets, n_threads)
        self._send = [[box_datatype(fields, m.send) for m in plan.messages] for fields in field_sets]
        self._receive = [[box_datatype(fields, m.receive) for m in plan.messages] for fields in field_sets]

    def send_buffer(self, set_index: int, message: int) -> tuple[Any, int, MPI.Datatype]:
        """Return one item of the datatype that covers the message's owned cells."""
        return (MPI.BOTTOM, 1, self._send[set_index][message])

    def receive_buffer(self, set_index: int, message: int) -> tuple[Any, int, MPI.Datatype]:
        """Return one item of the datatype that covers the message's ghosts."""
        return (MPI.BOTTOM, 1, self._receive[set_index][message])

    def compile(self) -> None:
        """Compile or load the kernel of the wraps."""
        compile_kernels(self._wraps.kernels())

    def pack(self, set_index: int) -> None:
        """Nothing to do: MPI reads the fields."""

    def unpack(self, set_index: int) -> None:
        """Nothing to do: MPI has written the fields."""

    def copy_wraps(self, set_index: int) -> None:
        """Copy owned cells to the ghosts on the other side."""
        self._wraps.run(set_index)

    def free(self) -> None:
        """Free the datatypes."""
        for datatype in (d for row in (*self._send, *self._receive) for d in row):
            datatype.Free()
