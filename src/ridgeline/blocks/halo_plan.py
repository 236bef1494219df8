"""What a halo exchange moves: which cells go to which neighbour, and where they lie in its message.

Plain data, the same for every backend; no communicator, no arrays.
"""

from dataclasses import dataclass
from functools import cached_property

from ridgeline.blocks.block import Block, all_directions
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.aligned import CACHE_LINE

ALL_AXES = (True, True, True)


@dataclass(frozen=True)
class Box:
    """Cells `start` <= (z, y, x) < `start + shape`, local indices (ghosts are negative or past the owned)."""

    start: Triple
    shape: Triple

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.shape[0] * self.shape[1] * self.shape[2]


def owned_box(block: Block, direction: Triple, layers: int) -> Box:
    """Return the owned cells of the last layers towards `direction`: what that neighbour needs."""
    ends = zip(direction, block.shape_local)
    return _box(block, direction, layers, tuple(n - layers if d > 0 else 0 for d, n in ends))


def ghost_box(block: Block, direction: Triple, layers: int) -> Box:
    """Return the first layers of ghost cells in `direction`: what comes from that neighbour."""
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
    """Number the direction in which a message travels: neighbours that coincide stay apart by it."""
    return (direction[0] + 1) * 9 + (direction[1] + 1) * 3 + direction[2] + 1


@dataclass(frozen=True)
class Message:
    """One neighbour in one direction: all fields of `send` go there, all fields of `receive` come back.

    In the buffers, of equal layout for both ways, field f's cells start at item offset + f * cells, x
    fastest; `offset` lies on a cache line.
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
        """Tag of the message received: the neighbour sends it the other way."""
        return _tag(_opposite(self.direction))


@dataclass(frozen=True)
class Wrap:
    """A periodic direction that ends on the block itself: owned cells `source` are copied to ghosts `target`."""

    source: Box
    target: Box


@dataclass(frozen=True)
class HaloPlan:
    """The exchange of `n_fields` fields of `itemsize` bytes per cell on one block.

    corners: also edges and corners, as stencils that are not a star and temporally blocked sweeps need. They travel
    as messages of their own, up to 26 in all. Three staged exchanges over z, y, x would be 6 messages. But each stage
    waits for the one before, so only the last could hide behind computing. wrap: per axis, whether the exchange fills
    the ghosts of a periodic direction that one rank holds. False where the sweep wraps by itself; directions with a
    part in such an axis are then left out altogether.

    layers: of faces, as many as there are ghosts if None. star: they are those of two steps of a star, which need
    edges in one layer and no corners. An edge is exchanged if one of its axes is cut, whatever `wrap` says.
    """

    block: Block
    n_fields: int
    itemsize: int
    corners: bool = False
    wrap: tuple[bool, bool, bool] = ALL_AXES
    layers: int | None = None
    star: bool = False

    def _directions(self) -> list[Triple]:
        def kept(direction: Triple) -> bool:
            if self.star and _axes(direction) > 1:
                return not self._is_own(direction)
            return all(
                wrap or d == 0 or p > 1 for d, p, wrap in zip(direction, self.block.process_grid, self.wrap)
            )

        axes = 3 if self.corners else 2 if self.star else 1
        return [d for d in all_directions() if _axes(d) <= axes and kept(d)]

    def _layers(self, direction: Triple) -> int:
        return 1 if self.star and _axes(direction) > 1 else self.layers or self.block.ghost

    def _is_own(self, direction: Triple) -> bool:
        return all(d == 0 or p == 1 for d, p in zip(direction, self.block.process_grid))

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """What goes to and comes from other ranks: faces first, then edges and corners."""
        found = []
        offset = 0
        line = CACHE_LINE // self.itemsize
        for direction in self._directions():
            rank = self.block.neighbour(direction)
            if rank is None or self._is_own(direction):
                continue
            layers = self._layers(direction)
            send, receive = owned_box(self.block, direction, layers), ghost_box(self.block, direction, layers)
            items = send.cells * self.n_fields
            found.append(Message(direction, rank, send, receive, offset, items))
            offset += -(-items // line) * line
        return tuple(found)

    @cached_property
    def wraps(self) -> tuple[Wrap, ...]:
        """What the block copies onto itself, per field."""
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
        """Directions in which this rank sends: the slabs there must be computed before `start`."""
        return tuple(message.direction for message in self.messages)
