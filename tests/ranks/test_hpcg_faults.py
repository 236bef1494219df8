"""HPCG on two ranks: every phase with both paths, and one wrong halo index on one rank, seen by all."""

import numpy as np
import pytest

from hpcg_quick import finish, prepared
from ridgeline.bench.hpcg import hpcg_run
from ridgeline.bench.hpcg.hpcg_report import make_report, report_text
from ridgeline.bench.hpcg.reference import ReferenceImplementation

RANKS = (2,)
TIMEOUT = 120


@pytest.mark.parametrize("optimised", [True, False])
def test_valid(comm, optimised):
    options = (
        {}
        if optimised
        else {"make_implementation": lambda comm, level, n_threads: ReferenceImplementation(comm, level)}
    )
    record = finish(prepared(comm, **options))
    assert record.failures == []
    assert record.optimised == optimised
    assert record.sizes[0].rows == comm.size * np.prod(record.local)
    if comm.size == 2:
        assert record.reference_residual == pytest.approx(
            7.45e-32, rel=0.1
        )  # as the official code's, near rounding
        assert (record.spectral.plain, record.spectral.preconditioned) == (11, 2)


def wrong_send(plan):
    """Send the row after the one that the neighbour wants."""
    middle = plan.send_index.size // 2
    plan.send_index[middle] = (plan.send_index[middle] + 1) % plan.n_owned


FAULTS = {
    "halo of the problem": lambda run: wrong_send(run.level.matrix.plan),
    "halo of a coarse level": lambda run: wrong_send(run.level.coarse.coarse.matrix.plan),
    "halo of the optimised version": lambda run: wrong_send(run.implementation.level.plan),
    "halo of its coarse level": lambda run: wrong_send(run.implementation.level.coarse.plan),
    "external column": lambda run: run.implementation.level.external.columns.__setitem__(0, 1),
    "external value": lambda run: run.implementation.level.external.values.__setitem__(0, -1.001),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_on_one_rank_makes_the_result_invalid(comm, fault, monkeypatch):
    monkeypatch.setattr(
        hpcg_run, "MOST_ITERATIONS", 60
    )  # enough, and quick where the fault keeps CG from converging
    benchmark = prepared(comm)
    if comm.rank == 1:
        FAULTS[fault](benchmark)
    record = finish(benchmark)
    assert not record.valid
    assert "agreement with the reference" in record.failures
    assert "Final Summary::HPCG result is=INVALID." in report_text(make_report(record))
