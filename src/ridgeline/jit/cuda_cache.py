"""The key of a GPU kernel in the kernel cache. Imports numba-cuda.

Kernels of elements are made by factories, for a number of points and launch bounds, and call device functions made
for it too. numba-cuda's key holds no launch bounds, and of a device function what is another in each process.
Here the key holds what the function and all that it closes over read like, and the bounds.
"""

import hashlib
from importlib.metadata import version
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import types
from numba.cuda.dispatcher import CUDACache


class KernelCache(CUDACache):  # type: ignore[misc]  # numba-cuda has no types
    """The cache of one function's kernels, made for some launch bounds."""

    def __init__(self, function: FunctionType, bounds: tuple[int, int]) -> None:
        """Take the function and (threads, blocks). Raises TypeError as `text_of`."""
        text = f"{version('numba-cuda')} {bounds} {text_of(function)}"
        self._digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        super().__init__(function)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return sig, codegen.magic_tuple(), self._digest, self._launch_config_key


def text_of(value: Any) -> str:
    """Return what a value reads like in every process: a function, its code and what it closes over.

    Raises TypeError for anything but functions, compiled ones, numbers, strings, dtypes and tuples of them.
    """
    value = getattr(value, "py_func", value)  # of a device function
    if isinstance(value, FunctionType):
        held = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        inner = {name: text_of(cell.cell_contents) for name, cell in held}
        return f"{value.__module__}.{value.__qualname__} {text_of(value.__code__)} {inner}"
    if isinstance(value, CodeType):
        return f"{value.co_code.hex()} {value.co_names} {text_of(value.co_consts)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(text_of, value))})"
    if value is None or isinstance(value, int | float | str | np.generic | np.dtype | types.Type):
        return repr(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return value.__name__
    raise TypeError(f"a kernel that is kept closes over a value of {type(value)}, which has no lasting text")
