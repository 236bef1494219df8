"""A ping-pong of messages between two ranks in three languages: Fig. 9 of the Julia paper.

The figures are the mean latency and the harmonic mean of the throughput over 100 trials, after 10 that do not count.
Tukey's rule removes outliers. Source: Rizvi and Hale, "A Look at Communication-Intensive Performance in Julia",
Secs. III.A and IV.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.language.language_options import PingPongOptions
from ridgeline.bench.language.languages import AvailableLanguages, find_languages
from ridgeline.bench.language.loops import Loops
from ridgeline.bench.outliers import remove_outliers
from ridgeline.bench.result import MICROSECONDS, SIZE, Column, Plot, Result
from ridgeline.bench.shared_options import message_sizes
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.parallel.payload import check, content
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

COLUMNS = (
    SIZE,
    Column("language", "language"),
    MICROSECONDS,
    Column("median", "median us", 1e-6),
    Column("best", "best us", 1e-6),
    Column("ratio", "over C", form=".3f"),
    Column("bandwidth", "MB/s", 1e6),
    Column("outliers", "outliers"),
    Column("note", ""),
)


def one_way(seconds: float, round_trips: int) -> float:
    """Return the latency in s: half of a round trip, t / (2 n)."""
    return seconds / (2 * round_trips)


def harmonic_throughput(size: int, latencies: NDArray[np.float64]) -> float:
    """Return the harmonic mean in B/s of the throughputs size / latency. The latencies are in s, [trials]."""
    return size * latencies.size / float(latencies.sum())


def measure_pingpong(comm: MPI.Comm, options: PingPongOptions) -> Result:
    """Time round trips between rank 0 and the first rank of the second node, or rank 1 on a single node.

    Collective over comm; the other ranks sleep. The languages take turns in every trial, so that a disturbance
    affects all of them. Raises ConfigError for a single rank or numbers out of range, and VerificationError if a
    message arrives changed.
    """
    sizes = message_sizes(*options.sizes)
    repetitions = options.trials, options.warm_up, options.batch
    if comm.size < 2:
        raise ConfigError("pingpong requires two ranks, but there is 1. Start them with -n 2.")
    layout = find_layout(comm, options.ranks_per_node)
    languages = find_languages(comm, options.languages)
    pair = (0, layout.ranks_on(1)[0] if layout.n_nodes > 1 else 1)
    timed = []
    if comm.rank in pair:
        first = comm.rank == 0
        for size in sizes:
            timed.append(_measure_size(comm.rank, pair[first], first, languages.loops, size, *repetitions))
    sleeping_barrier(comm)
    return _make_result(comm, layout, pair, languages, sizes, timed, repetitions)


def _measure_size(
    rank: int,
    partner: int,
    first: bool,
    loops: Sequence[Loops],
    size: int,
    trials: int,
    warm_up: int,
    batch: int,
) -> NDArray[np.float64]:
    """Return latencies in s, [languages, trials]. Collective over the two ranks."""
    # An array of 0 B would have no memory, and numba-mpi reads the first byte.
    outbox = np.zeros(max(size, 1), np.uint8)[:size]
    inbox = np.zeros(max(size, 1), np.uint8)[:size]
    samples = np.zeros((len(loops), warm_up + trials))
    for number, language in enumerate(loops):
        verify(language, rank, partner, first, outbox, inbox, number)
    order = list(enumerate(loops))
    for trial in range(warm_up + trials):
        for number, language in order if trial % 2 == 0 else reversed(order):
            samples[number, trial] = one_way(language.ping_pong(partner, first, outbox, inbox, batch), batch)
    if loops:
        check(inbox, partner, rank, len(loops) - 1)
    return samples[:, warm_up:]


def verify(
    language: Loops,
    rank: int,
    partner: int,
    first: bool,
    outbox: NDArray[np.uint8],
    inbox: NDArray[np.uint8],
    sequence: int,
) -> None:
    """Exchange message number `sequence` and verify it; it stays in the outbox. Collective over the two ranks.

    Raises VerificationError if what arrived is not what was sent.
    """
    outbox[:] = content(outbox.size, rank, partner, sequence)
    inbox[:] = 0
    language.ping_pong(partner, first, outbox, inbox, 1)
    check(inbox, partner, rank, sequence)


def make_rows(
    names: Sequence[str], sizes: Sequence[int], timed: Sequence[NDArray[np.float64]]
) -> list[dict[str, Any]]:
    """Return a row for each size and language. `timed` holds the latencies in s of each size, [languages, trials]."""
    rows = []
    for size, samples in zip(sizes, timed):
        kept = [remove_outliers(values) for values in samples]
        means = {name: float(np.mean(values)) for name, values in zip(names, kept)}
        for name, values, all_values in zip(names, kept, samples):
            rows.append(
                {
                    "size": size,
                    "language": name,
                    "seconds": means[name],
                    "median": float(np.median(values)),
                    "best": float(np.min(all_values)),
                    "ratio": means[name] / means["C"] if "C" in means else None,
                    "bandwidth": harmonic_throughput(size, values),
                    "outliers": int(all_values.size - values.size),
                }
            )
    return rows


def _make_result(
    comm: MPI.Comm,
    layout: Layout,
    pair: tuple[int, int],
    languages: AvailableLanguages,
    sizes: Sequence[int],
    timed: Sequence[NDArray[np.float64]],
    repetitions: tuple[int, int, int],
) -> Result:
    trials, warm_up, batch = repetitions
    rows = make_rows([language.name for language in languages.loops], sizes, timed) if comm.rank == 0 else []
    rows += [{"language": name, "note": f"not run: {why}"} for name, why in languages.missing.items()]
    apart = layout.node_of_rank[pair[0]] != layout.node_of_rank[pair[1]]
    return Result(
        benchmark="pingpong",
        pattern=f"a message from rank {pair[0]} to rank {pair[1]} and back, "
        f"{'on two nodes' if apart else 'on one node'}; C, Python and compiled Python take turns",
        formula="us: round trip / 2; MB/s: harmonic mean of size / us; over C: us / us of C",
        statistic=f"mean of {trials} trials of {batch} round trips, after {warm_up} to warm up, without outliers "
        "(Tukey)",
        ranks=comm.size,
        nodes=layout.n_nodes,
        columns=COLUMNS if languages.missing else COLUMNS[:-1],
        rows=rows,
        left_out=[rank for rank in range(comm.size) if rank not in pair],
        settings={"trials": trials, "warm_up": warm_up, "batch": batch, "languages": languages.how},
        extra={"missing": languages.missing},
        notes=[f"{name}: {how}" for name, how in languages.how.items()],
        plot=Plot(
            "size",
            ("seconds",),
            ("language",),
            x_label="message size in B",
            y_label="latency in us",
            y_scale=1e-6,
        ),
    )
