"""The building blocks of GPU kernels, under the same names on the GPU and in numba-cuda's simulator.

In the simulator (NUMBA_ENABLE_CUDASIM=1) kernels are Python. The few instructions that Numba does not offer by name
are then Python functions, and on the GPU inline PTX. Import this module only where numba-cuda is installed, which
`runtime.devices.require_compiler` checks.
"""

import math
import struct
import threading
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cuda, types
from numba.cuda.core import config

from ridgeline.jit.cuda_launch import Launcher
from ridgeline.jit.kernel import compile_or_explain
from ridgeline.jit.kernel_cache import keep_kernels
from ridgeline.runtime.device_errors import explain_status
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import DeviceError

SIMULATED = simulated()
if not SIMULATED:
    from numba.cuda.dispatcher import CUDACache
    from numba.cuda.serialize import dumps
# Small grids, faces of blocks and the empty launches that compile a kernel have few thread blocks on purpose.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

WARP = 32

# An array in GPU memory. numba-cuda declares no types; its arrays have shape, dtype, slices and reshape as in NumPy.
DeviceArray = Any


def device_function(function):
    """Return `function` for calls from kernels; it is always inlined."""
    return function if SIMULATED else cuda.jit(device=True, forceinline=True)(function)


def kernel(threads, blocks=1):
    """Return the decorator of a kernel whose machine code is kept in the kernel cache.

    Parameters
    ----------
    threads : the most threads that a thread block has
    blocks : the least number of thread blocks that must fit on a multiprocessor, which bounds the registers of a
        thread to 65536 / (threads * blocks)

    The decorator raises TypeError for a function that closes over a value whose text is not the same in every process
    (`kernel_cache.text_of`).
    """
    if SIMULATED:
        return cuda.jit

    def declare(function):
        dispatcher = cuda.jit(launch_bounds=(threads, blocks))(function)
        keep_kernels(dispatcher, CUDACache, dumps)
        dispatcher.compile = partial(compile_or_explain, dispatcher.py_func, dispatcher.compile)
        dispatcher.call = Launcher(dispatcher)
        return dispatcher

    return declare


def make_stream(urgent: bool = False) -> Any:
    """Return a new stream. The thread blocks of an urgent stream start before waiting ones of other streams."""
    if SIMULATED:
        return cuda.stream()
    from cuda.bindings import driver

    cuda.current_context()  # streams belong to a context
    status, least, greatest = driver.cuCtxGetStreamPriorityRange()
    if status == driver.CUresult.CUDA_SUCCESS:
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value
        status, stream = driver.cuStreamCreateWithPriority(flag, greatest if urgent else least)
    if status != driver.CUresult.CUDA_SUCCESS:
        meaning, advice = explain_status(status.name)
        raise DeviceError(f"no CUDA stream could be created ({status.name}): {meaning}. {advice}")
    return cuda.external_stream(int(stream))


def flat(array: DeviceArray) -> DeviceArray:
    """Return a one-dimensional view of a contiguous device array."""
    return array if array.ndim == 1 else _kept(array, None)


def part(array: DeviceArray, begin: int, end: int) -> DeviceArray:
    """Return the view array[begin:end] of a one-dimensional device array."""
    return _kept(array, (begin, end))


def _kept(array: DeviceArray, places: tuple[int, int] | None) -> DeviceArray:
    """Return a view that is made once: numba-cuda takes 40 microseconds for one, longer than for a launch."""
    owner, views = array.__dict__.get("_kept_views", (None, {}))
    if owner != id(array):  # a copy of the array object took the attribute along
        views = {}
        array._kept_views = id(array), views
    view = views.get(places)
    if view is None:
        view = views[places] = array.reshape(-1) if places is None else array[slice(*places)]
    return view


if SIMULATED:  # in Python: slow, and exact to the last bit

    def barrier():
        """Wait for all threads of the thread block, which are Python threads here."""
        threading.current_thread().syncthreads()

    def fma(a, b, c):
        """Return a * b + c, rounded once to the type of a, float64 or float32."""
        if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
            return a * b + c
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        try:
            nearest = float(exact)
        except OverflowError:
            return type(a)(math.inf if exact > 0 else -math.inf)
        if exact == 0:
            nearest = float(a) * float(b) + float(c)  # the sign of zero
        if isinstance(a, float):  # np.float64 is one, as is a number of a kernel's arguments
            return np.float64(nearest)
        # Rounding twice, to float64 and to float32, can differ from rounding once. Rounding to odd first cannot:
        # an inexact float64 whose last bit is 1 lies on the same side of every float32 midpoint as the exact one.
        if Fraction(nearest) != exact and struct.unpack("<q", struct.pack("<d", nearest))[0] & 1 == 0:
            nearest = math.nextafter(nearest, math.inf if exact > nearest else -math.inf)
        return np.float32(nearest)

    def wide_product(a, b):
        """Return the 64-bit product of two uint32."""
        return np.uint64(a) * np.uint64(b)

    def store_streaming(array, index, value):
        """Store into array[index]."""
        array[index] = value

    def load_pair(array, index):
        """Return array[2 index] and array[2 index + 1]."""
        return array[2 * index], array[2 * index + 1]

    def store_pair(array, index, first, second):
        """Set array[2 index] and array[2 index + 1], which keep their type."""
        assert type(first) is type(second) is array.dtype.type, "a kernel computed in another precision"
        array[2 * index], array[2 * index + 1] = first, second

else:
    from numba.cuda.extending import intrinsic

    @device_function
    def barrier():
        """Wait for all threads of the thread block. What they stored in shared memory can then be read."""
        cuda.syncthreads()

    @device_function
    def fma(a, b, c):
        """Return a * b + c, rounded once; all of one precision."""
        return cuda.fma(a, b, c)

    @intrinsic
    def wide_product(typing, a, b):
        """Return the 64-bit product of two uint32.

        Inline PTX, because a product of widened operands becomes a full 64-bit one and two more instructions.
        """

        def codegen(context, builder, signature, args):
            i32, i64 = ir.IntType(32), ir.IntType(64)
            product = ir.InlineAsm(ir.FunctionType(i64, [i32, i32]), "mul.wide.u32 $0, $1, $2;", "=l,r,r")
            return builder.call(product, args)

        return types.uint64(types.uint32, types.uint32), codegen

    @intrinsic
    def _store_streaming(typing, array, index, value):
        if not isinstance(array.dtype, types.Float) or index != types.uint64 or value != array.dtype:
            return None

        def codegen(context, builder, signature, args):
            pointer = builder.gep(context.make_array(array)(context, builder, args[0]).data, [args[1]])
            kind, register = ("f64", "d") if array.dtype.bitwidth == 64 else ("f32", "f")
            store = ir.InlineAsm(
                ir.FunctionType(ir.VoidType(), [pointer.type, args[2].type]),
                f"st.global.cs.{kind} [$0], $1;",
                f"l,{register},~{{memory}}",
                side_effect=True,
            )
            builder.call(store, [pointer, args[2]])
            return context.get_dummy_value()

        return types.void(array, index, value), codegen

    @device_function
    def store_streaming(array, index, value):
        """Store into array[index] so that the cache evicts it first; index is a uint64."""
        _store_streaming(array, index, value)

    def _pair_pointer(context, builder, array_type, array, index):
        """Return a pointer to numbers 2 index and 2 index + 1, as a vector, and the bytes that it is aligned to."""
        bits = array_type.dtype.bitwidth
        element = ir.DoubleType() if bits == 64 else ir.FloatType()
        first = builder.mul(index, ir.Constant(index.type, 2))
        pointer = builder.gep(context.make_array(array_type)(context, builder, array).data, [first])
        return builder.bitcast(pointer, ir.VectorType(element, 2).as_pointer()), bits // 4

    def _is_of_pairs(array, index):
        return (
            isinstance(array, types.Array) and isinstance(array.dtype, types.Float) and index == types.uint64
        )

    @intrinsic
    def _load_pair(typing, array, index):
        if not _is_of_pairs(array, index):
            return None

        def codegen(context, builder, signature, args):
            pointer, align = _pair_pointer(context, builder, array, *args)
            pair = builder.load(pointer, align=align)
            parts = [builder.extract_element(pair, ir.Constant(ir.IntType(32), n)) for n in range(2)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.UniTuple(array.dtype, 2)(array, index), codegen

    @intrinsic
    def _store_pair(typing, array, index, first, second):
        if not _is_of_pairs(array, index) or first != array.dtype or second != array.dtype:
            return None

        def codegen(context, builder, signature, args):
            pointer, align = _pair_pointer(context, builder, array, *args[:2])
            pair = ir.Constant(pointer.type.pointee, ir.Undefined)
            for n, part in enumerate(args[2:]):
                pair = builder.insert_element(pair, part, ir.Constant(ir.IntType(32), n))
            builder.store(pair, pointer, align=align)
            return context.get_dummy_value()

        return types.void(array, index, first, second), codegen

    @device_function
    def load_pair(array, index):
        """Return array[2 index] and array[2 index + 1] by one instruction; array begins at a multiple of a pair."""
        return _load_pair(array, np.uint64(index))

    @device_function
    def store_pair(array, index, first, second):
        """Set array[2 index] and array[2 index + 1] by one instruction; both of the array's type."""
        _store_pair(array, np.uint64(index), first, second)


@device_function
def load(array, index):
    """Return array[index]. Numba would test a signed index for being negative at every access."""
    return array[np.uint64(index)]


@device_function
def store(array, index, value):
    """Set array[index] = value."""
    array[np.uint64(index)] = value


@device_function
def sum_threads(scratch, count, thread, threads):
    """Compute `count` sums over the threads of a block, into scratch[0], scratch[threads], scratch[2 threads] ...

    The last t // 2 of t numbers are added to the first ones until one is left, so the order does not depend on how
    threads are scheduled. All threads of the thread block must call it, and may then read the sums.

    Parameters
    ----------
    scratch : count x threads numbers in shared memory, in which each thread has stored its own at scratch[thread],
        scratch[threads + thread] ...
    thread : the number of this thread in the thread block
    """
    barrier()
    left = threads
    while left > 1:
        half = (left + 1) // 2
        if thread < left - half:
            for which in range(count):
                at = which * threads + thread
                store(scratch, at, load(scratch, at) + load(scratch, at + half))
        barrier()
        left = half
