"""Passes of the Navier-Stokes step on NVIDIA GPUs: the twins of `navier_stokes.kernels`, unassembled.

A thread block has (n, n, layout.elements) threads, each with a column of n points (`elements.device.tensor_cuda`).
Launch blocks(end - first) thread blocks, times the number of components where the kernel has an argument for it.
Arguments common to the kernels are flat device arrays, float64 unless another type is given:

    order            int32, the elements, of which order[first:end] are computed
    metrics, mass    [E, 9, n, n, n] and [E, n, n, n], of curved elements
    scale, volume    [E, 3] and [E], in their place for axis-aligned elements
    weights          [n]
    tables           `derivative_tables`

Each process compiles these kernels, because the kernel cache has no key for the device functions in their closures.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.elements.device.helmholtz_cuda import element_of_block
from ridgeline.elements.device.tensor_cuda import (
    REGISTERS,
    fetch_tables,
    launch_bounds,
    layout_of,
    make_add,
    make_column,
    make_dot,
    make_lines,
    make_row_dot,
    make_store,
)
from ridgeline.jit.cuda_device import barrier, device_function, fma, kernel, load, store

# Registers of a thread: in passes that keep no column; for columns of more than _LONG points with metrics, where
# three columns and nine metrics do not fit in fewer; from _WIDE points on, where the addresses of a layer do not fit
# in 64.
_REGISTERS = 64
_MOST_REGISTERS, _LONG = 168, 14
_WIDE_REGISTERS, _WIDE = 80, 13


@cache
def make_mass(n: int, axis_aligned: bool) -> Any:
    """Return mass_at(mass, weights, element, k, j, i): weight times Jacobian at a point."""
    square, cube = n * n, n**3

    @device_function
    def of_boxes(volume, weights, element, k, j, i):
        return load(volume, element) * (load(weights, k) * load(weights, j) * load(weights, i))

    @device_function
    def of_curved(mass, weights, element, k, j, i):
        return load(mass, element * cube + k * square + j * n + i)

    return of_boxes if axis_aligned else of_curved


@cache
def make_right_hand_side(n: int, axis_aligned: bool) -> Any:
    """Return kernel(order, first, end, fields, a, b, force, f0, f1, f2, r0, r1, r2, mass, weights, out).

    out = sum_j a_j r_j - mass (sum_j b_j f_j - force): the known side of all equations. a, b: three float64 each, of
    levels 0 (present), 1, 2; b with 1/dt. force: [c]; fields: c; f, r, out: [c, E, n, n, n].
    Cost: reads 6 words per point and component (and mass of curved elements), writes 1.
    """
    layout = layout_of(n)
    square, cube, elements, mass_at = n * n, n**3, layout.elements, make_mass(n, axis_aligned)

    registers = _REGISTERS if n < _WIDE else _WIDE_REGISTERS

    @kernel(*launch_bounds(n, np.float64, registers))
    def right_hand_side(order, first, end, fields, a, b, force, f0, f1, f2, r0, r1, r2, mass, weights, out):
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        component, element, mine = element_of_block(
            order, first, end, fields, elements, cuda.blockIdx.x, cuda.threadIdx.z
        )
        if mine:
            at = component * (out.size // fields) + element * cube + j * n + i
            push = load(force, component)
            for k in range(n):
                rates = fma(a[0], load(r0, at), fma(a[1], load(r1, at), a[2] * load(r2, at)))
                differences = fma(b[0], load(f0, at), fma(b[1], load(f1, at), b[2] * load(f2, at)))
                weight = mass_at(mass, weights, element, k, j, i)
                store(out, at, fma(-weight, differences - push, rates))
                at += square

    return right_hand_side


@cache
def make_linear_sources(n: int, axis_aligned: bool) -> Any:
    """Return kernel(order, first, end, factors, references, fields, mass, weights, out).

    out[i] += mass sum_s factors[i, s] (fields[s] - references[s]): buoyancy, and the sources of mean gradients.
    factors: [c, S]; references: [S]; fields: [S, E, n, n, n]; out: [c, E, n, n, n]. Cost: reads the fields (and the
    mass of curved elements), reads and writes the components that have a factor.
    """
    layout = layout_of(n)
    square, cube, elements, mass_at = n * n, n**3, layout.elements, make_mass(n, axis_aligned)

    @kernel(*launch_bounds(n, np.float64, _REGISTERS))
    def linear_sources(order, first, end, factors, references, fields, mass, weights, out):
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        _, element, mine = element_of_block(order, first, end, 1, elements, cuda.blockIdx.x, cuda.threadIdx.z)
        if mine:
            count = references.size
            components = factors.size // count
            field = out.size // components
            at = element * cube + j * n + i
            for k in range(n):
                weight = mass_at(mass, weights, element, k, j, i)
                for component in range(components):
                    total, used = 0.0, False
                    for s in range(count):
                        factor = load(factors, component * count + s)
                        if factor != 0.0:
                            used = True
                            change = load(fields, s * field + at) - load(references, s)
                            total = fma(factor, change, total)
                    if used:
                        place = component * field + at
                        store(out, place, fma(weight, total, load(out, place)))
                at += square

    return linear_sources


@cache
def make_momentum(n: int, axis_aligned: bool) -> Any:
    """Return kernel(order, first, end, p, f, share, metrics, mass, weights, tables, out).

    out = share f - mass grad p, [3, E, n, n, n]; f: an assembled weak force, of which every copy of a point adds its
    share. The element lies in shared memory as a whole. Cost: reads 5 words per point (and 10 of curved elements),
    writes 3.
    """
    layout = layout_of(n)
    square, cube, elements, layer = n * n, n**3, layout.elements, layout.layer
    tables_size, size, plain = 3 * square, n * layer, square
    shared_size, pitch, threads = size * elements, layout.pitch, layout.threads
    column_of, put, row_of, lines = (
        make_column(n, square),
        make_store(n, layer),
        make_column(n, 1),
        make_lines(n),
    )
    nine, mass_at = make_column(9, cube), make_mass(n, axis_aligned)
    registers = REGISTERS if axis_aligned or n <= _LONG else _MOST_REGISTERS

    @kernel(*launch_bounds(n, np.float64, registers))
    def momentum(order, first, end, p, f, share, metrics, mass, weights, tables, out):
        own_tables = cuda.shared.array(tables_size, np.float64)
        values = cuda.shared.array(shared_size, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(tables, own_tables, (part * n + j) * n + i, threads)
        _, element, mine = element_of_block(order, first, end, 1, elements, cuda.blockIdx.x, cuda.threadIdx.z)
        at = element * cube + j * n + i
        own = values[part * size : (part + 1) * size]
        column = column_of(p, at)
        put(column, own, j * pitch + i)
        barrier()
        row_x, row_y = row_of(own_tables, plain + i * n), row_of(own_tables, plain + j * n)
        field = p.size
        metrics_at = element * 9 * cube + j * n + i
        for k in range(n):
            part_of_point, x_force = load(share, at), load(f, at)
            y_force, z_force = load(f, field + at), load(f, 2 * field + at)
            r, s, t = lines(row_x, row_y, column, own_tables, plain + k * n, own, k, i, j)
            weight = mass_at(mass, weights, element, k, j, i)
            if axis_aligned:
                x, y = load(metrics, 3 * element) * r, load(metrics, 3 * element + 1) * s
                z = load(metrics, 3 * element + 2) * t
            else:
                r_x, r_y, r_z, s_x, s_y, s_z, t_x, t_y, t_z = nine(metrics, metrics_at)
                x = fma(r_x, r, fma(s_x, s, t_x * t))
                y = fma(r_y, r, fma(s_y, s, t_y * t))
                z = fma(r_z, r, fma(s_z, s, t_z * t))
            if mine:
                store(out, at, fma(-weight, x, part_of_point * x_force))
                store(out, field + at, fma(-weight, y, part_of_point * y_force))
                store(out, 2 * field + at, fma(-weight, z, part_of_point * z_force))
            at += square
            metrics_at += square

    return momentum


@cache
def _make_flux(n: int, axis_aligned: bool) -> Any:
    """Return flux(x, y, z, metrics, mass, weights, element, k, j, i): mass times a vector in reference directions."""
    square, cube = n * n, n**3
    nine, mass_at = make_column(9, cube), make_mass(n, axis_aligned)

    @device_function
    def of_boxes(x, y, z, scale, volume, weights, element, k, j, i):
        weight = mass_at(volume, weights, element, k, j, i)
        r, s, t = load(scale, 3 * element), load(scale, 3 * element + 1), load(scale, 3 * element + 2)
        return weight * (r * x), weight * (s * y), weight * (t * z)

    @device_function
    def of_curved(x, y, z, metrics, mass, weights, element, k, j, i):
        at = element * 9 * cube + k * square + j * n + i
        r_x, r_y, r_z, s_x, s_y, s_z, t_x, t_y, t_z = nine(metrics, at)
        weight = mass_at(mass, weights, element, k, j, i)
        r = weight * fma(r_x, x, fma(r_y, y, r_z * z))
        s = weight * fma(s_x, x, fma(s_y, y, s_z * z))
        return r, s, weight * fma(t_x, x, fma(t_y, y, t_z * z))

    return of_boxes if axis_aligned else of_curved


@cache
def make_force_divergence(n: int, axis_aligned: bool) -> Any:
    """Return kernel(order, first, end, f, inverse_mass, metrics, mass, weights, tables, out).

    out = (grad q, f inverse_mass): f [3, E, n, n, n] is an assembled weak force, inverse_mass the inverse of the
    assembled mass matrix. The threads go from layer to layer at the same time. A layer of two components lies in
    shared memory, and the derivative along z goes to the thread's own column. Two pairs of layers need one barrier
    per layer. Cost: reads 4 words per point (and 10 of curved elements), writes 1.
    """
    layout = layout_of(n)
    square, cube, elements, layer = n * n, n**3, layout.elements, layout.layer
    tables_size, size, turned = 3 * square, 4 * layer, 2 * square
    shared_size, pitch, threads = size * elements, layout.pitch, layout.threads
    nothing = (0.0,) * n
    add, row_of, put, flux = (
        make_add(n),
        make_column(n, 1),
        make_store(n, square),
        _make_flux(n, axis_aligned),
    )
    along_x, along_y = make_row_dot(n, 1), make_row_dot(n, pitch)

    @kernel(*launch_bounds(n, np.float64))
    def force_divergence(order, first, end, f, inverse_mass, metrics, mass, weights, tables, out):
        own_tables = cuda.shared.array(tables_size, np.float64)
        layers = cuda.shared.array(shared_size, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(tables, own_tables, (part * n + j) * n + i, threads)
        _, element, mine = element_of_block(order, first, end, 1, elements, cuda.blockIdx.x, cuda.threadIdx.z)
        begin = element * cube + j * n + i
        own = layers[part * size : (part + 1) * size]
        barrier()
        row_x, row_y = row_of(own_tables, i * n), row_of(own_tables, j * n)
        field, result, at, here = out.size, nothing, begin, 0
        for k in range(n):
            inverse = load(inverse_mass, at)
            x, y = inverse * load(f, at), inverse * load(f, field + at)
            z = inverse * load(f, 2 * field + at)
            r, s, t = flux(x, y, z, metrics, mass, weights, element, k, j, i)
            store(own, here + j * pitch + i, r)
            store(own, here + layer + j * pitch + i, s)
            barrier()
            result = add(own_tables, turned + k * n, t, result)
            total = along_x(row_x, own, here + j * pitch, result[0])
            result = result[1:] + (along_y(row_y, own, here + layer + i, total),)  # noqa: RUF005
            at += square
            here = 2 * layer - here
        if mine:
            put(result, out, begin)

    return force_divergence


@cache
def make_filter(n: int) -> Any:
    """Return kernel(order, first, end, fields, matrix, u): u = F u in all directions, in place.

    matrix: F [n, n]; u: [c, E, n, n, n]; fields: c. Cost: reads and writes each point once.
    """
    layout = layout_of(n)
    square, cube, elements, layer = n * n, n**3, layout.elements, layout.layer
    size, pitch, threads = (n + 2) * layer, layout.pitch, layout.threads
    shared_size, lines_at = size * elements, n * layer
    column_of, row_of, along_z = make_column(n, square), make_column(n, 1), make_dot(n)
    along_x, along_y = make_row_dot(n, 1), make_row_dot(n, pitch)

    @kernel(*launch_bounds(n, np.float64))
    def filter_fields(order, first, end, fields, matrix, u):
        own_matrix = cuda.shared.array(square, np.float64)
        values = cuda.shared.array(shared_size, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        fetch_tables(matrix, own_matrix, (part * n + j) * n + i, threads)
        component, element, mine = element_of_block(
            order, first, end, fields, elements, cuda.blockIdx.x, cuda.threadIdx.z
        )
        at = component * (u.size // fields) + element * cube + j * n + i
        own = values[part * size : (part + 1) * size]
        column = column_of(u, at)
        barrier()
        for k in range(n):
            store(own, k * layer + j * pitch + i, along_z(own_matrix, k * n, column, 0.0))
        barrier()
        row_x, row_y = row_of(own_matrix, i * n), row_of(own_matrix, j * n)
        here = lines_at
        for k in range(n):
            store(own, here + j * pitch + i, along_x(row_x, own, k * layer + j * pitch, 0.0))
            barrier()
            value = along_y(row_y, own, here + i, 0.0)
            if mine:
                store(u, at, value)
            at += square
            here = 2 * lines_at + layer - here

    return filter_fields
