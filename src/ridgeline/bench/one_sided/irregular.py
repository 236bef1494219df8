"""One-sided access at irregular places: the communication of the fast multipole method.

Every rank gets (or puts, or accumulates) very many small pieces at irregular places of every other rank's window, in
an order of its own. One completion follows every so many operations, and no rank waits for another's turn. All ranks
at once in one window, or in several sub-communicators with a window each.

messages/s = pieces of all ranks / t, MB/s = their bytes / t / 1e6, t from a barrier to the completion on the slowest
rank. All data are verified. A get verifies every piece that it brought. Puts (to disjoint places) and accumulates
(sums of 64-bit integers where places overlap) verify every word of every window, also those that nobody writes.

Source: the one-sided tests of the FMM code on Aurora, Sec. 5.3.5, Tables 4 to 6. They have a completion every 2000
or 100 operations, 1.6 to 19 million messages, and one communicator or nine.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.exposed_memory import ExposedMemory, check_sums
from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.one_sided.access_plan import WORD, AccessPlan, Pieces, plan_accesses
from ridgeline.bench.one_sided.one_sided_options import Completion, OneSidedOptions, Operation
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import Buffer, Memory
from ridgeline.runtime.errors import ConfigError, DeviceError

_COPIES = 4  # of the pieces, that a rank holds while it verifies: its buffer, its window with gaps, what is expected


def message_rate(messages: int, seconds: float) -> float:
    """Return messages/s."""
    return messages / seconds


def parts_of(ranks: int, communicators: int) -> list[range]:
    """Return the ranks of each of so many sub-communicators: consecutive, as equal as can be.

    Raises ConfigError unless each has two ranks or more.
    """
    if not 1 <= communicators <= ranks // 2:
        raise ConfigError(
            f"{communicators} communicators of {ranks} rank{'s' * (ranks != 1)}: each needs two ranks, so start at "
            f"least {max(2 * communicators, 2)}, as with -n {max(2 * communicators, 2)}"
        )
    bounds = [ranks * part // communicators for part in range(communicators + 1)]
    return [range(a, b) for a, b in pairwise(bounds)]


def measure_irregular(comm: MPI.Comm, options: OneSidedOptions, memory: Memory = "host") -> Result:
    """Measure the pattern for each operation and number of sub-communicators. Collective, the same result everywhere.

    sync: what completes every `every` operations of a rank. It is flush or flush_local of all targets, unlock and
    lock of all targets, or a fence of all ranks. messages: of every rank, in all; pieces: their least and largest
    bytes, multiples of 8. One repeat more warms up. Raises ConfigError if an argument is out of range or memory is
    too small. Raises VerificationError if wrong data arrived, and DeviceError for GPU memory that MPI does not take.
    """
    sync, every, messages, repeats = options.sync, options.every, options.messages, options.repeats
    sizes = Pieces(*options.pieces, options.distribution)
    if memory == "cuda-staged":
        raise DeviceError(
            "this MPI takes no GPU memory, and nobody stages what others access; use --device cpu or a CUDA-aware MPI"
        )
    parts = {n: parts_of(comm.size, n) for n in options.communicators}
    layout = find_layout(comm)
    needed = int(_COPIES * messages * sizes.mean_bytes())
    what = f"{messages} messages of each rank need"
    require_memory(comm, needed, what, "ask for fewer messages or smaller pieces")
    rows = []
    for n, ranges in parts.items():
        mine = next(i for i, part in enumerate(ranges) if comm.rank in part)
        part = comm.Split(mine, comm.rank)
        for operation in options.operations or ("get",):
            plan = plan_accesses(part, messages, sizes, operation == "accumulate", options.seed)
            seconds = _measure_pieces(comm, part, plan, operation, sync, every, repeats, memory)
            moved = comm.allreduce(plan.local_words * WORD)
            rows.append(_row(operation, n, messages * comm.size, moved, seconds))
        part.Free()
    return Result(
        benchmark="one-sided, irregular",
        pattern=(
            f"every rank accesses {messages} pieces of {sizes.smallest} to {sizes.largest} B "
            f"({options.distribution}) at irregular places of all other ranks' windows; "
            f"{sync} every {every} operations"
        ),
        formula="messages/s = messages / t; MB/s = bytes / t / 1e6; t until the slowest rank is done",
        statistic=f"median of {repeats}, the best beside it; first rank: the one that was done first",
        ranks=comm.size,
        nodes=layout.n_nodes,
        columns=[
            Column("operation", "operation"),
            Column("communicators", "communicators"),
            Column("messages", "messages"),
            Column("bytes", "MB", 1e6),
            Column("seconds", "s", 1.0, ".4f"),
            Column("best_seconds", "best s", 1.0, ".4f"),
            Column("first_seconds", "first rank s", 1.0, ".4f"),
            Column("message_rate", "messages/s", 1.0, ".0f"),
            Column("rate", "MB/s", 1e6),
        ],
        rows=rows,
        settings={
            "sync": sync,
            "every": every,
            "messages_per_rank": messages,
            "pieces": [sizes.smallest, sizes.largest],
            "distribution": options.distribution,
            "repeats": repeats,
            "seed": options.seed,
            "memory": memory,
        },
        plot=Plot(
            kind="bars",
            x="operation",
            y=("message_rate",),
            by=("communicators",),
            y_label="1e6 messages/s",
            y_scale=1e6,
        ),
    )


def _row(
    operation: str, communicators: int, messages: int, n_bytes: int, seconds: np.ndarray
) -> dict[str, Any]:
    """Return a line of the table. seconds: float64 [repeats, ranks]."""
    slowest = seconds.max(axis=1)
    typical = float(np.median(slowest))
    return {
        "operation": operation,
        "communicators": communicators,
        "messages": messages,
        "bytes": n_bytes,
        "seconds": typical,
        "best_seconds": float(slowest.min()),
        "first_seconds": float(np.median(seconds.min(axis=1))),
        "message_rate": message_rate(messages, typical),
        "rate": n_bytes / typical,
    }


def _measure_pieces(
    comm: MPI.Comm,
    part: MPI.Comm,
    plan: AccessPlan,
    operation: Operation,
    sync: Completion,
    every: int,
    repeats: int,
    memory: Memory,
) -> np.ndarray:
    """Return the seconds of every repeat, verified, on every rank, float64 [repeats, ranks]. Collective."""
    exposed = ExposedMemory(part, plan.window_words * WORD, memory, disp_unit=WORD)
    local = Buffer(plan.local_words * WORD, memory)
    win, reads = exposed.win, operation == "get"
    before = plan.readable() if reads else np.zeros(plan.window_words, np.uint64)
    sent = np.zeros(plan.local_words, np.uint64) if reads else plan.outgoing()
    expected = plan.fetched() if reads else plan.window_left()
    array = local.message(0)[0]
    word = MPI.UINT64_T
    calls = []
    for i in plan.order:
        length, start, place = int(plan.length[i]), int(plan.start[i]), int(plan.place[i])
        calls.append(([array, length, start, word], int(plan.target[i]), [place, length, word]))
    epochs = [calls[first : first + every] for first in range(0, len(calls), every)]
    operate = {"get": win.Get, "put": win.Put, "accumulate": win.Accumulate}[operation]
    seconds = []
    with exposed.freed_at_end():
        for _ in range(repeats + 1):
            exposed.write(before.view(np.uint8))
            local.write(sent.view(np.uint8))
            comm.Barrier()
            began = time.perf_counter()
            _access(win, operate, epochs, sync)
            elapsed = time.perf_counter() - began
            comm.Barrier()
            with errors_on_all_ranks(comm):
                arrived = local.read(expected.nbytes) if reads else exposed.read(expected.nbytes)
                check_sums(arrived.view(np.uint64), expected, comm.rank, "others")
            seconds.append(comm.allgather(elapsed))
    return np.array(seconds[1:])


def _access(win: MPI.Win, operate: Any, epochs: list[list[Any]], sync: Completion) -> None:
    """Do all operations of this rank, with a completion after each epoch; all are complete at the end."""
    if sync == "fence":
        fence = win.Fence
        fence()
        for calls in epochs:
            for message, target, place in calls:
                operate(message, target, place)
            fence(MPI.MODE_NOSUCCEED if calls is epochs[-1] else 0)
        return
    if sync == "unlock":
        for calls in epochs:
            win.Lock_all()
            for message, target, place in calls:
                operate(message, target, place)
            win.Unlock_all()
        return
    win.Lock_all()
    complete = win.Flush_all if sync == "flush" else win.Flush_local_all
    for calls in epochs:
        for message, target, place in calls:
            operate(message, target, place)
        complete()
    win.Unlock_all()
