"""The kernels of STREAM (fill, copy, scale, add, triad, dot) on long arrays, at the speed of memory.

Arrays are one-dimensional and contiguous, all of one dtype (float64 or float32) and one length, which may be any
length at any alignment. `n_threads` chunks of whole cache lines of the output run in parallel. `streaming` uses
non-temporal stores, which avoid reading the lines that are overwritten (no write-allocate).

Source: McCalpin, "Memory bandwidth and machine balance in current high performance computers", IEEE TCCA
Newsletter, 1995 (copy, scale, add, triad).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import boolean, float64, int64, prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.jit.llvm import I1, Lanes, data_pointer, element_type, store_fence

LINE = 64  # bytes of a cache line: what one trip of a loop moves
BLOCK = 4096  # elements that `dot` sums in the working precision; the sums of blocks are added in float64

FILL, COPY, SCALE, ADD, TRIAD = range(5)
DTYPES = (np.float64, np.float32)
_FORMULAS = {
    FILL: lambda lanes, x, y, s: s,
    COPY: lambda lanes, x, y, s: x,
    SCALE: lambda lanes, x, y, s: s * x,
    ADD: lambda lanes, x, y, s: x + y,
    TRIAD: lambda lanes, x, y, s: lanes.fma(s, y, x),
}


def _emit_loop(
    lanes: Lanes,
    formula: Callable[..., Any],
    arrays: Any,
    s: Any,
    first: ir.Value,
    end: ir.Value,
    streaming: bool,
) -> None:
    """Emit `for i in first, first + lanes.count, ... < end: out[i:] = formula(x[i:], y[i:], s)`."""
    x, y, out = arrays
    step = ir.Constant(first.type, lanes.count)
    with cgutils.for_range_slice(lanes.builder, first, end, step) as (i, _):
        value = formula(lanes, lanes.load(x, i), lanes.load(y, i), s)
        value.store(out, i, streaming=streaming)


@intrinsic(prefer_literal=True)
def _sweep_range(typing, whole_lines, operation, streaming, x, y, s, out, first, end):
    """Emit the loops of every operation over elements first ... end; `whole_lines` is a literal.

    Each operation and kind of store has a separate loop, which is chosen once before it starts. Without whole lines
    a loop takes one element at a time: those before the first line and after the last.
    """
    if not isinstance(whole_lines, types.BooleanLiteral):
        return None
    count = LINE * 8 // out.dtype.bitwidth if whole_lines.literal_value else 1
    flag, index = types.boolean, types.intp

    def codegen(context, builder, signature, args):
        _, operation, streaming, _, _, s, _, first, end = args
        lanes = Lanes(builder, element_type(out.dtype), count)
        arrays = [data_pointer(context, builder, signature, args, n) for n in (3, 4, 6)]
        scalar = lanes.splat(s)
        for number, formula in _FORMULAS.items():
            with builder.if_then(builder.icmp_signed("==", operation, operation.type(number))):
                if count == 1:
                    _emit_loop(lanes, formula, arrays, scalar, first, end, streaming=False)
                    continue
                with builder.if_else(builder.trunc(streaming, I1)) as (yes, no):
                    with yes:
                        _emit_loop(lanes, formula, arrays, scalar, first, end, streaming=True)
                    with no:
                        _emit_loop(lanes, formula, arrays, scalar, first, end, streaming=False)
        return context.get_dummy_value()

    return types.void(whole_lines, types.int64, flag, x, y, out.dtype, out, index, index), codegen


@kernel(lambda T: (int64, boolean, T[::1], T[::1], T, T[::1], int64, int64, int64), parallel=True)
def _sweep(operation, streaming, x, y, s, out, lead, n_threads, rounds):
    """Apply an operation `rounds` times; the first whole cache line of `out` begins at element `lead`."""
    line = LINE // out.itemsize
    lines = (out.size - lead) // line
    _sweep_range(False, operation, False, x, y, s, out, 0, lead)
    for thread in prange(n_threads):
        first = lead + lines * thread // n_threads * line
        end = lead + lines * (thread + 1) // n_threads * line
        for _ in range(rounds):
            _sweep_range(True, operation, streaming, x, y, s, out, first, end)
        if streaming:
            store_fence()
    _sweep_range(False, operation, False, x, y, s, out, lead + lines * line, out.size)


@subroutine(fastmath={"reassoc", "contract"})
def _dot_blocks(x, y, first, end):
    total = 0.0
    for start in range(first, end, BLOCK):
        stop = min(start + BLOCK, end)
        a, b = x[start:stop], y[start:stop]  # indices from 0 need no check for wrap-around
        part = x.dtype.type(0)
        for i in range(a.size):
            part += a[i] * b[i]
        total += part
    return total


@kernel(lambda T: (T[::1], T[::1], float64[::1]), parallel=True)
def _dot(x, y, partial):
    n_threads = partial.size
    blocks = -(-x.size // BLOCK)
    for thread in prange(n_threads):
        first = blocks * thread // n_threads * BLOCK
        end = min(blocks * (thread + 1) // n_threads * BLOCK, x.size)
        partial[thread] = _dot_blocks(x, y, first, end)


def _check(x: NDArray[Any], y: NDArray[Any], out: NDArray[Any], n_threads: int) -> None:
    for array in (x, y, out):
        if array.shape != (out.size,) or array.dtype != out.dtype or not array.flags.c_contiguous:
            raise ValueError(
                f"Vectors differ or are not contiguous: {array.dtype}{list(array.shape)} and "
                f"{out.dtype}{list(out.shape)}. Use 1-D contiguous arrays of one length and dtype."
            )
    if out.dtype not in DTYPES:
        raise ValueError(f"There is no vector kernel for dtype {out.dtype}. Use float64 or float32.")
    if n_threads < 1:
        raise ValueError(f"n_threads is {n_threads}, but it must be at least 1.")


def kernels_of_passes(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernel of `apply` and of every function that calls it, for vectors of float32 or float64."""
    return specialise([_sweep], dtype)


def kernels(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels of this file for vectors of dtype, float32 or float64."""
    return [*kernels_of_passes(dtype), *specialise([_dot], dtype)]


def apply(
    operation: int,
    x: NDArray[Any],
    y: NDArray[Any],
    s: float,
    out: NDArray[Any],
    n_threads: int,
    streaming: bool = False,
    rounds: int = 1,
) -> None:
    """Compute `out = operation(x, y, s)` for FILL, COPY, SCALE, ADD or TRIAD, `rounds` times over.

    x, y, out: shape (n,), float64 or float32, contiguous; `out` may be x or y itself. More than one round is for
    measuring caches: every thread then goes over its own part again and again. Raises ValueError if the arrays differ
    in shape or dtype, or n_threads < 1.
    """
    _check(x, y, out, n_threads)
    lead = min(-out.ctypes.data % LINE // out.itemsize, out.size)
    _sweep(operation, streaming, x, y, out.dtype.type(s), out, lead, n_threads, rounds)


def fill(s: float, out: NDArray[Any], n_threads: int) -> None:
    """Set out = s; each thread touches the pages that it will use."""
    apply(FILL, out, out, s, out, n_threads)


def copy(x: NDArray[Any], out: NDArray[Any], n_threads: int, streaming: bool = False) -> None:
    """Set out = x."""
    apply(COPY, x, x, 0, out, n_threads, streaming)


def scale(s: float, x: NDArray[Any], out: NDArray[Any], n_threads: int, streaming: bool = False) -> None:
    """Set out = s x."""
    apply(SCALE, x, x, s, out, n_threads, streaming)


def add(x: NDArray[Any], y: NDArray[Any], out: NDArray[Any], n_threads: int, streaming: bool = False) -> None:
    """Set out = x + y."""
    apply(ADD, x, y, 0, out, n_threads, streaming)


def triad(
    x: NDArray[Any], s: float, y: NDArray[Any], out: NDArray[Any], n_threads: int, streaming: bool = False
) -> None:
    """Set out = x + s y, the product and the sum rounded together (fma)."""
    apply(TRIAD, x, y, s, out, n_threads, streaming)


def dot(x: NDArray[Any], y: NDArray[Any], n_threads: int) -> float:
    """Return the sum of x y: reads only. Blocks of 4096 elements in the working precision, then float64.

    The order of summation depends on n_threads, so this is for measuring bandwidth and not for solvers.
    """
    _check(x, x, y, n_threads)
    partial = np.empty(n_threads)
    _dot(x, y, partial)
    return float(partial.sum())
