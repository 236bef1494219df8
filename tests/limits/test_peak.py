"""The multiply-add chains: exact in every lane, in registers, fused; the rate of one process and of all ranks."""

import re

import numpy as np
import pytest
from numba import njit

from ridgeline.jit.llvm import host_features
from ridgeline.limits import peak
from ridgeline.limits.peak import MultiplyAdds, best_total, measure_peak_here
from ridgeline.runtime.errors import VerificationError

DTYPES = [np.float64, np.float32]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_lane_counts_its_steps(dtype):
    for n_threads in (1, 3):
        start, increment = peak.starting_values(dtype, n_threads)
        assert start.shape == (n_threads, peak.chains() * peak.lanes_of(dtype))
        assert np.unique(start).size == start.size
        for steps in (0, 1, 1001):
            out = np.full_like(start, -1)
            peak.multiply_add(start, 1, increment, steps, out)
            lanes = np.tile(increment, peak.chains())
            np.testing.assert_array_equal(out, start + steps * lanes)  # whole numbers: exact in any order
            np.testing.assert_array_equal(out, peak.expected_values(start, increment, steps))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_whole_call_stays_exact(dtype):
    start, increment = peak.starting_values(dtype, 64)
    last = start.max().astype(np.int64) + peak.STEPS * int(increment.max())
    assert last < 2 ** (np.finfo(dtype).nmant + 1)


def test_the_product_is_rounded_with_the_sum():
    start, increment = peak.starting_values(np.float64, 1)
    eps = np.finfo(np.float64).eps
    start[:], increment[:], out = 1 + eps, -1, np.empty_like(start)
    peak.multiply_add(start, 1 - eps, increment, 1, out)
    np.testing.assert_array_equal(out, -(eps**2))  # rounded twice it would be 0


def test_operations_of_a_call():
    lanes = peak.lanes_of(np.float32)
    assert lanes == 2 * peak.lanes_of(np.float64)
    assert peak.operations(np.float32, 10, 3) == 2 * peak.chains() * lanes * 10 * 3


@pytest.mark.parametrize(("dtype", "suffix"), [(np.float64, "pd"), (np.float32, "ps")])
def test_the_loop_is_fused_multiply_adds_on_registers(dtype, suffix):
    if "fma" not in host_features():
        pytest.skip("needs an x86 CPU with fused multiply-adds, whose assembly is read here")

    @njit
    def one_thread(start, factor, increment, steps, out):
        peak._run_chains(start, factor, increment, steps, out, 0)

    start, increment = peak.starting_values(dtype, 1)
    one_thread(start[0], dtype(1), increment, 1, np.empty_like(start[0]))
    texts = one_thread.inspect_asm(one_thread.signatures[0])
    fused = re.findall(rf"^\s*vfn?madd\d+{suffix}\s+(.*)$", texts, re.MULTILINE)
    assert len(fused) >= peak.chains()
    assert not [operands for operands in fused if "(" in operands], "operands from memory"


def test_bad_arrays_are_refused():
    start, increment = peak.starting_values(np.float64, 2)
    for arguments in (
        (start[:1], increment, np.empty_like(start)),
        (start, increment[:1], np.empty_like(start)),
        (start.astype(np.float32), increment, np.empty_like(start)),
        (start.astype(int), increment.astype(int), start.astype(int)),
    ):
        with pytest.raises(ValueError, match=r"float64|must be"):
            peak.multiply_add(arguments[0], 1, arguments[1], 1, arguments[2])


class Clock:
    """A clock that shows one second more at every look."""

    now = -1.0

    def perf_counter(self):
        self.now += 1
        return self.now


def test_rate_of_calls():
    assert peak.rate(1000, 3, 2.0) == 1500.0


def test_operations_over_the_time_of_all_calls(monkeypatch):
    monkeypatch.setattr(peak, "time", Clock())
    found = measure_peak_here(2.0, np.float32)
    # Looks at 0 (start), after the first call at 1, after the second at 2 (over), at the end 3.
    assert found == 2 * MultiplyAdds(np.float32, 1).operations / 3


def test_total_is_the_best_sum_of_one_repeat():
    assert best_total(np.array([[1.0, 4.0, 2.0], [3.0, 2.0, 5.0]])) == 7.0


def test_wrong_result_is_found():
    work = MultiplyAdds(np.float64, 1, steps=10)
    work.run()
    work.check()
    work._out[0, 7] += 1
    with pytest.raises(VerificationError, match=r"1 of \d+ chains of 10 multiply-adds"):
        work.check()
