"""What a Navier-Stokes run writes beside its data set and series: Nek5000 field files, and statistics.

    nek5000_recorder(case, comm, grid, geometry, flow) -> [Recorder]       # for Model.recorders
    statistics_recorder(case, comm, grid, statistics, flow) -> [Recorder]

case: `config.NavierStokesCase`, of which [output] is read. flow: called when something is due, returns the present
FlowState. Nothing where the settings ask for none. Both are cheap to call; the time loop opens the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.io.bp import BPWriter, Variable
from ridgeline.io.nek5000 import Nek5000Writer
from ridgeline.models.contract import Record, Recorder
from ridgeline.models.navier_stokes.statistics.statistics import ELEMENT_DIMS, Statistics

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.navier_stokes.settings import NavierStokesCase

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FlowState:
    """The present state: velocity [3, E, n, n, n], pressure [E, n, n, n], scalars [s, E, n, n, n], float64."""

    time: float
    velocity: Array
    pressure: Array
    scalars: Array


def nek5000_recorder(
    case: NavierStokesCase,
    comm: MPI.Comm,
    grid: ElementGrid,
    geometry: ElementGeometry,
    flow: Callable[[], FlowState],
) -> list[Recorder]:
    """Return the output of Nek5000 field files, if the settings ask for it."""
    output = case.output
    if not output.nek5000_every:
        return []

    def begin(_: Mapping[str, Any], keep: int | None) -> Record:
        writer = Nek5000Writer(
            comm,
            output.nek5000,
            grid,
            geometry.coordinates,
            precision=output.nek5000_precision,
            mesh=output.nek5000_geometry,
            keep_files=keep,
        )
        return _FieldFiles(output.nek5000, writer, flow)

    path = output.nek5000
    return [Recorder("Nek5000 files", path, output.nek5000_every, begin, plot=f"{path}.nek5000")]


class _FieldFiles:
    """Writes a Nek5000 file each time."""

    def __init__(self, path: str, writer: Nek5000Writer, flow: Callable[[], FlowState]) -> None:
        self.path = path
        self._writer, self._flow = writer, flow

    @property
    def count(self) -> int:
        return self._writer.files

    def write(self, step: int) -> int:
        now = self._flow()
        return self._writer.write(step, now.time, now.velocity, now.pressure, now.scalars)

    def close(self) -> None:
        """Every file is whole already."""


def statistics_recorder(
    case: NavierStokesCase,
    comm: MPI.Comm,
    grid: ElementGrid,
    statistics: Statistics | None,
    flow: Callable[[], FlowState],
) -> list[Recorder]:
    """Return what samples the statistics, and writes them when the run ends, if the settings ask for it.

    statistics: which the model makes if output.statistics_every > 0, and saves with its state.
    """
    output = case.output
    if not output.statistics_every or statistics is None:
        return []
    gathered = statistics

    def begin(attributes: Mapping[str, Any], _: int | None) -> Record:
        return _Samples(comm, grid, gathered, output.statistics, output.homogeneous, attributes, flow)

    return [Recorder("statistics", output.statistics, output.statistics_every, begin)]


class _Samples:
    """Samples the flow each time, and writes one output step of averages at the end.

    The data set is made anew in every run, resumed ones too: the sums are in the checkpoints.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        statistics: Statistics,
        path: str,
        homogeneous: tuple[str, ...],
        attributes: Mapping[str, Any],
        flow: Callable[[], FlowState],
    ) -> None:
        self.path = path
        self._statistics, self._homogeneous, self._flow = statistics, homogeneous, flow
        self._rank = comm.rank
        variables = [
            self._variable(name, average.values, average.dims, average.description, grid)
            for name, average in statistics.averages(homogeneous).items()
        ]
        variables += [
            self._variable("averaging_time", np.zeros(1), ("point",), "model time averaged over", grid),
            self._variable("samples", np.zeros(1), ("point",), "samples in the averages", grid),
        ]
        self._writer = BPWriter(path, comm, variables, attributes, setting="output.statistics")

    def _variable(
        self, name: str, values: Array, dims: tuple[str, ...], description: str, grid: ElementGrid
    ) -> Variable:
        if dims == ELEMENT_DIMS:
            blocks = grid.shape_global, (grid.first, 0, 0, 0), grid.shape
        else:
            blocks = values.shape, (0,) * values.ndim, self._here(values).shape  # type: ignore[assignment]
        place = dims == ELEMENT_DIMS and name in ("x", "y", "z")
        return Variable(name, np.float64, *blocks, description=description, dims=dims, once=place)

    def _here(self, values: Array) -> Array:
        """Return what this rank writes of an array that all ranks have: rank 0 everything."""
        return values if self._rank == 0 else values[(slice(0),) * values.ndim]

    @property
    def count(self) -> int:
        return self._writer.steps

    def write(self, step: int) -> int:
        now = self._flow()
        self._statistics.sample(step, now.time, now.velocity, now.pressure, now.scalars)
        return 0  # written when the run ends

    def close(self) -> None:
        arrays = {
            name: average.values if average.dims == ELEMENT_DIMS else self._here(average.values)
            for name, average in self._statistics.averages(self._homogeneous).items()
        }
        amounts = {"averaging_time": self._statistics.seconds, "samples": self._statistics.samples}
        arrays |= {name: self._here(np.array([float(amount)])) for name, amount in amounts.items()}
        self._writer.write(self._statistics.step, self._statistics.time, arrays)
        self._writer.close()
