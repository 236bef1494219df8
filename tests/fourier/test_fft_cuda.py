"""Transforms on devices: what stands in for cuFFT, and the calls that cuFFT gets."""

from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from ridgeline.fourier.device import fft_cuda
from ridgeline.fourier.device.fft_cuda import Spacing, make_plan
from ridgeline.runtime import extras
from ridgeline.runtime.errors import DeviceError

KINDS = [np.float64, np.float32]
TOLERANCE = {np.float64: 1e-14, np.float32: 2e-6}


def device_array(numbers):
    """As the simulator holds arrays."""
    return SimpleNamespace(_ary=numbers.reshape(-1).view(numbers.real.dtype))


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(fft_cuda, "simulated", lambda: True)


def noise(shape, dtype):
    rng = np.random.default_rng(2)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(
        np.result_type(dtype, np.complex64)
    )


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("dtype", KINDS)
def test_strided_transforms_in_place(dtype):
    values = noise((6, 5), dtype)
    there = values.copy()
    plan = make_plan("complex", 6, 5, Spacing(5, 1), Spacing(5, 1), dtype)
    plan.run(device_array(there), device_array(there), None)
    np.testing.assert_allclose(there, np.fft.fft(values, axis=0), rtol=0, atol=20 * TOLERANCE[dtype])
    plan.run(device_array(there), device_array(there), None, inverse=True)
    np.testing.assert_allclose(there, 6 * values, rtol=0, atol=50 * TOLERANCE[dtype])


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("dtype", KINDS)
def test_real_transforms_in_place_leave_the_padding_alone(dtype):
    rows = np.full((3, 8), 7 + 7j, np.result_type(dtype, np.complex64))  # 10 points, 6 modes, 2 of padding
    values = np.random.default_rng(3).standard_normal((3, 10)).astype(dtype)
    rows.view(dtype)[:, :10] = values
    there = make_plan("real forward", 10, 3, Spacing(1, 16), Spacing(1, 8), dtype)
    back = make_plan("real inverse", 10, 3, Spacing(1, 8), Spacing(1, 16), dtype)
    there.run(device_array(rows), device_array(rows), None)
    np.testing.assert_allclose(rows[:, :6], np.fft.rfft(values), rtol=0, atol=20 * TOLERANCE[dtype])
    assert (rows[:, 6:] == 7 + 7j).all()
    back.run(device_array(rows), device_array(rows), None)
    np.testing.assert_allclose(rows.view(dtype)[:, :10], 10 * values, rtol=0, atol=90 * TOLERANCE[dtype])


@pytest.mark.usefixtures("stand_in")
def test_a_plan_beyond_its_array_is_found():
    plan = make_plan("complex", 6, 5, Spacing(5, 1), Spacing(5, 1), np.float64)
    with pytest.raises(IndexError, match="element 29 of an array of 25"):
        plan.run(device_array(noise((5, 5), np.float64)), device_array(noise((6, 5), np.float64)), None)


class Bindings:
    """nvmath.bindings.cufft as far as it is called."""

    Type: ClassVar = {"Z2Z": 105, "D2Z": 106, "Z2D": 108, "C2C": 41, "R2C": 42, "C2R": 44}

    class cuFFTError(Exception):
        pass

    def __init__(self, fails=False):
        self.calls, self._fails = [], fails

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))
            if self._fails and name.startswith("make"):
                raise self.cuFFTError("SETUP_FAILED")
            return {"create": 3, "make_plan_many64": 4096}.get(name)

        return call


def array_at(address):
    return SimpleNamespace(__cuda_array_interface__={"data": (address, False)})


@pytest.mark.parametrize(
    ("kind", "dtype", "number", "name"),
    [
        ("complex", np.float64, 105, "exec_z2z"),
        ("complex", np.float32, 41, "exec_c2c"),
        ("real forward", np.float64, 106, "exec_d2z"),
        ("real forward", np.float32, 42, "exec_r2c"),
        ("real inverse", np.float64, 108, "exec_z2d"),
        ("real inverse", np.float32, 44, "exec_c2r"),
    ],
)
def test_the_calls_of_cufft(monkeypatch, kind, dtype, number, name):
    bindings = Bindings()
    monkeypatch.setattr(fft_cuda, "_bindings", lambda: bindings)
    monkeypatch.setattr(fft_cuda, "simulated", lambda: False)
    plan = make_plan(kind, 6, 5, Spacing(7, 1), Spacing(1, 9), dtype)
    assert plan.work_bytes == 4096
    plan.use_work(array_at(99))
    plan.run(array_at(11), array_at(22), 5, inverse=kind == "complex")
    assert bindings.calls == [
        ("create",),
        ("set_auto_allocation", 3, 0),
        ("make_plan_many64", 3, 1, [6], [6], 7, 1, [6], 1, 9, number, 5),
        ("set_work_area", 3, 99),
        ("set_stream", 3, 5),
        (name, 3, 11, 22, *((1,) if kind == "complex" else ())),
    ]


def test_a_plan_that_cannot_be_made_is_a_plain_error(monkeypatch):
    monkeypatch.setattr(fft_cuda, "_bindings", lambda: Bindings(fails=True))
    monkeypatch.setattr(fft_cuda, "simulated", lambda: False)
    with pytest.raises(DeviceError, match=r"5 transforms Z2Z of 6 points .* Use another grid.shape"):
        make_plan("complex", 6, 5, Spacing(5, 1), Spacing(5, 1), np.float64)


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    def fail(name):
        raise ImportError("no nvmath")

    monkeypatch.setattr(extras, "import_module", fail)
    monkeypatch.setattr(fft_cuda, "simulated", lambda: False)
    with pytest.raises(
        DeviceError,
        match=r"cuFFT needs .*nvmath-python, .*no nvmath.*pip install nvmath-python \"cuda-toolkit",
    ):
        make_plan("complex", 6, 5, Spacing(5, 1), Spacing(5, 1), np.float64)
