"""Halo exchange without packing: MPI derived datatypes that describe the cells in the fields' own memory.

The MPI library gathers and scatters the cells itself, while it moves the data where the network can do so. What that
is worth differs between libraries and faces, so the autotuner of `HaloExchange.of_fields` compares it with packing.

Reference: MPI 4.1, Sec. 5.1 (derived datatypes), Create_hvector and Create_struct on MPI_BOTTOM.
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from mpi4py import MPI
from mpi4py.util import dtlib

from ridgeline.blocks.block import BlockArray, Box, BoxRows
from ridgeline.blocks.box_copies import BoxCopies, BoxCopy

Plan = TypeVar("Plan")


def box_datatype(fields: Sequence[BlockArray], box: Box) -> MPI.Datatype:
    """Return a committed datatype of the cells of `box` in all `fields`, by absolute addresses."""
    layout = fields[0]
    itemsize = layout.flat.itemsize
    nz, ny, nx = box.shape
    row = dtlib.from_numpy_dtype(layout.flat.dtype).Create_contiguous(nx)
    plane = row.Create_hvector(ny, 1, layout.row_pitch * itemsize)
    whole = plane.Create_hvector(nz, 1, layout.plane_pitch * itemsize)
    addresses = [
        MPI.Get_address(field.flat) + BoxRows.of_field(field, box).start * itemsize for field in fields
    ]
    every = MPI.Datatype.Create_struct([1] * len(fields), addresses, [whole] * len(fields))
    for part in (row, plane, whole):
        part.Free()
    return every.Commit()


class DatatypePacker(Generic[Plan]):
    """A `halo.Packer` that packs nothing: MPI reads and writes the fields, and each set has its own requests.

    The fields must stay at their addresses as long as this object lives.

    Parameters
    ----------
    plan : the plan of the exchange, which is only kept
    boxes : the cells that are sent and received by each message of the plan
    wraps : the copies of each field onto itself
    """

    shared = False

    def __init__(
        self,
        plan: Plan,
        field_sets: Sequence[Sequence[BlockArray]],
        boxes: Sequence[tuple[Box, Box]],
        wraps: Sequence[Sequence[BoxCopy]],
        n_threads: int = 1,
    ) -> None:
        self.plan = plan
        self.n_sets = len(field_sets)
        self._sets = [tuple(field.flat for field in fields) for fields in field_sets]
        self._wraps = BoxCopies(wraps, self._sets[0][0].dtype, n_threads)
        self._send = [[box_datatype(fields, send) for send, _ in boxes] for fields in field_sets]
        self._receive = [[box_datatype(fields, receive) for _, receive in boxes] for fields in field_sets]

    def send_buffer(self, set_index: int, message: int) -> tuple[Any, int, MPI.Datatype]:
        """Return one item of the datatype that covers the message's owned cells."""
        return (MPI.BOTTOM, 1, self._send[set_index][message])

    def receive_buffer(self, set_index: int, message: int) -> tuple[Any, int, MPI.Datatype]:
        """Return one item of the datatype that covers the message's ghosts."""
        return (MPI.BOTTOM, 1, self._receive[set_index][message])

    def compile(self) -> None:
        self._wraps.compile()

    def pack(self, set_index: int) -> None:
        """Do nothing: MPI reads the fields."""

    def unpack(self, set_index: int) -> None:
        """Do nothing: MPI has written the fields."""

    def copy_wraps(self, set_index: int) -> None:
        self._wraps.run(self._sets[set_index], self._sets[set_index])

    def free(self) -> None:
        """Free the datatypes."""
        for datatype in (d for row in (*self._send, *self._receive) for d in row):
            datatype.Free()
