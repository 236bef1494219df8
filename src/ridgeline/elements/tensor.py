"""Small dense matrix products inside compiled kernels, and the tensor products of spectral elements made of them.

C[m x n] (+)= A[m x k] B[k x n] for sizes that are known when the kernel is compiled (2 ... 33, and n**2 and the
like as the long side), float64 and float32, any alignment. Kernels call them. All arguments except the arrays and
their starts are literals: plain integers of a factory's closure, so that one call of the factory gives one
specialised kernel. The first argument says which code: GENERATED (`tensor_llvm`), or PLAIN, loops that Numba compiles
(`make_loops`). PLAIN is what GENERATED is compared with (Hadri et al. (NekBox), Sec. 4.2 and Fig. 6: LIBXSMM against
compiled loops).

    @cache
    def make_gradient(n, products=GENERATED):
        rows = n * n

        @kernel((*[float64[::1]] * 6,))
        def gradient(u, d, d_transposed, ur, us, ut):                   # all flat; u: one element, n**3
            along_x(products, n, n, rows, False, ur, 0, d_transposed, u, 0)
            along_y(products, n, n, n, n, False, us, 0, d, u, 0)
            along_z(products, n, n, rows, False, ut, 0, d, u, 0)

        return gradient

Arrays are C-contiguous, of one dtype, in any number of dimensions; a start is the place of the first element
in the flat array. The output must not overlap an input. Nothing outside of the matrices is read or written.
A matrix that begins in the middle of an array is passed as a view of it: `matrices[start:]`.

Source: Hutchinson, Heinecke, Pabst, Henry, Parsani, Keyes, "Efficiency of high order spectral element methods on
petascale architectures", ISC 2016, Secs. 2 and 3.1. Its Sec. 2 writes tensor products as small matrix products.
Code for each size is generated at run time after Heinecke et al., "LIBXSMM", SC 2016. Oracle: `reference`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numba import carray, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from ridgeline.elements.tensor_llvm import Product, ProductCode, ProductShape, emit_product
from ridgeline.jit.llvm import data_pointer, element_type

GENERATED, PLAIN = range(2)
PRODUCTS = {"generated": GENERATED, "plain": PLAIN}


def literal_sizes(name: str, **arguments: Any) -> dict[str, int]:
    """Return the values of literal arguments. Raise TypingError if one is not known when the kernel is compiled."""
    for key, kind in arguments.items():
        if not isinstance(kind, types.IntegerLiteral | types.BooleanLiteral):
            raise TypingError(
                f"{name}: {key} is {kind}, which is not known at compile time. Use a plain integer of the factory's "
                "closure."
            )
    return {key: kind.literal_value for key, kind in arguments.items()}


def check_arrays(name: str, **arrays: Any) -> None:
    """Raise TypingError unless the arrays are C-contiguous and all float64 or all float32."""
    dtypes = {kind.dtype for kind in arrays.values() if isinstance(kind, types.Array) and kind.layout == "C"}
    if len(dtypes) != 1 or not dtypes <= {types.float64, types.float32}:
        kinds = ", ".join(f"{key}: {kind}" for key, kind in arrays.items())
        raise TypingError(f"{name}: {kinds}. Use C-contiguous arrays, all float64 or all float32.")


def code_of_product(
    products: int,
    shape: ProductShape,
    c: int,
    a: int,
    b: int,
    places: Sequence[int] = (),
    code: Callable[..., ProductCode] = Product,
) -> Any:
    """Return the code generator of a product, GENERATED or PLAIN.

    c, a, b: the places of the arrays among the arguments. An array is followed by its start, except a matrix whose
    start is not an argument. places: of arrays to prefetch meanwhile; PLAIN leaves that to the CPU. code: emits
    GENERATED code.
    """

    def codegen(context, builder, signature, args):
        kinds = signature.args
        pointers = []
        for n in (c, a, b, *places):
            pointer = data_pointer(context, builder, signature, args, n)
            if n + 1 < len(kinds) and isinstance(kinds[n + 1], types.Integer):
                start = context.cast(builder, args[n + 1], kinds[n + 1], types.intp)
                pointer = builder.gep(pointer, [start])
            pointers.append(pointer)
        number = kinds[c].dtype
        if products == GENERATED:
            builder.call(emit_product(builder.module, element_type(number), shape, code), pointers)
        else:
            loops = types.void(*[types.CPointer(number)] * 3)
            context.compile_internal(builder, make_loops(shape), loops, pointers[:3])
        return context.get_dummy_value()

    return codegen


@intrinsic(prefer_literal=True)
def product(typing, products, m, n, k, lda, ldb, ldc, accumulate, c, c_start, a, a_start, b, b_start):
    """C[m x n] = A[m x k] B[k x n], or C += A B with `accumulate`; in a Numba function.

    lda, ldb, ldc: distance of the rows in elements. All sizes and `accumulate` are literals. Reads m k + k n elements
    (and m n with `accumulate`), writes m n; 2 m n k floating-point operations.
    """
    sizes = literal_sizes(
        "product", products=products, m=m, n=n, k=k, lda=lda, ldb=ldb, ldc=ldc, accumulate=accumulate
    )
    check_arrays("product", c=c, a=a, b=b)
    start = types.intp
    signature = types.void(products, m, n, k, lda, ldb, ldc, accumulate, c, start, a, start, b, start)
    chosen = sizes.pop("products")
    return signature, code_of_product(chosen, ProductShape(**sizes), 8, 10, 12)


@intrinsic(prefer_literal=True)
def prefetching_product(
    typing,
    products,
    m,
    n,
    k,
    batch,
    accumulate,
    prefetched,
    c,
    c_start,
    a,
    a_start,
    b,
    b_start,
    coming,
    coming_start,
    other,
    other_start,
):
    """C[m x n] (+)= A[m x k] B[k x n] of contiguous matrices, while prefetching what is read later.

    batch: B and C are so many matrices one after another; A is the same for all. prefetched: 1 for `coming`, 2 for
    `coming` and `other`: as many numbers as the products write are prefetched from their starts. Sizes, `accumulate`
    and `prefetched` are literals. Prefetches are spread over the product because a burst of them would fill a core's
    queue of requests to memory, and then products wait.
    """
    sizes = literal_sizes(
        "prefetching_product",
        products=products,
        m=m,
        n=n,
        k=k,
        batch=batch,
        accumulate=accumulate,
        prefetched=prefetched,
    )
    check_arrays("prefetching_product", c=c, a=a, b=b, coming=coming, other=other)
    chosen, rows, columns, depth, count, add, arrays = sizes.values()
    pitches = depth, columns, columns
    shape = ProductShape(
        rows, columns, depth, *pitches, add, count, 0, depth * columns, rows * columns, arrays
    )
    start = types.intp
    places = [c, start, a, start, b, start, coming, start, other, start]
    signature = types.void(products, m, n, k, batch, accumulate, prefetched, *places)
    return signature, code_of_product(chosen, shape, 7, 9, 11, (13, 15)[:arrays])


@intrinsic(prefer_literal=True)
def along_x(typing, products, n_to, n_from, rows, accumulate, out, out_start, matrix_transposed, u, u_start):
    """out[row, i] (+)= sum_l matrix_transposed[l, i] u[row, l]; in a Numba function.

    out: [rows, n_to], u: [rows, n_from], rows = the product of all slower directions; matrix_transposed:
    [n_from, n_to]. Sizes and `accumulate` are literals.
    """
    sizes = literal_sizes(
        "along_x", products=products, n_to=n_to, n_from=n_from, rows=rows, accumulate=accumulate
    )
    check_arrays("along_x", out=out, matrix_transposed=matrix_transposed, u=u)
    chosen, to, source, count, add = sizes.values()
    shape = ProductShape(count, to, source, lda=source, ldb=to, ldc=to, accumulate=add)
    start = types.intp
    signature = types.void(products, n_to, n_from, rows, accumulate, out, start, matrix_transposed, u, start)
    return signature, code_of_product(chosen, shape, 5, 8, 7)


@intrinsic(prefer_literal=True)
def along_y(typing, products, n_to, n_from, planes, n_fast, accumulate, out, out_start, matrix, u, u_start):
    """out[plane, j, i] (+)= sum_l matrix[j, l] u[plane, l, i]; in a Numba function.

    out: [planes, n_to, n_fast], u: [planes, n_from, n_fast], matrix: [n_to, n_from]. Sizes and `accumulate`
    are literals.
    """
    sizes = literal_sizes(
        "along_y",
        products=products,
        n_to=n_to,
        n_from=n_from,
        planes=planes,
        n_fast=n_fast,
        accumulate=accumulate,
    )
    check_arrays("along_y", out=out, matrix=matrix, u=u)
    chosen, to, source, count, fast, add = sizes.values()
    shape = ProductShape(to, fast, source, source, fast, fast, add, count, 0, source * fast, to * fast)
    start = types.intp
    signature = types.void(products, n_to, n_from, planes, n_fast, accumulate, out, start, matrix, u, start)
    return signature, code_of_product(chosen, shape, 6, 8, 9)


@intrinsic(prefer_literal=True)
def along_z(typing, products, n_to, n_from, n_fast2, accumulate, out, out_start, matrix, u, u_start):
    """out[k, i] (+)= sum_l matrix[k, l] u[l, i]; in a Numba function.

    out: [n_to, n_fast2], u: [n_from, n_fast2], n_fast2 = the product of both faster directions; matrix:
    [n_to, n_from]. Sizes and `accumulate` are literals.
    """
    sizes = literal_sizes(
        "along_z", products=products, n_to=n_to, n_from=n_from, n_fast2=n_fast2, accumulate=accumulate
    )
    check_arrays("along_z", out=out, matrix=matrix, u=u)
    chosen, to, source, fast, add = sizes.values()
    shape = ProductShape(to, fast, source, lda=source, ldb=fast, ldc=fast, accumulate=add)
    start = types.intp
    signature = types.void(products, n_to, n_from, n_fast2, accumulate, out, start, matrix, u, start)
    return signature, code_of_product(chosen, shape, 5, 7, 8)


def make_loops(shape: ProductShape) -> Callable[[Any, Any, Any], None]:
    """Return a function (c, a, b: pointers to element 0) that computes a product, for Numba to compile.

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
    """Return the same for a matrix that is given by its parts (`even_odd`)."""
    m, n, k, batch = shape.m, shape.n, shape.k, shape.batch
    accumulate, parity = shape.accumulate, shape.parity
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
