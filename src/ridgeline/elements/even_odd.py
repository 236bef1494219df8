"""Products with centrosymmetric matrices inside compiled kernels: half the multiply-adds of `tensor`'s.

Points that lie symmetrically in an interval have such matrices. Reversed rows and columns leave them as they are
(interpolations and second derivatives: EVEN) or change their sign (derivatives: ODD). A kernel takes such a matrix
apart once, and multiplies by its parts:

    parts = even_odd_parts(derivative, np.empty(parts_size(n, n), u.dtype))
    even_odd_product(products, n, n * n, n, 1, False, ODD, u_t, 0, parts, 0, u, here)   # along z
    even_odd_product(products, n, n, n, n, False, ODD, u_s, 0, parts, 0, u, here)       # along y

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
    typing, products, m, n, k, batch, accumulate, parity, c, c_start, parts, parts_start, b, b_start
):
    """C[m x n] (+)= M[m x k] B[k x n] of contiguous matrices, M by its parts (`even_odd_parts`).

    batch: B and C are so many matrices one after another; M is the same for all. parity: EVEN or ODD, of M. Sizes,
    `accumulate` and `parity` literal. Reads k n and writes m n elements of each matrix; m n (k + 1) + n k
    floating-point operations.
    """
    check_arrays("even_odd_product", c=c, parts=parts, b=b)
    sizes = products, m, n, k, batch, accumulate, parity
    start = types.intp
    signature = types.void(*sizes, c, start, parts, start, b, start)
    return signature, _code("even_odd_product", sizes, 7, ())


@intrinsic(prefer_literal=True)
def asking_even_odd_product(
    typing, products, m, n, k, batch, accumulate, parity, asks,
    c, c_start, parts, parts_start, b, b_start, coming, coming_start, other, other_start,
):  # fmt: skip
    """`even_odd_product` that prefetches what is to be read later; asks, coming and other as in `asking_product`."""
    check_arrays("asking_even_odd_product", c=c, parts=parts, b=b, coming=coming, other=other)
    sizes = products, m, n, k, batch, accumulate, parity
    asked = (14, 16)[: literal_sizes("asking_even_odd_product", asks=asks)["asks"]]
    start = types.intp
    places = [c, start, parts, start, b, start, coming, start, other, start]
    return types.void(*sizes, asks, *places), _code("asking_even_odd_product", sizes, 8, asked)


def _code(name, sizes, first, asked):
    """Return the code generator; first: the place of `c`, asked: those of arrays to prefetch."""
    names = "products", "m", "n", "k", "batch", "accumulate", "parity"
    found = literal_sizes(name, **dict(zip(names, sizes)))
    products, m, n, k, batch, accumulate, parity = found.values()
    strides = 0, k * n, m * n
    shape = ProductShape(m, n, k, k, n, n, bool(accumulate), batch, *strides, len(asked), parity)
    return code_of_product(products, shape, first, first + 2, first + 4, asked, EvenOddProduct)
