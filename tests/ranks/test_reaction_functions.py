"""Functions of the user on several ranks: the bits of one rank."""

import numpy as np
from mpi4py import MPI

from reaction_diffusion_cases import advance, make_case, owned, start

RANKS = (2, 3, 4)
QUICK_RANKS = (2,)
MINE = """\
def made(A, x, y, z, t):
    return A * (1.0 - A) + 0.1 * x * y / (1.0 + z + t)


def begin(random, x):
    return 0.5 + 0.1 * random if x < 8.0 else 0.25
"""


def test_every_number_of_ranks_gives_the_bits_of_one_rank(comm, folder, monkeypatch):
    monkeypatch.chdir(folder)
    if comm.rank == 0:
        (folder / "mine.py").write_text(MINE)
    comm.Barrier()
    species = [{"name": "A", "diffusivity": 0.1, "rate": "mine.py:made", "initial": "mine.py:begin"}]
    case = make_case(species, (9, 6, 17))
    alone, shared = start(case), start(case, comm)
    for model in (alone, shared):
        advance(model, 6)
    (expected,), (mine,) = owned(alone), owned(shared)
    part = shared.state()["A"]
    place = tuple(slice(o, o + n) for o, n in zip(part.offset_global, mine.shape))
    np.testing.assert_array_equal(mine, expected[place])
    assert comm.allreduce(mine.size) == expected.size
    assert MPI.COMM_WORLD.size == comm.size
