"""What Numba says of a function that it cannot compile, reduced to a place and a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

# Where Numba's messages say the place of an error: the innermost place comes first. Its own files do not count.
_PLACE = re.compile(r"During: typing of .*? at (?P<file>.+) \((?P<line>\d+)\)")
_PASS = "Failed in "  # begins the lines that name the pass of Numba


class Refusal(NamedTuple):
    """Why Numba does not compile a function: the file and line, and a sentence without its full stop."""

    file: str
    line: int
    reason: str


def is_refusal(error: Exception) -> bool:
    """Say whether an exception means that a function cannot be compiled as it is written."""
    return isinstance(error, TypeError | NameError) or any(
        kind.__module__.endswith("core.errors") for kind in type(error).__mro__
    )


def refusal(function: Callable[..., Any], error: Exception) -> Refusal:
    """Return what an exception of Numba's compiler says about a function."""
    text, place = str(error), getattr(error, "loc", None)
    file, line = function.__code__.co_filename, function.__code__.co_firstlineno
    if place is not None:
        file, line = place.filename, place.line
    for match in _PLACE.finditer(text):
        if "site-packages" not in match["file"]:
            file, line = match["file"], int(match["line"])
            break
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_PASS)]
    reason = lines[0].partition(".. Raised from")[0] if lines else type(error).__name__
    if reason.endswith(":") and len(lines) > 1:
        reason += f" {lines[1].removeprefix('>>> ')}"
    return Refusal(file, line, reason.rstrip("."))
