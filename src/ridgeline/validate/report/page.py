"""The page of a validation: what goes into the template `page.html`, which Jinja fills and escapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ridgeline.io.previous import GENERATOR
from ridgeline.runtime.units import counted, number
from ridgeline.validate.judge.busy import ADVICE
from ridgeline.validate.judge.counter_screening import grown_on
from ridgeline.validate.judge.suspects import percent
from ridgeline.validate.judge.verdict import HEALTHY, SUSPECTS, Verdict
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.report.charts import quantity_charts

# ROWS: the most rows of a table; OPEN_ROWS: suspects that are not folded; ADVISED: the most names beside an advice.
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
    word, state = _STATES.get(verdict.exit_code, ("could not measure", "unmeasured"))
    return environment.get_template("page.html").render(
        measured=measurements,
        verdict=verdict,
        word=word,
        state=state,
        facts=_facts(measurements),
        plan=_plan(measurements.settings),
        advised=_advised(verdict),
        charts=quantity_charts(measurements, verdict),
        counters=_counters(measurements),
        nodes=sorted(verdict.nodes, key=lambda node: (node.use, node.verdict != "suspect")),
    )


def _facts(measurements: Measurements) -> list[str]:
    """Return what the head says of the machine."""
    facts = [counted(len(measurements.nodes), "node"), counted(len(measurements.node_of_rank), "rank")]
    if measurements.groups:
        facts.append(counted(len(measurements.groups), "group"))
    facts += [measurements.created] if measurements.created else []
    return facts + [
        f"{_words(key)}: {_value(value)}" for key, value in measurements.machine.items() if _says(value)
    ]


def _plan(settings: Mapping[str, Any]) -> list[str]:
    """Return what the head says of how the machine was measured."""
    return [
        _words(key) if value is True else f"{_words(key)} {_value(value)}"
        for key, value in settings.items()
        if _says(value)
    ]


def _says(value: Any) -> bool:
    """Whether a setting is worth a word: nothing, an empty list and what is switched off are not."""
    return value is not None and value is not False and value not in ("", [], (), {})


def _words(key: str) -> str:
    return key.replace("_", " ")


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _advised(verdict: Verdict) -> dict[str, list[str]]:
    """Return every advice once, with the parts that it is for."""
    parts: dict[str, list[str]] = {}
    for suspect in verdict.suspects:
        for advice in suspect.advice:
            parts.setdefault(advice, []).append(f"{suspect.kind} {suspect.name}".rstrip())
    return parts


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _counters(measurements: Measurements) -> list[tuple[str, str, str, str]]:
    """Return name, sum before, sum after, and where it rose, of each counter; those that rose first."""
    rows = [
        (name, _sum(values["before"]), _sum(values["after"]), _risen(values, measurements.nodes))
        for name, values in measurements.counters.items()
    ]
    return sorted(rows, key=lambda row: not row[3])


def _sum(values: Sequence[float | None]) -> str:
    """Return the sum of one counter over the nodes that have it."""
    return f"{sum(value or 0 for value in values):g}"


def _risen(values: Mapping[str, Any], nodes: Sequence[str]) -> str:
    """Name the nodes on which a counter rose, most first, eight of them."""
    risen = sorted(((by, node) for node, by in grown_on(values) if by > 0), key=lambda item: -item[0])
    text = ", ".join(f"{nodes[node]} +{by:g}" for by, node in risen[:8])
    return text + (f" and {len(risen) - 8} more" if len(risen) > 8 else "")
