"""The checks of a GPU: kernels compile without spills, run in the simulator, and on a GPU where there is one."""

import json
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from numba import types

from cuda_tools import compile_without_spills, run_simulated, skip_without_device
from ridgeline.bench.memory import device_check_cuda as kernels
from ridgeline.runtime.devices import describe_devices
from ridgeline.validate.measure import gpu_check
from ridgeline.validate.measure.nvml_readings import read_gpu_counters, read_gpu_parts

pytestmark = pytest.mark.gpu
WORDS, INTEGERS, REALS = types.uint64[::1], types.int64[::1], types.float64[::1]


def test_kernels_spill_nothing():
    word, number = types.uint64, types.int64
    compile_without_spills(kernels.fill, (WORDS, number, word, word))
    compile_without_spills(kernels.verify, (WORDS, number, word, word, number, INTEGERS, INTEGERS))
    compile_without_spills(kernels.triad, (REALS, REALS, REALS, types.float64))
    compile_without_spills(kernels.fill_factors, (REALS, REALS, number))
    compile_without_spills(kernels.multiply, (REALS, REALS, REALS, number))
    compile_without_spills(kernels.count_wrong_products, (REALS, number, REALS, INTEGERS))


def test_in_the_simulator():
    run_simulated(Path(__file__).with_name("simulated_gpu_check.py"))


@pytest.mark.cuda
def test_on_a_gpu(capsys):
    """Seconds: both orders of a prolog, and what NVML says of the GPU."""
    skip_without_device()
    (device, *_) = describe_devices()
    gpu = {"index": device.index, "address": device.address}
    for what in ("compute", "copies"):
        order = {"what": what, "gpus": [gpu], "quick": True, "repeats": 3}
        assert gpu_check.main(json.dumps(order)) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    figures = {line["quantity"]: max(line["values"]) for line in lines if "quantity" in line}
    counters, parts = read_gpu_counters(), read_gpu_parts()
    with capsys.disabled():
        print(f"\n{device}, {device.address}: {lines[0]}\n{figures}\n{counters}\n{parts}")
    assert lines[0]["wrong"] == 0
    assert lines[0]["bytes"] > 2**28
    assert figures["GPU triad"] > 1e11
    assert figures["GPU host to device"] > 1e9
    assert any(device.address in name for name in counters)
