"""Tests of the checks of a GPU in numba-cuda's simulator; test_gpu_check.py runs this file."""

import json
import math

import numpy as np
import pytest
from numba import cuda

from ridgeline.bench.memory import device_check_cuda as kernels
from ridgeline.bench.memory.memory_check import ALL_ONES, fill, verify
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.runtime.errors import DeviceError
from ridgeline.validate.measure import gpu_check

assert SIMULATED, "run with NUMBA_ENABLE_CUDASIM=1"
GPU = {"index": 0, "address": ""}


@pytest.mark.parametrize(("kind", "key"), [(0, 0x5555555555555555), (1, 3), (2, 7919)])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_patterns_are_those_of_the_check_of_main_memory(kind, key, n):
    for mask in (np.uint64(0), np.uint64(ALL_ONES)):
        words, host = cuda.to_device(np.zeros(n, np.uint64)), np.zeros(n, np.uint64)
        kernels.fill[kernels.blocks_for(n), kernels.THREADS](words, kind, np.uint64(key), mask)
        fill(host, kind, np.uint64(key), mask)
        np.testing.assert_array_equal(words.copy_to_host(), host)
        assert verify(words.copy_to_host(), kind, np.uint64(key), mask)[0] == 0


def test_wrong_words_are_counted_and_the_first_is_named(monkeypatch):
    words = cuda.to_device(np.zeros(100, np.uint64))
    stream = cuda.stream()
    assert kernels.check_pattern(words, 2, 1, stream) == (0, -1)

    class Broken:
        """Words 30 and 77 of the array lose a bit whenever a pattern is written."""

        def __getitem__(self, shape):
            def launch(array, *arguments):
                true[shape](array, *arguments)
                for place in (30, 77):
                    array._ary[place] ^= np.uint64(4)

            return launch

    true = kernels.fill
    monkeypatch.setattr(kernels, "fill", Broken())
    assert kernels.check_pattern(words, 2, 1, stream) == (
        2,
        30,
    )  # inverted from what they should be: right again


def test_products_are_exact_with_either_library(monkeypatch):
    stream, told = cuda.stream(), []
    for library in ("cuBLAS", "ours"):
        if library == "ours":
            monkeypatch.setattr("ridgeline.bench.hpl.device.blas_cuda.make_blas", _missing)
        told.append(gpu_check._products(kernels, cuda, stream, True, 2, True))
    names = ["GPU DGEMM", "GPU DGEMM of our own kernel"]
    assert [(line["quantity"], line["wrong_products"], len(line["values"])) for line in told] == [
        (name, 0, 2) for name in names
    ]
    assert "no cuBLAS" in told[1]["without"]


def _missing():
    raise DeviceError("no cuBLAS here")


def test_wrong_products_are_counted():
    n = 8
    left, right = np.zeros(n * n), np.zeros(n * n)
    blocks = kernels.blocks_for(n * n)
    kernels.fill_factors[blocks, kernels.THREADS](left, right, n)
    product = (left.reshape(n, n).T @ right.reshape(n, n).T).T.reshape(-1)
    for change, expected in ((0.0, 0), (1.0, 3)):
        product[[0, 9, 63]] += change
        wrong = np.zeros(1, np.int64)
        kernels.count_wrong_products[blocks, kernels.THREADS](product, n, kernels.sums_of_factors(n), wrong)
        assert wrong[0] == expected


def test_the_whole_program_prints_what_the_stage_reads(capsys):
    for what in ("compute", "copies"):
        order = {"what": what, "gpus": [GPU], "quick": True, "repeats": 2}
        assert gpu_check.main(json.dumps(order)) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    figures = {line["quantity"]: line["values"] for line in lines if "quantity" in line}
    assert list(figures) == ["GPU triad", "GPU DGEMM", "GPU host to device", "GPU device to host"]
    assert all(
        len(values) == 2 and all(0 < value < math.inf for value in values) for values in figures.values()
    )
    assert lines[0] | {"bytes": 0} == {"index": 0, "bytes": 0, "wrong": 0, "detail": ""}
    assert not any("fault" in line for line in lines)


def test_a_failure_is_a_fault_in_words(capsys, monkeypatch):
    def fail(*arguments):
        raise DeviceError("the GPU is lost.")

    monkeypatch.setattr(gpu_check, "_triad", fail)
    order = {"what": "compute", "gpus": [GPU], "quick": True, "repeats": 2}
    assert gpu_check.main(json.dumps(order)) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == {"index": 0, "fault": "the GPU is lost."}
