"""Products in physical space, and their combinations on planes: the nonlinear terms of Rogallo's formulation.

With T = u u - u_y u_y I, whose yy component is zero, five products are transformed in x and z, and four combinations
in y (paper, Sec. 3.1; the notation T and A is ours):

    A_x = k_x T_xx + k_z T_xz,    T_xy,    A_z = k_x T_xz + k_z T_zz,    T_yz;

each scalar adds the products F = u theta and the combinations k_x F_x + k_z F_z and F_y.
Complex numbers are passed as real arrays, real and imaginary parts alternating.
"""

from llvmlite import ir
from numba import int64, types
from numba.extending import intrinsic

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.jit.llvm import I64, Lanes, VectorLoop

# Variables without scalars; each scalar adds 1, 3 and 2 to these numbers.
N_VELOCITY, N_PRODUCTS, N_COMBINED = 3, 5, 4
XX, ZZ, XY, XZ, YZ = range(5)
RATES = 16  # running maxima of the rate: one for each lane of the widest register


@intrinsic(prefer_literal=True)
def _multiply_rows(typing, rated, velocity, at, step, per_cell, lanes, products, out, out_step, count):
    """Set products[out ...] to the products of `count` points at velocity[at ...].

    step, out_step: from one variable to the next; rated: literal, whether to raise the running maxima in lanes.
    """
    if not isinstance(rated, types.BooleanLiteral):
        return None
    arguments = rated, velocity, at, step, per_cell, lanes, products, out, out_step, count
    names = "rated", "velocity", "at", "step", "per_cell", "lanes", "products", "out", "out_step", "count"

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, velocity.dtype)
        zero = ir.Constant(I64, 0)
        rates = [loop.splat("per_cell", n) for n in range(3)] if rated.literal_value else []

        def place(start, i, jump, variable):
            offset = builder.mul(loop.values[jump], ir.Constant(I64, variable))
            return builder.add(builder.add(loop.values[start], i), offset)

        def body(i):
            u, v, w = (loop.load("velocity", place("at", i, "step", n)) for n in range(3))
            square = v * v
            of_point = {XX: u * u - square, ZZ: w * w - square, XY: u * v, XZ: u * w, YZ: v * w}
            for variable, product in of_point.items():
                loop.store(product, "products", place("out", i, "out_step", variable))
            if rates:
                fma = loop.lanes.fma
                x, y, z = (part.magnitude() for part in (u, v, w))
                rate = fma(x, rates[0], fma(y, rates[1], z * rates[2]))
                largest = loop.lanes.load(loop.values["lanes"], zero)
                rate.max_ordered(largest).store(loop.values["lanes"], zero)

        loop.run(body)
        return context.get_dummy_value()

    return types.void(*arguments), codegen


@kernel(lambda T: (T[:, :, ::1], *[int64] * 3, T[::1], T[::1], T[:, :, ::1]), nogil=True)
def multiply(velocity, n_pairs, nx, n_scalars, per_cell, out_rates, out_products):
    """Form the products of a block of rows in physical space.

    Parameters
    ----------
    velocity : (3 + S, >= n_pairs, >= 2 nx) real, u_x, u_y, u_z and scalars at points in any order
    per_cell : (3,) 1/dx, 1/dy, 1/dz, or empty
    out_rates : (16,) real, running maxima, raised if per_cell is given: their maximum is then at least the largest
        |u_x|/dx + |u_y|/dy + |u_z|/dz of the block, the bracket of Eq. (8); NaN is ignored
    out_products : (5 + 3 S, >= n_pairs, >= 2 nx) real: T_xx, T_zz, T_xy, T_xz, T_yz, and F_x, F_y, F_z of each scalar

    Cost: 9 + 3 S operations a point, 6 more for the rate.
    """
    flat, products = velocity.reshape(-1), out_products.reshape(-1)
    step, out_step = velocity.shape[1] * velocity.shape[2], out_products.shape[1] * out_products.shape[2]
    for q in range(n_pairs):
        at, out = q * velocity.shape[2], q * out_products.shape[2]
        if len(per_cell):
            _multiply_rows(True, flat, at, step, per_cell, out_rates, products, out, out_step, 2 * nx)
        else:
            _multiply_rows(False, flat, at, step, per_cell, out_rates, products, out, out_step, 2 * nx)
        for s in range(n_scalars):
            scalar = velocity[3 + s, q]
            for c in range(3):
                component, flux = velocity[c, q], out_products[N_PRODUCTS + 3 * s + c, q]
                for i in range(2 * nx):
                    flux[i] = component[i] * scalar[i]


@subroutine(nogil=True)
def _combine(a, b, ka, kb, step, length, out):
    """Set out = ka a + kb b. ka : (2 length,), each factor twice; kb : scalar; step : of a and b, in reals."""
    if step == 2:
        for i in range(2 * length):
            out[i] = ka[i] * a[i] + kb * b[i]
    else:
        for i in range(length):
            out[2 * i] = ka[2 * i] * a[step * i] + kb * b[step * i]
            out[2 * i + 1] = ka[2 * i] * a[step * i + 1] + kb * b[step * i + 1]


@subroutine(nogil=True)
def _copy(a, step, length, out):
    if step == 2:
        out[: 2 * length] = a[: 2 * length]
    else:
        for i in range(length):
            out[2 * i] = a[step * i]
            out[2 * i + 1] = a[step * i + 1]


@subroutine(nogil=True)
def _add_gradient(arena, start, place, length, gradient, scale, out):
    """Add -i scale G . u to out. arena still has the modes of u that came in."""
    for c in range(3):
        begin = 2 * (start[c] + place)
        factor = scale * gradient[c]
        if factor != 0:
            u = arena[begin : begin + 2 * length]
            for i in range(length):
                out[2 * i] += factor * u[2 * i + 1]
                out[2 * i + 1] -= factor * u[2 * i]


@intrinsic
def _combine_run(typing, planes, at, step, stride, kx, column, kz, arena, x, xy, z, yz, count):
    """Write A_x, T_xy, A_z and T_yz of a run of modes to arena[x ...], [xy ...], [z ...], [yz ...]; real indices.

    planes[at ...] is T_xx, and the other products follow at distances of `step`. kx[column ...] is the first
    wavenumber. stride: distance of the run's modes. If it is 1, the code handles a register of modes at a time,
    otherwise one mode at a time.
    """
    arguments = planes, at, step, stride, kx, column, kz, arena, x, xy, z, yz, count
    names = "planes", "at", "step", "stride", "kx", "column", "kz", "arena", "x", "xy", "z", "yz", "count"

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, planes.dtype)
        contiguous = builder.icmp_signed("==", loop.values["stride"], ir.Constant(I64, 1))
        with builder.if_else(contiguous) as (yes, no):
            with yes:
                loop.run(body_of(builder, loop))
            with no:
                loop.lanes = Lanes(builder, loop.lanes.element, 2)
                loop.run(body_of(builder, loop))
        return context.get_dummy_value()

    def body_of(builder, loop):
        in_z = loop.splat("kz")

        def body(i):
            def product(variable):
                offset = builder.mul(loop.values["step"], ir.Constant(I64, variable))
                along = builder.mul(i, loop.values["stride"])
                return loop.load("planes", builder.add(builder.add(loop.values["at"], along), offset))

            def write(vector, start):
                loop.store(vector, "arena", builder.add(loop.values[start], i))

            in_x, xz = loop.load("kx", builder.add(loop.values["column"], i)), product(XZ)
            write(loop.lanes.fma(in_x, product(XX), in_z * xz), "x")
            write(product(XY), "xy")
            write(loop.lanes.fma(in_x, xz, in_z * product(ZZ)), "z")
            write(product(YZ), "yz")

        return body

    return types.void(*arguments), codegen


@kernel(
    lambda T: (
        T[:, :, ::1],
        int64[:, :, ::1],
        int64[:, ::1],
        *[int64] * 3,
        T[::1],
        T[::1],
        T[:, ::1],
        T,
        T[::1],
        T[::1],
    ),
    nogil=True,
)
def pack_combined(planes, start, runs, step, first_row, n_planes, kx, kz, gradients, scale, scratch, arena):
    """Combine the transformed products of planes and write them to the arena: see `fourier.packing.pack_planes`.

    Parameters
    ----------
    planes : (5 + 3 S, >= n_planes, 2 x size of a plane) real view: T_xx, T_zz, T_xy, T_xz, T_yz, F of each scalar
    start, runs, step, first_row : as for `pack_planes`
    kx : (2 n_columns,) each wavenumber twice; kz : (n_z,)
    gradients : (S, 3) mean gradients G of the scalars
    scale : factor by which products are larger than the velocity that came in, from unscaled transforms
    scratch : (2 n_columns,) real, overwritten
    arena : real view; read if there are gradients (u as it came in), and written: A_x, T_xy, A_z, T_yz, and
        k_x F_x + k_z F_z - i G . u and F_y of each scalar

    Cost: reads 5 + 3 S and writes 4 + 2 S numbers per mode.
    """
    flat, size = planes.reshape(-1), planes.shape[2]
    for p in range(n_planes):
        row = first_row + p
        for r in range(runs.shape[0]):
            segment, place, length = runs[r, 0], runs[r, 1], runs[r, 3]
            begin, z, column = 2 * runs[r, 2], kz[runs[r, 4]], 2 * runs[r, 5]
            x = kx[column : column + 2 * length]
            # The pieces of u and those that are written share places in the arena: u is used first.
            for s in range(gradients.shape[0]):
                out = scratch[: 2 * length]
                _combine(
                    planes[5 + 3 * s, p, begin:], planes[7 + 3 * s, p, begin:], x, z, 2 * step, length, out
                )
                _add_gradient(arena, start[:, row, segment], place, length, gradients[s], scale, out)
                first = 2 * (start[4 + 2 * s, row, segment] + place)
                _copy(out, 2, length, arena[first : first + 2 * length])
                first = 2 * (start[5 + 2 * s, row, segment] + place)
                _copy(planes[6 + 3 * s, p, begin:], 2 * step, length, arena[first : first + 2 * length])
            _combine_run(
                flat,
                p * size + begin,
                planes.shape[1] * size,
                step,
                kx,
                column,
                z,
                arena,
                2 * (start[0, row, segment] + place),
                2 * (start[1, row, segment] + place),
                2 * (start[2, row, segment] + place),
                2 * (start[3, row, segment] + place),
                2 * length,
            )
