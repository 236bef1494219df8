"""Chains of arithmetic whose results are known exactly, bit for bit, however long they run and on any processor.

- `multiply_chains`: x <- a x mod p in float64, p = 2^50 - 27, by fused multiply-adds: h = a x rounded, l = a x - h
  (exact by fma), q = the integer nearest to h / p, x <- (h - q p) + l. Every intermediate is an integer that float64
  holds, so the algorithm corrects every rounding. n steps give a^n x mod p, an integer of magnitude p/2 or less that
  changes all its bits from step to step. At p/2 either sign may stand, so compare modulo p. Eight vector registers
  run side by side.
- `congruential_chains`: x <- A x + C mod 2^64 (Knuth's MMIX generator), the integer units.

Source: van der Hoeven, Lecerf, Quintin, "Modular SIMD arithmetic in Mathemagix", ACM TOMS 43 (1), 2016, Sec. 3.
"""

import numpy as np
from llvmlite import ir
from numba import float64, int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.kernel import kernel
from ridgeline.jit.llvm import F64, I64, Lanes, data_pointer, host_vector_bytes

MODULUS = 2**50 - 27  # prime
MULTIPLIER = 0x1A9E6F0B5C2D7  # below MODULUS / 2
REGISTERS = 8  # independent chains of vectors: they hide the latency of an fma
INTEGER_CHAINS = 8
FLOPS_PER_STEP = 9  # of one chain: two fma, two products, three sums
OPERATIONS_PER_INTEGER_STEP = 2
INTEGER_MULTIPLIER = 6364136223846793005
INTEGER_INCREMENT = 1442695040888963407
_A = np.uint64(INTEGER_MULTIPLIER)
_C = np.uint64(INTEGER_INCREMENT)
_TO_INTEGER = 1.5 * 2**52  # x + this - this is the integer nearest to x, |x| < 2^51


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
    """Advance x, float64 [float_chains()], integers below MODULUS / 2 in magnitude, by so many steps."""
    _multiply(x, steps)


@kernel(lambda: (uint64[::1], int64), nogil=True)
def congruential_chains(x, steps):
    """Advance x, uint64 [INTEGER_CHAINS], by so many steps."""
    for _ in range(steps):
        for i in range(8):  # INTEGER_CHAINS
            x[i] = x[i] * _A + _C


def multiply_exactly(x: int, steps: int) -> int:
    """Return x after so many steps of `multiply_chains`, by Python's integers: a^steps x mod p, from 0 to p - 1."""
    return pow(MULTIPLIER, steps, MODULUS) * x % MODULUS


def congruential_exactly(x: int, steps: int) -> int:
    """Return x after so many steps of `congruential_chains`: A^steps x + C (A^steps - 1) / (A - 1) mod 2^64."""
    a = INTEGER_MULTIPLIER
    sum_of_powers = (pow(a, steps, (a - 1) << 64) - 1) // (a - 1)
    return (pow(a, steps, 1 << 64) * x + INTEGER_INCREMENT * sum_of_powers) % (1 << 64)
