"""Generated small matrix products against NumPy, with guards around everything that they may touch."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from kept_kernels import njit
from ridgeline.elements import reference as reference
from ridgeline.elements.tensor import (
    GENERATED,
    PLAIN,
    along_x,
    along_y,
    along_z,
    prefetching_product,
    product,
)
from ridgeline.elements.tensor_llvm import column_groups, shares, vectors_of_rows

# (m, n, k): the corners of 2 ... 33, sizes around every vector width, long sides of n**2
SIZES = [(2, 2, 2), (33, 33, 33), (33, 2, 33), (3, 5, 7), (64, 8, 8), (81, 9, 14), (17, 31, 5)]
MORE_SIZES = [(2, 33, 2), (9, 4, 6), (5, 25, 5), (16, 16, 16)]
MORE_SIZES += [(100, 10, 10), (6, 18, 31), (31, 17, 29), (13, 11, 6)]
PLAIN_SIZES = [(2, 2, 2), (3, 5, 7), (64, 8, 8)]  # loops know no vectors
PRODUCTS = [
    *((GENERATED, sizes) for sizes in SIZES),
    *(pytest.param(GENERATED, sizes, marks=pytest.mark.full) for sizes in MORE_SIZES),
    *((PLAIN, sizes) for sizes in PLAIN_SIZES),
]
BOTH = pytest.mark.parametrize("products", [GENERATED, PLAIN], ids=["generated", "plain"])
GUARD = 777.0


def make_product(sizes, pitches, accumulate, products=GENERATED):
    """Return a compiled function with one product in it."""
    (m, n, k), (lda, ldb, ldc) = sizes, pitches

    @njit
    def kernel(c, c_start, a, a_start, b, b_start):
        product(products, m, n, k, lda, ldb, ldc, accumulate, c, c_start, a, a_start, b, b_start)

    return kernel


def make_gradient(n_to, n_from, accumulate, products=GENERATED):
    """Return a compiled function that maps along each direction of a cube of n_from points."""
    rows = n_from * n_from

    @njit
    def gradient(matrix, transposed, u, start, out):
        along_x(products, n_to, n_from, rows, accumulate, out[0], start, transposed, u, start)
        along_y(products, n_to, n_from, n_from, n_from, accumulate, out[1], start, matrix, u, start)
        along_z(products, n_to, n_from, rows, accumulate, out[2], start, matrix, u, start)

    return gradient


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("accumulate", [False, True], ids=["overwrite", "accumulate"])
@pytest.mark.parametrize(("products", "sizes"), PRODUCTS, ids=str)
def test_a_product_equals_numpy_and_touches_nothing_else(sizes, accumulate, dtype, products):
    m, n, k = sizes
    pitches = lda, ldb, ldc = k + 2, n + 1, n + 3
    starts = c_start, a_start, b_start = 5, 3, 1  # no vector is aligned
    random = np.random.default_rng(m * n + k)
    a = random.uniform(-1, 1, a_start + m * lda).astype(dtype)
    b = random.uniform(-1, 1, b_start + k * ldb).astype(dtype)
    c = np.full(c_start + m * ldc + 20, GUARD, dtype)
    inside = np.zeros(c.size, bool)
    inside[(c_start + np.arange(m)[:, None] * ldc + np.arange(n)).ravel()] = True
    c[inside] = random.uniform(-1, 1, m * n)
    expected = c.astype(np.float64)
    reference.product(
        accumulate,
        reference.matrix_at(expected, c_start, m, n, ldc),
        reference.matrix_at(a.astype(np.float64), a_start, m, k, lda),
        reference.matrix_at(b.astype(np.float64), b_start, k, n, ldb),
    )

    make_product(sizes, pitches, accumulate, products)(c, starts[0], a, starts[1], b, starts[2])

    assert np.all(c[~inside] == GUARD)
    assert np.abs(c - expected).max() <= (k + 1) * (k + 1) * np.finfo(dtype).eps / 2


@BOTH
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n_to", "n_from", "accumulate"), [(6, 6, False), (9, 6, True), (5, 11, False)])
def test_the_three_directions_equal_einsum(n_to, n_from, accumulate, dtype, products):
    random = np.random.default_rng(1)
    n, start = n_from, 4
    matrix = random.uniform(-1, 1, (n_to, n)).astype(dtype)
    u = random.uniform(-1, 1, start + n**3).astype(dtype)
    out = random.uniform(-1, 1, (3, start + n_to * n * n + 9)).astype(dtype)
    before, end = out.copy(), start + n_to * n * n
    cube = u[start:].reshape(n, n, n).astype(np.float64)
    forms = ("il,kjl->kji", "jl,kli->kji", "kl,lji->kji")
    exact = np.array([np.einsum(form, matrix, cube).ravel() for form in forms])
    exact += before[:, start:end] if accumulate else 0.0

    make_gradient(n_to, n, accumulate, products)(matrix, matrix.T.copy(), u, start, out)

    assert np.abs(out[:, start:end] - exact).max() <= 20 * n * np.finfo(dtype).eps
    assert np.array_equal(out[:, :start], before[:, :start])
    assert np.array_equal(out[:, end:], before[:, end:])
    twin = before.copy()
    rows = n * n
    reference.along_x(n_to, n, rows, accumulate, twin[0], start, matrix.T.copy(), u, start)
    reference.along_y(n_to, n, n, n, accumulate, twin[1], start, matrix, u, start)
    reference.along_z(n_to, n, rows, accumulate, twin[2], start, matrix, u, start)
    assert np.abs(twin - out).max() <= 20 * n * np.finfo(dtype).eps


@BOTH
@pytest.mark.parametrize("prefetched", [1, 2])
def test_a_product_that_prefetches_gives_the_same_bits(prefetched, products):
    m, n, k, batch = 5, 7, 3, 2

    @njit
    def kernel(c, a, b, coming):
        prefetching_product(
            products, m, n, k, batch, True, prefetched, c, 1, a, 0, b, 2, coming, 3, coming, 999
        )

    random = np.random.default_rng(2)
    a, b = random.uniform(-1, 1, m * k), random.uniform(-1, 1, 2 + batch * k * n)
    c, coming = random.uniform(-1, 1, 1 + batch * m * n + 9), np.zeros(4)  # mostly asked for beyond its end
    expected = c.copy()
    for q in range(batch):
        made = make_product((m, n, k), (k, n, n), True, products)
        made(expected, 1 + q * m * n, a, 0, b, 2 + q * k * n)
    kernel(c, a, b, coming)
    assert np.array_equal(c, expected)
    assert not coming.any()


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_blocks_cover_every_row_and_column_once(lanes):
    for m in (*range(1, 34), 961):
        for largest in (1, 3, 5, 10, 16):
            parts = shares(m, largest)
            assert sum(parts) == m
            assert max(parts) <= largest
            assert len(set(parts)) <= 2
        for n in range(2, 34):
            columns = []
            for group in column_groups(n, lanes, vectors_of_rows(m)):
                assert group.column == len(columns)
                columns += list(range(group.column, group.column + group.count * group.width))
            assert columns == list(range(n))


def test_a_size_that_is_not_known_when_compiling_is_an_error():
    @njit
    def kernel(m, c, a, b):
        product(GENERATED, m, 2, 2, 2, 2, 2, False, c, 0, a, 0, b, 0)

    with pytest.raises(TypingError, match="product: m is int64, which is not known at compile time"):
        kernel(2, np.zeros(4), np.zeros(4), np.zeros(4))


def test_mixed_precision_is_an_error():
    kernel = make_product((2, 2, 2), (2, 2, 2), False)
    with pytest.raises(TypingError, match="C-contiguous arrays, all float64 or all float32"):
        kernel(np.zeros(4), 0, np.zeros(4, np.float32), 0, np.zeros(4), 0)


def test_products_add_up_in_registers():
    kernel = numba.njit(
        make_product((16, 16, 16), (16, 16, 16), False).py_func
    )  # a loaded one has no assembly
    kernel(np.zeros(256), 0, np.zeros(256), 0, np.zeros(256), 0)
    (assembly,) = kernel.inspect_asm().values()
    if "ymm" not in assembly:
        pytest.skip("not an x86 with vectors of 256 bits or more")
    code = assembly[assembly.index("\nridgeline_product") :].split("\n.Lfunc_end")[0]
    assert "vfmadd" in code
    stack = [line for line in code.splitlines() if "mm" in line and ("(%rsp)" in line or "(%rbp)" in line)]
    assert stack == []


def sums_of_widths() -> str:
    """Return a digest of the bits of a few products."""
    random = np.random.default_rng(3)
    digest = hashlib.sha256()
    for dtype in (np.float64, np.float32):
        for m, n, k in ((9, 7, 5), (5, 13, 11), (16, 8, 6)):
            a, b = random.uniform(-1, 1, m * k).astype(dtype), random.uniform(-1, 1, k * n).astype(dtype)
            c = np.zeros(m * n, dtype)
            make_product((m, n, k), (k, n, n), False)(c, 0, a, 0, b, 0)
            digest.update(c.tobytes())
    return digest.hexdigest()


def run_python(program: str, *arguments: str, **environment: str) -> str:
    """Run a program in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr}"
    return done.stdout.strip()


LOAD = """
import importlib.util, sys
specification = importlib.util.spec_from_file_location("products", sys.argv[1])
products = sys.modules["products"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(products)
"""


@pytest.mark.parametrize("vector_bytes", ["16", "32"])
def test_narrower_vectors_give_the_same_bits(vector_bytes):
    program = LOAD + "print(products.sums_of_widths())"
    assert run_python(program, __file__, RIDGELINE_VECTOR_BYTES=vector_bytes) == sums_of_widths()


def products_between_forbidden_pages() -> None:
    """Run products whose matrices begin after, or end before, a page that may not be touched."""
    import ctypes
    import mmap

    page, room = mmap.PAGESIZE, 4 * mmap.PAGESIZE
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    memory = []

    def guarded(values, at_end):
        pages = mmap.mmap(-1, room + 2 * page)
        memory.append(pages)
        space = np.frombuffer(pages, np.uint8)
        for first in (0, room + page):
            assert protect(space.ctypes.data + first, page, 0) == 0
        inner = space[page:-page].view(values.dtype)
        inner = inner[-values.size :] if at_end else inner[: values.size]
        inner[:] = values
        return inner

    for dtype in (np.float64, np.float32):
        for m, n, k in ((5, 5, 5), (9, 3, 7), (8, 11, 6), (13, 18, 2), (4, 21, 3)):
            for at_end in (False, True):
                c, a, b = (guarded(np.ones(size, dtype), at_end) for size in (m * n, m * k, k * n))
                make_product((m, n, k), (k, n, n), True)(c, 0, a, 0, b, 0)
                assert np.all(c == k + 1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forbids pages by Linux's mprotect")
def test_nothing_beyond_the_matrices_is_read_or_written():
    # not one by one in this process: touching a forbidden page ends it
    run_python(LOAD + "products.products_between_forbidden_pages()", __file__)


FACTORY = """
from functools import cache

from kept_kernels import njit
from ridgeline.elements.tensor import GENERATED, along_x, along_z

@cache
def make(n):
    rows = n * n

    @njit
    def kernel(u, d, out):
        along_x(GENERATED, n, n, rows, False, out, 0, d, u, 0)
        along_z(GENERATED, n, n, rows, True, out, 0, d, u, 0)

    return kernel
"""
USE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from cached_products import make
for n in (3, 4):
    u, d, out = np.ones(n**3), np.ones((n, n)), np.empty(n**3)
    kernel = make(n)
    kernel(u, d, out)
    assert np.all(out == 2 * n), out
    print(sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values()))
"""


def test_a_second_process_loads_kernels_from_disk(tmp_path):
    (tmp_path / "cached_products.py").write_text(FACTORY)
    runs = [run_python(USE, str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "cache")) for _ in range(2)]
    assert runs == ["0 1\n0 1", "1 0\n1 0"]
