"""Ridgeline: PDE simulations at the speed of the hardware, and the machine's limits beside them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ridgeline.runtime import mpi_import
from ridgeline.version import VERSION

__version__ = VERSION
__all__ = ["Case", "RidgelineError", "RunInterrupted", "Simulation", "__version__", "open"]

if TYPE_CHECKING:
    from ridgeline.io.dataset import open
    from ridgeline.runtime.errors import RidgelineError
    from ridgeline.simulation.case import Case
    from ridgeline.simulation.simulation import RunInterrupted, Simulation

mpi_import.install()
_PLACES = {
    "Case": "simulation.case",
    "RidgelineError": "runtime.errors",
    "RunInterrupted": "simulation.simulation",
    "Simulation": "simulation.simulation",
    "open": "io.dataset",
}


def __getattr__(name: str) -> Any:
    # xarray, adios2 and MPI take a second to import: only those who use them pay for it.
    if name in _PLACES:
        return getattr(import_module(f"ridgeline.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
