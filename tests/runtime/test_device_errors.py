"""What CUDA and the libraries over it report becomes one sentence, and nothing else is touched."""

import pytest

from ridgeline.runtime.device_errors import device_error, device_errors_explained, explain_status
from ridgeline.runtime.errors import ConfigError, DeviceError


def raised_by(module: str, name: str, *bases: type) -> type[Exception]:
    return type(name, bases or (Exception,), {"__module__": module})


DRIVER = raised_by("numba.cuda.cudadrv.driver", "CudaAPIError")

REPORTED = [
    (DRIVER("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"), "memory is full"),
    (DRIVER("[719] Call to cuStreamSynchronize results in CUDA_ERROR_LAUNCH_FAILED"), "ended with a fault"),
    (DRIVER("[214] Call to cuEventSynchronize results in CUDA_ERROR_ECC_UNCORRECTABLE"), "cannot be corrected"),
    (DRIVER("[46] Call to cuDevicePrimaryCtxRetain results in CUDA_ERROR_DEVICE_UNAVAILABLE"), "does not accept "
                                                                                               "another process"),
    (DRIVER("[222] CUDA_ERROR_UNSUPPORTED_PTX_VERSION"), "does not match the installed"),
    (raised_by("numba.cuda.simulator.cudadrv.driver", "CudaAPIError")("[1] unknown"), "a call of CUDA failed"),
    (raised_by("numba.cuda.cudadrv.error", "CudaSupportError")("Error at driver init"), "a call of CUDA failed"),
    (
        raised_by("cupy_backends.cuda.api.runtime", "CUDARuntimeError")("cudaErrorIllegalAddress: an illegal"),
        "outside its arrays",
    ),
    (raised_by("cupy.cuda.memory", "OutOfMemoryError", MemoryError)("Out of memory allocating"), "memory is full"),
    (raised_by("cupy.cuda.cufft", "CuFFTError")("CUFFT_EXEC_FAILED"), "a call of CUDA failed"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "meaning"), REPORTED, ids=lambda value: type(value).__name__)
def test_reports_say_what_happened_where_and_what_to_try(error, meaning) -> None:
    problem = device_error(error)
    assert isinstance(problem, DeviceError)
    assert problem.exit_code == 8
    assert meaning in str(problem)
    assert str(error) in str(problem)
    assert str(problem).startswith("on ")
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA_ERROR_OUT_OF_MEMORY is not mine"),
        MemoryError("host"),
        ConfigError("model.dt"),
        raised_by("numba.core.errors", "TypingError")("cannot determine Numba type"),
        raised_by("somebody", "CudaAPIError")("no CUDA of ours"),
    ],
)
def test_other_errors_stay_what_they_are(error) -> None:
    assert device_error(error) is None
    with pytest.raises(type(error)) as caught, device_errors_explained(lambda: "the checkpoint"):
        raise error
    assert caught.value is error


def test_a_device_error_keeps_its_words() -> None:
    problem = DeviceError("no GPU")
    assert device_error(problem) is problem


def test_the_driver_s_and_the_runtime_s_names_mean_the_same() -> None:
    assert explain_status("CUDA_ERROR_ILLEGAL_ADDRESS") == explain_status("cudaErrorIllegalAddress")
    assert explain_status("CUDA_ERROR_NEW_ONE")[0] == "a call of CUDA failed"


def test_every_status_explained_is_one_of_cuda_s() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    runtime = pytest.importorskip("cuda.bindings.runtime")
    from ridgeline.runtime.device_errors import _MEANINGS

    known = {name.lower().replace("_", "").removeprefix("cudaerror") for name in dir(driver.CUresult)}
    known |= {name.lower().removeprefix("cudaerror") for name in dir(runtime.cudaError_t)}
    assert set(_MEANINGS) <= known, set(_MEANINGS) - known


def test_more_is_said_of_a_failing_device() -> None:
    with (
        pytest.raises(DeviceError, match=r"memory is full.*\. The last good checkpoint is kept \(here\)\.$"),
        device_errors_explained(lambda: "the last good checkpoint is kept (here)"),
    ):
        raise REPORTED[0][0]
