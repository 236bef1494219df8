"""The Navier-Stokes engine of GPUs in numba-cuda's simulator; test_navier_stokes_cuda.py runs this file."""

from dataclasses import replace
from unittest import mock

import pytest
from mpi4py import MPI
from numba import cuda

from navier_stokes_devices import FLOWS, agree, begun, resumed
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.models.navier_stokes.device.engine_cuda import CudaEngine
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import PressureSolver, TransportedScalar
from ridgeline.runtime.errors import DeviceError

assert SIMULATED, "run with NUMBA_ENABLE_CUDASIM=1"
TABLES = 20_000  # bytes of tables, and of sums of thread blocks, which are not counted


class Allocated:
    """Counts the bytes of what is made on the device."""

    def __init__(self):
        self.bytes = 0
        self.made = {name: getattr(cuda, name) for name in ("device_array", "to_device")}

    def _counting(self, make):
        def counted(*arguments, **options):
            array = make(*arguments, **options)
            self.bytes += array.size * array.dtype.itemsize
            return array

        return counted

    def __enter__(self):
        self.patches = [
            mock.patch.object(cuda, name, self._counting(make)) for name, make in self.made.items()
        ]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()


@pytest.mark.parametrize("name", FLOWS)
def test_steps_are_those_of_the_cpu_and_fit_what_was_counted(name) -> None:
    """Then each goes on from the other's checkpoint."""
    whole, problem = FLOWS[name]()
    expected = begun(CpuEngine, MPI.COMM_SELF, whole, problem)
    with Allocated() as allocated:
        found = begun(CudaEngine, MPI.COMM_SELF, whole, problem)
        for engine in (expected, found):
            engine.advance()
            engine.advance()
    agree(found, expected)
    counted = sum(found.memory().values())
    assert abs(counted - allocated.bytes) < TABLES, (counted, allocated.bytes)
    crossed = resumed(CpuEngine, found), resumed(CudaEngine, expected)
    for engine in crossed:
        engine.advance()
    agree(*crossed)
    assert crossed[0].step_index == 3


def test_what_has_no_kernels_is_refused() -> None:
    whole, problem = FLOWS["box"]()
    with pytest.raises(DeviceError, match='choose "jacobi", or run with --device cpu'):
        CudaEngine(MPI.COMM_SELF, whole, replace(problem, pressure=PressureSolver()))
    for more in ({"source": lambda x, y, z, t: x}, {"mean_gradient": (0.0, 1.0, 0.0)}):
        scalar = TransportedScalar(0.1, {}, **more)
        with pytest.raises(DeviceError, match=r"scalar\.0 has a source or a mean_gradient"):
            CudaEngine(MPI.COMM_SELF, whole, replace(problem, scalars=(scalar,)))
