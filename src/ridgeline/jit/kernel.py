"""The one way to declare a compiled function that is kept between runs."""

from collections.abc import Callable
from typing import Any

from numba import njit

from ridgeline.jit.kernel_files import check_kernel_files

check_kernel_files()


def kernel(*signature: Any, **options: Any) -> Callable[..., Any]:
    """Return the decorator of a compiled function whose machine code is kept in the kernel cache.

    signature: types that are compiled at once, or none: on the first call. options: those of numba.njit, such as
    nogil, parallel, error_model, fastmath. Also a plain decorator, without parentheses.
    """
    return njit(*signature, cache=True, **options)  # type: ignore[no-any-return]  # Numba has no types
