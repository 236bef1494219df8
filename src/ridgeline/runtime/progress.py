"""Progress of a run: a bar on a terminal, a line now and then elsewhere. Rank 0 only."""

from __future__ import annotations

import sys
import time
from types import TracebackType


class Progress:
    """Shows step, steps/s and the time to go on stderr. A context manager; silent where `shown` is false."""

    # Without a terminal (batch logs), a line every tenth of the run and not more often than this.
    LINES = 10
    REFRESH_SECONDS = 0.1

    def __init__(self, first: int, last: int, shown: bool) -> None:
        self._first, self._last = first, last
        self._shown = shown and last > first
        self._terminal = sys.stderr.isatty()
        self._started = self._drawn = time.monotonic()
        self._next_line = first + max(1, (last - first) // self.LINES)

    def __enter__(self) -> Progress:
        if self._shown and self._terminal:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            from ridgeline.runtime.console import plain_console

            self._bar = Bar(
                TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
                BarColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[eta]}"),
                console=plain_console(sys.stderr),
                auto_refresh=False,  # no thread beside the compute threads
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=self._last, completed=self._first, rate="", eta="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown and self._terminal:
            self._bar.refresh()
            self._bar.stop()

    def update(self, step: int) -> None:
        """Say that the run has reached `step`. Cheap: draws ten times a second at most."""
        if not self._shown:
            return
        now = time.monotonic()
        rate = (step - self._first) / max(now - self._started, 1e-9)
        eta = f"ETA {_duration((self._last - step) / rate)}" if step < self._last else "done"
        if self._terminal:
            if now - self._drawn >= self.REFRESH_SECONDS or step == self._last:
                self._drawn = now
                self._bar.update(
                    self._task, completed=step, rate=f"{rate:.4g} steps/s", eta=eta, refresh=True
                )
        elif step >= self._next_line or step == self._last:
            self._next_line += max(1, (self._last - self._first) // self.LINES)
            sys.stderr.write(f"step {step}/{self._last}  {rate:.4g} steps/s  {eta}\n")
            sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


class Phases:
    """Shows which part of a long measurement is at work, and the time to go where it is known, on stderr.

    Rank 0 only; silent where `shown` is false. On a terminal it is one line, rewritten. Elsewhere it is a line for
    each part and, inside one, for every tenth of it, not more often than every few seconds. A context manager, which
    clears its line. To be called outside timed regions: it writes, and may wait for whoever reads.
    """

    LINE_SECONDS = 5.0  # least time between two lines inside a part, without a terminal

    def __init__(self, what: str, shown: bool) -> None:
        self._what, self._shown = what, shown
        self._terminal = shown and sys.stderr.isatty()
        self._part = ""
        self._started = self._drawn = time.monotonic()
        self._tenths = 0  # of the part that a log has a line of

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
        """Say that a part begins. now: at once, for what takes long; else `update` does, if it takes some seconds."""
        if not self._shown:
            return
        self._part = part
        self._started = self._drawn = time.monotonic()
        self._tenths = 0 if now else -1
        if now:
            self._draw(f"{self._what}: {part}")

    def update(self, done: int, total: int) -> None:
        """Say that so much of the part is done. Cheap: draws ten times a second at most."""
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
    """Return what says nothing."""
    return Phases("", False)
