"""What a run says of its present state: energy, speed, temperatures, the ground and the turbines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ridgeline.blocks.field_summary import summarise_field
from ridgeline.models.contract import Metric
from ridgeline.models.wind.physical_terms import PhysicalTerms
from ridgeline.parallel.allreduce import allreduce_sums

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.wind.engine_cpu import CpuEngine

UNITS = {
    "kinetic_energy": "length^2/time^2",
    "speed_max": "length/time",
    "courant_rate": "1/time",
    "theta_min": "temperature",
    "theta_max": "temperature",
    "friction_velocity": "length/time",
    "surface_heat_flux": "temperature length/time",
}


class Diagnostics:
    """Global values of the fields of an engine, equal on all ranks and for any number of ranks."""

    def __init__(self, engine: CpuEngine, terms: PhysicalTerms, comm: MPI.Comm, has_theta: bool) -> None:
        self._engine, self._terms, self._comm, self._has_theta = engine, terms, comm, has_theta

    def values(self) -> dict[str, float]:
        """Return the columns of the time series. Collective.

        They follow from the present state alone, so that a resumed run continues them. kinetic_energy: the mean of
        |u|^2/2; speed_max: the largest |u_i|; courant_rate: the largest |u_i|/width, whose product with a time step
        is its Courant number.
        """
        engine, comm = self._engine, self._comm
        velocity = [q.owned for q in engine.fields[:3]]
        cells = math.prod(engine.block.shape_global)
        squares = allreduce_sums(comm, [q * q for q in velocity], cells)  # type: ignore[operator]
        speed, rate, _ = engine.speeds()
        row = {
            "kinetic_energy": float(0.5 * ((squares[0] + squares[1]) + squares[2]) / cells),
            "speed_max": speed,
            "courant_rate": rate,
        }
        if self._has_theta:
            theta = summarise_field(comm, engine.fields[3], 1)
            row |= {"theta_min": theta.min, "theta_max": theta.max}
        terms = self._terms
        terms.update(engine.fields, engine.time)
        if terms.surface is not None:
            state = terms.surface.state
            row |= {
                "friction_velocity": state.friction_velocity,
                "surface_heat_flux": state.heat_flux,
                "surface_zeta": state.zeta,
            }
        if terms.turbines is not None:
            row |= terms.turbines.series()
        return row

    def summary(self) -> dict[str, Metric]:
        """Return the same numbers with their units. Collective."""
        return {name: Metric(value, UNITS.get(name, "")) for name, value in self.values().items()}
