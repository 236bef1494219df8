"""What a rank shows to people: the console, log lines, and the progress of runs and of long measurements.

Everything but data goes to stderr. Rich is imported on demand, so that a batch job does not load it.
"""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

FILE_WIDTH = 240  # columns where there is no terminal, so that no table is cut


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
    )


def configure_logging(rank: int, size: int, verbose: bool = False) -> None:
    """Send warnings of every rank and notes of rank 0 to stderr (all notes of all ranks if verbose)."""
    handler = logging.StreamHandler(sys.stderr)
    prefix = f"[{rank}] " if size > 1 and (rank != 0 or verbose) else ""
    handler.setFormatter(_PlainFormatter(prefix))
    root = logging.getLogger("ridgeline")
    root.handlers[:] = [handler]
    root.propagate = False
    if verbose:
        root.setLevel(logging.DEBUG)
    else:
        root.setLevel(logging.INFO if rank == 0 else logging.ERROR)


class _PlainFormatter(logging.Formatter):
    """Writes "note: ..." and "warning: ..." instead of logger names and levels in capitals."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def format(self, record: logging.LogRecord) -> str:
        kind = "note" if record.levelno <= logging.INFO else record.levelname.lower()
        return f"{self._prefix}{kind}: {record.getMessage()}"


class Progress:
    """Shows the step, steps/s and the remaining time on stderr: a bar on a terminal, elsewhere a line now and then.

    For rank 0 only. It is a context manager, and silent where `shown` is false.
    """

    LINES = 10  # lines that a whole run writes where stderr is not a terminal
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
        self._terminal = sys.stderr.isatty()
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
        if self._shown and self._terminal:
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
            place = self._place(self._first, self._begin)
            self._task = self._bar.add_task(place, total=1.0, rate="", eta="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown and self._terminal:
            self._bar.refresh()
            self._bar.stop()

    def update(self, step: int, at: float) -> None:
        """Show that the run has reached `step` at model time `at`. It draws ten times a second at most."""
        if not self._shown:
            return
        now, share = time.monotonic(), self._share(step, at)
        elapsed = max(now - self._started, 1e-9)
        rate = (step - self._first) / elapsed
        eta = "done" if share >= 1.0 else f"ETA {_duration(elapsed * (1 - share) / share)}" if share else ""
        if self._terminal:
            if now - self._drawn >= self.REFRESH_SECONDS or share >= 1.0:
                self._drawn = now
                self._bar.update(
                    self._task,
                    description=self._place(step, at),
                    completed=share,
                    rate=f"{rate:.4g} steps/s",
                    eta=eta,
                    refresh=True,
                )
        elif share >= self._next_line * self._apart * (1 - 1e-9) or share >= 1.0:
            self._next_line += 1
            sys.stderr.write(f"{self._place(step, at)}  {rate:.4g} steps/s  {eta}\n")
            sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


class Phases:
    """Shows on stderr which part of a long measurement is running, and the remaining time where it is known.

    For rank 0 only; silent where `shown` is false. On a terminal it is one line, which is rewritten. Elsewhere it is
    a line for each part and, inside a part, for every tenth of it, but not more often than every few seconds. It is a
    context manager, which clears its line. Call it outside timed regions, because writing may have to wait for the
    reader of the stream.
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

        now: whether to show it at once. Otherwise the first `update` after some seconds shows it.
        """
        if not self._shown:
            return
        self._part = part
        self._started = self._drawn = time.monotonic()
        self._tenths = 0 if now else -1
        if now:
            self._draw(f"{self._what}: {part}")

    def update(self, done: int, total: int) -> None:
        """Show that `done` of `total` units of the part are done. Cheap: it draws ten times a second at most."""
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


def silent() -> Phases:
    """Return a `Phases` that shows nothing."""
    return Phases("", False)
