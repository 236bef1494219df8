"""The report of a validation: report.html (one self-contained page), report.json, nodes.good and nodes.bad.

The template `page.html` is filled and escaped by Jinja. Its charts show the distribution of every quantity, and for
pairs of nodes their map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ridgeline.analysis.validation_plots import draw_distribution, draw_pairs
from ridgeline.io.output_files import GENERATOR, check_writable, to_json, write_text
from ridgeline.runtime.files import LastWrites, check_folder
from ridgeline.runtime.units import counted, number, scale_of
from ridgeline.validate.judge.busy_nodes import ADVICE
from ridgeline.validate.judge.counter_screening import grown_on
from ridgeline.validate.judge.pair_screening import LinkCosts, link_costs
from ridgeline.validate.judge.part_screening import part_name
from ridgeline.validate.judge.rail_screening import by_rail, interface_name, rail_name
from ridgeline.validate.judge.statistics import Booleans, Floats, costs, steady
from ridgeline.validate.judge.suspects import OF_NODES, percent
from ridgeline.validate.judge.verdict import HEALTHY, SUSPECTS, Suspect, Verdict, write_hostfile
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, PairQuantity, PartQuantity


def quantity_charts(measurements: Measurements, verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yield (title, SVG) of every quantity that was measured on two parts or more; maps of pairs at the end."""
    for quantity in measurements.node_quantities:
        cost = steady(costs(quantity.values, quantity.higher_is_better))[0]
        there = np.flatnonzero(np.isfinite(cost))
        suspected = {s.nodes[0] for s in _suspects_of(verdict, quantity.name) if s.kind == "node"}
        suspected |= {
            n for s in _suspects_of(verdict, quantity.name) if s.kind in ("switch", "group") for n in s.nodes
        }
        names = [measurements.nodes[node] for node in there]
        suspect = np.isin(there, list(suspected))
        if there.size > 1:
            yield (
                f"{quantity.name}, {there.size} nodes",
                _distribution(quantity, verdict, cost[there], suspect, names),
            )
    for parts in measurements.part_quantities:
        cost = steady(costs(parts.values, parts.higher_is_better))[0]
        there = np.flatnonzero(np.isfinite(cost))
        names = [
            part_name(
                measurements.nodes[parts.node[row]],
                measurements.gpus.get(int(parts.node[row]), ()),
                (int(parts.number[row]), int(parts.peer[row])),
            )
            for row in there
        ]
        blamed = {s.name for s in _suspects_of(verdict, parts.name)}
        # Pairs of GPUs of one node are compared with nothing, and have no statistics.
        if there.size > 1 and any(summary.name == parts.name for summary in verdict.summaries):
            suspect = np.array([name in blamed for name in names])
            chart = _distribution(parts, verdict, cost[there], suspect, names)
            yield f"{parts.name}, {there.size} GPUs" + " in pairs" * bool((parts.peer >= 0).any()), chart
    for pairs in measurements.pair_quantities:
        for rail, part in by_rail(pairs).items():
            links = link_costs(part)
            if links.cost.size < 2:
                continue
            suspect = _suspect_links(measurements, _suspects_of(verdict, pairs.name), links, rail)
            both = list(zip(links.first.tolist(), links.second.tolist()))
            names = [f"{measurements.nodes[a]} - {measurements.nodes[b]}" for a, b in both[:64]]
            chart = _distribution(pairs, verdict, links.cost, suspect, names)
            yield f"{pairs.name}{_on(measurements, pairs, rail)}, {len(both)} links", chart
    for pairs in measurements.pair_quantities:
        for rail, part in by_rail(pairs).items():
            links = link_costs(part)
            if not links.cost.size:
                continue
            extra = np.expm1(links.cost - np.median(links.cost))
            chart = draw_pairs(len(measurements.nodes), links.first, links.second, extra, measurements.nodes)
            yield f"{pairs.name}{_on(measurements, pairs, rail)}, map of pairs", chart


def _on(measurements: Measurements, pairs: PairQuantity, rail: int) -> str:
    """Return which interfaces a chart is of, "" where nodes have one."""
    return f" over {rail_name(measurements.interfaces, rail)}" if len(by_rail(pairs)) > 1 else ""


def _suspect_links(
    measurements: Measurements, suspects: Sequence[Suspect], links: LinkCosts, rail: int
) -> Booleans:
    """Return which links of a rail are suspects, or belong to nodes, groups or interfaces that are."""
    names = measurements.nodes
    whole = np.array([n for s in suspects if s.kind in OF_NODES for n in s.nodes], np.int64)
    found: Booleans = np.isin(links.first, whole) | np.isin(links.second, whole)
    parts = {s.name for s in suspects if s.kind in ("interface", "link", "route")}

    def suspect(a: int, b: int) -> bool:
        ends = [f"{names[n]} {interface_name(measurements.interfaces, n, rail)}" for n in (a, b)]
        return bool({*ends, " - ".join(ends), f"{names[a]} - {names[b]}"} & parts)

    if parts:
        found |= [suspect(a, b) for a, b in zip(links.first.tolist(), links.second.tolist())]
    return found


def _suspects_of(verdict: Verdict, quantity: str) -> list[Suspect]:
    return [s for s in verdict.suspects if quantity in s.quantities]


def _distribution(
    quantity: NodeQuantity | PartQuantity | PairQuantity,
    verdict: Verdict,
    cost: Floats,
    suspect: Booleans,
    names: list[str],
) -> str:
    """Return the chart of costs, as figures with their unit."""
    values = np.exp(-cost if quantity.higher_is_better else cost)
    summary = next(s for s in verdict.summaries if s.name.startswith(quantity.name))
    usual = float(np.median(values[~suspect])) if (~suspect).any() else summary.median
    factor = 1 + summary.cut
    cut = usual / factor if quantity.higher_is_better else usual * factor
    scale, unit = scale_of(usual, quantity.unit)
    label = f"{quantity.name}, {unit}" if unit else quantity.name
    if not math.isfinite(scale):
        scale = 1.0
    return draw_distribution(values / scale, suspect, names, label, usual / scale, cut / scale)


# ROWS: most rows of a table; OPEN_ROWS: suspects that are not folded; ADVISED: most names beside a piece of advice.
_CONSTANTS = {"ROWS": 200, "OPEN_ROWS": 40, "ADVISED": 12, "GENERATOR": GENERATOR, "BUSY_ADVICE": ADVICE}
_STATES = {HEALTHY: ("healthy", "healthy"), SUSPECTS: ("suspects", "suspects")}


def make_page(measurements: Measurements, verdict: Verdict) -> str:
    """Return the whole HTML page."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(_CONSTANTS)
    environment.filters.update(number=number, percent=percent, cell=_cell)
    # Each piece of advice once, with the parts that it is for.
    advised: dict[str, list[str]] = {}
    for suspect in verdict.suspects:
        for advice in suspect.advice:
            advised.setdefault(advice, []).append(f"{suspect.kind} {suspect.name}".rstrip())
    word, state = _STATES.get(verdict.exit_code, ("could not measure", "unmeasured"))
    return environment.get_template("page.html").render(
        measured=measurements,
        verdict=verdict,
        word=word,
        state=state,
        facts=_facts(measurements),
        plan=_plan(measurements.settings),
        advised=advised,
        charts=quantity_charts(measurements, verdict),
        counters=_counters(measurements),
        nodes=sorted(verdict.nodes, key=lambda node: (node.use, node.verdict != "suspect")),
    )


def _facts(measurements: Measurements) -> list[str]:
    """Return what the head says about the machine."""
    facts = [counted(len(measurements.nodes), "node"), counted(len(measurements.node_of_rank), "rank")]
    if measurements.groups:
        facts.append(counted(len(measurements.groups), "group"))
    facts += [measurements.created] if measurements.created else []
    return facts + [
        f"{_words(key)}: {_value(value)}" for key, value in measurements.machine.items() if _says(value)
    ]


def _plan(settings: Mapping[str, Any]) -> list[str]:
    """Return what the head says about how the machine was measured."""
    return [
        _words(key) if value is True else f"{_words(key)} {_value(value)}"
        for key, value in settings.items()
        if _says(value)
    ]


def _says(value: Any) -> bool:
    """Whether a setting is worth mentioning: None, an empty list and what is switched off are not."""
    return value is not None and value is not False and value not in ("", [], (), {})


def _words(key: str) -> str:
    return key.replace("_", " ")


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _counters(measurements: Measurements) -> list[tuple[str, str, str, str]]:
    """Return name, sum before, sum after, and where it grew, of each counter; those that grew first."""
    rows = [
        (name, _sum(values["before"]), _sum(values["after"]), _risen(values, measurements.nodes))
        for name, values in measurements.counters.items()
    ]
    return sorted(rows, key=lambda row: not row[3])


def _sum(values: Sequence[float | None]) -> str:
    """Return the sum of one counter over the nodes that have it."""
    return f"{sum(value or 0 for value in values):g}"


def _risen(values: Mapping[str, Any], nodes: Sequence[str]) -> str:
    """Name the nodes on which a counter grew, most first, eight of them."""
    risen = sorted(((by, node) for node, by in grown_on(values) if by > 0), key=lambda item: -item[0])
    text = ", ".join(f"{nodes[node]} +{by:g}" for by, node in risen[:8])
    return text + (f" and {len(risen) - 8} more" if len(risen) > 8 else "")


def check_report(folder: str | Path) -> Path:
    """Make the folder; raise OutputError if the files of a report cannot be written into it. Returns its path."""
    path = check_folder(folder, "the report", "--report")
    for name in ("report.json", "report.html", "nodes.good", "nodes.bad"):
        check_writable(path / name, "--report")
    return path


def write_report(measurements: Measurements, verdict: Verdict, folder: str | Path) -> Path:
    """Write report.html, report.json (measurements and verdict), nodes.good and nodes.bad; return the page's path.

    Raises OutputError if they cannot be written, when each has been tried.
    """
    path = check_folder(folder, "the report", "--report")
    writes = LastWrites()
    content = measurements.to_dict() | {"verdict": verdict.to_dict()}
    with writes.trying():
        write_text(path / "report.json", to_json(content, indent=None), "--report")
    with writes.trying():
        write_text(path / "report.html", make_page(measurements, verdict), "--report")
    with writes.trying():
        write_hostfile(verdict.good_nodes(), path / "nodes.good")
    with writes.trying():
        write_hostfile([node.name for node in verdict.nodes if not node.use], path / "nodes.bad")
    writes.raise_failures()
    return path / "report.html"
