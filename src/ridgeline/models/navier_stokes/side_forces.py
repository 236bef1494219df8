"""Force and torque of the flow on sides of the domain, as a CSV file with a row for each recorded step.

The fluid has density 1 and the stress sigma = -p I + nu (grad u + grad u^T). With n out of the fluid a side feels

    force = int -sigma n dA = int p n - nu (grad u + grad u^T) n dA        torque = int (x - x_0) x (-sigma n) dA

by the quadrature of the elements' faces. For each side: side_force_x ..., of which side_pressure_force_x ... is the
pressure's part; side_torque_x ...; and with a reference side_coefficient_x = force_x/(U^2 A/2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import MOST_FACES, ElementGeometry, Side
from ridgeline.elements.mesh import ElementGrid
from ridgeline.io.series import SeriesWriter, fingerprint
from ridgeline.models.contract import Metric, Record, Recorder
from ridgeline.models.navier_stokes.derivatives import physical_gradient
from ridgeline.models.navier_stokes.problem import FlowState
from ridgeline.models.recorders import WrittenSteps
from ridgeline.parallel.allreduce import allreduce_sums

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SideForces:
    """Integrates the stress over sides. about: (x, y, z) of torques; dynamic: U^2 A/2 of coefficients, or None."""

    comm: MPI.Comm
    grid: ElementGrid
    geometry: ElementGeometry
    viscosity: float
    sides: Sequence[str]
    about: tuple[float, float, float] = (0.0, 0.0, 0.0)
    dynamic: float | None = None

    @classmethod
    def of(
        cls, comm: MPI.Comm, grid: ElementGrid, geometry: ElementGeometry, case: NavierStokesSettings
    ) -> SideForces | None:
        """Return the forces that the settings ask for, None without any."""
        section = case.output.forces
        if not (section.interval() and section.sides):
            return None
        dynamic = None
        if section.reference_velocity is not None and section.reference_area is not None:
            dynamic = 0.5 * section.reference_velocity**2 * section.reference_area
        return cls(comm, grid, geometry, case.model.viscosity, section.sides, section.about, dynamic)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the numbers in a row, side by side."""
        kinds = ["force", "pressure_force", "torque"] + (["coefficient"] if self.dynamic else [])
        return tuple(f"{side}_{kind}_{axis}" for side in self.sides for kind in kinds for axis in "xyz")

    def row(self, flow: FlowState) -> dict[str, float]:
        """Return the forces of a flow, equal on all ranks, with the same bits for any number of ranks. Collective."""
        parts = [part for name in self.sides for part in self._faces(self.geometry.sides[name], flow)]
        n_faces = MOST_FACES * self.grid.n_elements_global
        sums = allreduce_sums(self.comm, parts, n_faces).reshape(len(self.sides), 3, 3)
        if self.dynamic:
            sums = np.concatenate([sums, sums[:, :1] / self.dynamic], axis=1)
        return dict(zip(self.columns, sums.reshape(-1).tolist()))

    def figures(self, flow: FlowState) -> dict[str, Metric]:
        """Return the forces, and their coefficients, with units. Collective."""
        row = self.row(flow)
        kinds = {"force": "length^4/time^2"} | ({"coefficient": ""} if self.dynamic else {})
        names = (
            (f"{side}_{kind}_{axis}", unit)
            for side in self.sides
            for kind, unit in kinds.items()
            for axis in "xyz"
        )
        return {name: Metric(row[name], unit) for name, unit in names}

    def _faces(self, side: Side, flow: FlowState) -> Array:
        """Return the force, its part that is due to pressure, and the torque on each face of a side, [9, f]."""
        normal = side.normal_area.transpose(1, 0, 2, 3)
        pressure = side.take(flow.pressure) * normal
        strain = np.zeros_like(pressure)  # (grad u + grad u^T) n
        for i, u in enumerate(flow.velocity):
            gradient = side.of_elements(physical_gradient(self.geometry, u, side.elements))
            strain[i] += (gradient * normal).sum(axis=0)
            strain += gradient * normal[i]
        force = pressure - self.viscosity * strain
        arm = side.take(self.geometry.coordinates) - np.reshape(self.about, (3, 1, 1, 1))
        points = np.concatenate([force, pressure, np.cross(arm, force, axis=0)])
        return np.ascontiguousarray(points.sum(axis=(2, 3)))


def forces_recorder(
    case: NavierStokesSettings, comm: MPI.Comm, forces: SideForces | None, flow: Callable[[], FlowState]
) -> list[Recorder]:
    """Return the recorder of forces, if there are any."""
    if forces is None:
        return []
    recorded, section = forces, case.output.forces

    def begin(_: Mapping[str, Any], keep: int | None) -> Record:
        writer = SeriesWriter(
            section.path, comm, recorded.columns, keep_rows=keep, option="output.forces.path"
        )
        return WrittenSteps(section.path, writer, lambda _: flow().time, lambda: recorded.row(flow()))

    return [Recorder("forces", section.path, section.interval(), begin, fingerprint=fingerprint)]
