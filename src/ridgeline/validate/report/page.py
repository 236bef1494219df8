"""The page of a validation: HTML with its style and charts inside, which asks no network for anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ridgeline.io.previous import GENERATOR
from ridgeline.runtime.units import number
from ridgeline.validate.judge.busy import ADVICE
from ridgeline.validate.judge.counter_screening import grown_on
from ridgeline.validate.judge.suspects import percent
from ridgeline.validate.judge.verdict import HEALTHY, SUSPECTS, Suspect, Verdict
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.report.charts import quantity_charts

ROWS = 200  # of a table at most; report.json has all
OPEN_ROWS = 40  # of suspects, the others folded
ADVISED = 12  # names beside an advice

_STYLE = """
:root { color-scheme: light; --ink: #1d2733; --soft: #5b6875; --line: #dde3ea; --pale: #f5f7fa; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color: var(--ink);
  background: var(--pale); }
main { max-width: 1160px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 21px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 10px; }
h3 { font-size: 14px; margin: 0 0 2px; }
section, header { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 18px 20px;
  margin-bottom: 16px; }
header { border-left: 8px solid var(--state); } header p { margin: 6px 0 0; }
.state { display: inline-block; background: var(--state); color: #fff; border-radius: 4px; padding: 1px 9px;
  font-weight: 600; font-size: 13px; letter-spacing: .02em; margin-bottom: 8px; }
.healthy { --state: #2d7d46; } .suspects { --state: #c62f2f; } .unmeasured { --state: #b26a00; }
.facts { color: var(--soft); } .soft { color: var(--soft); font-size: 13px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--soft); font-weight: 600; white-space: nowrap; }
th, td { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td ul { margin: 0; padding-left: 16px; } td:last-child, th:last-child { padding-right: 0; }
.kind { font-weight: 600; color: #c62f2f; } .name { font-weight: 600; white-space: nowrap; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(400px, 1fr)); gap: 18px 26px; }
.charts svg { width: 100%; height: auto; max-height: 640px; } figure { margin: 0; }
summary { cursor: pointer; font-weight: 600; } details > .scroll { margin-top: 10px; }
@media print { body { background: #fff; } section, header { break-inside: avoid; } }
"""


def make_page(measurements: Measurements, verdict: Verdict) -> str:
    """Return the whole HTML page."""
    parts = [
        _header(measurements, verdict),
        _suspects(verdict),
        _warnings(verdict),
        _unmeasured(verdict),
        _drifts(verdict),
        _quantities(measurements, verdict),
        _system(measurements),
        _stages(measurements),
        _counters(measurements),
        _nodes(verdict),
        _method(verdict),
    ]
    title = f"Validation: {escape(_word(verdict))}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="generator" content="{GENERATOR}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _word(verdict: Verdict) -> str:
    return {HEALTHY: "healthy", SUSPECTS: "suspects"}.get(verdict.exit_code, "could not measure")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table of cells that are HTML already; the columns in `numbers` stand at the right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        marked = (
            f'<{tag} class="number">{cell}</{tag}>' if column in numbers else f"<{tag}>{cell}</{tag}>"
            for column, cell in enumerate(cells)
        )
        return f"<tr>{''.join(marked)}</tr>"

    body = "\n".join(line("td", row) for row in rows)
    return f'<div class="scroll"><table><thead>{line("th", heads)}</thead><tbody>{body}</tbody></table></div>'


def _section(title: str, content: str, identity: str) -> str:
    return f'<section id="{identity}"><h2>{title}</h2>{content}</section>\n'


def _limited(count: int, what: str) -> str:
    return (
        f'<p class="soft">The first {ROWS} of {count} {what}; report.json has all.</p>'
        if count > ROWS
        else ""
    )


def _listed(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return escape(texts[0])
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _header(measurements: Measurements, verdict: Verdict) -> str:
    state = {HEALTHY: "healthy", SUSPECTS: "suspects"}.get(verdict.exit_code, "unmeasured")
    nodes, ranks, good = len(measurements.nodes), len(measurements.node_of_rank), len(verdict.good_nodes())
    facts = [f"{nodes} node{'s' * (nodes != 1)}", f"{ranks} rank{'s' * (ranks != 1)}"]
    if measurements.groups:
        facts.append(f"{len(measurements.groups)} group{'s' * (len(measurements.groups) != 1)}")
    facts += [measurements.created] if measurements.created else []
    facts += [
        f"{_words(key)}: {_value(value)}" for key, value in measurements.machine.items() if _says(value)
    ]
    plan = ", ".join(
        _words(key) if value is True else f"{_words(key)} {_value(value)}"
        for key, value in measurements.settings.items()
        if _says(value)
    )
    return (
        f'<header class="{state}"><span class="state">{_word(verdict)}</span><h1>{escape(verdict.sentence)}</h1>'
        f'<p class="facts">{escape(" · ".join(facts))}</p>'
        + (f'<p class="soft">{escape(plan)}</p>' if plan else "")
        + f"<p>{good} of {nodes} nodes are in <b>nodes.good</b> for the next run.</p></header>\n"
    )


def _says(value: Any) -> bool:
    """Whether a setting is worth a word: nothing, an empty list and what is switched off are not."""
    return value is not None and value is not False and value not in ("", [], (), {})


def _words(key: str) -> str:
    return key.replace("_", " ")


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _suspects(verdict: Verdict) -> str:
    if not verdict.suspects:
        return _section("Suspects", "<p>None.</p>", "suspects")

    def row(suspect: Suspect) -> list[str]:
        slow = "" if suspect.slowdown is None else percent(suspect.slowdown)
        kind = f'<span class="kind">{suspect.kind}</span>'
        name = f'<span class="name">{escape(suspect.name or "all of it")}</span>'
        return [kind, name, slow, _listed(suspect.reasons)]

    heads = ["Part", "Name", "Extra time", "Why"]
    rows = [row(suspect) for suspect in verdict.suspects[:ROWS]]
    content = table(heads, rows[:OPEN_ROWS], numbers=[2])
    if len(rows) > OPEN_ROWS:
        more = table(heads, rows[OPEN_ROWS:], numbers=[2])
        content += f"<details><summary>{len(rows) - OPEN_ROWS} more</summary>{more}</details>"
    content += _limited(len(verdict.suspects), "suspects")
    return _section("Suspects", content, "suspects") + _section("What to do", _advice(verdict), "advice")


def _advice(verdict: Verdict) -> str:
    """Return every advice once, with the parts that it is for."""
    parts: dict[str, list[str]] = {}
    for suspect in verdict.suspects:
        for advice in suspect.advice:
            parts.setdefault(advice, []).append(f"{suspect.kind} {suspect.name}".rstrip())
    rows = []
    for advice, names in parts.items():
        more = f" and {len(names) - ADVISED} more" if len(names) > ADVISED else ""
        rows.append([escape(", ".join(names[:ADVISED]) + more), escape(advice[0].upper() + advice[1:]) + "."])
    return table(["For", "Advice"], rows)


def _warnings(verdict: Verdict) -> str:
    if not verdict.warnings:
        return ""
    rows = [[f'<span class="name">{escape(w.name)}</span>', escape(w.text)] for w in verdict.warnings[:ROWS]]
    advice = (
        '<p class="soft">These nodes are no suspects, and stay in nodes.good; watch whether the counters go on '
        "growing.</p>"
    )
    content = table(["Node", "What was seen"], rows) + _limited(len(verdict.warnings), "warnings") + advice
    return _section("Warnings", content, "warnings")


def _unmeasured(verdict: Verdict) -> str:
    if not verdict.unmeasured:
        return ""
    advice = f'<p class="soft">Busy nodes: {escape(ADVICE)}.</p>' if verdict.busy else ""
    return _section("Could not be measured", f"<ul>{_items(verdict.unmeasured)}</ul>{advice}", "unmeasured")


def _items(texts: Sequence[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


def _drifts(verdict: Verdict) -> str:
    if not verdict.drifts:
        return ""
    rows = [
        [
            escape(drift.quantity),
            escape(drift.name) or "all, median",
            number(drift.before, drift.unit),
            number(drift.now, drift.unit),
            f"{100 * drift.slowdown:+.1f} %",
            '<span class="kind">slower</span>' if drift.slow else "",
        ]
        for drift in verdict.drifts[:ROWS]
    ]
    content = table(["Quantity", "Node", "Baseline", "Now", "Extra time", ""], rows, numbers=[2, 3, 4])
    return _section("Against the baseline", content + _limited(len(verdict.drifts), "changes"), "baseline")


def _quantities(measurements: Measurements, verdict: Verdict) -> str:
    if not verdict.summaries:
        return ""
    rows = [
        [
            escape(s.name),
            f"{s.count} {s.over}",
            number(s.median, s.unit),
            number(s.mad, s.unit) if s.count > 1 else "",
            *(number(p, s.unit) for p in (s.least, s.percentiles[0], s.percentiles[-1], s.most)),
            percent(s.sigma) if s.count > 1 else "",
            percent(s.cut) if s.count > 1 else "",
        ]
        for s in verdict.summaries
    ]
    heads = ["Quantity", "Over", "Median", "MAD", "Least", "1 %", "99 %", "Most", "Noise", "Slow from"]
    charts = "".join(
        f"<figure><h3>{escape(title)}</h3>{chart}</figure>"
        for title, chart in quantity_charts(measurements, verdict)
    )
    legend = (
        '<p class="soft">Solid line: what is usual. Dashed: from there a part is slow. Red: suspect in this. '
        "Maps: extra time of each link; empty cells were not measured.</p>"
    )
    return _section("Figures", table(heads, rows, numbers=range(2, 10)), "figures") + _section(
        "Distributions and maps", legend + f'<div class="charts">{charts}</div>', "charts"
    )


def _system(measurements: Measurements) -> str:
    if not measurements.system:
        return ""
    return _section("The whole system", "".join(map(_benchmark, measurements.system)), "system")


def _benchmark(result: dict[str, Any]) -> str:
    columns = result.get("columns", {})
    rows = [[_cell(row.get(key)) for key in columns] for row in result.get("rows", [])[:ROWS]]
    # On the screen figures are scaled; here they are in SI units, so that heads lose their unit.
    content = table([escape(str(key)) for key in columns], rows, numbers=range(len(columns)))
    summary = f"{escape(str(result.get('benchmark', '')))}: {escape(str(result.get('pattern', '')))}"
    formula = f'<p class="soft">{escape(str(result.get("formula", "")))}; SI units (s, B, B/s, 1/s)</p>'
    return f"<details open><summary>{summary}</summary>{content}{formula}</details>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else escape(str(value))


def _stages(measurements: Measurements) -> str:
    if not measurements.stages:
        return ""
    rows = [
        [
            escape(stage.name),
            escape(stage.level),
            f"{stage.seconds:.2f} s",
            _outcome(stage.outcome),
            escape(stage.detail)
            + (f" Silent: rank {', '.join(map(str, stage.silent[:32]))}." if stage.silent else ""),
        ]
        for stage in measurements.stages
    ]
    return _section("Stages", table(["Stage", "Level", "Time", "Outcome", ""], rows, numbers=[2]), "stages")


def _outcome(outcome: str) -> str:
    return outcome if outcome in ("done", "skipped") else f'<span class="kind">{outcome}</span>'


def _counters(measurements: Measurements) -> str:
    if not measurements.counters:
        return ""
    rows = []
    for name, values in measurements.counters.items():
        before, after = values.get("before"), values.get("after")
        rows.append([escape(name), _counted(before), _counted(after), _risen(values, measurements.nodes)])
    rows.sort(key=lambda row: not row[3])
    content = table(["Counter", "Before", "After", "Risen on"], rows[:ROWS], numbers=[1, 2])
    return _section("Counters", content + _limited(len(rows), "counters"), "counters")


def _by_node(values: Any) -> dict[str, float]:
    """Return the numbers of one counter by node, from a list, a dict or one number."""
    if not isinstance(values, dict):
        values = dict(enumerate(values if isinstance(values, list | tuple) else [values]))
    return {str(node): value for node, value in values.items() if isinstance(value, int | float)}


def _counted(values: Any) -> str:
    return f"{sum(_by_node(values).values()):g}"


def _risen(values: Mapping[str, Any], nodes: Sequence[str]) -> str:
    """Name the nodes on which a counter rose, most first, eight of them."""
    risen = sorted(((by, node) for node, by in grown_on(values) if by > 0), key=lambda item: -item[0])
    text = ", ".join(f"{escape(nodes[node])} +{by:g}" for by, node in risen[:8])
    return text + (f" and {len(risen) - 8} more" if len(risen) > 8 else "")


def _nodes(verdict: Verdict) -> str:
    ordered = sorted(verdict.nodes, key=lambda node: (node.use, node.verdict != "suspect"))
    rows = [
        [
            f'<span class="name">{escape(node.name)}</span>',
            f'<span class="kind">{node.verdict}</span>' if node.verdict != "healthy" else "healthy",
            "yes" if node.use else "no",
            _listed(node.reasons) if node.reasons else "",
        ]
        for node in ordered[:ROWS]
    ]
    content = table(["Node", "Verdict", "In nodes.good", "Why"], rows) + _limited(
        len(ordered), "nodes, worst first"
    )
    opened = " open" if len(ordered) <= 32 else ""
    return _section(
        "Nodes", f"<details{opened}><summary>{len(ordered)} nodes</summary>{content}</details>", "nodes"
    )


def _method(verdict: Verdict) -> str:
    text = (
        "A part is compared with the median of all parts (of the better half where they are fewer than eight). It is "
        "slow if it takes so much more time as the table of figures says, which is set by the slowdown asked for and "
        "lies beyond the noise, estimated from the median absolute deviation (MAD) and from repeats. Repeats that "
        "stalled are left out. A node is a suspect if most of its links are slow, the worst first; a link, only when "
        "other links of both its ends are healthy; of a slow link one end is left out of nodes.good."
    )
    notes = f"<ul>{_items(verdict.notes)}</ul>" if verdict.notes else ""
    return _section("How this was judged", f'<p class="soft">{text}</p>{notes}', "method")
