"""Fused multiply-adds in registers alone: the rate that a core's arithmetic units can reach.

Every thread runs `chains()` vectors y at once, y <- factor y + increment, one instruction each and none waiting for
another. They are few enough to stay in the registers, and enough to hide the latency of a multiply-add on every unit
of known CPUs. Haswell has 5 cycles on 2 units, Skylake-SP, Zen 4 and Sapphire Rapids have 4 on 2, and Neoverse V1 has
4 on 4. With factor 1 and whole numbers no step rounds, so that y after k steps is start + k increment exactly. A step
that is left out, done twice or done wrong in any lane shows.
"""

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import int64, prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.jit.llvm import Lanes, data_pointer, element_type, host_vector_bytes

DTYPES = (np.float64, np.float32)
STEPS = 2**20  # of one call: some milliseconds, and float32 still counts exactly
_INCREMENTS = 8  # lanes add 1 ... 8


def chains() -> int:
    """Return the number of independent vectors of a thread: 24 with 32 vector registers, else 12 of 16."""
    x86 = llvmlite.binding.get_process_triple().startswith(("x86_64", "i686"))
    return 12 if x86 and host_vector_bytes() < 64 else 24


def lanes_of(dtype: DTypeLike) -> int:
    """Return the numbers in a vector register."""
    return host_vector_bytes() // np.dtype(dtype).itemsize


def starting_values(dtype: DTypeLike, n_threads: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return (start [n_threads, chains * lanes], increment [lanes]) of dtype: whole numbers, every start its own."""
    width = chains() * lanes_of(dtype)
    start = np.arange(n_threads * width, dtype=dtype).reshape(n_threads, width)
    return start, (1 + np.arange(lanes_of(dtype)) % _INCREMENTS).astype(dtype)


def expected_values(start: NDArray[Any], increment: NDArray[Any], steps: int) -> NDArray[Any]:
    """Return start + steps increment, what `multiply_add` gives with factor 1, in closed form."""
    return (start.astype(np.int64) + steps * np.tile(increment, chains()).astype(np.int64)).astype(
        start.dtype
    )


def operations(dtype: DTypeLike, steps: int, n_threads: int) -> int:
    """Return the floating-point operations of one call: 2 a multiply-add."""
    return 2 * chains() * lanes_of(dtype) * steps * n_threads


@intrinsic
def _run_chains(typing, start, factor, increment, steps, out, offset):
    """Emit out[offset:] = `steps` multiply-adds of start[offset:], all chains in registers."""

    def codegen(context, builder, signature, args):
        width = lanes_of(np.dtype(str(start.dtype)))
        lanes = Lanes(builder, element_type(start.dtype), width)
        source, increments, target = (data_pointer(context, builder, signature, args, n) for n in (0, 2, 4))
        _, factor, _, steps, _, offset = args
        places = [builder.add(offset, ir.Constant(offset.type, k * width)) for k in range(chains())]
        multiplier, summand = lanes.splat(factor), lanes.load(increments, ir.Constant(offset.type, 0))
        registers = []
        for place in places:
            registers.append(cgutils.alloca_once(builder, lanes.type))
            builder.store(lanes.load(source, place).value, registers[-1])
        with cgutils.for_range(builder, steps):
            for register in registers:
                y = lanes.vector(builder.load(register))
                builder.store(lanes.fma(multiplier, y, summand).value, register)
        for place, register in zip(places, registers):
            lanes.vector(builder.load(register)).store(target, place)
        return context.get_dummy_value()

    return types.void(start, start.dtype, increment, steps, out, offset), codegen


@kernel(lambda T: (T[:, ::1], T, T[::1], int64, T[:, ::1]), parallel=True, nogil=True)
def _multiply_add(start, factor, increment, steps, out):
    flat_start, flat_out = start.reshape(-1), out.reshape(-1)
    for thread in prange(start.shape[0]):
        _run_chains(flat_start, factor, increment, steps, flat_out, thread * start.shape[1])


def kernels(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernel that `multiply_add` calls for arrays of dtype."""
    return specialise([_multiply_add], dtype)


def multiply_add(
    start: NDArray[Any], factor: float, increment: NDArray[Any], steps: int, out: NDArray[Any]
) -> None:
    """Compute, `steps` times in registers, out = factor out + increment, from out = start.

    start, out: [n_threads, chains() * lanes_of(dtype)], one row a thread; increment: [lanes_of(dtype)], the same for
    every chain; float64 or float32, contiguous. Raises ValueError if shapes or dtypes are others.
    """
    shape, dtype = (len(out), chains() * lanes_of(out.dtype)), out.dtype
    if dtype not in DTYPES:
        raise ValueError(f"no multiply-add kernel for dtype {dtype}; use float64 or float32")
    if start.shape != shape or out.shape != shape or increment.shape != (lanes_of(dtype),):
        raise ValueError(
            f"start {start.shape}, out {out.shape}, increment {increment.shape}: {shape} is needed"
        )
    if {start.dtype, increment.dtype} != {dtype}:
        raise ValueError(
            f"start of {start.dtype}, increment of {increment.dtype}, out of {dtype}: use one dtype"
        )
    _multiply_add(start, dtype.type(factor), increment, steps, out)
