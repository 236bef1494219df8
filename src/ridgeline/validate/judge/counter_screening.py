"""What error counters that grew during a validation or a job say about a node: suspect, warning, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ridgeline.runtime.units import counted
from ridgeline.validate.counter_kinds import KINDS, CounterKind, kind_of, total
from ridgeline.validate.judge.suspects import NODE_NETWORK, Suspects
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.timeouts import find_cause
from ridgeline.validate.judge.verdict import Verdict, Warned
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.measure.prolog_readings import VALIDATED

RETRANSMISSIONS = next(kind for kind in KINDS if kind.key == "retransmissions")
# A node that retransmits fewer messages by this factor than every other node may be the receiver of all of them.
FEWER = 4
_NAMED = 4  # counters in a sentence

Grown = dict[int, dict[str, dict[str, int]]]  # node -> key of a kind -> counter -> growth


def screen_counters(
    measurements: Measurements,
    thresholds: Thresholds,
    suspects: Suspects,
    verdict: Verdict,
    history: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Suspect nodes on which a kind of counters grew to its threshold, and warn of others.

    history: earlier validations, among them the epilogs of this job on other nodes, whose time-outs count too.
    """
    kinds = thresholds.kinds
    grown: Grown = {}
    for counter, values in measurements.counters.items():
        kind = kind_of(counter, kinds)
        for node, by in grown_on(values):
            if kind is not None and by > 0:
                grown.setdefault(node, {}).setdefault(kind.key, {})[counter] = by
    warned: list[Warned] = []
    late: dict[int, str] = {}  # node -> sentence on its time-outs
    explained: dict[int, str] = {}  # node -> sentence on errors of its own hardware
    for node, by_kind in sorted(grown.items()):
        for kind in kinds:
            counters = by_kind.get(kind.key, {})
            warn, suspect = thresholds.bounds(kind)
            count = total(kind, counters)
            if not counters or count < min(warn, suspect):
                continue
            period = measurements.counted.get(node, VALIDATED)
            text = _sentence(kind, counters, period, measurements.lines.get(node, {}))
            if kind.explains and node not in explained:
                explained[node] = text
            if count >= suspect:
                suspects.add("node", [node], text, kind.advice)
            elif kind.correlated:
                late[node] = text
            else:
                warned.append(Warned(node, measurements.nodes[node], f"{text}. {kind.advice}"))
    verdict.late, verdict.broken = (
        [measurements.nodes[node] for node in which] for which in (late, explained)
    )
    warned += _screen_timeouts(measurements, late, explained, suspects, history)
    verdict.warnings += warned + _common_receiver(measurements, grown, thresholds)


def _sentence(kind: CounterKind, counters: Mapping[str, int], period: str, lines: Mapping[str, str]) -> str:
    most = sorted(counters.items(), key=lambda item: -item[1])[:_NAMED]
    if most[0][0] in lines:
        name, by = most[0]
        return f"{kind.what} {period}: {counted(by, 'line')}, the first in {lines[name]}"
    more = f" and {len(counters) - _NAMED} more counters" if len(counters) > _NAMED else ""
    return f"{kind.what} {period}: {', '.join(f'{name} +{by}' for name, by in most)}{more}"


def _screen_timeouts(
    measurements: Measurements,
    late: Mapping[int, str],
    explained: Mapping[int, str],
    suspects: Suspects,
    history: Sequence[Mapping[str, Any]],
) -> list[Warned]:
    """Suspect the node whose own errors explain the time-outs of all; warn of the time-outs of the others."""
    here = len(measurements.nodes)
    names, all_late, broken = list(measurements.nodes), set(late), set(explained)
    for entry in _same_job(measurements, history):
        for name in entry.get("nodes", {}):
            if name not in names:
                names.append(name)
        for key, found in (("late", all_late), ("broken", broken)):
            found.update(names.index(name) for name in entry.get(key, ()) if name in names[here:])
    if not all_late or not (late or explained):
        return []
    cause = find_cause(all_late, broken, names, measurements.groups)
    for node in cause.suspects:
        if node < here:
            suspects.add("node", [node], f"{cause.sentence} ({explained[node]})", NODE_NETWORK)
    warned = [
        Warned(node, measurements.nodes[node], f"{text}. {cause.sentence}.") for node, text in late.items()
    ]
    if cause.target is not None and cause.target < here:
        text = f"{cause.sentence}. {NODE_NETWORK}"
        warned.append(Warned(cause.target, measurements.nodes[cause.target], text))
    return warned


def _same_job(measurements: Measurements, history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the epilogs of this job on other nodes."""
    job = measurements.settings.get("job")
    if job is None or measurements.settings.get("phase") != "epilog":
        return []
    return [
        entry
        for entry in history
        if entry.get("job") == job and entry.get("setup", {}).get("phase") == "epilog"
    ]


def _common_receiver(measurements: Measurements, grown: Grown, thresholds: Thresholds) -> list[Warned]:
    """Return a warning of the node to which all others seem to have retransmitted: it hardly retransmitted itself."""
    key, least = RETRANSMISSIONS.key, thresholds.bounds(RETRANSMISSIONS).warn
    again = [sum(grown.get(node, {}).get(key, {}).values()) for node in range(len(measurements.nodes))]
    if len(again) < 3 or max(again) < least:
        return []
    node = again.index(min(again))
    others = min(count for number, count in enumerate(again) if number != node)
    if others < max(FEWER * again[node], 0.1 * least):
        return []
    text = (
        f"every other node retransmitted messages (+{others} or more), but this one hardly any (+{again[node]}): "
        "this node, or the path to it, may lose them"
    )
    return [Warned(node, measurements.nodes[node], text)]


def grown_on(values: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Return (node, growth) of one counter, see `Measurements.counters`."""
    if "grown" in values:
        return ((int(node), int(by)) for node, by in values["grown"].items())
    pairs = zip(values["before"], values["after"])
    return ((node, (after or 0) - (before or 0)) for node, (before, after) in enumerate(pairs))
