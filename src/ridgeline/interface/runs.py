"""Whole runs from Python: starting one on any number of ranks, and opening what a run has written."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ridgeline.io.dataset
from ridgeline.interface.keywords import errors_name_keywords
from ridgeline.interface.rank_process import run_in_processes
from ridgeline.io.checkpoint_format import find_checkpoints
from ridgeline.io.report_file import is_run_report, read_report
from ridgeline.io.series import read_series
from ridgeline.runtime.console import as_html
from ridgeline.runtime.declared_options import options_of
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.launcher import detect_launch
from ridgeline.runtime.signals import RunInterrupted
from ridgeline.simulation.case import Case
from ridgeline.simulation.print_report import RunReport
from ridgeline.simulation.simulation import Simulation

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

REPORT = ".run.json"  # what the report of a run is called, after the name of its data set
DATA, SERIES, SPECTRA = "data set", "series", "spectra"


class Run:
    """Give access to what a run has written: its report, fields, time series, spectra and checkpoints.

    `ridgeline.run` and `ridgeline.load_run` return it. Everything is opened when it is first used.

    Parameters
    ----------
    path : Path
        The data set of the run, whether it was written or not; the report is beside it.
    report : RunReport
        The report of the run: a dictionary, which is shown as `ridgeline report` prints it.

    Examples
    --------
    >>> import ridgeline
    >>> output = {"path": "spots.bp", "every": 2, "series_every": 1}
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)}, output=output)
    >>> run = ridgeline.run(case, progress=False)
    >>> run
    <ridgeline.Run: spots.bp, gray_scott 8 x 8 x 8 (z y x), step 4, all steps done>
    >>> run.data.V.shape, list(run.series.columns)[:3]
    ((2, 8, 8, 8), ['step', 'time', 'U_min'])
    >>> run.report["run"]["complete"]
    True
    """

    def __init__(self, path: Path, report: RunReport) -> None:
        self.path, self.report = path, report

    @property
    def complete(self) -> bool:
        """Whether the run reached its last step or its end."""
        return bool(self.report["run"]["complete"])

    @cached_property
    def data(self) -> xr.Dataset:
        """The fields, lazily, as `ridgeline.open` returns them."""
        return self.open(DATA)

    @cached_property
    def series(self) -> pd.DataFrame:
        """The time series: a row for each recorded step."""
        from pandas import DataFrame

        return DataFrame(read_series(self._written(SERIES)))

    @cached_property
    def spectra(self) -> xr.Dataset:
        """The spectra, lazily, as `ridgeline.open` returns them."""
        return self.open(SPECTRA)

    def open(self, kind: str) -> xr.Dataset:
        """Open one of the outputs of the run.

        Parameters
        ----------
        kind : str
            A kind of output as the report lists it: "data set", "series", "spectra", "statistics", or the name of
            a part.

        Returns
        -------
        xarray.Dataset
            As `ridgeline.open` returns it.

        Raises
        ------
        ConfigError
            If the run wrote no such output. The message lists those that it wrote.
        """
        return ridgeline.io.dataset.open(self._written(kind))

    @property
    def checkpoints(self) -> list[Path]:
        """The checkpoints that are there now, the newest first."""
        return find_checkpoints(self._beside(str(self.report["settings"]["checkpoint.path"])))

    def plot(self, *variables: str, **options: Any) -> Figure:
        """Draw the fields of the run as `ridgeline plot` does.

        Parameters
        ----------
        *variables : str
            Names of fields; by default all.
        **options
            Options of `ridgeline plot` by name, such as slice="y=mid", step=-1, pdf=True.

        Returns
        -------
        matplotlib.figure.Figure
            A figure that a notebook shows, and that `savefig` writes.

        Raises
        ------
        ConfigError
            For fields and options that do not apply.
        """
        from ridgeline.analysis.picture_options import PictureOptions
        from ridgeline.analysis.plot_command import figure_of_data_set

        with errors_name_keywords(options_of(PictureOptions)):
            return figure_of_data_set(str(self._written(DATA)), variables, options)

    def _beside(self, path: str) -> Path:
        """Return a path of the report as it is from here: the folder of the run may have been moved."""
        folder = Path(str(self.report["files"]["report"])).parent
        try:
            return self.path.parent / Path(path).relative_to(folder)
        except ValueError:
            return Path(path)

    def _written(self, kind: str) -> Path:
        """Return the path of an output. Raises ConfigError if the run wrote none of this kind."""
        written = {row["kind"]: row["path"] for row in self.report["written"] if row["steps"]}
        if kind not in written:
            raise ConfigError(
                f"the run {self.path} wrote no {kind}. It wrote: {', '.join(written) or 'nothing but its report'}. "
                "The keys of the section [output] choose what a run writes."
            )
        return self._beside(written[kind])

    def __repr__(self) -> str:
        run = self.report["run"]
        return (
            f"<ridgeline.Run: {self.path}, {self.report['model']} {run['grid']}, step {run['last_step']}, "
            f"{run['ended']}>"
        )

    def _repr_html_(self) -> str:
        return as_html(repr(self.report))


def run(
    case: Case | str | PathLike[str],
    *,
    ranks: int | None = None,
    resume: str = "never",
    overwrite: bool = False,
    progress: bool = True,
) -> Run:
    """Run a case to its end, on any number of ranks, and return what it wrote.

    Parameters
    ----------
    case : Case or path
        The settings, or the path of a settings file.
    ranks : int, optional
        Number of MPI ranks. More than one are started as processes beside this one, as `ridgeline run -n` does. By
        default the run is in this process, with the ranks of the job to which it belongs.
    resume : str
        "never" starts a new run, "auto" continues from the newest checkpoint if there is one, and anything else is
        the path of a checkpoint.
    overwrite : bool
        Delete the outputs of earlier runs at the same paths. Otherwise they are set aside.
    progress : bool
        Show the progress: a bar in a notebook or a terminal, and lines elsewhere.

    Returns
    -------
    Run
        The report, the fields, the time series and the checkpoints of the run.

    Raises
    ------
    ConfigError, OutputError, CheckpointError, DecompositionError, DivergedError, LauncherError
        Whatever ends the run, on whichever rank, with the message that the command line prints.
    RunInterrupted
        After Ctrl-C or the interrupt of a notebook, once a checkpoint has been saved. `resume="auto"` continues the
        run, and `load_run` opens what it wrote.

    Notes
    -----
    Collective over all ranks of a job that a launcher has started.

    Examples
    --------
    In a notebook or a script, `ridgeline.run(case, ranks=2)` starts two ranks. In a program whose two ranks were
    started by `mpiexec -n 2 python program.py`, each of them makes the call:

    >>> import ridgeline
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)}, output={"path": "a.bp", "every": 4})
    >>> ridgeline.run(case, progress=False).report["run"]["ranks"]
    2
    """
    case = case if isinstance(case, Case) else Case.read(case)
    if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1):
        raise ConfigError(f"run: ranks is {ranks!r}, but it must be an integer >= 1.")
    launch = detect_launch()
    if launch is not None and ranks not in (None, launch.size):
        raise ConfigError(
            f"run: ranks={ranks} cannot be used in a job that {launch.launcher} started with {launch.size} ranks. "
            "Omit it, or start this program without the launcher."
        )
    path = Path(case.settings.output.path)
    if launch is None and (ranks or 1) > 1:
        assert ranks is not None
        stopped = run_in_processes(case, ranks, resume, overwrite, progress)
        if stopped:
            step = load_run(path).report["run"]["last_step"]
            raise RunInterrupted(
                f"the run was interrupted at step {step}, and its checkpoint was saved. "
                f"ridgeline.load_run({str(path)!r}) opens what it wrote, and ridgeline.run(case, "
                "resume='auto') continues it."
            )
        return load_run(path)
    return Run(path, Simulation(case, resume=resume, overwrite=overwrite, progress=progress).run())


def load_run(path: str | PathLike[str]) -> Run:
    """Open what a finished run has written.

    Parameters
    ----------
    path : path
        The data set of the run, its report (NAME.run.json), or the folder in which the report of a single run lies.

    Returns
    -------
    Run
        The report, the fields, the time series and the checkpoints of the run.

    Raises
    ------
    OutputError
        If there is no report, because the run has not ended yet or was killed, or if it is damaged.
    ConfigError
        If the folder holds the reports of several runs. The message lists them.

    Examples
    --------
    >>> import ridgeline
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)}, output={"path": "b.bp", "every": 4})
    >>> report = ridgeline.Simulation(case, progress=False).run()
    >>> ridgeline.load_run("b.bp").report["steps"]
    4
    """
    path = Path(path)
    beside = path.with_name(f"{path.name}{REPORT}")
    if path.name.endswith(REPORT):
        report = path
    elif beside.exists() or not path.is_dir():
        report = beside
    else:
        reports = sorted(path.glob(f"*{REPORT}"))
        if len(reports) > 1:
            names = ", ".join(str(each).removesuffix(REPORT) for each in reports)
            raise ConfigError(f"load_run: {path} holds several runs. Give the path of one of them: {names}.")
        report = reports[0] if reports else beside
    if not report.exists():
        raise OutputError(
            f"load_run: there is no report {report}, because no run has ended there. ridgeline.open reads the data "
            "set of a run that is going on or was killed."
        )
    content = read_report(str(report))
    if not is_run_report(content):
        raise OutputError(f"load_run: {report} is the report of a benchmark, not of a run.")
    return Run(report.with_name(report.name.removesuffix(REPORT)), RunReport(content))
