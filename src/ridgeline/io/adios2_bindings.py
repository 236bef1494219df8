"""ADIOS2's Python bindings: their capabilities and their errors. This is the only file that imports adios2."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ridgeline.runtime.environment import give_home
from ridgeline.runtime.errors import OutputError, full_stop, sentence
from ridgeline.runtime.extras import import_extra

# Lossless compressions, all by ADIOS2's operator OPERATOR, with settings chosen by ratio and speed on fields with and
# without noise. bzip2 is not offered: ADIOS2's operator fails on a block that does not shrink, in the middle of a
# run.
OPERATOR = "blosc"
COMPRESSIONS: dict[str, dict[str, str]] = {
    "blosc": {"compressor": "zstd", "clevel": "1", "doshuffle": "BLOSC_SHUFFLE", "nthreads": "1"},
    "lz4": {"compressor": "lz4", "clevel": "1", "doshuffle": "BLOSC_SHUFFLE", "nthreads": "1"},
}


@dataclass(frozen=True)
class Facts:
    """Version and capabilities of the installed ADIOS2."""

    version: str
    with_mpi: bool
    compressions: tuple[str, ...]


def adios2_facts() -> Facts:
    """Return the capabilities of the installed ADIOS2. Raises OutputError if it is not installed."""
    bindings = load_bindings()
    adios = bindings.ADIOS()
    compressions = ["none"]
    with contextlib.suppress(ValueError, RuntimeError):
        adios.DefineOperator(OPERATOR, OPERATOR, {})
        compressions += COMPRESSIONS
    return Facts(str(bindings.__version__), bool(bindings.is_built_with_mpi), tuple(compressions))


def load_bindings() -> Any:
    """Import ADIOS2's bindings, only when they are used: the import takes time, and most commands do not need it."""
    give_home()
    return import_extra("adios2.bindings", "a BP5 data set", error=OutputError)


@contextlib.contextmanager
def adios2_errors(doing: str, hint: str) -> Iterator[None]:
    """Turn an exception of ADIOS2 into an OutputError of one line: "cannot {doing}: reason. {hint}."."""
    try:
        yield
    except OutputError:
        raise
    except Exception as error:  # the bindings map C++ exceptions to several types
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        text = re.sub(r"^\s*\[.*?\]\s*\[ADIOS2 EXCEPTION\](\s*<[^>]*>)*\s*:?\s*", "", text).strip()
        text = text.splitlines()[0].removesuffix(": iostream error") if text else type(error).__name__
        raise OutputError(f"cannot {doing}: {full_stop(text)} {sentence(hint)}") from error
