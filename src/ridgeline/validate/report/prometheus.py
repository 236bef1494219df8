"""A textfile for Prometheus's node exporter: verdict, figures, and growth of counters of each node."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ridgeline.runtime.files import output_errors, replace_file
from ridgeline.validate.judge.counter_screening import grown_on
from ridgeline.validate.judge.history import make_entry
from ridgeline.validate.judge.part_screening import parts_as_nodes
from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.measurements import Measurements

_STATES = ("healthy", "suspect", "busy", "not measured")


def write_textfile(measurements: Measurements, verdict: Verdict, path: str | Path) -> None:
    """Replace the file, whole or not at all, as the exporter may read it at any time. Raises OutputError."""
    with output_errors(f"write {path}"):
        replace_file(Path(path), "".join(_lines(measurements, verdict)).encode())
        Path(path).chmod(0o644)  # the exporter is another user


def _lines(measurements: Measurements, verdict: Verdict) -> Iterator[str]:
    yield from _head("exit_code", "Exit code: 0 healthy, 1 suspects, 2 could not measure.")
    yield _sample("exit_code", {}, verdict.exit_code)
    yield from _head("finished_timestamp_seconds", "When the validation ended, in seconds since 1970.")
    yield _sample("finished_timestamp_seconds", {}, round(time.time()))
    yield from _head("node_state", "1 for the state that the node is in.")
    for node in verdict.nodes:
        for state in _STATES:
            yield _sample("node_state", {"node": node.name, "state": state}, int(node.verdict == state))
    yield from _head("node_warnings", "Number of warnings of the node.")
    for node in verdict.nodes:
        count = sum(warning.name == node.name for warning in verdict.warnings)
        yield _sample("node_warnings", {"node": node.name}, count)
    units = {quantity.name: quantity.unit for quantity in measurements.node_quantities}
    units |= {quantity.name: quantity.unit for quantity, _ in parts_as_nodes(measurements)}
    yield from _head("node_quantity", "What was measured of the node, in SI units.")
    for quantity, values in make_entry(measurements, verdict)["values"].items():
        for name, value in values.items():
            labels = {"node": name, "quantity": quantity, "unit": units[quantity]}
            yield _sample("node_quantity", labels, value)
    yield from _head("node_counter_growth", "Growth of an error counter of the node.")
    for counter, counts in measurements.counters.items():
        for node_number, by in grown_on(counts):
            yield _sample(
                "node_counter_growth", {"node": measurements.nodes[node_number], "counter": counter}, by
            )


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP ridgeline_validate_{name} {text}\n"
    yield f"# TYPE ridgeline_validate_{name} gauge\n"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"ridgeline_validate_{name}{f'{{{inside}}}' if inside else ''} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
