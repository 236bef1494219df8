"""The parts of the physics that act beside the equations of a `WindProblem`: closure, ground, turbines and damping.

The engine calls `prepare` once the ghosts of its fields are filled, and then `add`. Each part has a file of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.wind import kernels_diffusion
from ridgeline.models.wind.forcing import (
    HubHeightControl,
    add_damping,
    force_numbers,
    make_profiles,
    step_rates,
)
from ridgeline.models.wind.settings import ENERGY, WindCase
from ridgeline.models.wind.subgrid import make_closure, set_one_equation, set_smagorinsky, squared_lengths
from ridgeline.models.wind.surface_layer import SurfaceLayer
from ridgeline.models.wind.turbines import Turbines
from ridgeline.parallel.allreduce import kernels_of_sums

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
Fields = Sequence[BlockArray]


class PhysicalTerms:
    """Closure, ground, turbines, controller and damping of a case on one block. Collective when it is made."""

    def __init__(self, case: WindCase, block: Block, comm: MPI.Comm) -> None:
        self._case, self._block = case, block
        self._names = case.transported()
        like = BlockArray.allocate(block, np.float64)
        self._extent = (like.origin, like.row_pitch, like.plane_pitch), block.shape_local
        h = case.grid.spacing()
        self._per_width = tuple(1.0 / each for each in h)
        self.surface = (
            SurfaceLayer(case.surface, case.temperature, h[0], block, comm) if case.has_surface() else None
        )
        periodic = case.boundary.periodic()
        self.turbines = Turbines(case.turbine, block, h, periodic, comm) if case.turbine else None
        self.control = None
        if case.driving.kind == "hub-height":
            self.control = HubHeightControl(case.driving, case.rotation.coriolis()[0], h[0], block, comm)
        planes = block.offset_global[0] + np.arange(block.shape_local[0])
        heights = np.asarray((planes + 0.5) * h[0], np.float64)
        top = case.grid.lengths[0]
        self._profiles = make_profiles(case.temperature, case.damping, case.driving, heights, top)
        self.viscosity: BlockArray | None = None
        self.diffusivity: BlockArray | None = None
        self._source: BlockArray | None = None
        if case.subgrid.kind != "none":
            self._closure = make_closure(case.subgrid, case.temperature, h)
            self._numbers = self._closure.numbers()
            self.viscosity, self.diffusivity, self._source = (
                BlockArray.allocate(block, np.float64) for _ in range(3)
            )
            self._squared = squared_lengths(
                self._closure,
                np.array([heights[0] - h[0], *heights, heights[-1] + h[0]]),
                case.subgrid.wall_damping and case.has_surface(),
                case.surface.roughness,
                case.surface.von_karman,
            )
            self._on_ground = int(case.has_surface() and block.offset_global[0] == 0)

    def kernels(self, field: BlockArray) -> list[Specialisation]:
        """Return the kernels that are called."""
        cells, plane = numba.typeof(field.owned), numba.typeof(field.owned[0])
        wanted = [*specialise([add_damping], "float64"), *kernels_of_sums("float64")]
        if self.surface is not None:
            wanted += self.surface.kernels(plane)
        if self.turbines is not None:
            wanted += self.turbines.kernels(cells)
        if self.viscosity is not None:
            wanted += specialise([set_smagorinsky, set_one_equation], "float64")
            wanted += specialise(
                [kernels_diffusion.add_eddy_diffusion, kernels_diffusion.add_transposed_stress]
            )
        return wanted

    def _theta(self, fields: Fields) -> BlockArray | None:
        return fields[3] if self._case.temperature.enabled else None

    def prepare(self, fields: Fields) -> None:
        """Set the eddy viscosities in the cells and one layer of ghosts. The ghosts of the fields are filled."""
        if self.viscosity is None:
            return
        assert self.diffusivity is not None
        assert self._source is not None
        u, v, w = (q.flat for q in fields[:3])
        theta = (self._theta(fields) or fields[0]).flat
        nu, kappa = self.viscosity.flat, self.diffusivity.flat
        numbers, ground = self._numbers, self._on_ground
        if self._case.subgrid.kind == "smagorinsky":
            set_smagorinsky(u, v, w, theta, *self._extent, numbers, self._squared, ground, 1, nu, kappa)
        else:
            energy, source = fields[-1].flat, self._source.flat
            set_one_equation(u, v, w, theta, energy, *self._extent, numbers, ground, 1, nu, kappa, source)

    def largest_diffusivity(self) -> float:
        """Return the largest of 2 nu_t and kappa_t on this block."""
        if self.viscosity is None:
            return 0.0
        assert self.diffusivity is not None
        return max(2.0 * float(self.viscosity.owned.max()), float(self.diffusivity.owned.max()))

    def forces(self, fields: Fields, dt: float) -> Any:
        """Return the numbers of the forces in a step of length dt. Collective with a controller."""
        control = (0.0, 0.0)
        if self.control is not None:
            control = self.control.force(fields[0].owned, fields[1].owned, dt)
        return force_numbers(self._case.rotation, self._case.driving, self._case.temperature, control)

    def update(self, fields: Fields, time: float) -> None:
        """Set the fluxes at the ground and the forces of turbines for the fields. Collective."""
        if self.surface is not None:
            theta = self._theta(fields)
            u, v = fields[0].owned[0], fields[1].owned[0]
            self.surface.update(u, v, None if theta is None else theta.owned[0], time)
        if self.turbines is not None:
            self.turbines.update(fields[0].owned, fields[1].owned)

    def add(self, fields: Fields, out: Fields, time: float, dt: float) -> None:
        """Add what acts on the fields to their tendencies, without eddy diffusion. Collective."""
        self._act(fields, out, time)
        self._add_damping(fields, out, dt)
        if self.viscosity is not None:
            self._add_stress(fields, out)

    def _act(self, fields: Fields, out: Fields, time: float) -> None:
        """Add what the ground and turbines do. Collective."""
        self.update(fields, time)
        if self.surface is not None:
            theta = out[3].owned[0] if self._case.temperature.enabled else None
            self.surface.add(out[0].owned[0], out[1].owned[0], theta)
        if self.turbines is not None:
            self.turbines.add(out[0].owned, out[1].owned)

    def _add_stress(self, fields: Fields, out: Fields) -> None:
        """Add the transposed stress of the eddy viscosity, and the sources of the subgrid energy."""
        assert self.viscosity is not None
        assert self._source is not None
        u, v, w = (q.flat for q in fields[:3])
        targets = tuple(each.flat for each in out[:3])
        kernels_diffusion.add_transposed_stress(
            u, v, w, self.viscosity.flat, *self._extent, self._per_width, targets
        )
        if self._names[-1:] == (ENERGY,):
            np.add(out[-1].owned, self._source.owned, out=out[-1].owned)

    def _add_damping(self, fields: Fields, out: Fields, dt: float) -> None:
        if not self._case.damping.depth:
            return
        p = self._profiles
        rate = step_rates(p.rate, dt)
        zero = np.zeros_like(p.rate)
        targets = {2: zero}
        if p.damps_wind:
            targets |= {0: zero + p.wind[0], 1: zero + p.wind[1]}
        if p.damps_theta:
            targets[3] = p.damped_theta
        for number, target in targets.items():
            self._damp(fields[number], target, rate, out[number])

    def _damp(self, q: BlockArray, target: Array, rate: Array, out: BlockArray) -> None:
        add_damping(q.flat, *self._extent, target, rate, out.flat)

    def eddy_coefficient(self, number: int) -> tuple[float, BlockArray] | None:
        """Return the factor and the field whose product is a field's eddy diffusivity, None without a closure."""
        if self.viscosity is None or self.diffusivity is None:
            return None
        is_energy = number >= 3 and self._names[number - 3] == ENERGY
        return 2.0 if is_energy else 1.0, self.viscosity if number < 3 or is_energy else self.diffusivity

    def add_eddy_diffusion(self, fields: Fields, out: Fields) -> None:
        """Add d_j[kappa_t d_j q] of all fields to their tendencies. The ghosts of the fields are filled. Local."""
        for number, (q, target) in enumerate(zip(fields, out, strict=True)):
            found = self.eddy_coefficient(number)
            if found is not None:
                factor, coefficient = found
                self._add_eddy_flux(q, coefficient, factor, target)

    def _add_eddy_flux(self, q: BlockArray, coefficient: BlockArray, factor: float, out: BlockArray) -> None:
        kernels_diffusion.add_eddy_diffusion(
            q.flat, coefficient.flat, *self._extent, self._per_width, factor, out.flat
        )
