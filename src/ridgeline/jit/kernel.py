"""The one way to declare a compiled function: with its signatures, in terms of element types.

    @kernel(lambda T: (T, T[::1], T[::1]), nogil=True)
    def add_scaled(factor, values, out): ...

    compile_kernels(specialise([add_scaled], "float32"))

A declaration says for which types of arguments a kernel is called. An engine or a model lists the kernels that it
calls, as specialisations. `compile_kernels` compiles those, or loads them from the cache. A kernel is Numba's own
dispatcher: a call costs nothing more.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, njit, types
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from ridgeline.jit.kernel_cache import keep_kernels
from ridgeline.jit.kernel_errors import compile_or_explain

# A function that only kernels call: compiled into each of them. Options as for `kernel`, and inline="always".
subroutine = njit


class Specialisation(NamedTuple):
    """A kernel, and the types of arguments for which it is wanted."""

    kernel: Any
    arguments: tuple[Any, ...]


def kernel(signature: Callable[..., tuple[Any, ...]] | tuple[Any, ...], **options: Any) -> Callable[..., Any]:
    """Return the decorator of a compiled function whose machine code is kept in the kernel cache.

    signature: the types of all arguments, in order, as Numba names them.
        A function of element types, and whatever else the types depend on, returns them for `compile_kernels`.
        A tuple is compiled at once, and the kernel takes no others: for factories, which are asked for one kernel.
    options: those of numba.njit, such as nogil, parallel, error_model, fastmath.

    A kernel that cannot be compiled raises KernelError. Raises TypeError if the function closes over a value whose
    text is not the same in every process, such as a list: what it closes over is part of its key in the cache
    (`kernel_cache.text_of`).
    """

    def declare(function: Callable[..., Any]) -> Any:
        dispatcher = njit(**options)(function)
        keep_kernels(dispatcher, FunctionCache, dumps)
        dispatcher.compile = partial(compile_or_explain, function, dispatcher.compile)
        dispatcher.declared = signature
        if not callable(signature):
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return declare


def specialise(kernels: Iterable[Any], *parameters: Any) -> list[Specialisation]:
    """Return kernels, for what their declarations depend on: dtypes, types of Numba, numbers.

    Raises TypeError for a kernel whose declaration takes other parameters.
    """
    resolved = [_element_type(parameter) for parameter in parameters]
    return [Specialisation(kernel, tuple(kernel.declared(*resolved))) for kernel in kernels]


def compile_kernels(wanted: Iterable[Specialisation]) -> None:
    """Compile kernels, or load them from the cache. Does not communicate: call it by `in_turn_per_node`."""
    for kernel, arguments in wanted:
        kernel.compile(arguments)


def unsigned(real: Any) -> Any:
    """Return the unsigned integers that have as many bits as a float type: for its patterns of bits."""
    return {32: types.uint32, 64: types.uint64}[real.bitwidth]


def _element_type(parameter: Any) -> Any:
    """Return Numba's type of a dtype, and anything else as it is."""
    is_dtype = isinstance(parameter, str | np.dtype) or (
        isinstance(parameter, type) and issubclass(parameter, np.generic)
    )
    return from_dtype(np.dtype(parameter)) if is_dtype else parameter
