"""The sum of Lennard-Jones forces on one atom in mixed precision: distances and forces of pairs in float32.

Places are integers of 2**-32 of the box's edges. Their differences wrap as the periodic box does. So the nearest
image needs no work, and ghosts have the very places of their owners. Differences are exact; as float32 they have a
relative error of 6e-8, however large the box is. Forces are rounded to multiples of 2**-MIXED_BITS and summed as
integers, so that the sum does not depend on its order.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.llvm import F32, I32, I64, Lanes, constant, data_pointer, host_vector_bytes
from ridgeline.models.molecular_dynamics.kernels_pairs import FORCE_BITS, across, load_rows

# A lane sums a few forces in 32 bits: 2^(31 - MIXED_BITS) = 16384 epsilon / sigma, twice that of atoms at CLOSEST.
MIXED_BITS = 17


def lanes_of_mixed_forces() -> int:
    """Return how many neighbours a vector has."""
    return max(4, host_vector_bytes() // 4)


def _nearest_integers(builder, floats, value):
    """Return the nearest integers, 32 bits each, of floats."""
    kind = ir.FunctionType(floats.type, [floats.type])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.{floats.suffix}")
    return builder.fptosi(builder.call(function, [value]), ir.VectorType(I32, floats.count))


@intrinsic
def sum_forces_mixed(typing, places, rows, i, begin, end, units, square, out_forces):
    """Set out_forces[i] to the force on atom i, in 2**-FORCE_BITS; return the least square of a distance.

    places: int32 (m, 4), x, y, z in 2^-32 of the edges, and 0; not 0 in a row that only fills up; rows: int32, of the
    neighbours at begin ... end - 1, a multiple of the lanes; units: float32 (3,), 2^-32 of the edges; square: r_c^2,
    float32; out_forces: int64 (m, 4).
    """

    def codegen(context, builder, signature, args):
        atoms, lists, lengths, forces = (
            data_pointer(context, builder, signature, args, n) for n in (0, 1, 5, 7)
        )
        integers = Lanes(builder, I32, lanes_of_mixed_forces())
        floats = Lanes(builder, F32, integers.count)
        base = builder.shl(args[2], ir.Constant(I64, 2))
        components = [builder.add(base, ir.Constant(I64, c)) for c in range(3)]
        place = [integers.splat(builder.load(builder.gep(atoms, [at]))) for at in components]
        scales = [floats.splat(builder.load(builder.gep(lengths, [ir.Constant(I64, c)]))) for c in range(3)]
        sums = [cgutils.alloca_once_value(builder, constant(integers.type, 0)) for _ in place]
        closest = cgutils.alloca_once_value(builder, constant(floats.type, np.inf))
        nothing = integers.constant(0)
        cutoff, one, far = floats.splat(args[6]), floats.constant(1.0), floats.constant(np.inf)
        with cgutils.for_range_slice(builder, args[3], args[4], ir.Constant(I64, floats.count)) as (k, _):
            *others, absent = load_rows(builder, integers, atoms, builder.gep(lists, [k]))
            present = builder.icmp_signed("==", absent.value, nothing.value)
            dx, dy, dz = (
                (mine - other).to_float(floats) * scale for mine, other, scale in zip(place, others, scales)
            )
            distance = floats.fma(dz, dz, floats.fma(dy, dy, dx * dx))
            distance = floats.vector(builder.select(present, distance.value, far.value))
            inverse = floats.vector(builder.fdiv(one.value, distance.value))
            sixth = inverse * inverse * inverse
            force = floats.fma(sixth, floats.constant(48.0), floats.constant(-24.0)) * (sixth * inverse)
            force = force * floats.constant(2.0**MIXED_BITS)
            near = builder.fcmp_ordered("<", distance.value, cutoff.value)
            for d, total in zip((dx, dy, dz), sums):
                grains = _nearest_integers(builder, floats, (force * d).value)
                before = builder.load(total)
                builder.store(builder.select(near, builder.add(before, grains), before), total)
            least = builder.load(closest)
            nearer = builder.fcmp_ordered("<", distance.value, least)
            builder.store(builder.select(nearer, distance.value, least), closest)
        wide = ir.VectorType(I64, integers.count)
        for at, total in zip(components, sums):
            grains = across(builder, builder.sext(builder.load(total), wide), builder.add)
            bits = builder.shl(grains, ir.Constant(I64, FORCE_BITS - MIXED_BITS))
            builder.store(bits, builder.gep(forces, [at]))

        def smaller(a, b):
            return builder.select(builder.fcmp_ordered("<", a, b), a, b)

        return builder.fpext(across(builder, builder.load(closest), smaller), ir.DoubleType())

    return types.float64(places, rows, i, begin, end, units, square, out_forces), codegen
