"""Bits of float32 numbers that are rounded to float16 or bfloat16: constants of the kernels on hosts and on GPUs."""

import numpy as np

SIGN, INFINITY = np.uint32(0x80000000), np.uint32(0x7F800000)
ONE = np.uint32(1)
HALF_OVERFLOW = np.uint32(0x477FF000)  # 65520: halfway between the largest float16 and what would be next
HALF_NORMAL = np.uint32(0x38800000)  # 2^-14
# float32 numbers from here on are multiples of 2^-24, as subnormals of float16.
HALF_QUANTUM = np.float32(0.5)
# Bits at the end that go, those before them, and what rounds to nearest: it is added with the last bit that stays.
HALF_CUT, HALF_KEPT, HALF_TIE = np.uint32(13), np.uint32(0xFFFFE000), np.uint32(0xFFF)
BRAIN_CUT, BRAIN_KEPT, BRAIN_TIE = np.uint32(16), np.uint32(0xFFFF0000), np.uint32(0x7FFF)
