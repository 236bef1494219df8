"""How the times of a run spread, over steps, ranks and writes: lines and tables for people.

A report of an older version lacks these figures; then there is no line and no table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from ridgeline.runtime.units import number

MOST_RANKS = 16  # rows of the table of the ranks
WORTH_TELLING = 0.01  # of the bytes of a run, in a kind of output


def spread_line(report: Mapping[str, Any]) -> str | None:
    """Return the median, the 95 % and the worst of the steps' times in one line; None where they are not known."""
    total = report.get("step_times", {}).get("total")
    if total is None:
        return None
    median, most = (number(total["percentiles"][percent], "s") for percent in ("50", "95"))
    return f"median step {median}, 95% of them below {most}, worst {_worst(total)}"


def _worst(row: Mapping[str, Any]) -> str:
    """Say how long the worst step took, which it was and where; of a call that did several, which these were."""
    worst = row["worst"]
    last, steps = worst["step"], worst["steps"]
    which = f"step {last}" if steps == 1 else f"steps {last - steps + 1} to {last}, each"
    return f"{number(worst['seconds'], 's')} ({which}, rank {worst['rank']})"


def writing_line(report: Mapping[str, Any]) -> str | None:
    """Return the bytes and B/s of outputs and checkpoints in one line, small kinds left out; None where none was."""
    writes = report.get("writes", {})
    least = WORTH_TELLING * sum(kind["bytes"] for kind in writes.values())
    parts = [
        f"{name} {number(kind['bytes'], 'B')} at {number(kind['bytes_per_second'], 'B/s')}"
        for name, kind in writes.items()
        if kind["bytes"] >= least
    ]
    return f"writing: {', '.join(parts)}" if parts else None


def spread_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables of step times, of ranks, of what was written and of what was timed before the first step."""
    if report.get("step_times"):
        yield _step_table(report["step_times"])
    ranks = report.get("ranks", {})
    if ranks.get("steady_steps"):
        yield _rank_table(ranks)
    if report.get("writes"):
        yield _write_table(report["writes"])
    if report["run"].get("trials"):
        yield _trial_table(report["run"]["trials"])


def _table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, min_width=len(title))
    for i, name in enumerate(names):
        table.add_column(name, justify="right" if i else "left")
    return table


def _step_table(times: Mapping[str, Mapping[str, Any]]) -> Table:
    percents = list(next(iter(times.values()))["percentiles"])
    titles = ["median" if percent == "50" else f"{percent}%" for percent in percents]
    table = _table("seconds of one step, all ranks", "", "min", *titles, "worst")
    for name, row in times.items():
        if not row["max"]:  # such as a row exchange where there are no rows of ranks
            continue
        cells = (number(value, "s") for value in (row["min"], *row["percentiles"].values()))
        table.add_row(name, *cells, _worst(row))
    return table


def _rank_table(ranks: Mapping[str, Any]) -> Table:
    """Return the seconds of a steady step by rank and phase: of all ranks, or of those farthest from the median."""
    steps, first = ranks["steady_steps"], ranks["first_steps"]
    own = ranks["steady"]
    order = range(len(ranks["rank"]))
    title = "one step of each rank"
    if len(order) > MOST_RANKS:
        middle = {name: sorted(column)[len(column) // 2] for name, column in own.items()}

        def away(i: int) -> float:
            return max(abs(float(column[i] - middle[name])) for name, column in own.items())

        order = sorted(sorted(order, key=away, reverse=True)[:MOST_RANKS])  # type: ignore[assignment]
        title = f"one step of ranks, those {MOST_RANKS} rows of {len(ranks['rank'])} farthest from the median"
    if ranks["ranks_per_row"] > 1:
        title += f", means of {ranks['ranks_per_row']} ranks"
    table = _table(title, "rank", *own, "first call")
    for i in order:
        cells = (number(column[i] / steps, "s") for column in own.values())
        table.add_row(str(ranks["rank"][i]), *cells, number(ranks["first"]["total"][i] / first, "s"))
    return table


def _write_table(writes: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("writing", "", "times", "bytes", "seconds", "B/s", "slowest", "fastest")
    for name, kind in writes.items():
        ends = (
            f"{number(kind[end]['bytes_per_second'], 'B/s')} (step {kind[end]['step']})"
            for end in ("slowest", "fastest")
        )
        amounts = (
            number(kind["bytes"], "B"),
            f"{kind['seconds']:.3f}",
            number(kind["bytes_per_second"], "B/s"),
        )
        table.add_row(name, str(kind["count"]), *amounts, *ends)
    return table


def _trial_table(trials: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return what was timed before the first step; for transforms, Table 1 of Yeung et al. (GESTS)."""
    parts = list(
        dict.fromkeys(p for trial in trials.values() for way in trial["seconds"].values() for p in way)
    )
    table = _table("ways that were timed", "", *parts, "")
    for name, trial in trials.items():
        when = "timed in an earlier run" if trial["earlier_run"] else ""
        for way, seconds in trial["seconds"].items():
            cells = (number(seconds[part], "s") if part in seconds else "" for part in parts)
            remark = ", ".join(filter(None, ["taken" if way == trial["taken"] else "", when]))
            table.add_row(f"{name}: {way}", *cells, remark)
    return table
