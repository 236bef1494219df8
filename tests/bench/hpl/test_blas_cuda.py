"""Products on devices: what stands in for cuBLAS, and the calls that cuBLAS gets."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from ridgeline.bench.hpl.device import blas_cuda
from ridgeline.bench.hpl.device.blas_cuda import DeviceBlock, make_blas
from ridgeline.runtime.errors import DeviceError


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(blas_cuda, "simulated", lambda: True)


def block(matrix, offset=3, pitch=None):
    """A matrix on a simulated device, with other numbers around it."""
    rows, columns = matrix.shape
    pitch = pitch or rows + 2
    flat = np.full(offset + pitch * columns, np.nan)
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
    with pytest.raises(IndexError, match="reaches number 16 of an array of 16"):
        make_blas().subtract_product(matrix, matrix, matrix.part(1, 0, 4, 4), None)


class Bindings:
    """nvmath.bindings.cublas as far as it is called; numbers that are passed by address are noted as such."""

    Operation = SimpleNamespace(N=0)

    class cuBLASError(Exception):
        pass

    def __init__(self, fails=()):
        self.calls, self._fails = [], fails

    def __getattr__(self, name):
        def call(*arguments):
            factors = {"dgemm": (6, 11), "dgemv": (4, 9)}.get(name, ())
            noted = [
                ctypes.c_double.from_address(one).value if at in factors else one
                for at, one in enumerate(arguments)
            ]
            self.calls.append((name, *noted))
            if name in self._fails:
                raise self.cuBLASError("NOT_INITIALIZED")
            return 3 if name == "create" else None

        return call


def at(address, offset, pitch, rows, columns):
    array = SimpleNamespace(__cuda_array_interface__={"data": (address, False)})
    return DeviceBlock(array, offset, pitch, rows, columns)


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(blas_cuda, "simulated", lambda: False)

    def use(library):
        monkeypatch.setattr(blas_cuda, "import_module", lambda name: library(name))

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
            r"nvmath-python.*\(no nvmath\); pip install .ridgeline\[cuda,cublas",
        ),
        (
            lambda name: SimpleNamespace(get_cudart_version=failing(RuntimeError("libcublas.so.13: absent"))),
            r"library cuBLAS does not load \(libcublas.so.13: absent\); pip install",
        ),
        (lambda name: Bindings(fails=("create",)), r"cuBLAS begins not \(NOT_INITIALIZED\)"),
    ],
)
def test_says_what_is_missing(load, library, words) -> None:
    load(library)
    with pytest.raises(DeviceError, match=words):
        make_blas()


@pytest.mark.parametrize("name", ["dgemm", "dgemv"])
def test_says_what_failed(load, name) -> None:
    load(lambda _: Bindings(fails=(name,)))
    blas, some = make_blas(), at(1, 0, 4, 4, 4)
    with pytest.raises(DeviceError, match=r"cuBLAS multiplies not 4 x 4 .*NOT_INIT.*--device cpu"):
        (blas.subtract_product if name == "dgemm" else blas.subtract_product_of_vector)(some, some, some, 1)
