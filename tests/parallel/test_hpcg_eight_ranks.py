"""HPCG's reference path on 6 and 8 ranks, which have edges and corners in common."""

from hpcg_ranks import check_against_dense, check_against_one_rank

RANKS = (8,)
TIMEOUT = 120


def test_eight_and_six_ranks(comm):
    some = comm.Split(int(comm.rank < 6), comm.rank)  # 6 ranks, and 2
    for ranks in (comm, some):
        check_against_dense(ranks, (4, 2, 4), 2)
        check_against_one_rank(ranks, (3, 4, 2))
    some.Free()
