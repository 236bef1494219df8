"""GPU building blocks without a GPU: what they compile to, and what they do in the simulator."""

import re
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "ridgeline[cuda]"')

from numba import types

from cuda_tools import assemble, run_simulated
from ridgeline.bench.memory.cuda_copy import copy
from ridgeline.bench.memory.cuda_peak import CHAINS, UNROLL, multiply_add
from ridgeline.blocks.cuda_pack import copy_boxes
from ridgeline.models.gray_scott.device.scan_cuda import count_nonfinite

WORDS = {types.float64: "64", types.float32: "32"}


@pytest.mark.parametrize("real", WORDS, ids=str)
def test_packing_compiles_to_plain_copies(real) -> None:
    fields = real[::1]
    result = assemble(copy_boxes, (fields, fields, types.uint64[:, ::1]))
    assert result.ptx.count(f"ld.global.f{WORDS[real]}") >= 1
    assert result.ptx.count(f"st.global.f{WORDS[real]}") >= 1
    assert result.count("div.u64") == 0, "64-bit divisions take a hundred instructions"
    assert result.spilled == 0


@pytest.mark.parametrize("real", WORDS, ids=str)
def test_copying_loads_four_items_before_it_stores(real) -> None:
    result = assemble(copy, (real[::1], real[::1]))
    order = [
        line.split()[0] for line in result.ptx.splitlines() if "ld.global" in line or "st.global" in line
    ]
    width = WORDS[real]
    start = order.index(f"ld.global.f{width}")
    assert [f"ld.global.f{width}"] * 4 + [f"st.global.f{width}"] * 4 in [
        order[n : n + 8] for n in range(start, len(order))
    ]


@pytest.mark.parametrize("real", WORDS, ids=str)
def test_the_peak_rate_is_fused_multiply_adds_in_registers(real) -> None:
    result = assemble(multiply_add, (real[::1], real, real, types.int64, real[::1]))
    assert result.count(f"fma.rn.f{WORDS[real]}") >= CHAINS * UNROLL
    assert result.count(f"mul.f{WORDS[real]}") == 0
    assert result.count(f"ld.global.f{WORDS[real]}") == 1
    assert result.registers <= 32  # 2048 threads on a multiprocessor
    assert result.spilled == 0


@pytest.mark.parametrize("real", WORDS, ids=str)
def test_looking_for_what_is_not_finite_reads_and_rarely_writes(real) -> None:
    triple = types.UniTuple(types.int64, 3)
    result = assemble(count_nonfinite, (real[::1], triple, triple, types.int64[::1]))
    assert result.ptx.count(f"ld.global.f{WORDS[real]}") >= 1
    assert re.search(r"\b(atom|red)\b.*add", result.ptx)
    assert result.spilled == 0


def test_in_the_simulator() -> None:
    assert " passed" in run_simulated(Path(__file__).with_name("simulated_cuda_kernels.py"))
