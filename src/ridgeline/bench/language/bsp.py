"""The bulk-synchronous ring of the Julia paper: the cost of a language where ranks compute and communicate in turn.

In an iteration every rank loads r words of an array, stores w, and does f floating-point operations, each of which
waits for the one before. Then, c times, it sends a message to the rank before it on a ring and receives one from the
rank behind it. The work of a rank does not depend on the number of ranks (weak scaling).

Source: Rizvi and Hale, "A Look at Communication-Intensive Performance in Julia", Sec. IV, Figs. 6-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.bench.language.language_options import BspOptions
from ridgeline.bench.language.languages import AvailableLanguages, find_languages
from ridgeline.bench.language.loops import Loops, RingWork, ring_partners
from ridgeline.bench.outliers import remove_outliers
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.bench.sweep_points import choose_ranks
from ridgeline.parallel.communicator import sleeping_barrier
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import check, content
from ridgeline.runtime.errors import ConfigError, VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

PARTS = ("reads", "writes", "flops", "communications")  # the timed parts of an iteration
ROUNDS = 5  # the languages take turns in each

COLUMNS = (
    Column("ranks", "ranks"),
    Column("ranks_per_node", "per node"),
    Column("per_iteration", "c"),
    Column("language", "language"),
    Column("seconds", "us", 1e-6),
    Column("deviation", "+- us", 1e-6),
    Column("ratio", "over C", form=".3f"),
    Column("communications_ratio", "messages over C", form=".3f"),
    *(Column(f"{part}_share", f"{part} %", 0.01, ".1f") for part in PARTS),
    Column("outliers", "outliers"),
    Column("note", ""),
)


def measure_bsp(comm: MPI.Comm, options: BspOptions) -> Result:
    """Time the parts of an iteration of the ring in each language. Collective over comm.

    Each number of communications is measured on each number of ranks of the sweep; rank 0 is one of them.
    Raises ConfigError for numbers out of range, and VerificationError if a message or a result is wrong.
    """
    size, words, iterations = options.size, options.words, options.iterations
    counts = options.sweep or (comm.size,)
    if words & (words - 1):
        raise ConfigError(f"--words {words}: the number must be a power of two, such as 65536.")
    for number in counts:
        if not 1 <= number <= comm.size:
            raise ConfigError(
                f"--sweep {number}: the job has {comm.size} rank{'s' * (comm.size != 1)}. Choose a ring of 1 to "
                f"{comm.size}, or start more ranks."
            )
    layout = find_layout(comm, options.ranks_per_node)
    languages = find_languages(comm, options.languages)
    work = RingWork(options.reads, options.writes, options.flops, 0)
    rows: list[dict[str, Any]] = []
    for n_ranks in counts:
        chosen = choose_ranks(layout, n_ranks, options.placement)
        part = comm.Split(comm.rank in chosen, comm.rank)
        if comm.rank in chosen:
            loops = [language.on(part) for language in languages.loops]
            for number in options.communications:
                timed = _measure(part, loops, replace(work, communications=number), size, words, iterations)
                if comm.rank == 0:
                    names = [language.name for language in loops]
                    per_node = layout.part(chosen).ranks_per_node()
                    rows += make_rows(names, n_ranks, number, timed, per_node)
        sleeping_barrier(comm)
        part.Free()
    rows += [{"language": name, "note": f"not run: {why}"} for name, why in languages.missing.items()]
    settings = {"iterations": iterations, "size": size, "words": words, "languages": languages.how}
    return _make_result(
        comm,
        layout.n_nodes,
        languages,
        rows,
        settings | asdict(work) | {"communications": list(options.communications)},
    )


def _measure(
    comm: MPI.Comm, loops: Sequence[Loops], work: RingWork, size: int, n_words: int, iterations: int
) -> NDArray[np.float64]:
    """Return seconds, means over ranks, on rank 0: float64 [languages, iterations, 4]. Collective.

    The first round does not count. Messages and sums are verified in every round.
    """
    forward, backward = ring_partners(comm)
    outbox, inbox = (np.zeros(max(size, 1), np.uint8)[:size] for _ in range(2))
    words = np.zeros(n_words, np.uint64)
    rounds = [min(iterations, ROUNDS)] + [
        len(part) for part in np.array_split(range(iterations), ROUNDS) if len(part)
    ]
    expected = {length: expected_sums(work, n_words, length) for length in set(rounds)}
    timed: list[list[NDArray[np.float64]]] = [[] for _ in loops]
    order = list(enumerate(loops))
    for turn, length in enumerate(rounds):
        for number, language in order if turn % 2 == 0 else reversed(order):
            sequence = turn * len(loops) + number
            outbox[:] = content(size, comm.rank, forward, sequence)
            inbox[:] = 0
            words[:] = initial_words(n_words)
            seconds = np.zeros((length, len(PARTS)))
            comm.Barrier()
            sums = language.ring(work, words, outbox, inbox, seconds)
            if work.communications:
                check(inbox, backward, comm.rank, sequence)
            if sums != expected[length]:
                raise VerificationError(
                    f"rank {comm.rank} computed {sums} in {language.name}, but {expected[length]} is right. Its "
                    "memory or its core is faulty."
                )
            if turn:
                timed[number].append(seconds)
    mine = np.array([np.concatenate(parts) for parts in timed]).reshape(len(loops), iterations, len(PARTS))
    total = np.zeros_like(mine)
    comm.Reduce(mine, total)
    return total / comm.size


def initial_words(n_words: int) -> NDArray[np.uint64]:
    """Return what the array holds before the first iteration, uint64 [n_words]."""
    return np.arange(n_words, dtype=np.uint64)


def expected_sums(work: RingWork, n_words: int, iterations: int) -> tuple[int, float]:
    """Compute what `Loops.ring` must return, independently of its loops."""
    words, place = initial_words(n_words), np.arange(n_words, dtype=np.uint64)
    last = place + np.uint64(n_words) * ((np.uint64(max(work.writes - 1, 0)) - place) // np.uint64(n_words))
    written = place < np.uint64(work.writes)
    seen, x = 0, 1.0
    for i in range(iterations):
        turns, rest = divmod(work.reads, n_words)
        seen += turns * int(words.sum()) + int(words[:rest].sum())
        words[written] = last[written] + np.uint64(i)
        x += 1.0
        # After 64 times x is 2, which x / 2 + 1 leaves unchanged.
        for _ in range(min(work.flops // 2, 64)):
            x = 0.5 * x + 1.0
    return seen & 0xFFFFFFFF, x


def make_rows(
    names: Sequence[str],
    n_ranks: int,
    communications: int,
    timed: NDArray[np.float64],
    per_node: str = "",
) -> list[dict[str, Any]]:
    """Return a row for each language. `timed` holds seconds, means over ranks, [languages, iterations, 4].

    per_node: the ranks of the ring on each node, in words. The deviation is that of the iterations that count.
    """
    means: dict[str, NDArray[np.float64]] = {}
    outliers, deviations = {}, {}
    for name, seconds in zip(names, timed):
        totals = seconds.sum(axis=1)
        kept = np.isin(totals, remove_outliers(totals))
        means[name], outliers[name] = seconds[kept].mean(axis=0), int((~kept).sum())
        deviations[name] = float(totals[kept].std(ddof=1)) if kept.sum() > 1 else None
    rows = []
    for name, parts in means.items():
        total = float(parts.sum())
        row = {"ranks": n_ranks, "per_iteration": communications, "language": name, "seconds": total}
        row |= {"ranks_per_node": per_node, "deviation": deviations[name]}
        row["ratio"] = total / float(means["C"].sum()) if "C" in means else None
        row["communications_ratio"] = parts[-1] / means["C"][-1] if "C" in means and means["C"][-1] else None
        for part, value in zip(PARTS, parts.tolist()):
            row[part], row[f"{part}_share"] = value, value / total
        rows.append(row | {"outliers": outliers[name]})
    return rows


def _make_result(
    comm: MPI.Comm,
    n_nodes: int,
    languages: AvailableLanguages,
    rows: list[dict[str, Any]],
    settings: dict[str, Any],
) -> Result:
    notes = [f"{name}: {how}" for name, how in languages.how.items()]
    if comm.size > 1 and "numba-mpi" in languages.how and any(row.get("ranks") == 1 for row in rows):
        notes.append(
            "With 1 rank, numba-mpi sends in MPI_COMM_WORLD, the only communicator that it supports. Messages of a "
            "rank to itself may take longer there."
        )
    return Result(
        benchmark="bsp",
        pattern=f"ring: {settings['reads']} loads, {settings['writes']} stores, {settings['flops']} floating-point "
        f"operations, c messages of {settings['size']} B to the next and from the previous rank in each iteration",
        formula="us: time of an iteration, the sum of its four parts; %: share of each part; over C: us / us of C, "
        "in which loads, stores and operations compare compilers; messages over C: the communication alone",
        statistic=f"mean over ranks and {settings['iterations']} iterations without outliers (Tukey, 1.5 IQR); "
        f"the languages take turns in {ROUNDS} rounds",
        ranks=comm.size,
        nodes=n_nodes,
        columns=COLUMNS if languages.missing else COLUMNS[:-1],
        rows=rows,
        settings=settings,
        extra={"missing": languages.missing},
        notes=notes,
        plot=Plot(
            "language",
            PARTS,
            ("ranks", "per_iteration"),
            "bars",
            y_label="us per iteration",
            y_scale=1e-6,
            log_y=False,
        ),
    )
