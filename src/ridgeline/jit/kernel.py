"""How a compiled function is declared: with its signatures, in terms of element types.

    @kernel(lambda T: (T, T[::1], T[::1]), nogil=True)
    def add_scaled(factor, values, out): ...

    compile_kernels(specialise([add_scaled], "float32"))

A declaration says for which types of arguments a kernel is called. An engine or a model lists the kernels that it
calls, as specialisations, and `compile_kernels` compiles those or loads them from the cache. A kernel is Numba's own
dispatcher, so a call costs nothing more. `numba_threads` sets how many threads parallel kernels use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import from_dtype, njit, types
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from ridgeline.jit.kernel_cache import KernelBusyError, keep_kernels, refusing_busy_kernels
from ridgeline.runtime.errors import ConfigError, KernelError
from ridgeline.runtime.numba_errors import is_refusal, refusal

# Declares a function that only kernels call, and that is compiled into each of them. It takes the options of
# numba.njit.
subroutine = njit


class Specialisation(NamedTuple):
    """A kernel, and the types of arguments for which it is wanted."""

    kernel: Any
    arguments: tuple[Any, ...]


def kernel(signature: Callable[..., tuple[Any, ...]] | tuple[Any, ...], **options: Any) -> Callable[..., Any]:
    """Return the decorator of a compiled function whose machine code is kept in the kernel cache.

    Parameters
    ----------
    signature : callable or tuple
        The types of all arguments, in order, as Numba names them. A function of element types, and of whatever else
        the types depend on, returns them for `compile_kernels`. A tuple is compiled at once and the kernel then
        takes no other types: this is for factories, each of whose calls makes one kernel.
    **options
        Those of numba.njit, such as nogil, parallel, error_model, fastmath.

    Returns
    -------
    callable
        The decorator. It returns Numba's own dispatcher, so a call costs nothing more.

    Raises
    ------
    KernelError
        If the function cannot be compiled.
    TypeError
        If the function closes over a value whose text is not the same in every process, such as a list: what it
        closes over is part of its key in the cache (`kernel_cache.text_of`).

    Notes
    -----
    Local.

    Examples
    --------
    >>> import numpy as np
    >>> from ridgeline.jit.kernel import compile_kernels, kernel, specialise
    >>> @kernel(lambda T: (T, T[::1], T[::1]), nogil=True)
    ... def add_scaled(factor, values, out):
    ...     for i in range(values.shape[0]):
    ...         out[i] += factor * values[i]
    >>> compile_kernels(specialise([add_scaled], "float64"))
    >>> out = np.ones(3)
    >>> add_scaled(2.0, np.arange(3.0), out)
    >>> out
    array([1., 3., 5.])
    """

    def declare(function: Callable[..., Any]) -> Any:
        dispatcher = njit(**options)(function)
        keep_kernels(dispatcher, FunctionCache, dumps)
        dispatcher.compile = partial(compile_or_explain, function, dispatcher.compile)
        dispatcher.declared = signature
        if not callable(signature):
            _compile_or_pass_over(lambda: (dispatcher.compile(signature), dispatcher.disable_compile()))
        return dispatcher

    return declare


def specialise(kernels: Iterable[Any], *parameters: Any) -> list[Specialisation]:
    """Return kernels with the argument types that their declarations give for some parameters.

    Parameters
    ----------
    kernels : iterable of kernels
        Functions declared by `kernel`.
    *parameters
        What the declarations depend on: dtypes, types of Numba, numbers.

    Returns
    -------
    list of Specialisation
        Kernels and argument types, for `compile_kernels`.

    Raises
    ------
    TypeError
        For a kernel whose declaration takes other parameters.

    Examples
    --------
    >>> from ridgeline.jit.kernel import specialise
    >>> from ridgeline.particles.ghosts import take_rows
    >>> (wanted,) = specialise([take_rows], "float64")
    >>> wanted.arguments[2]
    Array(float64, 1, 'C', False, aligned=True)
    """
    resolved = []
    for parameter in parameters:
        is_dtype = isinstance(parameter, str | np.dtype) or (
            isinstance(parameter, type) and issubclass(parameter, np.generic)
        )
        resolved.append(from_dtype(np.dtype(parameter)) if is_dtype else parameter)
    return [Specialisation(kernel, tuple(kernel.declared(*resolved))) for kernel in kernels]


def compile_kernels(wanted: Iterable[Specialisation]) -> None:
    """Compile kernels, or load them from the cache.

    Parameters
    ----------
    wanted : iterable of Specialisation
        Kernels and argument types, as `specialise` returns them.

    Raises
    ------
    KernelError
        If a kernel cannot be compiled.

    Notes
    -----
    Local: it does not communicate. Call it by `compile_on_nodes`, so that the ranks of a node share the work through
    the cache. Compiling takes 0.2 to 20 s for each kernel, loading some milliseconds.

    Examples
    --------
    >>> from ridgeline.jit.kernel import compile_kernels
    >>> from ridgeline.particles.ghosts import kernels_of_ghosts
    >>> compile_kernels(kernels_of_ghosts())
    """
    ahead = list(wanted)
    part, parts = _share.get()
    first = len(ahead) * part // parts
    for kernel, arguments in ahead[first:] + ahead[:first]:
        _compile_or_pass_over(partial(kernel.compile, arguments))


# Which part of the kernels this process compiles first, and of how many.
_share: ContextVar[tuple[int, int]] = ContextVar("share", default=(0, 1))
_passed_over: list[Callable[[], object]] = []


def _compile_or_pass_over(compile: Callable[[], object]) -> None:
    """Compile a kernel; where kernels are shared and another process is compiling it, load it at the end."""
    if _share.get()[1] == 1:
        compile()
        return
    try:
        with refusing_busy_kernels():
            compile()
    except KernelBusyError:
        _passed_over.append(compile)


@contextmanager
def sharing_kernels(part: int, parts: int) -> Iterator[None]:
    """Let kernels that another process is compiling wait until the end of the block.

    `compile_kernels` begins with one of several parts. Each of `parts` processes of a host that want the same kernels
    then compiles about as many of them, and loads the others from the cache.
    """
    before = _share.set((part, parts))
    try:
        yield
    finally:
        _share.reset(before)
        ahead = [*_passed_over]
        _passed_over.clear()
    for compile in ahead:
        compile()


def unsigned(real: Any) -> Any:
    """Return the type of unsigned integers with as many bits as a float type, for its bit patterns."""
    return {32: types.uint32, 64: types.uint64}[real.bitwidth]


def compile_or_explain(function: Callable[..., Any], compile: Callable[[Any], Any], signature: Any) -> Any:
    """Compile a kernel for a signature. Raises KernelError if its code or its declaration is wrong.

    The error says in one sentence which kernel, which file and line, and what Numba says.
    """
    _postpone_blas()
    try:
        return compile(signature)
    except Exception as error:  # some of Numba's have no other base
        if not is_refusal(error):
            raise
        file, line, reason = refusal(function, error)
        raise KernelError(
            f"{file}:{line}: the kernel {function.__name__} cannot be compiled: {reason}. Correct it there. "
            f"--debug shows the whole message of Numba."
        ) from error


@cache
def _postpone_blas() -> None:
    """Let Numba look for BLAS when a kernel needs it, and not when its tables of functions are loaded.

    Its module of array functions imports scipy.linalg to know whether `dot` can be compiled, which takes 0.3 s. It
    can: SciPy is a dependency of ours, and functions that need BLAS look once more.
    """
    import numba.np.linalg

    look = numba.np.linalg.ensure_blas
    numba.np.linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath
    finally:
        numba.np.linalg.ensure_blas = look


def check_threads(n_threads: int, what: str) -> None:
    """Raise ConfigError unless Numba was started with at least n_threads threads. what: how the message begins."""
    available = int(numba.config.NUMBA_NUM_THREADS)
    if not 1 <= n_threads <= available:
        raise ConfigError(
            f"{what}: Numba was started with {available}, so 1 to {available} are possible. Set NUMBA_NUM_THREADS "
            f"before the program starts."
        )


@contextmanager
def numba_threads(n_threads: int) -> Iterator[None]:
    """Let compiled loops use n_threads threads inside the block."""
    before = numba.get_num_threads()
    numba.set_num_threads(n_threads)
    try:
        yield
    finally:
        numba.set_num_threads(before)
