"""The nonlinear term and the Runge-Kutta substep on lines of modes along y, in one pass through vector registers.

Complex numbers are passed as real arrays, real and imaginary parts alternating; tables of factors along y have each
number twice. A tile is real [variable, line, 2 N_y + pitch]. The modes j_y = 0 ... most of a line are at its
beginning and -most ... -1 at its end, as in the output of an FFT. The integrating factor exp(r(k) dt) is the product
of a factor of the line and a factor of j_y, and so is the phase exp(i k.d) of a grid displaced by d. Therefore no
exponential is computed for a mode.

ALONG names the rows of the table along y, which are [2 N_y] each, and OF_LINE the columns of the table of lines. With
e the integrating factor and N the rate of a substep,

    stage = f_0(e) now + f_1(e) N,    kept = f_2(e) base + f_3(e) N,    f_i(e) = c_i0 + c_i1 e + c_i2 e^2.
"""

from itertools import product
from typing import Any, NamedTuple

from llvmlite import ir
from numba import boolean, int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.fourier.real_pairs import alternating, swapped
from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.jit.llvm import I64, Vector, VectorLoop

# UNDO: real part of the phase of the grid on which the rate was formed; the imaginary part follows. NEXT: the same
# for the grid of the next stage. DECAY: integrating factor of the velocity; those of scalars follow. FLAT: k_x^2 +
# k_z^2, or a tiny number where that is zero, so that the mean divides zero by a number > 0.
ALONG = KY, UNDO_ALONG, NEXT_ALONG, DECAY_ALONG = 0, 1, 3, 5
OF_LINE = KX, KZ, FLAT, UNDO, NEXT, DECAY = 0, 1, 2, 3, 5, 7


class _Half(VectorLoop):
    """The loop over one half of a line."""

    def at(self, start, i, step=None, times=0):
        """Return start + i + times * step, given names of integers."""
        index = self.builder.add(self.values[start], i)
        if times:
            index = self.builder.add(index, self.builder.mul(self.values[step], ir.Constant(I64, times)))
        return index

    def along(self, row, i):
        """Load from a row of the table along y."""
        return self.load("along", self.at("y", i, "along_step", row))


class _Phase:
    """exp(i k.d) of the modes of a line, as a product."""

    def __init__(self, half, place, row):
        """place, row: of the real parts in the tables; imaginary parts follow."""
        self.half, self.row = half, row
        self.re, self.im = half.splat("line", place), half.splat("line", place + 1)

    def parts(self, i):
        """Return real and imaginary part."""
        fma = self.half.lanes.fma
        re, im = self.half.along(self.row, i), self.half.along(self.row + 1, i)
        return fma(self.re, re, -(self.im * im)), fma(self.im, re, self.re * im)


def _times(vector, re, im):
    """Return complex numbers times (re + i im); im has each imaginary part times (-1, 1)."""
    return vector.lanes.fma(re, vector, im * swapped(vector))


class _Substep:
    """Emits `stage` and `kept` from a rate without its phase and scale; shifted and last are Python flags."""

    def __init__(self, half, shifted, last):
        self.half, self.last = half, last
        self.decay, self.scale = half.splat("decay"), half.splat("scale")
        self.coefficients = [[half.splat("coefficients", 3 * n + m) for m in range(3)] for n in range(4)]
        self.undo = _Phase(half, UNDO, UNDO_ALONG) if shifted else None
        self.next = _Phase(half, NEXT, NEXT_ALONG) if shifted and not last else None
        self.plus_minus = alternating(half.lanes, 1.0, -1.0)

    def begin(self, i):
        """Compute the factors that the fields of a vector share."""
        half, fma = self.half, self.half.lanes.fma
        e = self.decay * half.load("along", half.at("decay_along", i))
        self.factors = [fma(fma(c[2], e, c[1]), e, c[0]) for c in self.coefficients]
        if self.undo is not None:
            # -i times the conjugate of the phase is -Im - i Re
            re, im = self.undo.parts(i)
            self.undone = -(im * self.scale), re * (self.plus_minus * self.scale)
        if self.next is not None:
            re, im = self.next.parts(i)
            self.displaced = re, -(im * self.plus_minus)

    def finish(self, rate, i, field):
        """Advance a vector of a field by i times its rate, which is displaced and not scaled."""
        half, f, fma = self.half, self.factors, self.half.lanes.fma
        if self.undo is None:
            rate = swapped(rate) * (self.plus_minus * self.scale)
        else:
            rate = _times(rate, *self.undone)
        place = half.at("place", i, "field_step", field)
        kept = fma(f[2], half.load("base", place), f[3] * rate)
        if not self.last:
            stage = fma(f[0], half.load("now", place), f[1] * rate)
            if self.next is not None:
                stage = _times(stage, *self.displaced)
            half.store(stage, "tile", half.at("stage", i, "tile_step", field))
        half.store(kept, "kept", place)


def _velocity(half, substep):
    """Return a function that emits the substep of a vector of the velocity's modes: m_l = k_m T_lm, projected."""
    kx, kz, flat = (half.splat("line", n) for n in (KX, KZ, FLAT))
    fma, one = half.lanes.fma, half.lanes.constant(1.0)

    def body(i):
        substep.begin(i)
        ax, xy, az, yz = (half.load("tile", half.at("back", i, "tile_step", v)) for v in range(4))
        ky = half.along(KY, i)
        inverse = Vector(half.lanes, half.builder.fdiv(one.value, fma(ky, ky, flat).value))
        mx, my, mz = fma(ky, xy, ax), fma(kx, xy, kz * yz), fma(ky, yz, az)
        along_k = fma(kx, mx, fma(ky, my, kz * mz)) * inverse
        for field, (m, k) in enumerate(((mx, kx), (my, ky), (mz, kz))):
            substep.finish(fma(-k, along_k, m), i, field)

    return body


def _scalar(half, substep):
    """Return a function that emits the substep of a vector of a scalar's modes: (k_x F_x + k_z F_z) + k_y F_y."""

    def body(i):
        substep.begin(i)
        flat, fy = (half.load("tile", half.at("back", i, "tile_step", v)) for v in range(2))
        substep.finish(half.lanes.fma(half.along(KY, i), fy, flat), i, 0)

    return body


class _Arrays(NamedTuple):
    """Flat views: of the tile, of the table along y, and of stored fields."""

    tile: Any
    along: Any
    now: Any
    base: Any
    kept: Any


class _Steps(NamedTuple):
    """Strides in reals: of variables of the tile, of rows of the table along y, of stored fields."""

    tile_step: Any
    along_step: Any
    field_step: Any


class _Place(NamedTuple):
    """Where one half of a line begins, and its length; all counted in reals.

    back, stage: places of the products and of the next stage in the tile; y: place in a row of `along`; decay_along:
    place of the integrating factor in `along`; place: in field 0 of now, base and kept; count: length.
    """

    back: Any
    stage: Any
    y: Any
    decay_along: Any
    place: Any
    count: Any


_KINDS = tuple(product((True, False), repeat=3))


@intrinsic
def _advance_half(typing, kind, arrays, steps, place, line, decay, coefficients, scale):
    """Advance the velocity or one scalar on one half of a line.

    kind: (velocity, shifted, last), of which each combination has its own loop; arrays, steps, place: _Arrays,
    _Steps, _Place; line: factors of the line; decay: integrating factor of the field.
    """
    names = ("kind", "arrays", "steps", "place", "line", "decay", "coefficients", "scale")

    def codegen(context, builder, signature, args):
        flags = cgutils.unpack_tuple(builder, args[0])
        for velocity, shifted, last in _KINDS:
            matches = [
                flag if is_set else builder.not_(flag)
                for flag, is_set in zip(flags, (velocity, shifted, last))
            ]
            with builder.if_then(builder.and_(builder.and_(matches[0], matches[1]), matches[2])):
                half = _Half(context, builder, signature, args, names, line.dtype)
                substep = _Substep(half, shifted, last)
                half.run((_velocity if velocity else _scalar)(half, substep))
        return context.get_dummy_value()

    return types.void(kind, arrays, steps, place, line, decay, coefficients, scale), codegen


@intrinsic(prefer_literal=True)
def _displace_half(
    typing, tile, stage, tile_step, along, y, along_step, line, now, place, field_step, n, count
):
    """Set n fields of one half of a line in a tile to `now` times the next phase; indices as in `_advance_half`."""
    arguments = tile, stage, tile_step, along, y, along_step, line, now, place, field_step, n, count
    names = (
        "tile",
        "stage",
        "tile_step",
        "along",
        "y",
        "along_step",
        "line",
        "now",
        "place",
        "field_step",
        "n",
        "count",
    )

    def codegen(context, builder, signature, args):
        half = _Half(context, builder, signature, args, names, along.dtype)
        phase = _Phase(half, NEXT, NEXT_ALONG)
        minus_plus = alternating(half.lanes, -1.0, 1.0)

        def body(i):
            re, im = phase.parts(i)
            im = im * minus_plus
            with cgutils.for_range(builder, half.values["n"]) as loop:
                source = builder.add(half.at("place", i), builder.mul(half.values["field_step"], loop.index))
                target = builder.add(half.at("stage", i), builder.mul(half.values["tile_step"], loop.index))
                half.store(_times(half.load("now", source), re, im), "tile", target)

        half.run(body)
        return context.get_dummy_value()

    return types.void(*arguments), codegen


@kernel(
    lambda T: (T[:, ::1], int64, int64, int64[::1], T[:, ::1], T[:, ::1], boolean, T[:, :, ::1]), nogil=True
)
def load_lines(fields, first_line, n_lines, start, of_line, along, shifted, out_tile):
    """Fill a tile with fields on the displaced grid of the next stage, and with zeros where no mode is retained.

    Parameters
    ----------
    fields : (n, 2 n_modes) real view; start : (lines of the rank + 1,) int64
    of_line, along : tables, see OF_LINE and ALONG; shifted : whether the grid is displaced
    out_tile : (>= n, >= n_lines, >= 2 n_y) real view
    """
    n_y = along.shape[1] // 2
    n_fields = fields.shape[0]
    numbers, source, table = out_tile.reshape(-1), fields.reshape(-1), along.reshape(-1)
    pitch = out_tile.shape[2]
    tile_step, field_step = out_tile.shape[1] * pitch, fields.shape[1]
    for l in range(n_lines):
        line = first_line + l
        begin = start[line]
        most = (start[line + 1] - begin) // 2
        for half in range(2):
            y, place, n = (0, begin, most + 1) if half == 0 else (n_y - most, begin + most + 1, most)
            if shifted:
                _displace_half(
                    numbers,
                    l * pitch + 2 * y,
                    tile_step,
                    table,
                    2 * y,
                    2 * n_y,
                    of_line[line],
                    source,
                    2 * place,
                    field_step,
                    n_fields,
                    2 * n,
                )
            else:
                for v in range(n_fields):
                    out_tile[v, l, 2 * y : 2 * (y + n)] = fields[v, 2 * place : 2 * (place + n)]
        for v in range(n_fields):
            out_tile[v, l, 2 * (most + 1) : 2 * (n_y - most)] = 0


@subroutine(nogil=True)
def _add_force(tile, l, last, values, first, end, places, begin, most, of_line, along, coefficients, kept):
    """Add the force on modes first ... end - 1 of `places` to kept and to the next stage, as part of the rate."""
    n_y = along.shape[1] // 2
    for i in range(first, end):
        y = places[i]
        mode = begin + (y if y <= most else y - n_y + 2 * most + 1)
        e = of_line[DECAY] * along[DECAY_ALONG, 2 * y]
        to_stage = coefficients[3] + e * (coefficients[4] + e * coefficients[5])
        to_kept = coefficients[9] + e * (coefficients[10] + e * coefficients[11])
        yr, yi = along[NEXT_ALONG, 2 * y], along[NEXT_ALONG + 1, 2 * y]
        re = of_line[NEXT] * yr - of_line[NEXT + 1] * yi
        im = of_line[NEXT + 1] * yr + of_line[NEXT] * yi
        for v in range(3):
            fr, fi = values[v, 2 * i], values[v, 2 * i + 1]
            kept[v, 2 * mode] += to_kept * fr
            kept[v, 2 * mode + 1] += to_kept * fi
            if not last:
                tile[v, l, 2 * y] += to_stage * (re * fr - im * fi)
                tile[v, l, 2 * y + 1] += to_stage * (re * fi + im * fr)


@kernel(
    lambda T: (
        T[:, :, ::1],
        int64,
        int64,
        int64[::1],
        T[:, ::1],
        T[:, ::1],
        boolean,
        boolean,
        T[::1],
        T,
        int64[::1],
        int64[::1],
        *[T[:, ::1]] * 4,
    ),
    nogil=True,
)
def advance_lines(
    tile,
    first_line,
    n_lines,
    start,
    of_line,
    along,
    shifted,
    last,
    coefficients,
    scale,
    forced_begin,
    forced_places,
    forced_values,
    now,
    base,
    kept,
):
    """Turn the transformed products into the next stage, and advance the stored fields, in place.

    Parameters
    ----------
    tile : (>= 4 + 2 S, >= n_lines, >= 2 n_y) real view, combinations transformed in y: see `kernels`. They are
        replaced by the 3 + S fields of the next stage, displaced for it, and zeros where no mode is retained; they
        are undefined if `last`
    start : (lines of the rank + 1,) int64
    of_line : (lines of the rank, 8 + S), along : (6 + S, 2 n_y): tables, see OF_LINE and ALONG
    shifted : whether grids are displaced; last : whether no stage follows
    coefficients : (12,) c_00, c_01, c_02, c_10, ... of the module's docstring; scale : of the transforms
    forced_begin : (lines of the rank + 1,) int64, where the forced modes of each line begin; forced_places :
        (n_forced,) their places 0 ... n_y - 1; forced_values : (3, 2 n_forced) the force, which is part of the rate
    now, base, kept : (3 + S, 2 n_modes) real views, some of them the same array

    Cost: reads `now` and `base` and writes `kept` once, one division and about 100 + 35 S operations a mode.
    Source: paper, Eqs. (6), (7).
    """
    n_y = along.shape[1] // 2
    n_scalars = now.shape[0] - 3
    pitch = tile.shape[2]
    tile_step, field_step = tile.shape[1] * pitch, now.shape[1]
    arrays = _Arrays(tile.reshape(-1), along.reshape(-1), now.reshape(-1), base.reshape(-1), kept.reshape(-1))
    steps = _Steps(tile_step, 2 * n_y, field_step)
    for l in range(n_lines):
        line = first_line + l
        begin = start[line]
        most = (start[line + 1] - begin) // 2
        factors = of_line[line]
        for half in range(2):
            y, mode, n = (0, begin, most + 1) if half == 0 else (n_y - most, begin + most + 1, most)
            for s in range(-1, n_scalars):
                # Scalar s comes back as variables 4 + 2 s and 5 + 2 s. It leaves as 3 + s, which is no longer needed.
                back, field = (0, 0) if s < 0 else (4 + 2 * s, 3 + s)
                place = _Place(
                    l * pitch + 2 * y + back * tile_step,
                    l * pitch + 2 * y + field * tile_step,
                    2 * y,
                    (DECAY_ALONG + 1 + s) * 2 * n_y + 2 * y,
                    2 * mode + field * field_step,
                    2 * n,
                )
                kind = (s < 0, shifted, last)
                _advance_half(
                    kind, arrays, steps, place, factors, factors[DECAY + 1 + s], coefficients, scale
                )
        _add_force(
            tile,
            l,
            last,
            forced_values,
            forced_begin[line],
            forced_begin[line + 1],
            forced_places,
            begin,
            most,
            factors,
            along,
            coefficients,
            kept,
        )
        if not last:
            for v in range(3 + n_scalars):
                tile[v, l, 2 * (most + 1) : 2 * (n_y - most)] = 0
