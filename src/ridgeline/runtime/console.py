"""What a rank shows to people: the console, log lines, and the progress of runs and of long measurements.

Everything but data goes to stderr. Rich is imported on demand, so that a batch job does not load it.
"""

from __future__ import annotations

import html
import json
import logging
import os
import sys
import time
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console

FILE_WIDTH = 240  # columns where there is no terminal, so that no table is cut

# What the file of `ridgeline run --log` gets beside warnings, notes and errors: the header, progress and the report.
log_file = logging.getLogger("ridgeline_log_file")
log_file.propagate = False
log_file.addHandler(logging.NullHandler())


def plain_console(
    stream: TextIO | None = None, *, soft_wrap: bool = False, file_width: int | None = FILE_WIDTH
) -> Console:
    """Return a console that prints texts exactly as they are given: `[cuda]` and `:x:` are neither markup nor emoji.

    Styles are given as `rich.text.Text`.

    Parameters
    ----------
    stream : where to print, by default standard output
    soft_wrap : whether long lines are left to the terminal to wrap
    file_width : columns where the stream is not a terminal; None leaves the choice to Rich, for prose
    """
    from rich.console import Console

    stream = sys.stdout if stream is None else stream
    return Console(
        file=stream,
        width=None if stream.isatty() else file_width,
        soft_wrap=soft_wrap,
        markup=False,
        emoji=False,
        highlight=False,
        force_terminal=False
        if isinstance(stream, StringIO)
        else None,  # FORCE_COLOR is not for texts in memory
        force_jupyter=False,  # in a notebook Rich would show everything below the cell instead of printing it there
    )


class PrintedDict(dict[str, Any]):
    """A dictionary that Python and notebooks show as the text that the command line prints of it."""

    def print_on(self, console: Console) -> None:
        """Print the text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        text = StringIO()
        self.print_on(plain_console(text, soft_wrap=True))
        return "\n".join(map(str.rstrip, text.getvalue().strip().splitlines()))

    def _repr_html_(self) -> str:
        return as_html(repr(self))


def as_html(text: str) -> str:
    """Return a text as a notebook shows it: in a box that scrolls, with its columns aligned."""
    return f'<pre style="overflow-x: auto">{html.escape(text)}</pre>'


def configure_logging(rank: int, size: int, verbose: bool = False, quiet: bool = False) -> None:
    """Send errors of every rank, and warnings and notes of rank 0, to stderr.

    verbose: whether all notes of all ranks are shown. quiet: whether notes are left out.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PlainFormatter(f"[{rank}] " if size > 1 and (rank != 0 or verbose) else ""))
    if quiet:
        handler.setLevel(logging.WARNING)
    root = logging.getLogger("ridgeline")
    root.handlers[:] = [handler]
    root.propagate = False
    if verbose:
        root.setLevel(logging.DEBUG)
    else:
        root.setLevel(logging.INFO if rank == 0 else logging.ERROR)


def open_log_file(file: str, rank: int) -> None:
    """Append what is logged from now on to a file too, each line with its time. Ranks other than 0 log their errors.

    The file is opened when its first line is written.
    """
    handler = logging.FileHandler(file, delay=True, encoding="utf-8")
    handler.setFormatter(_PlainFormatter(f"[{rank}] " if rank else "", timed=True))
    logging.getLogger("ridgeline").addHandler(handler)
    log_file.handlers[:] = [handler]
    log_file.setLevel(logging.INFO if rank == 0 else logging.ERROR)


class _PlainFormatter(logging.Formatter):
    """Writes "note: ..." and "warning: ..." instead of logger names and levels in capitals.

    Texts for the log file alone are written as they are. timed: whether each line begins with its time.
    """

    def __init__(self, prefix: str, timed: bool = False) -> None:
        super().__init__()
        self._prefix, self._timed = prefix, timed

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.name != log_file.name:
            kind = "note" if record.levelno <= logging.INFO else record.levelname.lower()
            text = f"{kind}: {text}"
        time = f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')} " if self._timed else ""
        return "\n".join(f"{time}{self._prefix}{line}".rstrip() for line in text.split("\n"))


# A run that another process has started and watches writes how far it is into the file of this name.
PROGRESS_FILE = "RIDGELINE_PROGRESS_FILE"


def in_notebook() -> bool:
    """Say whether this process is the kernel of a notebook, which shows rich output but has no terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class _Bar(Protocol):
    def draw(self, place: str, share: float, rate: str, eta: str) -> None: ...
    def close(self) -> None: ...


class _TerminalBar:
    """A bar in one line of a terminal."""

    def __init__(self, place: str) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[eta]}"),
            console=plain_console(sys.stderr),
            auto_refresh=False,  # no thread beside the compute threads
        )
        self._bar.start()
        self._task = self._bar.add_task(place, total=1.0, rate="", eta="")

    def draw(self, place: str, share: float, rate: str, eta: str) -> None:
        self._bar.update(self._task, description=place, completed=share, rate=rate, eta=eta, refresh=True)

    def close(self) -> None:
        self._bar.refresh()
        self._bar.stop()


class _NotebookBar:
    """A bar below the cell of a notebook, which needs no widgets and stays when the notebook is saved."""

    def __init__(self, place: str) -> None:
        show = import_module("IPython.display").display
        self._handle = show(self._content(place, 0.0), raw=True, display_id=True)

    @staticmethod
    def _content(words: str, share: float) -> dict[str, str]:
        bar = f'<progress value="{share:.4f}" max="1" style="width: 20em"></progress>'
        return {"text/plain": words, "text/html": f"{bar} <code>{html.escape(words)}</code>"}

    def draw(self, place: str, share: float, rate: str, eta: str) -> None:
        self._handle.update(self._content(f"{place}  {rate}  {eta}", share), raw=True)

    def close(self) -> None:
        pass


class _Lines:
    """A line on stderr for each tenth of the run."""

    def __init__(self) -> None:
        self._tenths = 0

    def draw(self, place: str, share: float, rate: str, eta: str) -> None:
        if (tenths := int(share * Progress.LINES)) > self._tenths:
            self._tenths = tenths
            sys.stderr.write(f"{place}  {rate}  {eta}\n")
            sys.stderr.flush()

    def close(self) -> None:
        pass


def _bar_here(place: str) -> _Bar | None:
    """Return the bar of a notebook or a terminal, or None where there is neither."""
    if in_notebook():
        return _NotebookBar(place)
    return _TerminalBar(place) if sys.stderr.isatty() else None


class Progress:
    """Shows the step, steps/s and the remaining time of a run.

    A terminal and a notebook show a bar, and elsewhere a line is printed on stderr now and then. The log file of the
    run gets the lines too, even where `shown` is false. For rank 0 only; use it as a context manager.
    """

    LINES = 10  # lines that a whole run writes where there is no bar
    REFRESH_SECONDS = 0.1  # between two updates of the bar

    def __init__(
        self,
        first: int,
        last: int | None,
        shown: bool,
        begin: float = 0.0,
        end: float | None = None,
    ) -> None:
        """Begin at step `first` and time `begin`. last, end: of the run, None where there is no such limit."""
        self._first, self._last, self._begin, self._end = first, last, begin, end
        self._shown = shown and self._share(first, begin) < 1.0
        self._bar: _Bar | None = None
        self._started = self._drawn = time.monotonic()
        # Shares of the run at which lines are written: a tenth, and a step at least.
        self._apart = 1 / self.LINES
        if end is None and last is not None and last > first:
            self._apart = max(1, (last - first) // self.LINES) / (last - first)
        self._next_line = 1

    def _share(self, step: int, at: float) -> float:
        """Return the share of the run that is done."""
        shares = [0.0]
        if self._last is not None:
            shares.append(
                (step - self._first) / (self._last - self._first) if self._last > self._first else 1.0
            )
        if self._end is not None:
            shares.append((at - self._begin) / (self._end - self._begin) if self._end > self._begin else 1.0)
        return max(shares)

    def _place(self, step: int, at: float) -> str:
        steps = f"step {step}" if self._last is None else f"step {step}/{self._last}"
        return steps if self._end is None else f"{steps}  time {at:.4g}/{self._end:.4g}"

    def __enter__(self) -> Progress:
        if self._shown:
            place = self._place(self._first, self._begin)
            if (file := os.environ.get(PROGRESS_FILE)) is not None:
                self._bar = _FileForAnotherProcess(Path(file))
            else:
                self._bar = _bar_here(place)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def pause(self, step: int, at: float) -> None:
        """Draw where the run stands, because the call that advanced it returns and the bar stays as it is."""
        if self._share(step, at) < 1.0:
            self._drawn = 0.0
            self.update(step, at)

    def update(self, step: int, at: float) -> None:
        """Show that the run has reached `step` at model time `at`. It draws ten times a second at most."""
        share = self._share(step, at)
        line_is_due = share >= self._next_line * self._apart * (1 - 1e-9) or share >= 1.0
        if not self._shown and not line_is_due:
            return
        now = time.monotonic()
        elapsed = max(now - self._started, 1e-9)
        rate = f"{(step - self._first) / elapsed:.4g} steps/s"
        eta = "done" if share >= 1.0 else f"ETA {_duration(elapsed * (1 - share) / share)}" if share else ""
        drawn_long_ago = now - self._drawn >= self.REFRESH_SECONDS or share >= 1.0
        if self._bar is not None and drawn_long_ago:
            self._drawn = now
            self._bar.draw(self._place(step, at), share, rate, eta)
        if line_is_due:
            self._next_line = int(share / self._apart * (1 + 1e-9)) + 1
            line = f"{self._place(step, at)}  {rate}  {eta}"
            log_file.info(line)
            if self._shown and self._bar is None:
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()


class _FileForAnotherProcess:
    """A file with the latest state of the bar, for `WatchedProgress` of the process that has started this one."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def draw(self, place: str, share: float, rate: str, eta: str) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps([place, share, rate, eta]))
        new.replace(self._file)

    def close(self) -> None:
        pass


class WatchedProgress:
    """The progress of a run in another process, which writes how far it is into a file (`PROGRESS_FILE`)."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._bar: _Bar | None = None
        self._last = ""

    def update(self) -> None:
        """Draw what the other process has written since the last call."""
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return
        if text == self._last:
            return
        self._last = text
        place, share, rate, eta = json.loads(text)
        if self._bar is None:
            self._bar = _bar_here(place) or _Lines()
        self._bar.draw(place, share, rate, eta)

    def close(self) -> None:
        """End the bar."""
        self.update()
        if self._bar is not None:
            self._bar.close()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


class Phases:
    """Show on stderr which part of a long measurement is running, and the remaining time where it is known.

    It is for rank 0 only, and silent where `shown` is false. On a terminal it is one line, which is rewritten.
    Elsewhere it is a line for each part and, inside a part, for every tenth of it, but not more often than every
    few seconds. It is a context manager, which clears its line.

    Parameters
    ----------
    what : str
        The name of the measurement, which begins each line.
    shown : bool
        Whether anything is shown.

    Notes
    -----
    Local. Call it outside timed regions, because writing may have to wait for the reader of the stream.

    Examples
    --------
    >>> from ridgeline.runtime.console import Phases
    >>> with Phases("ring", shown=False) as progress:
    ...     progress.begin("8 B")
    ...     for lap in range(10):
    ...         progress.update(lap + 1, 10)
    """

    LINE_SECONDS = 5.0  # least time between two lines inside a part where stderr is not a terminal

    def __init__(self, what: str, shown: bool) -> None:
        self._what, self._shown = what, shown
        self._terminal = shown and sys.stderr.isatty()
        self._part = ""
        self._started = self._drawn = time.monotonic()
        self._tenths = 0  # of the current part that the log has a line of

    def __enter__(self) -> Phases:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Clear the line."""
        if self._terminal:
            self._write("\r\x1b[K")

    def begin(self, part: str, now: bool = True) -> None:
        """Show that a part begins.

        Parameters
        ----------
        part : str
            The name of the part.
        now : bool
            Whether to show it at once. Otherwise the first `update` after some seconds shows it.
        """
        if not self._shown:
            return
        self._part = part
        self._started = self._drawn = time.monotonic()
        self._tenths = 0 if now else -1
        if now:
            self._draw(f"{self._what}: {part}")

    def update(self, done: int, total: int) -> None:
        """Show that some units of the part are done. This is cheap: it draws ten times a second at most.

        Parameters
        ----------
        done, total : int
            Units that are done, and all units of the part.
        """
        if not self._shown or total < 1:
            return
        now, tenths = time.monotonic(), done * Progress.LINES // total
        if self._terminal:
            due = now - self._drawn >= Progress.REFRESH_SECONDS
        else:
            due = tenths > self._tenths and now - self._drawn >= self.LINE_SECONDS
        if not due or done < 1:
            return
        self._drawn, self._tenths = now, tenths
        left = (now - self._started) * (total - done) / done
        self._draw(f"{self._what}: {self._part} {done}/{total}  ETA {_duration(left)}")

    def _draw(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class Tally:
    """Logs how many units of slow work are done, at most every LINE_SECONDS, so that nobody takes it for a hang.

    words: the note, with {} for the number.
    """

    LINE_SECONDS = 15.0

    def __init__(self, words: str, log: logging.Logger) -> None:
        self._words, self._log = words, log
        self._done, self._logged = 0, 0.0

    def add(self) -> None:
        """Count one more unit."""
        now = time.monotonic()
        self._done += 1
        self._logged = self._logged or now
        if now - self._logged >= self.LINE_SECONDS:
            self._logged = now
            self._log.info(self._words.format(self._done))


def silent() -> Phases:
    """Return a `Phases` that shows nothing."""
    return Phases("", False)
