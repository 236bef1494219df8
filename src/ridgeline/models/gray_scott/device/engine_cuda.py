"""Gray-Scott on one NVIDIA GPU per rank: fields that stay on the device, and the exchange of their faces.

`StreamTrace` records when each stream of the GPU was at work, for `ridgeline run --trace`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.fields_cuda import SCAN_THREADS, DeviceKernel, count_nonfinite, scan_grid
from ridgeline.blocks.halo import HaloExchange
from ridgeline.blocks.halo_cuda import CudaPacker
from ridgeline.blocks.overlap import CellRange, split_for_overlap
from ridgeline.jit.cuda_device import make_stream
from ridgeline.jit.cuda_random import device_key
from ridgeline.jit.random import Generator
from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.device.kernels_cuda import (
    BoxLaunch,
    Shape,
    Stream,
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
from ridgeline.models.gray_scott.engine import OUTSIDE
from ridgeline.models.gray_scott.estimate import PAD_ROWS, SETS, device_bytes, exchange_plan
from ridgeline.models.gray_scott.physics import Coefficients
from ridgeline.parallel.devices import mpi_takes_device_buffers, require_device_memory, select_device
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.regions import Span, Timeline

if TYPE_CHECKING:
    from mpi4py import MPI


ADVICE = 'Use more GPUs (-n), a smaller grid.shape or run.precision = "float32".'
WAVES = 4  # of the sweep's thread blocks, while faces wait for their turn on the device
NO_CELLS: CellRange = (0, 0, 0, 0, 0, 0)


class _Exchange(NamedTuple):
    """An exchange of faces, and the boxes of local cells that it makes of the block."""

    packer: CudaPacker
    halo: HaloExchange
    face_boxes: list[CellRange]
    rest_boxes: list[CellRange]

    @property
    def layers(self) -> int:
        """Layers of ghosts that it fills."""
        return self.packer.plan.layers or 1

    def boxes_and_waves(self) -> list[tuple[CellRange, int]]:
        """Return each box, and in how many waves of thread blocks it is swept at least."""
        rest_waves = WAVES if self.face_boxes else 1
        return [(box, 1) for box in self.face_boxes] + [(box, rest_waves) for box in self.rest_boxes]


class CudaEngine:
    """Fields and sweeps on a GPU (see `engine.Engine`).

    Directions in which the block is periodic with itself are wrapped by the sweep. If other ranks need faces, the
    cells next to them are swept and packed on an urgent stream, while the rest is swept on another. The host holds
    one copy of the present fields in pinned memory, for input, output and diagnostics. With ghosts of two layers
    there is an exchange of one layer, and one of two layers for launches of two steps.

    Attributes
    ----------
    steps_per_sweep, steps_per_call : of a launch, 1 until `set_steps_per_sweep` changes it
    device : the GPU of this rank
    transport : how faces travel, in words
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

        The arguments are those of `engine_cpu.CpuEngine`. Raises DeviceError if there is no GPU for a rank, or if it
        has too little free memory; the message has the sum.
        """
        assert block.ghost <= 2, "launches of two steps need at most two layers of ghosts"
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
        self._rings = tuple(n if wraps else 0 for n, wraps in zip(block.shape_global, block.periodic))

        self._host = [_pinned_field(block, self._dtype, outside) for outside in OUTSIDE]
        self._sets = [[_device_field(field) for field in self._host] for _ in range(SETS)]
        for fields in self._sets:  # also for the ghosts beyond a fixed boundary, which nothing writes again
            self._upload(fields)
        self._now, self._host_is_present = 0, True
        self._nonfinite_count = cuda.to_device(np.zeros(1, np.int64))

        self._rest_stream, self._face_stream = make_stream(), make_stream(urgent=True)
        # For each set of fields, events behind the work that was last put on a stream to write that set.
        self._rest_done, self._faces_done = [cuda.event(), cuda.event()], [cuda.event(), cuda.event()]
        device_buffers = mpi_takes_device_buffers()
        self.transport = "GPU-aware MPI" if device_buffers else "pinned host memory"
        self._exchanges = {
            layers: self._plan_exchange(cartesian, layers, device_buffers)
            for layers in range(1, block.ghost + 1)
        }
        self._filled = 0  # layers of ghosts that the present fields have from other ranks
        self._trace: StreamTrace | None = None  # where the run writes a timeline
        self._launches: dict[CellRange, BoxLaunch] = {}
        self._two_launches: dict[CellRange, tuple[DeviceKernel, BoxLaunch]] = {}  # with the sweep of each
        self._plan_launches(default_shape(self._dtype))
        self.set_steps_per_sweep(1)

    def _plan_exchange(self, cartesian: MPI.Cartcomm, layers: int, device_buffers: bool) -> _Exchange:
        """Plan the exchange of so many layers, allocate its buffers, and cut the block for it. Collective."""
        plan = exchange_plan(self._block, self._dtype, len(OUTSIDE), layers)
        packer = CudaPacker(plan, self._sets, self._face_stream, device_buffers)
        faces = {
            (axis, side)
            for d in plan.directions
            if sum(map(abs, d)) == 1
            for axis, side in enumerate(d)
            if side
        }
        boxes = split_for_overlap(self._block, faces, layers)
        return _Exchange(packer, HaloExchange(cartesian, packer, self.transport), *boxes)

    def set_steps_per_sweep(self, steps: int, tile: TwoStepTile | None = None) -> None:
        """Advance by 1 or 2 steps a launch from now on, which changes nothing but the speed; compile afterwards.

        tile: of launches of two steps; None for the default of each box, others are for measuring.

        Raises DeviceError for two steps where other ranks need faces, and fields have ghosts of one layer.
        """
        if steps > self._block.ghost and self._exchanges[1].face_boxes:
            raise DeviceError(
                "two steps per launch on several GPUs require fields with two layers of ghosts, but these have one."
            )
        self.steps_per_sweep = self.steps_per_call = steps
        self._exchange = self._exchanges[min(steps, self._block.ghost)]
        self._tile = tile
        halo = self._exchange.halo
        self.bytes_exchanged = halo.bytes_sent / steps
        self.messages = halo.messages_sent / steps
        what = "faces and edges" if self._exchange.layers > 1 else "faces"
        exchange = f"{what} sent by {self.transport}" if self._exchange.face_boxes else "no faces to exchange"
        self.method = f"{steps} step{'s' * (steps > 1)} per sweep on {self.device}, {exchange}"

    def compile(self) -> None:
        """Compile or load the kernels by launching them on no cells."""
        self._compile_sweep(None)
        if self.steps_per_sweep > 1:
            cut_z, cut_y, cut_x = (p > 1 for p in self._block.process_grid)
            for box, waves in self._exchange.boxes_and_waves():
                z0, z1, y0, y1, x0, x1 = box
                tile = self._tile or default_tile(self._dtype, (z1 - z0, y1 - y0, x1 - x0))
                sweep = make_two_step_sweep(
                    self._dtype, self._host[0].row_pitch, tile, self._generator, (cut_z, cut_y, cut_x)
                )
                launch = two_step_launch(
                    box, self._block.offset_global[1], tile, self.device.multiprocessors, waves
                )
                self._two_launches[box] = sweep, launch
                no_planes = BoxLaunch((1, 1, 1), launch.block, 0)
                self._launch_two(sweep, NO_CELLS, 0, self._rest_stream, no_planes)
            self._rest_stream.synchronize()
        self._exchange.packer.compile()
        self.nonfinite()

    def use(self, shape: Shape) -> None:
        """Compile and launch the sweep with another shape, to measure it. The results are the same bits."""
        self._plan_launches(shape)
        self._compile_sweep(shape)

    def host(self) -> tuple[NDArray[Any], NDArray[Any]]:
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
        cuda.synchronize()
        for field in self._host:
            _wrap_ghosts(field, self._wrap)
        self._upload(self._sets[self._now])
        self._fill_ghosts()

    def _fill_ghosts(self) -> None:
        """Exchange the ghosts of the present fields; the device does nothing else. Collective, with neighbours."""
        cuda.synchronize()
        self._exchange.halo.exchange(self._now)
        cuda.synchronize()
        self._filled = self._exchange.layers

    def use_coefficients(self, coefficients: Coefficients) -> None:
        self._c = device_coefficients(coefficients)

    def squares(self) -> list[tuple[float, float]]:
        new = [np.array(field, np.float64) for field in self.host()]
        # The host's copy holds the old fields for a moment.
        for host, field in zip(self._host, self._sets[1 - self._now]):
            _window(field, host).copy_to_host(host.flat)
        self._host_is_present = False
        old = [np.array(field.owned, np.float64) for field in self._host]
        return [
            (float(np.square(after - before).sum()), float(np.square(after).sum()))
            for after, before in zip(new, old)
        ]

    def advance(self, step: int, most: int) -> int:
        steps = min(most, self.steps_per_sweep)
        now, new = self._now, 1 - self._now
        regions, exchange = self._context.regions, self._exchange
        if self._filled < exchange.layers:  # launches had one step until now
            with regions("exchange"):
                self._fill_ghosts()
        with regions("compute"):
            if exchange.face_boxes:  # each stream waits for what the other wrote in the previous step
                self._faces_done[now].wait(self._rest_stream)
                self._rest_done[now].wait(self._face_stream)
                with self._traced("sweep next to faces", "faces", self._face_stream):
                    for box in exchange.face_boxes:
                        self._run(box, step, steps, self._face_stream)
                self._faces_done[new].record(self._face_stream)
                with self._traced("pack", "faces", self._face_stream):
                    exchange.packer.enqueue_pack(new)
            with self._traced("sweep", "rest", self._rest_stream):
                for box in exchange.rest_boxes:
                    self._run(box, step, steps, self._rest_stream)
            self._rest_done[new].record(self._rest_stream)
            self._rest_done[now].synchronize()
        if exchange.face_boxes:
            with regions("exchange"):
                exchange.halo.exchange(new)
        self._now, self._host_is_present = new, False
        self._filled = exchange.layers
        return steps

    def _traced(self, name: str, lane: str, stream: Stream) -> AbstractContextManager[None]:
        """Record a piece of work on a stream if there is a timeline."""
        timeline = self._context.regions.timeline
        if timeline is None:
            return nullcontext()
        if self._trace is None or self._trace.timeline is not timeline:
            self._trace = StreamTrace(timeline)
        return self._trace.on_stream(name, lane, stream)

    def nonfinite(self) -> int:
        self._nonfinite_count.copy_to_device(np.zeros(1, np.int64))
        cuda.synchronize()
        for field in self._sets[self._now]:
            layout = field.origin, field.row_pitch, field.plane_pitch
            shape = self._block.shape_local
            count_nonfinite[scan_grid(shape), SCAN_THREADS, self._rest_stream](
                field.flat, layout, shape, self._nonfinite_count
            )
        self._rest_stream.synchronize()
        return int(self._nonfinite_count.copy_to_host()[0])

    def allocated(self) -> int:
        return sum(int(field.flat.nbytes) for fields in self._sets for field in fields)

    def _upload(self, fields: list[BlockArray]) -> None:
        """Copy the host's fields, ghosts included, to the device."""
        for host, field in zip(self._host, fields):
            _window(field, host).copy_to_device(host.flat)

    def _plan_launches(self, shape: Shape) -> None:
        """Plan how each box is launched for one step."""
        for exchange in self._exchanges.values():
            for box, waves in exchange.boxes_and_waves():
                box_shape = shape._replace(waves=max(waves, shape.waves)) if waves > 1 else shape
                self._launches[box] = launch_shape(
                    box, self._block.offset_global[1], box_shape, self.device.multiprocessors
                )

    def _compile_sweep(self, shape: Shape | None) -> None:
        """Compile or load the sweep of one step by launching it on an empty box."""
        self._sweep = make_sweep(self._dtype, self._host[0].row_pitch, shape, self._generator)
        self._launch_one(NO_CELLS, 0, self._rest_stream, BoxLaunch((1, 1, 1), (1, 1, 1), 1))
        self._rest_stream.synchronize()

    def _run(self, box: CellRange, step: int, steps: int, stream: Stream) -> None:
        """Put a sweep of one box of local cells from the present fields into the others on a stream."""
        if steps > 1:
            sweep, launch = self._two_launches[box]
            self._launch_two(sweep, box, step, stream, launch)
        else:
            self._launch_one(box, step, stream, self._launches[box])

    def _launch_two(
        self, sweep: DeviceKernel, box: CellRange, step: int, stream: Stream, launch: BoxLaunch
    ) -> None:
        block = self._block
        place = (*box, *block.offset_global) if block.n_ranks > 1 else ()
        (u, v), (out_u, out_v) = self._sets[self._now], self._sets[1 - self._now]
        sweep[launch.grid, launch.block, stream](
            u.flat,
            v.flat,
            (u.origin, u.plane_pitch),
            block.shape_global,
            place,
            launch.planes,
            self._rings,
            step,
            self._key,
            self._c,
            out_u.flat,
            out_v.flat,
        )

    def _launch_one(self, box: CellRange, step: int, stream: Stream, launch: BoxLaunch) -> None:
        (u, v), (out_u, out_v) = self._sets[self._now], self._sets[1 - self._now]
        self._sweep[launch.grid, launch.block, stream](
            u.flat,
            v.flat,
            (u.origin, u.plane_pitch),
            box,
            launch.planes,
            self._block.offset_global,
            self._wrap,
            step,
            self._key,
            self._c,
            out_u.flat,
            out_v.flat,
        )


def _pinned_field(block: Block, dtype: np.dtype[Any], outside: float) -> BlockArray:
    """Allocate a field in pinned host memory, every cell set to `outside`."""
    plain = BlockArray.allocate(block, dtype, outside)
    flat = cuda.pinned_array(plain.flat.shape, dtype)
    flat[:] = plain.flat
    return BlockArray(block, flat, plain.origin, plain.row_pitch, plain.plane_pitch)


def _device_field(host: BlockArray) -> BlockArray:
    """Allocate the device's twin of a host field: the same layout between PAD_ROWS rows of padding."""
    flat = cuda.device_array(int(host.flat.size + 2 * PAD_ROWS * host.row_pitch), host.flat.dtype)
    origin = host.origin + PAD_ROWS * host.row_pitch
    return BlockArray(host.block, flat, origin, host.row_pitch, host.plane_pitch)


def _window(field: BlockArray, host: BlockArray) -> Any:
    """Return the part of a device field that the host's copy mirrors."""
    start = PAD_ROWS * host.row_pitch
    return field.flat[start : start + host.flat.size]


def _wrap_ghosts(field: BlockArray, wrap: tuple[int, ...]) -> None:
    """Fill the first layer of a host field's ghosts across the boundaries that the sweep wraps."""
    ghost = field.block.ghost
    inside = slice(ghost, -ghost)
    for axis, extent in enumerate(wrap):
        if extent:
            place: list[slice | int] = [inside, inside, inside]
            for outside, owned in ((-1, extent - 1), (extent, 0)):
                source, target = list(place), list(place)
                source[axis], target[axis] = ghost + owned, ghost + outside
                field.ghosted[tuple(target)] = field.ghosted[tuple(source)]


class StreamTrace:
    """Spans of work on the streams of one rank's device, on the clock of the host beside it: a source of a timeline.

    Events before and after a span of work on a stream give its times on the device. To relate them to the host's
    clock, that is read when an event has been recorded on an idle device. Streams and host are then on one axis, to
    some microseconds. Making it waits for the device. Recording an event costs a launch, so that traced steps take
    some microseconds longer.
    """

    def __init__(self, timeline: Timeline) -> None:
        cuda.synchronize()
        self._start = cuda.event()
        self._start.record()
        self._start.synchronize()
        self._host_start = time.perf_counter()
        self._on_streams: list[tuple[str, str, Any, Any]] = []
        self.timeline = timeline
        timeline.sources.append(self.spans)

    @contextmanager
    def on_stream(self, name: str, lane: str, stream: Stream) -> Iterator[None]:
        """Record the work that is put on a stream inside the block. lane: the stream's line in the timeline."""
        begin, end = cuda.event(), cuda.event()
        begin.record(stream)
        yield
        end.record(stream)
        self._on_streams.append((name, lane, begin, end))

    def spans(self) -> Iterator[Span]:
        """Yield the recorded spans; waits for the device."""
        cuda.synchronize()
        for name, lane, *ends in self._on_streams:
            begin, end = (self._host_start + 1e-3 * self._start.elapsed_time(event) for event in ends)
            yield Span(name, lane, begin, end)
