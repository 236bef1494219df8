"""Probes: the flow at given places, as a CSV file with a row for each recorded step.

    step,time,probe_0_velocity_x,probe_0_velocity_y,probe_0_velocity_z,probe_0_pressure,probe_0_scalar_0,probe_1_...

Beside `probes.csv` a run writes `probes.places.csv` with the places: probe,x,y,z. `mesh_rules.checked_places`
finds places outside the domain before a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.mesh import ElementGrid
from ridgeline.io.place_lists import write_places
from ridgeline.io.series import SeriesWriter, fingerprint
from ridgeline.models.contract import Record, Recorder
from ridgeline.models.navier_stokes.mesh_rules import places_of, refuse_outside
from ridgeline.models.navier_stokes.problem import FlowState, field_names
from ridgeline.models.navier_stokes.sampling import PlacedPoints
from ridgeline.models.recorders import WrittenSteps
from ridgeline.parallel.allreduce import errors_on_all_ranks

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings


Array = NDArray[np.float64]


class Probes:
    """The places of a case on this rank's elements. Made collectively.

    Raises ConfigError for places outside the domain.
    """

    def __init__(self, comm: MPI.Comm, grid: ElementGrid, case: NavierStokesSettings) -> None:
        places = np.empty((0, 3))
        with errors_on_all_ranks(comm):
            if comm.rank == 0:
                places = places_of(case)
        self.places: Array = comm.bcast(places)
        self._points = PlacedPoints(comm, grid, self.places)
        self._names = (*field_names(len(case.scalar))[:3], "pressure", *field_names(len(case.scalar))[3:])
        refuse_outside(self.places, self._points.missing)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the numbers in a row, probe by probe."""
        return tuple(f"probe_{i}_{name}" for i in range(len(self.places)) for name in self._names)

    def row(self, flow: FlowState) -> dict[str, float]:
        """Return the numbers of the present flow, equal on all ranks. Collective."""
        values = self._points.values([*flow.velocity, flow.pressure, *flow.scalars])
        return dict(zip(self.columns, values.T.reshape(-1).tolist()))


def probes_recorder(
    case: NavierStokesSettings, comm: MPI.Comm, probes: Probes | None, flow: Callable[[], FlowState]
) -> list[Recorder]:
    """Return the recorder of probes, if there are any."""
    if probes is None:
        return []
    placed, section = probes, case.output.probes

    def begin(_: Mapping[str, Any], keep: int | None) -> Record:
        with errors_on_all_ranks(comm):
            if comm.rank == 0 and keep is None:
                write_places(
                    Path(section.path).with_suffix(".places.csv"), placed.places, "output.probes.path"
                )
        writer = SeriesWriter(section.path, comm, placed.columns, keep_rows=keep, option="output.probes.path")
        return WrittenSteps(section.path, writer, lambda _: flow().time, lambda: placed.row(flow()))

    return [Recorder("probes", section.path, section.interval(), begin, fingerprint=fingerprint)]
