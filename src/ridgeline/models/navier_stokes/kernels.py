"""Compiled passes of the Navier-Stokes step and of statistics: each reads its inputs once and writes its result once.

Fields are float64 [c, E, N] with N = n^3 points of an element. The mass of an axis-aligned element is
volume[e] cube[N], of which both are passed; that of a curved element is mass [E, N]. The arrays that are not used are
empty. products: GENERATED or PLAIN, the code of the small matrix products (`elements.tensor`).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import float64, int64, types

from ridgeline.config.expressions import Formula
from ridgeline.elements.even_odd import ODD, even_odd_parts, even_odd_product, parts_size
from ridgeline.elements.helmholtz import fill_cube
from ridgeline.elements.point_loops import compiled, multiply_three, scratch, to_physical, to_reference
from ridgeline.elements.tensor import along_x
from ridgeline.jit.formulas import CPU, FormulaTarget, point_function
from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.models.navier_stokes.sources import SourceTerm, field_symbols, is_kept


@cache
def make_weak_right_hand_side() -> Any:
    """Return kernel(elements, a, b, force, f0, f1, f2, r0, r1, r2, volume, cube, mass, out).

    out = sum_j a_j r_j - mass (sum_j b_j f_j - force): the known side of all equations, unassembled.
    a, b: float64 [3], of levels 0 (present), 1, 2; b with 1/dt. force: [c]. f: fields, r: weak rates [c, E, N].
    One pass: reads 6 words per point and component (and mass of curved elements), writes 1.
    """

    @compiled("float64", "elements r1 r1 r1 r3 r3 r3 r3 r3 r3 r1 r1 r2 w3")
    def weak_right_hand_side(elements, a, b, force, f0, f1, f2, r0, r1, r2, volume, cube, mass, out):
        c, _, n = out.shape
        aligned = volume.size > 0
        weights = np.empty(n)
        for i in elements:
            if aligned:
                weights[:] = volume[i] * cube
            else:
                weights[:] = mass[i]
            for k in range(c):
                u0, u1, u2 = f0[k, i], f1[k, i], f2[k, i]
                n0, n1, n2 = r0[k, i], r1[k, i], r2[k, i]
                target = out[k, i]
                for p in range(n):
                    rates = a[0] * n0[p] + a[1] * n1[p] + a[2] * n2[p]
                    differences = b[0] * u0[p] + b[1] * u1[p] + b[2] * u2[p]
                    target[p] = rates - weights[p] * (differences - force[k])

    return weak_right_hand_side


@cache
def make_buoyancy() -> Any:
    """Return kernel(factors, references, scalars, volume, cube, mass, out), which adds to weak rates.

    out[i] += mass sum_s factors[i, s] (scalars[s] - references[s]). factors: [3, S]; references: [S]; scalars:
    [S, E, N]; out: [3, E, N]. One pass: reads the scalars that have a factor (and the mass of curved elements), reads
    and writes the components that have one.
    """

    @compiled("float64", "r2 r1 r3 r1 r1 r2 w3")
    def buoyancy(factors, references, scalars, volume, cube, mass, out):
        n_elements, n_points = out.shape[1], out.shape[2]
        aligned = volume.size > 0
        weights = np.empty(n_points)
        for e in range(n_elements):
            if aligned:
                weights[:] = volume[e] * cube
            else:
                weights[:] = mass[e]
            for i in range(3):
                target = out[i, e]
                for s in range(references.size):
                    factor, reference, theta = factors[i, s], references[s], scalars[s, e]
                    if factor != 0.0:
                        for p in range(n_points):
                            target[p] += factor * weights[p] * (theta[p] - reference)

    return buoyancy


def make_source_function(
    term: SourceTerm, target: FormulaTarget, arguments: str, read: Callable[[str], str], **names: Any
) -> Any:
    """Return the function f(arguments) of a source term at a point, compiled with the kernel that calls it.

    read: code that yields the value of a variable, or of a kept formula by its text; names: what this code calls.
    """
    pieces = dict(names)

    def value(formula: Formula) -> str:
        if is_kept(formula):
            return read(formula.text)
        name, variables = f"piece_{len(pieces)}", sorted(formula.variables)
        pieces[name] = point_function(formula, variables, target)
        return f"{name}({', '.join(map(read, variables))})"

    code = value(term.formula)
    if term.strength is not None:
        field = read(field_symbols(term.field)[term.field])
        code = f"-{value(term.strength)}*({field} - {code})"
    return target.declare(eval(f"lambda {arguments}: {code}", {"__builtins__": {}, **pieces}))


def make_source(term: SourceTerm) -> tuple[Any, tuple[str, ...]]:
    """Return kernel(arrays, time, volume, cube, mass, out) of a source term, and the names of its arrays.

    out [E, N] -= mass term. arrays: a tuple, each [E N]: of a variable, or of a kept formula by its text. One pass:
    reads the arrays (and the mass of curved elements), reads and writes out.
    """
    arrays: list[str] = []

    def read(name: str) -> str:
        if name == "t":
            return "time"
        if name not in arrays:
            arrays.append(name)
        return f"arrays[{arrays.index(name)}][p]"

    at_point = make_source_function(term, CPU, "arrays, time, p", read)
    vector, matrix = (types.Array(float64, d, "C", readonly=True) for d in (1, 2))
    signature = (
        types.Tuple([vector] * len(arrays)), float64, vector, vector, matrix, float64[:, ::1]
    )  # fmt: skip

    @kernel(signature, nogil=True, error_model="numpy")
    def source(arrays, time, volume, cube, mass, out):
        n_elements, n_points = out.shape
        aligned = volume.size > 0
        weights = np.empty(n_points)
        for e in range(n_elements):
            if aligned:
                weights[:] = volume[e] * cube
            else:
                weights[:] = mass[e]
            target = out[e]
            for p in range(n_points):
                target[p] -= weights[p] * at_point(arrays, time, e * n_points + p)

    return source, tuple(arrays)


@cache
def make_face_derivatives() -> Any:
    """Return kernel(elements, places, end_row, derivative, fields, out): derivatives in the reference directions.

    elements: int64 [f], the elements of the faces; places: int64 [4], the first point of the face in an element, and
    the strides from a point to the next across the face, along its slow and along its fast direction. end_row: [n],
    the row of the derivative matrix at the face. fields: [c, E, n^3]. out: [c, 3, f, n, n], the derivatives across,
    along the slow and along the fast direction. Reads the points of the elements once.
    """

    @compiled("float64", "elements i1 r1 r2 r3 w5")
    def face_derivatives(elements, places, end_row, derivative, fields, out):
        n = end_row.size
        start, normal, first, second = places[0], places[1], places[2], places[3]
        for k in range(out.shape[0]):
            for f in range(elements.size):
                u = fields[k, elements[f]]
                for a in range(n):
                    for b in range(n):
                        base = a * first + b * second
                        across = 0.0
                        along_first = 0.0
                        along_second = 0.0
                        for l in range(n):
                            across += end_row[l] * u[base + l * normal]
                            along_first += derivative[a, l] * u[start + l * first + b * second]
                            along_second += derivative[b, l] * u[start + a * first + l * second]
                        out[k, 0, f, a, b] = across
                        out[k, 1, f, a, b] = along_first
                        out[k, 2, f, a, b] = along_second

    return face_derivatives


@cache
def make_force_divergence(n: int, axis_aligned: bool, products: int) -> Any:
    """Return kernel(elements, f, inverse_mass, scale, volume, metrics, mass, derivative, weights, out).

    out = (grad q, f inverse_mass), unassembled: f [3, E, n, n, n] is an assembled weak force, inverse_mass the
    inverse of the assembled mass matrix, so that their product is continuous. One pass: reads 4 words per point (and
    10 of curved elements), writes 1. See elements.metrics.
    """
    rows, points, size = n * n, n**3, parts_size(n, n)

    @compiled("float64", "elements r5 r4 r2 r1 r5 r4 r2 r1 w4")
    def force_divergence(elements, f, inverse_mass, scale, volume, metrics, mass, derivative, weights, out):
        field = out.size
        f, inverse_mass, metrics = f.reshape(-1), inverse_mass.reshape(-1), metrics.reshape(-1)
        mass, out = mass.reshape(-1), out.reshape(-1)
        x, y, z = scratch(points, f), scratch(points, f), scratch(points, f)
        matrix, parts = np.empty((n, n)), np.empty((2, size))
        whole = even_odd_parts(np.ascontiguousarray(derivative.T), np.empty(size))
        cube = np.empty(points)
        fill_cube(weights, cube)
        matrix[:] = derivative
        parts[:] = whole
        for e in elements:
            here = e * points
            for p in range(points):
                inverse = inverse_mass[here + p]
                if axis_aligned:
                    inverse *= volume[e] * cube[p]
                x[p] = inverse * f[here + p]
                y[p] = inverse * f[here + field + p]
                z[p] = inverse * f[here + 2 * field + p]
            if axis_aligned:
                for i in range(n):
                    for j in range(n):
                        matrix[i, j] = scale[e, 0] * derivative[i, j]
                for place in range(size):
                    parts[0, place] = scale[e, 1] * whole[place]
                    parts[1, place] = scale[e, 2] * whole[place]
            else:
                to_reference(points, metrics, 9 * here, x, 0, y, 0, z, 0, x, y, z)
                multiply_three(points, mass, here, x, y, z)
            along_x(products, n, n, rows, False, out, here, matrix, x, 0)
            even_odd_product(products, n, n, n, n, True, ODD, out, here, parts[0], 0, y, 0)
            even_odd_product(products, n, rows, n, 1, True, ODD, out, here, parts[1], 0, z, 0)

    return force_divergence


@cache
def make_momentum(n: int, axis_aligned: bool, products: int) -> Any:
    """Return kernel(elements, p, f, share, scale, volume, metrics, mass, derivative, weights, out).

    out = share f - mass grad p [3, E, n, n, n], unassembled. f is an assembled weak force. Every copy of a point adds
    its share of it (inverse multiplicity), so that one assembly serves both terms. One pass: reads 5 words per point
    (and 10 of curved elements), writes 3.
    """
    rows, points, size = n * n, n**3, parts_size(n, n)

    @compiled("float64", "elements r4 r5 r4 r2 r1 r5 r4 r2 r1 w5")
    def momentum(elements, p, f, share, scale, volume, metrics, mass, derivative, weights, out):
        field = p.size
        p, f, share, metrics = p.reshape(-1), f.reshape(-1), share.reshape(-1), metrics.reshape(-1)
        mass, out = mass.reshape(-1), out.reshape(-1)
        x, y, z = scratch(points, p), scratch(points, p), scratch(points, p)
        transposed = np.ascontiguousarray(derivative.T)
        parts = even_odd_parts(derivative, np.empty(size))
        cube = np.empty(points)
        fill_cube(weights, cube)
        for e in elements:
            here = e * points
            along_x(products, n, n, rows, False, x, 0, transposed, p, here)
            even_odd_product(products, n, n, n, n, False, ODD, y, 0, parts, 0, p, here)
            even_odd_product(products, n, rows, n, 1, False, ODD, z, 0, parts, 0, p, here)
            if axis_aligned:
                for i in range(points):
                    weight = volume[e] * cube[i]
                    part = share[here + i]
                    out[here + i] = part * f[here + i] - weight * scale[e, 0] * x[i]
                    out[here + field + i] = part * f[here + field + i] - weight * scale[e, 1] * y[i]
                    out[here + 2 * field + i] = part * f[here + 2 * field + i] - weight * scale[e, 2] * z[i]
            else:
                to_physical(points, metrics, 9 * here, x, y, z, x, 0, y, 0, z, 0)
                for i in range(points):
                    weight = mass[here + i]
                    part = share[here + i]
                    out[here + i] = part * f[here + i] - weight * x[i]
                    out[here + field + i] = part * f[here + field + i] - weight * y[i]
                    out[here + 2 * field + i] = part * f[here + 2 * field + i] - weight * z[i]

    return momentum


BLOCK = 512  # points of all fields that are worked on at a time: they stay in the first-level cache


@subroutine
def _add(weight, a, out):
    for i in range(a.size):
        out[i] += weight * a[i]


@subroutine
def _add_product(weight, a, b, out):
    for i in range(a.size):
        out[i] += weight * a[i] * b[i]


@kernel(lambda: (float64, *[float64[:, ::1]] * 2, *[int64[::1]] * 2, float64[:, ::1]))
def add_moments(weight, fields, scalars, first, second, out_sums):
    """Add weight * field and weight * (product of two fields) to running sums.

    fields : float64 [f, n_points]; scalars : float64 [s, n_points], numbered after them
    first, second : int64 [m], the numbers of the fields of each product
    out_sums : float64 [f + s + m, n_points], the fields' sums, then the products'

    Memory: each field read once, each sum read and written once.
    """
    n_fields, n_points = fields.shape
    n_all = n_fields + len(scalars)
    for low in range(0, n_points, BLOCK):
        high = min(low + BLOCK, n_points)
        for i in range(n_all):
            a = fields[i, low:high] if i < n_fields else scalars[i - n_fields, low:high]
            _add(weight, a, out_sums[i, low:high])
        for product in range(len(first)):
            i, j = first[product], second[product]
            a = fields[i, low:high] if i < n_fields else scalars[i - n_fields, low:high]
            b = fields[j, low:high] if j < n_fields else scalars[j - n_fields, low:high]
            _add_product(weight, a, b, out_sums[n_all + product, low:high])
