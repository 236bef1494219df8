"""Functions that a test compiles with whatever arguments come, kept in the kernel cache as the package's own are."""

from numba import njit as compiled_anew
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from ridgeline.jit.kernel_cache import keep_kernels


def njit(function):
    """Return `numba.njit(function)`, whose machine code later runs of the tests load."""
    dispatcher = compiled_anew(function)
    keep_kernels(dispatcher, FunctionCache, dumps)
    return dispatcher
