"""What the commands `run`, `run-list` (of `sweep`) and `compile` do on every rank, once the ranks are started.

Read cli/run_commands.py before this, which starts the ranks, and case_run.py after it, which is the run itself.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.config.load import load_case
from ridgeline.models import case_class, create
from ridgeline.parallel.job import job
from ridgeline.runtime.console import PROGRESS_FILE, configure_logging, log_file
from ridgeline.runtime.errors import RidgelineError
from ridgeline.runtime.files import replace_file
from ridgeline.runtime.signals import SignalCatcher
from ridgeline.runtime.units import counted

if TYPE_CHECKING:
    from ridgeline.config.load import LoadedCase
    from ridgeline.models.contract import Model
    from ridgeline.simulation.run_options import RunOptions


log = logging.getLogger(__name__)


def run_on_this_rank(
    loaded: LoadedCase, options: RunOptions, debug: bool = False, started: float | None = None
) -> dict[str, Any]:
    """Run a loaded case, print the report on rank 0, and return it on every rank.

    Collective over the world. Any failure ends the job (see `parallel.job.job`). `started` is time.monotonic() when
    the command began.
    """
    case = loaded.case
    started = time.monotonic() if started is None else started
    with SignalCatcher() as signals, job(case.run.threads, debug) as comm:
        from ridgeline.runtime.console import plain_console
        from ridgeline.runtime.context import Context
        from ridgeline.simulation.case_run import RunCaller, run_case
        from ridgeline.simulation.print_report import print_report

        def show_end(report: dict[str, Any]) -> None:
            text = StringIO()
            print_report(report, plain_console(text, soft_wrap=True), options.verbose)
            log_file.info("%s", text.getvalue())
            if options.json == "-":
                print(json.dumps(report, indent=2, default=str))
            elif not options.quiet:
                screen = sys.stdout if sys.stdout.isatty() else sys.stderr
                print_report(report, plain_console(screen, soft_wrap=True), options.verbose)

        def show(facts: dict[str, Any]) -> None:
            if "model" in facts:
                for warning in loaded.warnings:
                    log.warning("%s", warning)
            text = _header(facts)
            log_file.info("%s", text)
            if not options.quiet:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()

        configure_logging(comm.rank, comm.size, options.verbose, options.quiet)
        context = Context(comm, case.run.device, case.run.threads)
        options = replace(options, resume=options.resume or str(loaded.resume or "never"))
        caller = RunCaller(not options.quiet or PROGRESS_FILE in os.environ, started, signals, show, show_end)
        return run_case(case, create(case.run.model), context, options, caller)


def run_list(path: str) -> None:
    """Run the cases of a list one after the other in this process, so that kernels are loaded only once.

    Collective over the world. `ridgeline sweep` writes the list. The error of a case that fails goes to a file, and
    the other cases still run. A signal ends the current case with a checkpoint, and the list with it.

    Parameters
    ----------
    path
        A JSON list of {"case": settings file, "settings": values of --set, "report": path of the report, "error":
        path of the file that says why the case failed}. All cases run with the threads of the first.
    """
    entries: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))
    first = load_case(entries[0]["case"], case_class, entries[0]["settings"]).case
    with SignalCatcher() as signals, job(first.run.threads) as comm:
        from ridgeline.runtime.context import Context
        from ridgeline.simulation.case_run import RunCaller, run_case
        from ridgeline.simulation.run_options import RunOptions

        configure_logging(comm.rank, comm.size, False)
        for entry in entries:
            try:
                case = load_case(entry["case"], case_class, entry["settings"]).case
                caller = RunCaller(progress=False, started=time.monotonic(), signals=signals)
                context = Context(comm, case.run.device, case.run.threads)
                options = RunOptions(json=entry["report"])
                report = run_case(case, create(case.run.model), context, options, caller)
            # All ranks raise together.
            except RidgelineError as problem:
                if comm.rank == 0:
                    text = f"exit code {problem.exit_code}\nerror: {problem}\n"
                    replace_file(Path(entry["error"]), text.encode())
            else:
                if report["run"]["ended"].startswith("SIG"):
                    return


def _header(facts: dict[str, Any]) -> str:
    """Return what runs and where, before anything is compiled; and the decomposition, once it is known."""
    lines = []
    if "model" in facts:
        used = facts["ranks_on_node"] * facts["threads"]
        steps, end = facts["steps"], facts["end_time"]
        limits = [] if steps is None else [f"{steps} steps"]
        limits += [] if end is None else [f"until {facts['time_name']} {end:g}"]
        length = " or ".join(limits)
        lines += [
            f"ridgeline: {facts['model']}, grid {facts['grid']}, {facts['precision']}, {length}",
            f"{counted(facts['ranks'], 'rank')} x {counted(facts['threads'], 'thread')} on {facts['device']}, "
            f"using {used} of the {facts['cores']} cores here",
        ]
        if used < facts["cores"]:
            lines[-1] += f"; -n {facts['cores'] // facts['threads']} would use them all"
        lines += facts["remarks"]
    lines += [
        f"{key.replace('_', ' ')}: {facts[key]}"
        for key in ("process_grid", "block", "method")
        if key in facts
    ]
    return "\n".join(lines)


def compile_case(loaded: LoadedCase) -> float:
    """Compile every kernel of a case into the cache; print the seconds that it took, and return them."""
    case = loaded.case
    with job(case.run.threads) as comm:
        from ridgeline.jit.kernel_folders import kernel_folder, shared_folder
        from ridgeline.parallel.communicator import compile_on_nodes
        from ridgeline.runtime.context import Context
        from ridgeline.simulation.limits import measure_limits

        configure_logging(comm.rank, comm.size)
        begin = time.perf_counter()
        model: Model = create(case.run.model)
        context = Context(comm, case.run.device, case.run.threads)
        model.setup(case, context)
        compile_on_nodes(comm, model.compile)
        # A run also compiles the kernels of its initial state, diagnostics and summary, and those of the limits.
        model.initialize()
        model.diagnostics()
        model.summary()
        measure_limits(context, fresh=True)
        seconds = time.perf_counter() - begin
        if comm.rank == 0:
            shared, unused = shared_folder()
            places = " or ".join(dict.fromkeys(map(str, [*([] if unused else [shared]), kernel_folder()])))
            sys.stderr.write(f"kernels of {case.run.model} are in {places} ({seconds:.1f} s)\n")
    return seconds
