"""Ridgeline: PDE simulations at the speed of the hardware, and the machine's limits beside them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ridgeline.version import VERSION

__version__ = VERSION
__all__ = ["__version__", "open"]

if TYPE_CHECKING:
    from ridgeline.io.dataset import open


def __getattr__(name: str) -> Any:
    # xarray and adios2 take a second to import: only those who open data pay for it.
    if name == "open":
        return import_module("ridgeline.io.dataset").open
    raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")
