"""Halo exchange: ghost cells filled with the neighbours' owned cells while the interior is computed.

    exchange = HaloExchange.of_fields(cartesian, [(u, v), (u_new, v_new)])     # once
    exchange.start(i)      # pack and send the faces of set i; they must be computed
    ...                    # compute whatever needs no ghosts
    exchange.finish(i)     # wait and unpack: the ghosts are there

Ghosts beyond a boundary that is not periodic are left alone: they are the model's. Everything is made once,
at plan time: buffers, datatypes, tables of boxes and persistent requests. A step allocates nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from mpi4py import MPI

from ridgeline.blocks.halo_datatypes import DatatypePacker
from ridgeline.blocks.halo_pack import Fields, HostPacker, Packer, check_field_sets
from ridgeline.blocks.halo_plan import ALL_AXES, HaloPlan
from ridgeline.parallel.choices import choose
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.partition import Triple

Method = Literal["auto", "pack", "datatypes"]


class HaloExchange:
    """A planned exchange of the ghosts of one set of fields at a time. Built collectively.

    comm: a communicator whose ranks are numbered as the blocks (see blocks.cartesian.decompose).
    packer: the fields' side, see halo_pack.Packer; `of_fields` chooses one for host arrays.
    """

    def __init__(self, comm: MPI.Comm, packer: Packer, method: str) -> None:
        block = packer.plan.block
        if comm.size != block.n_ranks or comm.rank != block.neighbour((0, 0, 0)):
            raise ValueError(
                f"rank {comm.rank} of {comm.size} cannot exchange for block {block.coords} of "
                f"{block.process_grid}; take both from blocks.cartesian.decompose"
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
    ) -> "HaloExchange":
        """Plan the exchange of fields in host memory. Collective.

        Parameters
        ----------
        field_sets : sets of fields that take turns, such as [(u, v), (u_new, v_new)]; all of one block,
            dtype and layout. An exchange moves one set, named by its index.
        corners : also exchange edges and corners
        wrap : per axis, whether to fill ghosts of a periodic direction that one rank holds. A sweep that wraps in x
            by itself passes (True, True, False) and saves a cache line per row
        method : "pack" (compiled kernels and contiguous buffers), "datatypes" (MPI derived datatypes), or
            "auto", for which the autotuner takes "pack" unless the other is clearly faster. Timing runs exchanges of
            set 0: its ghosts then hold its neighbours' present cells.
        n_threads : threads that pack large faces; Numba must have been given as many

        Raises ValueError if the fields do not fit together or the communicator does not fit their block.
        """
        check_field_sets(field_sets)
        field = field_sets[0][0]
        plan = HaloPlan(field.block, len(field_sets[0]), field.flat.itemsize, corners, wrap)

        def make(name: str) -> HaloExchange:
            maker = DatatypePacker if name == "datatypes" else HostPacker
            packer: Packer = maker(plan, field_sets, n_threads)
            in_turn_per_node(comm, packer.compile)
            return HaloExchange(comm, packer, name)

        if method == "auto" and comm.size == 1:
            method = "pack"
        if method != "auto":
            return make(method)
        made = {name: make(name) for name in ("pack", "datatypes")}
        of = f"{len(field_sets[0])} fields {field.flat.dtype} of {field.block}"
        key = f"halo of {of}; {corners} {wrap}; {n_threads} threads"
        chosen = made.pop(choose({name: each._try for name, each in made.items()}, key, comm).taken)
        for other in made.values():
            other.free()
        return chosen

    def _try(self) -> Mapping[str, float]:
        self.exchange(0)
        return {}

    def start(self, set_index: int = 0) -> None:
        """Send the outer owned layers of a set of fields; until `finish`, write neither them nor the ghosts.

        The cells to compute before are those of `directions`; the others may be computed until `finish`.
        Communication: neighbours; does not wait for them. Raises RuntimeError if an exchange is under way.
        """
        if self._active is not None:
            raise RuntimeError(f"halo exchange of set {self._active} is under way; finish it first")
        self._active = set_index
        requests = 0 if self._packer.shared else set_index
        # Receives first: what arrives then goes straight to its place.
        MPI.Prequest.Startall(self._receives[requests])
        self._packer.pack(set_index)
        MPI.Prequest.Startall(self._sends[requests])

    def progress(self) -> None:
        """Let the MPI library move large messages on; worth a call now and then between `start` and `finish`.

        Most libraries copy or answer a neighbour's request to send only while a rank is inside MPI.
        """
        if self._active is not None:
            requests = 0 if self._packer.shared else self._active
            MPI.Request.Testall(self._receives[requests])
            MPI.Request.Testall(self._sends[requests])

    def finish(self, set_index: int = 0) -> None:
        """Wait for the neighbours' cells of a started set and put them into its ghosts.

        Raises RuntimeError if that set's exchange is not under way.
        """
        if self._active != set_index:
            raise RuntimeError(f"halo exchange of set {set_index} was not started")
        requests = 0 if self._packer.shared else set_index
        # Copies onto the block itself wait until here: only cells that are sent must be computed before `start`.
        self._packer.copy_wraps(set_index)
        MPI.Request.Waitall(self._receives[requests])
        self._packer.unpack(set_index)
        MPI.Request.Waitall(self._sends[requests])
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
        """Free requests and datatypes. The exchange is of no use afterwards."""
        for requests in (*self._receives, *self._sends):
            for request in requests:
                request.Free()
        self._receives, self._sends = [], []
        self._packer.free()
