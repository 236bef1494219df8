"""Many cases in one process, one after the other: what a sweep starts, so that kernels are loaded once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ridgeline.config.load import load_case
from ridgeline.models import case_class, create
from ridgeline.parallel.job import job
from ridgeline.runtime.errors import RidgelineError
from ridgeline.runtime.files import replace_file
from ridgeline.runtime.messages import configure_logging
from ridgeline.runtime.signals import SignalCatcher


def run_list(path: str) -> None:
    """Run the cases of a list on this rank of however many there are. Collective over the world.

    path: JSON, a list of {"case": settings file, "settings": of --set, "report": where it goes, "error": a file for
    why it failed}. A case that fails leaves its error there, and the others go on. A signal ends the running case
    with a checkpoint, and the list. All cases have as many threads as the first.
    """
    entries: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))
    first = load_case(entries[0]["case"], case_class, entries[0]["settings"]).case
    with SignalCatcher() as caught, job(first.run.threads) as comm:
        from ridgeline.runtime.context import Context
        from ridgeline.simulation.job import RunCaller, run_case
        from ridgeline.simulation.options import RunOptions

        configure_logging(comm.rank, comm.size, False)
        for entry in entries:
            try:
                case = load_case(entry["case"], case_class, entry["settings"]).case
                caller = RunCaller(progress=False, started=time.monotonic(), caught=caught)
                context = Context(comm, case.run.device, case.run.threads)
                options = RunOptions(json=entry["report"])
                report = run_case(case, create(case.run.model), context, options, caller)
            except RidgelineError as problem:  # all ranks raise together
                if comm.rank == 0:
                    text = f"exit code {problem.exit_code}\nerror: {problem}\n"
                    replace_file(Path(entry["error"]), text.encode())
            else:
                if report["run"]["ended"].startswith("SIG"):
                    return
