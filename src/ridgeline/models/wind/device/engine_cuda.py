"""A step of the wind model on the block of one rank, on one NVIDIA GPU.

The order of a step and its exchanges are those of `engine_cpu.CpuEngine`; the methods here replace what that does in
host memory. All fields stay on the device. The host holds one copy of the fields and of the pressure, for input,
output and diagnostics, which is brought up to date when it is read.

All launches and copies are put on one stream. The host waits for it where MPI sends, where a solver looks at its
residual, and at the speeds that choose the time step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.ghosts_cuda import DeviceGhosts
from ridgeline.blocks.halo import HaloExchange
from ridgeline.blocks.multigrid.device.cells_cuda import DEVICE_CELLS
from ridgeline.blocks.projection_cuda import clear
from ridgeline.blocks.rows_cuda import (
    RowReductions,
    device_field,
    download,
    fill_layer,
    fill_layer_launch,
    flat_launch,
    host_field,
    layer_inside,
    layout_of,
    mirror_at,
    rows_launch,
    scale_flat,
    side_of,
    upload,
)
from ridgeline.jit.cuda_device import make_stream
from ridgeline.models.contract import Context
from ridgeline.models.wind.device import advection_cuda as advection
from ridgeline.models.wind.device import tendencies_cuda as tendencies
from ridgeline.models.wind.device.physical_terms_cuda import DevicePhysicalTerms
from ridgeline.models.wind.device.projections_cuda import DeviceFlowProjections
from ridgeline.models.wind.engine_cpu import CpuEngine
from ridgeline.models.wind.kernels_advection import (
    ADDED,
    HALF_DT,
    KEPT,
    PER_WIDTH,
    RATIOS,
    SMALL_SPEED,
    other_field,
)
from ridgeline.models.wind.problem import WindProblem, normal_field
from ridgeline.models.wind.projections import FlowProjections
from ridgeline.parallel.devices import require_device_memory, select_device

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.wind.settings import WindCase

ADVICE = "Use more GPUs (-n) or a smaller grid.shape."
HATS = 9  # fields of states at faces without transverse derivatives


class CudaEngine(CpuEngine):
    """Fields and steps of one block on a GPU.

    Parameters
    ----------
    problem, cartesian, block, context, tolerance : as for `CpuEngine`; sides are walls, slip walls or the ground, and
        their values are numbers
    case : its closure, ground and damping act, if it is given
    memory : bytes on the device by what they are for
    device_cells : levels of multigrid with fewer cells for each rank are on the host

    Raises DeviceError if there is no GPU for a rank, or if it has too little free memory.
    """

    def __init__(
        self,
        problem: WindProblem,
        cartesian: MPI.Cartcomm,
        block: Block,
        context: Context,
        case: WindCase | None = None,
        tolerance: float = 1e-9,
        memory: dict[str, float] | None = None,
        device_cells: int = DEVICE_CELLS,
    ) -> None:
        self.device = select_device(cartesian)
        require_device_memory(cartesian, self.device, memory or {}, ADVICE)
        self.stream, self._device_cells = make_stream(), device_cells
        self.terms = None if case is None else DevicePhysicalTerms(case, block, cartesian, self.stream)
        super().__init__(problem, cartesian, block, context, self.terms, tolerance)
        nz, ny, nx = block.shape_local
        self._reductions = RowReductions(nz * ny, self.stream)
        self._rates_of_rows = cuda.device_array(nz * ny, np.float64)
        self._device_profile = cuda.to_device(self._theta_profile)
        self._hats = [self._new_field(block) for _ in range(HATS)]
        self._host = [host_field(field) for field in self._sets[0]]
        self._host_pressure = host_field(self._pressure)
        self._host_is_present = self._pressure_is_present = True
        self._rows = rows_launch((nz, ny, nx))

    def _launch(self, kernel: Any, *arguments: Any) -> None:
        """Launch a kernel over the rows of owned cells."""
        kernel[(*self._rows, self.stream)](*arguments)

    # ---- memory ----

    def _make_projections(self, tolerance: float, direct: bool) -> FlowProjections:
        return DeviceFlowProjections(
            self.problem, self._comm, self.block, tolerance, self.stream, self._device_cells
        )

    def _new_field(self, block: Block) -> BlockArray:
        return device_field(block, np.float64)

    def _make_halo(self, cartesian: MPI.Cartcomm, *sets: tuple[BlockArray, ...]) -> HaloExchange:
        ghosts: Any = DeviceGhosts(cartesian, sets, self.stream)
        return ghosts  # type: ignore[no-any-return]

    def _mirrors_of(self, fields: tuple[BlockArray, ...]) -> list[Any]:
        return []

    @property
    def fields(self) -> tuple[BlockArray, ...]:
        """The host's copy of the present fields; what is written there counts after `start` or `commit`."""
        if not self._host_is_present:
            for host, field in zip(self._host, self._sets[self._now], strict=True):
                download(field, host, self.stream)
            self._host_is_present = True
        return tuple(self._host)

    @property
    def pressure(self) -> BlockArray:
        """The host's copy of the present pressure."""
        if not self._pressure_is_present:
            download(self._pressure, self._host_pressure, self.stream)
            self._pressure_is_present = True
        return self._host_pressure

    @property
    def faces(self) -> tuple[BlockArray, ...]:
        """Copies of the face velocities of the last step."""
        copies = [host_field(face) for face in self._faces]
        for copy, face in zip(copies, self._faces, strict=True):
            download(face, copy, self.stream)
        return tuple(copies)

    @property
    def eddies(self) -> tuple[BlockArray | None, BlockArray | None]:
        found: list[BlockArray | None] = []
        for field in super().eddies:
            copy = None if field is None else host_field(field)
            if copy is not None and field is not None:
                download(field, copy, self.stream)
            found.append(copy)
        return found[0], found[1]

    def fill(self, *arguments: Any, **named: Any) -> None:
        super().fill(*arguments, **named)
        self._host_is_present = False

    def _upload(self) -> None:
        for host, field in zip(self._host, self._sets[self._now], strict=True):
            upload(host, field, self.stream)
        self.stream.synchronize()  # before the host's copy is written again
        self._host_is_present = True

    def commit(self) -> None:
        self._upload()
        upload(self._host_pressure, self._pressure, self.stream)
        super().commit()
        self._pressure_is_present = False

    def start(self) -> None:
        self._upload()
        super().start()
        self._host_is_present = self._pressure_is_present = False

    def guess_pressure(self, dt: float) -> None:
        super().guess_pressure(dt)  # which puts the fields back into the host's copy
        self._upload()

    def advance(self, dt: float, *options: Any, **named: Any) -> None:
        super().advance(dt, *options, **named)
        self._host_is_present = self._pressure_is_present = False

    def compile(self) -> None:
        """Compile what the host computes; the kernels of the device are compiled or loaded at their first launch."""
        if self.terms is not None:
            self.terms.compile()

    def allocated(self) -> int:
        """Return the bytes of fields on the device, without those of the linear solvers."""
        arrays = [*self._sets[0], *self._sets[1], *self._tendencies, *self._later, *self._rates, *self._faces]
        return sum(int(each.flat.nbytes) for each in (*arrays, *self._hats, self._pressure))

    # ---- passes ----

    def _scale(self, field: BlockArray, factor: float, out: BlockArray) -> None:
        scale_flat[(*flat_launch(out.flat.size), self.stream)](field.flat, factor, out.flat)

    def _clear(self, field: BlockArray) -> None:
        clear(field, self.stream)

    def _add_difference(self, q: BlockArray, factor: float, new: BlockArray, old: BlockArray) -> None:
        self._launch(tendencies.add_difference, q.flat, factor, new.flat, old.flat, *self._extent)

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
        self._launch(tendencies.combine, base.flat, *rates, out.flat, *self._extent)

    def _largest_speeds(self) -> Any:
        u, v, w = self._sets[self._now][:3]
        reductions = self._reductions
        self._launch(
            tendencies.find_speeds, u.flat, v.flat, w.flat, *self._extent, self._per_width, reductions.rows,
            self._rates_of_rows,
        )  # fmt: skip
        count = self.block.shape_local[0] * self.block.shape_local[1]
        return reductions.largest_row(count), reductions.largest_of(self._rates_of_rows)

    def _set_momentum(self, fields: tuple[BlockArray, ...], viscosity: float, out: Any) -> None:
        u, v, w = fields[:3]
        heat = fields[3] if self.problem.scalars else w
        p = self._pressure
        diffusive = tuple(viscosity * r * r for r in self._per_width)
        forces = tuple(float(force) for force in self._forces)
        self._launch(
            tendencies.set_momentum, u.flat, v.flat, w.flat, heat.flat, p.flat, layout_of(u), layout_of(p),
            self.block.shape_local, diffusive, self._per_width, forces, self._device_profile,
            *(each.flat for each in out[:3]),
        )  # fmt: skip

    def _set_diffusion(self, number: int, which: int, out: BlockArray) -> None:
        kappa = self.problem.diffusivity(number)
        coefficients = tuple(kappa * r * r for r in self._per_width)
        q = self._sets[which][number]
        self._launch(tendencies.set_diffusion, q.flat, *self._extent, coefficients, out.flat)

    def _faces_of(self, axis: int, around: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Return the first face of an axis and the shape of its faces, with layers of cells along the others."""
        z, y, x = (0 if d == axis else -around for d in range(3))
        nz, ny, nx = (n + (1 if d == axis else 2 * around) for d, n in enumerate(self.block.shape_local))
        return (z, y, x), (nz, ny, nx)

    def _axis(self, axis: int, numbers: Any) -> tuple[int, int, int, float]:
        """Return axis, pitch, cells and dt over the width, as kernels of advection take them."""
        _, row, plane = self._extent[0]
        return axis, (plane, row, 1)[axis], self.block.shape_local[axis], float(numbers[RATIOS + axis])

    def _others(self, axis: int, velocities: Any, hats: Any, numbers: Any) -> list[Any]:
        """Return what kernels read of the other axes: velocities across faces, states there, pitches, 1 / widths."""
        _, row, plane = self._extent[0]
        found: list[Any] = []
        for other in (d for d in range(3) if d != axis):
            pitch, per_width = (plane, row, 1)[other], float(numbers[PER_WIDTH + other])
            found += [velocities[other].flat, hats[other].flat, pitch, per_width]
        return found

    def _codes_of(self, number: int, axis: int) -> tuple[int, int]:
        low, high = self._codes[number, axis]
        return int(low), int(high)

    def _predict_faces(self, fields: tuple[BlockArray, ...], numbers: Any) -> None:
        layout, small = self._extent[0], float(numbers[SMALL_SPEED])
        kind = self.problem.reconstruction
        across, others = self._hats[:3], [self._hats[3 + 2 * axis : 5 + 2 * axis] for axis in range(3)]
        for axis in range(3):
            names = [normal_field(axis), other_field(axis, 1), other_field(axis, 2)]
            first, shape = self._faces_of(axis, 1)
            advection.set_velocity_hats[(*rows_launch(shape), self.stream)](
                *(fields[name].flat for name in names), layout, first, shape, *self._axis(axis, numbers), small,
                kind, *(self._codes_of(name, axis) for name in names), across[axis].flat,
                *(each.flat for each in others[axis]),
            )  # fmt: skip
        for axis in range(3):
            normal = normal_field(axis)
            hats = {d: others[d][int(other_field(d, 2) == normal)] for d in range(3) if d != axis}
            first, shape = self._faces_of(axis, 0)
            advection.set_normal_faces[(*rows_launch(shape), self.stream)](
                fields[normal].flat, self._tendencies[normal].flat, layout, first, shape,
                *self._axis(axis, numbers), float(numbers[HALF_DT]), small, kind, self._codes_of(normal, axis),
                *self._others(axis, across, hats, numbers), self._faces[axis].flat,
            )  # fmt: skip

    def _advect_field(
        self, number: int, q: BlockArray, force: BlockArray, numbers: Any, target: BlockArray
    ) -> None:
        layout, small = self._extent[0], float(numbers[SMALL_SPEED])
        kind, hats = self.problem.reconstruction, self._hats[:3]
        for axis in range(3):
            first, shape = self._faces_of(axis, 1)
            advection.set_hats[(*rows_launch(shape), self.stream)](
                q.flat, self._faces[axis].flat, layout, first, shape, *self._axis(axis, numbers), small, kind,
                self._codes_of(number, axis), hats[axis].flat,
            )  # fmt: skip
        for axis in range(3):
            self._launch(
                advection.add_fluxes, q.flat, force.flat, self._faces[axis].flat, *self._extent,
                *self._axis(axis, numbers), float(numbers[PER_WIDTH + axis]), float(numbers[HALF_DT]), small,
                kind, self._codes_of(number, axis), *self._others(axis, self._faces, hats, numbers),
                float(numbers[KEPT]), float(numbers[ADDED]), target.flat,
            )  # fmt: skip

    # ---- sides ----

    def fill_sides(self, fields: Any) -> None:
        """Fill the ghosts beyond the sides of all fields, given as a set or by its number."""
        fields = self._sets[fields] if isinstance(fields, int) else fields
        for axis, last in self._sides:
            side = self.problem.at(axis, last)
            assert side is not None
            for number, (field, condition) in enumerate(zip(fields, side.fields, strict=True)):
                offset, sign = 0.0, 1.0
                if condition.fixed:
                    offset, sign = 2.0 * float(self._value_at(number, axis, last)), -1.0
                mirror_at(field, axis, last, field.block.ghost, offset, sign, self.stream)

    def _extend(self, field: BlockArray, axes: Any) -> None:
        for axis, last in self._sides:
            if axis in axes:
                mirror_at(field, axis, last, 1, 0.0, 1.0, self.stream)

    def _set_last_faces(self, face: BlockArray, axis: int, value: Any) -> None:
        begin, _, steps, counts = side_of(face, axis, True)
        fill_layer[(*fill_layer_launch(counts), self.stream)](face.flat, begin, steps, counts, float(value))

    def _add_side_fluxes(self, out: tuple[BlockArray, ...]) -> None:
        for axis, last in self._sides:
            side = self.problem.at(axis, last)
            assert side is not None
            for number, condition in enumerate(side.fields):
                if not condition.fixed and condition.value:
                    begin, steps, counts = layer_inside(out[number], axis, last)
                    flux = float(self._value_at(number, axis, last)) * self._per_width[axis]
                    tendencies.add_to_layer[(*fill_layer_launch(counts), self.stream)](
                        out[number].flat, begin, steps, counts, flux
                    )
