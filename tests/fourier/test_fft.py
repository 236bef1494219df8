"""Transforms of strided batches against np.fft, by both libraries."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from ridgeline.fourier import fft
from ridgeline.runtime.aligned import aligned_empty
from ridgeline.runtime.errors import ConfigError


def each_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the names of both libraries, each while it is the one that plans use."""
    for name in ("fftw", "scipy"):
        monkeypatch.setenv("RIDGELINE_FFT", name)
        yield name


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    generator = np.random.default_rng(1)
    values = generator.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """Largest difference in units of rounding."""
    return float(abs(found - exact).max() / (abs(exact).max() * np.finfo(found.dtype).eps))


def test_complex_lines_of_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = list(product(["complex128", "complex64"], ["forward", "inverse"], [0, 1, -1], [True, False]))
    for library in each_library(monkeypatch):
        for dtype, direction, axis, in_place in choices:
            case = f"{library=}, {dtype=}, {direction=}, {axis=}, {in_place=}"
            source = np.zeros((7, 12, 10), dtype)[1:6, ::2, 2:8]
            target = source if in_place else np.zeros((6, 6, 7), dtype)[1:, :, 1:]
            plan = fft.plan(source, target, axis, direction)
            source[...] = values = numbers(source.shape, dtype)
            plan.execute()
            exact = (
                np.fft.fft(values, axis=axis)
                if direction == "forward"
                else np.fft.ifft(values, axis=axis) * (values.shape[axis])
            )
            assert error(target, exact) < 8, case
            if not in_place:
                np.testing.assert_array_equal(source, values, err_msg=case)
                source[...] *= 2
                plan.execute()
                assert error(target, 2 * exact) < 8, case


def test_real_lines_there_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = list(product(["float64", "float32"], [16, 15], [0, 1]))
    for library in each_library(monkeypatch):
        for dtype, n, axis in choices:
            case = f"{library=}, {dtype=}, {n=}, {axis=}"
            shape = (n, 5) if axis == 0 else (5, n)
            modes = (n // 2 + 1, 5) if axis == 0 else (5, n // 2 + 1)
            real = aligned_empty((2, *shape), dtype)[1]
            spectrum = np.empty((2, *modes), np.result_type(dtype, "c8"))[0]
            forward = fft.plan(real, spectrum, axis, "forward")
            inverse = fft.plan(spectrum, real, axis, "inverse")
            real[...] = values = numbers(shape, dtype)
            forward.execute()
            assert error(spectrum, np.fft.rfft(values, axis=axis)) < 8, case
            np.testing.assert_array_equal(real, values, err_msg=case)
            inverse.execute()
            assert error(real, n * values) < 8, case


def test_real_lines_in_place_in_padded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in each_library(monkeypatch):
        spectrum = aligned_empty((4, 9), "c16")
        real = spectrum.view("f8")[:, :16]
        forward = fft.plan(real, spectrum, 1, "forward")
        inverse = fft.plan(spectrum, real, 1, "inverse")
        real[...] = values = numbers((4, 16), "f8")
        forward.execute()
        assert error(spectrum, np.fft.rfft(values)) < 8, library
        inverse.execute()
        assert error(real, 16 * values) < 8, library


def test_imaginary_part_of_first_and_last_mode_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in each_library(monkeypatch):
        spectrum = np.zeros((1, 5), "c16")
        real = np.zeros((1, 8))
        inverse = fft.plan(spectrum, real, 1, "inverse")
        spectrum[0] = [1 + 5j, 0, 0, 0, 2 - 7j]
        inverse.execute()
        np.testing.assert_allclose(real[0], 1 + 2 * (-1.0) ** np.arange(8), atol=1e-15, err_msg=library)


def test_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in each_library(monkeypatch):
        empty = np.zeros((0, 8), "c8")
        fft.plan(empty, empty, 1, "forward").execute()


def check_refusal(library: str, source: np.ndarray, target: np.ndarray, direction: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fft.plan(source, target, 0, direction)


def test_arrays_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    table = [
        (np.zeros(8), np.zeros(5, "c16"), "inverse", "no inverse transform of float64 into complex128"),
        (np.zeros(5, "c16"), np.zeros(8), "forward", "no forward transform of complex128 into float64"),
        (np.zeros(8), np.zeros(8), "forward", "no forward transform"),
        (np.zeros(8, "f4"), np.zeros(5, "c16"), "forward", "Both must be float32"),
        (np.zeros(8, "c16"), np.zeros(8, "c8"), "forward", "Both must be float32"),
        (np.zeros(8, "i8"), np.zeros(5, "c16"), "forward", "no transform of int64"),
        (np.zeros(8), np.zeros(4, "c16"), "forward", "do not match along axis 0"),
        (np.zeros((8, 2)), np.zeros((5, 3), "c16"), "forward", "do not match along axis 0"),
        (np.zeros(8, "c16"), np.zeros(8, "c16"), "backward", "direction is 'backward'"),
    ]
    for library in each_library(monkeypatch):
        for source, target, direction, words in table:
            check_refusal(library, source, target, direction, words)


def test_unknown_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIDGELINE_FFT", "mkl")
    with pytest.raises(ConfigError, match="'mkl', but it must be 'fftw' or 'scipy'"):
        fft.backend()


def test_description_names_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in each_library(monkeypatch):
        assert library in fft.describe().lower()
