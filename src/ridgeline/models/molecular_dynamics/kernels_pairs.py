"""The sum of the Lennard-Jones forces on one atom, in vector registers.

    f_i = sum_j (48 r^-14 - 24 r^-8) (x_i - x_j)   over the neighbours j with r < r_c, r = |x_i - x_j|

    sum_forces             from a full list
    add_forces_of_pairs    from a half list, with Newton's third law
    sum_forces_mixed       from a full list, with distances and forces of pairs in float32

Rows of atoms are (x, y, z, anything), so that a neighbour is one load of a row. Shuffles turn eight rows into vectors
of x, of y and of z, which costs less than gathers.

Forces are summed as integers in units of 2**-FORCE_BITS, so that the sum depends neither on its order nor on ranks or
threads. The fused multiply-add that computes a force adds 1.5 * 2**(52 - FORCE_BITS), which turns the float into such
an integer; the number of terms says how often it was added.

In mixed precision, places are integers in units of 2**-32 of the box's edges. Their differences wrap as the periodic
box does, so that the nearest image needs no work, and ghosts have exactly the places of their owners. Differences are
exact; as float32 they have a relative error of 6e-8, however large the box is. Forces are rounded to multiples of
2**-MIXED_BITS and summed as integers.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.llvm import (
    F32,
    F64,
    I32,
    I64,
    Lanes,
    constant,
    count_lanes,
    data_pointer,
    host_vector_bytes,
)

FORCE_BITS = 38
FORCE_UNIT = 2.0**-FORCE_BITS
# The largest force of a pair that the integers hold: 2^(51 - FORCE_BITS) = 8192 epsilon / sigma. Atoms nearer than
# CLOSEST exceed it: 48 r^-13 - 24 r^-7 = 8192 at r = 0.672.
CLOSEST = 0.68
_MAGIC = 1.5 * 2.0 ** (52 - FORCE_BITS)
_MAGIC_BITS = int(np.float64(_MAGIC).view(np.int64))
COLUMNS = 4  # of a row
# A lane sums a few forces in 32 bits: 2^(31 - MIXED_BITS) = 16384 epsilon / sigma, twice that of atoms at CLOSEST.
MIXED_BITS = 17


def lanes_of_forces() -> int:
    """Return the number of neighbours in a vector of float64."""
    return max(4, host_vector_bytes() // 8)


def lanes_of_mixed_forces() -> int:
    """Return the number of neighbours in a vector of float32."""
    return max(4, host_vector_bytes() // 4)


def _shuffle(builder, a, b, picks):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(picks)), picks))


def load_rows(builder, lanes, points, rows):
    """Return vectors of the four columns of the atoms whose rows are at the pointer `rows`, in some fixed order."""
    quad = Lanes(builder, lanes.element, COLUMNS)
    loaded = []
    for k in range(lanes.count):
        row = builder.zext(builder.load(builder.gep(rows, [ir.Constant(I64, k)])), I64)
        loaded.append(quad.load(points, builder.shl(row, ir.Constant(I64, 2))).value)
    while len(loaded) > 4:  # two rows, then four, into one register
        half = len(loaded) // 2
        every = list(range(2 * loaded[0].type.count))
        loaded = [_shuffle(builder, loaded[k], loaded[k + half], every) for k in range(half)]
    per_register = lanes.count // 4

    def in_each_row(a, b, picks):
        """Pick of every row of a (0 ... 3) and of b (4 ... 7)."""
        of = [
            4 * r + pick if pick < 4 else lanes.count + 4 * r + pick - 4
            for r in range(per_register)
            for pick in picks
        ]
        return _shuffle(builder, a, b, of)

    a, b, c, d = loaded
    x_and_z = in_each_row(a, b, (0, 4, 2, 6)), in_each_row(c, d, (0, 4, 2, 6))
    y_and_w = in_each_row(a, b, (1, 5, 3, 7)), in_each_row(c, d, (1, 5, 3, 7))
    return [
        lanes.vector(in_each_row(*x_and_z, (0, 1, 4, 5))),
        lanes.vector(in_each_row(*y_and_w, (0, 1, 4, 5))),
        lanes.vector(in_each_row(*x_and_z, (2, 3, 6, 7))),
        lanes.vector(in_each_row(*y_and_w, (2, 3, 6, 7))),
    ]


def across(builder, vector, combine):
    """Return one number of all lanes."""
    while vector.type.count > 1:
        half = vector.type.count // 2
        low, high = (_shuffle(builder, vector, vector, list(range(s, s + half))) for s in (0, half))
        vector = combine(low, high)
    return builder.extract_element(vector, ir.Constant(I32, 0))


class _Pairs:
    """Vectors of an atom's pairs. atoms, lists: pointers to places and neighbours; i: the atom; square: r_c^2."""

    def __init__(self, builder, atoms, lists, i, square):
        self._builder, self._atoms, self._lists = builder, atoms, lists
        self.floats = Lanes(builder, F64, lanes_of_forces())
        self.integers = Lanes(builder, I64, self.floats.count)
        base = builder.shl(i, ir.Constant(I64, 2))
        self.components = [builder.add(base, ir.Constant(I64, c)) for c in range(3)]
        self._place = [self.floats.splat(builder.load(builder.gep(atoms, [at]))) for at in self.components]
        self._cutoff, self._one = self.floats.splat(square), self.floats.constant(1.0)
        self.closest = cgutils.alloca_once_value(builder, constant(self.floats.type, np.inf))
        self.sums = [cgutils.alloca_once_value(builder, constant(self.integers.type, 0)) for _ in self._place]

    def forces(self, k):
        """Return the forces of the list at k as bits of floats (integers + _MAGIC_BITS), and which pairs are near."""
        builder, floats = self._builder, self.floats
        others = load_rows(builder, floats, self._atoms, builder.gep(self._lists, [k]))
        dx, dy, dz = (mine - other for mine, other in zip(self._place, others[:3]))
        r2 = floats.fma(dz, dz, floats.fma(dy, dy, dx * dx))
        inverse = floats.vector(builder.fdiv(self._one.value, r2.value))
        sixth = inverse * inverse * inverse
        force = floats.fma(sixth, floats.constant(48.0), floats.constant(-24.0)) * (sixth * inverse)
        least = builder.load(self.closest)
        nearer = builder.fcmp_ordered("<", r2.value, least)
        builder.store(builder.select(nearer, r2.value, least), self.closest)
        near = builder.fcmp_ordered("<", r2.value, self._cutoff.value)
        magic = floats.constant(_MAGIC)
        return [
            builder.bitcast(floats.fma(force, d, magic).value, self.integers.type) for d in (dx, dy, dz)
        ], near

    def least_square(self):
        """Return the least square of a distance."""
        builder = self._builder

        def smaller(a, b):
            return builder.select(builder.fcmp_ordered("<", a, b), a, b)

        return across(builder, builder.load(self.closest), smaller)


@intrinsic
def sum_forces(typing, points, rows, i, begin, end, square, out_forces):
    """Set out_forces[i] to the force on atom i, in 2**-FORCE_BITS; return the least square of a distance.

    points: float64 (m, COLUMNS), rows: int32, of the neighbours at begin ... end - 1, a multiple of the lanes;
    square: r_c^2; out_forces: int64 (m, COLUMNS).
    """

    def codegen(context, builder, signature, args):
        atoms, lists, forces = (data_pointer(context, builder, signature, args, n) for n in (0, 1, 6))
        pairs = _Pairs(builder, atoms, lists, args[2], args[5])
        terms = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        with cgutils.for_range_slice(builder, args[3], args[4], ir.Constant(I64, pairs.floats.count)) as (
            k,
            _,
        ):
            found, near = pairs.forces(k)
            for bits, total in zip(found, pairs.sums):
                before = builder.load(total)
                builder.store(builder.select(near, builder.add(before, bits), before), total)
            builder.store(builder.add(builder.load(terms), count_lanes(builder, near)), terms)
        added = builder.mul(builder.load(terms), ir.Constant(I64, _MAGIC_BITS))
        for at, total in zip(pairs.components, pairs.sums):
            force_bits = builder.sub(across(builder, builder.load(total), builder.add), added)
            builder.store(force_bits, builder.gep(forces, [at]))
        return pairs.least_square()

    return types.float64(points, rows, i, begin, end, square, out_forces), codegen


@intrinsic
def add_forces_of_pairs(typing, points, rows, i, begin, end, square, out_forces):
    """Add the forces of atom i's pairs to out_forces[i], and subtract them from those of its neighbours.

    The neighbours differ from each other, except for those that only pad the list, which are far away. The bits are
    those of `sum_forces`, because the two atoms of a pair get opposite integers. Arguments and result as there.
    """

    def codegen(context, builder, signature, args):
        atoms, lists, forces = (data_pointer(context, builder, signature, args, n) for n in (0, 1, 6))
        pairs = _Pairs(builder, atoms, lists, args[2], args[5])
        nothing, magic = pairs.integers.constant(0), pairs.integers.constant(_MAGIC_BITS)
        with cgutils.for_range_slice(builder, args[3], args[4], ir.Constant(I64, pairs.floats.count)) as (
            k,
            _,
        ):
            found, near = pairs.forces(k)
            columns = [builder.select(near, builder.sub(bits, magic.value), nothing.value) for bits in found]
            for column, total in zip(columns, pairs.sums):
                builder.store(builder.add(builder.load(total), column), total)
            _subtract_rows(
                builder, pairs.integers, [*columns, nothing.value], builder.gep(lists, [k]), forces
            )
        for at, total in zip(pairs.components, pairs.sums):
            own = builder.gep(forces, [at])
            builder.store(
                builder.add(builder.load(own), across(builder, builder.load(total), builder.add)), own
            )
        return pairs.least_square()

    return types.float64(points, rows, i, begin, end, square, out_forces), codegen


def _subtract_rows(builder, lanes, columns, rows, forces):
    """Subtract vectors of the four columns from the rows of `forces` that the pointer `rows` names."""
    n, half = lanes.count, lanes.count // 2
    quad = Lanes(builder, lanes.element, COLUMNS)
    halves = []  # of (x, y) and of (z, w), one lane after the other
    for first in (0, half):
        picks = [at + r for r in range(first, first + half) for at in (0, n)]
        halves.append([_shuffle(builder, a, b, picks) for a, b in (columns[:2], columns[2:])])
    for lane in range(n):
        at = 2 * (lane % half)
        force = _shuffle(builder, *halves[lane // half], [at, at + 1, n + at, n + at + 1])
        row = builder.zext(builder.load(builder.gep(rows, [ir.Constant(I64, lane)])), I64)
        place = builder.shl(row, ir.Constant(I64, 2))
        quad.vector(builder.sub(quad.load(forces, place).value, force)).store(forces, place)


def _nearest_integers(builder, floats, value):
    """Return the nearest integers, 32 bits each, of floats."""
    kind = ir.FunctionType(floats.type, [floats.type])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.{floats.suffix}")
    return builder.fptosi(builder.call(function, [value]), ir.VectorType(I32, floats.count))


@intrinsic
def sum_forces_mixed(typing, places, rows, i, begin, end, units, square, out_forces):
    """Set out_forces[i] to the force on atom i, in 2**-FORCE_BITS; return the least square of a distance.

    places: int32 (m, 4), x, y, z in 2^-32 of the edges, then 0, or another number in a row that only pads lists;
    rows: int32, of the neighbours at begin ... end - 1, a multiple of the lanes; units: float32 (3,), 2^-32 of the
    edges; square: r_c^2, float32; out_forces: int64 (m, 4).
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
            r2 = floats.fma(dz, dz, floats.fma(dy, dy, dx * dx))
            r2 = floats.vector(builder.select(present, r2.value, far.value))
            inverse = floats.vector(builder.fdiv(one.value, r2.value))
            sixth = inverse * inverse * inverse
            force = floats.fma(sixth, floats.constant(48.0), floats.constant(-24.0)) * (sixth * inverse)
            force = force * floats.constant(2.0**MIXED_BITS)
            near = builder.fcmp_ordered("<", r2.value, cutoff.value)
            for d, total in zip((dx, dy, dz), sums):
                grains = _nearest_integers(builder, floats, (force * d).value)
                before = builder.load(total)
                builder.store(builder.select(near, builder.add(before, grains), before), total)
            least = builder.load(closest)
            nearer = builder.fcmp_ordered("<", r2.value, least)
            builder.store(builder.select(nearer, r2.value, least), closest)
        wide = ir.VectorType(I64, integers.count)
        for at, total in zip(components, sums):
            grains = across(builder, builder.sext(builder.load(total), wide), builder.add)
            bits = builder.shl(grains, ir.Constant(I64, FORCE_BITS - MIXED_BITS))
            builder.store(bits, builder.gep(forces, [at]))

        def smaller(a, b):
            return builder.select(builder.fcmp_ordered("<", a, b), a, b)

        return builder.fpext(across(builder, builder.load(closest), smaller), ir.DoubleType())

    return types.float64(places, rows, i, begin, end, units, square, out_forces), codegen
