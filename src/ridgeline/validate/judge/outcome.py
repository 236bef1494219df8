"""How a validation ends: one verdict, one report and one message, from the first process that sees the end."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.runtime.errors import OutputError, VerificationError
from ridgeline.runtime.files import DAMAGED, replace_file
from ridgeline.runtime.progress import Phases, silent
from ridgeline.validate.judge.screening import screen
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import UNMEASURED, Verdict
from ridgeline.validate.measure.measurements import Measurements, Stage
from ridgeline.validate.report.write import write_report
from ridgeline.validate.watchdog import Trouble


@dataclass
class SessionProgress:
    """What rank 0 leaves for the process that started the job. code: None before the end; processes: host name and
    process id of every rank.
    """

    stage: str = ""
    limit: float = 0.0
    code: int | None = None
    measurements: dict[str, Any] = field(default_factory=dict)
    processes: list[tuple[str, int]] = field(default_factory=list)


def write_progress(path: str | None, progress: SessionProgress) -> None:
    """Replace the file, whole or not at all. A folder that is not there any more is nobody's loss."""
    if path is None:
        return
    with suppress(OSError):
        replace_file(Path(path), json.dumps(asdict(progress)).encode())


def read_progress(path: str) -> SessionProgress:
    """Return what rank 0 left, nothing if it left nothing."""
    try:
        return SessionProgress(**json.loads(Path(path).read_text()))
    except (OSError, *DAMAGED):
        return SessionProgress()


@dataclass
class Outcome:
    """The end of a validation, on rank 0 or in the process that started it. show: prints the verdict; stages:
    told of each that begins."""

    measurements: Measurements
    thresholds: Thresholds
    baseline: Measurements | None
    report: str | None
    show: Callable[[Measurements, Verdict], None]
    progress: str | None = None
    processes: list[tuple[str, int]] = field(default_factory=list)
    stages: Phases = field(default_factory=silent)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _code: int | None = None

    def stage_begins(self, name: str, limit: float) -> None:
        """Leave word of how far the validation came, also for people."""
        self.stages.begin(name)
        write_progress(
            self.progress, SessionProgress(name, limit, None, self.measurements.to_dict(), self.processes)
        )

    def suspects(self, measurements: Measurements) -> dict[str, list[int]]:
        """Return quantity -> numbers of the nodes to measure again: suspects, ends of suspect links, busy nodes."""
        found: dict[str, set[int]] = {}
        verdict = screen(measurements, self.thresholds, self.baseline)
        for part in verdict.suspects:
            for quantity in part.quantities:
                found.setdefault(quantity, set()).update(part.nodes)
        for busy in verdict.busy:
            for quantity in busy.quantities:
                found.setdefault(quantity, set()).add(busy.node)
        return {quantity: sorted(nodes) for quantity, nodes in found.items() if nodes}

    def finish(self) -> int:
        """Judge, write the report, show the verdict; return the exit code. Only the first call does."""
        with self._lock:
            if self._code is not None:
                return self._code
            self._code = UNMEASURED
            self.stages.close()
            verdict = screen(self.measurements, self.thresholds, self.baseline)
            try:
                if self.report is not None:
                    write_report(self.measurements, verdict, self.report)
            except OutputError as error:
                sys.stderr.write(f"error: {error}\n")
            self.show(self.measurements, verdict)
            self._code = verdict.exit_code
            write_progress(self.progress, SessionProgress(code=self._code))
            return self._code

    def take(self, trouble: Trouble) -> None:
        """Add what stopped a stage to the measurements."""
        stage = Stage(
            trouble.stage,
            trouble.level,
            trouble.seconds,
            trouble.outcome,
            trouble.detail,
            trouble.silent,
            trouble.waiting,
            trouble.died,
        )
        self.measurements.stages.append(stage)
        late = self.measurements.others.setdefault(trouble.stage, {})
        for rank, share in trouble.others.items():
            late[self.measurements.node_of_rank[rank]] = share
        for rank, text in trouble.failures.items():
            if text.startswith(VerificationError.__name__):
                node = self.measurements.node_of_rank[rank]
                self.measurements.errors.setdefault(node, []).append(f"rank {rank}: {text}")

    def end_process(self, trouble: Trouble) -> None:
        """Report what stopped the validation and end this process at once: its main thread may be stuck in MPI."""
        code = UNMEASURED
        try:
            self.take(trouble)
            code = self.finish() or UNMEASURED
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
