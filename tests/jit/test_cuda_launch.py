"""Direct launches of GPU kernels: the numbers that numba-cuda passes, the kernel that it chooses, and its errors."""

import ctypes
import gc
import weakref
from types import SimpleNamespace

import numba
import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from ridgeline.jit import cuda_device

if cuda_device.SIMULATED:
    pytest.skip("the simulator launches nothing", allow_module_level=True)

from cuda.bindings import driver
from numba.cuda import types
from numba.cuda.dispatcher import _Kernel

from ridgeline.jit import cuda_launch

CONFIGURATION = SimpleNamespace(
    griddim=(4, 3, 2),
    blockdim=(32, 2, 1),
    sharedmem=0,
    stream=SimpleNamespace(handle=77),
    _is_kernel_launch_config_sensitive=lambda: False,
)


class Array:
    """A device array without a device."""

    __cuda_ndarray__ = True
    _layout = SimpleNamespace(strides_in_bytes=(40, 8))

    def __init__(self, dtype=np.float64, address=4096):
        self.shape, self.strides, self.size, self.ptr = (3, 5), (40, 8), 15, address
        self.dtype = np.dtype(dtype)
        self.device_ctypes_pointer = SimpleNamespace(value=address)
        self._numba_type_ = types.Array(numba.typeof(self.dtype.type(0)), 2, "C")

    def to_device(self, retr, stream):
        return self


class Dispatcher:
    """Stands for numba-cuda's: compiles a kernel for each combination of types, and notes what it launches itself."""

    def __init__(self):
        self.overloads, self.launched = {}, []

    def typeof_pyval(self, value):
        return value._numba_type_ if isinstance(value, Array) else numba.typeof(value)

    def call(self, args, configuration):
        self.launched.append(args)
        kinds = tuple(map(self.typeof_pyval, args))
        function = SimpleNamespace(handle=1000 + len(self.overloads))
        code = SimpleNamespace(get_cufunc=lambda: function)
        kernel = SimpleNamespace(debug=False, cooperative=False, extensions=(), _codelibrary=code)
        self.overloads.setdefault(kinds, kernel)


class Driver:
    """Takes the place of cuLaunchKernel: keeps the bytes of each argument."""

    def __init__(self):
        self.calls, self.status = [], driver.CUresult.CUDA_SUCCESS

    def __call__(self, function, *rest):
        *shape, stream, address, extra = rest
        assert extra == 0
        self.calls.append((int(function), shape, stream, address))
        return (self.status,)

    def numbers(self, count):
        """The first 8 bytes of each argument of the last call."""
        places = (ctypes.c_void_p * count).from_address(self.calls[-1][-1])
        return [ctypes.string_at(place, 8) for place in places]


@pytest.fixture
def launched(monkeypatch):
    """A launcher, what it stands before, and what takes the place of the driver."""
    found = Driver()
    monkeypatch.setattr(driver, "cuLaunchKernel", found)
    dispatcher = Dispatcher()
    return cuda_launch.Launcher(dispatcher), dispatcher, found


class ArgumentPasser:
    """The part of a compiled kernel that turns arguments into what the driver takes."""

    extensions = ()
    _prepare_args = _Kernel._prepare_args


def passed_by_numba(dispatcher, args, monkeypatch):
    """Return the bytes of each number that numba-cuda gives to the driver."""
    monkeypatch.setattr("numba.cuda.dispatcher.wrap_arg", lambda value: value)
    found: list[object] = []
    for argument in args:
        ArgumentPasser()._prepare_args(dispatcher.typeof_pyval(argument), argument, 0, [], found)
    kinds = {int: ctypes.c_int64, bool: ctypes.c_bool}
    return [bytes(kinds[type(n)](n) if type(n) in kinds else n) for n in found]


ARGUMENTS = (
    Array(), 3, -2.5, True, (1, 2, 3), (), np.float32(0.1), (np.uint32(2**32 - 1), (np.int64(-5), 2.0)),
    np.uint64(2**64 - 1), np.int32(-7), Array(np.float32, 8192), 2**63 - 1, np.bool_(False),
)  # fmt: skip


def test_passes_the_numbers_that_numba_passes(launched, monkeypatch) -> None:
    launch, dispatcher, found = launched
    for _ in range(3):
        launch(ARGUMENTS, CONFIGURATION)
    expected = passed_by_numba(dispatcher, ARGUMENTS, monkeypatch)
    assert len(dispatcher.launched) == 1, "numba-cuda compiles and launches once"
    assert [call[:3] for call in found.calls] == [(1000, [4, 3, 2, 32, 2, 1, 0], 77)] * 2
    assert [
        word[: len(e)] for word, e in zip(found.numbers(len(expected)), expected, strict=True)
    ] == expected


def test_equal_values_of_other_types_are_other_kernels(launched) -> None:
    launch, dispatcher, found = launched
    alike = [(1,), (1.0,), (True,), (np.int32(1),), ((1,),), ((1.0,),), ((True,),), ((1, 1),), ((1,), 1)]
    alike += [(Array(),), (Array(np.float32),)]
    for args in alike * 2:
        launch(args, CONFIGURATION)
    assert len(dispatcher.launched) == len(dispatcher.overloads) == len(alike)
    assert [call[0] for call in found.calls] == [1000 + n for n in range(len(alike))]


def test_holds_no_arrays(launched) -> None:
    launch, _, _ = launched
    array = Array()
    for _ in range(3):
        launch((array, (array, 1), ((array, 2), 3)), CONFIGURATION)
    of_test = weakref.ref(array)
    launched[1].launched.clear()
    del array
    gc.collect()
    assert of_test() is None, "its memory could not be freed"


def test_tuples_and_arrays_that_change_places_are_told_apart(launched) -> None:
    launch, dispatcher, found = launched
    launch(((0, 0),), CONFIGURATION)
    for n in range(3 * cuda_launch._MOST_TUPLES):  # the memory of one is that of the next
        launch(((n, n + 1),), CONFIGURATION)
        assert found.numbers(2) == [n.to_bytes(8, "little"), (n + 1).to_bytes(8, "little")]
    array = Array(address=64)
    launch((array,), CONFIGURATION)
    other = Array(address=128)
    other._launch_words = array._launch_words  # as copy.copy leaves it
    launch((other,), CONFIGURATION)
    assert found.numbers(5)[4] == (128).to_bytes(8, "little")
    assert len(dispatcher.launched) == 2


@pytest.mark.parametrize("argument", [np.zeros(3), 2**63, "text"])
def test_leaves_to_numba_what_it_does_not_know(launched, argument) -> None:
    launch, dispatcher, found = launched
    launch((1,), CONFIGURATION)
    for _ in range(2):
        launch((argument,), CONFIGURATION)
    assert [args[0] is argument for args in dispatcher.launched] == [False, True, True]
    assert not found.calls


def test_an_error_of_the_driver_is_named_by_numba(launched) -> None:
    launch, dispatcher, found = launched
    launch((1,), CONFIGURATION)
    found.status = driver.CUresult.CUDA_ERROR_INVALID_CONTEXT
    launch((2,), CONFIGURATION)
    assert dispatcher.launched == [(1,), (2,)]
