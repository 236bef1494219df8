"""What would run: `ridgeline check`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ridgeline.models import estimate
from ridgeline.models.memory_check import MemoryCapacity, shortage
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.console import plain_console
from ridgeline.runtime.device_errors import explained
from ridgeline.runtime.devices import (
    choose_device,
    describe_devices,
    device_shortage,
    free_memory,
    simulated,
)
from ridgeline.runtime.errors import ConfigError, DeviceError
from ridgeline.runtime.machine import cores_available, oversubscription
from ridgeline.runtime.units import number
from ridgeline.simulation.paths import check_paths, existing

if TYPE_CHECKING:
    from ridgeline.config.case import AnyCase
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
    problem = shortage(case, plan, n_ranks, MemoryCapacity.here(n_ranks))
    if problem is not None:
        refused = " and refuses it" if case.run.check_memory else ""
        warnings.append(
            f"if all ranks are on this machine, a run finds too little memory{refused}: {problem}"
        )
    warnings += _problems_on_devices(case, plan, n_ranks)
    free = _free_space(Path(case.output.path))
    if free is not None and plan.output_bytes > free:
        warnings.append(
            f"the data set will have {number(plan.output_bytes, 'B')}, but {number(free, 'B')} are free on its disk"
        )
    return plan, warnings


def _problems_on_devices(case: AnyCase, plan: Estimate, n_ranks: int) -> list[str]:
    """Say what keeps a case from running on the GPUs of this machine, if it asks for them."""
    if case.run.device == "cpu":
        return []
    found = []
    try:
        devices = describe_devices()
        if simulated():
            return []
        for device in devices[:n_ranks]:
            sharing = len(range(device.index, n_ranks, len(devices)))
            needed = sum(plan.device_memory.values())
            problem = device_shortage(
                choose_device(device.index, devices),
                plan.device_memory,
                free_memory(device),
                [needed] * (sharing - 1),
            )
            if problem is not None:
                found.append(f"if all ranks are on this machine, a run refuses GPU {device.index}: {problem}")
            elif sharing > 1:
                found.append(f"if all ranks are on this machine, {sharing} of them share GPU {device.index}")
    except DeviceError as error:
        found.append(f"a run on this machine ends at once: {error}")
    return found


def _bandwidth(case: AnyCase, workers: int) -> tuple[str, float] | None:
    """Measure the memory bandwidth that bounds a step here; return its name and B/s, None if it cannot be had."""
    if case.run.device == "cpu":
        from ridgeline.limits.stream import measure_stream

        try:
            return "this machine's memory bandwidth", measure_stream(None, workers).best
        except (
            ConfigError,
            MemoryError,
        ):  # too few threads or too little memory here say nothing against the case
            return None
    if simulated():
        return None
    try:
        describe_devices()
        with explained():
            from ridgeline.limits.limits_cuda import measure_device_copy

            return "the copy bandwidth of this machine's GPU", measure_device_copy()
    except DeviceError:  # of which the warnings tell
        return None


def predict(loaded: LoadedCase, n_ranks: int) -> dict[str, Any]:
    """Return decomposition, memory, output size and predicted time of a case on n_ranks ranks of this node.

    The time is the least memory traffic over a STREAM rate, measured now on as many threads as the ranks of this
    machine would use. For a run on many nodes it holds per node. On GPUs it is over the copy rate of one for each
    rank, and None where this machine has none.
    """
    case = loaded.case
    workers = min(cores_available(), n_ranks * case.run.threads)
    prepare_rank(workers)
    plan, warnings = plan_case(loaded, n_ranks)
    limit = _bandwidth(case, workers)
    # The rate of a GPU is of one rank, STREAM's of the node.
    devices = n_ranks if case.run.device == "cuda" else 1
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
        "remarks": [*case.remarks(), *plan.remarks],
        "device_memory": dict(plan.device_memory),
        "limit": limit,
        "least_seconds": limit and case.run.steps * plan.work.bytes_memory / (devices * limit[1]),
        "warnings": warnings,
        "refusals": plan.refusals,
    }


def refuse(case: AnyCase, plan: dict[str, Any]) -> None:
    """Raise what ends a run before or at its first step because of its settings and paths, wherever it is run."""
    check_paths(case)
    case.check_files()
    if plan["refusals"]:
        raise ConfigError("; ".join(plan["refusals"]))


def _free_space(path: Path) -> int | None:
    """Return the bytes that are free where a path is or would be, None where this user may not look."""
    try:
        return shutil.disk_usage(existing(path)).free
    except OSError:
        return None


def print_prediction(plan: dict[str, Any]) -> None:
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
    on_device = plan["device_memory"]
    if on_device:
        sum_ = " + ".join(f"{name} {number(size, 'B')}" for name, size in on_device.items())
        table.add_row("GPU memory", f"{number(sum(on_device.values()), 'B')} per rank: {sum_}")
    table.add_row("data set", f"{number(plan['output_bytes'], 'B')} in {plan['outputs']} outputs")
    table.add_row("checkpoint", f"{number(plan['checkpoint_bytes'], 'B')} before compression")
    sent, messages = number(plan["bytes_exchanged_per_step"], "B"), plan["messages_per_step"]
    table.add_row("exchange", f"{sent} in {messages:.4g} messages per step" if messages else "none")
    if plan["limit"] is not None:
        name, rate = plan["limit"]
        table.add_row(
            "predicted time",
            f"at least {plan['least_seconds']:.3g} s of steps, at {name} ({number(rate, 'B/s')}), output not counted",
        )
    console = plain_console()
    console.print(table)
    for remark in plan["remarks"]:
        console.print(remark, soft_wrap=True)
    for warning in plan["warnings"]:
        console.print(f"warning: {warning}", soft_wrap=True)
