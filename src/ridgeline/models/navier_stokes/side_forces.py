"""Force and torque of the flow on sides of the domain, as a CSV file with a row for each recorded step.

The fluid has density 1 and the stress sigma = -p I + nu (grad u + grad u^T). With n out of the fluid a side feels

    force = int -sigma n dA = int p n - nu (grad u + grad u^T) n dA        torque = int (x - x_0) x (-sigma n) dA

by the quadrature of the elements' faces, with the viscous traction of side_fluxes.py. For each side:
side_force_x ..., of which side_pressure_force_x ... is the pressure's part; side_torque_x ...; and with a reference
side_coefficient_x = force_x/(U^2 A/2).

Where no step has led to the flow, as at step 0, the traction is that of the gradients at the side. The figures of a
report compare both: side_force_difference is the sum of |force - force by gradients| over the faces of the elements,
divided by that of |force|.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import MOST_FACES, ElementGeometry, Side
from ridgeline.io.series import SeriesWriter, fingerprint
from ridgeline.models.contract import Metric, Record, Recorder
from ridgeline.models.navier_stokes.problem import FlowState
from ridgeline.models.navier_stokes.side_fluxes import KnownSide, SideFlux, SideFluxes
from ridgeline.models.recorders import WrittenSteps
from ridgeline.parallel.allreduce import allreduce_sums

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SideForces:
    """Integrates the stress over sides.

    fluxes: those of these sides, among others; about: (x, y, z) of torques; dynamic: U^2 A/2 of coefficients, or
    None.
    """

    comm: MPI.Comm
    geometry: ElementGeometry
    fluxes: SideFluxes
    sides: Sequence[str]
    about: tuple[float, float, float] = (0.0, 0.0, 0.0)
    dynamic: float | None = None

    @classmethod
    def of(
        cls, comm: MPI.Comm, geometry: ElementGeometry, fluxes: SideFluxes, case: NavierStokesSettings
    ) -> SideForces | None:
        """Return the forces that the settings ask for, None without any."""
        section = case.output.forces
        if not (section.interval() and section.sides):
            return None
        dynamic = None
        if section.reference_velocity is not None and section.reference_area is not None:
            dynamic = 0.5 * section.reference_velocity**2 * section.reference_area
        return cls(comm, geometry, fluxes, section.sides, section.about, dynamic)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the numbers in a row, side by side."""
        kinds = ["force", "pressure_force", "torque"] + (["coefficient"] if self.dynamic else [])
        return tuple(f"{side}_{kind}_{axis}" for side in self.sides for kind in kinds for axis in "xyz")

    def row(self, flow: FlowState, step: KnownSide | None = None) -> dict[str, float]:
        """Return the forces of a flow, equal on all ranks. Collective.

        step: that led to the flow; None if there was none. The sums over faces have the same bits for any number of
        ranks.
        """
        return self._row(self._sums(flow, step))

    def figures(self, flow: FlowState, step: KnownSide | None = None) -> dict[str, Metric]:
        """Return the forces, their coefficients and their difference from those by gradients. Collective."""
        sums = self._sums(flow, step)
        row = self._row(sums)
        kinds = {"force": "length^4/time^2"} | ({"coefficient": ""} if self.dynamic else {})
        figures: dict[str, Metric] = {}
        for side, (*_, difference, size) in zip(self.sides, sums.tolist()):
            for kind, unit in kinds.items():
                names = [f"{side}_{kind}_{axis}" for axis in "xyz"]
                figures |= {name: Metric(row[name], unit) for name in names}
            figures[f"{side}_force_difference"] = Metric(difference / size if size else 0.0)
        return figures

    def _row(self, sums: Array) -> dict[str, float]:
        rows = sums[:, :9]
        if self.dynamic:
            rows = np.concatenate([rows, sums[:, :3] / self.dynamic], axis=1)
        return dict(zip(self.columns, rows.reshape(-1).tolist()))

    def _sums(self, flow: FlowState, step: KnownSide | None) -> Array:
        """Return for each side force, pressure's part and torque, as vectors, and two sums over faces, [sides, 11].

        These are the size of the difference of the force from that by gradients, and the size of the force.
        """
        tractions = self.fluxes.traction(flow, step)
        parts = [
            part
            for name in self.sides
            for part in self._faces(self.geometry.sides[name], flow, tractions[name])
        ]
        n_faces = MOST_FACES * self.geometry.grid.n_elements_global
        return np.asarray(allreduce_sums(self.comm, parts, n_faces)).reshape(len(self.sides), 11)

    def _faces(self, side: Side, flow: FlowState, traction: SideFlux) -> Array:
        """Return the summands of `_sums` on each face of a side, [11, f]."""
        pressure = side.take(flow.pressure) * side.normal_area.transpose(1, 0, 2, 3)
        force, by_gradients = pressure - traction.value, pressure - traction.by_gradients
        arm = side.take(self.geometry.coordinates) - np.reshape(self.about, (3, 1, 1, 1))
        vectors = np.concatenate([force, pressure, np.cross(arm, force, axis=0), force - by_gradients])
        of_faces = vectors.sum(axis=(2, 3))
        sizes = [np.sqrt((of_faces[rows] ** 2).sum(axis=0)) for rows in (slice(9, 12), slice(0, 3))]
        return np.ascontiguousarray(np.concatenate([of_faces[:9], sizes]))


def forces_recorder(
    case: NavierStokesSettings,
    comm: MPI.Comm,
    forces: SideForces | None,
    flow: Callable[[], FlowState],
    last_step: Callable[[], KnownSide | None],
) -> list[Recorder]:
    """Return the recorder of forces, if there are any. last_step: returns the step that led to the present flow."""
    if forces is None:
        return []
    recorded, section = forces, case.output.forces

    def begin(_: Mapping[str, Any], keep: int | None) -> Record:
        writer = SeriesWriter(
            section.path, comm, recorded.columns, keep_rows=keep, option="output.forces.path"
        )
        return WrittenSteps(
            section.path, writer, lambda _: flow().time, lambda: recorded.row(flow(), last_step())
        )

    return [Recorder("forces", section.path, section.interval(), begin, fingerprint=fingerprint)]
