"""Sweeps, studies and benchmarks from Python, and their tables as pandas data frames."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.bench.benchmark import find_benchmark
from ridgeline.bench.result import Result, make_table
from ridgeline.config.check import did_you_mean
from ridgeline.config.toml_writer import toml_value
from ridgeline.interface.keywords import errors_name_keywords
from ridgeline.interface.rank_process import case_file, run_command
from ridgeline.interface.runs import REPORT, Run, load_run
from ridgeline.io.report_file import read_report
from ridgeline.runtime.console import PrintedDict
from ridgeline.runtime.declared_options import Option, options_of
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.simulation.case import Case, plain_value
from ridgeline.study.folder import POINTS, StudyFolder
from ridgeline.study.plan import LINK
from ridgeline.study.study_options import StudyOptions, SweepOptions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.console import Console

Values = Mapping[str | tuple[str, ...], Sequence[Any]]


class MeasuredTable(PrintedDict):
    """The report of a benchmark, a sweep or a study: a dictionary, which Python shows as its table.

    Examples
    --------
    >>> import ridgeline
    >>> report = ridgeline.run_bench("latency", ranks=2, sizes=(8, 64), progress=False)
    >>> report["ranks"], "seconds" in report.table
    (2, True)
    """

    @property
    def table(self) -> pd.DataFrame:
        """The rows, in SI units."""
        from pandas import DataFrame

        return DataFrame(self["rows"])

    def plot(self) -> Figure:
        """Draw the figures.

        Returns
        -------
        matplotlib.figure.Figure
            A figure that a notebook shows, and that `savefig` writes.

        Raises
        ------
        ConfigError
            For a table that has no picture.
        """
        from ridgeline.analysis.bench_plots import draw_benchmark
        from ridgeline.analysis.study_plots import is_sweep, plot_sweep

        return plot_sweep(self) if is_sweep(self) else draw_benchmark(self)

    def print_on(self, console: Console) -> None:
        """Print the table, with what it means and how it was measured."""
        console.print(make_table(Result.from_dict(self)), soft_wrap=False)


class Study:
    """Give access to the folder of a sweep or a study: its table, its runs and its pictures.

    Attributes
    ----------
    path : Path
        The folder.
    report : MeasuredTable
        The table with everything that belongs to it.

    Examples
    --------
    >>> import ridgeline
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)}, output={"every": 4})
    >>> sweep = ridgeline.run_sweep(case, {"model.F": [0.02, 0.03]}, output="sweep_F", progress=False)
    >>> sweep.table["F"].tolist(), [run.complete for run in sweep.runs]
    ([0.02, 0.03], [True, True])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        found = [path / f"{stem}.json" for stem in ("sweep", "study") if (path / f"{stem}.json").exists()]
        if not found:
            raise OutputError(
                f"{path} holds no table of a sweep or a study, because none of its jobs has finished."
            )
        self.report = MeasuredTable(read_report(str(found[0])))

    @property
    def table(self) -> pd.DataFrame:
        """The rows: one for each case of a sweep, or for each point of a study."""
        return self.report.table

    @property
    def runs(self) -> list[Run]:
        """The runs that have ended and kept their outputs, in the order of the table."""
        jobs = sorted(
            StudyFolder(self.path).statuses(),
            key=lambda job: (job.record.get("order", 0), job.record.get("number", 0)),
        )
        folders = [self.path / POINTS / job.name for job in jobs]
        return [load_run(report) for folder in folders for report in folder.glob(f"*{REPORT}")]

    def plot(self) -> Figure:
        """Draw the table of a sweep over its axes; the figures of a study are in the folder `figures`."""
        return self.report.plot()

    def __repr__(self) -> str:
        return f"<ridgeline.Study: {self.path}, {self.report['benchmark']}, {len(self.report['rows'])} rows>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def run_sweep(
    case: Case | str | PathLike[str],
    over: Values,
    *,
    output: str | PathLike[str] | None = None,
    progress: bool = True,
    **options: Any,
) -> Study:
    """Run a case over values of its settings, as `ridgeline sweep` does.

    Parameters
    ----------
    case : Case or path
        The settings, or the path of a settings file.
    over : mapping
        The axes: a setting, and its values. Several settings that change together are a tuple of settings, and their
        values are tuples.
    output : path, optional
        Folder of the sweep; by default it is named after the model. A sweep that was interrupted continues.
    progress : bool
        Print a line when a case begins or ends.
    **options
        Other options of `ridgeline sweep` by name: ranks, at_once, picture, plane, colour_map.

    Returns
    -------
    Study
        The table, the runs and the pictures. Cases that failed are in the table, with their state.

    Raises
    ------
    ConfigError, OutputError, DecompositionError
        Before anything starts.

    Examples
    --------
    >>> import ridgeline
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)}, output={"every": 4})
    >>> pairs = {("model.F", "model.k"): [(0.02, 0.05), (0.03, 0.06)]}
    >>> ridgeline.run_sweep(case, pairs, output="pairs", progress=False).table["k"].tolist()
    [0.05, 0.06]
    """
    from ridgeline.study import sweep

    _known("run_sweep", options, options_of(SweepOptions))
    axes = tuple(_axes("over", over))
    with errors_name_keywords(options_of(SweepOptions)), _case_path(case) as path:
        checked = SweepOptions(over=axes, **options)
        _, folder = sweep.run_sweep(path, checked, _text(output), _teller(progress), lambda _: None)
    return Study(folder)


def run_study(
    case: Case | str | PathLike[str] | None = None,
    *,
    vary: Values | None = None,
    output: str | PathLike[str] | None = None,
    progress: bool = True,
    **options: Any,
) -> Study:
    """Run a case or a benchmark over ranks, sizes and settings on this machine, as `ridgeline study run` does.

    Parameters
    ----------
    case : Case or path, optional
        The settings, or the path of a settings file, a study file or the folder of a study. None for a benchmark.
    vary : mapping, optional
        Further axes, as for `run_sweep`.
    output : path, optional
        Folder of the study; by default it is named after the model. A study that was interrupted continues.
    progress : bool
        Print a line when a job begins or ends.
    **options
        Other options of `ridgeline study run` by name, such as ranks=(1, 2), strong=True, repeat=3, bench="hpcg".

    Returns
    -------
    Study
        The table. Jobs that failed are named in its notes.

    Raises
    ------
    ConfigError, OutputError, DecompositionError
        Before anything starts.

    Examples
    --------
    >>> import ridgeline
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)})
    >>> study = ridgeline.run_study(case, ranks=(1, 2), strong=True, repeat=1, output="strong", progress=False)
    >>> study.table["ranks"].tolist()
    [1, 2]
    """
    from ridgeline.study import command

    _known("run_study", options, options_of(StudyOptions))
    given = {**options, "vary": tuple(_axes("vary", vary or {}))}
    study_file = nullcontext(None) if case is None else _case_path(case)
    with errors_name_keywords(options_of(StudyOptions)), study_file as path:
        _, folder = command.run_study(path, given, _text(output), _teller(progress), lambda _: None)
    return Study(folder)


def run_bench(name: str, *, ranks: int = 1, progress: bool = True, **options: Any) -> MeasuredTable:
    """Run a benchmark in processes beside this one, as `ridgeline bench` does.

    Parameters
    ----------
    name : str
        Name of the benchmark, as `ridgeline bench --help` lists them.
    ranks : int
        Number of MPI ranks.
    progress : bool
        Show which part of the benchmark is running.
    **options
        Options of the benchmark by name, such as sizes=(8, 4096).

    Returns
    -------
    MeasuredTable
        The figures: a dictionary, which Python shows as its table.

    Raises
    ------
    ConfigError
        For a benchmark or an option that does not exist, or a value out of its range.
    VerificationError
        If a received or computed value is wrong.

    Examples
    --------
    >>> import ridgeline
    >>> report = ridgeline.run_bench("latency", ranks=2, sizes=(8, 64), progress=False)
    >>> report.table["size"].tolist()
    [8, 16, 32, 64]
    """
    benchmark = find_benchmark(name)
    _known(f"run_bench({name!r})", options, benchmark.offered)
    with (
        errors_name_keywords(benchmark.offered),
        tempfile.TemporaryDirectory(prefix="ridgeline-") as folder,
    ):
        benchmark.make_options(**options)
        words = [
            word for option in benchmark.offered if option.name in options for word in _flags(option, options)
        ]
        report = Path(folder) / "report.json"
        run_command(["bench", name, "-n", str(ranks), "--json", str(report), *words], progress)
        return MeasuredTable(read_report(str(report)))


def _known(call: str, given: Mapping[str, Any], options: Sequence[Option]) -> None:
    names = [option.name for option in options]
    for name in given:
        if name not in names:
            raise ConfigError(
                f"{call}: unknown option {name!r}{did_you_mean(name, names)} Options: {', '.join(names)}."
            )


def _flags(option: Option, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of the command line that give an option its value."""
    value, flag = values[option.name], option.flags[0]
    if option.type is bool:
        yield from [flag] if value else []
    elif option.spec.commas:
        yield from (flag, ",".join(map(str, value)))
    elif option.repeated:
        for item in value:
            yield from (flag, str(item))
    elif isinstance(value, tuple):
        yield from (flag, *map(str, value))
    elif value is not None:
        yield from (flag, str(value))


def _axes(call: str, axes: Values) -> Iterator[str]:
    """Yield the axes as the command line has them."""
    if not isinstance(axes, Mapping):
        raise ConfigError(f"{call} is {axes!r}, but it must be a mapping from settings to their values.")
    for key, values in axes.items():
        several, keys = isinstance(key, tuple), key if isinstance(key, tuple) else (key,)
        rows = (
            plain_value(list(values)) if isinstance(values, Iterable) and not isinstance(values, str) else []
        )
        whole = bool(rows) and all(isinstance(row, list) and len(row) == len(keys) for row in rows if several)
        if not whole:
            raise ConfigError(
                f"{call}: {key!r} must have a list of values, and for several settings a list of tuples with a value "
                "for each of them."
            )
        columns = zip(*rows) if several else [rows]
        yield f" {LINK} ".join(
            f"{name}={','.join(map(toml_value, column))}" for name, column in zip(keys, columns)
        )


def _case_path(case: Case | str | PathLike[str]) -> AbstractContextManager[str]:
    """Provide the path of a settings file for the length of a block."""
    return case_file(case) if isinstance(case, Case) else nullcontext(fspath(case))


def _text(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else fspath(path)


def _teller(progress: bool) -> Any:
    return (lambda line: print(line, file=sys.stderr)) if progress else lambda _: None
