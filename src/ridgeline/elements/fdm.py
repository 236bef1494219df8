"""Fast diagonalisation on elements: the exact inverse of a separable operator, element by element.

z = (S_z (x) S_y (x) S_x) Lambda^-1 (S_z (x) S_y (x) S_x)^T r, Lambda = lambda_x + lambda_y + lambda_z, with the
generalised eigenvectors S of the one-dimensional operators in columns. Source: Lynch, Rice, Thomas, Numer. Math. 6
(1964) 185; as a Schwarz smoother: Fischer, J. Comput. Phys. 133 (1997) 84; Lottes, Fischer, J. Sci. Comput. 24
(2005) 45.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from ridgeline.elements.points import PointLoop, compiled, literal, scratch
from ridgeline.elements.tensor import along_x, along_y, along_z
from ridgeline.jit.llvm import Vector, constant


@intrinsic(prefer_literal=True)
def _inverse_row(typing, count, constants, x, out, out_start):
    """out = 1 / (constants[0] + x) where that is positive, else 0."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "constants", "x", "out", "out_start")
        loop = PointLoop(context, builder, signature, args, names, out.dtype)
        rest = loop.splat("constants", 0)
        zero, one = constant(loop.lanes.type, 0.0), constant(loop.lanes.type, 1.0)

        def body():
            total = (loop.load("x") + rest).value
            positive = builder.fcmp_ordered(">", total, zero)
            inverse = builder.select(positive, builder.fdiv(one, total), zero)
            loop.store(Vector(loop.lanes, inverse), "out")

        loop.run(literal(count), body)
        return context.get_dummy_value()

    return types.void(count, constants, x, out, types.int64), codegen


@intrinsic(prefer_literal=True)
def _multiply(typing, count, factor, u):
    """u *= factor."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        loop = PointLoop(context, builder, signature, args, ("count", "factor", "u"), u.dtype)
        loop.run(literal(count), lambda: loop.store(loop.load("factor") * loop.load("u"), "u"))
        return context.get_dummy_value()

    return types.void(count, factor, u), codegen


@cache
def make_fdm(n: int, dtype_name: str) -> Any:
    """Return kernel(elements, r, index, vectors, vectors_transposed, eigenvalues, z) for n**3 points per element.

    elements: int64, the local elements to work on. r, z: [E, n, n, n], may be the same array. index: int64 [E, 3],
    which matrix an element takes along x, y, z. vectors, vectors_transposed: [q, n, n], S and its transpose;
    eigenvalues: [q, n]. Sums of eigenvalues that are not positive give 0: a constant's share is left out where it is
    free. The inverse sums are kept while neighbours in `elements` have the same index.

    One pass: reads r, writes z; 12 n + 1 operations per point. Choose n = points of the element, or with its overlap.
    """
    rows, points = n * n, n**3

    @compiled(dtype_name, "elements r4 i2 r3 r3 r2 w4")
    def fdm(elements, r, index, vectors, vectors_transposed, eigenvalues, z):
        r, z = r.reshape(-1), z.reshape(-1)
        one, two, inverse = scratch(points, z), scratch(points, z), scratch(points, z)
        rest = np.empty(1, z.dtype)
        last_x, last_y, last_z = -1, -1, -1
        for e in elements:
            here = e * points
            x, y, zz = index[e, 0], index[e, 1], index[e, 2]
            if x != last_x or y != last_y or zz != last_z:
                last_x, last_y, last_z = x, y, zz
                for k in range(n):
                    for j in range(n):
                        rest[0] = eigenvalues[zz, k] + eigenvalues[y, j]
                        _inverse_row(n, rest, eigenvalues[x], inverse, (k * n + j) * n)
            along_x(n, n, rows, False, one, 0, vectors[x], r, here)
            along_y(n, n, n, n, False, two, 0, vectors_transposed[y], one, 0)
            along_z(n, n, rows, False, one, 0, vectors_transposed[zz], two, 0)
            _multiply(points, inverse, one)
            along_z(n, n, rows, False, two, 0, vectors[zz], one, 0)
            along_y(n, n, n, n, False, one, 0, vectors[y], two, 0)
            along_x(n, n, rows, False, z, here, vectors_transposed[x], one, 0)

    return fdm
