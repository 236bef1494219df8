"""Figures as the OSU micro-benchmarks 7.4 print them, for scripts that read these.

A block of lines has the title of OSU's program, what it says of the messages, the heads of its columns, and a line
for each size. Times are in us and rates in 10^6 B/s. Lines that begin with # are comments to such scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from ridgeline.bench.result import Result
from ridgeline.runtime.errors import ConfigError
from ridgeline.version import VERSION

_SIZE_WIDTH, _WIDTH = 10, 18  # of the column of sizes, and of the others


class _OsuTable(NamedTuple):
    """One table of OSU's: its title, further comments, heads, and numbers of each row after the size."""

    title: str
    comments: list[str]
    heads: str
    rows: list[dict[str, Any]]
    figures: Callable[[Mapping[str, Any]], tuple[float, ...]]


_LATENCY_HEADS = "# Size       Avg Latency(us)"
_BANDWIDTH_HEADS = "# Size      Bandwidth (MB/s)"
_RATE_HEADS = "# Size                  MB/s        Messages/s"
_PAIRS = {
    "latency": "MPI Latency",
    "multi-latency": "MPI Multi Latency",
    "bandwidth": "MPI Bandwidth",
    "bibandwidth": "MPI Bi-Directional Bandwidth",
    "multi-bandwidth": "MPI Multiple Bandwidth / Message Rate",
}
_COLLECTIVES = {
    "alltoall": "MPI All-to-All Personalized Exchange Latency",
    "allreduce": "MPI Allreduce Latency",
    "reduce": "MPI Reduce Latency",
    "bcast": "MPI Broadcast Latency",
    "allgather": "MPI Allgather Latency",
    "gather": "MPI Gather Latency",
    "scatter": "MPI Scatter Latency",
    "neighbour-alltoall": "MPI Neighborhood Alltoall Latency",
    "neighbour-allgather": "MPI Neighborhood Allgather Latency",
    "barrier": "MPI Barrier Latency",
}
_POINT = ("nodes", "ranks_per_node", "pairs")  # keys that tell the points of a sweep apart
_COMPLETIONS = {
    "flush": "MPI_Win_flush",
    "flush_local": "MPI_Win_flush_local",
    "lock": "MPI_Win_lock/unlock",
    "fence": "MPI_Win_fence",
    "pscw": "MPI_Win_post/start/complete/wait",
}


def check_options(options: Any) -> None:
    """Raise ConfigError if OSU has no program that does what a benchmark with these options does."""
    foreign = {
        "--all-pairs": getattr(options, "all_pairs", False),
        "--method alcf": getattr(options, "method", "osu") == "alcf",
        "--pattern fmm": getattr(options, "pattern", "pair") == "fmm",
        "--overlap": getattr(options, "overlap", False),
        "--percentiles": getattr(options, "percentiles", False),
    }
    for flag, given in foreign.items():
        if given:
            raise ConfigError(
                f"--format osu cannot be used with {flag}, for which it has no form. Use --format table."
            )


def osu_text(result: Result) -> str:
    """Return the figures of a result as lines of text. Raises KeyError for a benchmark without counterpart."""
    blocks = []
    for block in _blocks(result):
        heads = [f"# OSU {block.title} Test v7.4", *block.comments, f"# Measured by Ridgeline {VERSION}"]
        lines = [_line(row, block.figures(row)) for row in block.rows]
        blocks.append("\n".join([*heads, block.heads, *lines]))
    return "\n\n".join(blocks)


def _line(row: Mapping[str, Any], figures: Iterable[float]) -> str:
    text = "".join(f"{figure:{_WIDTH}.2f}" for figure in figures)
    return f"{row['size']:<{_SIZE_WIDTH}}{text}" if "size" in row else text[1:]  # a barrier has no size


def _microseconds(row: Mapping[str, Any]) -> tuple[float, ...]:
    return (row["seconds"] / 1e-6,)


def _rates(row: Mapping[str, Any]) -> tuple[float, ...]:
    return row["bandwidth"] / 1e6, row["message_rate"]


def _blocks(result: Result) -> Iterable[_OsuTable]:
    name, rows = result.benchmark, result.rows
    if name == "one-sided":
        return _one_sided(result)
    if name in _COLLECTIVES:
        return _collective(name, rows)
    return [
        _pair_table(name, list(group), result.settings)
        for _, group in groupby(rows, lambda row: [row.get(key) for key in _POINT])
    ]


def _pair_table(name: str, rows: list[dict[str, Any]], settings: Mapping[str, Any]) -> _OsuTable:
    """Return the table of one point: of the whole job, or of a sweep."""
    title, comments = _PAIRS[name], [*_point_comments(rows[0]), "# Datatype: MPI_CHAR."]
    if name.endswith("latency"):
        return _OsuTable(title, comments, _LATENCY_HEADS, rows, _microseconds)
    if name != "multi-bandwidth":
        return _OsuTable(title, comments, _BANDWIDTH_HEADS, rows, lambda row: (row["bandwidth"] / 1e6,))
    n_pairs = rows[0].get("pairs", settings["n_pairs"])
    pairs = f"# [ pairs: {n_pairs} ] [ window size: {settings['window']} ]"
    return _OsuTable(title, [pairs, *comments], _RATE_HEADS, rows, _rates)


def _point_comments(row: Mapping[str, Any]) -> list[str]:
    """Return the comment that names the point of a sweep."""
    names = {"nodes": "Nodes", "ranks_per_node": "Ranks per node", "pairs": "Pairs"}
    point = [f"{name}: {row[key]}" for key, name in names.items() if key in row]
    return [f"# {', '.join(point)}"] if point else []


def _collective(name: str, rows: list[dict[str, Any]]) -> Iterable[_OsuTable]:
    datatype = "# Datatype: MPI_FLOAT." if name.endswith("reduce") else "# Datatype: MPI_CHAR."
    heads = "Avg Latency(us)   Min Latency(us)   Max Latency(us)"
    of_call = [] if name == "barrier" else [datatype]
    for (ranks, nodes, per_node), group in groupby(
        rows, lambda row: [row.get(key) for key in ("ranks", "nodes", "ranks_per_node")]
    ):
        place = [] if nodes is None else _point_comments({"nodes": nodes, "ranks_per_node": per_node})
        yield _OsuTable(
            _COLLECTIVES[name],
            [*of_call, f"# Ranks: {ranks}", *place],
            ("# " if name == "barrier" else "# Size       ") + heads,
            list(group),
            lambda row: tuple(row[key] / 1e-6 for key in ("seconds", "least", "most")),
        )


def _one_sided(result: Result) -> Iterable[_OsuTable]:
    windows = "MPI_Win_allocate" if result.settings["memory"] != "cuda" else "MPI_Win_create"
    comments = [
        f"# Window creation: {windows}",
        f"# Synchronization: {_COMPLETIONS[result.settings['sync']]}",
    ]
    for (test, operation), group in groupby(result.rows, lambda row: (row["test"], row["operation"])):
        kind = "Bi-directional Bandwidth" if test == "bibandwidth" else test.capitalize()
        title = f"MPI_{operation.capitalize()} {kind}"
        if test == "latency":
            yield _OsuTable(title, comments, _LATENCY_HEADS, list(group), _microseconds)
        else:
            yield _OsuTable(title, comments, _BANDWIDTH_HEADS, list(group), lambda row: (row["rate"] / 1e6,))
