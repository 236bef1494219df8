"""A quick HPCG run that tests stop half-way, to change what it has made."""

from mpi4py import MPI

from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.hpcg_report import HpcgRecord
from ridgeline.bench.hpcg.hpcg_run import HpcgRun


def prepared(comm: MPI.Comm, **options) -> HpcgRun:
    """Return a quick run on 16^3 points a rank, up to the optimisation. Collective over comm."""
    benchmark = HpcgRun(comm, make_geometry(comm.size, comm.rank, 16, 16, 16), 0, **options)
    benchmark.set_up()
    benchmark.reference_timing()
    benchmark.reference_cg()
    benchmark.optimise()
    return benchmark


def finish(benchmark: HpcgRun) -> HpcgRecord:
    """Run the phases that are left; return the figures, which must be the same on all ranks."""
    benchmark.validate()
    benchmark.optimised_cg()
    benchmark.timed_sets()
    record = benchmark.record()
    assert len(set(benchmark.comm.allgather(repr(record)))) == 1
    return record
