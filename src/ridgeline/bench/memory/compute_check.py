"""Whether this core computes correctly, how fast, and whether it is left to this process.

For some seconds the check runs chains of arithmetic whose results are known exactly, bit for bit, however long they
are and on any processor:

- `multiply_chains`: x <- a x mod p in float64, p = 2^50 - 27, by fused multiply-adds: h = a x rounded, l = a x - h
  (exact by fma), q = the integer nearest to h / p, x <- (h - q p) + l. Every intermediate is an integer that float64
  holds, so the algorithm corrects every rounding. n steps give a^n x mod p, an integer of magnitude p/2 or less that
  changes all its bits from step to step. At p/2 either sign may occur, so values are compared modulo p. Eight vector
  registers run side by side.
- `congruential_chains`: x <- A x + C mod 2^64 (Knuth's MMIX generator), for the integer units.

Source: van der Hoeven, Lecerf, Quintin, "Modular SIMD arithmetic in Mathemagix", ACM TOMS 43 (1), 2016, Sec. 3.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from llvmlite import ir
from numba import float64, int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.kernel import compile_kernels, kernel, specialise
from ridgeline.jit.llvm import F64, I64, Lanes, data_pointer, host_vector_bytes
from ridgeline.runtime.errors import ConfigError

MODULUS = 2**50 - 27  # prime
MULTIPLIER = 0x1A9E6F0B5C2D7  # below MODULUS / 2
REGISTERS = 8  # independent chains of vectors, which hide the latency of an fma
INTEGER_CHAINS = 8
FLOPS_PER_STEP = 9  # of one chain: two fma, two products, three sums
OPERATIONS_PER_INTEGER_STEP = 2
INTEGER_MULTIPLIER = 6364136223846793005
INTEGER_INCREMENT = 1442695040888963407
_A = np.uint64(INTEGER_MULTIPLIER)
_C = np.uint64(INTEGER_INCREMENT)
_TO_INTEGER = 1.5 * 2**52  # x + this - this is the integer nearest to x, |x| < 2^51
_STEPS = 100_000  # of both kinds of chains between two readings of the clock: less than a millisecond
_SEED = 0x2545F4914F6CDD1D


def float_chains() -> int:
    """Return how many chains `multiply_chains` runs on this processor: REGISTERS of the widest vectors."""
    return REGISTERS * host_vector_bytes() // 8


@intrinsic
def _multiply(typing, x, steps):
    width = host_vector_bytes() // 8

    def codegen(context, builder, signature, args):
        lanes = Lanes(builder, F64, width)
        pointer = data_pointer(context, builder, signature, args, 0)
        places = [ir.Constant(I64, n * width) for n in range(REGISTERS)]
        registers = [cgutils.alloca_once_value(builder, lanes.load(pointer, place).value) for place in places]
        a, minus_p = lanes.constant(float(MULTIPLIER)), lanes.constant(-float(MODULUS))
        shift = lanes.constant(_TO_INTEGER)
        with cgutils.for_range(builder, args[1]):
            for register in registers:
                x = lanes.vector(builder.load(register))
                high = a * x
                low = lanes.fma(a, x, -high)
                quotient = (high * (1.0 / MODULUS) + shift) - shift
                builder.store((lanes.fma(quotient, minus_p, high) + low).value, register)
        for register, place in zip(registers, places):
            lanes.vector(builder.load(register)).store(pointer, place)
        return context.get_dummy_value()

    return types.void(x, steps), codegen


@kernel(lambda: (float64[::1], int64), nogil=True)
def multiply_chains(x, steps):
    """Advance x, float64 [float_chains()], integers below MODULUS / 2 in magnitude, by this many steps."""
    _multiply(x, steps)


@kernel(lambda: (uint64[::1], int64), nogil=True)
def congruential_chains(x, steps):
    """Advance x, uint64 [INTEGER_CHAINS], by this many steps."""
    for _ in range(steps):
        for i in range(8):  # INTEGER_CHAINS
            x[i] = x[i] * _A + _C


_KERNELS = (multiply_chains, congruential_chains)


def multiply_exactly(x: int, steps: int) -> int:
    """Return x after `steps` steps of `multiply_chains`, with Python's integers: a^steps x mod p, from 0 to p - 1."""
    return pow(MULTIPLIER, steps, MODULUS) * x % MODULUS


def congruential_exactly(x: int, steps: int) -> int:
    """Return x after this many steps of `congruential_chains`: A^steps x + C (A^steps - 1) / (A - 1) mod 2^64."""
    a = INTEGER_MULTIPLIER
    sum_of_powers = (pow(a, steps, (a - 1) << 64) - 1) // (a - 1)
    return (pow(a, steps, 1 << 64) * x + INTEGER_INCREMENT * sum_of_powers) % (1 << 64)


@dataclass(frozen=True)
class ComputeResult:
    """The result of a check.

    Attributes
    ----------
    rate
        Floating-point and integer operations together per second of wall time, for comparison with other cores of the
        same kind.
    correct
        Whether all bits of all chains are as Python's integers give them.
    cpu_share
        Processor time of this thread over wall time; 1 if no other process uses the core.
    detail
        What was wrong, or "".
    """

    rate: float
    correct: bool
    cpu_share: float
    detail: str


def compile_checks() -> None:
    """Compile the kernels, or load them from the cache."""
    compile_kernels(specialise(_KERNELS))


def check_compute(seconds: float) -> ComputeResult:
    """Run the chains on one thread for this many seconds of wall time, at least one batch, and compare bit for bit.

    The chains are as long as the time allows. Their last values are computed independently, in closed form, with
    Python's integers. The kernels are compiled before the clock starts, and they release the interpreter's lock.
    There is no communication. Raises ConfigError if seconds is negative.
    """
    if seconds < 0:
        raise ConfigError(f"the time of a compute check is {seconds} s, but it must not be negative.")
    compile_checks()
    rng = np.random.default_rng(_SEED)
    starts = rng.integers(1, MODULUS // 2, float_chains())
    seeds = rng.integers(0, 2**63, INTEGER_CHAINS).astype(np.uint64)
    x, y = starts.astype(np.float64), seeds.copy()
    multiply, congruential = multiply_chains, congruential_chains
    steps = 0
    wall, cpu = time.perf_counter(), time.thread_time()
    end = wall + seconds
    while True:
        multiply(x, _STEPS)
        congruential(y, _STEPS)
        steps += _STEPS
        now = time.perf_counter()
        if now >= end:
            break
    cpu, wall = time.thread_time() - cpu, now - wall
    operations = steps * (x.size * FLOPS_PER_STEP + y.size * OPERATIONS_PER_INTEGER_STEP)
    detail = "; ".join(filter(None, (_wrong_float(starts, x, steps), _wrong_integer(seeds, y, steps))))
    return ComputeResult(operations / wall, not detail, min(cpu / wall, 1.0), detail)


def _wrong_float(starts: np.ndarray, x: np.ndarray, steps: int) -> str:
    for n, (start, value) in enumerate(zip(starts, x)):
        expected = multiply_exactly(int(start), steps)
        # Not an integer, or not finite: not even comparable modulo p.
        if not float(value).is_integer() or int(value) % MODULUS != expected:
            return f"floating-point chain {n} is {float(value):.17g} after {steps} steps instead of {expected} mod p"
    return ""


def _wrong_integer(seeds: np.ndarray, y: np.ndarray, steps: int) -> str:
    for n, (seed, value) in enumerate(zip(seeds, y)):
        expected = congruential_exactly(int(seed), steps)
        if int(value) != expected:
            return f"integer chain {n} is {int(value):#x} after {steps} steps instead of {expected:#x}"
    return ""
