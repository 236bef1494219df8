"""Halo exchange: fill ghost cells with the neighbours' owned cells while the interior is computed.

    exchange = HaloExchange.of_fields(cartesian, [(u, v), (u_new, v_new)])     # once
    exchange.start(i)      # pack and send the faces of set i; they must be computed
    ...                    # compute whatever needs no ghosts
    exchange.finish(i)     # wait and unpack: the ghosts are filled

Read from top to bottom, this file is the plain way: a `HaloPlan` says which cells go to which neighbour and where
they lie in its message, a `HostPacker` copies them between fields and message buffers, and a `HaloExchange` sends and
receives the messages. The fast ways lie beside it: box_copies.py (the compiled copies of the packer),
halo_datatypes.py (MPI reads and writes the fields itself) and halo_cuda.py (fields in the memory of a GPU).

Ghosts beyond a boundary that is not periodic belong to the model and are not touched. Buffers, datatypes, tables of
boxes and persistent requests are created with the plan, so a step allocates nothing. The plan alone needs neither MPI
nor Numba, which estimates of memory count on: both are imported where an exchange is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ridgeline.blocks.block import Block, BlockArray, Box, BoxRows, all_directions
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.aligned import CACHE_LINE, aligned_zeros

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

    from ridgeline.blocks.box_copies import BoxCopy

ALL_AXES = (True, True, True)
Fields = Sequence[BlockArray]
Method = Literal["auto", "pack", "datatypes"]


# ---- plan: which cells go to which neighbour ----


def owned_box(block: Block, direction: Triple, layers: int) -> Box:
    """Return the owned cells of the last layers towards `direction`: those that this neighbour needs."""
    ends = zip(direction, block.shape_local)
    return _box(block, direction, layers, tuple(n - layers if d > 0 else 0 for d, n in ends))


def ghost_box(block: Block, direction: Triple, layers: int) -> Box:
    """Return the first layers of ghost cells in `direction`: those that this neighbour sends."""
    ends = zip(direction, block.shape_local)
    return _box(block, direction, layers, tuple(n if d > 0 else -layers if d < 0 else 0 for d, n in ends))


def _box(block: Block, direction: Triple, layers: int, start: tuple[int, ...]) -> Box:
    z, y, x = (layers if d else n for d, n in zip(direction, block.shape_local))
    return Box((start[0], start[1], start[2]), (z, y, x))


def _axes(direction: Triple) -> int:
    """Return 1 for a face, 2 for an edge, 3 for a corner."""
    return sum(map(abs, direction))


def _opposite(direction: Triple) -> Triple:
    return -direction[0], -direction[1], -direction[2]


def _tag(direction: Triple) -> int:
    """Number the direction in which a message travels, so that messages to one rank in several directions differ."""
    return (direction[0] + 1) * 9 + (direction[1] + 1) * 3 + direction[2] + 1


@dataclass(frozen=True)
class Message:
    """The messages to and from one neighbour in one direction.

    The cells of `send` go there, for all fields, and the cells of `receive` come back. In the buffers, which have the
    same layout for both ways, field f's cells start at item offset + f * cells, x fastest; `offset` lies on a cache
    line.
    """

    direction: Triple
    rank: int
    send: Box
    receive: Box
    offset: int
    items: int

    @property
    def send_tag(self) -> int:
        """Tag of the message sent."""
        return _tag(self.direction)

    @property
    def receive_tag(self) -> int:
        """Tag of the message received, which the neighbour sends in the opposite direction."""
        return _tag(_opposite(self.direction))


@dataclass(frozen=True)
class Wrap:
    """A periodic direction that ends on the block itself: owned cells `source` are copied to ghosts `target`."""

    source: Box
    target: Box


@dataclass(frozen=True)
class HaloPlan:
    """The exchange of `n_fields` fields of `itemsize` bytes per cell on one block: plain data, no arrays.

    Parameters
    ----------
    corners : exchange edges and corners too, as stencils that are not a star and temporally blocked sweeps need. They
        travel as separate messages, up to 26 in all. Three staged exchanges over z, y, x would be 6 messages, but
        each stage waits for the one before, so only the last could be hidden behind computation
    wrap : per axis, whether the exchange fills the ghosts of a periodic direction that one rank owns. It is false
        where the sweep wraps by itself; directions with a part along such an axis are then left out altogether
    layers : layers of faces; None for as many as there are ghosts
    star : the layers are those of two steps of a star, which also need edges in one layer, and no corners. An edge is
        exchanged if one of its axes is cut, whatever `wrap` says
    """

    block: Block
    n_fields: int
    itemsize: int
    corners: bool = False
    wrap: tuple[bool, bool, bool] = ALL_AXES
    layers: int | None = None
    star: bool = False

    def _directions(self) -> list[Triple]:
        def is_exchanged(direction: Triple) -> bool:
            if self.star and _axes(direction) > 1:
                return not self._is_own(direction)
            return all(
                wrap or d == 0 or p > 1 for d, p, wrap in zip(direction, self.block.process_grid, self.wrap)
            )

        axes = 3 if self.corners else 2 if self.star else 1
        return [d for d in all_directions() if _axes(d) <= axes and is_exchanged(d)]

    def _layers(self, direction: Triple) -> int:
        return 1 if self.star and _axes(direction) > 1 else self.layers or self.block.ghost

    def _is_own(self, direction: Triple) -> bool:
        return all(d == 0 or p == 1 for d, p in zip(direction, self.block.process_grid))

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The messages to and from other ranks: those of faces first, then of edges and corners."""
        messages = []
        offset = 0
        line = CACHE_LINE // self.itemsize
        for direction in self._directions():
            rank = self.block.neighbour(direction)
            if rank is None or self._is_own(direction):
                continue
            layers = self._layers(direction)
            send, receive = owned_box(self.block, direction, layers), ghost_box(self.block, direction, layers)
            items = send.cells * self.n_fields
            messages.append(Message(direction, rank, send, receive, offset, items))
            offset += -(-items // line) * line
        return tuple(messages)

    @cached_property
    def wraps(self) -> tuple[Wrap, ...]:
        """The copies of the block onto itself, for each field."""
        return tuple(
            Wrap(
                owned_box(self.block, _opposite(direction), self._layers(direction)),
                ghost_box(self.block, direction, self._layers(direction)),
            )
            for direction in self._directions()
            if self._is_own(direction) and self.block.neighbour(direction) is not None
        )

    @property
    def buffer_items(self) -> int:
        """Items of a buffer that holds all messages of one way."""
        return max((m.offset + m.items for m in self.messages), default=0)

    @property
    def messages_sent(self) -> int:
        """Messages that this rank sends per exchange (and receives)."""
        return len(self.messages)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sends to other ranks per exchange (and receives)."""
        return sum(message.items for message in self.messages) * self.itemsize

    @property
    def directions(self) -> tuple[Triple, ...]:
        """Directions in which this rank sends; the owned layers there must be computed before `start`."""
        return tuple(message.direction for message in self.messages)


# ---- pack and unpack: between fields and message buffers ----


class Packer(Protocol):
    """Moves the cells of a plan between the fields of one device and message buffers.

    To support another device, such as a GPU, write a class with these methods and pass it to `HaloExchange`:

    - Buffers are anything that mpi4py accepts: host arrays (pinned, so that the device copies at full speed), or
      device arrays with `__cuda_array_interface__`, which need a GPU-aware MPI library. Each buffer is asked for once
      per message and set and must stay where it is, because the requests are persistent.
    - `pack` returns when MPI may read the send buffers: kernels and copies to pinned memory have finished and the
      stream is synchronised. It may pack all messages by one kernel into one device buffer, laid out by
      `Message.offset` and `HaloPlan.buffer_items`, and stage it by one copy.
    - `unpack` is called when the receive buffers are full. It may return before the ghosts are filled, as long as
      everything put on the same stream later sees them filled.
    - `copy_wraps` fills ghosts from the block itself, under the same rule as `unpack`. It is called in `finish`, when
      all owned cells are computed.
    - `compile` compiles all kernels; the other methods neither allocate nor compile.

    shared: True if all sets use the same buffers, and hence the same requests.
    """

    plan: HaloPlan
    n_sets: int
    shared: bool

    def send_buffer(self, set_index: int, message: int) -> Any:
        """Return what MPI sends as the message of this number (in plan.messages)."""

    def receive_buffer(self, set_index: int, message: int) -> Any:
        """Return where MPI receives the message of this number."""

    def compile(self) -> None:
        """Compile or load every kernel that the other methods call. No communication."""

    def pack(self, set_index: int) -> None:
        """Fill the send buffers from the owned cells of a set of fields."""

    def unpack(self, set_index: int) -> None:
        """Fill the ghosts of a set of fields from the receive buffers."""

    def copy_wraps(self, set_index: int) -> None:
        """Fill the ghosts in periodic directions that the block owns alone."""

    def free(self) -> None:
        """Free what the garbage collector does not know, such as datatypes."""


def check_field_sets(field_sets: Sequence[Fields]) -> None:
    """Raise ValueError unless all sets have the same number of fields, all of one block, dtype and layout."""
    if not field_sets or not field_sets[0]:
        raise ValueError("A halo exchange needs at least one set of at least one field.")
    first = field_sets[0][0]
    for fields in field_sets:
        if len(fields) != len(field_sets[0]):
            raise ValueError(f"Sets of {len(field_sets[0])} and of {len(fields)} fields cannot share a plan.")
        for field in fields:
            if _layout(field) != _layout(first):
                raise ValueError(
                    f"All fields of a halo exchange must have the same block, dtype and layout, but these have "
                    f"{_layout(first)} and {_layout(field)}."
                )


def _layout(field: BlockArray) -> tuple[Any, ...]:
    return field.block, str(field.flat.dtype), field.origin, field.row_pitch, field.plane_pitch


def message_copies(plan: HaloPlan, layout: BlockArray, field: int) -> tuple[list[BoxCopy], list[BoxCopy]]:
    """Return the copies that pack field number `field` into the send buffer, and those that unpack it."""
    packs, unpacks = [], []
    for message in plan.messages:
        buffer = BoxRows.of_buffer(message.offset + field * message.send.cells, message.send)
        packs.append((BoxRows.of_field(layout, message.send), buffer, message.send.shape))
        unpacks.append((buffer, BoxRows.of_field(layout, message.receive), message.receive.shape))
    return packs, unpacks


def wrap_copies(plan: HaloPlan, layout: BlockArray) -> list[BoxCopy]:
    """Return the copies of a field onto itself that fill its ghosts in the plan's wraps."""
    rows = BoxRows.of_field
    return [(rows(layout, wrap.source), rows(layout, wrap.target), wrap.source.shape) for wrap in plan.wraps]


class HostPacker:
    """Packs fields in host memory into contiguous buffers, all fields of one neighbour in one message.

    field_sets: the sets of fields that take turns (a model's present and next state); they share buffers.
    n_threads: threads of large copies, for which Numba must have been given as many.
    """

    shared = True

    def __init__(self, plan: HaloPlan, field_sets: Sequence[Fields], n_threads: int = 1) -> None:
        from ridgeline.blocks.box_copies import BoxCopies

        check_field_sets(field_sets)
        self.plan = plan
        self.n_sets = len(field_sets)
        self._sets = [tuple(field.flat for field in fields) for fields in field_sets]
        layout = field_sets[0][0]
        dtype, fields = layout.flat.dtype, range(plan.n_fields)
        self._send, self._receive = (aligned_zeros(plan.buffer_items, dtype) for _ in range(2))
        self._sends, self._receives = (self._send,) * plan.n_fields, (self._receive,) * plan.n_fields
        packs, unpacks = zip(*[message_copies(plan, layout, field) for field in fields])
        wraps = [wrap_copies(plan, layout) for _ in fields]
        self._packs, self._unpacks, self._wraps = (
            BoxCopies(copies, dtype, n_threads) for copies in (packs, unpacks, wraps)
        )

    def _part(self, buffer: NDArray[Any], message: int) -> NDArray[Any]:
        """Return the part of a buffer that holds a message."""
        offset, items = self.plan.messages[message].offset, self.plan.messages[message].items
        return buffer[offset : offset + items]

    def send_buffer(self, set_index: int, message: int) -> NDArray[Any]:
        return self._part(self._send, message)

    def receive_buffer(self, set_index: int, message: int) -> NDArray[Any]:
        return self._part(self._receive, message)

    def compile(self) -> None:
        for copies in (self._packs, self._unpacks, self._wraps):
            copies.compile()

    def pack(self, set_index: int) -> None:
        self._packs.run(self._sets[set_index], self._sends)

    def unpack(self, set_index: int) -> None:
        self._unpacks.run(self._receives, self._sets[set_index])

    def copy_wraps(self, set_index: int) -> None:
        self._wraps.run(self._sets[set_index], self._sets[set_index])

    def free(self) -> None:
        """Do nothing: the buffers are arrays."""


# ---- send and receive ----


class HaloExchange:
    """Exchange the ghosts of one set of fields at a time, by messages that are planned once.

    Parameters
    ----------
    comm : MPI.Comm
        A communicator whose ranks are numbered as the blocks (`blocks.cartesian.decompose`).
    packer : Packer
        Packs and unpacks the fields; `of_fields` chooses one for fields in host memory.
    method : str
        The name of the packer's method, for reports.

    Notes
    -----
    Collective when it is made. An exchange sends one message to each neighbour and direction, and waits for these
    neighbours only.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`, each of which fills its cells with its number:

    >>> from mpi4py import MPI
    >>> from ridgeline.blocks.block import BlockArray
    >>> from ridgeline.blocks.cartesian import decompose
    >>> from ridgeline.blocks.halo import HaloExchange
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (8, 4, 4))
    >>> field = BlockArray.allocate(block, "float64", fill=float(cartesian.rank))
    >>> halo = HaloExchange.of_fields(cartesian, [(field,)], method="pack")
    >>> halo.exchange()
    >>> cartesian.allgather(float(field.ghosted[0, 1, 1]))
    [1.0, 0.0]
    >>> halo.free()
    """

    def __init__(self, comm: MPI.Comm, packer: Packer, method: str) -> None:
        from mpi4py import MPI

        block = packer.plan.block
        if comm.size != block.n_ranks or comm.rank != block.neighbour((0, 0, 0)):
            raise ValueError(
                f"rank {comm.rank} of {comm.size} cannot exchange the halo of block {block.coords} of "
                f"{block.process_grid}. Take both from blocks.cartesian.decompose."
            )
        self.plan = packer.plan
        self.method = method
        self._packer = packer
        sets = range(1 if packer.shared else packer.n_sets)
        messages = list(enumerate(packer.plan.messages))
        self._receives: list[list[MPI.Prequest]] = [
            [comm.Recv_init(packer.receive_buffer(s, i), m.rank, m.receive_tag) for i, m in messages]
            for s in sets
        ]
        self._sends: list[list[MPI.Prequest]] = [
            [comm.Send_init(packer.send_buffer(s, i), m.rank, m.send_tag) for i, m in messages] for s in sets
        ]
        self._start_all, self._test_all = MPI.Prequest.Startall, MPI.Request.Testall
        self._wait_all = MPI.Request.Waitall
        self._active: int | None = None

    @staticmethod
    def of_fields(
        comm: MPI.Comm,
        field_sets: Sequence[Fields],
        *,
        corners: bool = False,
        wrap: tuple[bool, bool, bool] = ALL_AXES,
        method: Method = "auto",
        n_threads: int = 1,
    ) -> HaloExchange:
        """Plan the exchange of fields in host memory.

        Parameters
        ----------
        comm : MPI.Comm
            A communicator whose ranks are numbered as the blocks.
        field_sets : sequence of sequences of BlockArray
            Sets of fields that take turns, such as [(u, v), (u_new, v_new)]; all of one block, dtype and layout. An
            exchange moves one set, named by its index.
        corners : bool
            Also exchange edges and corners.
        wrap : tuple of three bools
            Per axis, whether to fill ghosts of a periodic direction that one rank owns. A sweep that wraps by itself
            passes (False, False, False).
        method : str
            "pack" (compiled kernels and contiguous buffers), "datatypes" (MPI derived datatypes), or "auto", with
            which the autotuner chooses "pack" unless the other is clearly faster. Timing runs exchanges of set 0,
            whose ghosts then hold its neighbours' present cells.
        n_threads : int
            Threads that pack large faces; Numba must have been given as many.

        Returns
        -------
        HaloExchange
            The planned exchange.

        Raises
        ------
        ValueError
            If the fields do not fit together or the communicator does not fit their block.

        Notes
        -----
        Collective. With "auto" it times both methods, unless an earlier run has stored the choice.
        """
        from ridgeline.blocks.halo_datatypes import DatatypePacker
        from ridgeline.parallel.autotuner import choose
        from ridgeline.parallel.communicator import compile_on_nodes

        check_field_sets(field_sets)
        field = field_sets[0][0]
        plan = HaloPlan(field.block, len(field_sets[0]), field.flat.itemsize, corners, wrap)

        def make(name: str) -> HaloExchange:
            packer: Packer
            if name == "datatypes":
                boxes = [(message.send, message.receive) for message in plan.messages]
                wraps = [wrap_copies(plan, field) for _ in range(plan.n_fields)]
                packer = DatatypePacker(plan, field_sets, boxes, wraps, n_threads)
            else:
                packer = HostPacker(plan, field_sets, n_threads)
            compile_on_nodes(comm, packer.compile)
            return HaloExchange(comm, packer, name)

        if method == "auto" and comm.size == 1:
            method = "pack"
        if method != "auto":
            return make(method)
        exchanges = {name: make(name) for name in ("pack", "datatypes")}
        fields = f"{len(field_sets[0])} fields {field.flat.dtype} of {field.block}"
        key = f"halo of {fields}; {corners} {wrap}; {n_threads} threads"
        result = choose({name: exchange._trial for name, exchange in exchanges.items()}, key, comm)
        chosen = exchanges.pop(result.taken)
        for other in exchanges.values():
            other.free()
        return chosen

    def _trial(self) -> Mapping[str, float]:
        """Exchange set 0, as a candidate of the autotuner."""
        self.exchange(0)
        return {}

    def start(self, set_index: int = 0) -> None:
        """Send the outer owned layers of a set of fields. Until `finish`, write neither them nor the ghosts.

        Parameters
        ----------
        set_index : int
            Number of the set. Its cells in `directions` must be computed; the others may be computed until `finish`.

        Raises
        ------
        RuntimeError
            If another exchange has not finished.

        Notes
        -----
        Communicates with neighbours, and does not wait for them.
        """
        if self._active is not None:
            raise RuntimeError(
                f"The halo exchange of set {self._active} is still in progress. Finish it first."
            )
        self._active = set_index
        requests = 0 if self._packer.shared else set_index
        # Receives are started first, so that what arrives goes straight to its place.
        self._start_all(self._receives[requests])
        self._packer.pack(set_index)
        self._start_all(self._sends[requests])

    def progress(self) -> None:
        """Let the MPI library advance large messages; worth a call now and then between `start` and `finish`.

        Most libraries copy, or answer a neighbour's request to send, only while a rank is inside MPI.
        """
        if self._active is not None:
            requests = 0 if self._packer.shared else self._active
            self._test_all(self._receives[requests])
            self._test_all(self._sends[requests])

    def finish(self, set_index: int = 0) -> None:
        """Wait for the neighbours' cells of a started set, and put them into its ghosts.

        Parameters
        ----------
        set_index : int
            Number of the set.

        Raises
        ------
        RuntimeError
            If that set's exchange was not started.
        """
        if self._active != set_index:
            raise RuntimeError(f"The halo exchange of set {set_index} was not started.")
        requests = 0 if self._packer.shared else set_index
        # Copies onto the block itself wait until here, because only cells that are sent must be computed before
        # `start`.
        self._packer.copy_wraps(set_index)
        self._wait_all(self._receives[requests])
        self._packer.unpack(set_index)
        self._wait_all(self._sends[requests])
        self._active = None

    def exchange(self, set_index: int = 0) -> None:
        """Fill the ghosts of a set of fields: `start` and `finish`."""
        self.start(set_index)
        self.finish(set_index)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sends per exchange (and receives)."""
        return self.plan.bytes_sent

    @property
    def messages_sent(self) -> int:
        """Messages that this rank sends per exchange (and receives)."""
        return self.plan.messages_sent

    @property
    def directions(self) -> tuple[Triple, ...]:
        """Directions in which this rank sends; it must have computed the `ghost` owned layers there."""
        return self.plan.directions

    def free(self) -> None:
        """Free requests and datatypes. The exchange cannot be used afterwards."""
        for requests in (*self._receives, *self._sends):
            for request in requests:
                request.Free()
        self._receives, self._sends = [], []
        self._packer.free()
