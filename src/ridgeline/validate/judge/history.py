"""Validations over months: a node that became slow, and links and nodes that are suspects again and again.

The history is a file with one line of JSON for each validation, which is also the line for a system log. Only figures
of nodes that were healthy then are compared with: a day that could not be judged is no reference.
"""

from __future__ import annotations

import json
import math
import os
import syslog
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import output_errors, read_regular
from ridgeline.runtime.units import counted, number
from ridgeline.validate.judge.part_screening import part_name, parts_as_nodes
from ridgeline.validate.judge.statistics import costs, figure, steady
from ridgeline.validate.judge.suspects import GPU_SLOW, NODE_SLOW, Suspects, percent
from ridgeline.validate.judge.thresholds import CPU_SHARE, Thresholds
from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity

Entry = dict[str, Any]

FEWEST = 3  # earlier figures that are a reference
_NOISE = 4.0  # robust standard deviations that a drift must exceed
_TO_SIGMA = 1.4826  # from the median absolute deviation of normal noise


def make_entry(measurements: Measurements, verdict: Verdict) -> Entry:
    """Return what the history keeps of a validation: one line of JSON."""
    values: dict[str, dict[str, float]] = {}
    for quantity, _ in _figures(measurements):
        cost = steady(costs(quantity.values, quantity.higher_is_better))[0]
        values[quantity.name] = {
            name: float(f"{figure(one, quantity.higher_is_better):.6g}")
            for name, one in zip(measurements.nodes, cost)
            if math.isfinite(one)
        }
    return {
        "ridgeline": "validate",
        "time": measurements.created,
        "setup": _setup(measurements),
        "job": measurements.settings.get("job"),
        "exit_code": verdict.exit_code,
        "verdict": verdict.sentence,
        "nodes": {node.name: node.verdict for node in verdict.nodes},
        "suspects": [{"kind": s.kind, "name": s.name, "reasons": s.reasons} for s in verdict.suspects],
        "warnings": {warning.name: warning.text for warning in verdict.warnings},
        "late": verdict.late,
        "broken": verdict.broken,
        "values": values,
    }


def _setup(measurements: Measurements) -> Entry:
    """Return what validations must have in common to be compared."""
    phase = measurements.settings.get("phase", "")
    quick = measurements.settings.get("quick", False)
    return {"phase": phase, "quick": quick, "ranks_per_node": measurements.machine.get("ranks_per_node")}


def send_to_syslog(entry: Entry) -> None:
    """Send the entry to the system's log as one line of JSON with the tag `ridgeline`."""
    syslog.openlog("ridgeline", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_WARNING if entry["exit_code"] else syslog.LOG_INFO, _line(entry))
    syslog.closelog()


def _line(entry: Entry) -> str:
    return json.dumps(entry, separators=(",", ":"), default=str)


def append_entry(path: str | Path, entry: Entry) -> None:
    """Add a line to the file, whole even where several nodes write at once. Raises OutputError."""
    line = _line(entry) + "\n"
    with output_errors(f"write {path}"):
        place = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            os.write(place, line.encode())
        finally:
            os.close(place)


def load_history(path: str | Path) -> list[Entry]:
    """Return the entries of the file, none if there is no file yet. Lines that a crash cut are left out.

    Raises ConfigError if no line of the file is an entry, OutputError if it cannot be read.
    """
    if not Path(path).exists():
        return []
    with output_errors(f"read {path}"):
        lines = read_regular(path).splitlines()
    entries = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("ridgeline") == "validate":
            entries.append(entry)
    if lines and not entries:
        raise ConfigError(
            f"--history: {path} holds no validations. Name a file that --history wrote, or a new one."
        )
    return entries


def screen_history(
    measurements: Measurements, history: Sequence[Entry], thresholds: Thresholds, suspects: Suspects
) -> None:
    """Suspect nodes that are slower than they were when they were healthy, or than the fleet for a new node."""
    alike = [entry for entry in history if entry.get("setup") == _setup(measurements)]
    for quantity, place in _figures(measurements):
        if quantity.name == CPU_SHARE:
            continue
        higher = quantity.higher_is_better
        earlier = _healthy_values(alike, quantity.name)
        fleet = [value for values in earlier.values() for value in values]
        now = steady(costs(quantity.values, higher))[0]
        for node, name in enumerate(measurements.nodes):
            own = earlier.get(name, [])
            whose = "its own" if len(own) >= FEWEST else "the fleet's"
            reference = own if len(own) >= FEWEST else fleet
            if len(reference) < FEWEST or not math.isfinite(now[node]):
                continue
            before = costs(np.array(reference), higher)
            middle = float(np.median(before))
            noise = _TO_SIGMA * float(np.median(np.abs(before - middle)))
            lost = float(now[node]) - middle
            if lost < max(math.log1p(thresholds.drift), _NOISE * noise):
                continue
            unit, slowdown = quantity.unit, math.expm1(lost)
            reason = (
                f"{quantity.name}: {number(figure(float(now[node]), higher), unit)} where {whose} history has "
                f"{number(figure(middle, higher), unit)} ({counted(len(reference), 'healthy figure')}), "
                f"{percent(slowdown)} more time"
            )
            if place is None:
                suspects.add("node", [node], reason, NODE_SLOW, quantity=quantity.name, slowdown=slowdown)
                continue
            gpu = part_name(name, measurements.gpus.get(node, ()), place)
            measured = quantity.name.partition(",")[0]
            suspects.add("GPU", [node], reason, GPU_SLOW, name=gpu, quantity=measured, slowdown=slowdown)


def _figures(measurements: Measurements) -> Iterator[tuple[NodeQuantity, tuple[int, int] | None]]:
    """Yield what is kept of the nodes, then of their GPUs with their numbers."""
    yield from ((quantity, None) for quantity in measurements.node_quantities)
    yield from parts_as_nodes(measurements)


def _healthy_values(history: Sequence[Entry], quantity: str) -> dict[str, list[float]]:
    """Return the earlier figures of each node, from the days on which it was healthy."""
    found: dict[str, list[float]] = {}
    for entry in history:
        for name, value in entry.get("values", {}).get(quantity, {}).items():
            if entry.get("nodes", {}).get(name) == "healthy" and value > 0:
                found.setdefault(name, []).append(value)
    return found


def note_repeats(history: Sequence[Entry], verdict: Verdict) -> None:
    """Say how often parts were suspects before: those that are now, and links and parts of nodes that often were."""
    earlier: dict[tuple[str, str], list[str]] = {}
    for entry in history:
        for suspect in entry.get("suspects", []):
            earlier.setdefault((suspect["kind"], suspect["name"]), []).append(str(entry.get("time", ""))[:10])
    now = {(suspect.kind, suspect.name) for suspect in verdict.suspects}
    for (kind, name), days in earlier.items():
        often = f"{kind} {name} was a suspect in {len(days)} of {counted(len(history), 'earlier validation')}"
        since = f"the first on {min(days)}, the last on {max(days)}"
        if (kind, name) in now:
            verdict.notes.append(f"{often} ({since}), and is one again.")
        elif kind in ("link", "fabric link", "route", "interface", "GPU") and len(days) >= FEWEST:
            verdict.notes.append(f"{often} ({since}), but is none now: its fault comes and goes.")
