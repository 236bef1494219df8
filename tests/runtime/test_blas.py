"""The BLAS beneath SciPy: its functions by address, its name, its threads."""

import pytest

from ridgeline.runtime import blas


def test_addresses_differ_by_function_and_precision():
    found = {blas.address(name) for name in ("dgemm", "sgemm", "dtrsm", "strsm")}
    assert len(found) == 4
    assert 0 not in found


def test_a_function_that_blas_lacks_is_a_key_error():
    with pytest.raises(KeyError):
        blas.address("dgemmm")


def test_scipys_library_is_named_first_with_its_threads():
    libraries = blas.blas_libraries()
    assert libraries[0].of_scipy
    assert libraries[0].threads >= 1
    assert libraries[0].version in str(libraries[0])
    assert sum(library.of_scipy for library in libraries) == 1


def test_threads_are_limited_inside_the_block_only():
    with blas.blas_threads(2):
        before = [library.threads for library in blas.blas_libraries()]
        with blas.blas_threads(1):
            assert {library.threads for library in blas.blas_libraries()} == {1}
        assert [library.threads for library in blas.blas_libraries()] == before
