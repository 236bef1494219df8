"""The parallel tests' own machinery, seen from inside."""

from mpi4py import MPI

QUICK_RANKS = (3,)


def test_ranks_talk_to_each_other(comm: MPI.Intracomm) -> None:
    assert comm.allgather(comm.rank) == list(range(comm.size))
