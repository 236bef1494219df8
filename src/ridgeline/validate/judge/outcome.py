"""From measurements to a verdict (`screen`), and how a validation ends (`Outcome`).

The first process that sees the end, rank 0 or the one that started the job, writes one report and one message.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import OutputError, VerificationError
from ridgeline.runtime.files import DAMAGED, replace_file
from ridgeline.runtime.units import number
from ridgeline.validate.fabric.fabric import fabric_of_groups
from ridgeline.validate.judge.baseline import add_drifts, compare_with_baseline
from ridgeline.validate.judge.busy_nodes import find_busy
from ridgeline.validate.judge.congestion_words import congestion_in_words
from ridgeline.validate.judge.counter_screening import screen_counters
from ridgeline.validate.judge.history import (
    Entry,
    append_entry,
    make_entry,
    note_repeats,
    screen_history,
    send_to_syslog,
)
from ridgeline.validate.judge.inventory_screening import screen_inventory
from ridgeline.validate.judge.link_drift import screen_link_drifts
from ridgeline.validate.judge.part_screening import screen_parts
from ridgeline.validate.judge.rail_screening import screen_rails
from ridgeline.validate.judge.statistics import FEW, Floats, costs, figure, screen_costs, steady, summarise
from ridgeline.validate.judge.suspects import (
    LEFT_OUT,
    NODE_SILENT,
    NODE_SLOW,
    NODE_TOOL,
    NODE_WRONG,
    SYSTEM,
    Suspects,
    allowed_in_words,
    percent,
)
from ridgeline.validate.judge.system_screening import screen_simultaneous_pairs, screen_system
from ridgeline.validate.judge.thresholds import CPU_SHARE, Thresholds
from ridgeline.validate.judge.verdict import UNMEASURED, NodeVerdict, Verdict
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, Stage
from ridgeline.validate.report.page import write_report
from ridgeline.validate.report.prometheus import write_textfile
from ridgeline.validate.watchdog import Trouble


def screen(
    measurements: Measurements,
    thresholds: Thresholds | None = None,
    baseline: Measurements | None = None,
    history: Sequence[Entry] = (),
) -> Verdict:
    """Return the suspects, a verdict for every node, and robust statistics of every quantity.

    Suspects are nodes with errors or silent ranks, and slow nodes: by their own figures, or because most of their
    links are slow. Slow links are suspects when other links of both ends are healthy, and groups when their nodes are
    slow as a whole. Figures are compared with the other parts, absolute limits, the baseline, and earlier
    validations. What was slow while others used its processors is not a suspect: it could not be measured. Raises
    ConfigError if the baseline is of another machine.
    """
    thresholds = thresholds or Thresholds()
    busy = find_busy(measurements, thresholds)
    switches = {} if measurements.fabric is None else measurements.fabric.nodes_by_switch()
    suspects = Suspects(measurements.nodes, measurements.groups, switches, busy)
    verdict = Verdict()
    for node, texts in measurements.errors.items():
        for text in texts:
            suspects.add("node", [node], text, NODE_WRONG)
    _screen_stages(measurements, suspects, verdict)
    for quantity in measurements.node_quantities:
        _screen_nodes(quantity, measurements.parts.get(quantity.name, {}), thresholds, suspects, verdict)
    screen_parts(measurements, thresholds, suspects, verdict)
    fabric = measurements.fabric or fabric_of_groups(len(measurements.nodes), measurements.groups)
    for pairs in measurements.pair_quantities:
        worse = measurements.worse.get(pairs.name)
        screen_rails(pairs, worse, fabric, measurements.interfaces, thresholds, suspects, verdict)
    systemwide = screen_system(measurements, thresholds, suspects)
    screen_simultaneous_pairs(measurements, thresholds, suspects)
    verdict.notes += congestion_in_words(measurements.system)
    screen_counters(measurements, thresholds, suspects, verdict, history)
    for node, results in measurements.tools.items():
        for result in results:
            text = f"{result.name} ended with exit code {result.code}: {result.last_line}"
            if result.code is None:
                verdict.notes.append(
                    f"{measurements.nodes[node]}: {result.name} says nothing: {result.last_line}."
                )
            elif result.code:
                suspects.add("node", [node], text, NODE_TOOL)
    screen_inventory(measurements, thresholds.inventory, baseline, suspects)
    verdict.notes += measurements.remarks
    if baseline is not None:
        verdict.drifts = compare_with_baseline(measurements, baseline, thresholds.drift)
        add_drifts(verdict.drifts, suspects)
        screen_link_drifts(measurements, baseline, fabric, thresholds, suspects)
    screen_history(measurements, history, thresholds, suspects)
    suspects.merge_groups(thresholds.group_share)
    suspects.drop_explained_links()
    verdict.suspects = suspects.result()
    verdict.busy = busy.nodes(measurements.nodes, thresholds)
    verdict.nodes = _judge_nodes(measurements, verdict)
    # Nodes whose ranks ended during a stage are left out of the next run, suspect or not: the reason is unknown.
    for stage in measurements.stages:
        for rank in stage.died:
            dead = verdict.nodes[measurements.node_of_rank[rank]]
            dead.use = False
            dead.reasons.append(f"left out because rank {rank} ended during stage {stage.name}")
    for warning in verdict.warnings:
        verdict.nodes[warning.node].reasons.append(f"warning: {warning.text}")
    _note_missing(measurements, thresholds, systemwide, verdict)
    note_repeats(history, verdict)
    return verdict


def _screen_stages(measurements: Measurements, suspects: Suspects, verdict: Verdict) -> None:
    """Suspect the nodes of ranks that fell silent; say which stages could not be measured."""
    for stage in measurements.stages:
        if stage.outcome not in ("hung", "failed"):
            continue
        ranks = f" (silent: rank {', '.join(map(str, stage.silent[:16]))})" if stage.silent else ""
        detail = f": {stage.detail}" if stage.detail else ""
        verdict.unmeasured.append(f"stage {stage.name} {stage.outcome}{ranks}{detail}")
        for rank in stage.silent or _waited_for(stage.waiting):
            node = measurements.node_of_rank[rank] if rank < len(measurements.node_of_rank) else None
            if node is None:
                continue
            waiting = [a for a, b in stage.waiting.items() if b == rank]
            others = f", and rank {', '.join(map(str, waiting[:8]))} waited for it" if waiting else ""
            silent = "did not answer" if rank in stage.silent else "kept others waiting"
            text = f"rank {rank} {silent} in stage {stage.name}{others}"
            # A rank that answers, and is late because others use the node, is not dead.
            if rank in stage.silent or not suspects.busy.excuses("node", [node], 0, stage.name, text):
                suspects.add("node", [node], text, NODE_SILENT)


def _waited_for(waiting: dict[int, int]) -> list[int]:
    """Return the ranks that others wait for and that wait for nobody themselves."""
    return sorted({awaited for awaited in waiting.values() if awaited not in waiting})


def _screen_nodes(
    quantity: NodeQuantity,
    parts: Mapping[int, str],
    thresholds: Thresholds,
    suspects: Suspects,
    verdict: Verdict,
) -> None:
    """Suspect nodes whose own figure is worse than that of the others, or than a limit."""
    cost = costs(quantity.values, quantity.higher_is_better)
    limit = thresholds.limit(quantity.name)
    if quantity.name == CPU_SHARE:
        estimate, noise, holds = _middle(cost), 0.0, np.ones(len(cost), bool)
    else:
        estimate, noise, holds = steady(cost)
    there = np.flatnonzero(np.isfinite(estimate))
    if not there.size:
        return
    known = estimate[there]
    values = np.array([figure(c, quantity.higher_is_better) for c in known])
    distance, reference, sigma, cut = screen_costs(known, noise, there.size < FEW, thresholds)
    if quantity.name == CPU_SHARE:
        # Its limit is absolute, and a node below it is busy, not slow: see `busy_nodes.find_busy`.
        cut = max(float(costs(np.array(max(thresholds.cpu_share, 1e-3)), True)) - reference, 0.0)
        distance = np.full(there.size, -np.inf)
    if there.size >= FEW:
        distance[~holds[there]] = -np.inf
    verdict.summaries.append(
        summarise(quantity.name, quantity.unit, quantity.higher_is_better, "nodes", values, sigma, cut)
    )
    usual = number(figure(reference, quantity.higher_is_better), quantity.unit)
    for index in np.flatnonzero(distance >= cut):
        slowdown = math.expm1(distance[index])
        value = number(values[index], quantity.unit)
        node = int(there[index])
        part = f" ({parts[node]})" if node in parts else ""
        reason = f"{quantity.name}{part}: {value} where {usual} is usual, {percent(slowdown)} more time"
        suspects.add("node", [node], reason, NODE_SLOW, quantity=quantity.name, slowdown=slowdown)
    if limit:
        _screen_limit(quantity, parts, there, known, values, limit, suspects)


def _middle(cost: Floats) -> Floats:
    """Return the median of every part's repeats, NaN where it has none."""
    some = np.isfinite(cost).any(axis=1)
    middle = np.full(len(cost), np.nan)
    middle[some] = np.nanmedian(cost[some], axis=1)
    return middle


def _screen_limit(
    quantity: NodeQuantity,
    parts: Mapping[int, str],
    there: NDArray[np.int64],
    known: Floats,
    values: Floats,
    limit: float,
    suspects: Suspects,
) -> None:
    """Suspect nodes beyond an absolute limit. there: numbers of the nodes whose costs and figures are given."""
    beyond = known - float(costs(np.array(limit), quantity.higher_is_better))
    slow = np.flatnonzero(beyond > 1e-9)
    for index in slow:
        node = [int(there[index])]
        allowed = allowed_in_words(limit, quantity.unit, quantity.higher_is_better)
        part = f" ({parts[node[0]]})" if node[0] in parts else ""
        reason = f"{quantity.name}{part}: {number(values[index], quantity.unit)}, but {allowed}"
        slowdown = math.expm1(beyond[index])
        suspects.add("node", node, reason, NODE_SLOW, quantity=quantity.name, slowdown=slowdown)
    if there.size > 1 and 2 * slow.size > there.size:
        reason = f"{quantity.name}: most nodes are beyond the limit of {number(limit, quantity.unit)}"
        suspects.add("system", [], reason, SYSTEM, quantity=quantity.name)


def _judge_nodes(measurements: Measurements, verdict: Verdict) -> list[NodeVerdict]:
    """Return a verdict for every node. One end of every slow link is left out of the next run, the fewest ends."""
    measured = np.zeros(len(measurements.nodes), bool)
    for quantity in measurements.node_quantities:
        measured |= np.isfinite(quantity.values).any(axis=1)
    for parts in measurements.part_quantities:
        measured[parts.node[np.isfinite(parts.values).any(axis=1)]] = True
    for pairs in measurements.pair_quantities:
        rows = np.isfinite(pairs.values).any(axis=1)
        measured[pairs.first[rows]] = measured[pairs.second[rows]] = True
    nodes = [
        NodeVerdict(name, "healthy", True) if there else NodeVerdict(name, "not measured", False)
        for name, there in zip(measurements.nodes, measured)
    ]
    for busy in verdict.busy:
        nodes[busy.node] = NodeVerdict(busy.name, "busy", False, list(busy.reasons))
    for suspect in verdict.suspects:
        if suspect.kind in LEFT_OUT:
            label = "" if suspect.kind == "node" else f"{suspect.name}: "
            for number_ in suspect.nodes:
                nodes[number_].verdict, nodes[number_].use = "suspect", False
                nodes[number_].reasons += [label + reason for reason in suspect.reasons]
    _leave_out_links([(s.nodes[0], s.nodes[1]) for s in verdict.suspects if s.kind == "link"], nodes)
    return nodes


def _leave_out_links(links: list[tuple[int, int]], nodes: list[NodeVerdict]) -> None:
    """Leave one end of every slow link out of the next run: again and again the node with most of those left."""
    others: dict[int, set[int]] = {}
    for a, b in links:
        others.setdefault(a, set()).add(b)
        others.setdefault(b, set()).add(a)
    while others:
        worst = max(others, key=lambda node: (len(others[node]), node))
        ends = others.pop(worst)
        nodes[worst].use = False
        names = ", ".join(nodes[end].name for end in sorted(ends))
        nodes[worst].reasons.append(f"left out because of its slow link to {names}")
        for end in ends:
            others[end].discard(worst)
            if not others[end]:
                del others[end]


def _note_missing(
    measurements: Measurements, thresholds: Thresholds, systemwide: list[str], verdict: Verdict
) -> None:
    """Say what was not measured, and which limits met no quantity."""
    quantities = [q.name for q in measurements.node_quantities]
    quantities += [q.name for q in measurements.part_quantities]
    quantities += [q.name for q in measurements.pair_quantities]
    verdict.unmeasured += [busy.sentence for busy in verdict.busy]
    if not verdict.summaries and not verdict.suspects and not systemwide:
        verdict.unmeasured.append("no quantity was measured")
    missing = [node.name for node in verdict.nodes if node.verdict == "not measured"]
    if missing and verdict.summaries:
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        verdict.unmeasured.append(f"nothing was measured on {', '.join(missing[:8])}{more}")
    quantities += systemwide
    for name in thresholds.limits:
        if name not in quantities:
            known = ", ".join(quantities) or "none"
            verdict.notes.append(
                f"the limit of {name!r} was not applied, because it was not measured. Measured quantities: {known}."
            )


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
    """Replace the file, whole or not at all; do nothing if its folder is gone."""
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
    shows each that begins; earlier: validations of the history; history, prometheus: files to write;
    syslog: whether the system's log gets a line."""

    measurements: Measurements
    thresholds: Thresholds
    baseline: Measurements | None
    report: str | None
    show: Callable[[Measurements, Verdict], None]
    progress: str | None = None
    processes: list[tuple[str, int]] = field(default_factory=list)
    stages: Phases = field(default_factory=silent)
    earlier: list[Entry] = field(default_factory=list)
    history: str | None = None
    prometheus: str | None = None
    syslog: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _code: int | None = None

    def stage_begins(self, name: str, limit: float) -> None:
        """Record how far the validation came, and show it."""
        self.stages.begin(name)
        write_progress(
            self.progress, SessionProgress(name, limit, None, self.measurements.to_dict(), self.processes)
        )

    def suspects(self, measurements: Measurements) -> dict[str, list[int]]:
        """Return quantity -> numbers of the nodes to measure again: suspects, ends of suspect links, busy nodes."""
        found: dict[str, set[int]] = {}
        verdict = screen(measurements, self.thresholds, self.baseline, self.earlier)
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
            verdict = screen(self.measurements, self.thresholds, self.baseline, self.earlier)
            try:
                if self.report is not None:
                    write_report(self.measurements, verdict, self.report)
                entry = make_entry(self.measurements, verdict)
                if self.history is not None:
                    append_entry(self.history, entry)
                if self.syslog:
                    send_to_syslog(entry)
                if self.prometheus is not None:
                    write_textfile(self.measurements, verdict, self.prometheus)
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
