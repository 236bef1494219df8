"""Which tests a run of HPL makes, from its options or from HPL.dat, and what of the file runs otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isfinite

from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.declaration import HplOptions
from ridgeline.bench.hpl.device.memory import device_bytes_of
from ridgeline.bench.hpl.hpl_dat import HplDat, HplTest, read_hpl_dat
from ridgeline.bench.hpl.record import BROADCASTS, HplSettings
from ridgeline.bench.hpl.sizes import BytesOf, FreeMemory, choose_sizes, require_fit
from ridgeline.bench.node_memory import memory_per_rank
from ridgeline.bench.shared_options import ComputeDevice
from ridgeline.parallel.devices import device_memory_per_rank, select_device
from ridgeline.parallel.reduce import decide
from ridgeline.runtime.errors import DecompositionError

BLOCK = 256  # columns of large systems; narrower for small ones, which have few blocks
_STDOUT, _STDERR = 6, 7
_WITHOUT_EFFECT = "SWAP, its threshold, the forms of L1 and U, equilibration and alignment have no effect"


@dataclass(frozen=True)
class HplPlan:
    """Tests in their order, the threshold of the residual, where the lines go, and what a reader must know.

    output: a file for the lines, None for standard output; tried: whether the fastest broadcast is to be found.
    """

    tests: tuple[HplTest, ...]
    threshold: float
    notes: tuple[str, ...] = ()
    output: str | None = None
    tried: bool = False

    def settings(self, test: HplTest, options: HplOptions) -> HplSettings:
        """Return a test as the engine takes it."""
        return HplSettings(
            n=test.n,
            nb=test.nb,
            p=test.p,
            q=test.q,
            threads=options.threads,
            order="row" if test.row_major else "column",
            broadcast=None if self.tried else BROADCASTS[test.broadcast],
            nbmin=test.least_columns,
            ndiv=test.divisions,
            threshold=self.threshold,
            seed=options.seed,
            device=options.device,
        )


def block_for(n: int) -> int:
    """Return NB for an order: at least a dozen blocks, 16 to 256 columns wide."""
    return min(BLOCK, max(16, n // 12 // 16 * 16))


def bytes_of(n: int, nb: int, p: int, q: int) -> int:
    """Return the bytes that a process needs at most: its part of the matrix, two panels, rows that change places."""
    rows, columns = Axis(n, nb, p, 0).count(), Axis(n + 1, nb, q, 0).count()
    return 8 * ((rows + 16) * columns + 2 * nb * (rows + nb + 1) + 3 * nb * columns)


def memory_of(
    comm: MPI.Comm,
    device: ComputeDevice,
    on_host: BytesOf = bytes_of,
    on_device: BytesOf = device_bytes_of,
) -> FreeMemory:
    """Return the memory of ranks, on their hosts or their GPUs. Collective over comm, the same on all ranks.

    on_host, on_device: what a system takes there. Raises DeviceError if a rank has no GPU.
    """
    if device == "cpu":
        return FreeMemory(memory_per_rank(comm), on_host)
    free = device_memory_per_rank(comm, select_device(comm))
    # A simulated device has no limit, and lies in host memory.
    return FreeMemory(free if isfinite(free) else memory_per_rank(comm), on_device)


def make_plan(comm: MPI.Comm, options: HplOptions) -> HplPlan:
    """Return the tests of a run. Collective over comm, the same on all ranks.

    Raises ConfigError for a damaged file or sizes that do not fit, OutputError for a file that cannot be read.
    Raises DecompositionError for a grid of other ranks, DeviceError for a GPU that is not there.
    """
    memory = memory_of(comm, options.device)
    if options.dat is not None:
        path = options.dat
        dat = decide(comm, lambda: read_hpl_dat(path))
        return plan_of(comm, dat, path, memory)
    sizes = choose_sizes(comm, options, memory, block_for)
    tried = options.broadcast == "fastest"  # which of them it is, the result says
    test = HplTest(
        sizes.n,
        sizes.nb,
        sizes.p,
        sizes.q,
        row_major=options.numbering == "row",
        broadcast=0 if tried else BROADCASTS.index(options.broadcast),
        divisions=options.ndiv,
        least_columns=options.nbmin,
    )
    return HplPlan((test,), options.threshold, sizes.notes, tried=tried)


def plan_of(comm: MPI.Comm, dat: HplDat, path: str, memory: FreeMemory) -> HplPlan:
    """Return the tests of a file as they run here. No communication.

    Raises DecompositionError if a grid has more processes than there are ranks. Raises ConfigError for a test that
    does not fit into memory, before the first of them runs.
    """
    for p, q in dat.grids:
        if p * q > comm.size:
            raise DecompositionError(
                f"{path} has a {p} x {q} grid, which needs {p * q} ranks, and there are {comm.size}; use -n {p * q}"
            )
    tests = tuple(as_offered(test) for test in dat.tests())
    for test in tests:
        require_fit(test.n, test.nb, (test.p, test.q), memory)
    output = None if dat.device in (_STDOUT, _STDERR) else dat.output
    return HplPlan(tests, dat.threshold, (f"tests from {path}", *_departures(dat)), output)


def as_offered(test: HplTest) -> HplTest:
    """Return a test as it runs here: look-ahead 1, right-looking recursion, left-looking columns.

    A broadcast that HPL 2.3 does not know runs as its 1ringM, as HPL 2.3 does.
    """
    broadcast = test.broadcast if test.broadcast < len(BROADCASTS) else BROADCASTS.index("1ringM")
    return replace(test, depth=1, recursive_factor=2, panel_factor=0, broadcast=broadcast)


def _departures(dat: HplDat) -> Iterable[str]:
    """Yield a sentence for each list that has what is not offered."""
    rows = (
        (dat.depths, (1,), "DEPTH", "1"),
        (dat.recursive_factors, (2,), "RFACT", "2 (right-looking)"),
        (dat.panel_factors, (0,), "PFACT", "0 (left-looking)"),
        (dat.broadcasts, range(len(BROADCASTS)), "BCAST", "1 (1ringM)"),
    )
    for given, offered, name, instead in rows:
        others = [value for value in dict.fromkeys(given) if value not in offered]
        if others:
            yield f"{name} {', '.join(map(str, others))} runs as {instead}, which is offered in its place"
    yield _WITHOUT_EFFECT
