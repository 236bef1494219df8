"""Numbers with their units, as people read and write them."""

from __future__ import annotations

import math

_TIMES = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"))
_PREFIXES = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E"))
_WORDS = ((1.0, ""), (1e3, "thousand "), (1e6, "million "), (1e9, "billion "), (1e12, "trillion "))
_SYMBOLS = {"B", "FLOP"}  # units that take a prefix, alone or before "/"
# Units of counted things have no symbol that takes a prefix: nobody writes "10.5 G1/s".
_COUNTED = {"1/s": "per second", "operations/s": "operations/s", "messages/s": "messages/s"}


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """Return (divisor, unit with prefix) for numbers of about this value; unit: "s", "B/s", "1/s", ...

    Times are in ns to s. Bytes and FLOP have a decimal prefix, counted things a word such as "million messages/s",
    and other units nothing. Zero is written in the unit itself.
    """
    steps: tuple[tuple[float, str], ...]
    if unit == "s":
        steps = _TIMES
    elif unit in ("", "1"):
        return 1.0, ""
    elif unit in _COUNTED:
        steps = tuple((scale, word + _COUNTED[unit]) for scale, word in _WORDS)
    elif unit.partition("/")[0] in _SYMBOLS:
        steps = tuple((scale, prefix + unit) for scale, prefix in _PREFIXES)
    else:
        return 1.0, unit
    if value == 0 or not math.isfinite(value):
        return 1.0, next(name for scale, name in steps if scale == 1.0)
    return next((step for step in reversed(steps) if abs(value) >= step[0]), steps[0])


def number(value: float, unit: str) -> str:
    """Write a number with its unit and a prefix: 2.31e10 "B/s" as 23.1 GB/s, 3.2e-6 "s" as 3.2 us."""
    scale, name = scale_of(value, unit)
    return f"{value / scale:.4g} {name}".rstrip()


_BINARY = ((2.0**10, "Ki"), (2.0**20, "Mi"), (2.0**30, "Gi"), (2.0**40, "Ti"), (2.0**50, "Pi"))


def units_of(unit: str) -> dict[str, float]:
    """Return every way to write a unit, with the factor that converts it to `unit` itself.

    "s" is also written in ns to ms. Bytes and FLOP are also written with a decimal prefix, and bytes with a binary
    one. Other units, such as "" for pure numbers, are written as they are.
    """
    if unit == "s":
        return {name: scale for scale, name in _TIMES}
    symbol = unit.partition("/")[0]
    if symbol not in _SYMBOLS:
        return {unit: 1.0}
    prefixes = _PREFIXES + (_BINARY if symbol == "B" else ())
    return {prefix + unit: scale for scale, prefix in prefixes}


def in_words(value: object) -> str:
    """Write the value of a setting for tables and names of folders: [4, 4] as 4x4, a single number as itself."""
    return "x".join(map(in_words, value)) if isinstance(value, list | tuple) else str(value)


def counted(count: int, noun: str) -> str:
    """Write a number of things: 1 "rank" as 1 rank, 2 as 2 ranks."""
    return f"{count} {noun}{'s' * (count != 1)}"
