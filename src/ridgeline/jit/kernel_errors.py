"""Errors in the code of a kernel, in one sentence: which kernel, which file and line, and what Numba says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ridgeline.runtime.errors import KernelError

# Numba's way of saying where it is: the innermost place comes first. It is of no use for its own files.
_PLACE = re.compile(r"During: typing of .*? at (?P<file>.+) \((?P<line>\d+)\)")
_OUTSIDE = "Failed in "  # begins the lines that say in which of its passes Numba is


def compile_or_explain(function: Callable[..., Any], compile: Callable[[Any], Any], signature: Any) -> Any:
    """Compile a kernel for a signature. Raises KernelError for what is wrong with its code or its declaration."""
    try:
        return compile(signature)
    except (TypeError, NameError) as error:
        raise _explained(function, error) from error
    except Exception as error:  # some of Numba's have no other base
        if not any(kind.__module__.endswith("core.errors") for kind in type(error).__mro__):
            raise
        raise _explained(function, error) from error


def _explained(function: Callable[..., Any], error: Exception) -> KernelError:
    text, place = str(error), getattr(error, "loc", None)
    file, line = function.__code__.co_filename, function.__code__.co_firstlineno
    if place is not None:
        file, line = place.filename, place.line
    for found in _PLACE.finditer(text):
        if "site-packages" not in found["file"]:
            file, line = found["file"], int(found["line"])
            break
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_OUTSIDE)]
    reason = lines[0].partition(".. Raised from")[0] if lines else type(error).__name__
    if reason.endswith(":") and len(lines) > 1:
        reason += f" {lines[1].removeprefix('>>> ')}"
    return KernelError(
        f"the kernel {function.__name__} cannot be compiled: {file}:{line}: {reason.rstrip('.')}; correct it there "
        f"(--debug shows all that Numba says)"
    )
