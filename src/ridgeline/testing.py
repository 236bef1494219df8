"""Checks of a model in a package of one's own, for its tests with pytest.

A test file that begins with `pytest_plugins = ["ridgeline.testing"]` can use the fixture `model_checks`. Every check
runs small cases in an empty folder, on ranks of their own, and raises AssertionError where results differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.interface.runs import run
from ridgeline.simulation.case import Case

if TYPE_CHECKING:
    import xarray as xr

_SUFFIXES = {"zarr": "zarr", "bp5": "bp"}


class ModelChecks:
    """Check what every model promises: the same answer on any ranks, after a restart, and in every format.

    Parameters
    ----------
    folder : Path
        An empty folder for the files of the runs.

    Notes
    -----
    The cases must write fields (output.every) and have a number of steps (run.steps).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = 0

    def _data(self, case: Case, ranks: int = 1, format: str = "zarr", continues: str = "") -> xr.Dataset:
        """Run a case, and return the fields of every output step in memory; continues: the name of the run."""
        self._runs += 1
        name = continues or f"run_{self._runs}"
        path = self._folder / f"{name}.{_SUFFIXES[format]}"
        case = case.replace(
            {"output.path": str(path), "checkpoint.path": str(self._folder / f"{name}_saved")}
        )
        return run(case, ranks=ranks, resume="auto" if continues else "never", progress=False).data.load()

    def same_on_ranks(self, case: Case, ranks: Sequence[int] = (2, 3), rtol: float = 0.0) -> None:
        """Compare runs on several numbers of ranks with the run on one rank.

        Parameters
        ----------
        case : Case
            A small case.
        ranks : sequence of int
            Numbers of ranks.
        rtol : float
            Largest difference, relative to the largest value of a field; 0 demands equal bits.
        """
        serial = self._data(case)
        for number in ranks:
            _compare(self._data(case, number), serial, rtol, f"on {number} ranks and on one")

    def same_after_resume(
        self, case: Case, ranks: int = 1, resumed_ranks: int = 2, rtol: float = 0.0
    ) -> None:
        """Compare a run that is continued from a checkpoint at half of its steps with one that runs through.

        Parameters
        ----------
        case : Case
            A small case of at least two steps.
        ranks, resumed_ranks : int
            Numbers of ranks before and after.
        rtol : float
            As for `same_on_ranks`.
        """
        whole = self._data(case)
        half = case.replace({"run.steps": case.settings.run.steps // 2, "checkpoint.at_end": True})
        name = f"resumed_{self._runs}"
        self._data(half, ranks, continues=name)
        resumed = self._data(case, resumed_ranks, continues=name)
        _compare(resumed, whole, rtol, "after a restart and without one")

    def same_as(
        self, case: Case, reference: Callable[[Case], Mapping[str, NDArray[Any]]], rtol: float = 1e-12
    ) -> None:
        """Compare the fields of the last output step with those that a function computes.

        Parameters
        ----------
        case : Case
            A small case.
        reference : callable
            Takes the case, and returns arrays by the names of fields, such as a plain NumPy program would.
        rtol : float
            As for `same_on_ranks`.
        """
        last = self._data(case).isel(step=-1)
        for name, expected in reference(case).items():
            _compare_values(last[name].values, expected, rtol, f"{name} differs from the reference")

    def same_in_formats(self, case: Case) -> None:
        """Compare the data sets of a run in Zarr and, where ADIOS2 is installed, in BP5."""
        pytest.importorskip("adios2")
        _compare(self._data(case, format="bp5"), self._data(case, format="zarr"), 0.0, "in BP5 and in Zarr")


@pytest.fixture
def model_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelChecks:
    """Provide `ModelChecks` in an empty folder, which is the current one meanwhile."""
    monkeypatch.chdir(tmp_path)
    return ModelChecks(tmp_path)


def _compare(data: xr.Dataset, expected: xr.Dataset, rtol: float, where: str) -> None:
    assert data.step.values.tolist() == expected.step.values.tolist(), f"other steps were written {where}"
    for name in expected.data_vars:
        _compare_values(data[name].values, expected[name].values, rtol, f"{name} is not the same {where}")


def _compare_values(values: NDArray[Any], expected: NDArray[Any], rtol: float, what: str) -> None:
    largest = float(np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(values, expected, rtol=0.0, atol=rtol * largest, err_msg=what)
