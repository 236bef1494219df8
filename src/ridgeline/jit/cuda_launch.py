"""Launches of GPU kernels that cost the host a few microseconds.

numba-cuda finds the compiled kernel by the types of all arguments, takes arrays and tuples apart, and makes a ctypes
object of every number, at each launch: 40 to 100 microseconds, which is longer than many kernels of a small grid
run. Here a launch looks its kernel up by the Python types of the arguments, packs their numbers into one buffer, and
gives its address to the driver. Whatever this does not know (a new combination of types, an array that is not a
device array, an error of the driver) is left to numba-cuda.

Private interfaces of numba-cuda used here: `Dispatcher.call`, `Dispatcher.overloads`, `_Kernel._codelibrary`,
`_LaunchConfiguration.stream`, and the order of numbers in which `_Kernel._prepare_args` passes arrays.
"""

import ctypes
import struct
import threading
from typing import Any, NamedTuple

import numpy as np

# Places of 8 bytes in the buffer, by the types that Numba gives to Python's and NumPy's numbers.
_FORMATS = {
    int: "q",
    float: "d",
    bool: "?7x",
    np.bool_: "?7x",
    np.int32: "i4x",
    np.uint32: "I4x",
    np.int64: "q",
    np.uint64: "Q",
    np.float32: "f4x",
    np.float64: "d",
}
_MOST_TUPLES = 1024  # that are remembered; a run has some hundred


class Unknown(Exception):
    """An argument that only numba-cuda can pass."""


class Words(NamedTuple):
    """What an argument is made of."""

    kind: Any  # equal for arguments for which Numba compiles the same kernel, and for no others
    form: str  # of the numbers, for `struct`
    numbers: tuple[Any, ...]
    has_arrays: bool = False


class Arguments:
    """Takes arguments apart. Tuples of numbers are remembered, but not those of arrays, which would hold memory."""

    def __init__(self) -> None:
        self._tuples: dict[int, tuple[tuple[Any, ...], Words]] = {}  # by id: the tuple, which so keeps its id
        self._kinds: dict[
            tuple[Any, ...], int
        ] = {}  # a number for each kind, because nested tuples hash slowly

    def words(self, argument: Any) -> Words:
        """Return what an argument is made of; raise Unknown if only numba-cuda can pass it."""
        kind = type(argument)
        if kind in _FORMATS:
            return Words(kind, _FORMATS[kind], (argument,))
        if kind is tuple:
            known = self._tuples.get(id(argument))
            return known[1] if known is not None else self._words_of_tuple(argument)
        if getattr(argument, "__cuda_ndarray__", False):
            return _words_of_array(argument)
        raise Unknown

    def _words_of_tuple(self, argument: tuple[Any, ...]) -> Words:
        parts = [self.words(part) for part in argument]
        form = "".join([part.form for part in parts])
        numbers = tuple([number for part in parts for number in part.numbers])
        kind = self._kinds.setdefault(tuple([part.kind for part in parts]), len(self._kinds))
        words = Words(kind, form, numbers, any(part.has_arrays for part in parts))
        if not words.has_arrays:
            if len(self._tuples) >= _MOST_TUPLES:
                self._tuples.clear()
            self._tuples[id(argument)] = argument, words
        return words


def _words_of_array(array: Any) -> Words:
    words: Words
    owner, words = array.__dict__.get("_launch_words", (None, Words(None, "", ())))
    if owner != id(array):  # there is none yet, or a copy of the array object took the attribute along
        shape, strides = tuple(array.shape), tuple(array.strides)
        address = array.device_ctypes_pointer.value or 0
        numbers = (0, 0, array.size, array.dtype.itemsize, address, *shape, *strides)
        words = Words(str(array._numba_type_), "q" * len(numbers), numbers, has_arrays=True)
        array._launch_words = id(array), words
    return words


class CompiledLaunch:
    """A compiled kernel, and the buffer of its arguments."""

    def __init__(self, function: int, form: str) -> None:
        from cuda.bindings import driver

        self._pack = struct.Struct("=" + form).pack_into
        size = struct.calcsize("=" + form)
        self._buffer = ctypes.create_string_buffer(max(size, 8))
        begin = ctypes.addressof(self._buffer)
        self._places = (ctypes.c_void_p * (size // 8))(*range(begin, begin + size, 8))
        self._address = ctypes.addressof(self._places)
        self._function = driver.CUfunction(function)
        self._launch = driver.cuLaunchKernel
        self._lock = threading.Lock()

    def launch(self, configuration: Any, numbers: list[Any]) -> bool:
        """Launch the kernel, and say whether the driver took it."""
        shape = (*configuration.griddim, *configuration.blockdim, configuration.sharedmem)
        with self._lock:
            try:
                self._pack(self._buffer, 0, *numbers)
            except struct.error:  # an integer of more than 63 bits, of which Numba makes another type
                return False
            stream = int(configuration.stream.handle)
            (status,) = self._launch(self._function, *shape, stream, self._address, 0)
        return int(status) == 0


class Launcher:
    """Takes the place of `Dispatcher.call` of one kernel."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._slow = dispatcher.call
        self._arguments = Arguments()
        self._plans: dict[Any, CompiledLaunch | None] = {}

    def __call__(self, args: tuple[Any, ...], configuration: Any) -> None:
        """Launch the kernel with these arguments."""
        kinds: list[Any] = []
        numbers: list[Any] = []
        try:
            for argument in args:
                kind = type(argument)
                if kind in _FORMATS:
                    kinds.append(kind)
                    numbers.append(argument)
                else:
                    words = self._arguments.words(argument)
                    kinds.append(words.kind)
                    numbers += words.numbers
        except Unknown:
            self._slow(args, configuration)
            return
        key = tuple(kinds)
        plan = self._plans.get(key)
        if plan is None or not plan.launch(configuration, numbers):
            self._slow(args, configuration)
            if key not in self._plans:
                self._plans[key] = self._plan(args, configuration)

    def _plan(self, args: tuple[Any, ...], configuration: Any) -> CompiledLaunch | None:
        """Return how the kernel that numba-cuda has just launched is launched directly, None if it cannot be."""
        dispatcher = self._dispatcher
        kernel = dispatcher.overloads.get(tuple(dispatcher.typeof_pyval(argument) for argument in args))
        if kernel is None or kernel.debug or kernel.cooperative or kernel.extensions:
            return None
        if configuration._is_kernel_launch_config_sensitive():
            return None
        form = "".join(self._arguments.words(argument).form for argument in args)
        return CompiledLaunch(int(kernel._codelibrary.get_cufunc().handle), form)
