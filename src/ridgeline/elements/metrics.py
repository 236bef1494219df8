"""Loops over the points of an element that multiply by its metrics, in vector registers (see `element_points`).

metrics: nine of `count` each, r_x, r_y, r_z, s_x, s_y, s_z, t_x, t_y, t_z. A triple of arrays x, y, z may be the same
as the triple of outputs.
"""

from numba import types
from numba.extending import intrinsic

from ridgeline.elements.points import PointLoop, literal

INDEX = types.int64


def _product(loop, factors, vectors):
    """Return the sum of three products."""
    total = factors[2] * vectors[2]
    for place in (1, 0):
        total = loop.lanes.fma(factors[place], vectors[place], total)
    return total


@intrinsic(prefer_literal=True)
def to_physical(typing, count, metrics, metrics_start, r, s, t, x, x_start, y, y_start, z, z_start):
    """(x, y, z) = r (r_x, r_y, r_z) + s (s_x, s_y, s_z) + t (t_x, t_y, t_z)."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = [
            "count",
            "metrics",
            "metrics_start",
            "r",
            "s",
            "t",
            "x",
            "x_start",
            "y",
            "y_start",
            "z",
            "z_start",
        ]
        loop = PointLoop(context, builder, signature, args, names, x.dtype)
        size = literal(count)

        def body():
            parts = [loop.load(name) for name in "rst"]
            results = [
                _product(loop, [loop.load("metrics", (3 * a + c) * size) for a in range(3)], parts)
                for c in range(3)
            ]
            for result, name in zip(results, "xyz"):
                loop.store(result, name)

        loop.run(size, body)
        return context.get_dummy_value()

    kinds = (count, metrics, INDEX, r, s, t, x, INDEX, y, INDEX, z, INDEX)
    return types.void(*kinds), codegen


@intrinsic(prefer_literal=True)
def to_reference(typing, count, metrics, metrics_start, x, x_start, y, y_start, z, z_start, r, s, t):
    """(r, s, t) = (r_x x + r_y y + r_z z, s_x x + ..., t_x x + ...)."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = [
            "count",
            "metrics",
            "metrics_start",
            "x",
            "x_start",
            "y",
            "y_start",
            "z",
            "z_start",
            "r",
            "s",
            "t",
        ]
        loop = PointLoop(context, builder, signature, args, names, r.dtype)
        size = literal(count)

        def body():
            parts = [loop.load(name) for name in "xyz"]
            results = [
                _product(loop, [loop.load("metrics", (3 * a + c) * size) for c in range(3)], parts)
                for a in range(3)
            ]
            for result, name in zip(results, "rst"):
                loop.store(result, name)

        loop.run(size, body)
        return context.get_dummy_value()

    kinds = (count, metrics, INDEX, x, INDEX, y, INDEX, z, INDEX, r, s, t)
    return types.void(*kinds), codegen


@intrinsic(prefer_literal=True)
def multiply_three(typing, count, factor, factor_start, r, s, t):
    """(r, s, t) *= factor."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "factor", "factor_start", "r", "s", "t")
        loop = PointLoop(context, builder, signature, args, names, r.dtype)

        def body():
            factor = loop.load("factor")
            for name in "rst":
                loop.store(factor * loop.load(name), name)

        loop.run(literal(count), body)
        return context.get_dummy_value()

    return types.void(count, factor, INDEX, r, s, t), codegen


@intrinsic(prefer_literal=True)
def advect_points(typing, count, axis_aligned, constants, weights, c, c_stride, c_start, r, s, t):
    """t = c_0 r + c_1 s + c_2 t, c_q = c[c_start + q c_stride ...]; axis-aligned: of c_q constants[q] weights.

    Literals: count and axis_aligned. weights and t begin at c_start as well, r and s at 0.
    """
    if literal(count) is None or not isinstance(axis_aligned, types.BooleanLiteral):
        return None

    def codegen(context, builder, signature, args):
        names = ["count", "axis_aligned", "constants", "weights", "c", "stride", "c_start", "r", "s", "t"]
        loop = PointLoop(context, builder, signature, args, names, t.dtype)
        first, stride = loop.values["c"], args[5]
        for q in range(3):
            loop.values[f"c{q}"] = first
            first = builder.gep(first, [stride])
        for name in ("weights", "t"):
            loop.values[name] = builder.gep(loop.values[name], [args[6]])
        aligned = axis_aligned.literal_value
        scale = [loop.splat("constants", q) for q in range(3)] if aligned else []

        def body():
            c = [loop.load(f"c{q}") for q in range(3)]
            if aligned:
                c = [one * factor for one, factor in zip(c, scale)]
            total = _product(loop, c, [loop.load(name) for name in "rst"])
            loop.store(total * loop.load("weights") if aligned else total, "t")

        loop.run(literal(count), body)
        return context.get_dummy_value()

    kinds = (count, axis_aligned, constants, weights, c, INDEX, INDEX, r, s, t)
    return types.void(*kinds), codegen
