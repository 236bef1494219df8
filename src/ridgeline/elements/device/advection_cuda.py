"""Advection on spectral elements on NVIDIA GPUs, unassembled: the twin of `elements.advection`.

Dealiased advection takes two or three kernels for some elements at a time, whose carrier stays in the second-level
cache:

    to_fine   each component of the velocity on m**3 Gauss points; for axis-aligned elements times weight and metric
    turn      curved elements: the velocity turned to the reference directions, times weight and Jacobian: the carrier
    advect    each field on the m**3 points, carrier . gradient there, and back by the transposed interpolation

An element has m x m threads. A thread keeps its column of a field that is interpolated in x and y only, n numbers,
and marches over the m fine layers: a layer of the field lies in shared memory, where the derivatives in it are taken.
The derivative across and the transposed interpolation in z use the thread's own column. No fine field but the carrier
is therefore ever stored, and shared memory grows with m**2 only. m may be n to MOST_FINE.

Collocated advection is one kernel with n x n threads, and the whole element lies in shared memory.

Arguments common to the kernels are device arrays, flat and of float64 unless said otherwise. order: int32, elements,
of which first ... end - 1 are computed. u, out: [fields, E, n, n, n]. velocity: [3, E, n, n, n]. stride: points of a
field. tables: `fine_tables`. carrier: [end - first, 3, m, m, m]. Launch blocks(end - first) x components thread
blocks of (m, m, elements), as `square_layout(m)` says. Each process compiles the kernels (see `tensor_cuda`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.elements.advection import fine_metrics
from ridgeline.elements.device.device_bytes import dealiased_elements
from ridgeline.elements.device.gather_scatter_cuda import field_count
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.helmholtz_cuda import element_of_block
from ridgeline.elements.device.tensor_cuda import (
    fetch_tables,
    launch_bounds,
    layout_of,
    make_add,
    make_column,
    make_dot,
    make_lines,
    make_store,
    square_layout,
)
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_interpolation
from ridgeline.jit.cuda_device import DeviceArray, barrier, device_function, flat, fma, kernel, load, store
from ridgeline.runtime.errors import DeviceError

MOST_FINE = 24  # Gauss points per direction: 3/2 of the most points of an element
_REGISTERS = 64  # of a thread of `turn`


def fine_tables(interpolation: NDArray[np.float64], derivative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, flat, J [m, n], J^T, D J [m, n] and D^T [m, m]: J to the fine points, D their derivative matrix."""
    parts = interpolation, interpolation.T, derivative @ interpolation, derivative.T
    return np.concatenate([np.ascontiguousarray(part).reshape(-1) for part in parts])


def _table_places(n: int, m: int) -> tuple[int, int, int, int]:
    """Return where J^T, D J and D^T begin in `fine_tables`, and their size."""
    return m * n, 2 * m * n, 3 * m * n, 3 * m * n + m * m


@cache
def _make_planes(n: int, m: int) -> Any:
    """Return planes(u, at, tables, coarse, lines, i, j): the thread's column of u, interpolated in x and y.

    at: where the element begins; tables, coarse [n, n] and lines [n, pitch] in shared memory. All threads of the
    thread block must call it; its first barrier makes the tables valid.
    """
    square, pitch = n * n, square_layout(m).pitch
    transposed = _table_places(n, m)[0]
    nothing = (0.0,) * n

    @device_function
    def planes(u, at, tables, coarse, lines, i, j):
        column, thread = nothing, j * m + i
        for k in range(n):
            if thread < square:
                store(coarse, thread, load(u, at + k * square + thread))
            barrier()
            if j < n:
                line = 0.0
                for a in range(n):
                    line = fma(load(tables, transposed + a * m + i), load(coarse, j * n + a), line)
                store(lines, j * pitch + i, line)
            barrier()
            value = 0.0
            for b in range(n):
                value = fma(load(tables, transposed + b * m + j), load(lines, b * pitch + i), value)
            column = column[1:] + (value,)  # noqa: RUF005
        return column

    return planes


@cache
def make_to_fine(n: int, m: int, axis_aligned: bool) -> Any:
    """Return kernel(order, first, end, stride, velocity, scale, volume, fine_weights, tables, carrier).

    It sets the carrier to the velocity on the fine points, for axis-aligned elements times weight, Jacobian and
    scale. Three components. Cost: reads 3 words per point, writes 3 per fine point.
    """
    layout = square_layout(m)
    cube, plane, elements, pitch, threads = n**3, m * m, layout.elements, layout.pitch, layout.threads
    tables_size, coarse_size, lines_size = _table_places(n, m)[3], n * n, n * pitch
    all_coarse, all_lines = coarse_size * elements, lines_size * elements
    planes, dot = _make_planes(n, m), make_dot(n)

    @kernel(*launch_bounds(m, np.float64))
    def to_fine(order, first, end, stride, velocity, scale, volume, fine_weights, tables, carrier):
        own_tables = cuda.shared.array(tables_size, np.float64)
        coarse = cuda.shared.array(all_coarse, np.float64)
        lines = cuda.shared.array(all_lines, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(tables, own_tables, (part * m + j) * m + i, threads)
        component, element, mine = element_of_block(order, first, end, 3, elements, cuda.blockIdx.x, part)
        own_coarse = coarse[part * coarse_size : (part + 1) * coarse_size]
        own_lines = lines[part * lines_size : (part + 1) * lines_size]
        column = planes(
            velocity, component * stride + element * cube, own_tables, own_coarse, own_lines, i, j
        )
        if mine:
            place = (cuda.blockIdx.x // 3) * elements + part
            at = (place * 3 + component) * m * plane + j * m + i
            factor = 1.0
            if axis_aligned:
                factor = load(volume, element) * load(scale, 3 * element + component)
                factor *= load(fine_weights, i) * load(fine_weights, j)
            for k in range(m):
                value = dot(own_tables, k * n, column, 0.0)
                if axis_aligned:
                    value *= factor * load(fine_weights, k)
                store(carrier, at, value)
                at += plane

    return to_fine


@cache
def make_turn(m: int) -> Any:
    """Return kernel(order, first, end, fine, carrier): the velocity in carrier turned to r, s, t, in place.

    fine: `elements.advection.fine_metrics` of curved elements, [E, 9, m, m, m]. One component.
    Cost: reads 12 words per fine point, writes 3.
    """
    layout = square_layout(m)
    plane, cube, elements = m * m, m**3, layout.elements
    nine = make_column(9, cube)

    @kernel(*launch_bounds(m, np.float64, _REGISTERS))
    def turn(order, first, end, fine, carrier):
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        _, element, mine = element_of_block(order, first, end, 1, elements, cuda.blockIdx.x, part)
        if mine:
            at = (cuda.blockIdx.x * elements + part) * 3 * cube + j * m + i
            metrics_at = element * 9 * cube + j * m + i
            for _ in range(m):
                x, y, z = load(carrier, at), load(carrier, at + cube), load(carrier, at + 2 * cube)
                r_x, r_y, r_z, s_x, s_y, s_z, t_x, t_y, t_z = nine(fine, metrics_at)
                store(carrier, at, fma(r_x, x, fma(r_y, y, r_z * z)))
                store(carrier, at + cube, fma(s_x, x, fma(s_y, y, s_z * z)))
                store(carrier, at + 2 * cube, fma(t_x, x, fma(t_y, y, t_z * z)))
                at += plane
                metrics_at += plane

    return turn


@cache
def _make_from_fine(n: int, m: int) -> Any:
    """Return from_fine(column, tables, layer, lines, out, at, mine, i, j): J^T along y and x, stored if `mine`.

    column: the thread's, which J^T along z gave; layer [m, pitch] and lines [n, pitch] in shared memory; at: where
    the element begins in out.
    """
    square, pitch = n * n, square_layout(m).pitch

    @device_function
    def from_fine(column, tables, layer, lines, out, at, mine, i, j):
        for k in range(n):
            barrier()
            store(layer, j * pitch + i, column[0])
            column = column[1:] + (column[0],)  # noqa: RUF005
            barrier()
            if j < n:
                line = 0.0
                for b in range(m):
                    line = fma(load(tables, b * n + j), load(layer, b * pitch + i), line)
                store(lines, j * pitch + i, line)
            barrier()
            if mine and i < n and j < n:
                value = 0.0
                for a in range(m):
                    value = fma(load(tables, a * n + i), load(lines, j * pitch + a), value)
                store(out, at + k * square + j * n + i, value)

    return from_fine


@cache
def make_advect(n: int, m: int) -> Any:
    """Return kernel(order, first, end, fields, stride, u, carrier, tables, out): out = J^T (carrier . grad J u).

    Cost: reads 1 word per point and field and 3 per fine point and field, writes 1 per point and field.
    """
    layout = square_layout(m)
    cube, plane, fine_cube, elements, pitch = n**3, m * m, m**3, layout.elements, layout.pitch
    threads, layer = layout.threads, layout.layer
    across, derivative, tables_size = _table_places(n, m)[1:]
    coarse_size, lines_size, layers_size = n * n, n * pitch, 2 * layer
    all_coarse, all_lines, all_layers = coarse_size * elements, lines_size * elements, layers_size * elements
    nothing = (0.0,) * n
    planes, dot, add, from_fine = _make_planes(n, m), make_dot(n), make_add(n), _make_from_fine(n, m)

    @kernel(*launch_bounds(m, np.float64))
    def advect(order, first, end, fields, stride, u, carrier, tables, out):
        own_tables = cuda.shared.array(tables_size, np.float64)
        coarse = cuda.shared.array(all_coarse, np.float64)
        lines = cuda.shared.array(all_lines, np.float64)
        layers = cuda.shared.array(all_layers, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(tables, own_tables, (part * m + j) * m + i, threads)
        component, element, _ = element_of_block(order, first, end, fields, elements, cuda.blockIdx.x, part)
        own_lines = lines[part * lines_size : (part + 1) * lines_size]
        own = layers[part * layers_size : (part + 1) * layers_size]
        own_coarse = coarse[part * coarse_size : (part + 1) * coarse_size]
        column = planes(u, component * stride + element * cube, own_tables, own_coarse, own_lines, i, j)
        place = min((cuda.blockIdx.x // fields) * elements + part, end - first - 1)
        at, result = place * 3 * fine_cube + j * m + i, nothing
        for k in range(m):
            here = (k & 1) * layer
            store(own, here + j * pitch + i, dot(own_tables, k * n, column, 0.0))
            barrier()
            # One derivative after the other, and the carrier late: registers are the columns'.
            u_r = 0.0
            for l in range(m):
                u_r = fma(load(own_tables, derivative + l * m + i), load(own, here + j * pitch + l), u_r)
            rate = load(carrier, at) * u_r
            u_s = 0.0
            for l in range(m):
                u_s = fma(load(own_tables, derivative + l * m + j), load(own, here + l * pitch + i), u_s)
            rate = fma(load(carrier, at + fine_cube), u_s, rate)
            rate = fma(load(carrier, at + 2 * fine_cube), dot(own_tables, across + k * n, column, 0.0), rate)
            result = add(own_tables, k * n, rate, result)
            at += plane
        # What the march does not need is computed again.
        component, element, mine = element_of_block(
            order, first, end, fields, elements, cuda.blockIdx.x, part
        )
        begin = component * stride + element * cube
        from_fine(result, own_tables, own, own_lines, out, begin, mine, i, j)

    return advect


@cache
def make_advect_collocated(n: int, axis_aligned: bool) -> Any:
    """Return kernel(order, first, end, fields, velocity, u, metrics, mass, weights, tables, out): no dealiasing.

    out = mass velocity . grad u at the Gauss-Lobatto points. metrics, mass: of curved elements; of axis-aligned ones
    scale and volume. weights: [n]; tables: `derivative_tables`. Launch with `layout_of(n)`.
    Cost: reads 1 word per point and field, the velocity (and 10 of curved elements), writes 1 per field.
    """
    layout = layout_of(n)
    square, cube, elements, layer, pitch = n * n, n**3, layout.elements, layout.layer, layout.pitch
    tables_size, size, plain, threads = 3 * square, n * layer, square, layout.threads
    shared_size = size * elements
    column_of, put, row_of, lines = (
        make_column(n, square),
        make_store(n, layer),
        make_column(n, 1),
        make_lines(n),
    )
    nine = make_column(9, cube)

    @kernel(*launch_bounds(n, np.float64))
    def advect_collocated(order, first, end, fields, velocity, u, metrics, mass, weights, tables, out):
        own_tables = cuda.shared.array(tables_size, np.float64)
        values = cuda.shared.array(shared_size, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(tables, own_tables, (part * n + j) * n + i, threads)
        component, element, mine = element_of_block(
            order, first, end, fields, elements, cuda.blockIdx.x, part
        )
        field, here = velocity.size // 3, element * cube + j * n + i
        at = component * field + here
        own = values[part * size : (part + 1) * size]
        column = column_of(u, at)
        put(column, own, j * pitch + i)
        barrier()
        row_x, row_y = row_of(own_tables, plain + i * n), row_of(own_tables, plain + j * n)
        for k in range(n):
            x, y, z = load(velocity, here), load(velocity, field + here), load(velocity, 2 * field + here)
            r, s, t = lines(row_x, row_y, column, own_tables, plain + k * n, own, k, i, j)
            if axis_aligned:
                weight = load(mass, element) * (load(weights, k) * load(weights, j) * load(weights, i))
                r, s = load(metrics, 3 * element) * r, load(metrics, 3 * element + 1) * s
                t = load(metrics, 3 * element + 2) * t
                rate = fma(x, r, fma(y, s, z * t))
            else:
                weight = load(mass, here)
                metrics_at = here + element * 8 * cube
                r_x, r_y, r_z, s_x, s_y, s_z, t_x, t_y, t_z = nine(metrics, metrics_at)
                rate = r * fma(r_x, x, fma(r_y, y, r_z * z))
                rate = fma(s, fma(s_x, x, fma(s_y, y, s_z * z)), rate)
                rate = fma(t, fma(t_x, x, fma(t_y, y, t_z * z)), rate)
            if mine:
                store(out, at, weight * rate)
            at += square
            here += square

    return advect_collocated


def require_dealiasing(n: int, m: int) -> None:
    """Raise DeviceError unless GPUs have a kernel from n points per direction to m Gauss points, or m is 0."""
    if m and not n <= m <= MOST_FINE:
        raise DeviceError(
            f"there is no GPU kernel for dealiasing {n} points on {m} Gauss points per direction. Set "
            f'model.dealias_order to a number from {n} to {MOST_FINE} or to "none", or use run.device = "cpu".'
        )


class CudaAdvection:
    """(v, velocity . grad f) of each element, on m Gauss points per direction, or at its own points for m = 0.

    Kernels go to the stream of the geometry's gather-scatter. Raises DeviceError for an m that no kernel supports.
    """

    def __init__(self, geometry: CudaGeometry, m: int) -> None:
        n = geometry.n
        require_dealiasing(n, m)
        self._geometry, self._m, self.stream = geometry, m, geometry.stream
        self._count = geometry.gather.n_elements
        if not m:
            self._collocated = make_advect_collocated(n, geometry.axis_aligned)
            return
        points, weights = gauss(m)
        interpolation = gauss_interpolation(n, m)
        self._layout = square_layout(m)
        self._to_fine, self._advect = make_to_fine(n, m, geometry.axis_aligned), make_advect(n, m)
        self._tables = cuda.to_device(fine_tables(interpolation, derivative_matrix(points)))
        self._weights = cuda.to_device(np.ascontiguousarray(weights))
        self._chunk = dealiased_elements(m, self._count)
        self._carrier = cuda.device_array(3 * self._chunk * m**3, np.float64)
        self._fine: DeviceArray | None = None
        if not geometry.axis_aligned:
            g = geometry.host
            fine = fine_metrics(g.metrics, g.mass, g.weights, interpolation, weights)
            self._turn, self._fine = make_turn(m), cuda.to_device(fine.reshape(-1))

    def __call__(self, velocity: DeviceArray, fields: DeviceArray, out: DeviceArray) -> None:
        """Set out [c, E, n, n, n] to (v, u.grad f) of fields [c, ...], which may begin with velocity [3, ...]."""
        geometry, order, count = self._geometry, self._geometry.gather.order, field_count(fields)
        velocity, fields, out = flat(velocity), flat(fields), flat(out)
        if not self._m:
            layout = geometry.layout
            self._collocated[
                layout.blocks(self._count) * count, (geometry.n, geometry.n, layout.elements), self.stream
            ](order, 0, self._count, count, velocity, fields, *geometry.metric, geometry.derivative, out)
            return
        layout, block = self._layout, (self._m, self._m, self._layout.elements)
        stride, shape = geometry.points, geometry.metric[:2]
        for first in range(0, self._count, self._chunk):
            end = min(first + self._chunk, self._count)
            grid = layout.blocks(end - first)
            self._to_fine[3 * grid, block, self.stream](
                order, first, end, stride, velocity, *shape, self._weights, self._tables, self._carrier
            )
            if self._fine is not None:
                self._turn[grid, block, self.stream](order, first, end, self._fine, self._carrier)
            self._advect[count * grid, block, self.stream](
                order, first, end, count, stride, fields, self._carrier, self._tables, out
            )
