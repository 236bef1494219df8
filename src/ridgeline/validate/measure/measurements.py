"""What a validation measures, before it is judged: plain data, stored as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.output_files import to_json, write_text
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import DAMAGED, output_errors, read_regular
from ridgeline.validate.fabric.fabric import Fabric
from ridgeline.validate.measure.vendor_tools import ToolResult

SCHEMA = 2  # of the stored file; raised when a reader of the last one could not read it
_READABLE = (1, 2)


@dataclass
class NodeQuantity:
    """One number of every node. values: float64 [n_nodes, repeats] in SI units, NaN where not measured."""

    name: str
    unit: str
    higher_is_better: bool
    values: NDArray[np.float64]


@dataclass
class PairQuantity:
    """One number of pairs of nodes. first, second: int64 [n_pairs]; values: float64 [n_pairs, repeats], or NaN.

    rail: int64 [n_pairs], the number on both nodes of the network interface that was measured
    (`Measurements.interfaces`); 0 for all by default.
    """

    name: str
    unit: str
    higher_is_better: bool
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    values: NDArray[np.float64]
    rail: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        """Give each pair the first interface where no interfaces are told apart."""
        if len(self.rail) != len(self.first):
            self.rail = np.zeros(len(self.first), np.int64)

    def rows(self, chosen: NDArray[np.bool_]) -> PairQuantity:
        """Return the chosen pairs alone."""
        return replace(
            self,
            **{name: getattr(self, name)[chosen] for name in ("first", "second", "values", "rail")},
        )


@dataclass
class PartQuantity:
    """One number of parts of nodes, or of pairs of them: GPUs.

    node: int64 [n_parts], of each part; number: int64 [n_parts], its place in `Measurements.gpus`; peer: int64
    [n_parts], the place of the other part of a pair, -1 for none; values: float64 [n_parts, repeats], or NaN.
    """

    name: str
    unit: str
    higher_is_better: bool
    node: NDArray[np.int64]
    number: NDArray[np.int64]
    peer: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass
class Stage:
    """One step of a validation. outcome: "done", "skipped", "hung" or "failed"; detail: why, in one sentence.

    silent: ranks that did not answer when the time limit was over; waiting: rank -> rank that it waited for; died:
    ranks whose processes ended in the middle.
    """

    name: str
    level: str
    seconds: float = 0.0
    outcome: str = "done"
    detail: str = ""
    silent: list[int] = field(default_factory=list)
    waiting: dict[int, int] = field(default_factory=dict)
    died: list[int] = field(default_factory=list)


@dataclass
class Measurements:
    """All of one validation.

    nodes: host names; groups: name -> numbers of its nodes; node_of_rank: [n_ranks]; system: benchmarks of the whole
    system as `bench.result.Result.to_dict` gives them; errors: node -> what was found wrong there (memory, computed
    or received data), which no statistics excuse; counters: name -> {"before", "after"} by node; machine: what a
    baseline must have in common with a later run. others: quantity, or benchmark of the whole system -> node -> share
    of its processors that others used in the stage. It is the least of all times that it was measured. no_room: node
    -> why it could not be measured with what others left it; counted: node -> the period that its counters are
    compared over, if it is not this validation; remarks: on the comparison of counters; lines: node -> counter of
    lines in the logs -> the first of them; parts: quantity -> node -> its part that the figure is of. worse: quantity
    of pairs -> float64 [n_pairs, measurements times repeats], the repeats of those measurements that another one was
    better than, NaN where there are none: stalls come and go, so all measurements count for them. inventory: node ->
    part -> what it is (`inventory.read_inventory`); interfaces: node -> the network interfaces that pairs are
    measured over, by the number of their rail; gpus: node -> names of its GPUs; part_errors: node -> name of a GPU ->
    what was found wrong there; ranks: interface and GPU of each rank (`parallel.rank_devices`); mpi:
    versions and environment of the MPI library; tools: node -> what each vendor's tool did there, as
    `vendor_tools.ToolResult`; fabric: what joins the nodes, if a topology was given.
    """

    nodes: list[str]
    groups: dict[str, list[int]] = field(default_factory=dict)
    node_of_rank: list[int] = field(default_factory=list)
    node_quantities: list[NodeQuantity] = field(default_factory=list)
    pair_quantities: list[PairQuantity] = field(default_factory=list)
    part_quantities: list[PartQuantity] = field(default_factory=list)
    system: list[dict[str, Any]] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    errors: dict[int, list[str]] = field(default_factory=dict)
    counters: dict[str, dict[str, Any]] = field(default_factory=dict)
    others: dict[str, dict[int, float]] = field(default_factory=dict)
    no_room: dict[int, list[str]] = field(default_factory=dict)
    counted: dict[int, str] = field(default_factory=dict)
    worse: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    lines: dict[int, dict[str, str]] = field(default_factory=dict)
    parts: dict[str, dict[int, str]] = field(default_factory=dict)
    inventory: dict[int, dict[str, str]] = field(default_factory=dict)
    interfaces: dict[int, list[str]] = field(default_factory=dict)
    gpus: dict[int, list[str]] = field(default_factory=dict)
    part_errors: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    ranks: list[dict[str, Any]] = field(default_factory=list)
    mpi: dict[str, Any] = field(default_factory=dict)
    tools: dict[int, list[ToolResult]] = field(default_factory=dict)
    fabric: Fabric | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    created: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON; NaN becomes null."""
        content: dict[str, Any] = _plain(asdict(replace(self, fabric=None)))
        content["fabric"] = None if self.fabric is None else self.fabric.to_dict()
        return {"schema": SCHEMA} | content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Measurements:
        """Return what `to_dict` stored. Raises ConfigError if it is not that."""
        if content.get("schema") not in _READABLE:
            raise ConfigError(
                f"the file has schema {content.get('schema')!r}, but this version reads only the schemas "
                f"{' and '.join(map(str, _READABLE))}."
            )
        try:
            values = {key: value for key, value in content.items() if key in cls.__dataclass_fields__}
            values["node_quantities"] = [
                NodeQuantity(**(q | {"values": _floats(q["values"])})) for q in content["node_quantities"]
            ]
            values["pair_quantities"] = [
                PairQuantity(
                    **q
                    | {"values": _floats(q["values"])}
                    | {key: np.array(q.get(key, []), np.int64) for key in ("first", "second", "rail")}
                )
                for q in content["pair_quantities"]
            ]
            values["part_quantities"] = [
                PartQuantity(
                    **q
                    | {"values": _floats(q["values"])}
                    | {key: np.array(q[key], np.int64) for key in ("node", "number", "peer")}
                )
                for q in content.get("part_quantities", [])
            ]
            values["part_errors"] = {
                int(node): {name: list(texts) for name, texts in parts.items()}
                for node, parts in content.get("part_errors", {}).items()
            }
            values["stages"] = [
                Stage(**(s | {"waiting": {int(a): b for a, b in s["waiting"].items()}}))
                for s in content["stages"]
            ]
            for key in ("errors", "no_room"):
                values[key] = {int(node): list(texts) for node, texts in content.get(key, {}).items()}
            values["counted"] = {int(node): text for node, text in content.get("counted", {}).items()}
            values["parts"] = {
                name: {int(node): str(part) for node, part in nodes.items()}
                for name, nodes in content.get("parts", {}).items()
            }
            values["tools"] = {
                int(node): [ToolResult(**result) for result in results]
                for node, results in content.get("tools", {}).items()
            }
            for key in ("lines", "inventory"):
                values[key] = {int(node): dict(texts) for node, texts in content.get(key, {}).items()}
            for key in ("interfaces", "gpus"):
                values[key] = {int(node): list(names) for node, names in content.get(key, {}).items()}
            values["worse"] = {name: _floats(table) for name, table in content.get("worse", {}).items()}
            values["others"] = {
                name: {int(node): float(share) for node, share in nodes.items()}
                for name, nodes in content.get("others", {}).items()
            }
            fabric = content.get("fabric")
            values["fabric"] = None if fabric is None else Fabric.from_dict(fabric)
            return cls(**values)
        except DAMAGED as error:
            raise ConfigError(
                f"the file does not hold the measurements of a validation ({type(error).__name__} at {error})."
            ) from None


def _plain(value: Any) -> Any:
    """Return value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _floats(values: Any) -> NDArray[np.float64]:
    """Return a table of numbers, null as NaN."""
    rows = [[math.nan if item is None else item for item in row] for row in values]
    return np.array(rows, np.float64).reshape(len(rows), -1)


def save_measurements(measurements: Measurements, path: str | Path) -> None:
    """Write the JSON file. Raises OutputError if it cannot be written."""
    write_text(path, to_json(measurements.to_dict(), indent=1), "--save-baseline")


def load_measurements(path: str | Path) -> Measurements:
    """Read what `save_measurements` wrote. Raises OutputError or ConfigError, naming the file."""
    try:
        with output_errors(f"read {path}"):
            content = json.loads(read_regular(path))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: the file is not JSON ({error}).") from None
    try:
        return Measurements.from_dict(content)
    except (ConfigError, AttributeError) as error:
        raise ConfigError(f"{path}: {error}") from None
