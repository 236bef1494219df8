"""What would run: `ridgeline check`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from ridgeline.models import estimate
from ridgeline.models.memory import Room, shortage
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.errors import RidgelineError
from ridgeline.runtime.threads import cores_available, oversubscription
from ridgeline.runtime.units import number

if TYPE_CHECKING:
    from ridgeline.config.load import LoadedCase
    from ridgeline.models.contract import Estimate


def plan_case(loaded: LoadedCase, n_ranks: int) -> tuple[Estimate, list[str]]:
    """Return what a case would need on n_ranks ranks of this node, and what there is too little of, in sentences."""
    case = loaded.case
    plan = estimate(case, n_ranks)
    warnings = list(loaded.warnings)
    crowded = oversubscription(n_ranks, case.run.threads, cores_available())
    if crowded:
        warnings.append(f"if all ranks are on this machine: {crowded}")
    problem = shortage(case, plan, n_ranks, Room.here(n_ranks))
    if problem is not None:
        refused = " and refuses it" if case.run.check_memory else ""
        warnings.append(
            f"if all ranks are on this machine, a run finds too little memory{refused}: {problem}"
        )
    free = _free_space(Path(case.output.path))
    if plan.output_bytes > free:
        warnings.append(
            f"the data set will have {number(plan.output_bytes, 'B')}, but {number(free, 'B')} are free on its disk"
        )
    return plan, warnings


def predict(loaded: LoadedCase, n_ranks: int) -> dict[str, Any]:
    """Return decomposition, memory, output size and predicted time of a case on n_ranks ranks of this node.

    The time is the least memory traffic over a STREAM rate, measured now on as many threads as the ranks of this
    machine would use. For a run on many nodes it holds per node.
    """
    case = loaded.case
    workers = min(cores_available(), n_ranks * case.run.threads)
    prepare_rank(workers)
    plan, warnings = plan_case(loaded, n_ranks)
    from ridgeline.bench.memory.stream import measure_stream

    limits = measure_stream(None, workers)
    seconds = case.run.steps * plan.work.bytes_memory / limits.best
    return {
        "model": case.run.model,
        "grid": list(case.grid.points()),
        "size": case.grid.words(),
        "precision": case.run.precision,
        "ranks": n_ranks,
        "threads": case.run.threads,
        "process_grid": list(plan.process_grid),
        "largest_block": list(plan.block),
        "memory_per_rank": plan.memory_per_rank,
        "memory_between_steps": plan.memory_between_steps,
        "output_bytes": plan.output_bytes,
        "outputs": plan.outputs,
        "checkpoint_bytes": plan.checkpoint_bytes,
        "bytes_exchanged_per_step": plan.work.bytes_exchanged,
        "messages_per_step": plan.work.messages,
        "remarks": list(plan.remarks),
        "stream": limits.best,
        "least_seconds": seconds,
        "warnings": warnings,
    }


def _free_space(path: Path) -> int:
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError as problem:
        raise RidgelineError(f"cannot look at {path}: {problem.strerror}") from None


def print_prediction(plan: dict[str, Any], console: Console) -> None:
    """Print the prediction for people."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column()
    table.add_row("model", f"{plan['model']}, {plan['precision']}")
    table.add_row("grid", plan["size"])
    table.add_row("ranks x threads", f"{plan['ranks']} x {plan['threads']}")
    table.add_row("process grid", f"{plan['process_grid']}, largest block {plan['largest_block']}")
    between = plan["memory_between_steps"]
    more = f", and {number(between, 'B')} for outputs and figures" if between else ""
    table.add_row("memory", f"{number(plan['memory_per_rank'], 'B')} per rank{more}")
    table.add_row("data set", f"{number(plan['output_bytes'], 'B')} in {plan['outputs']} outputs")
    table.add_row("checkpoint", f"{number(plan['checkpoint_bytes'], 'B')} before compression")
    sent, messages = number(plan["bytes_exchanged_per_step"], "B"), plan["messages_per_step"]
    table.add_row("exchange", f"{sent} in {messages:.4g} messages per step" if messages else "none")
    table.add_row(
        "predicted time",
        f"at least {plan['least_seconds']:.3g} s of steps, at this machine's memory bandwidth "
        f"({number(plan['stream'], 'B/s')}), output not counted",
    )
    console.print(table, highlight=False)
    for remark in plan["remarks"]:
        console.print(remark, highlight=False, soft_wrap=True)
    for warning in plan["warnings"]:
        console.print(f"warning: {warning}", highlight=False, soft_wrap=True)
