"""Turbulence on one NVIDIA GPU per rank: fields, transforms and substeps stay in device memory.

It is the counterpart of `engine_cpu.CpuEngine`, with the same schemes, tables and numbers. A substep brings velocity
and scalars from lines to points, forms products, brings their combinations back to lines (`products_cuda`), and
advances the stored fields (`kernels_cuda.make_advance`). The host has one copy of the fields, for input and
checkpoints; `fields` and `commit` keep it up to date. The transforms are those of `fourier.device.pipeline_cuda`.

Source: Yeung et al. (GESTS), Secs. 2 and 3; Rogallo, NASA TM-81315 (1981).
"""

from __future__ import annotations

import math
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.device.exchange_cuda import ExchangeMethod
from ridgeline.fourier.device.kernels_cuda import gather_modes, line_launch, scatter_modes
from ridgeline.fourier.device.layout import DeviceLayout
from ridgeline.fourier.device.pipeline_cuda import DevicePipeline
from ridgeline.fourier.device.transform_cuda import DeviceTransform
from ridgeline.fourier.modes import Lengths, Modes
from ridgeline.fourier.stages import RowOperation
from ridgeline.models.time_steps import next_step
from ridgeline.models.turbulence.device.damping_cuda import DeviceDamping
from ridgeline.models.turbulence.device.device_estimate import buffer_counts, device_bytes, exchange_groups
from ridgeline.models.turbulence.device.kernels_cuda import (
    PHASES,
    AxisTables,
    make_advance,
    make_force,
    make_load,
)
from ridgeline.models.turbulence.device.passes_cuda import CudaPasses
from ridgeline.models.turbulence.device.products_cuda import DeviceProducts
from ridgeline.models.turbulence.device.waves_cuda import DeviceWaves
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.kernels import N_COMBINED, N_VELOCITY
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.random_numbers import shift_of_step
from ridgeline.models.turbulence.runge_kutta import SCHEMES, courant_dt, displaced_grids
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    from mpi4py import MPI


class CudaEngine:
    """Holds and advances velocity and scalars of one rank on its GPU. Creating it is collective.

    Parameters and attributes are those of `engine_cpu.CpuEngine`, and further

    batch : Q, the variables of a message of the column exchange
    exchange : how messages between GPUs are sent

    Raises DeviceError if this rank has no GPU, or if the memory of the GPU is too small.
    """

    workspace = None

    def __init__(
        self,
        grid: PencilGrid,
        lengths: Lengths,
        comm: MPI.Comm,
        dtype: DTypeLike,
        flow: FlowParameters,
        batch: int = 1,
        exchange: ExchangeMethod = "auto",
    ) -> None:
        self.flow, self.comm, self.n_scalars = flow, comm, len(flow.schmidt)
        self._scheme = SCHEMES[flow.scheme]
        self._real: np.dtype[Any] = np.dtype(dtype)
        self.device = select_device(comm)
        self._n_fields, self._n_combined = N_VELOCITY + self.n_scalars, N_COMBINED + 2 * self.n_scalars
        layout = DeviceLayout.of(grid)
        counts = buffer_counts(layout, self.n_scalars, batch)
        self._batch = batch if counts.messages else 1
        self._inward, self._outward = exchange_groups(self.n_scalars, self._batch)
        groups = self._inward + self._outward
        self.slabs = DevicePipeline(grid, comm, dtype, counts, groups, exchange)
        self._memory = device_bytes(
            layout, self._real.itemsize, self.n_scalars, self._scheme.copies, self._batch
        )
        self._memory["work"] = self.slabs.work_bytes
        advice = 'Use more GPUs (-n), a smaller grid.shape or run.precision = "float32".'
        require_device_memory(comm, self.device, self._memory, advice)
        self.modes = Modes.of(grid, lengths)
        self.forcing = Forcing(self.modes, comm)
        self.time, self.step_index = 0.0, 0
        self.last_dt = self.last_courant_rate = float("nan")
        self.under_way = {"row": 0.0, "column": 0.0}
        self._shifted = self.modes.dealias == "phase-shift"
        self._allocate()
        kind: Any = self._real.type  # hashable
        self._load_lines = make_load(kind, self._shifted)
        self._advance_lines = {
            (last, summed): make_advance(kind, self.n_scalars, self._shifted, last, summed)
            for last in (False, True)
            for summed in (False, True)
        }
        self._add_force = {last: make_force(kind, self._shifted, last) for last in (False, True)}
        self.reset_timings()

    def _allocate(self) -> None:
        slabs, real, n_fields = self.slabs, self._real, self._n_fields
        slabs.allocate()
        self.transform = DeviceTransform(slabs, self.modes, real)
        size = 2 * slabs.layout.field_numbers
        self._field_size = size
        zeros = np.zeros(n_fields * size, real)
        self._state = cuda.to_device(zeros)
        self._sum = cuda.to_device(zeros) if self._scheme.copies == 2 else self._state
        self._host: NDArray[Any] = np.zeros((n_fields, self.modes.n_modes), self.transform.complex)
        self._host_is_present = True
        lines, nz = self.modes.lines, self.modes.shape[0]
        of_line = np.zeros((3, slabs.layout.n_lines), np.int32)
        of_line[2] = -1  # places beyond the lines of this rank have no modes
        of_line[:, : lines.n_lines] = lines.jx, lines.jz % nz, lines.most
        self._of_line = cuda.to_device(of_line.ravel())
        layout, ny = slabs.layout, self.modes.shape[1]
        self._tables = AxisTables(self.modes, self.flow.decays_apart, real, slabs.stream)
        k = self._tables.k[0], self._tables.k[2]
        gradients = self.flow.mean_gradients
        self.products = DeviceProducts(
            slabs, real, k, self.modes.lengths, gradients, self._inward, self._outward
        )
        self._sizes = layout.n_lines, ny, layout.rows, self._tables.n_columns, nz
        self._waves = DeviceWaves(self.flow, self.modes, self._sizes, self._of_line, slabs.stream)
        self._damping = DeviceDamping(self.flow, self.modes, self._sizes, self._of_line, slabs.stream)
        self._forced = ForcedModes(self.modes, layout, real, slabs.stream)
        self.passes = CudaPasses(
            slabs, self.transform, self.modes, self._tables, self._of_line, self.n_scalars
        )

    def compile(self) -> None:
        """Compile or load the kernels by launching them on nothing. No communication."""
        slabs, real = self.slabs, self._real.type
        nothing = 0, 1, 1, 1, 1
        common = nothing, self._of_line, *self._tables.device, PHASES, (real(0),) * 12
        one = 1, 1, slabs.stream
        self.products.compile()
        self._load_lines[one](self._state, 0, *common[:5], PHASES[0], slabs.all_lines)
        for kernel in self._advance_lines.values():
            kernel[one](*common, real(0), slabs.all_lines, self._state, self._state, self._state)
        for kernel in self._add_force.values():
            kernel[one](self._of_line, self._state, 0, *common, slabs.all_lines, self._state)
        self._forced.compile(self._state)
        self._waves.compile(self._state, self._tables.device)
        self._damping.compile(self._state)
        self.transform.compile()
        self.passes.compile(self._state)
        slabs.stream.synchronize()

    @property
    def fields(self) -> NDArray[Any]:
        """The host's copy, complex [3 + S, n_modes] in the order of `modes.lines`, brought up to date.

        Values that are written into it become the state with `commit`.
        """
        if not self._host_is_present:
            for v, field in enumerate(self._host):
                self.transform.take(self._field(v), self.slabs.layout.rows, field)
            self._host_is_present = True
        return self._host

    def commit(self) -> None:
        for v, field in enumerate(self._host):
            self.transform.put(field, self._field(v), self.slabs.layout.rows)
        self._host_is_present = True

    @property
    def stored(self) -> tuple[Any, ...]:
        """The 3 + S fields on the device, flat arrays [rows, line]."""
        return tuple(self._field(v) for v in range(self._n_fields))

    def forced_velocity(self) -> NDArray[Any]:
        return self._forced.velocity(self.forcing.indices, self._state)

    def _field(self, v: int) -> Any:
        return self._state[v * self._field_size : (v + 1) * self._field_size]

    def _line_launch(self) -> tuple[Any, ...]:
        return (*line_launch(self.slabs.layout.n_lines, self.modes.shape[1]), self.slabs.stream)

    @property
    def next_shift(self) -> NDArray[np.float64]:
        return shift_of_step(self.modes, self.flow.seed, self.step_index)

    def advance(
        self,
        dt: float | None = None,
        courant: float = 0.5,
        velocity: RowOperation | None = None,
        until: float = math.inf,
    ) -> float:
        """Make one step, as `CpuEngine.advance` does; `velocity` must be None. Collective."""
        if velocity is not None:
            raise DeviceError("fluid particles cannot be used on GPUs. Run with --device cpu.")
        begin, before = perf_counter(), self._in_exchanges()
        n_substeps = len(self._scheme.substeps)
        if self._shifted:
            self._tables.displace(displaced_grids(self.next_shift, self.modes))
        self._load()
        self.last_courant_rate = self.products.form(rated=True)
        if dt is None:
            rate, step = self.last_courant_rate, self.step_index
            bound = partial(self.forcing.bound_rate, rate, step, time=self.time)
            dt = courant_dt(courant, rate, step, bound)
        self.last_dt, after = next_step(self.time, dt, until)
        self.forcing.begin_step(self.step_index, self.last_dt, self.time)
        self._forced.begin_step(self.forcing)
        if self.forcing.transforms:  # which has overwritten the products
            self._load()
            self.products.form(rated=False)
        time = self._scheme.fraction * self.last_dt
        rate = self.forcing.factor_rate - self.flow.damping.uniform_rate
        self._tables.decay(self._waves.begin_step(rate, time), time)
        for number in range(n_substeps):
            self.products.combine()
            self._advance(number)
            if number + 1 < n_substeps:
                self.products.form(rated=False)
        self._forced.end_step(self.forcing, self._state)
        self.slabs.stream.synchronize()
        self.slabs.collect()
        self._host_is_present = False
        self.time = after
        self.step_index += 1
        self._elapsed += perf_counter() - begin
        for name, seconds in self._in_exchanges().items():
            self.under_way[name] += seconds - before[name]
        return self.last_dt

    def _load(self) -> None:
        """Set lines to the fields, displaced to the step's first grid."""
        self._load_lines[self._line_launch()](
            self._state,
            self._n_fields,
            self._sizes,
            self._of_line,
            *self._tables.device,
            PHASES[0],
            self.slabs.all_lines,
        )

    def _advance(self, number: int) -> None:
        """Form the rate of substep `number` on lines, advance the stored fields, and set the next stage."""
        substeps, slabs = self._scheme.substeps, self.slabs
        substep, last = substeps[number], number == len(substeps) - 1
        arrays = {"state": self._state, "sum": self._sum}
        base, kept = arrays[substep.base], arrays[substep.kept]
        phases = PHASES if number % 2 == 0 else PHASES[::-1]
        c = tuple(substep.coefficients(self.last_dt, self._real))
        common = self._sizes, self._of_line, *self._tables.device, phases, c
        self._advance_lines[last, substep.base == "sum"][self._line_launch()](
            *common, self._real.type(slabs.scale), slabs.all_lines, self._state, base, kept
        )
        forced = self._forced
        if forced.n:
            self._add_force[last][*line_launch(forced.n, 1), slabs.stream](
                forced.places, forced.values, forced.n, *common, slabs.all_lines, kept
            )
        stored = [arrays[name] for name in substep.with_factor_of_modes]
        time = self._scheme.fraction * self.last_dt
        self._damping.damp(self._line_launch(), time, slabs.all_lines, stored)
        self._waves.turn(self._line_launch(), slabs.all_lines, stored)

    def keep_stages(self) -> None:
        """Raise DeviceError: only fluid particles ask for stages."""
        raise DeviceError("fluid particles cannot be used on GPUs. Run with --device cpu.")

    def stages(self) -> list[tuple[NDArray[Any], NDArray[np.float64]]]:
        return []

    def _in_exchanges(self) -> dict[str, float]:
        """Return the host's seconds in exchanges so far, by "row" and "column"."""
        exchanges = {"row": self.slabs.row, "column": self.slabs.column}
        return {name: 0.0 if exchange is None else exchange.seconds for name, exchange in exchanges.items()}

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds in `advance` since `reset_timings`, by `COLUMNS`: of the device, and of the host in exchanges."""
        clock, exchanges = self.slabs.clock.seconds, self._in_exchanges()
        parts = {"fft": clock["fft"], "pack": clock["pack"]}
        for name, seconds in exchanges.items():
            parts[f"{name} all-to-all"] = seconds - self._exchanged_before[name]
        return {**parts, "other": max(self._elapsed - sum(parts.values()), 0.0)}

    def reset_timings(self) -> None:
        """Reset `seconds` to zero."""
        self.slabs.clock.reset()
        self._exchanged_before = self._in_exchanges()
        self._elapsed = 0.0

    def exchanged(self) -> dict[str, tuple[float, float]]:
        n, slabs = len(self._scheme.substeps), self.slabs
        columns = len(self._inward) + len(self._outward), self._n_fields, self._n_combined
        rows = self._n_fields + slabs.counts.planes, self._n_fields, slabs.counts.planes
        volumes = {"row": (0.0, 0.0), "column": (0.0, 0.0)}
        for name, exchange, (calls, there, back) in (
            ("row", slabs.row, rows),
            ("column", slabs.column, columns),
        ):
            if exchange is not None:
                of_inward, of_outward = (exchange.bytes_held(side) for side in exchange.sides)
                held = there * of_inward + back * of_outward
                volumes[name] = float(n * held), held / (exchange.size * calls)
        return volumes

    def memory(self) -> dict[str, float]:
        return dict(self._memory)

    def describe(self) -> dict[str, str]:
        slabs = self.slabs
        column = "none on one rank" if slabs.row is None else "none in one column"
        if slabs.column is not None:
            column = f"{slabs.column.words}, Q = {self._batch}"
        row = {} if slabs.row is None else {"row exchange": f"{slabs.row.words}, one variable per message"}
        return {
            "fields and steps": f"on {self.device}",
            "transforms": self.products.fused.words,
            "column exchange": column,
            **row,
            "diagnostics and outputs": "on the device",
        }


class ForcedModes:
    """The few modes that a forcing acts on, copied between the host, which computes the force, and the device.

    Device arrays are allocated when the number of these modes changes.

    modes : of this rank; layout : of its fields; real : dtype of the run; stream : of all copies

    Attributes
    ----------
    n : modes with a force
    places : device int32 (2, n), line and place of j_y
    values : device (3, n) complex as reals, the force
    """

    def __init__(self, modes: Modes, layout: DeviceLayout, real: np.dtype[Any], stream: Any) -> None:
        self._modes, self._layout, self._stream = modes, layout, stream
        self._complex = np.result_type(real, np.complex64)
        self._real = real
        self.n = 0
        self.places: Any = None
        self.values: Any = None
        self._touched: NDArray[np.int64] = np.empty(0, np.int64)
        self._at: Any = None
        self._scratch: Any = None

    def compile(self, fields: Any) -> None:
        """Compile or load the kernels by launching them on nothing. No communication."""
        nothing = cuda.to_device(np.zeros(1, np.int64))
        for kernel in (gather_modes, scatter_modes):
            kernel[1, 1, self._stream](fields, 0, 0, nothing, 0, fields)

    def _lines_and_y(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return line and j_y of modes, given their places in a field of the host."""
        lines = self._modes.lines
        line = np.searchsorted(lines.start, indices, side="right") - 1
        inside = indices - lines.start[line]
        most = lines.most[line]
        return line, np.where(inside <= most, inside, inside - 2 * most - 1)

    def begin_step(self, forcing: Forcing) -> None:
        """Copy the force, which is constant during the step, to the device. No communication."""
        values = np.ascontiguousarray(forcing.values.astype(self._complex)).view(self._real).ravel()
        if len(forcing.indices) != self.n:
            self.n = len(forcing.indices)
            line, jy = self._lines_and_y(forcing.indices)
            places = np.stack([line, jy % self._modes.shape[1]]).astype(np.int32)
            self.places, self.values = cuda.to_device(places.ravel()), cuda.to_device(values)
        elif self.n:
            self.values.copy_to_device(values, stream=self._stream)

    def velocity(self, indices: NDArray[np.int64], fields: Any) -> NDArray[Any]:
        """Return the velocity of modes, complex [3, n], given their places in a field of the host."""
        velocity = np.empty((N_VELOCITY, len(indices)), self._complex)
        if len(indices):
            scratch = cuda.device_array(2 * velocity.size, self._real)
            self._gather(fields, self._places(indices), len(indices), scratch, velocity)
        return velocity

    def _places(self, indices: NDArray[np.int64]) -> Any:
        """Return the places of modes in a field of the device, int64 [n], as a device array."""
        line, jy = self._lines_and_y(indices)
        return cuda.to_device(jy % self._layout.rows * self._layout.n_lines + line)

    def _gather(self, fields: Any, places: Any, n: int, scratch: Any, out: NDArray[Any]) -> None:
        """Copy the velocity of n modes through `scratch`, on the device, to the host."""
        launch = (*line_launch(n, 1), self._stream)
        gather_modes[launch](fields, self._layout.field_numbers, N_VELOCITY, places, n, scratch)
        self._stream.synchronize()
        scratch.copy_to_host(out.view(self._real).ravel())

    def end_step(self, forcing: Forcing, fields: Any) -> None:
        """Let the forcing change the velocity of the modes `touched`. Collective."""
        n = len(forcing.touched)
        if n != len(self._touched):
            self._touched = forcing.touched
            self._at = self._places(self._touched)
            self._scratch = cuda.device_array(2 * N_VELOCITY * n, self._real)
        velocity = np.empty((N_VELOCITY, n), self._complex)
        if n:
            self._gather(fields, self._at, n, self._scratch, velocity)
        forcing.hold(velocity)
        if n:
            self._scratch.copy_to_device(velocity.view(self._real).ravel(), stream=self._stream)
            launch = (*line_launch(n, 1), self._stream)
            scatter_modes[launch](self._scratch, self._layout.field_numbers, N_VELOCITY, self._at, n, fields)
