"""What a step of wind does in host memory: fields, exchanges, and the passes over them.

`engine_cpu.CpuEngine` has the order of a step. An engine on another device has that order from there, and replaces
these methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange
from ridgeline.models.wind import kernels, kernels_advection, kernels_diffusion
from ridgeline.models.wind.problem import WindProblem
from ridgeline.models.wind.projections import FlowProjections
from ridgeline.parallel.partition import Triple

if TYPE_CHECKING:
    from mpi4py import MPI


def layout_of(field: BlockArray) -> Triple:
    """Return where a field's cells lie, as kernels take it."""
    return field.origin, field.row_pitch, field.plane_pitch


def flats(fields: tuple[BlockArray, ...]) -> Any:
    """Return the memory of some fields."""
    return tuple(field.flat for field in fields)


class WindPasses:
    """The passes of one block; the attributes are those of `CpuEngine`, which sets them."""

    problem: WindProblem
    block: Block
    _comm: MPI.Cartcomm
    _threads: int
    _sets: list[tuple[BlockArray, ...]]
    _now: int
    _tendencies: tuple[BlockArray, ...]
    _faces: tuple[BlockArray, ...]
    _pressure: BlockArray
    _extent: tuple[Triple, Triple]
    _per_width: tuple[float, ...]
    _forces: Any
    _theta_profile: Any
    _codes: Any
    _tiles: Any
    _work: Any

    def _make_projections(self, tolerance: float, direct: bool) -> FlowProjections:
        return FlowProjections(self.problem, self._comm, self.block, tolerance, direct)

    def _new_field(self, block: Block) -> BlockArray:
        return BlockArray.allocate(block, np.float64)

    def _make_halo(self, cartesian: MPI.Cartcomm, *sets: tuple[BlockArray, ...]) -> HaloExchange:
        return HaloExchange.of_fields(cartesian, sets, corners=True, method="pack", n_threads=self._threads)

    def _scale(self, field: BlockArray, factor: float, out: BlockArray) -> None:
        np.multiply(field.flat, factor, out=out.flat)

    def _clear(self, field: BlockArray) -> None:
        field.flat[:] = 0.0

    def _add_difference(self, q: BlockArray, factor: float, new: BlockArray, old: BlockArray) -> None:
        kernels.add_difference(q.flat, factor, new.flat, old.flat, *self._extent)

    def _combine(
        self,
        base: BlockArray,
        first_factor: float,
        first: BlockArray,
        second_factor: float,
        second: BlockArray,
        out: BlockArray,
    ) -> None:
        rates = first_factor, first.flat, second_factor, second.flat
        kernels.combine(base.flat, *rates, out.flat, *self._extent)

    def _set_momentum(self, fields: tuple[BlockArray, ...], viscosity: float, out: Any) -> None:
        """Set the tendencies of the velocity, whose ghosts are filled."""
        u, v, w = fields[:3]
        heat = fields[3] if self.problem.scalars else w
        p = self._pressure
        numbers = np.array([*(viscosity * r * r for r in self._per_width), *self._per_width])
        kernels_diffusion.set_momentum(
            u.flat, v.flat, w.flat, heat.flat, p.flat, layout_of(u), layout_of(p), self.block.shape_local,
            numbers, self._forces, self._theta_profile, flats(out[:3]),
        )  # fmt: skip

    def _predict_faces(self, fields: tuple[BlockArray, ...], numbers: Any) -> None:
        kernels_advection.predict_faces(
            flats(fields[:3]), flats(self._tendencies[:3]), *self._extent, self._codes[:3].copy(), numbers,
            self.problem.reconstruction, self._tiles, self._work, flats(self._faces),
        )  # fmt: skip

    def _advect_field(
        self, number: int, q: BlockArray, force: BlockArray, numbers: Any, target: BlockArray
    ) -> None:
        kernels_advection.advect(
            q.flat, force.flat, flats(self._faces), *self._extent, self._codes[number].copy(), numbers,
            self.problem.reconstruction, self._tiles, self._work, target.flat,
        )  # fmt: skip

    def _largest_speeds(self) -> Any:
        """Return the largest |u_i| and the largest |u_i| / width of this block."""
        u, v, w = self._sets[self._now][:3]
        largest = np.zeros((self._threads, 2))
        kernels.find_speeds(
            u.flat,
            v.flat,
            w.flat,
            layout_of(u),
            self.block.shape_local,
            self._per_width,
            self._threads,
            largest,
        )
        return largest.max(0)

    def _set_diffusion(self, number: int, which: int, out: BlockArray) -> None:
        """Set the diffusion of one field of a set, whose ghosts are filled."""
        kappa = self.problem.diffusivity(number)
        coefficients = tuple(kappa * r * r for r in self._per_width)
        kernels_diffusion.set_diffusion(self._sets[which][number].flat, *self._extent, coefficients, out.flat)
