"""When a part of a machine counts as slow: the settings of the screening, and their file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.config.check import Origin, check_case, did_you_mean
from ridgeline.config.fields import Checked, Number, setting, toml
from ridgeline.config.load import parse_toml, read_text
from ridgeline.config.toml_lines import key_lines, line_of
from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.counter_kinds import KINDS, NEVER, CounterKind

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


class _File(Checked):
    thresholds: ThresholdSection = ThresholdSection()


class Bounds(NamedTuple):
    """From how many counted events on one node it is warned of, or suspected."""

    warn: float
    suspect: float


class Thresholds(ThresholdSection):
    """All thresholds. limits: name of a quantity -> least rate, or longest time, in SI units; counters: key of a kind
    of counters -> its thresholds, where the site has its own.
    """

    limits: dict[str, float] = {}  # noqa: RUF012 (pydantic copies it)
    counters: dict[str, Bounds] = {}  # noqa: RUF012

    def bounds(self, kind: CounterKind) -> Bounds:
        """Return the thresholds of a kind of counters."""
        return self.counters.get(kind.key, Bounds(kind.warn, kind.suspect))


def load_thresholds(path: str | Path) -> Thresholds:
    """Read a TOML file with the table [thresholds] and, inside it, [thresholds.limits] and [thresholds.counters].

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
    if isinstance(table, dict):
        limits = _limits(table.pop("limits", {}), place)
        counters = _counters(table.pop("counters", {}), place)
    checked = check_case(_File, document, lambda key: Origin(key, place(key)))
    return Thresholds(**checked.thresholds.model_dump(), limits=limits, counters=counters)


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


def _counters(table: Any, place: Any) -> dict[str, Bounds]:
    """Return the table [thresholds.counters]: key of a kind -> {warn, suspect}, each a number above 0 or "never"."""
    section = "thresholds.counters"
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place(section)}: {section} is {toml(table)}, but it must be a table.")
    kinds = {kind.key: kind for kind in KINDS}
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
