"""Ridgeline: PDE simulations at the speed of the hardware, and the machine's limits beside them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ridgeline.runtime import mpi_import
from ridgeline.version import VERSION

__version__ = VERSION
__all__ = [
    "Case",
    "RidgelineError",
    "Run",
    "RunInterrupted",
    "Simulation",
    "__version__",
    "analysis",
    "load_run",
    "open",
    "plot",
    "run",
    "run_bench",
    "run_study",
    "run_sweep",
]

if TYPE_CHECKING:
    from ridgeline import analysis, plot
    from ridgeline.interface.runs import Run, load_run, run
    from ridgeline.interface.studies import run_bench, run_study, run_sweep
    from ridgeline.io.dataset import open
    from ridgeline.runtime.errors import RidgelineError
    from ridgeline.runtime.signals import RunInterrupted
    from ridgeline.simulation.case import Case
    from ridgeline.simulation.simulation import Simulation

mpi_import.install()
_PLACES = {
    "Case": "simulation.case",
    "RidgelineError": "runtime.errors",
    "RunInterrupted": "runtime.signals",
    "Simulation": "simulation.simulation",
    "Run": "interface.runs",
    "load_run": "interface.runs",
    "open": "io.dataset",
    "run": "interface.runs",
    "run_bench": "interface.studies",
    "run_study": "interface.studies",
    "run_sweep": "interface.studies",
}


def __getattr__(name: str) -> Any:
    # xarray, adios2 and MPI take a second to import: only those who use them pay for it.
    if name in ("analysis", "plot"):
        return import_module(f".{name}", __name__)
    if name in _PLACES:
        return getattr(import_module(f"ridgeline.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
