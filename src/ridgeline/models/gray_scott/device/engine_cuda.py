"""Gray-Scott on one NVIDIA GPU per rank: fields that stay on the device, and the exchange of their faces."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange
from ridgeline.blocks.halo_cuda import CudaPacker
from ridgeline.jit.cuda_device import make_stream
from ridgeline.jit.cuda_random import device_key
from ridgeline.jit.random import Generator
from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.boxes import Box, split_for_overlap
from ridgeline.models.gray_scott.device.kernels_cuda import (
    BoxLaunch,
    Shape,
    default_shape,
    device_coefficients,
    launch_shape,
    make_sweep,
)
from ridgeline.models.gray_scott.device.kernels_two_cuda import (
    TwoStepTile,
    default_tile,
    make_two_step_sweep,
    two_step_launch,
)
from ridgeline.models.gray_scott.device.memory import PAD_ROWS, SETS, device_bytes, exchange_plan
from ridgeline.models.gray_scott.device.scan_cuda import THREADS, count_nonfinite, grid_of
from ridgeline.models.gray_scott.device.stream_trace import StreamTrace
from ridgeline.models.gray_scott.physics import Coefficients
from ridgeline.parallel.devices import mpi_takes_device_buffers, require_device_memory, select_device
from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    from mpi4py import MPI

OUTSIDE = (1.0, 0.0)  # u, v beyond a fixed boundary
ADVICE = 'use more GPUs (-n), a smaller grid.shape or run.precision = "float32"'
WAVES = 4  # of the sweep's thread blocks, while faces wait for their turn on the device


class CudaEngine:
    """Fields and sweeps on a GPU (see `model.Engine`).

    Directions in which the block is periodic with itself are wrapped by the sweep. If other ranks need faces,
    the cells next to them are swept and packed on an urgent stream, while the rest is swept on another.
    The host holds one copy of the present fields in pinned memory, for input, output and diagnostics.

    steps_per_sweep: of a launch, 1 until `take_steps` says otherwise.
    """

    def __init__(
        self,
        block: Block,
        cartesian: MPI.Cartcomm,
        coefficients: Coefficients,
        noise: tuple[Generator, int],
        dtype: DTypeLike,
        context: Context,
    ) -> None:
        """Allocate both sets of fields and plan the exchange. Collective over cartesian.

        noise: how its numbers are made, and the seed.

        Raises DeviceError if there is no GPU for a rank or, with the sum, too little free memory on it.
        """
        assert block.ghost == 1, "launches of two steps need no more"
        self.device = select_device(cartesian)
        self._needed = device_bytes(block, dtype, len(OUTSIDE))
        require_device_memory(cartesian, self.device, self._needed, ADVICE)
        self._block, self._context = block, context
        self._dtype = np.dtype(dtype)
        self._c = device_coefficients(coefficients)
        self._generator, seed = noise
        self._key = device_key(seed) if coefficients.noise else ()
        alone = [p == 1 and wraps for p, wraps in zip(block.process_grid, block.periodic)]
        self._wrap = tuple(n if own else 0 for n, own in zip(block.shape_local, alone))

        self._host = [_pinned_field(block, self._dtype, outside) for outside in OUTSIDE]
        self._sets = [[_device_field(field) for field in self._host] for _ in range(SETS)]
        for fields in self._sets:  # also for the ghosts beyond a fixed boundary, which nothing writes again
            self._upload(fields)
        self._now, self._host_is_present = 0, True
        self._found = cuda.to_device(np.zeros(1, np.int64))

        self._rest_stream, self._face_stream = make_stream(), make_stream(urgent=True)
        # One of each per set of fields: what was last put on a stream to write that set.
        self._rest_done, self._faces_done = [cuda.event(), cuda.event()], [cuda.event(), cuda.event()]
        plan = exchange_plan(block, self._dtype, len(OUTSIDE))
        device_buffers = mpi_takes_device_buffers()
        self._packer = CudaPacker(plan, self._sets, self._face_stream, device_buffers)
        faces = {(axis, side) for d in plan.directions for axis, side in enumerate(d) if side}
        self._face_boxes, self._rest_boxes = split_for_overlap(block, faces)
        way = "GPU-aware MPI" if device_buffers else "pinned host memory"
        self._halo = HaloExchange(cartesian, self._packer, way)
        self.bytes_exchanged = float(self._halo.bytes_sent)
        self.messages = float(self._halo.messages_sent)
        self._exchange = f"faces through {way}" if faces else "no faces to exchange"
        self._trace: StreamTrace | None = None  # while somebody looks at what overlaps
        self._launches: dict[Box, BoxLaunch] = {}
        self._plan_launches(default_shape(self._dtype))
        self.steps_per_sweep = 1
        self.take_steps(1)

    def take_steps(self, steps: int, tile: TwoStepTile | None = None) -> None:
        """Advance by 1 or 2 steps a launch from now on, which changes the speed alone; compile afterwards.

        tile: of two steps; None for the default, others are for measuring.

        Raises DeviceError for two steps where other ranks need faces.
        """
        if steps > 1 and self._face_boxes:
            raise DeviceError(
                "two steps a launch need the whole grid on one GPU; set model.steps_per_sweep = 1 or start one rank"
            )
        self.steps_per_sweep = steps
        self._tile = tile or default_tile(self._dtype, self._block.shape_local)
        self._tile_is_default = tile is None
        plural = "s" * (steps > 1)
        self.method = f"{steps} step{plural} per sweep on {self.device}, {self._exchange}"

    def compile(self) -> None:
        """Compile or load the kernels by running them on nothing."""
        self._compile_sweep(None)
        if self.steps_per_sweep > 1:
            self._compile_two_steps()
        self._packer.compile()
        self.nonfinite()

    def use(self, shape: Shape) -> None:
        """Compile and launch the sweep with another shape, to measure it. The results are the same bits."""
        self._plan_launches(shape)
        self._compile_sweep(shape)

    def host(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the owned u and v: views of the host's copy, brought up to date."""
        u, v = self.fields()
        return u.owned, v.owned

    def fields(self) -> tuple[BlockArray, BlockArray]:
        """Return the host's copy of u and v, brought up to date; ghosts that are exchanged are stale."""
        if not self._host_is_present:
            cuda.synchronize()
            for host, field in zip(self._host, self._sets[self._now]):
                _window(field, host).copy_to_host(host.flat)
            self._host_is_present = True
        u, v = self._host
        return u, v

    def commit(self) -> None:
        """Take over what was written into the arrays of `host`, and fill the ghosts. Neighbours."""
        cuda.synchronize()
        for field in self._host:
            _wrap_ghosts(field, self._wrap)
        self._upload(self._sets[self._now])
        cuda.synchronize()
        self._halo.exchange(self._now)
        cuda.synchronize()

    def advance(self, step: int, most: int) -> int:
        """Advance by one launch of at most `most` steps, return how many. Neighbours.

        Returns while the device is still at work, at most one launch behind.
        """
        steps = min(most, self.steps_per_sweep)
        now, new = self._now, 1 - self._now
        regions = self._context.regions
        with regions("compute"):
            if self._face_boxes:  # each stream waits for what the other wrote in the step before
                self._faces_done[now].wait(self._rest_stream)
                self._rest_done[now].wait(self._face_stream)
                with self._traced("sweep next to faces", "faces", self._face_stream):
                    for box in self._face_boxes:
                        self._run(box, step, self._face_stream)
                self._faces_done[new].record(self._face_stream)
                with self._traced("pack", "faces", self._face_stream):
                    self._packer.enqueue_pack(new)
            with self._traced("sweep", "rest", self._rest_stream):
                if steps > 1:
                    self._run_two_steps(step)
                else:
                    for box in self._rest_boxes:
                        self._run(box, step, self._rest_stream)
            self._rest_done[new].record(self._rest_stream)
            self._rest_done[now].synchronize()
        if self._face_boxes:
            with regions("exchange"):
                self._halo.exchange(new)
        self._now, self._host_is_present = new, False
        return steps

    def _traced(self, name: str, lane: str, stream: Any) -> AbstractContextManager[None]:
        """Record a piece of work on a stream if there is a timeline."""
        timeline = self._context.regions.timeline
        if timeline is None:
            return nullcontext()
        if self._trace is None or self._trace.timeline is not timeline:
            self._trace = StreamTrace(timeline)
        return self._trace.on_stream(name, lane, stream)

    def nonfinite(self) -> int:
        """Return how many owned cells of u and v are not finite, counted on the device."""
        self._found.copy_to_device(np.zeros(1, np.int64))
        cuda.synchronize()
        for field in self._sets[self._now]:
            layout = field.origin, field.row_pitch, field.plane_pitch
            shape = self._block.shape_local
            count_nonfinite[grid_of(shape), THREADS, self._rest_stream](
                field.flat, layout, shape, self._found
            )
        self._rest_stream.synchronize()
        return int(self._found.copy_to_host()[0])

    def allocated(self) -> int:
        """Return the bytes of both sets of fields on the device."""
        return sum(int(field.flat.nbytes) for fields in self._sets for field in fields)

    def _upload(self, fields: list[BlockArray]) -> None:
        """Copy the host's fields, ghosts included, to the device."""
        for host, field in zip(self._host, fields):
            _window(field, host).copy_to_device(host.flat)

    def _plan_launches(self, shape: Shape) -> None:
        """Decide once how each box is launched."""
        in_turns = shape._replace(waves=max(WAVES, shape.waves)) if self._face_boxes else shape
        for boxes, of_boxes in ((self._face_boxes, shape), (self._rest_boxes, in_turns)):
            for box in boxes:
                self._launches[box] = launch_shape(
                    box, self._block.offset_global[1], of_boxes, self.device.multiprocessors
                )

    def _compile_sweep(self, shape: Shape | None) -> None:
        """Compile or load the sweep by running it on an empty box."""
        self._sweep = make_sweep(self._dtype, self._host[0].row_pitch, shape, self._generator)
        self._run((0, 0, 0, 0, 0, 0), 0, self._rest_stream, BoxLaunch((1, 1, 1), (1, 1, 1), 1))
        self._rest_stream.synchronize()

    def _compile_two_steps(self) -> None:
        """Compile or load the sweep of two steps by running it on an empty grid."""
        tile, row_pitch = self._tile, self._host[0].row_pitch
        self._two_steps = make_two_step_sweep(
            self._dtype, row_pitch, tile, self._generator, self._tile_is_default
        )
        shape = self._block.shape_local
        self._two_step_launch = two_step_launch(shape, tile, self.device.multiprocessors)
        self._run_two_steps(0, BoxLaunch((1, 1, 1), (tile.along_x, tile.along_y, 1), 0))
        self._rest_stream.synchronize()

    def _run_two_steps(self, step: int, launch: BoxLaunch | None = None) -> None:
        """Put two steps of all cells from the present fields into the others on the stream of the rest."""
        launch = launch or self._two_step_launch
        (u, v), (out_u, out_v) = self._sets[self._now], self._sets[1 - self._now]
        self._two_steps[launch.grid, launch.block, self._rest_stream](
            u.flat, v.flat, (u.origin, u.plane_pitch), self._block.shape_local, launch.planes, self._wrap, step,
            self._key, self._c, out_u.flat, out_v.flat,
        )  # fmt: skip

    def _run(self, box: Box, step: int, stream: Any, launch: BoxLaunch | None = None) -> None:
        """Put the sweep of one box of local cells from the present fields into the others on a stream."""
        launch = launch or self._launches[box]
        (u, v), (out_u, out_v) = self._sets[self._now], self._sets[1 - self._now]
        self._sweep[launch.grid, launch.block, stream](
            u.flat, v.flat, (u.origin, u.plane_pitch), box, launch.planes, self._block.offset_global,
            self._wrap, step, self._key, self._c, out_u.flat, out_v.flat,
        )  # fmt: skip


def _pinned_field(block: Block, dtype: np.dtype[Any], outside: float) -> BlockArray:
    """Allocate a field in pinned host memory, every cell set to `outside`."""
    plain = BlockArray.allocate(block, dtype, outside)
    flat = cuda.pinned_array(plain.flat.shape, dtype)
    flat[:] = plain.flat
    return BlockArray(block, flat, plain.origin, plain.row_pitch, plain.plane_pitch)


def _device_size(host: BlockArray) -> int:
    return int(host.flat.size + 2 * PAD_ROWS * host.row_pitch)


def _device_field(host: BlockArray) -> BlockArray:
    """Allocate the device's twin of a host field: the same layout between PAD_ROWS rows of padding."""
    flat = cuda.device_array(_device_size(host), host.flat.dtype)
    origin = host.origin + PAD_ROWS * host.row_pitch
    return BlockArray(host.block, flat, origin, host.row_pitch, host.plane_pitch)


def _window(field: BlockArray, host: BlockArray) -> Any:
    """Return the part of a device field that the host's copy mirrors."""
    start = PAD_ROWS * host.row_pitch
    return field.flat[start : start + host.flat.size]


def _wrap_ghosts(field: BlockArray, wrap: tuple[int, ...]) -> None:
    """Fill a host field's ghosts across the boundaries that the sweep wraps."""
    inside = slice(1, -1)
    for axis, extent in enumerate(wrap):
        if extent:
            place: list[slice | int] = [inside, inside, inside]
            for ghost, owned in ((0, extent), (extent + 1, 1)):
                source, target = list(place), list(place)
                source[axis], target[axis] = owned, ghost
                field.ghosted[tuple(target)] = field.ghosted[tuple(source)]
