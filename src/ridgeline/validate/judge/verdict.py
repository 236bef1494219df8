"""What a validation concludes: suspects with reasons and advice, a verdict for every node, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ridgeline.io.output_files import write_text

HEALTHY, SUSPECTS, UNMEASURED = 0, 1, 2  # exit codes


@dataclass
class Suspect:
    """A part of the machine that is slow or wrong.

    kind: what it is: a "link" is between two nodes, a "fabric link" between two switches, and a "route" all that is
    between two nodes, of which it is not known what is slow; name: for people, from the names of hosts, switches and
    groups; nodes: their numbers (both ends of a link or a route, all nodes of a switch or a group, those that were
    measured across a fabric link, none for the system); quantities: what showed it; slowdown: the worst extra time,
    0.1 for 10 % more than the reference, None where the fault is not slowness; reasons: one sentence each; advice:
    what to do; alternatives: other parts that the measurements cannot tell from it.
    """

    kind: Literal["node", "interface", "GPU", "link", "fabric link", "route", "switch", "group", "system"]
    name: str
    nodes: list[int]
    reasons: list[str] = field(default_factory=list)
    quantities: list[str] = field(default_factory=list)
    slowdown: float | None = None
    advice: list[str] = field(default_factory=list)
    alternatives: list[str] = field(default_factory=list)

    @property
    def doubt(self) -> str:
        """Which other parts may be at fault instead, in one sentence; "" if none."""
        if not self.alternatives:
            return ""
        more = f" and {len(self.alternatives) - 8} more" if len(self.alternatives) > 8 else ""
        what = "on the route are" if self.kind == "route" else "the measurements cannot tell it from"
        return f"{what}: {'; '.join(self.alternatives[:8])}{more}"


@dataclass
class NodeVerdict:
    """The verdict on one node. use: whether the next run should have it; reasons: why suspect or left out."""

    name: str
    verdict: Literal["healthy", "suspect", "busy", "not measured"]
    use: bool
    reasons: list[str] = field(default_factory=list)


@dataclass
class BusyNode:
    """A node that cannot be judged because others used it. node: its number; name: its host; quantities: to measure
    again; reasons: how busy it was, and what was therefore not judged.
    """

    node: int
    name: str
    quantities: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """Why there is no verdict."""
        return f"{self.name} is busy: {'; '.join(self.reasons)}"


@dataclass
class Warned:
    """A finding that does not make a node a suspect. node: its number; name: its host; text: what was seen."""

    node: int
    name: str
    text: str


@dataclass
class QuantitySummary:
    """Robust statistics of a quantity over nodes or links, in its unit.

    sigma: noise of one part's figure relative to the median, from the median absolute deviation (MAD) between parts;
    cut: extra time relative to the reference from which a part counts as slow; percentiles: 1, 5, 25, 75, 95, 99.
    """

    name: str
    unit: str
    higher_is_better: bool
    over: Literal["nodes", "links", "GPUs"]
    count: int
    median: float
    mad: float
    percentiles: list[float]
    least: float
    most: float
    sigma: float
    cut: float


@dataclass
class Drift:
    """A change against the baseline. node: its number, None for all; slowdown: extra time, negative if faster; part:
    of the node, whose name `name` then is, "" for all of it.
    """

    quantity: str
    unit: str
    node: int | None
    name: str
    before: float
    now: float
    slowdown: float
    slow: bool
    part: Literal["", "interface", "GPU"] = ""


@dataclass
class Verdict:
    """All conclusions of one validation. unmeasured: sentences on what could not be measured; notes: remarks;
    warnings: of nodes, which change neither the exit code nor the list of nodes to use; busy: nodes that got no
    verdict; late, broken: names of nodes that counted time-outs, and errors of their own hardware or links.
    """

    suspects: list[Suspect] = field(default_factory=list)
    nodes: list[NodeVerdict] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    summaries: list[QuantitySummary] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    busy: list[BusyNode] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 healthy; 1 parts are suspect, also where more could not be measured; 2 could not measure."""
        if self.suspects:
            return SUSPECTS
        return UNMEASURED if self.unmeasured else HEALTHY

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        warned = len({warning.node for warning in self.warnings})
        warnings = f"; {warned} node{'s' * (warned != 1)} with warnings" if warned else ""
        if self.suspects:
            named = ", ".join(f"{s.kind} {s.name}" if s.name else s.kind for s in self.suspects[:6])
            more = f" and {len(self.suspects) - 6} more" if len(self.suspects) > 6 else ""
            return f"{len(self.suspects)} suspect{'s' * (len(self.suspects) != 1)}: {named}{more}{warnings}"
        if self.unmeasured:
            return f"could not measure: {self.unmeasured[0]}"
        return f"healthy: {len(self.nodes)} node{'s' * (len(self.nodes) != 1)}, no suspects{warnings}"

    def good_nodes(self) -> list[str]:
        """Return the names of the nodes that the next run should use."""
        return [node.name for node in self.nodes if node.use]

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return asdict(self) | {
            "exit_code": self.exit_code,
            "sentence": self.sentence,
            "good_nodes": self.good_nodes(),
        }


def write_hostfile(nodes: Sequence[str], path: str | Path) -> None:
    """Write one host name a line, as mpiexec -f, srun -w and PBS read them. Raises OutputError."""
    write_text(path, "".join(f"{name}\n" for name in nodes), "--report")
