"""The C that the tasking benchmark compares with: bench/c/tasking.c, compiled on the spot."""

from __future__ import annotations

import os
from ctypes import c_int, c_int64, c_void_p
from typing import Any

from ridgeline.bench.c_library import Library, load_c
from ridgeline.runtime.errors import RidgelineError, VerificationError

NO_OPENMP = -2
_WRONG_DATA = -1
_FUNCTIONS = {
    "create_threads": (c_int, c_int, c_int, c_void_p, c_void_p),
    "switch_threads": (c_int, c_int, c_int, c_void_p),
    "spawn_tasks": (c_int, c_int, c_int, c_int, c_void_p, c_void_p, c_void_p),
    "notify_thread": (c_int, c_int, c_void_p),
    "use_queue": (c_int, c_int, c_int, c_void_p, c_void_p, c_void_p),
    "fill_threads": (c_int, c_void_p, c_int64, c_int, c_int, c_void_p),
    "fill_openmp": (c_int, c_void_p, c_int64, c_int, c_int, c_void_p, c_void_p),
}


def load_tasking() -> tuple[Library | None, str]:
    """Return (the compiled source, how), or (None, why there is none)."""
    return load_c(None, "tasking", _FUNCTIONS)


def need_library(c: Library | None, reason: str) -> str | None:
    """Return what the row of a C baseline says without a compiler, None with one."""
    return None if c is not None else reason


def call(c: Library, name: str, *arguments: Any) -> int:
    """Call a function; return 0, or NO_OPENMP.

    Raises VerificationError if it read other data than it wrote, RidgelineError if the system refused.
    """
    code: int = c[name](*arguments)
    if code == _WRONG_DATA:
        raise VerificationError(f"{name} in C read other data than it wrote: memory or processor is at fault")
    if code > 0:
        raise RidgelineError(f"{name} in C failed: {os.strerror(code)}; allow more threads (ulimit -u)")
    return code
