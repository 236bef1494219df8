"""Analysis and pictures of what runs, benchmarks and studies write: spectra, profiles, averages, plots, movies.

The functions of `__all__` take a data set, its path or a run, and return xarray objects; `ridgeline plot` draws what
they return. Read `plot_command.py` for how it chooses a picture, and `slices.py` for how data are selected.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeline.analysis.averages import wall_units
    from ridgeline.analysis.budgets import stress_budget
    from ridgeline.analysis.element_images import on_grid
    from ridgeline.analysis.field_statistics import profile, spectrum, structure_function
    from ridgeline.analysis.paths import autocorrelation
    from ridgeline.analysis.pdf import compute_pdf
    from ridgeline.analysis.separation import shear_zeros
    from ridgeline.analysis.series import compute_series
    from ridgeline.analysis.slices import select_step, take_slice
    from ridgeline.analysis.spectra import compensated_spectrum
    from ridgeline.analysis.windows import add_windows, average, running_windows, windows_between_outputs

# The module in which each name is defined: xarray and SciPy are imported when the first of them is used.
_PLACES = {
    "add_windows": "windows",
    "autocorrelation": "paths",
    "average": "windows",
    "compensated_spectrum": "spectra",
    "compute_pdf": "pdf",
    "compute_series": "series",
    "on_grid": "element_images",
    "profile": "field_statistics",
    "running_windows": "windows",
    "select_step": "slices",
    "shear_zeros": "separation",
    "spectrum": "field_statistics",
    "stress_budget": "budgets",
    "structure_function": "field_statistics",
    "take_slice": "slices",
    "wall_units": "averages",
    "windows_between_outputs": "windows",
}
__all__ = [
    "add_windows",
    "autocorrelation",
    "average",
    "compensated_spectrum",
    "compute_pdf",
    "compute_series",
    "on_grid",
    "profile",
    "running_windows",
    "select_step",
    "shear_zeros",
    "spectrum",
    "stress_budget",
    "structure_function",
    "take_slice",
    "wall_units",
    "windows_between_outputs",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ridgeline.analysis' has no attribute {name!r}")
    return getattr(import_module(f"ridgeline.analysis.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
