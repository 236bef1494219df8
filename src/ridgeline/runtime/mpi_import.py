"""The one place that decides what `from mpi4py import MPI` brings: an MPI library, or `serial_mpi.py` for one rank.

It also asks for the thread level that Ridgeline needs. Only one thread at a time calls MPI, so that this is
MPI_THREAD_SERIALIZED. mpi4py asks for MPI_THREAD_MULTIPLE otherwise, with which each call takes locks: a barrier of
two ranks of MPICH then takes three times as long. A program that has chosen another level before, and the environment
variable MPI4PY_RC_THREAD_LEVEL, come first.

mpi4py raises RuntimeError where no MPI library loads. `install` puts a finder before Python's own, which lets mpi4py
look for its library first and fills the module `mpi4py.MPI` with the stand-in only if that fails. All other modules
import mpi4py as usual, and know nothing about it. A process that a launcher started as one of several ranks sees one
rank then, which `launcher.check_launch` refuses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAME = "mpi4py.MPI"
THREAD_LEVEL = "serialized"
_wanted = [THREAD_LEVEL]
REASON = "ridgeline_reason"  # name in the stand-in: why no library loads


class _MpiLoader(Loader):
    """Loads mpi4py's module with its own loader, or the stand-in where that fails or `error` says why it cannot."""

    def __init__(self, real: Loader | None, error: Exception | None = None) -> None:
        self._real, self._error = real, error

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        try:
            return self._real.create_module(spec) if self._real else None
        except (ImportError, RuntimeError) as error:
            self._error = error
            return None

    def exec_module(self, module: ModuleType) -> None:
        try:
            if self._real and self._error is None:
                self._real.exec_module(module)
                return
        except (ImportError, RuntimeError) as error:
            self._error = error
        from ridgeline.runtime import serial_mpi

        names = {name: value for name, value in vars(serial_mpi).items() if not name.startswith("__")}
        module.__dict__.update(names, **{REASON: " ".join(str(self._error).split())})


class _MpiFinder(MetaPathFinder):
    """Finds `mpi4py.MPI` as all other finders do, and replaces its loader."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != NAME:
            return None
        options = sys.modules["mpi4py"].rc
        if options.thread_level == "multiple":  # which is mpi4py's own choice
            options.thread_level = _wanted[0]
        try:
            found = (
                finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self
            )
            spec = next((spec for spec in found if spec is not None), None)
        except RuntimeError as error:  # mpi4py looks for the library here
            return ModuleSpec(fullname, _MpiLoader(None, error))
        if spec is not None:
            spec.loader = _MpiLoader(spec.loader)
        return spec


def install() -> None:
    """Let this process run on one rank without an MPI library. Imports nothing; calling it again does nothing."""
    if not any(isinstance(finder, _MpiFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MpiFinder())


def use_thread_level(level: str) -> None:
    """Let MPI start with this thread level, such as "multiple". It has no effect once MPI is imported."""
    _wanted[0] = level


def why_no_library() -> str:
    """Return why no MPI library loads in this process, which imported MPI; "" if one does."""
    return str(getattr(sys.modules.get(NAME), REASON, ""))
