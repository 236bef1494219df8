"""The key of GPU kernels that factories make: the same in every process, another for whatever they are made for."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from ridgeline.jit import cuda_device

if cuda_device.SIMULATED:
    pytest.skip("the simulator keeps no kernels", allow_module_level=True)

from ridgeline.elements.device.helmholtz_cuda import make_helmholtz
from ridgeline.jit.kernel_cache import text_of


def make(n=4, bounds=(128, 2), factor=2.0, dtype=np.float64):
    """Return a kernel as those of elements are made: it calls a device function that was made with it."""
    real = np.dtype(dtype).type

    @cuda_device.device_function
    def scaled(x):
        return real(factor) * x

    @cuda_device.kernel(*bounds)
    def kernel(u, out):
        for i in range(n):
            out[i] = scaled(u[i])

    return kernel


def key(kernel, capability=(9, 0)):
    codegen = SimpleNamespace(magic_tuple=lambda: ((12, 4), capability))
    return kernel._cache.files._path(kernel._cache._index_key(("float64",), codegen)).name


def test_the_key_holds_all_that_a_kernel_is_made_for():
    made = [{}, {"n": 5}, {"bounds": (128, 4)}, {"bounds": (256, 2)}, {"factor": 3.0}, {"dtype": np.float32}]
    keys = [key(make(**of)) for of in made]
    assert len({*keys}) == len(made)
    assert keys == [key(make(**of)) for of in made]
    assert key(make()) != key(make(), capability=(10, 0))


def digests():
    """Of a kernel of this file, and of one of elements."""
    return [key(kernel) for kernel in (make(), make_helmholtz(8))]


def test_the_key_is_the_same_in_every_process():
    folders = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    printed = []
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", "import test_cuda_cache as test; print(*test.digests())"],
            env=os.environ | {"PYTHONPATH": folders, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        printed.append(found.stdout.split())
    assert printed[0] == printed[1]
    assert printed[0][1] == digests()[1]


def test_what_has_no_lasting_text_is_refused():
    held = object()
    with pytest.raises(TypeError, match="close over a value of <class 'object'>"):

        @cuda_device.kernel(128)
        def kernel(out):
            out[0] = held

    assert text_of((1, "two", np.dtype(np.float32), None)) == "(1, 'two', dtype('float32'), None)"
