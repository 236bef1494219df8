"""HPCG's reference path on 8 ranks, which have edges and corners in common, and on 6, 5, 3 and 2 of them."""

from hpcg_ranks import check_against_dense, check_against_one_rank

RANKS = (8,)
TIMEOUT = 120


def test_eight_ranks(comm):
    check_against_dense(comm, (4, 2, 4), 2)
    check_against_one_rank(comm, (3, 4, 2))


def test_six_five_and_three_ranks(comm):
    for first in (6, 5):
        some = comm.Split(int(comm.rank < first), comm.rank)  # and the rest at the same time
        check_against_dense(some, (4, 2, 4), 2)
        some.Free()
