"""Small matrix products as plain loops, which Numba compiles: the peer of the generated code of `tensor_llvm`.

Source of the comparison: Hadri et al. (NekBox), Sec. 4.2 and Fig. 6, LIBXSMM against compiled loops.
"""

from collections.abc import Callable
from typing import Any

from numba import carray

from ridgeline.elements.tensor_llvm import ProductShape


def make_loops(shape: ProductShape) -> Callable[[Any, Any, Any], None]:
    """Return a function (c, a, b: pointers to element 0) of a product, for Numba to compile.

    Every element is a sum over k in ascending order, beginning with zero or with C.
    """
    if shape.parity:
        return _make_even_odd_loops(shape)
    m, n, k, batch, accumulate = shape.m, shape.n, shape.k, shape.batch, shape.accumulate
    lda, ldb, ldc = shape.lda, shape.ldb, shape.ldc
    stride_a, stride_b, stride_c = shape.stride_a, shape.stride_b, shape.stride_c
    size_a = (batch - 1) * stride_a + m * lda
    size_b = (batch - 1) * stride_b + k * ldb
    size_c = (batch - 1) * stride_c + m * ldc

    def loops(c: Any, a: Any, b: Any) -> None:
        c, a, b = carray(c, size_c), carray(a, size_a), carray(b, size_b)
        for number in range(batch):
            for row in range(m):
                for column in range(n):
                    place = number * stride_c + row * ldc + column
                    total = c[place] if accumulate else c.dtype.type(0)
                    for l in range(k):
                        total += (
                            a[number * stride_a + row * lda + l] * b[number * stride_b + l * ldb + column]
                        )
                    c[place] = total

    return loops


def _make_even_odd_loops(shape: ProductShape) -> Callable[[Any, Any, Any], None]:
    """Return the same for a matrix that is given by its parts (`even_odd_llvm`)."""
    m, n, k, batch, accumulate, parity = (
        shape.m,
        shape.n,
        shape.k,
        shape.batch,
        shape.accumulate,
        shape.parity,
    )
    half_m, half_k = (m + 1) // 2, (k + 1) // 2

    def loops(c: Any, a: Any, b: Any) -> None:
        c, b = carray(c, (batch, m, n)), carray(b, (batch, k, n))
        parts = carray(a, (2, half_m, half_k))
        for number in range(batch):
            for row in range(half_m):
                last = m - 1 - row
                for column in range(n):
                    even = odd = c.dtype.type(0)
                    for l in range(half_k):
                        one, other = b[number, l, column], b[number, k - 1 - l, column]
                        if 2 * l + 1 == k:
                            even += parts[0, row, l] * one
                        else:
                            even += parts[0, row, l] * (one + other)
                            odd += parts[1, row, l] * (one - other)
                    if row == last and parity > 0:
                        odd = c.dtype.type(0)
                    elif row == last:
                        even = c.dtype.type(0)
                    before = c[number, row, column] if accumulate else c.dtype.type(0)
                    mirrored = c[number, last, column] if accumulate else c.dtype.type(0)
                    c[number, last, column] = mirrored + parity * (even - odd)
                    c[number, row, column] = before + (even + odd)

    return loops
