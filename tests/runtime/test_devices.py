"""Finding GPUs and handing them to ranks, with a driver that exists only in the test."""

import sys
from enum import Enum
from importlib import import_module
from types import SimpleNamespace

import pytest
from mpi4py import MPI

from ridgeline.parallel import devices as parallel_devices
from ridgeline.parallel.devices import mpi_takes_device_buffers, require_device_memory, select_device
from ridgeline.runtime import devices, extras
from ridgeline.runtime.devices import (
    DeviceInfo,
    choose_device,
    describe_devices,
    device_shortage,
    free_memory,
)
from ridgeline.runtime.errors import DeviceError

GPU = DeviceInfo(0, "NVIDIA H200", (9, 0), 141 * 2**30, 132, uuid="00ff", address="0000:3b:00.0")


class Result(Enum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_SYSTEM_NOT_READY = 802


ATTRIBUTES = {
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 9,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 0,
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 132,
    "CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID": 0,
    "CU_DEVICE_ATTRIBUTE_PCI_BUS_ID": 0x3B,
    "CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID": 0,
}


def driver_with(count: int, status: Result = Result.CUDA_SUCCESS) -> SimpleNamespace:
    """The part of the driver's interface that finding devices takes."""
    ok = Result.CUDA_SUCCESS
    return SimpleNamespace(
        CUresult=Result,
        CUdevice_attribute=SimpleNamespace(**{name: name for name in ATTRIBUTES}),
        cuInit=lambda flags: (status,),
        cuDriverGetVersion=lambda: (ok, 13010),
        cuDeviceGetUuid=lambda handle: (ok, SimpleNamespace(bytes=bytes([handle, 255]))),
        cuDevicePrimaryCtxRetain=lambda handle: (ok, f"context of {handle}"),
        cuCtxPushCurrent=lambda context: (ok,),
        cuCtxPopCurrent=lambda: (ok, "context"),
        cuMemGetInfo=lambda: (ok, 100 * 2**30, 141 * 2**30),
        cuDevicePrimaryCtxRelease=lambda handle: (ok,),
        cuDeviceGetCount=lambda: (ok, count),
        cuDeviceGet=lambda index: (ok, index),
        # as it came from an H200
        cuDeviceGetName=lambda size, handle: (ok, b"NVIDIA H200".ljust(64, b"\x00").ljust(size)),
        cuDeviceTotalMem=lambda handle: (ok, 141 * 2**30),
        cuDeviceGetAttribute=lambda name, handle: (ok, ATTRIBUTES[name]),
    )


@pytest.fixture
def install(monkeypatch):
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    import_module("numba.cuda.cudaimpl")  # with the true bindings

    def put(driver):
        monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)

    return put


def test_describes_each_device(install):
    install(driver_with(2))
    first, second = describe_devices()
    assert first == GPU
    assert second.index == 1
    assert str(first) == "NVIDIA H200 (141 GiB, 132 multiprocessors, compute capability 9.0)"


def test_no_device_names_what_hides_them(install, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    install(driver_with(0, Result.CUDA_ERROR_NO_DEVICE))
    with pytest.raises(
        DeviceError, match=r"NO_DEVICE \(CUDA_VISIBLE_DEVICES is ''\).*Request one from the job scheduler"
    ):
        describe_devices()
    install(driver_with(0))
    with pytest.raises(DeviceError, match="shows no GPU"):
        describe_devices()


def test_a_failing_driver_is_quoted(install):
    install(driver_with(1, Result.CUDA_ERROR_SYSTEM_NOT_READY))
    with pytest.raises(
        DeviceError, match="cuInit of the CUDA driver failed with CUDA_ERROR_SYSTEM_NOT_READY"
    ):
        describe_devices()


def test_a_missing_driver_or_package_names_the_fix(install, monkeypatch):
    def missing(flags):
        raise RuntimeError("libcuda.so.1: cannot open shared object file")

    install(SimpleNamespace(**{**vars(driver_with(1)), "cuInit": missing}))
    with pytest.raises(DeviceError, match=r"no NVIDIA driver.*--device cpu"):
        describe_devices()
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r'numba-cuda.*pip install "numba-cuda\[cu13\]"'):
        describe_devices()


def test_a_driver_for_an_older_cuda_than_the_compiler_s_is_refused(install, monkeypatch):
    install(
        SimpleNamespace(
            **{**vars(driver_with(1)), "cuDriverGetVersion": lambda: (Result.CUDA_SUCCESS, 12040)}
        )
    )
    monkeypatch.setattr(devices, "version", lambda package: "13.4.3")
    with pytest.raises(
        DeviceError, match=r"driver is for CUDA 12\.4.*compiler is for CUDA 13\.4\.3.*newer driver"
    ):
        describe_devices()
    monkeypatch.setattr(devices, "version", lambda package: "12.9")
    assert len(describe_devices()) == 1


def test_a_driver_without_the_functions_of_the_bindings_is_too_old(install):
    class FunctionNotFoundError(RuntimeError):
        pass

    def missing(flags):
        raise FunctionNotFoundError("function cuInit is not found")

    install(SimpleNamespace(**{**vars(driver_with(1)), "cuInit": missing}))
    with pytest.raises(DeviceError, match=r"too old.*cuInit is not found.*newer driver"):
        describe_devices()


def test_a_compiler_that_does_not_load_is_refused(install, monkeypatch):
    def missing(name):
        if name == "numba.cuda.cudaimpl":
            raise AttributeError("module 'numpy' has no attribute 'row_stack'")
        return import_module(name)

    install(driver_with(1))
    monkeypatch.setattr(devices, "import_module", missing)
    with pytest.raises(DeviceError, match=r"numba-cuda [\d.]+ does not load with NumPy [\d.]+ .*row_stack"):
        describe_devices()


def test_free_memory_is_what_the_driver_says(install):
    install(driver_with(1))
    assert free_memory(GPU) == 100 * 2**30


def test_what_does_not_fit_is_said_with_its_sum():
    parts = {"fields": 60e9, "halo buffers": 1e9}
    assert device_shortage(GPU, parts, 61e9) is None
    text = device_shortage(GPU, parts, 60.5e9)
    assert text == (
        "a rank needs 61 GB on its GPU (fields 60 GB + halo buffers 1 GB), but 60.5 GB of the 151.4 GB of "
        "NVIDIA H200 are free"
    )
    shared = device_shortage(GPU, parts, 100e9, [61e9])
    assert shared is not None
    assert "the 2 ranks that share it need 122 GB, but 100 GB" in shared


class Memory:
    """numba.cuda as far as `require_device_memory` and `select_device` go."""

    def __init__(self, free, problem=None):
        self.free, self.problem, self.selected = free, problem, []
        self.memory_manager = SimpleNamespace(deallocations=["what Numba has not freed yet"])

    def current_context(self):
        if self.problem:
            raise self.problem
        return self

    def get_memory_info(self):
        assert not self.memory_manager.deallocations
        return SimpleNamespace(free=self.free)

    def select_device(self, index):
        if self.problem:
            raise self.problem
        self.selected.append(index)


def test_memory_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(parallel_devices, "import_module", lambda name: Memory(5 * 10**9))
    require_device_memory(MPI.COMM_SELF, GPU, {"fields": 5e9}, "use less")
    with pytest.raises(
        DeviceError, match=r"rank 0 on .*fields 6 GB\), but 5 GB of the .* are free\. Use less"
    ):
        require_device_memory(MPI.COMM_SELF, GPU, {"fields": 6e9}, "use less")
    broken = type("CudaAPIError", (Exception,), {"__module__": "numba.cuda.cudadrv.driver"})
    monkeypatch.setattr(
        parallel_devices, "import_module", lambda name: Memory(0, broken("CUDA_ERROR_UNKNOWN"))
    )
    with pytest.raises(DeviceError, match="the GPU is lost"):
        require_device_memory(MPI.COMM_SELF, GPU, {"fields": 1.0}, "use less")


def test_a_device_that_takes_no_further_process_is_refused(monkeypatch):
    taken = type("CudaAPIError", (Exception,), {"__module__": "numba.cuda.cudadrv.driver"})
    problem = taken("[46] Call to cuDevicePrimaryCtxRetain results in CUDA_ERROR_DEVICE_UNAVAILABLE")
    monkeypatch.setattr(parallel_devices, "describe_devices", lambda: [GPU])
    monkeypatch.setattr(parallel_devices, "import_module", lambda name: Memory(0, problem))
    with pytest.raises(DeviceError, match="does not accept another process"):
        select_device(MPI.COMM_SELF)


def test_the_simulator_is_a_device_that_says_so(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    import_module("numba.cuda.cudaimpl")  # with the true bindings
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert [str(device) for device in describe_devices()] == ["CUDA simulator (runs kernels in Python)"]


def test_ranks_take_turns_over_the_devices():
    four = [DeviceInfo(n, "NVIDIA H200", (9, 0), 2**37, 132) for n in range(4)]
    assert [choose_device(rank, four).index for rank in range(6)] == [0, 1, 2, 3, 0, 1]
    assert choose_device(5, [GPU]) == GPU


def test_an_old_device_is_refused():
    with pytest.raises(DeviceError, match=r"Tesla P100.*capability 6\.0.*7\.5 or newer"):
        choose_device(0, [DeviceInfo(0, "Tesla P100", (6, 0), 2**34, 56)])


def test_gpu_aware_mpi_is_asked_for_or_decided_by_the_user(monkeypatch):
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    monkeypatch.delenv(devices.MPI_SWITCH, raising=False)

    def answers(functions):
        monkeypatch.setattr(parallel_devices.ctypes, "CDLL", lambda path: SimpleNamespace(**functions))

    answers({"MPIX_Query_cuda_support": lambda: 1})
    assert mpi_takes_device_buffers()
    answers({"MPIX_Query_cuda_support": lambda: 0})
    assert not mpi_takes_device_buffers()
    answers({})
    assert not mpi_takes_device_buffers()
    monkeypatch.setenv(devices.MPI_SWITCH, "1")
    assert mpi_takes_device_buffers()
    monkeypatch.setenv(devices.MPI_SWITCH, "yes")
    with pytest.raises(DeviceError, match="is 'yes', but it must be 0"):
        mpi_takes_device_buffers()


def test_the_mpi_library_at_hand_answers(monkeypatch):
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    monkeypatch.delenv(devices.MPI_SWITCH, raising=False)
    assert mpi_takes_device_buffers() in (False, True)
