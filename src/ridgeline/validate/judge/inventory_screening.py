"""Nodes with other parts than they should have: by the site's file, the baseline, or most of their peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ridgeline.validate.judge.suspects import Suspects
from ridgeline.validate.measure.measurements import Measurements

FEWEST_PEERS = 3  # nodes of which a majority can be told
_LISTED = 4  # differences in a sentence
ADVICE = (
    "Look for the part that is missing or slower than it should be (module, cable, lane, processor), reseat or "
    "replace it, and validate again. If the change was intended, change the site's file or the baseline."
)
_NONE = "missing"


def screen_inventory(
    measurements: Measurements, expected: Mapping[str, str], baseline: Measurements | None, suspects: Suspects
) -> None:
    """Suspect nodes with other parts than expected.

    expected: of every node, by the site's file, of the parts that it names. Other parts are compared with those of
    the same host in the baseline, or else with the majority of the nodes, if there are three or more.
    """
    usual = _majority(measurements)
    for node, inventory in measurements.inventory.items():
        name = measurements.nodes[node]
        stored: Mapping[str, str] = {}
        if baseline is not None and name in baseline.nodes:
            stored = baseline.inventory.get(baseline.nodes.index(name), {})
        for source, parts in (
            ("the site's file has", expected),
            ("the baseline has", {part: value for part, value in stored.items() if part not in expected}),
            ("most nodes have", {} if stored else {p: v for p, v in usual.items() if p not in expected}),
        ):
            wrong = [
                f"{part} is {inventory.get(part, _NONE)}, but {source} {value}"
                for part, value in parts.items()
                if inventory.get(part, _NONE) != value
            ]
            if wrong:
                more = f" and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
                suspects.add("node", [node], f"inventory: {'; '.join(wrong[:_LISTED])}{more}", ADVICE)


def _majority(measurements: Measurements) -> dict[str, str]:
    """Return the value of every part that more than half of the nodes agree on."""
    nodes = list(measurements.inventory.values())
    if len(nodes) < FEWEST_PEERS:
        return {}
    usual = {}
    for part in dict.fromkeys(part for inventory in nodes for part in inventory):
        value, count = Counter(inventory.get(part, _NONE) for inventory in nodes).most_common(1)[0]
        if 2 * count > len(nodes):
            usual[part] = value
    return usual
