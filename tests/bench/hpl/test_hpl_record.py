"""What HPL reports: operations, the official residual, settings out of range, a failed run, the rate of products."""

import math

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.hpl.hpl_dat import HplPlan, HplTest
from ridgeline.bench.hpl.hpl_output import HplOutcome
from ridgeline.bench.hpl.hpl_run import make_result, product_rate
from ridgeline.bench.hpl.record import HplNorms, HplRun, HplSample, HplSettings, operations
from ridgeline.runtime.errors import ConfigError


def run(residual, **norms):
    found = HplNorms(residual, **({"a": 2.0, "x": 3.0, "b": 4.0, "a_one": 5.0, "x_one": 6.0} | norms))
    samples = [HplSample(50, 1.0, 2e9, 2e9), HplSample(100, 2.0, 1.5e9, 1e9)]
    return HplRun(HplSettings(100, 10), 2.0, found, "1ring", np.zeros(100), {"panel": 1.0}, samples)


def test_operations_are_the_official_ones():
    assert operations(1000) == pytest.approx(2 / 3 * 1e9 + 1.5e6)
    assert run(0.0).gflops == pytest.approx(operations(100) / 2e9)


def test_the_residual_is_scaled_as_in_hpl():
    assert run(1e-14).residual == pytest.approx(1e-14 / (2.0**-53 * (2.0 * 3.0 + 4.0) * 100))
    assert run(1e-14).passed
    limit = 16 * 2.0**-53 * 10 * 100
    assert run(limit * 0.999).passed
    assert not run(limit).passed


def test_what_is_no_number_does_not_pass():
    assert not run(math.nan).passed
    assert not run(math.inf).passed
    assert not run(1.0, x=math.inf).passed
    assert not run(1.0, a=math.inf).passed
    assert not run(math.inf, x=math.inf).passed
    assert not run(1.0, a=0.0, x=0.0, b=0.0).passed


@pytest.mark.parametrize("wrong", [{"n": 0}, {"nb": 0}, {"p": 0}, {"threads": 0}, {"ndiv": 1}, {"n": 2**31}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        HplSettings(**({"n": 10, "nb": 2} | wrong))


def result(made):
    test = HplTest(100, 10, 1, 1)
    outcome = HplOutcome(test, made.seconds, made.flops_per_second, made.norms)
    return make_result(HplPlan((test,), 16.0), [outcome], [made], 1e9, 1)


def test_a_failed_run_fails_the_benchmark():
    good, bad = result(run(1e-14)), result(run(math.nan))
    assert good.failures == []
    assert good.verified
    assert any("of DGEMM" in note for note in good.notes)
    assert "nan" in bad.failures[0]
    assert not bad.verified
    assert [row["columns"] for row in good.rows] == [50, 100]
    assert [one["passed"] for found in (good, bad) for one in found.extra["solves"]] == [True, False]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_rate_of_products_is_positive(dtype, threads):
    assert product_rate(MPI.COMM_SELF, dtype, threads, 16, 64) > 0
