"""The BLAS beneath SciPy: which library it is, how many threads it uses, and the addresses of its functions.

This is the only file that uses BLAS. `address` returns the address of a function of `scipy.linalg.cython_blas`,
whichever BLAS SciPy was built with, for compiled code. The interface is Fortran's: every argument by reference,
integers of 32 bits. The address may differ between processes, so compiled code that is cached takes it as an
argument, never as a constant.

The wheels of NumPy and SciPy each bring an OpenBLAS with a separate thread pool. threadpoolctl finds them all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MOST_ELEMENTS = 2**31 - 1  # in a direction of a matrix: the largest integer of 32 bits


@dataclass(frozen=True)
class BlasLibrary:
    """A BLAS in this process.

    name: such as "openblas". architecture: for which its kernels were chosen, "" if unknown. threading: the threading
    layer, such as "pthreads". threads: the number that it uses now. path: its file. of_scipy: whether `address`
    returns functions of this library.
    """

    name: str
    version: str
    architecture: str
    threading: str
    threads: int
    path: str
    of_scipy: bool

    def __str__(self) -> str:
        kernels = f" for {self.architecture}" if self.architecture else ""
        plural = "s" * (self.threads != 1)
        return f"{self.name} {self.version}{kernels}, {self.threads} thread{plural} ({self.threading})"


def address(name: str) -> int:
    """Return the address of a BLAS function, such as "dgemm", in Fortran's interface. Raises KeyError without it."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[name]
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    pointer = pointer_of(capsule, name_of(capsule))
    assert pointer is not None  # a capsule holds no null pointer
    return int(pointer)


def blas_libraries() -> list[BlasLibrary]:
    """Return the BLAS libraries of this process, SciPy's first. Loads SciPy's."""
    from scipy.linalg import cython_blas  # noqa: F401  # brings the library
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    libraries = [
        BlasLibrary(
            name=pool["internal_api"],
            version=pool["version"] or "of unknown version",
            architecture=pool.get("architecture") or "",
            threading=pool.get("threading_layer") or "unknown",
            threads=pool["num_threads"],
            path=pool["filepath"],
            # That of SciPy's wheel is in scipy.libs. A BLAS that several packages share is SciPy's too.
            of_scipy=len(pools) == 1 or "scipy.libs" in pool["filepath"],
        )
        for pool in pools
    ]
    return sorted(libraries, key=lambda library: not library.of_scipy)


@contextmanager
def blas_threads(n_threads: int) -> Iterator[None]:
    """Let each BLAS of this process use n_threads threads per call inside the block.

    With one thread, OpenBLAS may be called from several threads at the same time.
    """
    from scipy.linalg import cython_blas  # noqa: F401  # a library that is loaded later would not be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=n_threads, user_api="blas"):
        yield
