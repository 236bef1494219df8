"""The BLAS beneath SciPy: which it is, how many threads it has, and where its functions lie for compiled code.

The only file that reaches for BLAS. `address` gives a function of `scipy.linalg.cython_blas`, with whatever BLAS
SciPy was built. Its interface is Fortran's: every argument by reference, integers of 32 bits. The address may differ
from one process to the next. So compiled code that is cached takes it as an argument, never as a constant.

NumPy's and SciPy's wheels bring an OpenBLAS each, with a pool of threads of its own. threadpoolctl knows them all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MOST_ELEMENTS = 2**31 - 1  # of a direction of a matrix: what an integer of 32 bits holds


@dataclass(frozen=True)
class BlasLibrary:
    """A BLAS in this process.

    name: as "openblas"; version; architecture: for which its kernels were chosen, "" if it does not say;
    threading: the layer, as "pthreads"; threads: that it uses now; path: of its file; of_scipy: whether `address`
    leads to this one.
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
    found = pointer_of(capsule, name_of(capsule))
    assert found is not None  # a capsule holds no null pointer
    return int(found)


def blas_libraries() -> list[BlasLibrary]:
    """Return the BLAS libraries of this process, SciPy's first. Loads SciPy's."""
    from scipy.linalg import cython_blas  # noqa: F401  # brings the library
    from threadpoolctl import threadpool_info

    found = [one for one in threadpool_info() if one["user_api"] == "blas"]
    libraries = [
        BlasLibrary(
            name=one["internal_api"],
            version=one["version"] or "of unknown version",
            architecture=one.get("architecture") or "",
            threading=one.get("threading_layer") or "unknown",
            threads=one["num_threads"],
            path=one["filepath"],
            # The wheel's lies in scipy.libs; a BLAS that several packages share is SciPy's too.
            of_scipy=len(found) == 1 or "scipy.libs" in one["filepath"],
        )
        for one in found
    ]
    return sorted(libraries, key=lambda library: not library.of_scipy)


@contextmanager
def blas_threads(n_threads: int) -> Iterator[None]:
    """Let each BLAS of this process use n_threads threads a call inside the block.

    With one thread, OpenBLAS may be called from several threads at once.
    """
    from scipy.linalg import cython_blas  # noqa: F401  # a library that is loaded later would not be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=n_threads, user_api="blas"):
        yield
