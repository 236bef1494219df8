"""The report of a run printed for people: state, files and speed in a few lines, or all tables.

A report of an older version lacks some of the figures; their lines and tables are then left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.io.report_file import run_title
from ridgeline.runtime.console import PrintedDict
from ridgeline.runtime.node_load import MOST_OTHERS
from ridgeline.runtime.units import number

NO_SPEED = "no step was computed, so there is no speed to report"
MOST_COLUMNS = 8  # phases of a step, the total included, that are columns of a table
MOST_RANKS = 16  # rows of the table of the ranks
WORTH_TELLING = 0.01  # share of the bytes of a run, below which a kind of output is not mentioned


class RunReport(PrintedDict):
    """The report of a run: a dictionary, which Python shows as `ridgeline report` prints it."""

    def print_on(self, console: Console) -> None:
        """Print the state, the files and the speed of the run."""
        print_report(self, console)


def print_report(report: Mapping[str, Any], console: Console, verbose: bool = False) -> None:
    """Print the report of a run: the state that it reached, the files, and at most five lines of speed.

    With `verbose`, all tables of times, work and speed replace these lines. Everything is formatted before anything
    is printed, so that a damaged report raises KeyError, TypeError, ValueError or AttributeError and prints nothing.
    """
    run = report["run"]
    head = Text.assemble(
        (report["model"], "bold"),
        run_title(report).removeprefix(report["model"]) + ": "
        f"{report['steps']} steps, ended at step {run['last_step']} ({run['ended']})",
    )
    parts: list[RenderableType] = ["", head, ""]
    if report.get("summary"):
        rows = [
            (name, f"{figure['value']:.6g}", figure["unit"]) for name, figure in report["summary"].items()
        ]
        time = f"{run.get('time_name', 'time')} {run['time']:.6g}"
        parts += [Text(f"state at step {run['last_step']}, {time}"), *_aligned(rows, "<><"), ""]
    parts += [*_file_lines(report), ""]
    parts += _measurements(report) if verbose else _speed_lines(report)
    for part in parts:
        console.print(part)


def _file_lines(report: Mapping[str, Any]) -> list[Text]:
    """Return the files that were written, their sizes, and the commands that show them; the report comes last."""
    rows = []
    for row in report.get("written", ()):
        size = "" if row["bytes"] is None else number(row["bytes"], "B")
        steps = "" if row["steps"] is None else f"{row['steps']} step{'s' * (row['steps'] != 1)}"
        rows.append((row["kind"], row["path"], steps, size, row["show"] or ""))
    if "trace" in report["files"]:
        rows.append(
            (
                "trace",
                report["files"]["trace"],
                "",
                "",
                "open https://ui.perfetto.dev and choose 'Open trace file'",
            )
        )
    path = report["files"]["report"]
    rows.append(("report", path, "", "", f"ridgeline report {shlex.quote(path)} --verbose"))
    return [Text("files"), *_aligned(rows, "<<<><")]


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[Text]:
    """Return aligned rows, whole even on a narrow terminal. `sides` has "<" or ">" for each column."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        Text("  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths)).rstrip())
        for row in rows
    ]


def _speed_lines(report: Mapping[str, Any]) -> list[RenderableType]:
    """Return how long the run took, how fast it was, and how close to its limit."""
    seconds, steps = report["seconds"], report["steps"]
    if report["seconds_per_step"] is None:
        return [NO_SPEED]
    lines = [
        f"speed: {steps} steps in {number(seconds['first_step'] + seconds['steady'], 's')}, "
        f"{number(report['seconds_per_step'], 's')} each (whole run {number(seconds['total'], 's')})",
        f"{report['points_per_second'] / 1e6:.4g} M {_points(report)}/s, "
        f"{number(report['least_bytes_per_second'], 'B/s')} of least memory traffic",
        *filter(None, (spread_line(report), writing_line(report))),
    ]
    shares = []
    limits = report["limits"]
    if limits.get("best"):
        limit = f"{number(limits['best'], 'B/s')} ({limits['best_name']})"
        shares.append(f"{report['fraction_of_stream']:.3f} of the limit, {limit}")
    if report.get("limit", "memory") != "memory":
        shares = [limit_text(report)]
    if report.get("overall_efficiency") is not None:
        shares.append(f"overall efficiency {report['overall_efficiency']:.3f}")
    if report.get("regions"):
        parts = {name: region["seconds"] for name, region in report["regions"].items()}
    else:
        parts = {name: value for name, value in report["step"]["mean"].items() if name != "total"}
    largest, total = max(parts, key=parts.__getitem__), sum(parts.values())
    shares.append(f"most of a step goes to {largest}, {parts[largest] / total if total else 0.0:.0%}")
    lines.append("; ".join(shares))
    if report.get("energy", {}).get("joules") is not None:
        lines.append(energy_line(report["energy"]))
    return [Text(line) for line in lines]


def _points(report: Mapping[str, Any]) -> str:
    """Return the name of what the model advances: grid points, atoms or particles."""
    return str(report["run"].get("points_name", "grid points"))


def _measurements(report: Mapping[str, Any]) -> list[RenderableType]:
    """Return all tables of times, work and speed."""
    seconds = report["seconds"]
    times = Table(title="seconds", title_justify="left", box=None, pad_edge=False)
    for name in ("phase", "min", "mean", "max over ranks"):
        times.add_column(name, justify="left" if name == "phase" else "right")
    for name, phase in report["phases"].items():
        times.add_row(name, *(f"{phase[key]:.3f}" for key in ("min", "mean", "max")))
    parts: list[RenderableType] = [
        times,
        f"setup {seconds['setup']:.2f} s, compile {seconds['compile']:.2f} s, "
        f"first step {number(seconds['first_step'], 's')}, steady steps {seconds['steady']:.2f} s, "
        f"whole run {seconds['total']:.2f} s",
    ]
    if report["seconds_per_step"] is None:
        return [*parts, NO_SPEED]
    parts += [_step_table(report["step"]), *spread_tables(report)]
    if report.get("regions"):
        parts.append(region_table(report))
    if report.get("solves"):
        parts.append(solve_table(report["solves"]))
    parts.append(_speed_table(report))
    parts += map(Text, meter_lines(report))
    saved = report.get("checkpoint", {})
    if saved.get("written"):
        parts.append(
            f"checkpoints: {saved['written']} written, {number(saved['bytes_raw'], 'B')} of fields at "
            f"{number(saved['raw_bytes_per_second'], 'B/s')}, compressed {saved['compression_ratio']:.3g} times to "
            f"{number(saved['bytes_written'], 'B')} on disk at {number(saved['written_bytes_per_second'], 'B/s')}"
        )
    return parts


def _step_table(steps: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the seconds of each phase in the mean and in the best step: the rows of the GESTS paper's tables."""
    table = Table(title="one step, slowest rank", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    # Too wide for a terminal: phases become rows.
    if len(steps["mean"]) > MOST_COLUMNS:
        for kind in steps:
            table.add_column(kind, justify="right")
        for name in steps["mean"]:
            table.add_row(name, *(number(row[name], "s") for row in steps.values()))
        return table
    for name in steps["mean"]:
        table.add_column(name, justify="right")
    for kind, row in steps.items():
        table.add_row(kind, *(number(value, "s") for value in row.values()))
    return table


def _speed_table(report: Mapping[str, Any]) -> Table:
    work = report["work"]
    figures = Table(title="speed", title_justify="left", box=None, pad_edge=False, show_header=False)
    figures.add_column()
    figures.add_column(justify="right")
    figures.add_row("per step", number(report["seconds_per_step"], "s"))
    figures.add_row(_points(report), f"{report['points_per_second'] / 1e6:.4g} M/s")
    figures.add_row("arithmetic", f"{report['flops_per_second'] / 1e9:.4g} GFLOP/s")
    figures.add_row(
        "least memory traffic",
        f"{number(work['bytes_memory'], 'B')} per step, {number(report['least_bytes_per_second'], 'B/s')}",
    )
    figures.add_row(
        "exchange", f"{number(work['bytes_exchanged'], 'B')} in {work['messages']:.4g} messages per step"
    )
    for name, figure in report["figures"].items():
        figures.add_row(name.replace("_", " "), number(figure["value"], figure["unit"]))
    figures.add_row("peak memory per rank", number(report["peak_memory_per_rank"], "B"))
    figures.add_row("of which before set-up", number(report["memory_before_setup_per_rank"], "B"))
    best = report["limits"].get("best")
    if best:
        figures.add_row(f"limit ({report['limits']['best_name']})", number(best, "B/s"))
        figures.add_row(
            "fraction of the memory bandwidth", f"{report['fraction_of_stream']:.3f}", style="bold"
        )
    for name, text in limit_rows(report):
        figures.add_row(name, text)
    if report.get("overall_efficiency") is not None:
        figures.add_row("overall efficiency", f"{report['overall_efficiency']:.3f}", style="bold")
    return figures


def region_table(report: Mapping[str, Any]) -> Table:
    """Return the table of the regions, with a row for each and one for all."""
    table = Table(title="regions, all ranks", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    # Reports before version 0.2 compare with STREAM only.
    by_limit = "share_of_limit" in report["all_regions"]
    last_columns = ("of its limit", "limit") if by_limit else ("of STREAM",)
    for name in ("seconds", "slowest", "share", "GFLOP/s", "GB/s", *last_columns):
        table.add_column(name, justify="left" if name == "limit" else "right")
    rows = {**report["regions"], "all": {**report["all_regions"], "seconds_max": None}}
    for name, row in rows.items():
        style = "bold" if name == "all" else None
        table.add_row(
            name,
            _number(row["seconds"], ".3f"),
            _number(row["seconds_max"], ".3f"),
            _number(row["share"], ".1%"),
            _number(row["flops_per_second"], ".2f", 1e-9),
            _number(row["bytes_per_second"], ".2f", 1e-9),
            _number(row["share_of_limit" if by_limit else "fraction_of_stream"], ".3f"),
            *([row["limit"]] if by_limit else []),
            style=style,
        )
    return table


def solve_table(solves: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the table of the linear solves."""
    table = Table(title="solves", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for name in ("solves", "iterations per solve", "most"):
        table.add_column(name, justify="right")
    for name, row in solves.items():
        table.add_row(name, f"{row['solves']}", f"{row['iterations_per_solve']:.2f}", f"{row['most']}")
    return table


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "" if value is None else format(scale * value, form)


def energy_line(energy: Mapping[str, Any]) -> str:
    """Return the energy of the run, or why it is not known."""
    joules = energy["joules"]
    if joules is None:
        unreadable = [node for node in energy["nodes"] if node["joules"] is None]
        if not unreadable:
            return "energy: not readable (the nodes measure different parts of their hardware)"
        why = "; ".join(f"{name}: {reason}" for name, reason in unreadable[0]["unreadable"].items())
        return f"energy: not readable ({unreadable[0]['host']}: {why})"
    line = f"energy: {joules:.4g} J ({energy['covers']}"
    if energy["watts"] is not None:
        line += f", {energy['watts']:.4g} W"
    line += f"), {energy['joules_per_rank']:.4g} J per rank"
    if energy["joules_per_step"] is not None:
        line += f", {energy['joules_per_step']:.4g} J per step"
    if energy["joules_per_point_and_step"] is not None:
        line += f", {energy['joules_per_point_and_step']:.4g} J per point and step"
    if energy["exact_below"] is not None:
        line += f" (exact if no counter exceeded {energy['exact_below']:.4g} W)"
    return line


def traffic_line(traffic: Mapping[str, Any]) -> str:
    """Return the memory traffic that was measured, or why it is not known."""
    if traffic["kind"] == "memory controllers":
        moved, rate = number(traffic["bytes"], "B"), number(traffic["bytes_per_second"], "B/s")
        over_least = f", {traffic['over_least']:.3g} times the least" if "over_least" in traffic else ""
        return f"measured memory traffic: {moved}, {rate}{over_least}"
    why = "; ".join(traffic["unreadable"])
    if traffic["kind"] == "cache misses":
        rate = number(traffic["misses_per_second"], "1/s")
        return f"cache misses: {traffic['misses']:.4g}, {rate}; traffic not readable ({why})"
    return f"measured memory traffic: not readable ({why})"


def meter_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of energy and of measured traffic; an older report has none."""
    lines = [energy_line(report["energy"])] if "energy" in report else []
    return lines + ([traffic_line(report["traffic"])] if "traffic" in report else [])


def limit_text(report: Mapping[str, Any]) -> str:
    """Return the share of its limit that a whole step reaches, and the limit, if that is not the memory bandwidth."""
    share = report.get("share_of_limit")
    return f"{share:.3f} of the limit, the {report['limit']}" if share is not None else "no limit is known"


def limit_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the table of speeds about limits other than STREAM, with the age of older ones."""
    limits = report["limits"]
    peak, caches, network = (_age(limits, what) for what in ("peak", "caches", "network"))
    rows = [
        (f"limit (peak, {dtype}){peak}", number(rate, "FLOP/s"))
        for dtype, rate in limits.get("peak", {}).items()
    ]
    rows += [
        (f"limit (L{cache['level']} cache){caches}", number(cache["rate"], "B/s"))
        for cache in limits.get("caches", ())
    ]
    if "network" in limits:
        size = number(limits["network"]["message"], "B")
        rows.append((f"limit (network, {size} messages){network}", number(limits["network"]["rate"], "B/s")))
    if report.get("share_of_limit") is not None:
        rows.append((f"fraction of a step's limit ({report['limit']})", f"{report['share_of_limit']:.3f}"))
    exchange = report.get("exchange", {})
    if exchange.get("share") is not None:
        rows.append(("exchange, fraction of the network bandwidth", f"{exchange['share']:.3f}"))
    return rows


def _age(limits: Mapping[str, Any], what: str) -> str:
    """Return how old a rate is ("" if this run measured it), and whether others used the node then."""
    minutes = round(limits.get("ages", {}).get(what, 0.0) / 60)
    others = limits.get("others_share", {}).get(what, 0.0)
    age = f", {minutes // 60} h {minutes % 60} min old" if limits.get("ages", {}).get(what) else ""
    return age + (f", other processes used {others:.0%} of the node" if others > MOST_OTHERS else "")


def spread_line(report: Mapping[str, Any]) -> str | None:
    """Return the median, the 95th percentile and the worst of the steps' times in one line, or None."""
    total = report.get("step_times", {}).get("total")
    if total is None:
        return None
    median, upper = (number(total["percentiles"][percent], "s") for percent in ("50", "95"))
    return f"median step {median}, 95% of them below {upper}, worst {_worst(total)}"


def _worst(row: Mapping[str, Any]) -> str:
    """Return the seconds of the worst step, its number, or those of its call if that did several, and its rank."""
    worst = row["worst"]
    last, steps = worst["step"], worst["steps"]
    which = f"step {last}" if steps == 1 else f"steps {last - steps + 1} to {last}, each"
    return f"{number(worst['seconds'], 's')} ({which}, rank {worst['rank']})"


def writing_line(report: Mapping[str, Any]) -> str | None:
    """Return the bytes and B/s of outputs and checkpoints in one line, without small kinds; None without writes."""
    writes = report.get("writes", {})
    least = WORTH_TELLING * sum(kind["bytes"] for kind in writes.values())
    parts = [
        f"{name} {number(kind['bytes'], 'B')} at {number(kind['bytes_per_second'], 'B/s')}"
        for name, kind in writes.items()
        if kind["bytes"] >= least
    ]
    return f"writing: {', '.join(parts)}" if parts else None


def spread_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables of step times, of ranks, of writes, and of the trials before the first step."""
    if report.get("step_times"):
        yield _step_times_table(report["step_times"])
    ranks = report.get("ranks", {})
    if ranks.get("steady_steps"):
        yield _rank_table(ranks)
    if report.get("writes"):
        yield _write_table(report["writes"])
    if report["run"].get("trials"):
        yield _trial_table(report["run"]["trials"])


def _plain_table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, min_width=len(title))
    for i, name in enumerate(names):
        table.add_column(name, justify="right" if i else "left")
    return table


def _step_times_table(times: Mapping[str, Mapping[str, Any]]) -> Table:
    percents = list(next(iter(times.values()))["percentiles"])
    titles = ["median" if percent == "50" else f"{percent}%" for percent in percents]
    table = _plain_table("seconds of one step, all ranks", "", "min", *titles, "worst")
    for name, row in times.items():
        # A row exchange takes no time if no ranks share a row.
        if not row["max"]:
            continue
        cells = (number(value, "s") for value in (row["min"], *row["percentiles"].values()))
        table.add_row(name, *cells, _worst(row))
    return table


def _rank_table(ranks: Mapping[str, Any]) -> Table:
    """Return the seconds of a steady step by rank and phase, for all ranks or those farthest from the median."""
    steps, first = ranks["steady_steps"], ranks["first_steps"]
    columns = ranks["steady"]
    order = range(len(ranks["rank"]))
    title = "one step of each rank"
    if len(order) > MOST_RANKS:
        median = {name: sorted(column)[len(column) // 2] for name, column in columns.items()}

        def distance(i: int) -> float:
            return max(abs(float(column[i] - median[name])) for name, column in columns.items())

        order = sorted(sorted(order, key=distance, reverse=True)[:MOST_RANKS])  # type: ignore[assignment]
        title = (
            f"one step of the {MOST_RANKS} rows of ranks, of {len(ranks['rank'])}, farthest from the median"
        )
    if ranks["ranks_per_row"] > 1:
        title += f", means of {ranks['ranks_per_row']} ranks"
    table = _plain_table(title, "rank", *columns, "first call")
    for i in order:
        cells = (number(column[i] / steps, "s") for column in columns.values())
        table.add_row(str(ranks["rank"][i]), *cells, number(ranks["first"]["total"][i] / first, "s"))
    return table


def _write_table(writes: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _plain_table("writing", "", "times", "bytes", "seconds", "B/s", "slowest", "fastest")
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
    """Return what the autotuner timed before the first step; for transforms, Table 1 of Yeung et al. (GESTS)."""
    parts = list(
        dict.fromkeys(
            part for trial in trials.values() for seconds in trial["seconds"].values() for part in seconds
        )
    )
    table = _plain_table("candidates that were timed", "", *parts, "")
    for name, trial in trials.items():
        when = "timed in an earlier run" if trial["earlier_run"] else ""
        for candidate, seconds in trial["seconds"].items():
            cells = (number(seconds[part], "s") if part in seconds else "" for part in parts)
            remark = ", ".join(filter(None, ["chosen" if candidate == trial["taken"] else "", when]))
            table.add_row(f"{name}: {candidate}", *cells, remark)
    return table
