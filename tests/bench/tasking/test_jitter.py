"""What jitter counts: the collector as the block asks for it, a slow piece of work, wrong work, a compilation."""

import gc

import pytest

from ridgeline.bench.tasking import jitter, worker_start
from ridgeline.bench.tasking.jitter import collection
from ridgeline.runtime.errors import RidgelineError, VerificationError


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was_afterwards(on):
    before = gc.isenabled()
    with collection(on):
        assert gc.isenabled() == on
    assert gc.isenabled() == before


def test_the_longest_delay_is_that_of_the_slowest_piece(monkeypatch):
    monkeypatch.setattr(jitter, "PIECES", 3)
    times = iter([0.0, 1.0, 10.0, 15.0, 20.0, 22.0])
    monkeypatch.setattr(jitter.time, "perf_counter", lambda: next(times))
    assert jitter._longest_delay(0) == 4.0
    monkeypatch.setattr(jitter, "compute", lambda x, flops: 3.0)
    monkeypatch.setattr(jitter.time, "perf_counter", lambda: 0.0)
    with pytest.raises(VerificationError, match=r"returned 3\.0, but 2 is right"):
        jitter._longest_delay(0)


def test_garbage_is_what_only_the_collector_frees():
    with collection(False):
        gc.collect()
        jitter._make_garbage(50)
        assert gc.collect() >= 50


def test_only_the_first_call_compiles():
    assert jitter._first_call() > 10 * min(jitter._later_call()() for _ in range(5))


def test_a_worker_that_fails_is_an_error():
    with pytest.raises(RidgelineError, match="ended with exit code 3"):
        worker_start._processes([worker_start.sys.executable, "-c", "raise SystemExit(3)"], 1)
