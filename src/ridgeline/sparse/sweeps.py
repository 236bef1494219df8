"""Gauss-Seidel sweeps and products with a matrix A = L + D + U whose triangles are stored by runs.

Rows are in an order by dependency level (`sparse.levels.level_order`). L and U are `sparse.runs.Runs` that share
their runs (`sparse.runs.make_triangles`). Vectors are float64, in that order, at least [n]; external columns behind
it are neither read nor written. x must be finite, since runs multiply some of it by stored zeros. Each function is
one pass: it reads every value of a triangle once. Serial.

Symmetric Gauss-Seidel on A x = r is `forward_zero` (from x = 0) or `forward` (from any x), then `backward`. A sweep
leaves the half-product D x + U x. So the forward sweep need not read U, nor the backward sweep L.
"""

from numba import float64, types
from numba.extending import intrinsic

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.sparse.run_loop import RunLoop
from ridgeline.sparse.runs import RUNS


@intrinsic
def _forward_zero_run(typing, lower, run, r, inverse_diagonal, x, half_product):
    def codegen(context, builder, signature, args):
        loop = RunLoop(
            context, builder, signature, args, ("lower", "run", "r", "inverse", "x", "half_product")
        )

        def body():
            new = loop.sum(loop.load("r"), "lower", subtract=True)
            loop.store(new, "half_product")
            loop.store(new * loop.load("inverse"), "x")

        loop.run(body)
        return context.get_dummy_value()

    return types.void(lower, types.int64, r, inverse_diagonal, x, half_product), codegen


@intrinsic
def _forward_run(typing, lower, run, r, half_product, inverse_diagonal, x):
    def codegen(context, builder, signature, args):
        loop = RunLoop(
            context, builder, signature, args, ("lower", "run", "r", "half_product", "inverse", "x")
        )

        def body():
            new = loop.sum(loop.load("r"), "lower", subtract=True)
            change = new - loop.load("half_product")
            loop.store(new, "half_product")
            loop.store(loop.lanes.fma(change, loop.load("inverse"), loop.load("x")), "x")

        loop.run(body)
        return context.get_dummy_value()

    return types.void(lower, types.int64, r, half_product, inverse_diagonal, x), codegen


@intrinsic
def _backward_run(typing, upper, run, half_product, inverse_diagonal, x):
    def codegen(context, builder, signature, args):
        loop = RunLoop(
            context, builder, signature, args, ("upper", "run", "half_product", "inverse", "x"), True
        )

        def body():
            rest = loop.sum(loop.load("half_product"), "upper", subtract=True)
            loop.store(rest * loop.load("inverse"), "x")

        loop.run(body)
        return context.get_dummy_value()

    return types.void(upper, types.int64, half_product, inverse_diagonal, x), codegen


@intrinsic
def _backward_dot_run(typing, upper, run, half_product, inverse_diagonal, x, r):
    def codegen(context, builder, signature, args):
        loop = RunLoop(
            context, builder, signature, args, ("upper", "run", "half_product", "inverse", "x", "r"), True
        )

        def body():
            new = loop.sum(loop.load("half_product"), "upper", subtract=True) * loop.load("inverse")
            loop.store(new, "x")
            loop.add_product(new, loop.load("r"))

        return loop.run(body)

    return types.float64(upper, types.int64, half_product, inverse_diagonal, x, r), codegen


@intrinsic
def _multiply_run(typing, lower, upper, run, diagonal, x, y):
    def codegen(context, builder, signature, args):
        loop = RunLoop(context, builder, signature, args, ("lower", "upper", "run", "diagonal", "x", "y"))

        def body():
            x = loop.load("x")
            new = loop.sum(loop.load("diagonal") * x, "lower", "upper")
            loop.store(new, "y")
            loop.add_product(x, new)

        return loop.run(body)

    return types.float64(lower, upper, types.int64, diagonal, x, y), codegen


@subroutine
def forward_zero_runs(lower, first, end, r, inverse_diagonal, x, half_product):
    """Do runs first to end - 1 of `forward_zero`."""
    for run in range(first, end):
        _forward_zero_run(lower, run, r, inverse_diagonal, x, half_product)


@subroutine
def forward_runs(lower, first, end, r, half_product, inverse_diagonal, x):
    """Do runs first to end - 1 of `forward`."""
    for run in range(first, end):
        _forward_run(lower, run, r, half_product, inverse_diagonal, x)


@subroutine
def backward_runs(upper, first, end, half_product, inverse_diagonal, x):
    """Do runs end - 1 down to first of `backward`."""
    for run in range(end - 1, first - 1, -1):
        _backward_run(upper, run, half_product, inverse_diagonal, x)


@subroutine
def backward_dot_runs(upper, first, end, half_product, inverse_diagonal, x, r, sums):
    """Do `backward_runs` and set sums[run] to the sum of r x over the rows of each run."""
    for run in range(end - 1, first - 1, -1):
        sums[run] = _backward_dot_run(upper, run, half_product, inverse_diagonal, x, r)


@subroutine
def multiply_runs(lower, upper, first, end, diagonal, x, y, sums):
    """Do runs first to end - 1 of `multiply_dot` and set sums[run] to the sum of x y over the rows of each."""
    for run in range(first, end):
        sums[run] = _multiply_run(lower, upper, run, diagonal, x, y)


@kernel(lambda: (RUNS, *[float64[::1]] * 4))
def forward_zero(lower, r, inverse_diagonal, x, half_product):
    """Solve (D + L) x = r and keep half_product = r - L x: a forward sweep from x = 0, whatever (finite) x holds."""
    forward_zero_runs(lower, 0, lower.run_rows.size - 1, r, inverse_diagonal, x, half_product)


@kernel(lambda: (RUNS, *[float64[::1]] * 4))
def forward(lower, r, half_product, inverse_diagonal, x):
    """Sweep forward from any x: x_i += (new - half_i) / D_i, half_i = new with new = r_i - (L x)_i.

    half_product must hold D x + U x on entry.
    """
    forward_runs(lower, 0, lower.run_rows.size - 1, r, half_product, inverse_diagonal, x)


@kernel(lambda: (RUNS, *[float64[::1]] * 3))
def backward(upper, half_product, inverse_diagonal, x):
    """Solve (D + U) x = half_product: a backward sweep after `forward_zero` or `forward`."""
    backward_runs(upper, 0, upper.run_rows.size - 1, half_product, inverse_diagonal, x)


@kernel(lambda: (RUNS, *[float64[::1]] * 4))
def backward_dot(upper, half_product, inverse_diagonal, x, r):
    """Do `backward` and return the sum of r x over the rows."""
    total = 0.0
    for run in range(upper.run_rows.size - 2, -1, -1):
        total += _backward_dot_run(upper, run, half_product, inverse_diagonal, x, r)
    return total


@kernel(lambda: (RUNS, RUNS, *[float64[::1]] * 3))
def multiply_dot(lower, upper, diagonal, x, y):
    """Set y = (L + D + U) x and return the sum of x y over the rows."""
    total = 0.0
    for run in range(lower.run_rows.size - 1):
        total += _multiply_run(lower, upper, run, diagonal, x, y)
    return total


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([forward_zero, forward, backward, backward_dot, multiply_dot])
