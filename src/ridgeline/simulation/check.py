"""`ridgeline check`: what a run of a case would need and take here, without running it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ridgeline.config.callbacks import load_callbacks
from ridgeline.config.recorders import load_recorders
from ridgeline.config.user_functions import load_user_function
from ridgeline.models import estimate
from ridgeline.models.earlier_runs import earlier_ratios
from ridgeline.models.memory_check import MemoryCapacity, shortage
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.console import PrintedDict
from ridgeline.runtime.device_errors import device_errors_explained
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
from ridgeline.simulation.output_paths import check_paths, nearest_existing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ridgeline.config.case import AnyCase
    from ridgeline.models.contract import Estimate


def plan_case(case: AnyCase, warnings: Sequence[str], n_ranks: int) -> tuple[Estimate, list[str]]:
    """Return what a case would need on n_ranks ranks of this node, and a sentence for each resource that is short.

    warnings: about its settings, which come first.
    """
    plan = estimate(case, n_ranks)
    warnings = list(warnings)
    crowded = oversubscription(n_ranks, case.run.threads, cores_available())
    if crowded:
        warnings.append(f"if all ranks are on this machine: {crowded}")
    problem = shortage(case, plan, n_ranks, MemoryCapacity.here(n_ranks))
    if problem is not None:
        refused = ", so a run is refused" if case.run.check_memory else ""
        warnings.append(f"if all ranks are on this machine, there is too little memory{refused}: {problem}")
    warnings += _problems_on_devices(case, plan, n_ranks)
    # Where this user may not look, nothing is known.
    with suppress(OSError):
        free = shutil.disk_usage(nearest_existing(Path(case.output.path))).free
        size = plan.output_bytes + sum(part.outputs * part.bytes for part in case.part_sizes())
        viewer = "" if case.output.viewer == "none" else " and the files of output.viewer"
        size *= 2 if viewer else 1
        if size > free:
            warnings.append(
                f"the data set{viewer} will take {number(size, 'B')}, but {number(free, 'B')} are free on its disk."
            )
    return plan, warnings


def _problems_on_devices(case: AnyCase, plan: Estimate, n_ranks: int) -> list[str]:
    """Return a sentence for each reason why a case cannot run on the GPUs of this machine, if it asks for them."""
    if case.run.device == "cpu":
        return []
    problems = []
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
                problems.append(
                    f"if all ranks are on this machine, GPU {device.index} cannot be used: {problem}."
                )
            elif sharing > 1:
                problems.append(
                    f"if all ranks are on this machine, {sharing} of them share GPU {device.index}."
                )
    except DeviceError as error:
        problems.append(f"a run on this machine would end at once: {error}")
    return problems


def _bandwidth(case: AnyCase, workers: int) -> tuple[str, float] | None:
    """Measure the memory bandwidth that bounds a step here; return its name and B/s, or None if it cannot."""
    if case.run.device == "cpu":
        from ridgeline.limits.stream import measure_stream

        try:
            return "this machine's memory bandwidth", measure_stream(None, workers).best
        # Too few threads or too little memory here say nothing against the case.
        except (ConfigError, MemoryError):
            return None
    if simulated():
        return None
    try:
        describe_devices()
        with device_errors_explained():
            from ridgeline.limits.limits_cuda import measure_device_copy

            return "the copy bandwidth of this machine's GPU", measure_device_copy()
    # The warnings describe it.
    except DeviceError:
        return None


def predict(case: AnyCase, warnings: Sequence[str], n_ranks: int) -> CaseCheck:
    """Return decomposition, memory, output size and predicted time of a case on n_ranks ranks of this node.

    The time is the least memory traffic over the STREAM bandwidth, measured now on as many threads as the ranks on
    this machine would use; for a run on many nodes it holds for each node. On GPUs it is the traffic over the copy
    bandwidth of one GPU for each rank, or None where this machine has no GPU.
    """
    workers = min(cores_available(), n_ranks * case.run.threads)
    prepare_rank(workers)
    plan, warnings = plan_case(case, warnings, n_ranks)
    limit = _bandwidth(case, workers)
    # The bandwidth of a GPU belongs to one rank, that of STREAM to the node.
    devices = n_ranks if case.run.device == "cuda" else 1
    return CaseCheck(
        {
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
            "viewer": case.output.viewer,
            "parts": [part._asdict() for part in case.part_sizes()],
            "checkpoint_bytes": plan.checkpoint_bytes,
            "bytes_exchanged_per_step": plan.work.bytes_exchanged,
            "messages_per_step": plan.work.messages,
            "remarks": [*case.time_remarks(), *case.remarks(), *plan.remarks],
            "device_memory": dict(plan.device_memory),
            "limit": limit,
            "earlier": earlier_ratios(case, plan.work.points, "bound"),
            "least_seconds": limit
            and case.planned_steps() * (plan.work.bytes_memory / (devices * limit[1]) + plan.seconds_beside),
            "warnings": warnings,
            "refusals": plan.refusals,
        }
    )


def raise_if_refused(case: AnyCase, plan: dict[str, Any]) -> None:
    """Raise the errors that end a run early because of its settings and paths, whatever the machine."""
    check_paths(case)
    case.check_files()
    load_callbacks(case.callback)
    load_recorders(case.recorder)
    for text in case.user_formulas():
        load_user_function(text).compiled(case.run.precision)
    if plan["refusals"]:
        raise ConfigError(" ".join(plan["refusals"]))


class CaseCheck(PrintedDict):
    """What a run of a case would need and take here: `predict`."""

    def print_on(self, console: Console) -> None:
        """Print the table, and the remarks and warnings below it."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column()
        table.add_column()
        table.add_row("model", f"{self['model']}, {self['precision']}")
        table.add_row("grid", self["size"])
        table.add_row("ranks x threads", f"{self['ranks']} x {self['threads']}")
        table.add_row("process grid", f"{self['process_grid']}, largest block {self['largest_block']}")
        between = self["memory_between_steps"]
        outputs = f", and {number(between, 'B')} for outputs and diagnostics" if between else ""
        table.add_row("memory", f"{number(self['memory_per_rank'], 'B')} per rank{outputs}")
        on_device = self["device_memory"]
        if on_device:
            sum_ = " + ".join(f"{name} {number(size, 'B')}" for name, size in on_device.items())
            table.add_row("GPU memory", f"{number(sum(on_device.values()), 'B')} per rank: {sum_}")
        table.add_row("data set", f"{number(self['output_bytes'], 'B')} in {self['outputs']} outputs")
        if self["viewer"] != "none":
            table.add_row("viewer files", "as much again, and the mesh of elements in every output")
        for part in self["parts"]:
            size = number(part["outputs"] * part["bytes"], "B")
            shape = " x ".join(map(str, part["shape"]))
            words = f"{size} in {part['outputs']} outputs of {shape} points ({part['axes']})"
            table.add_row(f"part {part['name']}", words)
        table.add_row("checkpoint", f"{number(self['checkpoint_bytes'], 'B')} before compression")
        sent, messages = number(self["bytes_exchanged_per_step"], "B"), self["messages_per_step"]
        table.add_row("exchange", f"{sent} in {messages:.4g} messages per step" if messages else "none")
        if self["limit"] is not None:
            name, rate = self["limit"]
            table.add_row(
                "predicted time",
                f"at least {self['least_seconds']:.3g} s for the steps at {name} ({number(rate, 'B/s')}), without "
                "output",
            )
            if (earlier := self["earlier"]) is not None:
                expected = self["least_seconds"] * earlier.middle
                table.add_row("", f"{earlier.words('that')}, so expect about {expected:.3g} s")
        console.print(table)
        for remark in self["remarks"]:
            console.print(remark, soft_wrap=True)
        for warning in self["warnings"]:
            console.print(f"warning: {warning}", soft_wrap=True)
