"""Turbulence on CPU cores: the modes of one rank, advanced by passes over lines and planes that fit caches.

A Runge-Kutta substep is a pass over planes and a pass over lines of modes. The pass over planes transforms to
physical space, forms products (`kernels.multiply`) and transforms back. The pass over lines forms the nonlinear term,
advances the stored modes (`kernels_lines.advance_lines`) and sends the velocity of the next stage on its way to the
planes. Neither stage velocities nor anything in physical space is ever stored as a whole. The transforms between
lines and planes are `fourier.transform.FourierTransform`; it calls the operations that this file passes to it.

Source: Yeung et al. (GESTS), Sec. 3; Rogallo, NASA TM-81315 (1981).
"""

from __future__ import annotations

import math
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.exchanges.row_exchange import RowExchange
from ridgeline.fourier.modes import Lengths
from ridgeline.fourier.packing import modes_from_lines
from ridgeline.fourier.stages import Planes, RowBlock, RowOperation, Tile
from ridgeline.fourier.transform import FourierTransform, kernels_of_transforms
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.jit.kernel import Specialisation, compile_kernels, specialise
from ridgeline.models.time_steps import next_step
from ridgeline.models.turbulence.damping import (
    damp_lines,
    damps_apart,
    kernels_of_damping,
    rate_terms,
    shares,
)
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.kernels import (
    N_COMBINED,
    N_PRODUCTS,
    N_VELOCITY,
    RATES,
    multiply,
    pack_combined,
)
from ridgeline.models.turbulence.kernels_lines import advance_lines, load_lines
from ridgeline.models.turbulence.passes import HostPasses
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.models.turbulence.random_numbers import shift_of_step
from ridgeline.models.turbulence.runge_kutta import (
    SCHEMES,
    StepTables,
    courant_dt,
    displaced_grids,
)
from ridgeline.models.turbulence.waves import kernels_of_waves, turn_lines, wave_terms
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.runtime.aligned import aligned_empty

if TYPE_CHECKING:
    from mpi4py import MPI


class CpuEngine:
    """Holds and advances velocity and scalars of one rank. Creating it is collective.

    Parameters
    ----------
    grid, lengths, comm, dtype, tuning : as of `FourierTransform`
    flow : viscosity, scheme, scalars, waves, and the seed of the phase shifts

    Attributes
    ----------
    fields : complex [3 + S, n_modes], u_x, u_y, u_z and scalars, in the order of `modes.lines`
    time, step_index : time of the fields, and the number of steps made
    last_dt, last_courant_rate : length of the last step, and the bracket of Eq. (8) at its beginning, 1/time
    seconds : spent in `advance` since `reset_timings`, by `COLUMNS` of `problem`
    under_way : seconds of wall time during which "row" and "column" exchanges of all steps so far were under way
    forcing : no force, until it is replaced
    """

    def __init__(
        self,
        grid: PencilGrid,
        lengths: Lengths,
        comm: MPI.Comm,
        dtype: DTypeLike,
        flow: FlowParameters,
        tuning: TransformTuning,
    ) -> None:
        n_scalars = len(flow.schmidt)
        self.flow, self.comm, self.n_scalars = flow, comm, n_scalars
        self._scheme = SCHEMES[flow.scheme]
        self._counts = N_VELOCITY + n_scalars, N_PRODUCTS + 3 * n_scalars, N_COMBINED + 2 * n_scalars
        n_fields, n_products, n_combined = self._counts
        self.transform = FourierTransform(
            grid,
            lengths,
            comm,
            dtype,
            tuning,
            from_lines=n_fields,
            from_points=n_products,
            to_lines=n_combined,
        )
        self.modes = self.transform.modes
        self.forcing = Forcing(self.modes, comm)
        self.time, self.step_index = 0.0, 0
        self.last_dt = self.last_courant_rate = float("nan")
        self._real = self.transform.real
        shape = (n_fields, self.modes.n_modes)
        self.fields = aligned_empty(shape, self.transform.complex)
        self._sum = aligned_empty(
            shape if self._scheme.copies == 2 else (n_fields, 0), self.transform.complex
        )
        self.fields[...] = 0
        self.passes = HostPasses(self.modes, self.transform)
        self._sum[...] = 0
        self._stages = aligned_empty((0, N_VELOCITY, 0), self.transform.complex)
        self._grids = [np.zeros(3)] * 2
        self.under_way = {"row": 0.0, "column": 0.0}
        self._make_tables()
        self.reset_timings()

    def _make_tables(self) -> None:
        modes, grid, real = self.modes, self.transform.grid, self._real
        nz, ny, nx = modes.shape
        unit_z, _, unit_x = modes.unit
        self._shifted = modes.dealias == "phase-shift"
        self._tables = StepTables(modes, self.flow.decays_apart, real)
        self._tables.displace([np.zeros(3)] * 2)
        self._kx = np.repeat(unit_x * grid.columns_of(grid.row), 2).astype(real)
        self._kz = (unit_z * np.fft.fftfreq(nz, 1 / nz).round()).astype(real)
        gradients = np.array(self.flow.mean_gradients, real).reshape(self.n_scalars, 3)
        self._gradients = gradients
        n_workers = len(self.transform.workers)
        self._scratch = [np.zeros(len(self._kx), real) for _ in range(n_workers)]
        self._rates = np.zeros((n_workers, RATES), real)
        spacing = (length / n for length, n in zip(reversed(modes.lengths), (nx, ny, nz)))
        self._per_cell = np.array([1 / d for d in spacing], real)
        self._damps = damps_apart(self.flow)
        self._damping = rate_terms(self.flow.damping), shares(self.flow)
        self._forced = (np.zeros(modes.lines.n_lines + 1, np.int64), np.zeros(0, np.int64))
        self._forced_order = np.zeros(0, np.int64)
        self._forced_values = np.zeros((3, 0), real)

    @property
    def workspace(self) -> NDArray[Any] | None:
        """The exchange buffer, which is free between two steps; None if other ranks may read it."""
        return self.transform.column.workspace

    def compile(self) -> None:
        """Compile or load the kernels of steps, of the pressure of waves and of damping. No communication."""
        of_waves = kernels_of_waves(self._real) if self.flow.waves else []
        of_damping = kernels_of_damping(self._real) if self.flow.damping else []
        compile_kernels([*self.kernels(self._real), *of_waves, *of_damping])

    @staticmethod
    def kernels(dtype: DTypeLike) -> list[Specialisation]:
        """Return the kernels of engines without waves and damping, to compile before an engine is created."""
        of_steps = [load_lines, multiply, pack_combined, advance_lines]
        return [*kernels_of_transforms(dtype), *specialise(of_steps, dtype)]

    @property
    def stored(self) -> NDArray[Any]:
        return self.fields

    def forced_velocity(self) -> NDArray[Any]:
        return np.asarray(self.fields[:N_VELOCITY, self.forcing.indices])

    def commit(self) -> None:
        """Do nothing: what is written into `fields` counts at once."""

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
        begin, before = perf_counter(), self.transform.under_way
        n_substeps = len(self._scheme.substeps)
        if self._shifted:
            self._grids = displaced_grids(self.next_shift, self.modes)
            self._tables.displace(self._grids)
        # With particles, the velocity of this grid has been formed already.
        if velocity is None:
            self._load()
        self._rates[...] = 0
        self._form_products(rated=True, velocity=velocity)
        self.last_courant_rate = float(allreduce_max(self.comm, self._rates.max()))
        if dt is None:
            rate, step = self.last_courant_rate, self.step_index
            bound = partial(self.forcing.bound_rate, rate, step, time=self.time)
            dt = courant_dt(courant, rate, step, bound)
        self.last_dt, after = next_step(self.time, dt, until)
        self.forcing.begin_step(self.step_index, self.last_dt, self.time)
        self._order_forced_modes()
        if self.forcing.transforms:
            # Its transforms have overwritten the products, which are on their way to lines.
            if velocity is None:
                self._load()
            self._form_products(rated=False, velocity=velocity)

        # With waves their factor includes the decay of what they couple, and the force A u.
        waves, time = self.flow.waves, self._scheme.fraction * self.last_dt
        rate = self.forcing.factor_rate - self.flow.damping.uniform_rate
        self._tables.decay(0.0 if waves else rate, time)
        if waves:
            self._terms = wave_terms(self.flow, rate, time)

        for number in range(n_substeps):
            self._advance(number)
            if number + 1 < n_substeps:
                self._form_products(rated=False)
        self.forcing.end_step(self.fields)
        self.time = after
        self.step_index += 1
        for name, seconds in self.transform.under_way.items():
            self.under_way[name] += seconds - before[name]
        self._elapsed += perf_counter() - begin
        return self.last_dt

    def _load(self) -> None:
        """Send the fields, displaced to the step's first grid, towards physical space."""
        fields, start, tables = self.fields.view(self._real), self.modes.lines.start, self._tables
        # Entry 1 leads back to the first grid.
        of_line, along = tables.of_line[1], tables.along[1]

        def load(tile: Tile, line: int, n: int) -> None:
            load_lines(fields, line, n, start, of_line, along, self._shifted, tile.real)

        self.transform.lines(load, to_planes=self._counts[0])

    def _form_products(self, rated: bool, velocity: RowOperation | None = None) -> None:
        """Form products in physical space and bring their combinations back to lines.

        rated: whether to note the largest rate of all points, the bracket of Eq. (8). velocity: sets the velocity to
        multiply, if it does not come from lines.
        """
        n_fields, n_products, n_combined = self._counts
        nx, n_scalars, rates = self.modes.shape[2], self.n_scalars, self._rates
        per_cell = self._per_cell if rated else self._per_cell[:0]

        def products(rows: RowBlock, plane: int, first: int, n: int) -> None:
            if velocity is not None:
                velocity(rows, plane, first, n)
            # The target holds the points that came; the way back starts from the source.
            multiply(rows.target, (n + 1) // 2, nx, n_scalars, per_cell, rates[rows.index], rows.source)

        column = self.transform.column
        start, arena = column.forward.row_start, column.arena.view(self._real)
        runs, step = self.transform.plane_runs
        scale = self._real.type(2 * nx * self.modes.shape[0])

        def pack(planes: Planes, first: int, n: int) -> None:
            pack_combined(
                planes.real,
                start,
                runs,
                step,
                first,
                n,
                self._kx,
                self._kz,
                self._gradients,
                scale,
                self._scratch[planes.index],
                arena,
            )

        self.transform.planes(
            products,
            pack,
            from_lines=n_fields if velocity is None else 0,
            from_points=n_products,
            to_lines=n_combined,
        )

    def _advance(self, number: int) -> None:
        """Form the rate of substep `number` on lines, advance the stored modes, and send the next stage off."""
        n_fields, _, n_combined = self._counts
        substeps, tables = self._scheme.substeps, self._tables
        substep, last = substeps[number], number == len(substeps) - 1
        now = self.fields.view(self._real)
        arrays = {"state": now, "sum": self._sum.view(self._real)}
        base, kept = arrays[substep.base], arrays[substep.kept]
        of_line, along = tables.of_line[number % 2], tables.along[number % 2]
        coefficients = substep.coefficients(self.last_dt, self._real)
        scale, start = self._real.type(self.transform.scale), self.modes.lines.start
        stage = self._stages[number] if number < len(self._stages) else self._stages[:0]
        one, ny, modes = self._real.type(1), self.modes.shape[1], self.modes
        of_modes = [arrays[name] for name in substep.with_factor_of_modes]
        first, second = (*of_modes, now[:0], now[:0])[:2]
        turns, damps = bool(of_modes) and bool(self.flow.waves), bool(of_modes) and self._damps
        time = self._scheme.fraction * self.last_dt

        def advance(tile: Tile, line: int, n: int) -> None:
            advance_lines(
                tile.real,
                line,
                n,
                start,
                of_line,
                along,
                self._shifted,
                last,
                coefficients,
                scale,
                *self._forced,
                self._forced_values,
                now,
                base,
                kept,
            )
            if damps:
                damp_lines(
                    tile.real,
                    line,
                    n,
                    ny,
                    start,
                    modes.kz,
                    modes.kx,
                    modes.unit[1],
                    *self._damping,
                    time,
                    first,
                    second,
                )
            if turns:
                turn_lines(
                    tile.real,
                    line,
                    n,
                    ny,
                    start,
                    modes.kz,
                    modes.kx,
                    modes.unit[1],
                    self._terms,
                    first,
                    second,
                )
            for lines, field in zip(tile.modes, stage):
                modes_from_lines(lines, start, line, n, ny, one, field)

        self.transform.lines(advance, from_planes=n_combined, to_planes=0 if last else n_fields)

    def keep_stages(self) -> None:
        n_stages = len(self._scheme.substeps) - 1
        self._stages = aligned_empty((n_stages, N_VELOCITY, self.modes.n_modes), self.transform.complex)

    def stages(self) -> list[tuple[NDArray[Any], NDArray[np.float64]]]:
        return [(stage, self._grids[1 - number % 2]) for number, stage in enumerate(self._stages)]

    def _order_forced_modes(self) -> None:
        """Order the forced modes and their force by lines, as `advance_lines` takes them."""
        indices, lines, ny = self.forcing.indices, self.modes.lines, self.modes.shape[1]
        if len(indices) == 0:
            return
        if len(indices) != len(self._forced_order):
            self._forced_order = np.argsort(indices)
            ordered = indices[self._forced_order]
            line = np.searchsorted(lines.start, ordered, side="right") - 1
            place = ordered - lines.start[line]
            place = np.where(place <= lines.most[line], place, place - 2 * lines.most[line] - 1 + ny)
            self._forced = np.searchsorted(line, np.arange(lines.n_lines + 1)).astype(np.int64), place
        values = self.forcing.values[:, self._forced_order].astype(self.transform.complex)
        self._forced_values = np.ascontiguousarray(values).view(self._real)

    @property
    def seconds(self) -> dict[str, float]:
        parts = {name: seconds - self._before[name] for name, seconds in self.transform.timings.items()}
        return {**parts, "other": self._elapsed - sum(parts.values())}

    def reset_timings(self) -> None:
        """Reset `seconds` to zero."""
        self.transform.reset_timings()
        self._before = self.transform.timings
        self._elapsed = 0.0

    def exchanged(self) -> dict[str, tuple[float, float]]:
        n_fields, n_products, n_combined = self._counts
        n_substeps = len(self._scheme.substeps)
        row, column = self.transform.row, self.transform.column
        volumes = {"row": (0.0, 0.0), "column": (0.0, 0.0)}
        exchanges = [("column", column, n_combined, n_substeps)]
        if isinstance(row, RowExchange):
            n_groups = -(-self.transform.grid.y_range[1] // row.n_planes)
            exchanges.append(("row", row.transpose, n_products, n_substeps * n_groups))
        for name, transpose, n_back, n in exchanges:
            messages = transpose.forward.messages(n_back) + transpose.inverse.messages(n_fields)
            sent = transpose.forward.bytes_sent(n_back) + transpose.inverse.bytes_sent(n_fields)
            held = transpose.forward.bytes_held(n_back) + transpose.inverse.bytes_held(n_fields)
            volumes[name] = (float(n * held), sent / messages) if messages else (0.0, 0.0)
        return volumes

    def describe(self) -> dict[str, str]:
        return self.transform.describe()

    def memory(self) -> dict[str, int]:
        arrays = (self._kx, self._kz, *self._scratch, *self._forced)
        stored = self.fields.nbytes + self._sum.nbytes + self._stages.nbytes
        by_purpose = {"fields": stored, **self.transform.memory()}
        by_purpose["work"] += sum(array.nbytes for array in arrays) + self._tables.n_bytes
        lines = self.modes.lines
        by_purpose["modes"] = sum(
            a.nbytes for a in (lines.jx, lines.jz, lines.most, lines.start, lines.start_global)
        )
        return by_purpose
