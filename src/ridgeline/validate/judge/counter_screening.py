"""What error counters that grew during a validation or a job say about a node: suspect, warning, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.validate.judge.suspects import NODE_NETWORK, NODE_WRONG, Suspects
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import Warned
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.measure.prolog_readings import VALIDATED


@dataclass(frozen=True)
class Kind:
    """Counters of one meaning. threshold: the setting, growth on one node of all of them together; advice: for a
    suspect, "" where they only warn; aside: how a warning must not be understood.
    """

    what: str
    threshold: str
    names: re.Pattern[str]
    advice: str = ""
    aside: str = ""


# The sender counts what it could not deliver, which may be the fault of the other end.
SENDER = "this node is the sender, so the receiver or the path to it may be at fault"
SENT_AGAIN = "retransmissions"
# A node that retransmits fewer messages by this factor than every other node may be the receiver of all of them.
FEWER = 4


# The first kind that matches counts. Code words that the link corrected occur on healthy links too and mean nothing.
KINDS = (
    Kind(
        "uncorrected errors",
        "counter_uncorrected",
        re.compile(r"mc\d+/ue_count|.*/aer_dev_fatal"),
        NODE_WRONG,
    ),
    Kind(
        "network time-outs",
        "counter_timeouts",
        re.compile(r"mpich/network_timeouts|cxi.*timeout.*"),
        NODE_NETWORK,
    ),
    # These concern all nodes of a job together, and are no reason to suspect this one.
    Kind(
        "network time-outs of the whole job in Cray MPICH's summary",
        "counter_timeouts",
        re.compile(r"job/network_timeouts"),
    ),
    Kind("corrected memory errors", "counter_corrected", re.compile(r"mc\d+/ce_count")),
    Kind(
        SENT_AGAIN,
        "counter_retransmissions",
        re.compile(r"tcp/(RetransSegs|TCPTimeouts)|cxi.*(retr[iy]|nack).*"),
        aside=SENDER,
    ),
    Kind("packets not sent", "counter_drops", re.compile(r".*/port_xmit_discards"), aside=SENDER),
    Kind(
        "dropped packets",
        "counter_drops",
        re.compile(r".*/[rt]x_dropped|cxi.*(drop|discard).*"),
    ),
    Kind(
        "interface errors",
        "counter_errors",
        re.compile(
            r".*/([rt]x_errors|carrier_down_count|aer_dev_(correctable|nonfatal))|tcp/InErrs"
            r"|.*/port\d+/\w*(error|downed)\w*|cxi.*/\w*(uncor|err|link_down|fatal)\w*"
        ),
    ),
    Kind("thermal throttling", "counter_throttles", re.compile(r"cpu/\w+_throttle_count")),
)


def kind_of(counter: str) -> Kind | None:
    """Return what a counter means, None for those that say nothing about health."""
    return next((kind for kind in KINDS if kind.names.fullmatch(counter)), None)


def screen_counters(measurements: Measurements, thresholds: Thresholds, suspects: Suspects) -> list[Warned]:
    """Suspect nodes whose counters of uncorrected errors or network time-outs grew; return warnings of the others."""
    grown: dict[int, dict[str, dict[str, int]]] = {}
    for counter, values in measurements.counters.items():
        kind = kind_of(counter)
        for node, by in grown_on(values):
            if kind is not None and by > 0:
                grown.setdefault(node, {}).setdefault(kind.what, {})[counter] = by
    warned = []
    for node, by_kind in sorted(grown.items()):
        for kind in KINDS:
            counters = by_kind.get(kind.what, {})
            if not counters or sum(counters.values()) < getattr(thresholds, kind.threshold):
                continue
            most = sorted(counters.items(), key=lambda item: -item[1])[:4]
            more = f" and {len(counters) - 4} more counters" if len(counters) > 4 else ""
            period = measurements.counted.get(node, VALIDATED)
            text = f"{kind.what} {period}: {', '.join(f'{c} +{by}' for c, by in most)}{more}"
            if kind.advice:
                suspects.add("node", [node], text, kind.advice)
            else:
                text += f"; {kind.aside}" if kind.aside else ""
                warned.append(Warned(node, measurements.nodes[node], text))
    return warned + _common_receiver(measurements, grown, thresholds)


def _common_receiver(
    measurements: Measurements, grown: Mapping[int, Mapping[str, Mapping[str, int]]], thresholds: Thresholds
) -> list[Warned]:
    """Return a warning of the node to which all others seem to have retransmitted: it hardly retransmitted itself."""
    again = [sum(grown.get(node, {}).get(SENT_AGAIN, {}).values()) for node in range(len(measurements.nodes))]
    if len(again) < 3 or max(again) < thresholds.counter_retransmissions:
        return []
    node = again.index(min(again))
    others = min(count for number, count in enumerate(again) if number != node)
    if others < max(FEWER * again[node], 0.1 * thresholds.counter_retransmissions):
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
