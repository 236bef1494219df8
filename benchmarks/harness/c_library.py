"""Compile a C file of benchmarks/c on the spot and load it."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "c"
FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


class CUnavailable(Exception):
    """The C peer cannot run here; the message says why (no compiler, no AVX-512)."""


@cache
def load(name: str, *extra_flags: str) -> ctypes.CDLL:
    """Return benchmarks/c/NAME.c compiled by `gcc -O3 -march=native -fopenmp` with extra_flags.

    Raises CUnavailable with the compiler's first error.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        raise CUnavailable("not run: there is no gcc on this machine")
    with tempfile.TemporaryDirectory(prefix="ridgeline-c-") as folder:
        library = Path(folder) / f"{name}.so"
        command = [compiler, *FLAGS, *extra_flags, str(FOLDER / f"{name}.c"), "-o", str(library)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            errors = [line for line in result.stderr.splitlines() if "error" in line] or [result.stderr]
            raise CUnavailable(f"not run: {errors[0].split('error:')[-1].strip()}")
        return ctypes.CDLL(str(library))


def compiler_version() -> str:
    """Return the first line of `gcc --version`, or 'none'."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return "none"
    return subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
