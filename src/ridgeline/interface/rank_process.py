"""A command of this program in another process: watched, interrupted, and with its errors raised here.

Ranks cannot be added to a process that runs already, so that a run on several ranks is `ridgeline run -n` in another
one. The process dies with this one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ridgeline.runtime.console import PROGRESS_FILE, WatchedProgress
from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.errors import (
    CheckpointError,
    ConfigError,
    DecompositionError,
    DeviceError,
    DivergedError,
    LauncherError,
    OutputError,
    RidgelineError,
    VerificationError,
)
from ridgeline.runtime.launcher import die_with_parent, this_program
from ridgeline.runtime.signals import RunInterrupted, stop_handlers

if TYPE_CHECKING:
    from ridgeline.simulation.case import Case

_LOOK = 0.1  # seconds between two looks at the progress
_ERROR = re.compile(r"(?:\[\d+\] )?error: (.*)")
_LAST_LINES = 5  # of what a process printed, where it ended without an error of ours
# The errors of ours by the exit code of the process that they end.
_KINDS: dict[int, type[RidgelineError]] = {
    kind.exit_code: kind
    for kind in (
        ConfigError,
        DecompositionError,
        CheckpointError,
        DivergedError,
        OutputError,
        LauncherError,
        DeviceError,
        VerificationError,
    )
}


def run_in_processes(case: Case, ranks: int, resume: str, overwrite: bool, progress: bool) -> bool:
    """Run a case with `ridgeline run -n`, and return whether it was interrupted.

    Stop signals are passed on: the ranks then write a checkpoint and end. A second Ctrl-C ends them at once. What the
    ranks print besides errors goes to stderr.

    Raises the error with which a rank ends, and RunInterrupted if a signal ended them before the first step.
    """
    with case_file(case) as settings:
        words = ["run", settings, "-n", str(ranks), "--quiet", "--resume", resume]
        return run_command([*words, *(["--overwrite"] if overwrite else [])], progress)


@contextmanager
def case_file(case: Case) -> Iterator[str]:
    """Provide the path of a case's settings file for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        path = Path(folder) / "case.toml"
        path.write_text(case.to_toml(), encoding="utf-8")
        yield str(path)


def run_command(arguments: Sequence[str], progress: bool = False) -> bool:
    """Run `ridgeline ARGUMENTS`, and return whether it was interrupted; see `run_in_processes`."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        watched = Path(folder) / "progress"
        try:
            process = subprocess.Popen(
                [*this_program(), *arguments],
                env=child_environment() | ({PROGRESS_FILE: str(watched)} if progress else {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # an interrupt of a terminal reaches it only from here
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            raise LauncherError(f"cannot start {sys.executable}: {error.strerror}.") from None
        printed: list[str] = []
        listener = threading.Thread(target=_listen, args=(process, printed, progress), daemon=True)
        listener.start()
        bar = WatchedProgress(watched)
        received: list[int] = []

        def forward(number: int, frame: FrameType | None) -> None:
            received.append(number)
            process.send_signal(number)

        # Python handles signals in its main thread only.
        main = threading.current_thread() is threading.main_thread()
        with stop_handlers(forward) if main else nullcontext():
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK)
                bar.update()
        listener.join()
        bar.close()
    _raise_error(process.returncode, printed, bool(received))
    return bool(received)


def _listen(process: subprocess.Popen[str], printed: list[str], progress: bool) -> None:
    """Keep what a process prints on stderr, and pass on all but errors of ours, which are raised.

    progress: whether lines that are not warnings are passed on too.
    """
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:
            printed.append(line.rstrip("\n"))
            if not _ERROR.match(line) and (progress or "warning: " in line):
                sys.stderr.write(line)
                sys.stderr.flush()


def _raise_error(code: int, printed: Sequence[str], interrupted: bool) -> None:
    """Raise the error with which a process ended, if it did not end in order."""
    if code == 0:
        return
    sentences = "\n".join(dict.fromkeys(found[1] for line in printed if (found := _ERROR.match(line))))
    if interrupted and code not in _KINDS:
        raise RunInterrupted(sentences or f"the ranks were interrupted, and ended with exit code {code}.")
    if sentences:
        raise _KINDS.get(code, RidgelineError)(sentences)
    last = " ".join(printed[-_LAST_LINES:])
    raise RidgelineError(
        f"the ranks ended with exit code {code}. The last lines that they printed: {last or 'none'}"
    )
