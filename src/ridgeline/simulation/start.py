"""From the command line to a running job: launching ranks, preparing this one, handing over to the loop."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ridgeline.parallel.job import job
from ridgeline.runtime.messages import configure_logging
from ridgeline.runtime.signals import SignalCatcher
from ridgeline.runtime.units import counted

if TYPE_CHECKING:
    from ridgeline.config.load import LoadedCase
    from ridgeline.models.contract import Model
    from ridgeline.simulation.options import RunOptions


def run_on_this_rank(
    loaded: LoadedCase, asked: RunOptions, debug: bool = False, started: float | None = None
) -> dict[str, Any]:
    """Run a loaded case on this rank of however many there are, print the report on rank 0, return it.

    Collective over the world. Any failure ends the job (see `parallel.job.job`).
    """
    case = loaded.case
    started = time.monotonic() if started is None else started
    with SignalCatcher() as caught, job(case.run.threads, debug) as comm:
        from ridgeline.models import create
        from ridgeline.runtime.console import plain_console
        from ridgeline.runtime.context import Context
        from ridgeline.simulation.job import RunCaller, run_case
        from ridgeline.simulation.print_report import print_report

        def show_end(report: dict[str, Any]) -> None:
            if asked.json == "-":
                print(json.dumps(report, indent=2, default=str))
            else:
                screen = sys.stdout if sys.stdout.isatty() else sys.stderr
                print_report(report, plain_console(screen, soft_wrap=True), asked.verbose)

        configure_logging(comm.rank, comm.size, asked.verbose)
        context = Context(comm, case.run.device, case.run.threads)
        options = replace(asked, resume=asked.resume or str(loaded.resume or "never"))
        caller = RunCaller(started=started, caught=caught, show=_print_header, show_end=show_end)
        return run_case(case, create(case.run.model), context, options, caller)


def _print_header(facts: dict[str, Any]) -> None:
    """Say what runs and on what, before anything is compiled; and how it is decomposed, once that is known."""
    lines = []
    if "model" in facts:
        used = facts["ranks_on_node"] * facts["threads"]
        lines += [
            f"ridgeline: {facts['model']}, grid {facts['grid']}, {facts['precision']}, {facts['steps']} steps",
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
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def compile_case(loaded: LoadedCase) -> float:
    """Compile every kernel of a case into the cache, print the time, return it in seconds."""
    case = loaded.case
    with job(case.run.threads) as comm:
        from ridgeline.jit.kernel_cache import kernel_folder
        from ridgeline.models import create
        from ridgeline.parallel.communicator import in_turn_per_node
        from ridgeline.runtime.context import Context
        from ridgeline.simulation.limits import measure_limits

        configure_logging(comm.rank, comm.size)
        begin = time.perf_counter()
        model: Model = create(case.run.model)
        context = Context(comm, case.run.device, case.run.threads)
        model.setup(case, context)
        in_turn_per_node(comm, model.compile)
        # What a run calls beside its steps: initial state, diagnostics, summary, and the measurement of the limits.
        model.initialize()
        model.diagnostics()
        model.summary()
        measure_limits(context, fresh=True)
        seconds = time.perf_counter() - begin
        if comm.rank == 0:
            sys.stderr.write(f"kernels of {case.run.model} are in {kernel_folder()} ({seconds:.1f} s)\n")
    return seconds
