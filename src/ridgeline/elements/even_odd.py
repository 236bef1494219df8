"""Products with centrosymmetric matrices inside compiled kernels: half the multiply-adds of `tensor`'s.

Matrices between points that lie symmetrically in an interval do not change when rows and columns are reversed, or
change their sign: interpolations and second derivatives (EVEN), derivatives (ODD). A kernel takes such a matrix apart
once, and multiplies by its parts:

    parts = even_odd_parts(derivative, np.empty(parts_size(n, n), u.dtype))
    even_odd_product(products, n, n * n, n, 1, False, ODD, 0, u_t, 0, parts, 0, u, here, u, 0, u, 0)   # along z
    even_odd_product(products, n, n, n, n, False, ODD, 0, u_s, 0, parts, 0, u, here, u, 0, u, 0)       # along y

Results differ from those of `tensor` by rounding. Sources: `even_odd_llvm`. Oracle: `tensor_reference`.
"""

from numba import types
from numba.extending import intrinsic

from ridgeline.elements.even_odd_llvm import EvenOddProduct
from ridgeline.elements.tensor import check_arrays, code_of_product, literal_sizes
from ridgeline.elements.tensor_llvm import ProductShape
from ridgeline.jit.kernel import subroutine

EVEN, ODD = 1, -1


def parts_size(m: int, k: int) -> int:
    """Return how many numbers the parts of an m x k matrix are."""
    return 2 * ((m + 1) // 2) * ((k + 1) // 2)


@subroutine(inline="always")
def even_odd_parts(matrix, out):
    """Set out, flat [2, (m + 1) // 2, (k + 1) // 2], to the parts of a centrosymmetric matrix [m, k]; return it."""
    m, k = matrix.shape
    half_m, half_k = (m + 1) // 2, (k + 1) // 2
    for row in range(half_m):
        for l in range(half_k):
            one, other = matrix[row, l], matrix[row, k - 1 - l]
            middle = 2 * l + 1 == k
            out[row * half_k + l] = one if middle else 0.5 * (one + other)
            out[(half_m + row) * half_k + l] = 0.0 if middle else 0.5 * (one - other)
    return out


@intrinsic(prefer_literal=True)
def even_odd_product(
    typing, products, m, n, k, batch, accumulate, parity, asks,
    c, c_start, parts, parts_start, b, b_start, coming, coming_start, other, other_start,
):  # fmt: skip
    """C[m x n] (+)= M[m x k] B[k x n] of contiguous matrices, M by its parts (`even_odd_parts`).

    batch: B and C are so many matrices one after another; M is the same for all. parity: EVEN or ODD, of M. asks,
    coming, other: as in `asking_product`; 0 asks for nothing. Sizes, `accumulate`, `parity` and `asks` literal.
    Reads k n and writes m n elements of each matrix; m n (k + 1) + n k floating-point operations.
    """
    sizes = literal_sizes(
        "even_odd_product",
        products=products, m=m, n=n, k=k, batch=batch, accumulate=accumulate, parity=parity, asks=asks,
    )  # fmt: skip
    check_arrays("even_odd_product", c=c, parts=parts, b=b, coming=coming, other=other)
    chosen, rows, columns, depth, count, add, sign, arrays = sizes.values()
    pitches = depth, columns, columns
    strides = 0, depth * columns, rows * columns
    shape = ProductShape(rows, columns, depth, *pitches, bool(add), count, *strides, arrays, sign)
    start = types.intp
    places = [c, start, parts, start, b, start, coming, start, other, start]
    signature = types.void(products, m, n, k, batch, accumulate, parity, asks, *places)
    return signature, code_of_product(chosen, shape, 8, 10, 12, (14, 16)[:arrays], EvenOddProduct)
