"""Products on devices: what stands in for cuBLAS, and the calls that cuBLAS gets."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ridgeline.bench.hpl.device import blas_cuda
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, make_blas
from ridgeline.runtime import extras
from ridgeline.runtime.errors import DeviceError


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(blas_cuda, "simulated", lambda: True)


def block(matrix, offset=3, pitch=None, dtype=np.float64):
    """A matrix on a simulated device, with other numbers around it."""
    rows, columns = matrix.shape
    pitch = pitch or rows + 2
    flat = np.full(offset + pitch * columns, 0 if dtype == np.uint16 else np.nan, dtype)
    for column in range(columns):
        flat[offset + pitch * column :][:rows] = matrix[:, column]
    return DeviceBlock(SimpleNamespace(_ary=flat), offset, pitch, rows, columns)


def numbers(found):
    flat = found.array._ary
    return np.array(
        [
            [flat[found.offset + row + found.pitch * column] for column in range(found.columns)]
            for row in range(found.rows)
        ]
    )


@pytest.mark.usefixtures("stand_in")
def test_products_of_blocks() -> None:
    rng = np.random.default_rng(1)
    left, right, out, x, y = (rng.random(shape) for shape in ((5, 3), (3, 4), (5, 4), (3, 1), (5, 1)))
    blas, there = make_blas(), block(out)
    blas.subtract_product(block(left), block(right), there, None)
    np.testing.assert_allclose(numbers(there), out - left @ right, rtol=1e-14)
    unwritten = block(np.full((5, 4), np.nan))
    blas.assign_product(block(left), block(right), unwritten, None)
    np.testing.assert_allclose(numbers(unwritten), left @ right, rtol=1e-14)
    there = block(y)
    blas.subtract_product_of_vector(block(left), block(x), there, None)
    np.testing.assert_allclose(numbers(there), y - left @ x, rtol=1e-14)


@pytest.mark.usefixtures("stand_in")
def test_a_part_of_a_block_is_where_it_should_be() -> None:
    matrix = np.arange(35.0).reshape(7, 5)
    np.testing.assert_array_equal(numbers(block(matrix).part(2, 1, 4, 3)), matrix[2:6, 1:4])


@pytest.mark.usefixtures("stand_in")
def test_a_block_beyond_its_array_is_found() -> None:
    matrix = block(np.zeros((4, 4)), offset=0, pitch=4)
    with pytest.raises(IndexError, match="ends at number 16 of an array of 16"):
        make_blas().subtract_product(matrix, matrix, matrix.part(1, 0, 4, 4), None)


# Which arguments are addresses of factors, by function.
FACTORS = {"dgemm": (6, 11), "dgemv": (4, 9), "gemm_ex": (6, 13), "sgemv": (4, 9), "strsm": (7,)}


class Bindings:
    """nvmath.bindings.cublas as far as it is called; numbers that are passed by address are noted as such."""

    Operation = SimpleNamespace(N=0)
    SideMode = SimpleNamespace(LEFT=0, RIGHT=1)
    FillMode = SimpleNamespace(LOWER=0, UPPER=1)
    DiagType = SimpleNamespace(NON_UNIT=0, UNIT=1)
    ComputeType = SimpleNamespace(COMPUTE_32F=68)
    GemmAlgo = SimpleNamespace(DEFAULT=-1)

    class cuBLASError(Exception):
        pass

    def __init__(self, fails=()):
        self.calls, self._fails = [], fails

    def __getattr__(self, name):
        def call(*arguments):
            factors = FACTORS.get(name, ())
            real = ctypes.c_double if name.startswith("d") else ctypes.c_float
            noted = [
                real.from_address(one).value if at in factors else one for at, one in enumerate(arguments)
            ]
            self.calls.append((name, *noted))
            if name in self._fails:
                raise self.cuBLASError("NOT_INITIALIZED")
            return 3 if name == "create" else None

        return call


def at(address, offset, pitch, rows, columns, dtype=np.float64, narrow=None):
    array = SimpleNamespace(__cuda_array_interface__={"data": (address, False)}, dtype=np.dtype(dtype))
    return DeviceBlock(array, offset, pitch, rows, columns, narrow)


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(blas_cuda, "simulated", lambda: False)

    def use(library):
        monkeypatch.setattr(extras, "import_module", lambda name: library(name))

    return use


def test_the_calls_of_cublas(load) -> None:
    """cublasDgemm(handle, op, op, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc), and cublasDgemv."""
    bindings = Bindings()
    load({"nvmath.bindings.cublas": bindings}.__getitem__)
    blas = make_blas()
    left, right, out = at(1000, 2, 11, 5, 3), at(5000, 0, 7, 3, 4), at(9000, 10, 6, 5, 4)
    blas.subtract_product(left, right, out, 5)
    blas.assign_product(left, right, out, 6)
    blas.subtract_product_of_vector(left, at(400, 1, 3, 3, 1), at(800, 0, 5, 5, 1), 7)
    blas.free()
    assert bindings.calls == [
        ("get_cudart_version",),
        ("create",),
        ("set_stream", 3, 5),
        ("dgemm", 3, 0, 0, 5, 4, 3, -1.0, 1016, 11, 5000, 7, 1.0, 9080, 6),
        ("set_stream", 3, 6),
        ("dgemm", 3, 0, 0, 5, 4, 3, 1.0, 1016, 11, 5000, 7, 0.0, 9080, 6),
        ("set_stream", 3, 7),
        ("dgemv", 3, 0, 5, 3, -1.0, 1016, 11, 408, 1, 1.0, 800, 1),
        ("destroy", 3),
    ]


@pytest.mark.parametrize(
    ("dtype", "narrow", "type_of_factors"),
    [(np.float32, None, 0), (np.uint16, "float16", 2), (np.uint16, "bfloat16", 14)],
)
def test_the_calls_of_cublas_in_single_precision(load, dtype, narrow, type_of_factors) -> None:
    """cublasGemmEx(handle, op, op, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype, ldc, compute, algo).

    Then cublasSgemv, and cublasStrsm(handle, side, uplo, trans, diag, m, n, alpha, A, lda, B, ldb).
    """
    bindings = Bindings()
    load(lambda name: bindings)
    blas, item = make_blas(), np.dtype(dtype).itemsize
    left, right = at(1000, 2, 11, 5, 3, dtype, narrow), at(5000, 0, 7, 3, 4, dtype, narrow)
    out = at(9000, 10, 6, 5, 4, np.float32)
    blas.subtract_product(left, right.part(0, 1, 3, 3), out.part(0, 1, 5, 3), 5)
    vector = at(400, 1, 3, 4, 1, np.float32)
    blas.subtract_product_of_vector(out, vector, at(800, 0, 5, 5, 1, np.float32), 7)
    triangle = at(600, 0, 5, 5, 5, np.float32)
    blas.solve_lower(triangle, out, 8)
    blas.solve_upper_from_right(triangle.part(0, 0, 4, 4), out, 9)
    for empty in (out.part(0, 0, 0, 4), out.part(0, 0, 5, 0)):
        blas.solve_lower(triangle, empty, 8)
        blas.solve_upper_from_right(triangle, empty, 8)
    kind, b = type_of_factors, 5000 + 7 * item
    assert bindings.calls[2:] == [
        ("set_stream", 3, 5),
        ("gemm_ex", 3, 0, 0, 5, 3, 3, -1.0, 1000 + 2 * item, kind, 11, b, kind, 7, 1.0, 9064, 0, 6, 68, -1),
        ("set_stream", 3, 7),
        ("sgemv", 3, 0, 5, 4, -1.0, 9040, 6, 404, 1, 1.0, 800, 1),
        ("set_stream", 3, 8),
        ("strsm", 3, 0, 0, 0, 1, 5, 4, 1.0, 600, 5, 9040, 6),
        ("set_stream", 3, 9),
        ("strsm", 3, 1, 1, 0, 0, 5, 4, 1.0, 600, 5, 9040, 6),
    ]


@pytest.mark.usefixtures("stand_in")
def test_what_stands_in_for_single_precision() -> None:
    """Products of 16 bits are those of their numbers, in float32; triangles are the unit lower and the upper one."""
    rng = np.random.default_rng(2)
    left, right = (rng.random(shape).astype(np.float16) for shape in ((5, 3), (3, 4)))
    shortened = [(one.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for one in (left, right)]
    cases = {
        "float16": ((left, right), [one.view(np.uint16) for one in (left, right)]),
        "bfloat16": ([(one.astype(np.uint32) << 16).view(np.float32) for one in shortened], shortened),
    }
    blas = make_blas()
    for narrow, (numbers_of, bits) in cases.items():
        out = block(np.zeros((5, 4)), dtype=np.float32)
        blocks = (replace(block(one, dtype=np.uint16), narrow=narrow) for one in bits)
        blas.subtract_product(*blocks, out, None)
        a, b = (one.astype(np.float64) for one in numbers_of)
        np.testing.assert_allclose(numbers(out), -a @ b, rtol=1e-6)
    triangle, x = rng.random((4, 4)) + 2 * np.eye(4), rng.random((4, 3))
    solved = block(x, dtype=np.float32)
    blas.solve_lower(block(triangle, dtype=np.float32), solved, None)
    np.testing.assert_allclose((np.tril(triangle, -1) + np.eye(4)) @ numbers(solved), x, rtol=1e-5)
    solved = block(x.T, dtype=np.float32)
    blas.solve_upper_from_right(block(triangle, dtype=np.float32), solved, None)
    np.testing.assert_allclose(numbers(solved) @ np.triu(triangle), x.T, rtol=1e-5)


def test_nothing_is_called_for_blocks_without_numbers(load) -> None:
    bindings = Bindings()
    load(lambda name: bindings)
    blas = make_blas()
    some = at(1, 0, 4, 4, 4)
    for rows, inner, columns in ((0, 4, 4), (4, 0, 4), (4, 4, 0)):
        left, right = some.part(0, 0, rows, inner), some.part(0, 0, inner, columns)
        blas.subtract_product(left, right, some.part(0, 0, rows, columns), 1)
    blas.assign_product(some, some.part(0, 0, 4, 0), some.part(0, 0, 4, 0), 1)
    blas.subtract_product_of_vector(some.part(0, 0, 0, 4), some, some, 1)
    assert [name for name, *_ in bindings.calls] == ["get_cudart_version", "create"]


def failing(error):
    def load(*_):
        raise error

    return load


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (
            failing(ImportError("no nvmath")),
            r"cuBLAS needs .*nvmath-python.*\(no nvmath\). .*pip install nvmath-python",
        ),
        (
            lambda name: SimpleNamespace(get_cudart_version=failing(RuntimeError("libcublas.so.13: absent"))),
            r"does not load \(libcublas.so.13: absent\). .*pip install",
        ),
        (lambda name: Bindings(fails=("create",)), r"cuBLAS cannot start \(NOT_INITIALIZED\)"),
    ],
)
def test_says_what_is_missing(load, library, words) -> None:
    load(library)
    with pytest.raises(DeviceError, match=words):
        make_blas()


def test_says_which_triangle_failed(load) -> None:
    load(lambda _: Bindings(fails=("strsm",)))
    some = at(1, 0, 4, 4, 4, np.float32)
    with pytest.raises(DeviceError, match=r"cuBLAS cannot solve for 4 x 4 .*NOT_INIT.*--device cpu"):
        make_blas().solve_lower(some, some, 1)


@pytest.mark.parametrize("name", ["dgemm", "dgemv"])
def test_says_what_failed(load, name) -> None:
    load(lambda _: Bindings(fails=(name,)))
    blas, some = make_blas(), at(1, 0, 4, 4, 4)
    with pytest.raises(DeviceError, match=r"cuBLAS cannot multiply 4 x 4 .*NOT_INIT.*--device cpu"):
        (blas.subtract_product if name == "dgemm" else blas.subtract_product_of_vector)(some, some, some, 1)
