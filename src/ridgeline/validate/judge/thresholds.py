"""When a part of a machine counts as slow: the settings of the screening, and their file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.config.check import Origin, check_case, did_you_mean
from ridgeline.config.fields import Checked, Number, setting, toml
from ridgeline.config.load import parse_toml, read_text
from ridgeline.config.machine_file import MachineFile
from ridgeline.config.toml_lines import key_lines, line_of
from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.counter_kinds import KINDS, NEVER, CounterKind
from ridgeline.validate.log_patterns import PATTERNS, LogPattern, log_pattern
from ridgeline.validate.measure.vendor_tools import KNOWN_TOOLS, VendorTool

CPU_SHARE = "cpu_share"  # processor time over wall-clock time of a pure compute loop; judged by its own limit


class ThresholdSection(Checked):
    """The table [thresholds]."""

    slowdown: Number = setting(
        0.10,
        "Slowdown relative to the other parts that must be detected; less than half of it is tolerated.",
        gt=0,
        lt=1,
    )
    z: Number = setting(
        4.0,
        "Smallest distance of a slow part from the others, in robust standard deviations of the noise.",
        gt=0,
    )
    drift: Number = setting(0.10, "Slowdown relative to the baseline that counts as drift.", gt=0, lt=1)
    cpu_share: Number = setting(
        0.9,
        "Smallest share of a processor that a pure compute loop must get; a node with less is busy and not judged.",
        ge=0,
        le=1,
    )
    others_share: Number = setting(
        0.05,
        "Share of a node's processors used by others above which it is busy, and not a suspect if it is slow.",
        ge=0,
        le=1,
    )
    group_share: Number = setting(
        0.75,
        "Share of a group's nodes that must be slow for the group to be a suspect as a whole.",
        gt=0,
        le=1,
    )
    stalls: Number = setting(
        0.2,
        "Share of repeats that must take twice the usual time or more for a node to be a suspect.",
        gt=0,
        le=1,
    )
    machine_share: Number = setting(
        0.5, "Share of the figures of a machine file that a node and the system must reach.", gt=0, le=1
    )


class _File(Checked):
    thresholds: ThresholdSection = ThresholdSection()
    machine_share: Number = setting(
        0.5, "Share of the figures of a machine file that a node and the system must reach.", gt=0, le=1
    )


# Limits that every node and network of this century keeps, where neither the site nor a machine file has one. A node
# alone, or a benchmark of the whole system, could otherwise be as slow as it likes.
FLOORS = {
    "compute": 1e8,
    "slowest core": 0.25,
    "peak": 1e8,
    "stream": 5e8,
    "GPU triad": 1e10,
    "GPU DGEMM": 1e10,
    "GPU DGEMM of our own kernel": 1e9,
    "GPU host to device": 1e8,
    "GPU device to host": 1e8,
    "GPU to GPU": 1e8,
    "on-node latency": 0.1,
    "on-node bandwidth": 1e6,
    **{f"{part} latency": 0.1 for part in ("loopback", "switch", "group")},
    "loopback bandwidth": 1e5,
    **{
        f"{part} {what}": 1e5
        for part in ("switch", "group")
        for what in ("bandwidth", "all-to-all", "bisection")
    },
    "latency": 0.1,
    "bandwidth": 1e5,
    "alltoall bandwidth": 1e5,
    "multi-bandwidth bandwidth": 1e5,
    "multi-latency seconds": 0.1,
    "allreduce seconds": 0.1,
}


class Bounds(NamedTuple):
    """From how many counted events on one node it is warned of, or suspected."""

    warn: float
    suspect: float


class Thresholds(ThresholdSection):
    """All thresholds. limits: name of a quantity -> least rate, or longest time, in SI units; machine_limits: those
    of a machine file; counters: key of a kind
    of counters -> its thresholds, where the site has its own; patterns: that lines of the logs are searched for, the
    site's first; log_files: that the site names; inventory: part of a node -> what it must be;
    tools: of vendors, to be run on each node.
    """

    limits: dict[str, float] = {}  # noqa: RUF012 (pydantic copies it)
    machine_limits: dict[str, float] = {}  # noqa: RUF012
    counters: dict[str, Bounds] = {}  # noqa: RUF012
    patterns: tuple[LogPattern, ...] = PATTERNS
    log_files: tuple[str, ...] = ()
    inventory: dict[str, str] = {}  # noqa: RUF012
    tools: tuple[VendorTool, ...] = ()

    @property
    def kinds(self) -> tuple[CounterKind, ...]:
        """All kinds of counters, those of lines in the logs among them."""
        return (*KINDS, *(pattern.kind for pattern in self.patterns))

    def limit(self, quantity: str) -> float | None:
        """Return the least rate or the longest time of a quantity: the site's, the machine file's, or a floor."""
        return self.limits.get(quantity, self.machine_limits.get(quantity, FLOORS.get(quantity)))

    def bounds(self, kind: CounterKind) -> Bounds:
        """Return the thresholds of a kind of counters."""
        return self.counters.get(kind.key, Bounds(kind.warn, kind.suspect))


def load_thresholds(path: str | Path) -> Thresholds:
    """Read a TOML file with the tables [thresholds] (limits and counters in it), [logs], [inventory] and [tools].

    Raises ConfigError naming file, line, key, value, and what is allowed.
    """
    path = Path(path)
    text = read_text(path)
    document = parse_toml(path, text)
    lines = key_lines(text)

    def place(key: str) -> str:
        line = line_of(lines, key)
        return f"{path}:{line}" if line else str(path)

    table = document.get("thresholds")
    limits: dict[str, float] = {}
    counters: dict[str, Bounds] = {}
    inventory = _inventory(document.pop("inventory", {}), place)
    tools = _tools(document.pop("tools", {}), place)
    patterns, files = _logs(document.pop("logs", {}), place)
    kinds = {kind.key: kind for kind in (*KINDS, *(pattern.kind for pattern in patterns))}
    if isinstance(table, dict):
        limits = _limits(table.pop("limits", {}), place)
        counters = _counters(table.pop("counters", {}), kinds, place)
    checked = check_case(_File, document, lambda key: Origin(key, place(key)))
    return Thresholds(
        **checked.thresholds.model_dump(),
        limits=limits,
        counters=counters,
        patterns=patterns,
        log_files=files,
        inventory=inventory,
        tools=tools,
    )


def _tools(table: Any, place: Any) -> tuple[VendorTool, ...]:
    """Return the tools of the table [tools]: `run` names known ones, and every other key is a site's own command."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place('tools')}: tools is {toml(table)}, but it must be a table.")
    known = {name: tool for name, tool in KNOWN_TOOLS.items() if name not in table}
    chosen = []
    for name in table.get("run", []):
        if name not in known:
            near = did_you_mean(str(name), list(known))
            raise ConfigError(
                f"{place('tools.run')}: tools.run: unknown tool {toml(name)}{near} Known tools: {', '.join(known)}. "
                "Another one is a key of its own: name = [program, argument, ...]."
            )
        chosen.append(known[name])
    for name, command in table.items():
        if name == "run":
            continue
        if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
            key = f"tools.{name}"
            raise ConfigError(
                f"{place(key)}: {key} is {toml(command)}, but it must be a list of texts: program and arguments."
            )
        chosen.append(VendorTool(name, tuple(command)))
    return tuple(chosen)


def _inventory(table: Any, place: Any) -> dict[str, str]:
    """Return the table [inventory], every value a string."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place('inventory')}: inventory is {toml(table)}, but it must be a table.")
    for part, value in table.items():
        if not isinstance(value, str):
            key = f"inventory.{part}"
            raise ConfigError(
                f"{place(key)}: {key} is {toml(value)}, but it must be a string, as in a report."
            )
    return dict(table)


def _limits(table: Any, place: Any) -> dict[str, float]:
    """Return the table [thresholds.limits], every value a positive number."""
    key = "thresholds.limits"
    if not isinstance(table, Mapping):
        raise ConfigError(
            f"{place(key)}: {key} is {toml(table)}, but it must be a table. Write it as [{key}]."
        )
    wrong = [
        f"{place(f'{key}.{name}')}: {key}.{name} is {toml(value)}, but it must be a number above 0, in SI units "
        "(s, B/s, 1/s)."
        for name, value in table.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf")
    ]
    if wrong:
        raise ConfigError("\n".join(wrong))
    return {str(name): float(value) for name, value in table.items()}


def _counters(table: Any, kinds: Mapping[str, CounterKind], place: Any) -> dict[str, Bounds]:
    """Return the table [thresholds.counters]: key of a kind -> {warn, suspect}, each a number above 0 or "never"."""
    section = "thresholds.counters"
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place(section)}: {section} is {toml(table)}, but it must be a table.")
    found, wrong = {}, []
    for key, values in table.items():
        name = f"{section}.{key}"
        if key not in kinds:
            near = did_you_mean(key, list(kinds))
            wrong.append(
                f"{place(name)}: unknown kind of counters {key!r}.{near} Known kinds: {', '.join(kinds)}."
            )
            continue
        numbers = {"warn": kinds[key].warn, "suspect": kinds[key].suspect}
        if not isinstance(values, Mapping) or not set(values) <= set(numbers):
            wrong.append(
                f"{place(name)}: {name} is {toml(values)}, but it must be a table such as "
                "{ warn = 1, suspect = 100 }."
            )
            continue
        for which, value in values.items():
            if value == "never":
                numbers[which] = NEVER
            elif isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                wrong.append(
                    f'{place(name)}: {name}.{which} is {toml(value)}, but it must be a number above 0, or "never".'
                )
            else:
                numbers[which] = float(value)
        found[key] = Bounds(**numbers)
    if wrong:
        raise ConfigError("\n".join(wrong))
    return found


_PATTERN_KEYS = {"key": str, "what": str, "match": str, "advice": str}


def _logs(table: Any, place: Any) -> tuple[tuple[LogPattern, ...], tuple[str, ...]]:
    """Return the patterns and files of the table [logs]: the site's patterns, then ours."""
    if not isinstance(table, Mapping) or not set(table) <= {"files", "pattern"}:
        raise ConfigError(
            f"{place('logs')}: logs is {toml(table)}, but it must be a table with the keys files and pattern."
        )
    files = table.get("files", [])
    if not isinstance(files, list) or not all(
        isinstance(name, str) and name.startswith("/") for name in files
    ):
        raise ConfigError(
            f"{place('logs.files')}: logs.files is {toml(files)}, but it must be a list of absolute paths."
        )
    entries = table.get("pattern", [])
    if not isinstance(entries, list):
        raise ConfigError(
            f"{place('logs.pattern')}: logs.pattern must be tables. Write each as [[logs.pattern]]."
        )
    patterns = []
    for number, entry in enumerate(entries):
        where = f"{place('logs.pattern')}: logs.pattern {number + 1}"
        if not isinstance(entry, Mapping) or not set(entry) <= {*_PATTERN_KEYS, "warn", "suspect"}:
            raise ConfigError(
                f"{where} has unknown keys. Known keys: {', '.join(_PATTERN_KEYS)}, warn, suspect."
            )
        missing = [key for key in _PATTERN_KEYS if not isinstance(entry.get(key), str)]
        if missing:
            raise ConfigError(f"{where} needs {missing[0]}, a string.")
        bounds = [entry.get("warn", 1), entry.get("suspect", "never")]
        for value in bounds:
            if value != "never" and (
                isinstance(value, bool) or not isinstance(value, int | float) or value <= 0
            ):
                raise ConfigError(f'{where}: {toml(value)} is not a number above 0, nor "never".')
        warn, suspect = (NEVER if value == "never" else float(value) for value in bounds)
        try:
            patterns.append(
                log_pattern(entry["key"], entry["what"], entry["match"], warn, suspect, entry["advice"])
            )
        except re.error as error:
            raise ConfigError(f"{where}: match is not a regular expression ({error}).") from None
    return (*patterns, *PATTERNS), tuple(files)


def limits_of_machine(
    machine: MachineFile, share: float, n_nodes: int, ranks_per_node: int
) -> dict[str, float]:
    """Return limits from the figures of a machine file: this share of the rates, and times longer by as much.

    What an all-to-all reaches is taken from the row with the next larger number of nodes, or the largest one. Half of
    the pairs of nodes may need the links between groups: their share of the global bandwidth then bounds them.
    """
    node, network, device = machine.node, machine.network, machine.device
    limits = {}
    if node.memory_bandwidth:
        limits["stream"] = share * node.memory_bandwidth.value
    if node.peak:
        limits["peak"] = share * node.peak.value / ranks_per_node
    if device is not None and device.memory_bandwidth:
        limits["GPU triad"] = share * device.memory_bandwidth.value
    if device is not None and device.peak:
        limits["GPU DGEMM"] = share * device.peak.value
    if n_nodes > 1 and network.latency:
        limits["latency"] = network.latency.value / share
    if n_nodes > 1 and network.allreduce:
        limits["allreduce seconds"] = network.allreduce.value / share
    if n_nodes > 1 and network.injection:
        injection = network.injection.value * n_nodes
        if machine.all_to_all:
            rows = sorted(
                machine.all_to_all,
                key=lambda row: (row.nodes.value < n_nodes, abs(row.nodes.value - n_nodes)),
            )
            nodes = rows[0].nodes.value
            efficiency = min(row.efficiency.value for row in rows if row.nodes.value == nodes)
            limits["alltoall bandwidth"] = share * efficiency * injection
        group, total = network.group_nodes, machine.machine.nodes
        pairs = 0.5 * injection
        if network.global_bandwidth and total and group and n_nodes > group.value:
            pairs = min(pairs, 0.5 * network.global_bandwidth.value * min(n_nodes / total.value, 1.0))
        # Fewer ranks than usual may not fill all interfaces of a node.
        if node.ranks and ranks_per_node >= node.ranks.value:
            limits["multi-bandwidth bandwidth"] = share * pairs
    return limits
