"""The largest convective speed in units of the spacing of points, which limits the time step.

Source: Deville, Fischer, Mund, "High-Order Methods for Incompressible Fluid Flow", 2002, Sec. 3.3. The spacing at a
point is that of Nek5000: half the distance between its neighbours, or at an end the distance to its neighbour.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ridgeline.elements.point_loops import PointLoop, compiled, literal, scratch, with_starts


def inverse_spacing(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (spacing of points) [n] for n >= 2 ascending points in one direction."""
    gaps = np.diff(points)
    inner = (gaps[:-1] + gaps[1:]) / 2
    return 1.0 / np.concatenate([gaps[:1], inner, gaps[-1:]])


@intrinsic(prefer_literal=True)
def _speeds(typing, count, axis_aligned, constants, metrics, metrics_start, spacing, u, start, stride, out):
    """out = sum over r, s, t of |contravariant velocity| times inverse spacing; spacing: three of `count` each."""
    if literal(count) is None or not isinstance(axis_aligned, types.BooleanLiteral):
        return None

    def codegen(context, builder, signature, args):
        names = ["count", "axis_aligned", "constants", *with_starts("metrics")]
        names += ["spacing", *with_starts("u"), "stride", "out"]
        loop = PointLoop(context, builder, signature, args, names, out.dtype)
        for c in range(3):
            loop.values[f"u{c}"] = loop.values["u"]
            loop.values["u"] = builder.gep(loop.values["u"], [args[8]])
        size, aligned = literal(count), axis_aligned.literal_value
        scale = [loop.splat("constants", a) for a in range(3)] if aligned else []

        def body():
            velocity = [loop.load(f"u{c}") for c in range(3)]
            total = None
            for a in range(3):
                if aligned:
                    speed = scale[a] * velocity[a]
                else:
                    m = [loop.load("metrics", (3 * a + c) * size) for c in range(3)]
                    speed = loop.lanes.fma(
                        m[0], velocity[0], loop.lanes.fma(m[1], velocity[1], m[2] * velocity[2])
                    )
                term = speed.magnitude() * loop.load("spacing", a * size)
                total = term if total is None else total + term
            loop.store(total, "out")

        loop.run(size, body)
        return context.get_dummy_value()

    index = types.int64
    return types.void(count, axis_aligned, constants, metrics, index, spacing, u, index, index, out), codegen


@cache
def make_courant(n: int, axis_aligned: bool) -> Any:
    """Return kernel(elements, velocity, scale, metrics, inverse_spacing) -> float: times dt, the Courant number.

    The result is the largest |U_r| / dr + |U_s| / ds + |U_t| / dt over the points, U_r = r_x u + r_y v + r_z w; 0
    without elements, NaN if any velocity is NaN. float64. velocity: [3, E, n, n, n]; scale: [E, 3] of axis-aligned
    elements; metrics: [E, 9, n, n, n] of curved ones; inverse_spacing: [n]. One pass: reads velocity (and metrics).
    """
    points = n**3

    @compiled("float64", "elements r5 r2 r5 r1")
    def courant(elements, velocity, scale, metrics, inverse_spacing):
        field = velocity.size // 3
        velocity, metrics = velocity.reshape(-1), metrics.reshape(-1)
        spacing, speeds, constants = scratch(3 * points, velocity), scratch(points, velocity), np.zeros(3)
        for k in range(n):
            for j in range(n):
                for i in range(n):
                    place = (k * n + j) * n + i
                    spacing[place] = inverse_spacing[i]
                    spacing[points + place] = inverse_spacing[j]
                    spacing[2 * points + place] = inverse_spacing[k]
        # Numbers that are not negative have the order of their bits; NaN is larger than all of them.
        bits = speeds.view(np.int64)
        largest = np.zeros(1, np.int64)
        for e in elements:
            if axis_aligned:
                constants[0], constants[1], constants[2] = scale[e, 0], scale[e, 1], scale[e, 2]
            _speeds(
                points,
                axis_aligned,
                constants,
                metrics,
                9 * e * points,
                spacing,
                velocity,
                e * points,
                field,
                speeds,
            )
            most = largest[0]
            for i in range(points):
                most = max(most, bits[i])
            largest[0] = most
        return largest.view(np.float64)[0]

    return courant
