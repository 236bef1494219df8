"""Every row of the kernels that have a goal, in some ten minutes: met or missed, better or worse than recorded.

    make bench-quick                                    # all rows
    python benchmarks/quick.py --only nekbone hpcg      # some
    python benchmarks/quick.py --record                 # and keep the figures in benchmarks/history

Each row is measured in three passes over all rows. A figure is better or worse than the last record of the same CPU
model and number of cores if the two medians differ by more than both spreads together; see benchmarks/README.md.
"""

import argparse
import datetime
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from rich.table import Table

from harness import history
from harness.change import BETTER, NO_RECORD, NOT_JUDGED, SAME, WORSE, change, spread
from harness.machine import describe
from harness.session import Figure, measure_rows
from harness.table import Row, columns_markdown
from ridgeline.io.output_files import to_json, write_text
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.errors import RidgelineError
from ridgeline.runtime.machine import cores_available, cpu_name

REPEATS = 3
LIMITS = "limits"
DIGITS = 5  # of a recorded value: more than any repeat gives again
# A record belongs to a commit: what changes a figure must be as committed. Pages and records change none.
SOURCES = ("src", "benchmarks", ":(exclude)benchmarks/*.md", ":(exclude)benchmarks/history")
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Judged:
    """A figure beside its last record."""

    figure: Figure
    before: history.Record | None

    @property
    def row(self) -> Row:
        """The median of the repeats as a row, which knows its verdict."""
        f = self.figure
        value = median(f.repeats) if f.repeats else None
        return Row(f.name, value, f.goal, note=f.note, unit=f.unit)

    @property
    def change(self) -> str:
        """Better, same, worse, no record or not judged; '' for a figure that was not measured."""
        if not self.figure.repeats:
            return ""
        return change(
            self.figure.repeats, None if self.before is None else self.before.repeats, self.figure.goal
        )

    def cells(self) -> dict[str, str]:
        """Return the row of the table."""
        row, before = self.row, self.before
        _, value, _, _, verdict, _ = row.cells()
        recorded = ""
        if before is not None:
            recorded = (
                f"{before.value:.3g}{_spread(before.repeats)} ({before.date[:10]}, {before.commit[:7]})"
            )
        return {
            "row": self.figure.row,
            "figure": row.name,
            "value": value + _spread(self.figure.repeats),
            "goal": row.target,
            "verdict": verdict,
            "recorded": recorded,
            "change": self.change,
            "note": row.note,
        }


def _spread(repeats: Sequence[float]) -> str:
    width = spread(repeats)
    return "" if width is None else f" [{min(repeats):.3g}, {max(repeats):.3g}]"


def committed() -> str:
    """Return the commit whose sources are measured. Raises RidgelineError if they differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit, changed = git("rev-parse", "--short=12", "HEAD"), git("status", "--porcelain", "--", *SOURCES)
    except (OSError, subprocess.CalledProcessError):
        raise RidgelineError(
            "--record stores figures with their commit, and requires a git checkout. Run it in one."
        ) from None
    if changed:
        first = changed.splitlines()[0].split()[-1]
        raise RidgelineError(
            f"--record stores figures with their commit, but {first} is not committed. Commit it first."
        )
    return commit


def arguments_of(names: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="ROW", help=f"run only these rows: {', '.join(names)}"
    )
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help=f"number of passes over all rows ({REPEATS})"
    )
    parser.add_argument("--record", action="store_true", help="add the figures to benchmarks/history")
    parser.add_argument(
        "--strict", action="store_true", help="exit with status 1 if a figure is worse than before"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="also print a line for each row, for RESULTS.md"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="also write the figures to this file; - is standard output"
    )
    return parser


def show(judged: Sequence[Judged], machine: Mapping[str, str]) -> None:
    """Print the machine, its limits, and the table of the others."""
    console = plain_console()
    console.print("  ".join(f"{key} {value}" for key, value in machine.items()))
    for one in (one for one in judged if one.figure.row == LIMITS):
        cells = one.cells()
        before = f"; recorded {cells['recorded']}" if cells["recorded"] else ""
        console.print(f"{cells['figure']}: {cells['value']} {cells['note']}{before}")
    table = Table(title="Quick benchmark", title_justify="left")
    figures = [one for one in judged if one.figure.row != LIMITS and one.figure.repeats]
    columns = list(figures[0].cells())[:-1] if figures else []
    for column in columns:
        table.add_column(column, overflow="fold")
    colours = {WORSE: "red", BETTER: "green"}
    for one in figures:
        cells = one.cells()
        table.add_row(*(cells[column] for column in columns), style=colours.get(one.change, ""))
    if figures:
        console.print(table)
    for one in judged:
        if not one.figure.repeats:
            console.print(f"{one.figure.row}: {one.figure.name}: {one.figure.note}")
    console.print(summary(judged))


def summary(judged: Sequence[Judged]) -> str:
    """Return how many were met and missed, and how many were better, same or worse."""
    rows = [one for one in judged if one.figure.row != LIMITS]
    verdicts = [one.row.verdict for one in rows]
    counts = [f"{verdicts.count(word)} {word}" for word in ("met", "missed")]
    changes = [one.change for one in rows]
    counts += [f"{changes.count(word)} {word}" for word in (BETTER, SAME, WORSE, NO_RECORD, NOT_JUDGED)]
    return "; ".join([", ".join(counts[:2]), ", ".join(counts[2:])]) + f"; {changes.count('')} not run"


def by_goal(judged: Sequence[Judged]) -> list[dict[str, str]]:
    """Return a line for each row and goal: how far its figures reach, and how many met it."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for one in judged:
        if one.figure.repeats:
            groups.setdefault((one.figure.row, one.figure.goal), []).append(one)
    lines = []
    for (row, goal), ones in groups.items():
        values = [one.row.figure for one in ones if one.row.figure is not None]
        met = sum(one.row.verdict == "met" for one in ones)
        lines.append(
            {
                "row": row,
                "from": ones[0].figure.name,
                "figures": str(len(ones)),
                "values": f"{min(values):.3g}" + (f" to {max(values):.3g}" if len(values) > 1 else ""),
                "goal": goal,
                "verdict": "met" if met == len(ones) else f"{met} of {len(ones)} met",
            }
        )
    missing = [one for one in judged if not one.figure.repeats]
    return lines + [{"row": one.figure.row, "from": one.figure.note} for one in missing]


def record_of(
    figure: Figure, machine: history.MachineKey, more: Mapping[str, str], load: float
) -> history.Record:
    """Return the line that is kept. more: its commit, caches and source."""
    return history.Record(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        repeats=tuple(float(f"{value:.{DIGITS}g}") for value in figure.repeats),
        load=load,
        **{name: getattr(figure, name) for name in ("row", "name", "goal", "unit", "note")},
        **asdict(machine),
        **more,
    )


def say_progress(begin: float, name: str, row: Row) -> None:
    """Print a figure as it comes, on stderr."""
    print(f"{time.monotonic() - begin:5.0f} s  [{name}] {row.line()}", file=sys.stderr, flush=True)


def run(arguments: argparse.Namespace, measures: Mapping[str, Callable]) -> int:
    """Measure, show, keep; return the exit status."""
    command = " ".join(["python benchmarks/quick.py", *sys.argv[1:]])
    described = describe()
    machine = history.MachineKey(cpu_name(), described["cpu_family_model"], cores_available())
    file = history.FOLDER / machine.file_name
    more = {"caches": described["caches"], "source": command}
    if arguments.record:
        more["commit"] = committed()
    records = history.last(history.read(file, lambda line: print(line, file=sys.stderr)), machine)
    load, begin = os.getloadavg()[0], time.monotonic()
    judged: list[Judged] = []

    def finished(figures: list[Figure]) -> None:
        judged.extend(Judged(figure, records.get(figure.name)) for figure in figures)
        if arguments.record:
            history.append(
                file, (record_of(figure, machine, more, load) for figure in figures if figure.repeats)
            )

    broken_off = False
    try:
        measure_rows(measures, arguments.repeats, finished, partial(say_progress, begin))
    except KeyboardInterrupt:
        broken_off = True
    order = list(measures)
    judged.sort(key=lambda one: order.index(one.figure.row))
    show(judged, described)
    if broken_off:
        print("broken off: these are the rows that were measured", file=sys.stderr)
    cells = [one.cells() for one in judged]
    if arguments.markdown:
        print(f"\n- date: {datetime.date.today().isoformat()}\n- command: `{command}`")
        print("- machine: " + ", ".join(f"{key} {value}" for key, value in described.items()) + "\n")
        print(columns_markdown(by_goal([one for one in judged if one.figure.row != LIMITS])))
    if arguments.json:
        content = {"machine": described, "command": command, "load": load}
        figures = [cells | {"repeats": one.figure.repeats} for one, cells in zip(judged, cells)]
        write_text(arguments.json, to_json(content | {"figures": figures}), "--json")
    worse = any(one.change == WORSE for one in judged)
    return 130 if broken_off else int(arguments.strict and worse)


def main() -> int:
    """Read the command line, measure and return the exit status."""
    # The threads of C's OpenMP sleep between loops instead of spinning on the cores that we measure next.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    prepare_rank(cores_available())
    from quick_rows import ROWS, limits

    parser = arguments_of(list(ROWS))
    arguments = parser.parse_args()
    if arguments.repeats < 1:
        parser.error(f"--repeats {arguments.repeats}: it must be 1 or more.")
    if cores_available() < 2:
        parser.error("the rows require two cores, but this process may use only one.")
    chosen = {name: row.measure for name, row in ROWS.items() if name in (arguments.only or ROWS)}
    try:
        return run(arguments, {LIMITS: limits} | chosen)
    except RidgelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
