"""Reaction-diffusion on one NVIDIA GPU per rank: species that stay on the device, and the exchange of their faces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.fields_cuda import SCAN_THREADS, count_nonfinite, scan_grid
from ridgeline.blocks.halo import HaloExchange, HaloPlan
from ridgeline.blocks.halo_cuda import CudaPacker
from ridgeline.jit.cuda_device import DeviceArray, make_stream, part
from ridgeline.jit.cuda_random import device_key
from ridgeline.models.contract import Context
from ridgeline.models.reaction_diffusion.device.kernels_cuda import (
    make_sweep,
    set_sides,
    sides_launch,
    sweep_launch,
)
from ridgeline.models.reaction_diffusion.engine_cpu import numbers_of, program_of_case
from ridgeline.models.reaction_diffusion.estimate import device_bytes
from ridgeline.models.reaction_diffusion.initial import seed_of
from ridgeline.models.reaction_diffusion.schemes import SchemeStage, stages_of
from ridgeline.models.reaction_diffusion.settings import ReactionDiffusionCase
from ridgeline.models.reaction_diffusion.sides import SideTables
from ridgeline.parallel.devices import mpi_takes_device_buffers, require_device_memory, select_device

if TYPE_CHECKING:
    from mpi4py import MPI

ADVICE = 'Use more GPUs (-n), a smaller grid.shape or run.precision = "float32".'


class CudaEngine:
    """Species and sweeps on a GPU (see `engine.ReactionEngine`).

    A stage sets the ghosts beyond sides, sweeps the block, and exchanges faces; all on one stream. The host holds one
    copy of the present fields in pinned memory, for input, output and diagnostics.
    """

    steps_per_sweep = steps_per_call = 1

    def __init__(
        self, block: Block, cartesian: MPI.Cartcomm, case: ReactionDiffusionCase, context: Context
    ) -> None:
        """Allocate both sets of fields and plan the exchange. Collective over cartesian.

        The arguments are those of `engine_cpu.CpuEngine`. Raises DeviceError if there is no GPU for a rank, or if it
        has too little free memory; the message has the sum.
        """
        self.device = select_device(cartesian)
        require_device_memory(cartesian, self.device, device_bytes(case, block), ADVICE)
        self._case, self._block, self._context = case, block, context
        self._dtype = np.dtype(case.run.precision)
        n_fields = len(case.species)
        self._program = program_of_case(case)
        self._stages = case.stages()
        self._times, self._dt = [case.begin_time()], case.model.dt
        keys = [device_key(seed_of(case.run.seed, n)) for n in range(sum(self._program.noisy))]
        self._keys = tuple(number for key in keys for number in key)

        self._host = [_pinned_field(block, self._dtype) for _ in range(n_fields)]
        layout = self._host[0]
        size = layout.flat.size
        self._layout = layout.origin, layout.plane_pitch, size
        self._whole = [cuda.to_device(np.zeros(n_fields * size, self._dtype)) for _ in range(2)]
        self._sets = [
            [
                BlockArray(
                    block,
                    part(whole, n * size, (n + 1) * size),
                    layout.origin,
                    layout.row_pitch,
                    layout.plane_pitch,
                )
                for n in range(n_fields)
            ]
            for whole in self._whole
        ]
        self._now, self._host_is_present = 0, True
        self._nonfinite_count = cuda.to_device(np.zeros(1, np.int64))
        self._numbers: list[Any] = []  # of each stage, for steps of the length _numbers_dt
        self._numbers_dt = 0.0
        self._tables = SideTables(
            case.sides, case.model.parameters, block, case.grid.spacing(), self._dtype, case.begin_time()
        )
        values, places, weights = self._tables.sides
        self._side_values = cuda.to_device(values)
        self._side_places, self._side_weights = (
            cuda.to_device(np.ascontiguousarray(each).reshape(-1)) for each in (places, weights)
        )
        self._has_sides = bool(weights.any())

        self._stream = make_stream()
        self._done = [cuda.event(), cuda.event()]  # behind the sweep that wrote each set last
        device_buffers = mpi_takes_device_buffers()
        transport = "GPU-aware MPI" if device_buffers else "pinned host memory"
        plan = HaloPlan(block, n_fields, self._dtype.itemsize)
        self._packer = CudaPacker(plan, self._sets, self._stream, device_buffers)
        self._halo = HaloExchange(cartesian, self._packer, transport)
        self.bytes_exchanged = float(self._halo.bytes_sent * len(self._stages))
        self.messages = float(self._halo.messages_sent * len(self._stages))
        exchange = f"faces sent by {transport}" if plan.messages else "no faces to exchange"
        sweeps = f"{len(self._stages)} sweep{'s' * (len(self._stages) > 1)} per step"
        self.method = f"{sweeps} on {self.device}, {exchange}"

    def compile(self) -> None:
        """Compile or load the kernels by launching them on no cells."""
        programs = [self._program._replace(combines=n > 0) for n in range(len(self._stages))]
        self._sweeps = [make_sweep(program, self._dtype, self._host[0].row_pitch) for program in programs]
        self.use_times(self._times, self._dt)
        for stage in range(min(len(self._sweeps), 2)):
            self._launch(stage, 0, 0.0, (0, 0, 0))
        self._set_sides()
        self._stream.synchronize()
        self._packer.compile()
        self.nonfinite()

    def use_times(self, times: list[float], dt: float) -> None:
        """Let the next sweep make a step that begins at this time, of length dt."""
        self._times, self._dt = times, dt
        self._stages = stages_of(self._case.model.scheme, len(self._stages), dt)
        if dt != self._numbers_dt:
            self._stream.synchronize()
            self._numbers_dt = dt
            self._numbers = [
                cuda.to_device(numbers_of(self._case, self._program, [0.0], stage)[0])
                for stage in self._stages
            ]

    def host(self) -> tuple[NDArray[Any], ...]:
        return tuple(field.owned for field in self.fields())

    def fields(self) -> tuple[BlockArray, ...]:
        """Return the host's copy of the species, brought up to date; ghosts are stale."""
        if not self._host_is_present:
            self._stream.synchronize()
            for host, field in zip(self._host, self._of_set(self._now), strict=True):
                field.copy_to_host(host.flat)
            self._host_is_present = True
        return tuple(self._host)

    def commit(self) -> None:
        self._stream.synchronize()
        for host, field in zip(self._host, self._of_set(self._now), strict=True):
            field.copy_to_device(host.flat)
        self._host_is_present = True
        self._halo.exchange(self._now)
        self._stream.synchronize()

    def advance(self, step: int, most: int) -> int:
        regions = self._context.regions
        for n, stage in enumerate(self._stages):
            time, now, new = self._times[0] + stage.at * self._dt, self._now, 1 - self._now
            with regions("compute"):
                self._sweep(n, step, time)
                self._done[new].record(self._stream)
                self._done[now].synchronize()
            with regions("exchange"):
                self._halo.exchange(new)
            self._now, self._host_is_present = new, False
        return 1

    def squares(self) -> list[tuple[float, float]]:
        """Return the sums over this rank's cells of (change in a step)^2 and u^2 of each species."""
        present = [np.array(field, np.float64) for field in self.host()]
        if len(self._stages) > 1:  # the other set is of an earlier stage: make a step of forward Euler there
            euler = numbers_of(self._case, self._program, [0.0], SchemeStage(0.0, self._dt))
            kept, self._numbers = self._numbers, [cuda.to_device(euler[0])]
            self._sweep(0, 0, self._times[-1])
            self._stream.synchronize()
            self._numbers = kept
        sums = []
        for values, field, host in zip(present, self._of_set(1 - self._now), self._host, strict=True):
            layout = host.origin, host.row_pitch, host.plane_pitch
            other = BlockArray(self._block, field.copy_to_host(), *layout)
            change = np.square(values - np.array(other.owned, np.float64)).sum()
            sums.append((float(change), float(np.square(values).sum())))
        return sums

    def nonfinite(self) -> int:
        """Return how many owned cells of all species are not finite, without copying them to the host."""
        self._nonfinite_count.copy_to_device(np.zeros(1, np.int64))
        shape = self._block.shape_local
        for field in self._sets[self._now]:
            layout = field.origin, field.row_pitch, field.plane_pitch
            count_nonfinite[scan_grid(shape), SCAN_THREADS, self._stream](
                field.flat, layout, shape, self._nonfinite_count
            )
        self._stream.synchronize()
        return int(self._nonfinite_count.copy_to_host()[0])

    def allocated(self) -> int:
        """Return the bytes of both sets of fields."""
        return sum(int(whole.nbytes) for whole in self._whole)

    def _of_set(self, which: int) -> list[DeviceArray]:
        """Return the species of a set on the device."""
        return [field.flat for field in self._sets[which]]

    def _sweep(self, stage: int, step: int, time: float) -> None:
        """Put a stage at a time on the stream, from the present fields into the others."""
        if self._tables.varies:
            self._stream.synchronize()
            self._tables.update([time])
            self._side_values.copy_to_device(self._tables.sides.values)
        if self._has_sides:
            self._set_sides()
        self._launch(stage, step, time, self._block.shape_local)

    def _set_sides(self) -> None:
        shape, row_pitch = self._block.shape_local, self._host[0].row_pitch
        grid, threads = sides_launch(shape, len(self._host))
        set_sides[grid, threads, self._stream](
            self._whole[self._now],
            self._layout,
            row_pitch,
            shape,
            self._side_values,
            self._side_places,
            self._side_weights,
        )

    def _launch(self, stage: int, step: int, time: float, shape: tuple[int, int, int]) -> None:
        block = self._block
        grid, threads = sweep_launch(block.shape_local, block.offset_global[1])
        self._sweeps[stage][grid, threads, self._stream](
            self._whole[self._now],
            self._whole[1 - self._now],
            self._layout,
            shape,
            block.offset_global,
            step,
            self._dtype.type(time),
            self._keys,
            self._numbers[stage],
        )


def _pinned_field(block: Block, dtype: np.dtype[Any]) -> BlockArray:
    """Allocate a field of zeros in pinned host memory."""
    plain = BlockArray.allocate(block, dtype)
    flat = cuda.pinned_array(plain.flat.shape, dtype)
    flat[:] = 0
    return BlockArray(block, flat, plain.origin, plain.row_pitch, plain.plane_pitch)
