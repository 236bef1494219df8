"""Tendencies, eddy viscosities and speeds on GPUs, from the formulas of one point of the CPU's kernels.

A thread block takes a row of cells; launch `rows_launch(shape)` of the cells that are set.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from ridgeline.blocks.rows_cuda import MAX_THREADS, THREADS, largest_of_threads
from ridgeline.jit.cuda_device import device_function, kernel, load, store
from ridgeline.models.wind.forcing import momentum_rates
from ridgeline.models.wind.subgrid import (
    BUOYANCY,
    COEFFICIENT,
    FILTER,
    HALF_PER_X,
    HALF_PER_Y,
    HALF_PER_Z,
    PER_PRANDTL,
    energy_source,
    energy_viscosity,
    mixing_length,
    smagorinsky_viscosity,
    strain_squared,
)

rates_at = device_function(momentum_rates)
strain_of = device_function(strain_squared)
viscosity_of_strain = device_function(smagorinsky_viscosity)
length_of = device_function(mixing_length)
viscosity_of_energy = device_function(energy_viscosity)
source_of_energy = device_function(energy_source)


@device_function
def laplacian_at(q, c, row, plane, cz, cy, cx):
    """Return the diffusion of a field in a cell. cz, cy, cx: diffusivity over the squared widths."""
    here = load(q, c)
    z = ((load(q, c + plane) - here) - (here - load(q, c - plane))) * cz
    y = ((load(q, c + row) - here) - (here - load(q, c - row))) * cy
    x = ((load(q, c + 1) - here) - (here - load(q, c - 1))) * cx
    return (z + y) + x


@kernel(THREADS)
def set_momentum(
    u, v, w, theta, p, layout, nodes, shape, diffusive, per_width, forces, theta_ref, fu, fv, fw
):
    """Set the tendencies of the velocity: pressure gradient, diffusion, rotation, buoyancy and forces.

    diffusive, per_width : viscosity over squared widths, and 1 / widths, in z, y and x
    The other arguments are those of `kernels_diffusion.set_momentum`.
    """
    origin, row, plane = layout
    p_row, p_plane = nodes[1], nodes[2]
    cz, cy, cx = diffusive
    hz, hy, hx = per_width
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start, corner = origin + k * plane + j * row, nodes[0] + k * p_plane + j * p_row
    reference = load(theta_ref, k)
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        c, n = start + i, corner + i
        a, b, d, e = load(p, n), load(p, n + p_row), load(p, n + p_plane), load(p, n + p_plane + p_row)
        a1, b1 = load(p, n + 1), load(p, n + p_row + 1)
        d1, e1 = load(p, n + p_plane + 1), load(p, n + p_plane + p_row + 1)
        gz = ((((d - a) + (e - b)) + ((d1 - a1) + (e1 - b1))) * 0.25) * hz
        gy = ((((b - a) + (e - d)) + ((b1 - a1) + (e1 - d1))) * 0.25) * hy
        gx = ((((a1 - a) + (b1 - b)) + ((d1 - d) + (e1 - e))) * 0.25) * hx
        ru, rv, rw = rates_at(load(u, c), load(v, c), load(w, c), load(theta, c), reference, forces)
        ru, rv, rw = ru - gx, rv - gy, rw - gz
        if cx != 0.0:
            ru += laplacian_at(u, c, row, plane, cz, cy, cx)
            rv += laplacian_at(v, c, row, plane, cz, cy, cx)
            rw += laplacian_at(w, c, row, plane, cz, cy, cx)
        store(fu, c, ru)
        store(fv, c, rv)
        store(fw, c, rw)


@kernel(THREADS)
def set_diffusion(q, layout, shape, coefficients, out):
    """Set the diffusion of a field with a constant diffusivity."""
    origin, row, plane = layout
    start = origin + cuda.blockIdx.y * plane + cuda.blockIdx.x * row
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        cz, cy, cx = coefficients
        store(out, start + i, laplacian_at(q, start + i, row, plane, cz, cy, cx))


@kernel(THREADS)
def add_eddy_diffusion(q, kappa, layout, shape, factors, out):
    """Add d_j[factor kappa d_j q] to a tendency. factors: half the factor over the squared widths in z, y and x."""
    origin, row, plane = layout
    cz, cy, cx = factors
    start = origin + cuda.blockIdx.y * plane + cuda.blockIdx.x * row
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        c = start + i
        here, mine = load(q, c), load(kappa, c)
        z = (mine + load(kappa, c + plane)) * (load(q, c + plane) - here)
        z -= (load(kappa, c - plane) + mine) * (here - load(q, c - plane))
        y = (mine + load(kappa, c + row)) * (load(q, c + row) - here)
        y -= (load(kappa, c - row) + mine) * (here - load(q, c - row))
        x = (mine + load(kappa, c + 1)) * (load(q, c + 1) - here)
        x -= (load(kappa, c - 1) + mine) * (here - load(q, c - 1))
        store(out, c, load(out, c) + ((z * cz + y * cy) + x * cx))


@device_function
def stress_at(q, c, along, across, nu, per_along):
    """Return nu d q/d(along) at the face between cells c and c + across."""
    high = load(q, c + along) + load(q, c + along + across)
    low = load(q, c - along) + load(q, c - along + across)
    mean = 0.5 * (load(nu, c) + load(nu, c + across))
    return mean * ((high - low) * (0.25 * per_along))


@device_function
def transposed_at(u, v, w, nu, c, own, row, plane, hx, hy, hz, ho):
    """Return d_j[nu d_i u_j] in a cell, for the axis i of pitch `own` and inverse width `ho`."""
    x = stress_at(u, c, own, 1, nu, ho) - stress_at(u, c - 1, own, 1, nu, ho)
    y = stress_at(v, c, own, row, nu, ho) - stress_at(v, c - row, own, row, nu, ho)
    z = stress_at(w, c, own, plane, nu, ho) - stress_at(w, c - plane, own, plane, nu, ho)
    return (z * hz + y * hy) + x * hx


@kernel(THREADS)
def add_transposed_stress(u, v, w, nu, layout, shape, own, per_own, per_width, out):
    """Add d_j[nu d_i u_j] to the velocity of one axis. own, per_own: its pitch and inverse width."""
    origin, row, plane = layout
    hz, hy, hx = per_width
    start = origin + cuda.blockIdx.y * plane + cuda.blockIdx.x * row
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        c = start + i
        value = transposed_at(u, v, w, nu, c, own, row, plane, hx, hy, hz, per_own)
        store(out, c, load(out, c) + value)


@device_function
def strain_at(u, v, w, c, row, plane, below, x, y, z):
    """Return |S|^2 in a cell. below: distance to the lower plane of derivatives in z; x, y, z: their factors."""
    return strain_of(
        (load(u, c + 1) - load(u, c - 1)) * x,
        (load(u, c + row) - load(u, c - row)) * y,
        (load(u, c + plane) - load(u, c - below)) * z,
        (load(v, c + 1) - load(v, c - 1)) * x,
        (load(v, c + row) - load(v, c - row)) * y,
        (load(v, c + plane) - load(v, c - below)) * z,
        (load(w, c + 1) - load(w, c - 1)) * x,
        (load(w, c + row) - load(w, c - row)) * y,
        (load(w, c + plane) - load(w, c - below)) * z,
    )


@kernel(THREADS)
def set_smagorinsky(u, v, w, theta, layout, shape, numbers, squared_length, surface, nu, kappa):
    """Set nu_t and kappa_t of Smagorinsky in a box with one layer around the owned cells; shape: of that box.

    The arguments are those of `subgrid.set_smagorinsky` with reach = 1.
    """
    origin, row, plane = layout
    j, k = cuda.blockIdx.x - 1, cuda.blockIdx.y - 1
    x, y, z = load(numbers, HALF_PER_X), load(numbers, HALF_PER_Y), load(numbers, HALF_PER_Z)
    per_prandtl, buoyancy = load(numbers, PER_PRANDTL), load(numbers, BUOYANCY)
    below = plane
    if surface == 1 and k == 0:
        below, z = 0, z + z
    length = load(squared_length, k + 1)
    start = origin + k * plane + j * row - 1
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        c = start + i
        stability = buoyancy * ((load(theta, c + plane) - load(theta, c - below)) * z) * per_prandtl
        strain = strain_at(u, v, w, c, row, plane, below, x, y, z)
        value = viscosity_of_strain(strain, stability, length)
        store(nu, c, value)
        store(kappa, c, value * per_prandtl)


@kernel(THREADS)
def set_one_equation(u, v, w, theta, energy, layout, shape, numbers, surface, nu, kappa, source):
    """Set nu_t, kappa_t and the source of the subgrid energy in a box with one layer around the owned cells.

    The arguments are those of `subgrid.set_one_equation` with reach = 1; shape: of the box.
    """
    origin, row, plane = layout
    j, k = cuda.blockIdx.x - 1, cuda.blockIdx.y - 1
    x, y, z = load(numbers, HALF_PER_X), load(numbers, HALF_PER_Y), load(numbers, HALF_PER_Z)
    width, buoyancy, coefficient = load(numbers, FILTER), load(numbers, BUOYANCY), load(numbers, COEFFICIENT)
    on_surface = surface == 1 and k == 0
    below = plane
    if on_surface:
        below, z = 0, z + z
    start = origin + k * plane + j * row - 1
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        c = start + i
        stability = buoyancy * ((load(theta, c + plane) - load(theta, c - below)) * z)
        strain = strain_at(u, v, w, c, row, plane, below, x, y, z)
        e = max(load(energy, c), 0.0)
        length = length_of(e, stability, width)
        viscosity = viscosity_of_energy(e, length, coefficient)
        share = length / width
        diffusivity = (1.0 + (share + share)) * viscosity
        store(nu, c, viscosity)
        store(kappa, c, diffusivity)
        store(
            source, c,
            source_of_energy(e, length, width, viscosity, diffusivity, strain, stability, on_surface),
        )  # fmt: skip


@kernel(THREADS)
def add_difference(q, factor, new, old, layout, shape):
    """q += factor (new - old) in the owned cells."""
    start = layout[0] + cuda.blockIdx.y * layout[2] + cuda.blockIdx.x * layout[1]
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        c = start + i
        store(q, c, load(q, c) + factor * (load(new, c) - load(old, c)))


@kernel(THREADS)
def add_field(values, layout, shape, out):
    """out += values in the owned cells."""
    start = layout[0] + cuda.blockIdx.y * layout[2] + cuda.blockIdx.x * layout[1]
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        store(out, start + i, load(out, start + i) + load(values, start + i))


@kernel(THREADS)
def add_damping(q, layout, shape, target, rate, out):
    """out += rate (target - q) in the owned cells. target, rate: of the planes."""
    k = cuda.blockIdx.y
    start = layout[0] + k * layout[2] + cuda.blockIdx.x * layout[1]
    aim, factor = load(target, k), load(rate, k)
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        c = start + i
        store(out, c, load(out, c) + factor * (aim - load(q, c)))


@kernel(THREADS)
def add_plane(values, begin, row, shape, out):
    """Add a plane of values, [ny, nx] flat, to the cells from `begin` on; launch `rows_launch((1, *shape))`."""
    j = cuda.blockIdx.x
    for i in range(cuda.threadIdx.x, shape[1], cuda.blockDim.x):
        c = begin + j * row + i
        store(out, c, load(out, c) + load(values, j * shape[1] + i))


@kernel(THREADS)
def find_speeds(u, v, w, layout, shape, per_width, out_speeds, out_rates):
    """Set for each row the largest |u_i|, and the largest |u_i| / width, NaN where one is NaN."""
    scratch = cuda.shared.array(MAX_THREADS, np.float64)
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start = layout[0] + k * layout[2] + j * layout[1]
    speed, rate = 0.0, 0.0
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        a, b, c = abs(load(u, start + i)), abs(load(v, start + i)), abs(load(w, start + i))
        size, most = a, a * per_width[2]
        if not b <= size:
            size = b
        if not c <= size:
            size = c
        if not b * per_width[1] <= most:
            most = b * per_width[1]
        if not c * per_width[0] <= most:
            most = c * per_width[0]
        if not size <= speed:
            speed = size
        if not most <= rate:
            rate = most
    store(scratch, cuda.threadIdx.x, speed)
    largest_of_threads(scratch, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_speeds, k * cuda.gridDim.x + j, load(scratch, 0))
    store(scratch, cuda.threadIdx.x, rate)
    largest_of_threads(scratch, cuda.threadIdx.x, cuda.blockDim.x)
    if cuda.threadIdx.x == 0:
        store(out_rates, k * cuda.gridDim.x + j, load(scratch, 0))


@kernel(THREADS)
def combine(base, first_factor, first, second_factor, second, out, layout, shape):
    """out = base + first_factor first + second_factor second in the owned cells."""
    start = layout[0] + cuda.blockIdx.y * layout[2] + cuda.blockIdx.x * layout[1]
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        c = start + i
        rate = first_factor * load(first, c) + second_factor * load(second, c)
        store(out, c, load(base, c) + rate)


@kernel(THREADS)
def add_to_layer(values, begin, steps, counts, amount):
    """Add a number to a layer of cells; launch `fill_layer_launch(counts)`."""
    first = begin + cuda.blockIdx.x * steps[0]
    for i in range(cuda.threadIdx.x, counts[1], cuda.blockDim.x):
        at = first + i * steps[1]
        store(values, at, load(values, at) + amount)
