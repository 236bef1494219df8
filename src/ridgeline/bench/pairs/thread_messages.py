"""Latency and message rate of several threads of one rank that send at the same time (MPI_THREAD_MULTIPLE).

The threads are POSIX threads of a C library (bench/c/message_threads.c), so that no lock of Python keeps them from
sending at the same time. Thread i of one rank exchanges messages with thread i of the other, in its own buffer and
with its own tag. osu_latency_mt has one sending thread and several receiving ones instead.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.bench.c_library import Library, address_of, load_c
from ridgeline.bench.iteration_figures import buffer_note
from ridgeline.bench.pairs.pairs_options import ThreadOptions
from ridgeline.bench.pairs.point_to_point import choose_pairs
from ridgeline.bench.result import SIZE, Column, Plot, Result
from ridgeline.bench.shared_options import Family, Repetitions, message_sizes
from ridgeline.bench.sweep_points import doubling
from ridgeline.limits.messages import one_way
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import mpi_library, sleeping_barrier, thread_level
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import check, content
from ridgeline.runtime.errors import ConfigError, VerificationError
from ridgeline.runtime.memory_pages import huge_share, paged_zeros

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

MOST_WINDOW = 1024  # messages in flight, the limit of bench/c/message_threads.c
_LINE = 4096  # bytes of which the distance of two threads' buffers is a multiple: a page
_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "message_threads": (_INT, _POINTER, _INT, _INT, _INT, _POINTER, _LONG, *[_INT] * 4, _POINTER),
}


def measure_multi_thread(comm: MPI.Comm, options: ThreadOptions) -> Result:
    """Measure messages between the threads of two ranks, for 1, 2, 4, ... and all threads. Collective over comm.

    Raises ConfigError on all ranks if MPI gives less than MPI_THREAD_MULTIPLE or C cannot be compiled, and
    VerificationError if a message is damaged.
    """
    if thread_level() != "multiple":
        raise ConfigError(
            f"multi-thread requires MPI_THREAD_MULTIPLE, but {mpi_library()} gives this process "
            f"MPI_THREAD_{thread_level().upper()}. Unset MPI4PY_RC_THREAD_LEVEL, or use an MPI library with threads."
        )
    if not 1 <= options.window <= MOST_WINDOW:
        raise ConfigError(
            f"--window {options.window}: a thread can keep 1 to {MOST_WINDOW} messages in flight."
        )
    sizes = message_sizes(*options.sizes)
    layout = find_layout(comm, options.ranks_per_node)
    (pair,) = choose_pairs(layout, options.pairing, 1)
    library, how = load_c(comm, "message_threads", _FUNCTIONS)
    if library is None:
        raise ConfigError(f"multi-thread sends from threads in C, which cannot be compiled here: {how}.")
    rows: list[dict[str, Any]] = []
    failure: VerificationError | None = None
    share: float | None = None
    if comm.rank in pair:
        threads = _ThreadsOfRank(comm, library, pair, options, sizes[-1])
        for test in options.tests:
            for count in doubling(options.threads):
                rows += [threads.measure(test, count, size) for size in sizes]
        failure, share = threads.failure, huge_share(threads.memory)
    sleeping_barrier(comm)
    with errors_on_all_ranks(comm):
        if failure is not None:
            raise failure
    rows, share = comm.bcast((rows, share), pair[0])
    _add_speed_up(rows)
    return _make_result(comm.size, layout.n_nodes, pair, options, rows, share, how)


class _ThreadsOfRank:
    """One rank of the pair with the buffers of its threads. failure: the first damaged message."""

    def __init__(
        self, comm: MPI.Comm, library: Library, pair: tuple[int, int], options: ThreadOptions, largest: int
    ) -> None:
        self.comm, self.library, self.pair, self.options = comm, library, pair, options
        self.first = comm.rank == pair[0]
        self.partner = pair[self.first]
        self.stride = -(-max(largest, 1) // _LINE) * _LINE
        self.memory = paged_zeros(options.threads * self.stride, options.pages)
        self.failure: VerificationError | None = None

    def measure(self, test: str, count: int, size: int) -> dict[str, Any]:
        """Return the row of one test with `count` threads, complete on the first rank. Collective over the pair."""
        window = 0 if test == "latency" else self.options.window
        family: Family = "latency" if test == "latency" else "bandwidth"
        iterations, warm_up = Repetitions(family, self.options.iterations, self.options.warm_up).of(size)
        buffers: list[Bytes] = [self.memory[t * self.stride : t * self.stride + size] for t in range(count)]
        for thread, buffer in enumerate(buffers):
            message = content(size, *self.pair, thread)
            buffer[:] = message if self.first else ~message
        seconds = np.zeros(count)
        self.comm.sendrecv(None, self.partner, source=self.partner)  # both begin together
        failed = self.library["message_threads"](
            address_of(self.comm), self.partner, self.first, count, self.memory.ctypes.data, self.stride,
            size, window, iterations, warm_up, seconds.ctypes.data,
        )  # fmt: skip
        try:
            if failed:
                raise VerificationError("MPI reported an error in a thread. The network or a rank is faulty.")
            for thread, buffer in enumerate(buffers):
                check(buffer, *self.pair, thread)
        except VerificationError as error:
            self.failure = self.failure or error
        row: dict[str, Any] = {"test": test, "threads": count, "size": size}
        if test == "latency":
            each = [one_way(time, iterations) for time in seconds.tolist()]
            row |= {"seconds": sum(each) / count, "min_seconds": min(each), "max_seconds": max(each)}
            return row | {"message_rate": float((1 / np.array(each)).sum())}
        rate = float((window * iterations / seconds).sum())
        return row | {"message_rate": rate, "bandwidth": size * rate}


def _add_speed_up(rows: list[dict[str, Any]]) -> None:
    """Add the message rate of all threads over that of one."""
    alone = {(row["test"], row["size"]): row["message_rate"] for row in rows if row["threads"] == 1}
    for row in rows:
        row["speed_up"] = row["message_rate"] / alone[row["test"], row["size"]]


def _make_result(
    ranks: int,
    nodes: int,
    pair: tuple[int, int],
    options: ThreadOptions,
    rows: list[dict[str, Any]],
    share: float | None,
    how: str,
) -> Result:
    rates = "rate" in options.tests
    return Result(
        benchmark="multi-thread",
        pattern=f"threads of rank {pair[0]} send to threads of rank {pair[1]} at the same time, each to its own: "
        f"ping-pongs, or windows of {options.window} messages with a reply of 4 B",
        formula="us = t / (2 iterations) of a thread; messages/s = sum over threads of messages / t; over 1 thread: "
        "messages/s / messages/s of 1 thread",
        statistic="mean of all iterations; mean, min and max over threads",
        ranks=ranks,
        nodes=nodes,
        columns=[
            Column("test", "test"),
            Column("threads", "threads"),
            SIZE,
            Column("seconds", "mean us", 1e-6),
            Column("min_seconds", "min us", 1e-6),
            Column("max_seconds", "max us", 1e-6),
            Column("message_rate", "messages/s", 1.0, ".0f"),
            Column("bandwidth", "MB/s", 1e6),
            Column("speed_up", "over 1 thread"),
        ],
        rows=rows,
        left_out=[rank for rank in range(ranks) if rank not in pair],
        settings={
            "pair": list(pair),
            "pairing": options.pairing,
            "threads": options.threads,
            "window": options.window,
            "memory": "host",
            "pages": options.pages,
            "huge_pages": share,
            "language": how,
        },
        notes=[f"The threads are POSIX threads of C: {how}.", buffer_note(options.pages, share, "bytes")],
        plot=Plot(
            "size",
            ("message_rate",) if rates else ("seconds",),
            ("test", "threads"),
            x_label="message size in B",
            y_label="messages/s of all threads" if rates else "latency in us",
            y_scale=1.0 if rates else 1e-6,
        ),
    )
