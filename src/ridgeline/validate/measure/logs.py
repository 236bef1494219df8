"""Lines of this node's logs since a moment: the kernel's buffer, the journal's copy of it, files that a site names.

A prolog and an epilog write markers into the kernel's log, which the system passes on to its consoles. The lines
between them belong to the job (Ibeid et al., MPI on Aurora, Sec. 3.8.7). Where a marker is missing, as where it was
overwritten, the time of a line decides, or the size that a file had. Users cannot write what is read here: of the
journal, only what came from the kernel is searched.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.runtime.environment import child_environment
from ridgeline.validate.log_patterns import PREFIX, LogPattern

Run = Callable[[Sequence[str]], str | None]

_KERNEL = "dev/kmsg"
_RECORD = re.compile(
    r"\d+,\d+,(\d+),[^;]*;(.*)"
)  # of the kernel's buffer: level, number, microseconds, flags; text
_MOST_BYTES = 16 * 2**20  # of a log
_MOST_LINES = 50_000  # of the journal
_LINE = 160  # characters of a line in a report
_JOURNAL_SECONDS = 10.0


@dataclass
class LogMoment:
    """A moment in the logs. taken: seconds since 1970; files: path -> [number of the file, bytes]."""

    taken: float
    files: dict[str, list[int]] = field(default_factory=dict)


def marker(phase: str, job: str | None) -> str:
    """Return the line that a prolog or an epilog writes."""
    return f"ridgeline: {phase} of job {job or '(unknown)'}"


def write_marker(text: str, root: Path = Path("/")) -> bool:
    """Write a line into the kernel's log; return whether this user may."""
    with suppress(OSError):
        place = os.open(root / _KERNEL, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(place, f"<5>{text}\n".encode())
            return True
        finally:
            os.close(place)
    return False


def log_moment(files: Sequence[str], root: Path = Path("/")) -> LogMoment:
    """Return where the logs end now."""
    found = LogMoment(time.time())
    for name in files:
        with suppress(OSError):
            state = (root / name.lstrip("/")).stat()
            found.files[name] = [state.st_ino, state.st_size]
    return found


def read_lines(
    since: LogMoment,
    begin: str | None,
    files: Sequence[str],
    root: Path = Path("/"),
    run: Run | None = None,
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the lines of each log since a moment, and remarks on what is missing. No communication.

    begin: the marker after whose last occurrence lines count; files: that the site names; run: runs a command and
    returns its output, None if it cannot.
    """
    texts: dict[str, list[str]] = {}
    remarks: list[str] = []
    kernel = _kernel_lines(root, since.taken, begin)
    if kernel is not None:
        texts["the kernel's log"] = kernel
    shown = ("-q", "--no-pager", "-o", "cat", "-n", str(_MOST_LINES))
    journal = (run or _run)(("journalctl", *shown, f"--since=@{since.taken:.0f}", "_TRANSPORT=kernel"))
    if journal is not None:
        texts["the journal"] = journal.splitlines()
    for name in files:
        lines = _file_lines(root / name.lstrip("/"), since.files.get(name), begin)
        if lines is None:
            remarks.append(
                f"the log {name} was not searched: it cannot be read, or it has neither a marker nor a known end."
            )
        else:
            texts[name] = lines
    return texts, remarks


def count_lines(
    texts: dict[str, list[str]], patterns: Sequence[LogPattern]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return how many lines match each pattern, and the first line of each, by name of the counter.

    Logs are copies of each other, so the log with most of a pattern's lines counts.
    """
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for name, lines in texts.items():
        here: dict[str, list[str]] = {}
        for line in lines:
            pattern = next((p for p in patterns if p.match.search(line)), None)
            if pattern is not None:
                here.setdefault(f"{PREFIX}{pattern.kind.key}", []).append(line)
        for counter, matched in here.items():
            if len(matched) > counts.get(counter, 0):
                counts[counter] = len(matched)
                first[counter] = f"{name}: {_printable(matched[0])}"
    return counts, first


def _printable(line: str) -> str:
    text = "".join(character if character.isprintable() else " " for character in line).strip()
    return text if len(text) <= _LINE else f"{text[:_LINE]}..."


def _run(command: Sequence[str]) -> str | None:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command,
            env=child_environment(),
            capture_output=True,
            timeout=_JOURNAL_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout.decode(errors="replace")
    return None


def _kernel_lines(root: Path, taken: float, begin: str | None) -> list[str] | None:
    """Return the lines of the kernel's buffer since the marker, or else since a time; None if it cannot be read."""
    try:
        uptime = float((root / "proc/uptime").read_text().split()[0])
        place = os.open(root / _KERNEL, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError, IndexError):
        return None
    parts: list[bytes] = []
    try:
        while sum(map(len, parts)) < _MOST_BYTES:
            try:
                part = os.read(place, 2**16)  # a record at a time
            except BrokenPipeError:  # the next record was overwritten while this was read
                continue
            if not part:
                break
            parts.append(part)
    except OSError:  # no further record (EAGAIN)
        pass
    finally:
        os.close(place)
    start = (uptime - max(time.time() - taken, 0.0)) * 1e6
    lines = []
    for line in b"".join(parts).decode(errors="replace").splitlines():
        if line.startswith(" "):  # fields of the record before
            continue
        record = _RECORD.fullmatch(line)
        lines.append((float(record[1]), record[2]) if record else (start, line))
    marked = _after([text for _, text in lines], begin)
    return marked if marked is not None else [text for when, text in lines if when >= start]


def _file_lines(path: Path, end: list[int] | None, begin: str | None) -> list[str] | None:
    """Return the lines of a file after the marker, or else after its known end; None if neither is there."""
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            known = end is not None and end[0] == state.st_ino and end[1] <= state.st_size
            start = end[1] if known and end is not None else 0
            file.seek(max(start, state.st_size - _MOST_BYTES))
            lines = file.read(_MOST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return None
    marked = _after(lines, begin)
    return marked if marked is not None else lines if known else None


def _after(lines: Sequence[str], begin: str | None) -> list[str] | None:
    """Return what follows the last line that ends with the marker, None if there is none."""
    if begin is None:
        return None
    last = max((number for number, line in enumerate(lines) if line.rstrip().endswith(begin)), default=None)
    return None if last is None else list(lines[last + 1 :])
